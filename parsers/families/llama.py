"""Llama 3.x and 4: JSON objects that stand bare at the start of the answer, or behind `<|python_tag|>`."""

from parsers.bodies.json_call import JsonCall
from parsers.grammar import On, Region, Signs, Text, ToolGrammar
from parsers.tags import LLAMA_TAG

_OBJECT = On("{", "call", keep=True, tentative=True, as_text=True)
_TAG = On("<|python_tag|>", "begin")

_CALL = JsonCall(
    ("parameters", "arguments"),
    certain_by_name=False,
    first=("name", "parameters", "arguments", "type", "id", "function"),
)

TOOLS = ToolGrammar(
    names=("llama3_json", "llama4_json"),
    start="begin",
    content=(_TAG,),
    regions={
        "begin": Region(Text.CONTENT, (_OBJECT, _TAG), on_text="content"),
        "call": Region(Text.BODY, (), _CALL, then="between"),
        "between": Region(Text.DROP, (_OBJECT, On(";", "between", as_text=True))),
    },
    required_tokens=("<|python_tag|>",),
    structural_tag=LLAMA_TAG,
    models="Llama 3.1, 3.2, 3.3, Llama 4",
    format="{name, parameters}",
    signs=(
        Signs(template=("<|start_header_id|>", '"parameters"'), tokens=("<|python_tag|>",)),
        Signs(template=("<|header_start|>", '"parameters"'), tokens=("<|python_tag|>",)),
    ),
)
