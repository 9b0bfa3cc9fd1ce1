"""What a request took and met reaches the metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from renderd import telemetry
from renderd.server.metrics import Metrics
from tests.server.running import Running, running

PARSERS = ("--tool-call-parser", "hermes", "--enable-auto-tool-choice")
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def test_notes_go_to_the_current_record() -> None:
    record = telemetry.Record("id")
    with_thread: list[object] = []

    def work() -> int:
        telemetry.spent("parse", telemetry.clock() - 1)
        telemetry.spent("parse", telemetry.clock() - 1)
        telemetry.rendered(3)
        telemetry.derendered(4)
        telemetry.derendered(5)
        telemetry.replayed()
        telemetry.wrote_state(99)
        telemetry.met("p", "k", 2)
        telemetry.met("p", "k", 3)
        thread = threading.Thread(target=lambda: with_thread.append(telemetry.current()))
        thread.start()
        thread.join()
        return 7

    assert record.run(work) == 7
    began, ended, seconds = record.stages["parse"]
    assert 1.9 < seconds < 3 and 0.9 < ended - began < 2
    assert (record.tokens_rendered, record.tokens_derendered) == (3, 9)
    assert (record.replays, record.state_bytes) == (1, 99)
    assert record.anomalies == {("p", "k"): [2, 5]}
    assert telemetry.current() is None and with_thread == [None]


def test_notes_without_a_record_are_dropped() -> None:
    telemetry.spent("parse", telemetry.clock())
    telemetry.rendered(1)
    telemetry.derendered(1)
    telemetry.replayed()
    telemetry.wrote_state(1)
    telemetry.met("p", "k", 1)
    assert telemetry.current() is None


def test_a_record_that_failed_is_no_longer_current() -> None:
    with pytest.raises(ZeroDivisionError):
        telemetry.Record().run(lambda: 1 / 0)
    assert telemetry.current() is None


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Values by name and values of labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_stage_is_shown_from_the_start() -> None:
    shown = samples(Metrics().exposition().body.decode())  # type: ignore[union-attr]
    assert {labels[0] for name, *labels in shown if name == "renderd_stage_seconds_count"} == set(
        telemetry.STAGES
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(*PARSERS) as server:
        yield server


def added(
    server: Running, path: str, body: Any, status: int = 200
) -> tuple[dict[tuple[str, ...], float], Any]:
    """What a request adds to renderd's own metrics, and its answer."""
    before = samples(server.get("/metrics").text)
    answer = server.post(path, body)
    assert answer.status_code == status, answer.text
    after = samples(server.get("/metrics").text)
    news = {key: value - before.get(key, 0.0) for key, value in after.items() if value != before.get(key)}
    own = {key: value for key, value in news.items() if key[0].startswith("renderd_")}
    return {key: value for key, value in own.items() if not key[0].endswith("_created")}, answer.json()


def stages(news: dict[tuple[str, ...], float]) -> set[str]:
    return {labels[0] for name, *labels in news if name == "renderd_stage_seconds_count"} - {"wait"}


def test_a_render(server: Running) -> None:
    news, answer = added(server, "/v1/chat/completions/render", CHAT)
    assert stages(news) == {"decode", "template", "tokenize", "encode"}
    assert news[("renderd_tokens_rendered_total",)] == len(answer["token_ids"])
    assert ("renderd_cache_misses_total",) in news and ("renderd_cache_bytes",) in news
    news, _ = added(server, "/v1/chat/completions/render", CHAT)
    assert ("renderd_cache_hits_total",) in news and ("renderd_cache_misses_total",) not in news


def test_a_refused_request(server: Running) -> None:
    news, _ = added(server, "/v1/chat/completions/render", {"messages": 1}, 400)
    assert stages(news) == {"decode"}
    assert ("renderd_tokens_rendered_total",) not in news


def test_a_finished_answer(server: Running) -> None:
    choice = {"index": 0, "token_ids": [40, 41, 42], "finish_reason": "stop"}
    body = {"generate_response": {"request_id": "r", "choices": [choice]}, "chat_request": CHAT}
    news, _ = added(server, "/v1/chat/completions/derender", body)
    assert stages(news) == {"decode", "detokenize", "parse", "encode"}
    assert news[("renderd_tokens_derendered_total",)] == 3


def test_a_stream(server: Running) -> None:
    chunk = {"request_id": "r", "choices": [{"index": 0, "token_ids": [40, 41]}]}
    body: dict[str, Any] = {"stream": True, "generate_chunk": chunk, "chat_request": CHAT}
    body |= {"prompt_token_ids": [1, 2], "stream_state": None}
    news, answer = added(server, "/v1/chat/completions/derender", body)
    assert stages(news) == {"decode", "detokenize", "parse", "encode"}
    assert news[("renderd_tokens_derendered_total",)] == 2
    assert news[("renderd_state_bytes_sum",)] == len(answer["stream_state"]["parser_state"])
    assert ("renderd_replays_total",) not in news
    history = {"output_token_ids": [40, 41], "output_chunk_lens": [2]}
    news, _ = added(server, "/v1/chat/completions/derender", body | {"stream_state": history})
    assert news[("renderd_replays_total",)] == 1


def test_anomalies_name_their_parser(server: Running) -> None:
    text = server.post("/tokenize", {"prompt": '<tool_call>\n{"name": "pi', "add_special_tokens": False})
    choice = {"index": 0, "token_ids": text.json()["tokens"], "finish_reason": "length"}
    tool = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}
    request = {**CHAT, "tools": [tool]}
    body = {"generate_response": {"request_id": "r", "choices": [choice]}, "chat_request": request}
    news, _ = added(server, "/v1/chat/completions/derender", body)
    assert news[("renderd_parser_anomalies_total", "markup_in_content", "+hermes")] == 1
