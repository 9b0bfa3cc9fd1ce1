"""The counters of what models wrote that belongs to no part of an answer."""

from __future__ import annotations

import re
from typing import Any

from tests.server.running import Running, running

TOOL = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL]}
ONE_CALL = '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
CUT_BEFORE_THE_NAME = '<tool_call>\n{"name": "pi'
CUT_IN_ARGUMENTS = '<tool_call>\n{"name": "ping", "arguments": {"a": "b'


def counters(server: Running) -> dict[tuple[str, str], float]:
    """Value by what is counted, times or characters, and kind."""
    lines = re.findall(
        r'^renderd_parser_(anomalies|anomaly_characters)_total\{kind="(\w+)",parser="\+hermes"\} (\S+)$',
        server.get("/metrics").text,
        re.MULTILINE,
    )
    return {(what, kind): float(value) for what, kind, value in lines}


def ids(server: Running, text: str) -> list[int]:
    answer = server.post("/tokenize", {"prompt": text, "add_special_tokens": False})
    tokens: list[int] = answer.json()["tokens"]
    return tokens


def counted(server: Running, text: str, streamed: bool) -> dict[tuple[str, str], float]:
    """What the derender of an output adds to the counters."""
    before = counters(server)
    choice = {"index": 0, "token_ids": ids(server, text), "finish_reason": "length"}
    answer = {"request_id": "r", "choices": [choice]}
    call: dict[str, Any] = {"chat_request": CHAT, "prompt_token_ids": [1]}
    if streamed:
        call |= {"stream": True, "stream_state": None, "generate_chunk": answer}
    else:
        call |= {"generate_response": answer}
    assert server.post("/v1/chat/completions/derender", call).status_code == 200
    after = counters(server)
    return {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}


def test_what_is_no_part_of_an_answer_is_counted_by_kind() -> None:
    with running("--tool-call-parser", "hermes", "--enable-auto-tool-choice") as server:
        for streamed in (False, True):
            assert counted(server, "Hello", streamed) == {}
            assert counted(server, ONE_CALL, streamed) == {}
            assert counted(server, CUT_BEFORE_THE_NAME, streamed) == {
                ("anomalies", "markup_in_content"): 1,
                ("anomaly_characters", "markup_in_content"): len(CUT_BEFORE_THE_NAME),
            }
            assert counted(server, CUT_IN_ARGUMENTS, streamed) == {("anomalies", "unfinished_call"): 1}
            stray = counted(server, f"{ONE_CALL}stray", streamed)
            assert stray["anomaly_characters", "dropped_text"] == len("stray")
        assert {kind for _, kind in counters(server)} == {
            "markup_in_content",
            "unfinished_call",
            "dropped_text",
        }
