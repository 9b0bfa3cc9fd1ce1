"""Reports: what is in them, and the page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fake
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from renderd.conformance import documents, main
from renderd.conformance.cases import Case
from renderd.conformance.checks import Finding, absent
from renderd.conformance.runner import Result

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
NASTY = "</script><!-- \x01 \U0001f30d ]]>"


def pairs() -> list[tuple[fake.Json, fake.Json]]:
    """A case that passes, one whose answer lacks its last character, one that is not offered."""
    wrong = fake.record("hello " + NASTY)
    # The recording of the second is another text, so that the difference lies in the middle.
    wrong[1]["batch"]["choices"][0]["message"]["content"] = "hullo " + NASTY
    other = {"id": "toy/absent", "server": fake.SERVER, "api": "http", "areas": ["http"], "about": "A route"}
    other["request"] = {"method": "POST", "path": "/nowhere", "json": {}}
    recording = {"id": "toy/absent", "body": {"tokens": [1]}}
    return [fake.record("(f1)"), wrong, (other, recording)]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one report of each kind."""
    folder = tmp_path_factory.mktemp("reports")
    golden = fake.write(folder / "golden", pairs())
    names = [str(folder / f"report.{kind}") for kind in ("html", "json", "xml")]
    arguments = [part for name in names for part in ("--report", name)]
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, "--cases", str(golden), "--server", "toy", *arguments]) == 1
    return folder


def test_json_has_everything(reports: Path) -> None:
    report = json.loads((reports / "report.json").read_text())
    assert report["counts"] == {"pass": 1, "equivalent": 0, "declared": 0, "fail": 1, "absent": 1, "unfit": 0}
    assert report["run"]["against"] == "vllm-0.33.0"
    assert report["run"]["version"] == {"version": "7.0"}
    cases = {case["outcome"]: case for case in report["cases"]}
    assert cases["pass"]["request"] == fake.request()
    (batch,) = (check for check in cases["fail"]["checks"] if check["name"] == "batch")
    (finding,) = batch["findings"]
    assert (finding["wanted"], finding["got"]) == ("hullo " + NASTY, "hello " + NASTY)


def test_junit(reports: Path) -> None:
    root = ElementTree.parse(reports / "report.xml").getroot()
    (suite,) = root
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "3", "failures": "1", "errors": "0", "skipped": "1"}
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("batch: choices[0].message.content: wanted")
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "http: not offered: POST /nowhere"


RUN = documents.Run("http://127.0.0.1:9", None, "vllm-0.33.0", ["toy"], "2026-01-01T00:00:00+00:00")
FOUND = {
    "render": [Finding("no engine notices", aside="equivalent"), Finding("on purpose", declared="x")],
    "batch": [absent("POST", "/derender")],
    "stream": [Finding("the failure")],
}


def test_the_message_of_a_failure_is_what_failed() -> None:
    result = Result(Case("toy/a", "toy", "chat", {}), FOUND, "toy")
    failure = ElementTree.fromstring(documents.as_junit(RUN, [result]).encode()).find(".//failure")
    assert failure is not None
    assert failure.get("message") == "stream: the failure"
    assert (failure.text or "").splitlines()[-1] == "render: no engine notices"


def test_a_url_may_have_what_xml_has_not() -> None:
    run = documents.Run("http://127.0.0.1:9/\x01", None, "vllm-0.33.0", ["toy"], RUN.at)
    root = ElementTree.fromstring(documents.as_junit(run, [Result(Case("toy/a", "t\x01", "chat", {}), {})]))
    assert root.get("name") == "renderd conformance http://127.0.0.1:9/\ufffd"
    assert root[0].get("name") == "t\ufffd"


def test_an_unknown_kind_of_report_is_said_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["--url", "http://127.0.0.1:9", "--report", "report.pdf"]) == 2
    assert "report.pdf: reports end in .html, .json, .xml" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["--url", "http://127.0.0.1:9"], ["diff", "vllm-0.33.0", "vllm-0.32.0"]])
def test_a_report_that_cannot_be_written_is_said_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "folder.json").mkdir()
    for name in ("nowhere/report.json", "folder.json"):
        good = ["--report", str(tmp_path / "report.html")]
        assert main.main([*command, *good, "--report", str(tmp_path / name)]) == 2
        said = capsys.readouterr()
        assert str(tmp_path / name) in said.err
        assert said.out == ""
    assert [one.name for one in tmp_path.iterdir()] == ["folder.json"]


def test_a_report_that_could_not_be_written_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is full: the table is there all the same."""
    (tmp_path / "report.json").symlink_to("/dev/full")
    golden = fake.write(tmp_path / "golden", [fake.record("hello there")])
    report = ["--report", str(tmp_path / "report.json"), "--cases", str(golden)]
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, *report]) == 2
        said = capsys.readouterr()
        assert "1 cases: 1 pass" in said.out
        assert (
            said.err
            == f"renderd conformance: {tmp_path}/report.json is not written: No space left on device\n"
        )
    others = [str(tmp_path / "before.html"), str(tmp_path / "after.xml")]
    arguments = ["--report", others[0], *report, "--report", others[1]]
    with fake.serving(fake.Fake()) as url:
        assert main.main(["--url", url, *arguments]) == 2
    assert all(Path(one).stat().st_size > 100 for one in others)
    assert main.main(["diff", "vllm-0.33.0", "vllm-0.33.0", *report]) == 2
    assert "1 cases in both, 0 differ" in capsys.readouterr().out


def test_the_page_needs_nothing_else(reports: Path) -> None:
    page = (reports / "report.html").read_text()
    outside = r"""\b(?:src|href)=["'](?!#)|url\(|@import|fetch\(|https?://(?!127\.0\.0\.1)"""
    assert re.findall(outside, page) == []
    assert page.count("</script>") == 2


@contextmanager
def chromium(width: int, height: int) -> Iterator[Any]:
    """A browser with a window of that size."""
    if BROWSER is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    metrics = {"width": width, "height": height, "pixelRatio": 1}
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser() -> Iterator[Any]:
    with chromium(1200, 900) as driver:
        yield driver


@pytest.fixture(scope="module", params=[(390, 844), (1200, 900)], ids=["phone", "desktop"])
def page(request: pytest.FixtureRequest, reports: Path) -> Iterator[Any]:
    """The page, opened."""
    with chromium(*request.param) as driver:
        driver.get((reports / "report.html").as_uri())
        yield driver


def shown(page: Any) -> list[str]:
    return [entry.get_attribute("id") for entry in page.find_elements(By.CSS_SELECTOR, "#cases > details")]


def choose(page: Any, name: str, value: str) -> None:
    Select(page.find_element(By.ID, name)).select_by_value(value)


def test_it_begins_with_what_failed(page: Any) -> None:
    choose(page, "outcome", "fail")
    assert len(shown(page)) == 1
    assert page.find_element(By.ID, "shown").text == "1 of 3 cases"
    assert page.get_log("browser") == []
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_it_filters(page: Any) -> None:
    choose(page, "outcome", "")
    assert len(shown(page)) == 3
    choose(page, "area", "http")
    assert shown(page) == ["toy/absent"]
    choose(page, "area", "")
    choose(page, "family", "toy")
    assert len(shown(page)) == 3
    text = page.find_element(By.ID, "text")
    text.send_keys("a rou")
    assert shown(page) == ["toy/absent"]
    text.send_keys("x")
    assert shown(page) == []
    text.send_keys(Keys.BACKSPACE * 6)
    choose(page, "outcome", "pass")
    assert shown(page) == ["toy/(f1)-stop"]
    choose(page, "family", "")
    choose(page, "outcome", "")


def test_a_case_is_opened(page: Any) -> None:
    choose(page, "outcome", "fail")
    page.find_element(By.CSS_SELECTOR, "#cases summary").click()
    WebDriverWait(page, 5).until(lambda page: page.find_elements(By.CSS_SELECTOR, "pre.wanted"))
    wanted, got = (page.find_element(By.CSS_SELECTOR, f"pre.{side}") for side in ("wanted", "got"))
    assert wanted.get_property("textContent") == "hullo " + NASTY
    assert got.get_property("textContent") == "hello " + NASTY
    assert wanted.find_element(By.TAG_NAME, "del").text == "u"
    assert got.find_element(By.TAG_NAME, "ins").text == "e"
    asked = page.find_element(By.CSS_SELECTOR, "pre.request").text
    assert json.loads(asked) == fake.request()
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_the_run_is_told(page: Any, reports: Path) -> None:
    run = json.loads((reports / "report.json").read_text())["run"]
    late = "2 streams may be late: it is not recorded how many tokens a chunk stands for"
    assert run["flags"] == {"toy": ["--served-model-name", "toy-model"]}
    assert run["notes"] == [late]
    shown = page.find_element(By.ID, "notes").text.splitlines()
    assert shown == [
        *run["notes"],
        "Flags that the recorded servers were started with",
        "toy: --served-model-name toy-model",
    ]


def test_what_failed_is_open_in_print(page: Any) -> None:
    choose(page, "outcome", "fail")
    page.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert page.find_element(By.CSS_SELECTOR, "#cases details").get_property("open")
    assert page.find_element(By.CSS_SELECTOR, "pre.request").is_displayed()


def test_print_has_what_lies_around_a_difference(browser: Any, tmp_path: Path) -> None:
    finding = Finding("far in", values=("🙂" * 5000 + "wanted", "🙂" * 5000 + "got"))
    report = tmp_path / "report.html"
    result = Result(Case("toy/far", "toy", "chat", {}), {"render": [finding]}, "toy")
    documents.write([report], RUN, [result])
    browser.get(report.as_uri())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    wanted = browser.find_element(By.CSS_SELECTOR, "pre.wanted")
    assert wanted.get_property("textContent") == "🙂" * 5000 + "wanted"
    assert wanted.get_property("scrollHeight") <= wanted.get_property("clientHeight")


def test_what_is_not_seen_has_a_name(browser: Any, tmp_path: Path) -> None:
    """Where a text has it; in JSON for people a line end is none of the value."""
    texts = Finding("texts", values=("a\n", "a\u200b\t b"))
    objects = Finding("objects", values=({"a": 1}, {"b": [2]}))
    documents.write(
        [tmp_path / "x.html"], RUN, [Result(Case("toy/a", "toy", "chat", {}), {"render": [texts, objects]})]
    )
    browser.get((tmp_path / "x.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "#cases summary").click()
    WebDriverWait(browser, 5).until(lambda page: page.find_elements(By.CSS_SELECTOR, "pre.wanted"))
    named = browser.execute_script(
        "return [...document.querySelectorAll('.pair pre')].map((pre) => [...pre.querySelectorAll('.unseen')]"
        ".map((one) => getComputedStyle(one, '::before').content))"
    )
    assert named[:2] == [['"↵"'], ['"U+200B"', '"⇥"']]
    assert {one for shown in named[2:] for one in shown} <= {"none"}


def test_much_that_failed(browser: Any, tmp_path: Path) -> None:
    """What failed comes first, what no engine notices is a number, and print says how much it has."""
    many = [Finding(f"failure {number}") for number in range(8)]
    found = {"render": [*FOUND["render"], *many], "batch": [absent("POST", "/derender")], "stream": many[:1]}
    cases = [Case(f"toy/{number}", "toy", "chat", {}) for number in range(30)]
    report = tmp_path / "report.html"
    documents.write([report], RUN, [Result(case, found, "toy") for case in cases])
    browser.get(report.as_uri())
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    said = browser.find_element(By.ID, "shown").text
    assert said == "30 of 30 cases; printed open are the first 20 that failed, long values cut"
    opened = browser.find_elements(By.CSS_SELECTOR, "#cases > details[open]")
    assert len(opened) == 20
    body = opened[0].find_element(By.CSS_SELECTOR, ".body")
    assert [head.text for head in body.find_elements(By.TAG_NAME, "h3")][:3] == ["render", "stream", "batch"]
    assert [one.text for one in body.find_elements(By.CSS_SELECTOR, ".body > div")][:5] == [
        f"failure {number}" for number in range(5)
    ]
    folded = body.find_elements(By.CSS_SELECTOR, ".folded")
    assert [one.text for one in folded] == ["4 more", "1 equivalent: no engine notices"]
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert not browser.find_elements(By.CSS_SELECTOR, "#cases > details[open]")
    browser.execute_script("document.querySelector('#cases > details').open = true")
    folded[0].find_element(By.TAG_NAME, "summary").click()
    WebDriverWait(browser, 5).until(lambda _: "failure 7" in folded[0].text)
    assert "Declared as x" in folded[0].text


@pytest.mark.parametrize(
    ("left", "right", "alike", "deleted", "inserted"),
    [
        ("stop", "tool_calls", True, ["stop"], ["tool_calls"]),
        ("one two three", "one 2 three", True, ["two"], ["2"]),
        ("abc-middle-xyz", "abd-middle-xyw", True, ["c", "z"], ["d", "w"]),
        ("null", "a null text", False, ["null"], ["a null text"]),
        ("🌍!", "🌎!", True, ["🌍"], ["🌎"]),
        ("same", "same", True, [], []),
        ("a" * 3000, "b" * 3000, True, ["a" * 3000], ["b" * 3000]),
    ],
)
def test_characters_that_differ(
    page: Any, left: str, right: str, alike: bool, deleted: list[str], inserted: list[str]
) -> None:
    said = page.execute_script(
        "return compare(...arguments).map((pre, side) => [pre.textContent,"
        " [...pre.querySelectorAll(side ? 'ins' : 'del')].map((mark) => mark.textContent)])",
        left,
        right,
        alike,
    )
    assert said == [[left, deleted], [right, inserted]]


def test_a_run_that_must_not_count_as_good_is_an_error_to_ci() -> None:
    faults = ["nothing was checked", "x\x01"]
    run = documents.Run("http://x", None, "itself", [], "2026-01-01T00:00:00Z", faults=faults)
    suites = ElementTree.fromstring(documents.as_junit(run, []))
    assert [suite.get("errors") for suite in suites] == ["1"]
    error = suites.find("testsuite/testcase/error")
    assert error is not None
    assert (error.get("message"), error.text) == ("nothing was checked", "nothing was checked\nx\ufffd")


def test_many_notes_are_folded(browser: Any, tmp_path: Path) -> None:
    notes = ["one", "two", "nothing was checked", "three"]
    run = documents.Run("http://x", None, "itself", [], "now", notes=notes, faults=notes[2:3])
    report = tmp_path / "report.html"
    documents.write([report], run, [])
    browser.get(report.as_uri())
    shown = browser.find_element(By.ID, "notes")
    assert shown.text.splitlines() == ["nothing was checked", "3 notes on the run"]
    shown.find_element(By.TAG_NAME, "summary").click()
    assert shown.text.splitlines()[2:] == ["one", "two", "three"]
