"""The names of vLLM 0.33.0's parsers, and the pairs of them that the tests try."""

from __future__ import annotations

_TOOLS = """
    apertus beam cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4
    deepseek_v41 dots
    ernie45 functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hf
    hunyuan_a13b hy_v3 hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3_json
    llama4_json llama4_pythonic longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse muse_glimmer
    musespark1x olmo3 openai phi4_mini_json plamo3 poolside_v1 pythonic qwen3_coder qwen3_json qwen3_xml
    seed_oss step3 step3p5 step5 xlam
"""

_REASONING = """
    beam cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 ernie45 gemma4 glm45
    glm47 granite granite_thinking_parser hf holo2 hunyuan_a13b hy_v3 hy_v4 inkling k2_horizon kimi_k2 kimi_k3
    ling3 mimo minicpmv minimax_m2 minimax_m2_append_think minimax_m3 mistral muse muse_glimmer musespark1x
    nemotron_v3 olmo3 openai_gptoss plamo3 poolside_v1 qwen3 seed_oss step3 step3p5 step5
"""

TOOLS = tuple(_TOOLS.split())
REASONING = tuple(_REASONING.split())

_USUAL = {
    "deepseek_r1": ("deepseek_v3",),
    "deepseek_v3": ("deepseek_v31", "deepseek_v32"),
    "granite_thinking_parser": ("hermes", "qwen3_coder"),
    "holo2": ("hermes",),
    "minicpmv": ("qwen3_coder",),
    "minimax_m2_append_think": ("minimax_m2",),
    "nemotron_v3": ("qwen3_coder",),
    "openai_gptoss": ("openai",),
    "qwen3": ("hermes", "qwen3_coder", "qwen3_xml", "qwen3_json"),
    "glm45": ("glm47",),
}
_TOGETHER = {"hf", "beam"}
"""Names that only go with themselves."""

_ALONE = [*((name, None) for name in REASONING), *((None, name) for name in TOOLS)]
_OWN = [(name, name) for name in REASONING if name in TOOLS]
_KNOWN = [(name, other) for name, others in _USUAL.items() for other in others]
_FOREIGN = [("qwen3", name) for name in TOOLS] + [(name, "hermes") for name in REASONING]

PAIRS: list[tuple[str | None, str | None]] = [
    pair
    for pair in dict.fromkeys([*_ALONE, *_OWN, *_KNOWN, *_FOREIGN])
    if not (_TOGETHER & {*pair}) or None in pair or pair[0] == pair[1]
]
"""Every name alone, with its own kind, and with one of another family."""
