"""Events of a choice -> the output items of a Response, and the events by which a stream tells them.

Batch and stream share the writer: a finished answer's output is what the stream's events add up to. The
`done` events repeat an item's text, so the writer keeps the text of the whole answer; a stream carries it in
its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from parsers.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning
from renderd.derender.context import Context
from renderd.derender.echo import Told
from renderd.derender.free_text import FreeText
from renderd.derender.ids import CallIds, low_half
from renderd.wire.response_answers import (
    CustomCallItem,
    FunctionCallItem,
    MessageItem,
    OutputItem,
    OutputLogprob,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Status,
)

Json = dict[str, Any]
Kind = Literal["reasoning", "message", "function_call", "custom_tool_call"]

_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}
_DELTAS = {
    "reasoning": "response.reasoning_text",
    "message": "response.output_text",
    "function_call": "response.function_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
}


class Item(msgspec.Struct, array_like=True):
    """An output item.

    Attributes:
        text: its text; of a call the arguments, of a custom tool's call the text for the tool.
        call, call_id, name, namespace: of a call.
        free: where the text for a custom tool is in the arguments.
        logprobs: of a message's tokens, None where nobody asked.
    """

    kind: Kind
    text: str = ""
    status: Status = "in_progress"
    call: int = -1
    call_id: str = ""
    name: str = ""
    namespace: str | None = None
    free: FreeText | None = None
    logprobs: list[OutputLogprob] | None = None


class Answer(msgspec.Struct, array_like=True):
    """An answer so far. Of the items all but the last are done.

    Attributes:
        input_tokens: of the prompt.
        told: number of events sent.
    """

    input_tokens: int
    told: int = 0
    items: list[Item] = []


class ItemWriter:
    """Writes what events say into an answer, and what is to be sent of it."""

    def __init__(self, answer: Answer, context: Context, told: Told, ids: CallIds, request_id: str) -> None:
        self.answer = answer
        self._context = context
        self._told = told
        self._ids = ids
        self._request_id = request_id
        self._sent: list[Json] = []

    def take(self) -> list[Json]:
        """The stream events since the last time."""
        sent, self._sent = self._sent, []
        return sent

    def send(self, kind: str, **fields: Any) -> None:
        """One more stream event."""
        self._sent.append({"type": kind, "sequence_number": self.answer.told, **fields})
        self.answer.told += 1

    def feed(self, events: Iterable[Event], logprobs: Sequence[OutputLogprob] | None = None) -> None:
        """What the choice says next. `logprobs`: of the tokens that say it, None where nobody asked."""
        for event in _merged(self._kept(events)):
            if isinstance(event, CallStart):
                self._begin_call(event)
            elif isinstance(event, CallArguments):
                self._say_arguments(event.text)
            elif isinstance(event, CallEnd):
                self._end("completed")
            elif isinstance(event, Reasoning):
                self._say("reasoning", event.text, None)
            elif isinstance(event, Content):
                self._say("message", event.text, logprobs)

    def end(self, cut: bool) -> None:
        """The output is over. `cut`: it had not come to its end."""
        self._end("incomplete" if cut else self._left())

    def output(self) -> list[OutputItem]:
        """All items so far."""
        return [self._written(index) for index in range(len(self.answer.items))]

    def _kept(self, events: Iterable[Event]) -> Iterator[Event]:
        context = self._context
        for event in events:
            if isinstance(event, Reasoning):
                kept = bool(event.text) and context.include_reasoning
            elif isinstance(event, Content):
                kept = bool(event.text)
            elif isinstance(event, CallStart | CallArguments | CallEnd):
                kept = context.keeps_calls and (context.parallel or not event.index)
            else:
                kept = False
            if kept:
                yield event

    @property
    def _open(self) -> Item | None:
        last = self.answer.items[-1] if self.answer.items else None
        return last if last is not None and last.status == "in_progress" else None

    def _left(self) -> Status:
        """How the open item is, if nothing more is said of it: a call had to be ended."""
        return "completed" if self._open is None or self._open.call < 0 else "incomplete"

    def _begin(self, item: Item) -> None:
        self._end(self._left())
        self.answer.items.append(item)
        index = len(self.answer.items) - 1
        self.send("response.output_item.added", item=self._written(index), output_index=index)

    def _say(self, kind: Kind, text: str, logprobs: Sequence[OutputLogprob] | None) -> None:
        if self._open is None or self._open.kind != kind:
            self._begin(Item(kind, logprobs=None if logprobs is None else []))
            self.send("response.content_part.added", part=self._part(first=True), **self._place())
        item = self.answer.items[-1]
        item.text += text
        if kind == "message":
            if item.logprobs is not None:
                item.logprobs += logprobs or ()
            shown = [_without_bytes(entry) for entry in logprobs or ()]
            self.send("response.output_text.delta", delta=text, logprobs=shown, **self._place())
        else:
            self.send("response.reasoning_text.delta", delta=text, **self._place())

    def _begin_call(self, start: CallStart) -> None:
        namespace, name = self._told.namespaces.get(start.name, (None, start.name))
        custom = start.name in self._told.customs
        self._begin(
            Item(
                "custom_tool_call" if custom else "function_call",
                call=start.index,
                call_id=self._ids.of(start.index, start.name, start.id),
                name=name,
                namespace=namespace,
                free=FreeText() if custom else None,
            )
        )

    def _say_arguments(self, text: str) -> None:
        item = self._open
        if item is None:
            raise ValueError("arguments of no call")
        if item.free is not None:
            text = item.free.feed(text)
        if text:
            item.text += text
            self.send(f"{_DELTAS[item.kind]}.delta", delta=text, **self._place())

    def _end(self, status: Status) -> None:
        """The open item is over, if there is one."""
        item = self._open
        if item is None:
            return
        if item.free is not None and (rest := item.free.finish()):
            item.text += rest
            self.send(f"{_DELTAS[item.kind]}.delta", delta=rest, **self._place())
        item.status = status
        index, place = len(self.answer.items) - 1, self._place()
        if item.kind == "function_call":
            self.send(f"{_DELTAS[item.kind]}.done", arguments=item.text, name=item.name, **place)
        elif item.kind == "custom_tool_call":
            self.send(f"{_DELTAS[item.kind]}.done", input=item.text, **place)
        else:
            logprobs: Json = {"logprobs": []} if item.kind == "message" else {}
            self.send(f"{_DELTAS[item.kind]}.done", text=item.text, **logprobs, **place)
            self.send("response.content_part.done", part=self._part(), **place)
        self.send("response.output_item.done", item=self._written(index), output_index=index)

    def _place(self) -> Json:
        """Where the last item is."""
        index = len(self.answer.items) - 1
        item = self.answer.items[index]
        place: Json = {"item_id": self._id(index), "output_index": index}
        return place | {"content_index": 0} if item.kind in ("reasoning", "message") else place

    def _id(self, index: int) -> str:
        """The same item, told again, has the same id."""
        key = f"{self._request_id}\0{index}".encode("utf-8", "surrogatepass")
        return f"{_PREFIXES[self.answer.items[index].kind]}_{low_half(key)}"

    def _part(self, first: bool = False) -> OutputText | ReasoningText:
        """The text of the last item. `first`: before there is any."""
        item = self.answer.items[-1]
        if item.kind == "reasoning":
            return ReasoningText(text=item.text)
        return OutputText(text=item.text, logprobs=[] if first else item.logprobs)

    def _written(self, index: int) -> OutputItem:
        item, name = self.answer.items[index], self._id(index)
        begun = item.status != "in_progress"
        if item.kind == "reasoning":
            content = [ReasoningText(text=item.text)] if begun else None
            return ReasoningItem(id=name, content=content, status=item.status)
        if item.kind == "message":
            said = [OutputText(text=item.text, logprobs=item.logprobs)] if begun else []
            return MessageItem(id=name, content=said, status=item.status)
        if item.kind == "custom_tool_call":
            return CustomCallItem(call_id=item.call_id, input=item.text, name=item.name, id=name)
        return FunctionCallItem(
            arguments=item.text,
            call_id=item.call_id,
            name=item.name,
            id=name,
            namespace=item.namespace,
            status=item.status,
        )


def _merged(events: Iterable[Event]) -> Iterator[Event]:
    """Neighbours that say one thing are one."""
    last: Event | None = None
    for event in events:
        if isinstance(event, Reasoning | Content | CallArguments) and type(event) is type(last):
            last = msgspec.structs.replace(event, text=getattr(last, "text", "") + event.text)
            continue
        if last is not None:
            yield last
        last = event
    if last is not None:
        yield last


def _without_bytes(entry: OutputLogprob) -> Json:
    return {
        "token": entry.token,
        "logprob": entry.logprob,
        "top_logprobs": [{"token": one.token, "logprob": one.logprob} for one in entry.top_logprobs],
    }
