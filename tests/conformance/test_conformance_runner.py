"""The runner against a fake server: what is right passes, each mistake is found by the check meant for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fake
import pytest

from renderd.conformance import main, report
from renderd.conformance.cases import Golden
from renderd.conformance.client import Client
from renderd.conformance.divergences import Divergences
from renderd.conformance.runner import Result, replay, unneeded

PAIRS = [
    fake.record("hello there"),
    fake.record("a(f12345)b(g)"),
    fake.record("cut(fhalf", "length"),
]


ERROR: Any = {
    "error": {"message": "no messages", "type": "BadRequestError", "param": "messages", "code": 400}
}


def run(folder: Path, server: fake.Fake) -> tuple[list[Result], list[str]]:
    golden, divergences = Golden(folder), Divergences.load(folder / "divergences.toml")
    with fake.serving(server) as url:
        results = replay(Client(url), golden, divergences, fake.SERVER)
    return results, unneeded(divergences, golden, results)


def failed_checks(results: list[Result]) -> set[str]:
    return {check for result in results for check in result.found if result.outcome(check) == "fail"}


def test_right_answers_pass(tmp_path: Path) -> None:
    results, stale = run(fake.write(tmp_path, PAIRS), fake.Fake())
    assert report.differences(results, verbose=True) == ""
    assert [result.outcome() for result in results] == ["pass"] * 3
    assert {"render", "batch", "coupled", "stream", "order", "repeat"} <= set(results[0].found)
    assert stale == []


@pytest.mark.parametrize(
    ("fault", "checks"),
    [
        ("always_max_tokens", {"render"}),
        ("another_status", {"render"}),
        ("drops_last_character", {"batch", "stream"}),
        ("loses_third_tokens", {"stream"}),
        ("role_again", {"order"}),
        ("chunk_id", {"order"}),
        ("chunk_model", {"order"}),
        ("chunk_created", {"order"}),
        ("chunk_banana", {"order"}),
        ("chunk_usage", {"order", "stream", "coupled"}),
        ("unsteady", {"repeat", "order"}),
        ("random_ids", {"repeat", "stream"}),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, fault: str, checks: set[str]) -> None:
    results, _ = run(fake.write(tmp_path, PAIRS), fake.Fake(fault))
    assert failed_checks(results) == checks


def test_refusals_are_compared(tmp_path: Path) -> None:
    case, recording = fake.record("x")
    error = {"message": "no messages", "type": "BadRequestError", "param": "messages", "code": 400}
    refused = {"id": "toy/refused", "server": fake.SERVER, "api": "chat", "areas": ["errors"]}
    refused["request"] = {"model": fake.MODEL, "messages": []}
    good = {"id": "toy/refused", "status": 400, "render": {"error": error}}
    other = good | {"render": {"error": error | {"param": None}}}
    schema = good | {"render": {"error": error | {"type": "Bad Request", "message": "prose"}}}
    for recorded, outcome in ((good, "pass"), (other, "fail"), (schema, "fail")):
        folder = fake.write(
            tmp_path / outcome / str(len(str(recorded))), [(case, recording), (refused, recorded)]
        )
        results, _ = run(folder, fake.Fake())
        assert [result.outcome() for result in results] == ["pass", outcome]


def test_a_recording_that_lacks_something_is_no_pass(tmp_path: Path) -> None:
    case, recording = fake.record("hello there")
    for number, lacking in enumerate(({"generate"}, {"batch"}, {"stream"}, set(recording))):
        left = {key: value for key, value in recording.items() if key == "id" or key not in lacking}
        results, _ = run(fake.write(tmp_path / str(number), [(case, left)]), fake.Fake())
        assert list(results[0].found) == ["recording"]
        assert results[0].outcome() == "fail"


def test_an_error_in_the_body_of_a_200_is_no_error(tmp_path: Path) -> None:
    error = {"message": "no messages", "type": "BadRequestError", "param": "messages", "code": 400}
    refused = {"id": "toy/refused", "server": fake.SERVER, "api": "chat"}
    refused["request"] = {"model": fake.MODEL, "messages": []}
    folder = fake.write(
        tmp_path, [(refused, {"id": "toy/refused", "status": 400, "render": {"error": error}})]
    )
    results, _ = run(folder, fake.Fake("error_in_a_200"))
    (finding,) = results[0].found["render"]
    assert (finding.path, finding.values) == (("error", "status"), (400, 200))


class Answering(fake.Fake):
    """Gives one answer to requests without messages."""

    def __init__(self, status: int, answer: Any) -> None:
        super().__init__()
        self.given = status, answer

    def render(self, request: Any) -> tuple[int, Any]:
        return super().render(request) if request["messages"] else self.given


def refused(folder: Path, recorded: tuple[int, Any], entry: str, given: tuple[int, Any]) -> Result:
    """A request that the reference answered with an error, and the server so."""
    case = {"id": "toy/refused", "server": fake.SERVER, "api": "chat"}
    case["request"] = {"model": fake.MODEL, "messages": []}
    status, body = recorded
    recording = {"id": "toy/refused", "status": status, "render": body}
    results, _ = run(fake.write(folder, [(case, recording)], entry), Answering(*given))
    return results[0]


ANSWER = {"token_ids": [1, 2], "sampling_params": {"stop": None}, "model": fake.MODEL}
RENDERED = f"""
[[divergence]]
id = "more"
where = "error"
field = "status"
kind = "superset"
reason = "It can be rendered."
reproducer = "toy/refused"

[divergence.cases]
"toy/refused" = {{ status = 200, answer = '{json.dumps(ANSWER)}' }}
"""


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ((200, ANSWER), "declared"),
        ((200, ANSWER | {"token_ids": [1, 3]}), "fail"),
        ((200, ANSWER | {"token_ids": [1.0, 2.0]}), "fail"),
        ((200, ANSWER | {"more": 1}), "fail"),
        ((200, ANSWER | {"sampling_params": {"stop": "banana"}}), "fail"),
        ((200, [ANSWER]), "fail"),
        ((200, {}), "fail"),
        ((200, ERROR), "fail"),
        ((302, ANSWER), "fail"),
        ((500, {}), "fail"),
        ((404, ERROR), "fail"),
    ],
)
def test_beside_a_declared_200_stands_our_answer(tmp_path: Path, given: Any, outcome: str) -> None:
    assert refused(tmp_path, (400, ERROR), RENDERED, given).outcome() == outcome


SAID = """
[[divergence]]
id = "said"
cases = ["toy/refused"]
where = "error"
field = ["status", "type", "param", "message"]
ours = { status = 400, type = "Bad Request", param = "body.messages" }
defect = "server_error"
reason = "No messages are the client's mistake."
reproducer = "toy/refused"
"""


@pytest.mark.parametrize(
    ("status", "changed", "outcome"),
    [
        (400, {}, "declared"),
        (400, {"param": None}, "declared"),  # as recorded
        (400, {"message": "other words"}, "declared"),
        (400, {"param": "banana"}, "fail"),
        (400, {"type": "banana"}, "fail"),
        (400, {"code": 500}, "fail"),
        (400, {"message": ""}, "fail"),
        (400, {"more": 1}, "fail"),
        (500, {"code": 500}, "fail"),
        (404, {"code": 404}, "fail"),
        (429, {"code": 429}, "fail"),
    ],
)
def test_a_declared_error_is_ours(tmp_path: Path, status: int, changed: Any, outcome: str) -> None:
    recorded = {"message": "list index", "type": "InternalServerError", "param": None, "code": 500}
    ours = {"message": "none", "type": "Bad Request", "param": "body.messages", "code": 400} | changed
    given = (status, {"error": ours})
    assert refused(tmp_path, (500, {"error": recorded}), SAID, given).outcome() == outcome


@pytest.mark.parametrize("kind", ["BadRequestError", "Bad Request"])
@pytest.mark.parametrize(
    "changed",
    [
        {"code": "banana"},
        {"code": None},
        {"code": 422},
        {"code": 400.0},
        {"message": None},
        {"message": " "},
        {"message": 3},
        {"more": 1},
        {"param": 3},
    ],
)
def test_an_error_has_an_envelope(tmp_path: Path, kind: str, changed: Any) -> None:
    right = ERROR["error"] | {"type": kind}
    recorded = (400, {"error": right})
    for place, given, outcome in (
        ("right", {"error": right}, "pass"),
        ("changed", {"error": right | changed}, "fail"),
        ("beside", {"error": right, "detail": []}, "fail"),
        ("lacking", {"error": {key: right[key] for key in right if key not in changed}}, "fail"),
    ):
        if place != "lacking" or changed.keys() & right.keys():
            assert refused(tmp_path / place, recorded, "", (400, given)).outcome() == outcome


def test_an_answer_says_that_it_is_json(tmp_path: Path) -> None:
    golden = Golden(fake.write(tmp_path, PAIRS))
    for kind, checks in (("text/html", {"render", "batch", "stream"}), ("Application/JSON", set())):
        with fake.serving(fake.Fake(), kind) as url:
            results = replay(Client(url), golden, Divergences([]), fake.SERVER)
        assert failed_checks(results) == checks


def test_other_routes_are_compared(tmp_path: Path) -> None:
    case = {"id": "toy/tokens", "server": fake.SERVER, "api": "http", "areas": ["http"]}
    case["request"] = {"method": "POST", "path": "/tokenize", "json": {"prompt": "ab"}}
    good = {"id": "toy/tokens", "headers": {"content-type": "application/json"}, "body": {"tokens": [97, 98]}}
    other_body = good | {"body": {"tokens": [97]}}
    other_header = good | {"headers": {"content-type": "text/plain"}}
    for number, recorded in enumerate((good, other_body, other_header)):
        results, _ = run(fake.write(tmp_path / str(number), [(case, recorded)]), fake.Fake())
        assert results[0].outcome("http") == ("fail" if number else "pass")


def test_a_case_without_recording_fails(tmp_path: Path) -> None:
    pairs = [PAIRS[0], (PAIRS[1][0], {"id": "toy/other"})]
    results, _ = run(fake.write(tmp_path, pairs), fake.Fake())
    assert failed_checks(results) == {"recording"}


SUPERSET = """
[[divergence]]
id = "max-tokens"
cases = ["toy/*"]
where = "render"
field = "sampling_params.max_tokens"
ours = 16
kind = "superset"
reason = "An engine takes a missing max_tokens for none."
reproducer = "toy/hello there-stop"
"""


def test_a_declared_superset_is_allowed(tmp_path: Path) -> None:
    folder = fake.write(tmp_path, PAIRS, SUPERSET)
    results, stale = run(folder, fake.Fake("always_max_tokens"))
    assert [result.outcome() for result in results] == ["declared"] * 3
    assert stale == []
    results, stale = run(folder, fake.Fake())
    assert [result.outcome() for result in results] == ["pass"] * 3
    assert stale == ["divergence max-tokens: toy/* does not differ (any more)"]


def test_another_value_than_the_declared_is_a_failure(tmp_path: Path) -> None:
    folder = fake.write(tmp_path, PAIRS, SUPERSET.replace("ours = 16", "ours = 17"))
    results, _ = run(folder, fake.Fake("always_max_tokens"))
    assert [result.outcome() for result in results] == ["fail"] * 3
    assert "divergence max-tokens wants 17" in report.differences(results, verbose=False)


def test_a_difference_without_the_stated_defect_is_a_failure(tmp_path: Path) -> None:
    entry = SUPERSET.replace('kind = "superset"', 'defect = "text_lost"')
    results, _ = run(fake.write(tmp_path, PAIRS, entry), fake.Fake("always_max_tokens"))
    assert [result.outcome() for result in results] == ["fail"] * 3


def lossy_pair() -> tuple[Any, Any]:
    """The reference dropped a call that the output has."""
    case, recording = fake.record("a(f 123 45)")
    message = recording["batch"]["choices"][0]["message"]
    recording["batch"]["choices"][0] |= {"message": {**message, "tool_calls": []}, "finish_reason": "stop"}
    return case, recording


CALL_LOST = """
[[divergence]]
id = "call-lost"
cases = ["toy/a(f 123 45)-stop"]
where = "batch"
field = "choices[0].message.tool_calls"
ours = [{ function = { name = "f", arguments = " 123 45" } }]
defect = "text_lost"
reason = "The call is there."
reproducer = "toy/a(f 123 45)-stop"

[[divergence]]
id = "call-finish"
cases = ["toy/a(f 123 45)-stop"]
where = "batch"
field = "choices[0].finish_reason"
ours = { rule = "as_stream" }
defect = "batch_differs_from_stream"
reason = "A call that is there finishes as one."
reproducer = "toy/a(f 123 45)-stop"
"""


def test_declared_defects_of_the_batch_answer(tmp_path: Path) -> None:
    results, stale = run(fake.write(tmp_path, [lossy_pair()], CALL_LOST), fake.Fake())
    assert report.differences(results, verbose=False) == ""
    assert results[0].outcome() == "declared"
    assert results[0].outcome("coupled") == "pass"
    assert stale == []


def test_a_stream_entry_wants_our_own_batch_answer(tmp_path: Path) -> None:
    case, recording = fake.record("a(f 123 45)")
    for chunk in recording["stream"]:
        for choice in chunk["choices"]:
            if choice["delta"].get("content"):
                choice["delta"]["content"] = "?"
    entry = """
[[divergence]]
id = "content"
cases = ["toy/a(f 123 45)-stop"]
where = "stream"
field = "choices[*].message.content"
defect = "stream_differs_from_batch"
reason = "The stream says something else."
reproducer = "toy/a(f 123 45)-stop"
"""
    results, stale = run(fake.write(tmp_path, [(case, recording)], entry), fake.Fake())
    assert results[0].outcome("coupled") == "declared"
    assert results[0].outcome() == "declared"
    assert stale == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(fake.write(tmp_path, PAIRS))
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, "--cases", folder]) == 0
        said = capsys.readouterr().out
        assert "toy: 3 cases: 3 pass" in said
        assert "3 streams may be late: it is not recorded" in said
        assert main.main(["--url", url, "--cases", folder, "--case", "hello*", "--server", "toy"]) == 0
        assert "toy: 1 cases: 1 pass" in capsys.readouterr().out
        assert main.main(["--url", url, "--cases", folder, "--case", "no such case"]) == 2
        assert main.main(["--url", url, "--cases", folder, "--server", "other"]) == 2
        assert "no configuration 'other'" in capsys.readouterr().err
        assert main.main(["--url", url, "--cases", str(tmp_path / "nowhere")]) == 2
    with fake.serving(fake.Fake("drops_last_character")) as url:
        assert main.main(["--url", url, "--cases", folder, "--server", "toy"]) == 1
        out = capsys.readouterr().out
        assert "FAIL  toy/hello there-stop  batch: choices[0].message.content" in out
    assert main.main(["--url", "http://127.0.0.1:9", "--cases", folder]) == 2


def test_the_table_counts_by_area_and_check(tmp_path: Path) -> None:
    results, _ = run(fake.write(tmp_path, PAIRS), fake.Fake("role_again"))
    lines = [line.split() for line in report.table(results).splitlines()]
    assert lines[0] == [
        "family",
        "area",
        "cases",
        "pass",
        "equivalent",
        "declared",
        "fail",
        "not",
        "offered",
        "not",
        "fitting",
    ]
    assert ["toy", "text", "3", "0", "0", "0", "3", "0", "0"] in lines
    assert ["toy", "check:", "batch", "3", "3", "0", "0", "0", "0", "0"] in lines
    assert ["toy", "check:", "order", "3", "0", "0", "0", "3", "0", "0"] in lines
