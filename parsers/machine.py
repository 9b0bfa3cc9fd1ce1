"""The machine that runs any grammar. It names no family and no marker.

State is small and plain. Text is said as soon as no later token can change what it is; what is held back is a
piece of a marker, a name or a header, whitespace before a possible call, or a call that is not certain to be
one (bounded by `max_undecided`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from parsers import names
from parsers.bodies import Said, solid
from parsers.events import Event, Marker, Skipped, Special
from parsers.grammar import On, Text
from parsers.speech import Speaker
from parsers.state import State, begun
from parsers.table import CompiledRegion, RequestContext, Table
from parsers.tally import Counter


class Machine:
    """One answer being parsed. Make it with `Family.start` or `Family.resume`.

    `state`: what a machine of the request left, None at the first token. Raises ValueError if it is no such.
    """

    def __init__(self, context: RequestContext, table: Table, state: State | None = None) -> None:
        self._context = context
        self._regions = table.regions
        self.state = left = state or begun(context, table)
        self._speaker = Speaker(context, table, left.speech)
        self._counter = Counter(table, left.tally)
        region = self._regions.get(left.region)
        if state is None:
            self._enter(left.region)
            if table.empty == "prompt" and context.reasoning == "over":
                self._speaker.leave_reasoning()
            if table.lead and context.reasoning == "open":
                self._text(table.lead)
        elif region is None or (region.body is None) != (state.body is None):
            raise ValueError("malformed parser state")
        elif region.body is not None:
            state.body = msgspec.convert(state.body, region.body.state_type)

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the output so far that are reasoning (contract F.2)."""
        return self.state.tally.total

    @property
    def late_arguments(self) -> str:
        """The end of the open call's arguments, if vLLM sends it only with the next key or the call's end."""
        body = self.state.body
        return body.late if self._speaker.speech.open and body is not None else ""

    def feed(self, lexemes: Iterable[str]) -> list[Event]:
        """Take what each output token gave, one lexeme a token; return what became certain."""
        state = self.state
        flow: list[str] = []  # what is to be said as one
        for lexeme in lexemes:
            region = self._regions[state.region]
            kind = type(lexeme)
            if kind is Special:
                if region.absorbs:
                    continue
                lexeme = str(lexeme)
            self._counter.token(region, lexeme)
            if region.flows and kind is str and not state.held and region.scanner.quiet(lexeme):
                flow.append(lexeme)
                continue
            if flow:
                self._say(region, "".join(flow))
                flow.clear()
            if kind is Marker or kind is Skipped:
                self._marker(lexeme)
                self._counter.decide()
            elif lexeme:
                self._text(lexeme)
        if flow:
            self._say(self._regions[state.region], "".join(flow))
        return self._speaker.take()

    def finish(self, end_token: bool = False) -> list[Event]:
        """The output ended: say what was held back. A second call says nothing.

        `end_token`: by a token of its own, which is no part of the text.
        """
        state = self.state
        if state.finished:
            return []
        state.finished = True
        region = self._regions[state.region]
        while state.held and state.raw is None and region.text not in (Text.NAME, Text.HEADER):
            self._settle(region)
            region = self._regions[state.region]
        if end_token:
            self._counter.end_token(region)
        if state.body is not None:
            self._end_body(region, by_marker=False)
        elif state.raw is not None:
            self._release()
        elif region.text is Text.NAME:
            self._speaker.anomaly("unfinished_call", len(state.held))
        region = self._regions[state.region]
        if region.text is Text.REASONING:
            self._speaker.leave_reasoning()
        plain = self._context.reasoning == "off" and region.text is Text.CONTENT and not region.absorbs
        self._speaker.finish(idle=state.idle and plain)
        return self._speaker.take()

    # what comes in

    def _marker(self, marker: str) -> None:
        """A token of the grammar arrived: no text before it can still become a marker."""
        state = self.state
        region = self._regions[state.region]
        if region.body is not None:
            on = None if region.body.literal(state.body) else region.on.get(marker)
            if on is None and (marker in region.body.markers or type(marker) is not Skipped):
                self._text(marker)  # a body may want to know that it is a token
            elif on is None:
                pass
            elif self._end_body(region, by_marker=True):
                self._go(region, on)
            else:  # it was no call: the marker stands in content
                self._marker(marker)
            return
        on = region.on.get(marker)
        if on is not None and type(marker) is Skipped and self._unasked(region, on):
            on = None
        if region.text in (Text.NAME, Text.HEADER):
            if on is None and marker in region.region.keeps:
                self._text(str(marker))
                return
            if on is None:
                self._reject(region)
                self._marker(marker)
                return
        elif state.held:
            self._settle(region)
            if state.region != region.name:
                self._marker(marker)
                return
        if on is not None:
            self._go(region, on)
        elif state.raw is not None:
            self._release()
            self._marker(marker)
        elif region.to is not None:
            self._enter(region.to)
            self._marker(marker)
        elif type(marker) is not Skipped:
            self._say(region, str(marker))

    def _unasked(self, region: CompiledRegion, on: On) -> bool:
        """Whether a marker opens calls that the request does not want, in a family that would delete them."""
        opens = self._regions[on.to].text not in (Text.REASONING, Text.CONTENT)
        return opens and region.absorbs and not self._context.asked

    def _text(self, text: str) -> None:
        state = self.state
        while text:
            region = self._regions[state.region]
            if region.body is not None:
                text = self._read_body(region, text)
                continue
            buffer = state.held + text
            start, marker = region.scanner.find(buffer)
            if region.text in (Text.NAME, Text.HEADER):
                text = self._read_name(region, buffer, start, marker)
                continue
            state.held = ""
            if start:
                self._say(region, buffer[:start])
            if state.region != region.name:  # the text itself led elsewhere
                text = buffer[start:]
            elif marker is None:
                state.held = buffer[start:]
                self._counter.hold(bool(state.held) and not start)
                return
            else:
                text = buffer[start + len(marker) :]
                self._counter.decide(spelled=not start and not region.region.counts)
                self._go(region, region.on[marker])

    def _settle(self, region: CompiledRegion) -> None:
        """No text follows the piece of a marker that is held: it is a shorter marker, or text."""
        state = self.state
        held, state.held = state.held, ""
        start, marker = region.scanner.find(held, last=True)
        if start:
            self._say(region, held[:start])
        if marker is not None and state.region == region.name:
            start += len(marker)
            self._go(region, region.on[marker])
        self._text(held[start:])

    def _go(self, region: CompiledRegion, on: On) -> None:
        """Follow a marker out of `region`."""
        state = self.state
        if on.echo:
            self._say(region, on.marker)
        says = region.text in (Text.REASONING, Text.CONTENT)
        if says and (following := self._regions[on.to].text) is not region.text:
            if region.text is Text.REASONING:
                self._speaker.leave_reasoning()
            else:
                self._speaker.leave_content(following is not Text.REASONING and not on.tentative)
        if on.tentative and state.raw is None:
            state.raw = ""
        name, to = None, on.to
        if region.text in (Text.NAME, Text.HEADER):
            known = names.listed(region.region, self._context.types, state.raw is not None)
            route = names.read(region.region, state.held, on.to, known)
            if route is None:
                if state.raw is not None and not on.keep:
                    state.held += on.marker
                self._reject(region)
                if on.keep:
                    self._again(region, on)
                return
            state.held = ""
            name, to = route.name, route.to or to
            if route.dropped:
                self._speaker.anomaly("dropped_text", route.dropped)
            if name is not None:
                self._speaker.call(name, route.id)
            if name is not None or region.text is Text.HEADER:
                state.raw = None
        if state.raw is not None and not on.keep:
            state.raw += on.marker
        if on.certain:
            state.raw = None
        if state.raw is not None and self._regions[to].text is Text.CONTENT:
            self._release()  # all of it was markup around nothing
        self._enter(to, name)
        if on.keep:
            entered = self._regions[to]
            if entered.body is None and on.marker in entered.on:
                self._go(entered, entered.on[on.marker])
            else:
                self._again(region, on)

    def _again(self, region: CompiledRegion, on: On) -> None:
        """Read a marker of `region` again, as the token or the text that it was."""
        if on.marker in region.tokens:
            self._marker(on.marker)
        else:
            self._text(on.marker)

    def _enter(self, name: str, function: str | None = None) -> None:
        state = self.state
        state.idle = state.idle and name == state.region
        state.region = name
        region = self._regions[name]
        if region.text is Text.HEADER and state.raw is None:
            state.raw = ""
        state.body = None
        state.unsure = 0
        if region.body is not None:
            state.body = region.body.start(self._context.named if function is None else function)

    # calls

    def _read_name(self, region: CompiledRegion, buffer: str, start: int, marker: str | None) -> str:
        """Read a name or a header up to its marker; return what is left to read."""
        state = self.state
        known = names.listed(region.region, self._context.types, state.raw is not None)
        begun = names.begun(region.region, buffer[:start], known)
        state.held = buffer[:begun]
        if begun < start:
            self._reject(region)
            return buffer[begun:]
        if marker is None:
            state.held = buffer  # with what may be a piece of the marker
            return ""
        self._go(region, region.on[marker])
        return buffer[start + len(marker) :]

    def _reject(self, region: CompiledRegion) -> None:
        """What should have been a name or a header is none."""
        state = self.state
        if state.raw is not None:
            self._release(region.region.rejected)
            return
        self._speaker.anomaly("rejected_call", len(state.held))
        state.held = ""
        self._enter(region.region.rejected)

    def _read_body(self, region: CompiledRegion, text: str) -> str:
        state = self.state
        assert region.body is not None
        said = Said()
        types: Mapping[str, Any] = self._context.types
        if state.body.name is not None or not region.region.known_names:
            types = types.get(state.body.name or "", {})
        piece, rest = text, ""
        if not self._speaker.speech.open:  # the limit is met at the same character whatever the chunks
            undecided = state.unsure if state.raw is None else len(state.raw)
            room = self._context.max_undecided + 1 - undecided
            piece, rest = text[:room], text[room:]
        used = region.body.feed(state.body, piece, types, said)
        if not self._speaker.speech.open:
            if state.raw is not None:
                state.raw += piece[:used]
            state.unsure += used if state.unsure else len(piece[:used].lstrip())
            undecided = state.unsure if state.raw is None else len(state.raw)
            over = undecided > self._context.max_undecided
            said.failed = said.failed or (state.body.name is None and over)
        rest = piece[used:] + rest
        if said.failed:
            self._no_call(region)
            return rest
        self._hear(said)
        if state.body.done:
            if self._speaker.speech.open:
                self._speaker.end_call()
            self._enter(region.then)
        return said.again + rest

    def _end_body(self, region: CompiledRegion, by_marker: bool) -> bool:
        """The body ends though it did not end itself. False: it was no call."""
        state = self.state
        assert region.body is not None
        said = Said()
        whole = region.body.end(state.body, said, by_marker)
        if said.failed:
            self._no_call(region)
            return False
        self._hear(said)
        if whole:
            self._speaker.end_call()
        else:
            self._speaker.cut_call()
        state.body = None
        return True

    def _hear(self, said: Said) -> None:
        state = self.state
        if not self._speaker.speech.open and state.body.name is not None:
            self._speaker.call(state.body.name, said.id)
            state.raw = None
        if text := "".join(said.arguments):
            self._speaker.arguments(text)
        if said.dropped:
            self._speaker.anomaly("dropped_text", said.dropped)
        if said.unfinished:
            self._speaker.anomaly("unfinished_value", said.unfinished)

    def _no_call(self, region: CompiledRegion) -> None:
        """The body is none of a call."""
        if self.state.raw is not None:
            self._release()
            return
        if self.state.unsure:
            self._speaker.anomaly("rejected_call", self.state.unsure)
        self._enter(region.region.rejected)

    def _release(self, to: str = "content") -> None:
        """What looked like a call is none: its characters are content, and so is what follows."""
        state = self.state
        raw = (state.raw or "") + state.held
        state.raw = None
        state.held = ""
        self._enter(to if self._regions[to].text is Text.CONTENT else "content")
        if raw:
            self._speaker.anomaly("markup_in_content", len(raw))
            self._speaker.content(raw)

    # what goes out

    def _say(self, region: CompiledRegion, text: str) -> None:
        """Text of a region without a body."""
        if self.state.raw is not None and region.text in (Text.DROP, Text.MARKUP):
            blank = len(text) - len(text.lstrip())
            self.state.raw += text[:blank]
            if region.to is not None and blank < len(text):
                self._enter(region.to)
                self._text(text[blank:])
            elif blank < len(text) or len(self.state.raw) > self._context.max_undecided:
                self._release()
                self._text(text[blank:])
            return
        if region.to is not None and not text.isspace():
            rest = text.lstrip()
            if len(rest) < len(text):  # as if it had come alone
                self._say(region, text[: len(text) - len(rest)])
            self._enter(region.to)
            self._text(rest)
        elif region.text is Text.CONTENT:
            self._speaker.content(text)
        elif region.text is Text.REASONING:
            self._speaker.reasoning(text)
        elif region.text is Text.DROP and (dropped := solid(text)):
            self._speaker.anomaly("dropped_text", dropped)
