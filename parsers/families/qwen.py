"""Qwen3 and Qwen3-Coder: `<think>` reasoning, calls in XML."""

from parsers.bodies.xml_parameters import XmlParameters
from parsers.grammar import On, ReasoningGrammar, Region, Signs, Text, ToolGrammar, open_unless_disabled
from parsers.tags import QWEN_CODER_TAG

REASONING = ReasoningGrammar(
    names=("qwen3",),
    start="<think>",
    end="</think>",
    initial=open_unless_disabled,
    ends=("<tool_call>",),
    boundary=("<|im_start|>", "<|im_end|>"),
    absorbs=True,
    required_tokens=("<think>", "</think>"),
    models="Qwen3, QwQ",
    format="<think>...</think>",
    signs=(Signs(template=("<|im_start|>", "<think>")),),
)

_PARAMETERS = XmlParameters(
    opening="<parameter=", closing="</parameter>", done=("</function>",), stops=("<function=",)
)

TOOLS = ToolGrammar(
    names=("qwen3_coder", "qwen3_xml"),
    content=(
        On("<tool_call>", "wrapper"),
        On(
            "<function=", "bare_name", tentative=True, as_text=True
        ),  # models leave the wrapper out; prose names no real function
    ),
    regions={
        "wrapper": Region(
            Text.DROP,
            (
                On("<function=", "name", as_text=True),
                On("<tool_call>", "wrapper"),
                On("</tool_call>", "content"),
            ),
        ),
        "name": Region(Text.NAME, (On(">", "parameters", as_text=True),), rejected="wrapper"),
        "bare_name": Region(Text.NAME, (On(">", "parameters", as_text=True),), known_names=True),
        "parameters": Region(Text.BODY, (On("<tool_call>", "wrapper"),), _PARAMETERS, then="between"),
        "between": Region(
            Text.DROP,
            (
                On("</tool_call>", "content"),
                On("<tool_call>", "wrapper"),
                On("<function=", "name", as_text=True),
            ),
        ),
    },
    strip=True,
    absorbs=True,
    typed=True,
    needs_special_tokens="always",
    required_tokens=("<tool_call>", "</tool_call>"),
    structural_tag=QWEN_CODER_TAG,
    models="Qwen3-Coder, Qwen3-Next, Qwen3.5",
    format="<function=NAME><parameter=KEY>VALUE</parameter></function>",
    signs=(Signs(template=("<tool_call>", "<function=", "<parameter=")),),
)
