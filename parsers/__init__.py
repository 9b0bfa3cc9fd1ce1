"""Model output -> reasoning, content and tool calls, incrementally.

Pure: no tokenizer, no HTTP, no clock, no randomness; imports nothing of renderd and can be used alone:

    from parsers import build, RequestContext, Marker
    family = build(reasoning="qwen3", tools="hermes")
    context = family.context(tools, "auto", {}, "unknown")
    machine = family.start(context, family.markers)
    events = machine.feed(["text of the model ", Marker("<tool_call>"), ...]) + machine.finish()
"""

from parsers.events import (
    Anomaly,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Event,
    Lexeme,
    Marker,
    Reasoning,
    Special,
)
from parsers.family import Family, UnfitRequestError, UnknownParserError
from parsers.grammar import ModelFacts, ReasoningGrammar, ToolGrammar, UnfitModelError
from parsers.machine import Machine
from parsers.prompt_markers import PromptVerdict
from parsers.registry import (
    MixedParsersError,
    build,
    reasoning_parser_names,
    register,
    tool_parser_names,
)
from parsers.state import State
from parsers.table import RequestContext, Table

__all__ = [
    "Anomaly",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Content",
    "Event",
    "Family",
    "Lexeme",
    "Machine",
    "Marker",
    "MixedParsersError",
    "ModelFacts",
    "PromptVerdict",
    "Reasoning",
    "ReasoningGrammar",
    "RequestContext",
    "Special",
    "State",
    "Table",
    "ToolGrammar",
    "UnfitModelError",
    "UnfitRequestError",
    "UnknownParserError",
    "build",
    "reasoning_parser_names",
    "register",
    "tool_parser_names",
]
