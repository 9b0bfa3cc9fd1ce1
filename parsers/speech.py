"""What an answer says: reasoning, content and calls, and the whitespace that the format counts as neither.

Text is said at once but for whitespace that a call or the end of the reasoning would swallow, and for
reasoning that may have to stand in for the content.
"""

from __future__ import annotations

import msgspec

from parsers.bodies import json_check
from parsers.bodies.json_check import JsonCheck
from parsers.events import Anomaly, CallArguments, CallEnd, CallStart, Content, Event, Reasoning
from parsers.rewrite import Rewriting
from parsers.table import RequestContext, Table


class Speech(msgspec.Struct, array_like=True):
    """What is remembered between two pieces.

    `blank`, `pause`: whitespace of the content and of the reasoning whose fate is open; `loose`: the run of
    whitespace has grown too long to be held, and was let go. `said`, `reasoned`: content since the last call,
    and reasoning, was more than that; `silent`: there was no content at all. `fresh`: content has not begun.
    `behind`: a call came, and no content after it. `pledge`: reasoning that becomes content if there is
    none; None once that is decided. `left_reasoning`,
    `left_content`: a section of it ended, and the next one is to be set apart. `rewritten`: of the reasoning
    and the content, where the grammar rewrites them. `calls`: that have begun; `open`: the last one has not
    ended; `check`: of its arguments.
    """

    blank: str = ""
    pause: str = ""
    loose: bool = False
    said: bool = False
    reasoned: bool = False
    fresh: bool = True
    pledge: str | None = None
    silent: bool = True
    left_reasoning: bool = False
    left_content: bool = False
    behind: bool = False
    rewritten: tuple[Rewriting, Rewriting] | None = None
    calls: int = 0
    open: bool = False
    check: JsonCheck = msgspec.field(default_factory=JsonCheck)


class Speaker(msgspec.Struct):
    """Turns what was read into events."""

    _context: RequestContext
    _table: Table
    speech: Speech
    _events: list[Event] = []

    def reasoning(self, text: str) -> None:
        """Text of the reasoning."""
        speech = self.speech
        if speech.left_reasoning and text:
            speech.left_reasoning = False
            text = self._table.separator + text
        if self._table.trims and not speech.reasoned:
            text = text.lstrip()
        if self._table.strip_reasoning:
            text, speech.pause = self._split(speech.pause, text)
        if not text:
            return
        speech.reasoned = True
        if speech.pledge is None:
            self._say(Reasoning, text)
            return
        speech.pledge += text
        if len(speech.pledge) > self._context.max_undecided:
            self._keep_pledge()

    def content(self, text: str) -> None:
        """Text of the answer."""
        speech, table = self.speech, self._table
        if speech.fresh and table.skip:
            text = text.lstrip(table.skip)
        if speech.behind and speech.silent and table.tight and not speech.blank:
            text = text.lstrip()
        if not text:
            return
        speech.behind = False
        speech.fresh = False
        if speech.left_content:
            speech.left_content = False
            text = table.separator + text
        if (self._context.tools and not table.blank) or speech.pledge is not None or table.trims:
            swallows = (table.strip and self._context.asked) or table.trims
            if swallows or not speech.said:
                text, speech.blank = self._split(speech.blank, text)
            else:
                text, speech.blank = speech.blank + text, ""
            if not swallows and text:
                text += speech.blank
                speech.blank = ""
        if text:
            self._keep_pledge()
            speech.said = True
            speech.silent = False
            self._say(Content, text)

    def leave_reasoning(self) -> None:
        """The reasoning section ended."""
        speech = self.speech
        speech.pause = ""
        self._settle()
        speech.left_reasoning = bool(self._table.separator) and speech.reasoned
        if self._table.empty and not speech.reasoned:
            speech.reasoned = True
            self._events.append(Reasoning(""))

    def leave_content(self, for_call: bool) -> None:
        """A section of the answer ended, and more of it may follow. `for_call`: what comes is certain to be
        none of the answer."""
        if self._table.trims or (for_call and self._table.strip):
            self.speech.blank = ""
        self.speech.left_content = bool(self._table.separator) and not self.speech.silent

    def call(self, name: str, native_id: str | None) -> None:
        """A call begins. `native_id`: the model's own."""
        speech = self.speech
        self._keep_pledge()
        self._settle()
        speech.said = False
        speech.behind = True
        if self._table.strip:
            speech.blank = ""
        self._events.append(CallStart(speech.calls, name, native_id))
        speech.calls += 1
        speech.open = True
        speech.check = JsonCheck()

    def arguments(self, text: str) -> None:
        """More of the call's arguments."""
        self._events.append(CallArguments(self.speech.calls - 1, text))
        json_check.feed(self.speech.check, text)

    def end_call(self) -> None:
        """The call is complete, if its arguments are JSON."""
        speech = self.speech
        speech.open = False
        if json_check.whole(speech.check):
            self._events.append(CallEnd(speech.calls - 1))
        else:
            self.anomaly("invalid_arguments", 0)

    def cut_call(self) -> None:
        """Nothing more comes of the call, though it is not complete."""
        self.speech.open = False
        self.anomaly("unfinished_call", 0)

    def anomaly(self, kind: str, characters: int) -> None:
        """Output that is no part of the message."""
        self._events.append(Anomaly(kind, characters))

    def take(self) -> list[Event]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def finish(self, idle: bool) -> None:
        """The output ended. `idle`: no parser did anything to it."""
        speech = self.speech
        speech.pause = ""
        if self._table.trims:
            speech.blank = ""
        if speech.pledge:
            self._say(Content, speech.pledge)
            speech.blank = ""
        elif speech.blank and (speech.said or not (speech.calls or self._context.forced)):
            self._say(Content, speech.blank)
        elif idle and speech.silent:
            self._events.append(Content(""))  # a text without a parser's doing is "", not null
        speech.blank = ""
        speech.pledge = None
        self._settle()

    def _say(self, kind: type[Reasoning] | type[Content], text: str, more: bool = True) -> None:
        """Text goes out, rewritten where the grammar says so. `more`: text of its kind may follow on it."""
        rewritten = self.speech.rewritten
        if self._table.rewrite and rewritten:
            text = self._table.rewrite(rewritten[0] if kind is Reasoning else rewritten[1], text, more)
        if text:
            self._events.append(kind(text))

    def _settle(self) -> None:
        """What the rewriting holds back goes out as it is: something else follows."""
        self._say(Reasoning, "", more=False)
        self._say(Content, "", more=False)

    def _keep_pledge(self) -> None:
        """The reasoning is reasoning."""
        speech = self.speech
        if speech.pledge:
            self._say(Reasoning, speech.pledge)
        speech.pledge = None

    def _split(self, held: str, text: str) -> tuple[str, str]:
        """What is certain of a text behind held whitespace, and the whitespace behind that. A run of it that
        outgrows the limit is let go, all of it."""
        speech = self.speech
        solid = len(text.rstrip())
        if solid:
            speech.loose = False
            sure, rest = held + text[:solid], text[solid:]
        else:
            sure, rest = "", held + text
        if speech.loose or len(rest) > self._context.max_undecided:
            speech.loose = True
            return sure + rest, ""
        return sure, rest
