"""Metrics of engines, and what flags make of the route to them."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from renderd.server.config import ServerConfig, StartupError
from renderd.server.engine_metrics import engine_route
from renderd.server.metrics import Metrics
from renderd.server.startup import load
from tests.gateway.scripted import TOKENS, request, scripted, tokens


def shown(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Samples of engines: the name without renderd_engine_ and the values of the labels."""
    text = bytes(metrics.exposition().body).decode()  # type: ignore[union-attr]
    return {
        (sample.name.removeprefix("renderd_engine_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("renderd_engine_") and "le" not in sample.labels
    }


def test_a_request_in_metrics() -> None:
    async def talk() -> None:
        with scripted(2, has_kv=True) as (prefill, decode):
            metrics = Metrics()
            config = ServerConfig(engine_url=[decode.url], prefill_url=[prefill.url])
            route = engine_route(config, metrics.registry)
            generation = await route.stream(request(range(1, 40)))
            d, p = decode.url.removeprefix("http://"), prefill.url.removeprefix("http://")
            assert shown(metrics)["in_flight", d] == 1
            assert await tokens(generation) == TOKENS
            found = shown(metrics)
            assert (found["in_flight", d], found["healthy", d], found["healthy", p]) == (0, 1, 1)
            assert found["requests_total", d, "answered"] == found["requests_total", p, "answered"] == 1
            for engine, stage in ((d, "queue"), (p, "prefill"), (d, "first_token"), (d, "decode")):
                assert found["stage_seconds_count", engine, stage] == 1
            assert found["kv_total", "handed_over"] == 1
            await route.close()

    asyncio.run(talk())


def test_the_key_is_for_all_engines_and_shown_nowhere() -> None:
    config = ServerConfig(engine_url=["http://a"], prefill_url=["http://b"], engine_api_key="sesame")
    route = engine_route(config, Metrics().registry)
    for engine in (*route.engines.all, *route.prefill.all):
        assert engine.client._headers["Authorization"] == "Bearer sesame"
    assert "sesame" not in f"{config!r}{route._options!r}"
    for key in ("", "a\nb", "\u00e4"):
        with pytest.raises(StartupError, match="--engine-api-key has characters"):
            load(ServerConfig(engine_url=["http://a"], engine_api_key=key))


def test_prefill_without_decode() -> None:
    with pytest.raises(StartupError, match="--prefill-url requires --engine-url"):
        load(ServerConfig(prefill_url=["http://a"]))
