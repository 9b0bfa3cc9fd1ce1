"""Calls as `<invoke name="NAME">` and relatives with attributes: MiniMax M2, Step 3, dots, MiniCPM 5."""

from parsers.bodies.json_call import JsonCall
from parsers.bodies.values import Values
from parsers.bodies.xml_parameters import XmlParameters
from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, ToolGrammar, always_open
from parsers.tags import MINIMAX_TAG


def _name(rejected: str, *, known: bool) -> Region:
    """The region in which a name is read, up to the end of its tag."""
    return Region(
        Text.NAME,
        (On(">", "parameters", as_text=True),),
        known_names=known,
        quoted=True,
        rejected=rejected,
    )


M2 = ReasoningGrammar(
    names=("minimax_m2",),
    start="<think>",
    end="</think>",
    ends=("<minimax:tool_call>",),
    absorbs=True,
    strip=True,
    required_tokens=("<think>", "</think>"),
    models="MiniMax M2",
    format="<think>...</think>",
    signs=(Signs(template=("<minimax:tool_call>", "<think>")),),
)
M2_APPEND = ReasoningGrammar(
    names=("minimax_m2_append_think",),
    start="<think>",
    end="</think>",
    initial=always_open,
    lead="<think>",
    counted="none",
    models="MiniMax M2, its reasoning left in the content",
    format="<think>...</think>",
)
M2_TOOLS = ToolGrammar(
    names=("minimax_m2",),
    content=(On("<minimax:tool_call>", "section"), On("<invoke name=", "name", tentative=True)),
    regions={
        "section": Region(Text.DROP, (On("<invoke name=", "name"), On("</minimax:tool_call>", "content"))),
        "name": _name("skipped", known=True),
        "skipped": Region(
            Text.DROP, (On("</invoke>", "section", as_text=True), On("</minimax:tool_call>", "content"))
        ),
        "parameters": Region(
            Text.BODY,
            (On("</minimax:tool_call>", "content"),),
            XmlParameters("<parameter name=", "</parameter>", ("</invoke>",), values=Values("none")),
            then="section",
        ),
    },
    strip=True,
    absorbs=True,
    doubted=True,
    typed=True,
    needs_special_tokens="always",
    required_tokens=("<minimax:tool_call>", "</minimax:tool_call>"),
    structural_tag=MINIMAX_TAG,
    models="MiniMax M2",
    format='<minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>',
    signs=(Signs(template=("<minimax:tool_call>",)),),
)

STEP3 = ReasoningGrammar(
    names=("step3",),
    end="</think>",
    initial=always_open,
    end_counts=True,
    required_tokens=("</think>",),
    models="Step 3",
    format="...</think>",
    signs=(Signs(template=("</think>", "<steptml:invoke")),),
)
_CALLS, _CALLS_END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"
_CALL, _CALL_END, _SEP = "<｜tool_call_begin｜>", "<｜tool_call_end｜>", "<｜tool_sep｜>"
_LEAVE = (On(_CALL_END, "section"), On(_CALLS_END, "content"))
STEP3_TOOLS = ToolGrammar(
    names=("step3",),
    content=(On(_CALLS, "section", tentative=True),),
    regions={
        "section": Region(Text.DROP, (On(_CALL, "kind"), *_LEAVE)),
        "kind": Region(Text.DROP, (On("function", "kind", as_text=True), On(_SEP, "invoke"), *_LEAVE)),
        "invoke": Region(Text.DROP, (On("<steptml:invoke name=", "name"), *_LEAVE)),
        "name": _name("invoke", known=False),
        "parameters": Region(
            Text.BODY,
            _LEAVE,
            XmlParameters(
                "<steptml:parameter name=",
                "</steptml:parameter>",
                ("</steptml:invoke>",),
                values=Values("blank"),
            ),
            then="invoke",
        ),
    },
    typed=True,
    forced="json",
    needs_special_tokens="with tools",
    models="Step 3",
    format='<steptml:invoke name="NAME"><steptml:parameter name="KEY">VALUE</steptml:parameter>',
    signs=(Signs(template=("<steptml:invoke",)),),
)

_DOTS, _DOTS_END = "<dots_function_call>", "</dots_function_call>"
DOTS = ToolGrammar(
    names=("dots",),
    content=(On(_DOTS, "block", tentative=True),),
    regions={
        "block": Region(
            Text.MARKUP,
            (
                On("<invoke name=", "name"),
                On("{", "json", keep=True, tentative=True, as_text=True),
                On(_DOTS_END, "content"),
            ),
        ),
        "json": Region(
            Text.BODY,
            (On(_DOTS_END, "content"),),
            JsonCall(("arguments",), certain_by_name=False, known=True, strict=True),
            known_names=True,
            then="closing",
        ),
        "name": _name("unknown", known=True),
        "unknown": Region(
            Text.CONTENT,
            (On("<invoke name=", "name", tentative=True), On(_DOTS_END, "content", echo=True)),
        ),
        "parameters": Region(
            Text.BODY,
            (On(_DOTS_END, "content"),),
            XmlParameters("<parameter name=", "</parameter>", ("</invoke>",), values=Values("blank")),
            then="closing",
        ),
        "closing": Region(Text.DROP, (On("<invoke name=", "name", tentative=True), On(_DOTS_END, "content"))),
    },
    typed=True,
    forced="markup",
    models="dots.llm",
    format='<dots_function_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>',
    signs=(Signs(template=(_DOTS,)),),
)

MINICPM5 = ToolGrammar(
    names=("minicpm5",),
    content=(On("<function name=", "name", tentative=True),),
    regions={
        "name": _name("content", known=True),
        "parameters": Region(
            Text.BODY,
            (),
            XmlParameters("<param name=", "</param>", ("</function>",), escapes=True, values=Values("none")),
        ),
    },
    typed=True,
    forced="json",
    needs_special_tokens="with tools",
    models="MiniCPM 5",
    format='<function name="NAME"><param name="KEY">VALUE</param></function>',
    signs=(Signs(template=("<function name=", "<param name=")),),
)
