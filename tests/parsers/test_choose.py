"""`auto` finds the parsers of every family, by templates that have its marks."""

from __future__ import annotations

import json

import pytest

from golden import foreign_templates
from golden.models import model_path
from parsers import ModelFacts, reasoning_parser_names, tool_parser_names
from parsers.choose import choose
from parsers.registry import reasoning_grammars, tool_grammars

CHATML = "<|im_start|>assistant\n"
HEADERS = "<|start_header_id|>assistant<|end_header_id|>"
ROLES = "<|start_of_role|>assistant<|end_of_role|>"
DEEPSEEK = "<｜User｜>{{ user }}<｜Assistant｜>{{ text.split('</think>')[-1] }}"
DEEPSEEK_CALLS = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ name }}<｜tool▁sep｜>"
JSON_CALL = '<tool_call>{"name": "{{ name }}", "arguments": {{ arguments }}}</tool_call>'
THINK = ("<think>", "</think>")

FAMILIES: list[tuple[str | None, str | None, str, tuple[str, ...], str | None]] = [
    ("qwen3", "hermes", f"{CHATML}<think>{{{{ enable_thinking }}}}{JSON_CALL}", THINK, "qwen3"),
    (None, "hermes", CHATML + JSON_CALL, (), "qwen2"),
    (
        "qwen3",
        "qwen3_coder",
        CHATML + "<think><tool_call><function=f><parameter=p>v</parameter></function></tool_call>",
        (*THINK, "<tool_call>", "</tool_call>"),
        "qwen3_next",
    ),
    (
        "step3p5",
        "step3p5",
        CHATML + "<think><tool_call><function=f><parameter=p>v</parameter></function></tool_call>",
        (*THINK, "<tool_call>", "</tool_call>"),
        "step3p5",
    ),
    (
        "mimo",
        "mimo",
        CHATML + "<think><tool_call><function=f><parameter=p>v</parameter></function></tool_call>",
        (*THINK, "<tool_call>", "</tool_call>"),
        "mimo_v2_flash",
    ),
    (
        "minicpmv",
        "qwen3_coder",
        CHATML + "<think><tool_call><function=f><parameter=p>v</parameter></function></tool_call>",
        (*THINK, "<tool_call>", "</tool_call>"),
        "minicpmv",
    ),
    (
        "nemotron_v3",
        "qwen3_coder",
        CHATML + "<think><tool_call><function=f><parameter=p>v</parameter></function></tool_call>",
        (*THINK, "<tool_call>", "</tool_call>"),
        "nemotron_h",
    ),
    (
        "seed_oss",
        "seed_oss",
        "<seed:bos>assistant<seed:think><seed:tool_call><function=f></seed:tool_call>",
        ("<seed:think>", "</seed:think>", "<seed:tool_call>", "</seed:tool_call>"),
        "seed_oss",
    ),
    (None, "longcat", "<longcat_tool_call>{}</longcat_tool_call>", (), "longcat_flash"),
    (
        "granite_thinking_parser",
        "granite4",
        ROLES + "<think>{{ enable_thinking }}" + JSON_CALL,
        THINK,
        "granite",
    ),
    ("holo2", "hermes", CHATML + "thinking <think>" + JSON_CALL, THINK, "qwen3_vl"),
    ("holo2", "hermes", CHATML + "thinking <think>" + JSON_CALL, THINK, "qwen3_vl_moe"),
    ("qwen3", "hermes", CHATML + "<think>" + JSON_CALL, THINK, "qwen3_vl"),
    ("qwen3", "hermes", CHATML + "enable_thinking <think>" + JSON_CALL, THINK, "qwen3_vl"),
    (
        "step5",
        "step5",
        "<think><tool_call><function=f><parameter=p>v</parameter></function></tool_call>",
        (*THINK, "<tool_call>", "</tool_call>"),
        "step5",
    ),
    (None, "llama3_json", HEADERS + '{"name": n, "parameters": p}', ("<|python_tag|>",), "llama"),
    ("deepseek_r1", "deepseek_v3", DEEPSEEK + DEEPSEEK_CALLS + "```json", (*THINK, *"abcd"), "deepseek_v3"),
    (
        "deepseek_v3",
        "deepseek_v31",
        DEEPSEEK + "{% set thinking = false %}" + DEEPSEEK_CALLS,
        THINK,
        "deepseek_v3",
    ),
    (
        None,
        "llama4_pythonic",
        "[func_name1(params_name1=v)]",
        ("<|python_start|>", "<|python_end|>"),
        "llama4",
    ),
    (None, "pythonic", HEADERS + "[func_name1(params_name1=v)]", (), "llama"),
    ("olmo3", "olmo3", CHATML + "<think><function_calls>f(a=1)</function_calls>", (), "olmo3"),
    (None, "lfm2", CHATML, ("<|tool_call_start|>", "<|tool_call_end|>"), "lfm2"),
    ("granite", "granite", ROLES + "<|tool_call|>Here is my thought process:", ("<|tool_call|>",), "granite"),
    (None, "granite4", ROLES + JSON_CALL, (), "granitemoehybrid"),
    (None, "granite-20b-fc", "<function_call> {}", (), "gpt_bigcode"),
    (None, "phi4_mini_json", "<|tool|>functools[", (), "phi3"),
    (
        "hunyuan_a13b",
        "hunyuan_a13b",
        "<think></think><answer></answer><tool_calls></tool_calls>",
        (),
        "hunyuan_v1_moe",
    ),
    ("ernie45", "ernie45", f"<think></think><response></response>{JSON_CALL}", THINK, "ernie4_5_moe"),
    (None, "jamba", "<tool_calls>[]</tool_calls>", (), "jamba"),
    (
        None,
        "internlm",
        "<|action_start|><|plugin|><|action_end|>",
        ("<|action_start|>", "<|plugin|>", "<|action_end|>"),
        "internlm2",
    ),
    (
        None,
        "gigachat3",
        "assistant<|role_sep|>function call<|role_sep|>",
        ("<|function_call|>",),
        "deepseek_v3",
    ),
    (None, "xlam", CHATML + "a single JSON array of {name, arguments}", (), "qwen2"),
    (None, "apertus", "<|tools_prefix|>[]<|tools_suffix|>", (), "apertus"),
    (
        "glm45",
        "glm45",
        "[gMASK]<sop><|assistant|><think></think><tool_call>{{ name }}<arg_key></arg_key></tool_call>",
        THINK,
        "glm4_moe",
    ),
    ("ling3", "ling3", "<role>ASSISTANT</role><think><tool_call><arg_key></tool_call>", THINK, "bailing_moe"),
    ("poolside_v1", "poolside_v1", "<assistant><think><tool_call>{{ n }}<arg_key>k", THINK, "laguna"),
    (
        "hy_v3",
        "hy_v3",
        "<think><tool_calls><tool_call>{{ name }}<tool_sep><arg_key></tool_call></tool_calls>",
        (*THINK, "<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>"),
        "hy_v3",
    ),
    (
        "hy_v4",
        "hy_v4",
        "<think><tool_calls><tool_call>{{ name }}<arg_key></tool_call></tool_calls>",
        (*THINK, "<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>"),
        "hy",
    ),
    (
        "k2_horizon",
        "k2_horizon",
        "<ifm|think>{{ thoughts }}<ifm|tool_calls><ifm|tool_call>",
        (),
        "k2_horizon",
    ),
    (
        "deepseek_v3",
        "deepseek_v32",
        DEEPSEEK + "{% set thinking = false %}<｜DSML｜function_calls>",
        THINK,
        None,
    ),
    ("deepseek_v4", "deepseek_v4", DEEPSEEK + "<｜DSML｜tool_calls>", THINK, "deepseek_v4"),
    ("deepseek_v41", "deepseek_v41", DEEPSEEK + "<｜DSML｜ calls>", THINK, "deepseek_v4"),
    (
        "minimax_m2",
        "minimax_m2",
        "]~b]ai<think><minimax:tool_call><invoke name=n></minimax:tool_call>",
        (*THINK, "<minimax:tool_call>", "</minimax:tool_call>"),
        "minimax_m2",
    ),
    ("step3", "step3", "<think></think><steptml:invoke name=n>", THINK, "step3_text"),
    (None, "dots", "<dots_function_call><invoke name=n>", (), "dots1"),
    (None, "minicpm5", CHATML + '<function name="n"><param name="k">', (), "minicpm"),
    ("gemma4", "gemma4", "<|turn>model<|channel>thought", ("<|channel>", "<channel|>"), "gemma4"),
    (
        None,
        "functiongemma",
        "<start_of_turn>model<start_function_call>call:f{}<end_function_call>",
        (),
        "gemma3",
    ),
    ("minimax_m3", "minimax_m3", "]~b]ai<mm:think>]<]minimax[>[", (), "minimax_m3"),
    ("kimi_k3", "kimi_k3", "<|open|>think<|sep|><|close|>think<|sep|>", (), "kimi_k3"),
    ("kimi_k2", "kimi_k2", "<|im_assistant|>assistant<|im_middle|>", THINK, "kimi_k2"),
    ("mistral", "mistral", "[INST]{{ user }}[/INST]", ("[TOOL_CALLS]", "[ARGS]", "[THINK]"), "mistral"),
    ("openai_gptoss", "openai", "<|start|>assistant<|channel|>final<|message|>", (), "gpt_oss"),
    ("inkling", "inkling", "<|message_model|>", (), "inkling"),
    ("muse", "muse", "<|start|>assistant to=user<|message|><atem:invoke name=", (), "muse"),
    ("cohere_command3", "cohere_command3", "<|START_RESPONSE|>", ("<|START_RESPONSE|>",), "cohere2"),
    ("cohere_command4", "cohere_command4", "<|START_TEXT|>", ("<|START_TEXT|>",), "cohere2"),
    (
        "plamo3",
        "plamo3",
        "<|plamo:begin_think:plamo|>{{ thoughts }}<|plamo:begin_tool_requests:plamo|>",
        (),
        "plamo3",
    ),
]
"""Reasoning and tool parser, and what shows them: chat template, vocabulary, model type."""

_KNOWN = ({None, *reasoning_parser_names()}, {None, *tool_parser_names()})
_NAMES = _KNOWN[0] | _KNOWN[1]
_TRIED = [family for family in FAMILIES if family[0] in _KNOWN[0] and family[1] in _KNOWN[1]]


@pytest.mark.parametrize(
    ("reasoning", "tools", "template", "tokens", "model_type"),
    _TRIED,
    ids=[f"{family[0] or ''}+{family[1] or ''}" for family in _TRIED],
)
def test_families(
    reasoning: str | None, tools: str | None, template: str, tokens: tuple[str, ...], model_type: str | None
) -> None:
    needed = {
        token
        for grammars, name in ((reasoning_grammars(), reasoning), (tool_grammars(), tools))
        for grammar in grammars
        if name in grammar.names
        for token in (
            *getattr(grammar, "required_tokens", ()),
            *(token for signs in grammar.signs for token in signs.tokens),
        )
    }
    facts = ModelFacts(
        is_token=lambda text: text in tokens or text in needed, chat_template=template, model_type=model_type
    )
    assert tuple(pick.name for pick in choose(facts)) == (reasoning, tools)


@pytest.mark.parametrize(
    ("name", "picks"),
    [("qwen3", ("qwen3", "hermes")), ("deepseek_v3", (None, "deepseek_v3")), ("gemma3", (None, None))],
)
def test_templates_of_real_models(name: str, picks: tuple[str | None, str | None]) -> None:
    folder = model_path(name)
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = {token["content"] for token in tokenizer["added_tokens"]}
    facts = ModelFacts(is_token=tokens.__contains__, chat_template=config["chat_template"])
    assert tuple(pick.name for pick in choose(facts)) == picks


def test_the_reason_for_none_says_what_is_missing() -> None:
    facts = ModelFacts(is_token=THINK.__contains__, chat_template="<｜User｜>{{ user }}<｜Assistant｜>")
    reason = choose(facts)[0].reason
    assert reason.endswith("; the nearest is deepseek_r1, but the chat template lacks '</think>'")


REAL: dict[str, tuple[str | None, str | None]] = {
    "Apertus-8B-Instruct": (None, "apertus"),
    "Cohere2MoE": ("cohere_command4", "cohere_command4"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("cohere_command3", "cohere_command3"),
    "GLM-4.6": ("glm45", "glm45"),
    "GLM-4.7-Flash": ("glm45", "glm45"),
    "ByteDance-Seed-OSS": ("seed_oss", "seed_oss"),
    "GigaChat3-10B-A1.8B": (None, "gigachat3"),
    "Kimi-K2-Thinking": ("kimi_k2", "kimi_k2"),
    "Kimi-K3": ("kimi_k3", "kimi_k3"),
    "LFM2.5-8B-A1B": ("qwen3", "lfm2"),
    "MiniMax-M2": ("minimax_m2", "minimax_m2"),
    "MiniMax-M3": ("minimax_m3", "minimax_m3"),
    "Mistral-Small-3.2-24B-Instruct-2506": (None, "mistral"),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": (None, "hermes"),
    "Qwen-QwQ-32B": ("qwen3", "hermes"),
    "Qwen-Qwen2.5-7B-Instruct": (None, "hermes"),
    "Qwen-Qwen3-0.6B": ("qwen3", "hermes"),
    "Qwen3-Coder": (None, "qwen3_coder"),
    "Qwen3.5-4B": ("qwen3", "qwen3_coder"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseek_r1", "deepseek_v3"),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek_v3", "deepseek_v31"),
    "deepseek-ai-DeepSeek-V3.2": ("deepseek_v3", "deepseek_v32"),
    "deepseek-ai-DeepSeek-V4": ("deepseek_v4", "deepseek_v4"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": ("deepseek_v4", "deepseek_v4"),
    "google-gemma-2-2b-it": (None, None),
    "google-gemma-4-31B-it": ("gemma4", "gemma4"),
    "ibm-granite-granite-3.3-2B-Instruct": (None, "granite"),
    "ibm-granite-granite-4.0": (None, "granite4"),
    "inclusionai-ling-3.0-flash": ("ling3", "ling3"),
    "meetkai-functionary-medium-v3.1": (None, None),
    "meta-llama-Llama-3.1-8B-Instruct": (None, "llama3_json"),
    "meta-llama-Llama-3.3-70B-Instruct": (None, "llama3_json"),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("mistral", "mistral"),
    "muse-glimmer": ("muse", "muse"),
    "openbmb-MiniCPM5-1B": ("qwen3", "minicpm5"),
    "poolside-Laguna-S-2.1": (None, "poolside_v1"),
    "moonshotai-Kimi-K2": ("kimi_k2", "kimi_k2"),
    "upstage-Solar-Open-100B": (None, None),
}
"""What is picked for templates of real models, over a vocabulary of what they write and what most have."""

_COMMON = ("<|python_tag|>", *THINK, "<tool_call>", "</tool_call>")


@pytest.mark.parametrize("name", [name for name, picks in REAL.items() if set(picks) <= _NAMES])
def test_real_templates(name: str) -> None:
    template = foreign_templates.templates().get(name)
    if template is None:
        pytest.skip("run `python -m golden.foreign_templates`")
    facts = ModelFacts(is_token=lambda text: text in template or text in _COMMON, chat_template=template)
    assert tuple(pick.name for pick in choose(facts)) == REAL[name]


def test_every_family_is_there() -> None:
    tried = ({family[0] for family in FAMILIES}, {family[1] for family in FAMILIES})
    missing = [
        names[0]
        for kind, grammars in enumerate((reasoning_grammars(), tool_grammars()))
        for names in (grammar.names for grammar in grammars)
        if not tried[kind].intersection(names)
    ]
    # asked for by name: the format of the first two is data, and the third is another wish for MiniMax M2
    assert set(missing) <= {"beam", "hf", "minimax_m2_append_think", "muse_glimmer"}
