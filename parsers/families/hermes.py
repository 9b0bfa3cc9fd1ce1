"""Hermes and Qwen2.5/Qwen3: `<tool_call>` around a JSON object."""

from parsers.bodies.json_call import JsonCall
from parsers.grammar import On, Region, Text, ToolGrammar
from parsers.tags import HERMES_TAG

TOOLS = ToolGrammar(
    names=("hermes", "qwen3_json"),
    content=(On("<tool_call>", "call", tentative=True),),
    regions={
        "call": Region(
            Text.BODY,
            (On("</tool_call>", "after"),),
            JsonCall(("arguments",), certain_by_name=True),
            then="closing",
        ),
        "closing": Region(
            Text.DROP, (On("</tool_call>", "after"), On("<tool_call>", "call", tentative=True))
        ),
        "after": Region(Text.DROP, (On("<tool_call>", "call", tentative=True),)),
    },
    needs_special_tokens="with tools",
    structural_tag=HERMES_TAG,
)
