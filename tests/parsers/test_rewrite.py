r"""New lines that a model writes as `\n`."""

from __future__ import annotations

import pytest

from parsers.rewrite import Rewriting, newlines
from tests.parsers.test_families import read


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        (r"one\ntwo\r\nthree\rfour", "one\ntwo\nthree\nfour"),
        (r"\\n \\\n \t \night", "\\\\n \\\\\\n \\t \night"),
        (r"\r\r\n\n", "\n\n\n"),
        (r"`x\n` y\nz", "`x\\n` y\nz"),
        ("```\nx\\n`y`\\n\n``` z\\n", "```\nx\\n`y`\\n\n``` z\n"),
        (r"````\na", r"````\na"),
        (r"$a\nu$ b\nc $$x\ny$$ z\n", "$a\\nu$ b\nc $$x\\ny$$ z\n"),
        (r"\(z\n\) y\n \[z\n\] x\n", "\\(z\\n\\) y\n \\[z\\n\\] x\n"),
        (r"no `end\n of it", r"no `end\n of it"),
        ("last \\", "last \\"),
        (r"last \r", "last \n"),
        ("last `", "last `"),
    ],
)
def test_newlines(text: str, rewritten: str) -> None:
    for size in (1, 2, 3, len(text)):
        state = Rewriting()
        pieces = [newlines(state, text[at : at + size], True) for at in range(0, len(text), size)]
        pieces.append(newlines(state, "", False))
        assert "".join(pieces) == rewritten


def test_reasoning_and_content_apart() -> None:
    value = "<parameter=city>\na\\nb\n</parameter>"
    call = f"<tool_call>\n<function=get_weather>\n{value}\n</function>\n</tool_call>"
    message = read("minicpmv", "qwen3_coder", rf"t`a\</think>b\nc` d\n{call}")
    assert (message.reasoning, message.content) == ("t`a\\", "b\nc` d\\n")
    assert message.calls == [("get_weather", '{"city": "a\\\\nb"}')]
