"""The Grafana dashboard and the alert rules ask for nothing that a server does not show."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from renderd.gateway.gateway import COUNT_TOKENS
from renderd.gateway.route import KvEvent, Outcome
from renderd.server.routes import POSTS
from renderd.telemetry import STAGES
from tests.gateway.scripted import scripted
from tests.server.running import running

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "renderd.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus" / "renderd-alerts.yaml").read_text())
TARGET = {"job", "instance"}
"""Labels that Prometheus adds to all that it scrapes."""
OF_ENGINES = {"queue", "prefill", "first_token", "decode"}
"""Stages of renderd_engine_stage_seconds."""
VALUES = {
    "status": {"2xx", "3xx", "4xx", "5xx"},
    "stage": {*STAGES, *OF_ENGINES},
    "outcome": set(get_args(Outcome)),
    "event": set(get_args(KvEvent)),
}
KUBELET = {
    "container_memory_working_set_bytes": {"container", "namespace", "pod"},
    "container_spec_memory_limit_bytes": {"container", "namespace", "pod"},
}
"""Metrics that alerts ask somebody else for: cAdvisor."""

Shown = Mapping[str, set[str]]
"""Labels by name of a sample."""


@pytest.fixture(scope="module")
def shown() -> Shown:
    """What a server with engines shows that has answered, refused and met an anomaly."""
    with (
        scripted(2, has_kv=True) as (prefill, decode),
        running(
            "--served-model-name=demo",
            "--tool-call-parser=hermes",
            "--enable-auto-tool-choice",
            f"--prefill-url={prefill.url}",
            f"--engine-url={decode.url}",
        ) as server,
    ):
        tokens = server.post("/tokenize", {"prompt": '<tool_call>\n{"name": "pi'}).json()["tokens"]
        choice = {"index": 0, "token_ids": tokens, "finish_reason": "length"}
        tool = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}
        request = {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}
        body = {"generate_response": {"request_id": "r", "choices": [choice]}, "chat_request": request}
        assert server.post("/v1/chat/completions/derender", body).status_code == 200
        assert server.post("/v1/chat/completions", request | {"stream": True}).status_code == 200
        exposition = server.get("/metrics").text
    labels: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            labels[sample.name] |= sample.labels.keys()
    return {**labels, "up": set()}


def expressions() -> Iterator[tuple[str, str]]:
    """Each question to Prometheus, and the text that shows labels of its answer."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"], target["legendFormat"]
    for group in RULES["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], "".join(rule["annotations"].values())
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
            assert asked
            yield f"sum by ({asked[2]}) ({asked[1]})", ""


def parsed(expression: str) -> Any:
    plain = expression.replace("$__rate_interval", "5m")
    return promql_parser.parse(re.sub(r"\$(job|instance)", ".*", plain))


def selectors(node: Any) -> Iterator[Any]:
    """The metrics that an expression asks for."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        if (inner := getattr(node, name, None)) is not None:
            yield from selectors(inner)
    for argument in getattr(node, "args", None) or ():
        yield from selectors(argument)


@pytest.mark.parametrize(("expression", "legend"), sorted(set(expressions())))
def test_names_and_labels_exist(shown: Shown, expression: str, legend: str) -> None:
    tree = parsed(expression)
    known = set(TARGET)
    found = list(selectors(tree))
    assert found
    for selector in found:
        labels = {**KUBELET, **shown}[selector.name] | TARGET
        known |= labels
        for matcher in selector.matchers.matchers:
            assert matcher.name in labels
            if matcher.name in VALUES:
                assert set(matcher.value.split("|")) <= VALUES[matcher.name]
    grouped = {
        name.strip() for names in re.findall(r"\bby \(([^)]*)\)", expression) for name in names.split(",")
    }
    assert grouped <= known
    used = set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", legend)) - {"value"}
    assert used <= (grouped or known)


def test_every_metric_is_on_the_dashboard(shown: Shown) -> None:
    """Those of engines too, as docs/operating.md says."""
    of_panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    asked = {selector.name for text in of_panels for selector in selectors(parsed(text))}
    ending = re.compile(r"_(bucket|sum|count|total|created)$")
    families = {ending.sub("", name) for name in shown.keys() - {"up"}}
    assert any(name.startswith("renderd_engine_") for name in families)
    assert families == {ending.sub("", name) for name in asked}


def test_alerts_cover_what_is_asked_for() -> None:
    names = {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}
    assert names == {
        "RenderdDown",
        "RenderdNotReady",
        "RenderdServerErrors",
        "RenderdSlow",
        "RenderdQueueWait",
        "RenderdWorkerRestarts",
        "RenderdParserAnomalies",
        "RenderdMemory",
        "RenderdEngineUnhealthy",
        "RenderdEngineFailures",
        "RenderdEngineKv",
    }
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert rule["annotations"].keys() == {"summary", "description"}


def test_slow_are_the_calls_that_no_engine_answers() -> None:
    (rule,) = [rule for group in RULES["groups"] for rule in group["rules"] if rule["alert"] == "RenderdSlow"]
    asked = {
        matcher.value
        for selector in selectors(parsed(rule["expr"]))
        for matcher in selector.matchers.matchers
        if matcher.name == "handler"
    }
    (pattern,) = asked
    own = {post.path for post in POSTS} | {COUNT_TOKENS}
    assert {path for path in own if not re.fullmatch(pattern, path)} == set()
    assert not any(
        re.fullmatch(pattern, f"/v1/{name}") for name in ("chat/completions", "completions", "messages")
    )


def test_panels_have_numbers_and_places_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24
