"""What can be wrong with a recorded value, each as a check that a machine makes on the recording.

A check answers None when the recorded value shows the defect, else a sentence that says why it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from renderd.conformance.cases import Case, Recording
from renderd.conformance.envelope import details_fault
from renderd.conformance.formats import outline
from renderd.conformance.paths import ABSENT, Path, get, show
from renderd.conformance.texts import (
    MARKUP,
    MARKUP_BEGINS,
    calls_of,
    json_value,
    pieces_of,
    raw_strings,
    strings,
    text_of,
)


class Evidence(msgspec.Struct, frozen=True):
    """A place where an answer differs from the recorded one.

    Attributes:
        where: "render", "batch", "stream", "http" or "error".
        view: the whole recorded value that was compared.
        recorded, ours: the two values at `path`; `ours` is UNKNOWN when only an answer could tell.
    """

    case: Case
    recording: Recording
    where: str
    view: Any
    path: Path
    recorded: Any
    ours: Any

    @property
    def choice(self) -> int:
        """Which choice the place belongs to."""
        place = self.path[1:2] if self.path[:1] == ("choices",) else ()
        return place[0] if place and isinstance(place[0], int) else 0

    @property
    def output(self) -> str:
        """The text that the engine was made to generate; none when the answer is to echo other text too."""
        return "" if self.case.request.get("echo") else self.case.text(self.choice)

    def recorded_choice(self) -> dict[str, Any]:
        """The whole recorded choice."""
        found = get(self.view, ("choices", self.choice))
        return found if isinstance(found, dict) else {}


class _Unknown:
    def __repr__(self) -> str:
        return "(unknown before it is asked)"


UNKNOWN = _Unknown()

Check = Callable[[Evidence], str | None]

_ELSEWHERE = "it says nothing of this place"


def _message(evidence: Evidence) -> Any:
    choice = evidence.recorded_choice()
    return choice.get("message", choice.get("text"))


def _tools(evidence: Evidence) -> dict[str, Any]:
    """The parameter schemas of the request's tools, by name. Requests that were refused may have any."""
    tools = evidence.case.request.get("tools")
    functions = [get(tool, ("function",)) for tool in tools] if isinstance(tools, list) else []
    return {str(get(one, ("name",))): one.get("parameters") for one in functions if isinstance(one, dict)}


def _differ(left: Any, right: Any) -> bool:
    empty: tuple[Any, ...] = (ABSENT, None, "", [])
    return bool(left != right) and not (left in empty and right in empty)


def stream_differs_from_batch(evidence: Evidence) -> str | None:
    batch = evidence.recording.view("batch")
    stream = evidence.recording.view("stream")
    if any(view is ABSENT or isinstance(view.get("status"), int) for view in (batch, stream)):
        return "batch and stream were not both recorded"
    left, right = get(outline(batch), evidence.path), get(stream, evidence.path)
    return None if _differ(left, right) else f"batch and stream both say {left!r}"


def text_lost(evidence: Evidence) -> str | None:
    if evidence.ours is UNKNOWN:
        return "`ours` must say which text is there"
    output, recorded = pieces_of(evidence.output), pieces_of(_message(evidence))
    ours = pieces_of({str(evidence.path[-1]) if evidence.path else "": evidence.ours})
    if any(output[piece] >= count > recorded[piece] for piece, count in ours.items()):
        return None
    return "the recorded message has all of the output's text that ours has"


def text_repeated(evidence: Evidence) -> str | None:
    output, recorded = pieces_of(evidence.output), pieces_of(_message(evidence))
    if not output:
        return "the case does not say which text was generated"
    return None if recorded - output else "the recorded message has no text more often than the output"


def text_altered(evidence: Evidence) -> str | None:
    if not isinstance(evidence.recorded, str) or not isinstance(evidence.ours, str):
        return "both values must be text"
    if evidence.ours not in evidence.output:
        return "our text is not in the output as it stands"
    return "the recorded text is in the output as it stands" if evidence.recorded in evidence.output else None


def whitespace_lost(evidence: Evidence) -> str | None:
    ours, recorded = (text_of(value) for value in (evidence.ours, evidence.recorded))
    if ours.split() != recorded.split() or len(ours) <= len(recorded):
        return "the recorded text is not ours with less white space"
    return None if ours in evidence.output else "our text is not in the output as it stands"


def text_misplaced(evidence: Evidence) -> str | None:
    message = _message(evidence)
    if not isinstance(message, dict) or not evidence.ours or evidence.ours is UNKNOWN:
        return "`ours` must be the text that stands elsewhere in the recorded message"
    others = [message.get(key) for key in ("content", "reasoning") if key not in evidence.path[-1:]]
    ours = [text.strip() for text in raw_strings(evidence.ours)]
    if any(ours) and any(all(text in (other or "") for text in ours) for other in others):
        return None
    return "our text is in no other part of the recorded message"


def markup_in_content(evidence: Evidence) -> str | None:
    ours, recorded = text_of(evidence.ours), text_of(evidence.recorded)
    if any(mark in evidence.output and mark not in ours for mark in MARKUP.findall(recorded)):
        return None
    return "the recorded text has no markup of the output that ours has not"


def markup_dropped(evidence: Evidence) -> str | None:
    if evidence.ours is UNKNOWN:
        return "`ours` must say which markup is there"
    recorded = " ".join(text for _, text in strings(_message(evidence)))
    if any(
        mark in evidence.output and mark not in recorded for mark in MARKUP.findall(text_of(evidence.ours))
    ):
        return None
    return "the recorded message has all markup that ours has"


def invalid_json_arguments(evidence: Evidence) -> str | None:
    choice = evidence.recorded_choice()
    if "tool_calls" not in evidence.path:
        return _ELSEWHERE
    if choice.get("finish_reason") == "length" or isinstance(choice.get("stop_reason"), str):
        return "the output was cut, its last call may be unfinished"
    calls = list(calls_of(choice))
    if any(json_value(call["arguments"]) is ABSENT for call in calls):
        return None
    return "all recorded arguments are valid JSON" if calls else "no call was recorded"


def arguments_break_schema(evidence: Evidence) -> str | None:
    if "tool_calls" not in evidence.path:
        return _ELSEWHERE
    tools = _tools(evidence)
    for call in calls_of(evidence.recorded_choice()):
        schema = tools.get(call["name"]) or {}
        arguments = json_value(call["arguments"])
        for key, value in (arguments if isinstance(arguments, dict) else {}).items():
            types = _types((schema.get("properties") or {}).get(key), schema)
            if types and not types & _types_of(value):
                return None
    return "every recorded argument is of a type that its schema allows"


def unknown_tool(evidence: Evidence) -> str | None:
    found = [call["name"] for call in calls_of(evidence.recorded_choice())]
    known = set(found) <= set(_tools(evidence))
    return f"the recorded calls {found} are of tools that the request has" if known else None


def call_from_lookalike(evidence: Evidence) -> str | None:
    pieces = evidence.case.pieces(evidence.choice)
    marks = MARKUP.findall("".join(pieces))
    if pieces and all(any(mark in piece for piece in pieces) for mark in marks):
        return "all markup of the output is whole in one of its pieces"
    if not pieces:
        return "the output is not given in pieces"
    return None if list(calls_of(evidence.recorded_choice())) else "no call was recorded"


def finish_contradicts_calls(evidence: Evidence) -> str | None:
    if not {"finish_reason", "tool_calls"} & set(evidence.path):
        return _ELSEWHERE
    choice = evidence.recorded_choice()
    calls, finish = list(calls_of(choice)), choice.get("finish_reason")
    named = isinstance(evidence.case.request.get("tool_choice"), dict)
    if (
        (finish == "tool_calls") != bool(calls)
        and not (named and finish == "stop")
        and finish in ("stop", "tool_calls")
    ):
        return None
    return f"the recorded choice finished with {finish!r} and {len(calls)} calls"


def reasoning_miscounted(evidence: Evidence) -> str | None:
    if "usage" not in evidence.path:
        return _ELSEWHERE
    counted = get(evidence.view, ("usage", "completion_tokens_details", "reasoning_tokens"))
    choices = get(evidence.view, ("choices",))
    reasoning = [get(choice, ("message", "reasoning")) for choice in choices] if choices is not ABSENT else []
    said = any(text is not ABSENT and text for text in reasoning)
    if isinstance(counted, int) and bool(counted) != said:
        return None
    if evidence.where == "batch" and choices is not ABSENT:
        places: list[Path] = [("choices", n, "message", "reasoning") for n in range(len(choices))]
        if any(
            stream_differs_from_batch(msgspec.structs.replace(evidence, path=one)) is None for one in places
        ):
            return None
    return f"{counted!r} reasoning tokens were recorded, and reasoning {'too' if said else 'neither'}"


def end_token_as_reason(evidence: Evidence) -> str | None:
    if evidence.path[-1:] != ("stop_reason",) or not isinstance(evidence.recorded, int):
        return _ELSEWHERE
    body = evidence.case.request.get("json") or {}
    answer = body.get("generate_response") or body.get("generate_chunk") or {}
    choices = get(answer, ("choices",))
    ids = choices[evidence.path[-2]]["token_ids"] if choices is not ABSENT else []
    if (body.get("chat_request") or {}).get("stop_token_ids"):
        return "the request names stop tokens"
    return None if ids[-1:] == [evidence.recorded] else f"{evidence.recorded} is not the last token"


def cut_concealed(evidence: Evidence) -> str | None:
    ours, recorded = (text_of(value) for value in (evidence.ours, evidence.recorded))
    if evidence.recorded_choice().get("finish_reason") != "length":
        return "the output was not cut"
    if ours and recorded.startswith(ours) and not evidence.output.endswith(recorded[len(ours) :]):
        return None
    return "the recorded text is not ours with an end that the output does not have"


def content_as_reasoning(evidence: Evidence) -> str | None:
    content, reasoning = (get(_message(evidence), (key,)) for key in ("content", "reasoning"))
    place = {"reasoning", "completion_tokens_details"} & set(evidence.path)
    if not place or evidence.ours or not isinstance(content, str) or not isinstance(reasoning, str):
        return "ours is not without a reasoning that the recorded message has beside content"
    marks = MARKUP.findall(evidence.output)
    if content and any(content + mark + reasoning in evidence.output for mark in marks):
        return None
    return "the recorded reasoning does not go on where the recorded content ends"


def cut_call_as_text(evidence: Evidence) -> str | None:
    choice = evidence.recorded_choice()
    content = get(choice, ("message", "content"))
    if choice.get("finish_reason") != "length" or not isinstance(content, str) or not content.strip():
        return "the output was not cut, or no content was recorded"
    named = any(tool in content for tool in _tools(evidence))
    if named and MARKUP_BEGINS.search(content) and evidence.output.endswith(content):
        return None
    return "the recorded content is no call that was cut off"


def grammar_written_out(evidence: Evidence) -> str | None:
    values = (evidence.recorded, evidence.ours)
    recorded, ours = (one if isinstance(one, str) else get(one, ("structural_tag",)) for one in values)
    if not isinstance(recorded, str) or '"grammar": "root ::=' not in recorded:
        return "the recorded structural tag has no grammar written out"
    if isinstance(ours, str) and '"grammar"' not in ours and '"json_schema"' in ours:
        return None
    unasked = evidence.case.request.get("tool_choice") == "none"
    return None if unasked or evidence.ours is UNKNOWN else "ours has no schema in its place"


def server_error(evidence: Evidence) -> str | None:
    status = evidence.view.get("status") if evidence.where == "error" else 200
    return None if status >= 500 else f"the recorded status is {status}"


_INTERNALS = re.compile(
    r"string indices must be|can't encode character|validation errors? for |^\d+ validation errors:|"
    r"^'\w+' object is not|^object of type '\w+' has no|^Can't compile non template|^Expecting value: line"
)


def internals_told(evidence: Evidence) -> str | None:
    message = get(evidence.view, ("message",))
    told = isinstance(message, str) and _INTERNALS.search(message)
    return None if told else "the recorded message is not about the server's own code"


def superset(evidence: Evidence) -> str | None:
    """Not a defect: ours says more, or refuses less."""
    if evidence.where == "error":
        status = evidence.view["status"]
        refused = status >= 400 and evidence.path == ("status",) and evidence.ours in (200, UNKNOWN)
        return None if refused else f"recorded is status {status}, ours {evidence.ours!r}: no error less"
    if evidence.path[:1] == ("choices",) and {"message", "text", "finish_reason"} & set(evidence.path):
        return f"{show(evidence.path)} is part of the answer: the recorded one is right or has a defect"
    if evidence.recorded is ABSENT or evidence.recorded in (None, [], {}):
        if evidence.ours in (None, ABSENT):
            return "ours has no value either"
        if evidence.path[-1:] == ("completion_tokens_details",) and evidence.ours is not UNKNOWN:
            return details_fault(
                evidence.ours, get(evidence.view, (*evidence.path[:-1], "completion_tokens"))
            )
        return None
    return f"{show(evidence.path)} has a recorded value: no field more"


DEFECTS: dict[str, Check] = {
    "stream_differs_from_batch": stream_differs_from_batch,
    "batch_differs_from_stream": stream_differs_from_batch,
    "text_lost": text_lost,
    "text_repeated": text_repeated,
    "text_altered": text_altered,
    "whitespace_lost": whitespace_lost,
    "text_misplaced": text_misplaced,
    "markup_in_content": markup_in_content,
    "markup_dropped": markup_dropped,
    "invalid_json_arguments": invalid_json_arguments,
    "arguments_break_schema": arguments_break_schema,
    "unknown_tool": unknown_tool,
    "call_from_lookalike": call_from_lookalike,
    "finish_contradicts_calls": finish_contradicts_calls,
    "reasoning_miscounted": reasoning_miscounted,
    "end_token_as_reason": end_token_as_reason,
    "cut_concealed": cut_concealed,
    "grammar_written_out": grammar_written_out,
    "content_as_reasoning": content_as_reasoning,
    "cut_call_as_text": cut_call_as_text,
    "server_error": server_error,
    "internals_told": internals_told,
}
"""By the name that `defect` in divergences.toml gives them; that file's header says what each means."""


def _types(schema: Any, root: dict[str, Any], depth: int = 0) -> set[str]:
    """The JSON types that a schema allows; empty when it does not say."""
    if not isinstance(schema, dict) or depth > 8:
        return set()
    if isinstance(schema.get("$ref"), str):
        target = get(root, tuple(schema["$ref"].removeprefix("#/").split("/")))
        return _types(target, root, depth + 1)
    said = schema.get("type")
    types = {said} if isinstance(said, str) else set(said or [])
    for key in ("anyOf", "oneOf"):
        branches = [_types(branch, root, depth + 1) for branch in schema.get(key) or []]
        if branches and all(branches):
            types |= set().union(*branches)
    return types


def _types_of(value: Any) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return {"integer", "number"}
    kinds: dict[type, str] = {
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return {kinds[type(value)]}
