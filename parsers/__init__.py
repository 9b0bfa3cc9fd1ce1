"""Model output -> reasoning, content and tool calls, incrementally.

Pure: no tokenizer, no HTTP, no clock, no randomness; imports nothing of renderd and can be used alone:

    from parsers import build, RequestContext, Marker
    family = build(reasoning="qwen3", tools="hermes")
    machine = family.start(RequestContext(tools_on=True))
    events = machine.feed(["text of the model ", Marker("<tool_call>"), ...]) + machine.finish()
"""

from parsers.events import Anomaly, CallArguments, CallEnd, CallStart, Content, Event, Marker, Reasoning
from parsers.family import Family, PromptVerdict, RequestContext, UnknownParserError
from parsers.machine import Machine
from parsers.registry import build, reasoning_parser_names, tool_parser_names

__all__ = [
    "Anomaly",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Content",
    "Event",
    "Family",
    "Machine",
    "Marker",
    "PromptVerdict",
    "Reasoning",
    "RequestContext",
    "UnknownParserError",
    "build",
    "reasoning_parser_names",
    "tool_parser_names",
]
