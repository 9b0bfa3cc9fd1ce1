"""K2 Horizon: think tags for three efforts, calls as pairs of key and value or as JSON.

The template's variables say which tags and which calls the model writes. Any other is text.
"""

from __future__ import annotations

from dataclasses import replace

from parsers.bodies.json_call import JsonCall
from parsers.bodies.key_value import KeyValues
from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, ToolGrammar

_SECTION, _SECTION_END = "<ifm|tool_calls>", "</ifm|tool_calls>"
_CALL, _CALL_END = "<ifm|tool_call>", "</ifm|tool_call>"
_PAIRS = KeyValues(
    ("<ifm|arg_key>", "</ifm|arg_key>"),
    ("<ifm|arg_value>", "</ifm|arg_value>"),
    done=_CALL_END,
    kind=("<ifm|arg_type>", "</ifm|arg_type>"),
    opaque=True,
)

_EFFORTS = {
    effort: ReasoningGrammar(
        names=("k2_horizon",),
        start=f"<ifm|{word}>",
        end=f"</ifm|{word}>",
        ends=(_SECTION,),
        empty="prompt",
        counted="marked",
        end_counts=True,
        required_tokens=("<ifm|think>", "</ifm|think>"),
        models="K2 Horizon",
        format="<ifm|think> ... </ifm|think>",
        signs=(Signs(template=("<ifm|think",)),),
    )
    for effort, word in (("high", "think"), ("medium", "think_fast"), ("low", "think_faster"))
}
REASONING = replace(_EFFORTS["high"], chosen_by=("reasoning_effort", "high"), variants=_EFFORTS)

_XML = ToolGrammar(
    names=("k2_horizon",),
    content=(On(_SECTION, "section", tentative=True),),
    regions={
        "section": Region(Text.MARKUP, (On(_CALL, "call"), On(_SECTION_END, "content"))),
        "between": Region(Text.DROP, (On(_CALL, "call", tentative=True), On(_SECTION_END, "content"))),
        "call": Region(Text.MARKUP, on_text="name"),
        "name": Region(
            Text.NAME,
            (
                On("<ifm|arg_key>", "arguments", keep=True, as_text=True),
                On(_CALL_END, "arguments", keep=True, as_text=True),
            ),
            known_names=True,
        ),
        "arguments": Region(Text.BODY, (), _PAIRS, then="between"),
    },
    typed=True,
    forced="markup",
    models="K2 Horizon",
    format="<ifm|tool_calls> of names, keys and values, or of JSON objects",
    signs=(Signs(template=("<ifm|tool_call",)),),
)
_JSON = replace(
    _XML,
    regions={
        "section": _XML.regions["section"],
        "between": _XML.regions["between"],
        "call": Region(Text.MARKUP, (On("{", "json", keep=True, as_text=True),)),
        "json": Region(
            Text.BODY,
            (),
            JsonCall(("arguments",), certain_by_name=True, verbatim=True, strict=True),
            then="after",
            known_names=True,
        ),
        "after": Region(
            Text.DROP, (On(_CALL_END, "between"), On(_CALL, "call"), On(_SECTION_END, "content"))
        ),
    },
)
TOOLS = replace(
    _XML, chosen_by=("tool_call_format", "xml"), variants={"json": _JSON, "xml": _XML, "xml_typed": _XML}
)
