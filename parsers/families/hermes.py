"""Hermes, Qwen2.5 and Qwen3: `<tool_call>` around a JSON object. LongCat has a word of its own."""

from dataclasses import replace

from parsers.bodies.json_call import JsonCall
from parsers.grammar import On, Region, Signs, Text, ToolGrammar
from parsers.tags import HERMES_TAG, LONGCAT_TAG


def _calls(start: str, end: str) -> ToolGrammar:
    opens, closes = On(start, "call", tentative=True), On(end, "after")
    body = JsonCall(("arguments",), certain_by_name=True)
    return ToolGrammar(
        names=(),
        content=(opens,),
        regions={
            "call": Region(Text.BODY, (closes,), body, then="closing"),
            "closing": Region(Text.DROP, (closes, opens)),
            "after": Region(Text.DROP, (opens,)),
        },
        needs_special_tokens="with tools",
        format=f"{start}{{name, arguments}}{end}",
    )


TOOLS = replace(
    _calls("<tool_call>", "</tool_call>"),
    names=("hermes", "qwen3_json"),
    structural_tag=HERMES_TAG,
    models="Hermes 2 and 3, Qwen2.5, QwQ, Qwen3",
    signs=(
        Signs(
            template=("<tool_call>", "</tool_call>", "arguments"),
            lacks=("<function=", "<arg_key>", "<response>", "<tool_calls>"),
        ),
    ),
)
LONGCAT = replace(
    _calls("<longcat_tool_call>", "</longcat_tool_call>"),
    names=("longcat",),
    structural_tag=LONGCAT_TAG,
    models="LongCat Flash",
    signs=(Signs(template=("<longcat_tool_call>",)),),
)
