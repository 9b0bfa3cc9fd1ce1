"""The call markup of every family whose calls are constrained at generation."""

from parsers.tags.arguments import GLM_WORDS, glm_arguments, hy_arguments, k3_arguments, k3_escaped
from parsers.tags.build import Section, TagModel
from parsers.tags.frames import cohere_answer, harmony_answer, harmony_calls, harmony_final, k3_answer

_THINK = ("<think>", "</think>")


def _json_object(word: str) -> TagModel:
    """A JSON object between `<word>` and `</word>`, on lines of their own or not."""
    return TagModel(
        calls=(
            (f'<{word}>\n{{"name": "{{name}}", "arguments": ', f"}}\n</{word}>"),
            (f'<{word}>{{"name": "{{name}}", "arguments": ', f"}}</{word}>"),
        ),
        trigger=f"<{word}>",
        forced="listed",
    )


HERMES_TAG = _json_object("tool_call")
LONGCAT_TAG = _json_object("longcat_tool_call")
QWEN_CODER_TAG = TagModel(
    calls=(("<tool_call>\n<function={name}>\n", "\n</function>\n</tool_call>"),),
    trigger="<tool_call>\n<function=",
    style="qwen_xml",
    excludes=_THINK,
)
MIMO_TAG = TagModel(
    calls=(("<tool_call><function={name}>", "</function></tool_call>"),),
    trigger="<tool_call>",
    style="qwen_xml",
    excludes=(*_THINK, "</tool_call>", "<function="),
)
LLAMA_TAG = TagModel(
    calls=(('{"name": "{name}", "parameters": ', "}"),),
    trigger='{"name": ',
    excludes=_THINK,
)
DEEPSEEK_V3_TAG = TagModel(
    calls=(("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n", "\n```<｜tool▁call▁end｜>"),),
    trigger="<｜tool▁calls▁begin｜>",
    excludes=_THINK,
    section=Section("<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>", one="joined"),
)
DEEPSEEK_V31_TAG = TagModel(
    calls=(("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),),
    trigger="<｜tool▁calls▁begin｜>",
    excludes=_THINK,
    section=Section("<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>", one="joined"),
)


def _dsml(section: str, call: str, style: str) -> TagModel:
    return TagModel(
        calls=((f'<｜DSML｜{call} name="{{name}}">\n', f"</｜DSML｜{call}>\n"),),
        trigger=f"<｜DSML｜{section}>",
        style=style,
        excludes=_THINK,
        section=Section(f"<｜DSML｜{section}>\n", "", f"</｜DSML｜{section}>", lead="\n\n"),
    )


DEEPSEEK_V32_TAG = _dsml("function_calls", "invoke", "deepseek_xml")
DEEPSEEK_V4_TAG = _dsml("tool_calls", "invoke", "deepseek_xml")
DEEPSEEK_V41_TAG = _dsml(" calls", " invoke", "deepseek_v4_1_xml")
KIMI_K2_TAG = TagModel(
    calls=(("<|tool_call_begin|>functions.{name}:", "<|tool_call_end|>"),),
    number=(r"\d+", "<|tool_call_argument_begin|>"),
    trigger="<|tool_calls_section_begin|>",
    excludes=(*_THINK, "<|tool_call_begin|>"),
    section=Section("<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>", lead=""),
)
KIMI_K3_TAG = TagModel(
    calls=(('<|open|>call tool="{name}" index="', "<|close|>call<|sep|>"),),
    number=("[0-9]+", '"<|sep|>'),
    trigger="<|open|>tools<|sep|>",
    escape=k3_escaped,
    arguments=k3_arguments,
    frame=k3_answer,
)
GLM_TAG = TagModel(
    calls=(("<tool_call>{name}", "</tool_call>"),),
    trigger="<tool_call>",
    arguments=glm_arguments,
    excludes=(*_THINK, "</tool_call>", *GLM_WORDS),
    forced="loose",
)
MINIMAX_TAG = TagModel(
    calls=(('<invoke name="{name}">\n', "</invoke>\n"),),
    trigger="<minimax:tool_call>",
    style="minimax_xml",
    excludes=_THINK,
    section=Section("<minimax:tool_call>\n", "", "</minimax:tool_call>", lead="\n", one="list"),
)
PLAMO3_TAG = TagModel(
    calls=(
        (
            "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}"
            "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>"
            "<|plamo:constrain|>json<|plamo:msg|>",
            "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        ),
    ),
    trigger="<|plamo:begin_tool_requests:plamo|>",
    section=Section(
        "<|plamo:begin_tool_requests:plamo|>",
        "",
        ("<|plamo:end_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|><|plamo:tag|>"),
        one="list",
    ),
)
COHERE_TAG = TagModel(calls=(("{name}", ""),), trigger="<|START_ACTION|>", frame=cohere_answer)
HARMONY_TAG = TagModel(
    calls=harmony_calls(), trigger="<|channel|>", frame=harmony_answer, answer=harmony_final
)


def hy_v4_tag(suffix: str) -> TagModel:
    """Hunyuan v4. `suffix`: what a checkpoint ends all its words in, such as ":opensource"."""
    return TagModel(
        calls=((f"<tool_call{suffix}>{{name}}", f"</tool_call{suffix}>"),),
        trigger=f"<tool_calls{suffix}>",
        arguments=hy_arguments(suffix),
        section=Section(f"<tool_calls{suffix}>", "", f"</tool_calls{suffix}>", lead="", one="list"),
        free=True,
    )
