"""Hermes and Qwen2.5/Qwen3: `<tool_call>` around a JSON object."""

from parsers.bodies.json_call import JsonCall
from parsers.grammar import On, Region, Signs, Text, ToolGrammar
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
    models="Hermes 2 and 3, Qwen2.5, QwQ, Qwen3",
    format="<tool_call>{name, arguments}</tool_call>",
    signs=(
        Signs(
            template=("<tool_call>", "</tool_call>", "arguments"),
            lacks=("<function=", "<arg_key>", "<response>", "<tool_calls>"),
        ),
    ),
)
