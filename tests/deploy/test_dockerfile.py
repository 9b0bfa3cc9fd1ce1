"""What the Dockerfile promises, as far as reading it tells; test_image.py does what it says."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from renderd.server.flags import parse
from tests.deploy.dockerfile import ROOT, environment, only, stages

BUILD, IMAGE = stages()
PINNED = re.compile(r"^([\w.-]+)==([\w.+!-]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    """Package -> version of a lock file, the last where there is one for each Python."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return {canonicalize_name(package): version for package, version in PINNED.findall(text)}


def needed() -> list[Requirement]:
    """What the project needs, and what its traces need: the image has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        Requirement(line) for line in (*project["dependencies"], *project["optional-dependencies"]["otel"])
    ]


@pytest.mark.parametrize("requirement", needed(), ids=str)
def test_the_lock_file_has_what_the_project_needs(requirement: Requirement) -> None:
    """After a change of pyproject.toml: make lock."""
    assert pins("requirements.lock")[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
def test_every_pin_has_hashes(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / name).read_text(encoding="utf-8"))
    assert all("--hash=sha256:" in entry for entry in entries if not entry.startswith("#"))


def test_whatever_comes_from_pypi_is_hashed() -> None:
    for run in (instruction.rest for instruction in BUILD if instruction.word == "RUN"):
        for command in (part for part in run.split("&&") if " install " in part):
            assert "--require-hashes" in command or "/opt/build/wheels/" in command, command


def test_the_build_sees_no_more_than_it_copies() -> None:
    """.dockerignore lets in what COPY names, and nothing else."""
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    admitted = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = [
        path for instruction in BUILD if instruction.word == "COPY" for path in instruction.paths()[:-1]
    ]
    assert rules[0] == "*"
    assert sorted(copied) == sorted(admitted)
    assert any(fnmatch("renderd/__pycache__", rule) for rule in rules)


def test_the_image_has_the_two_stages_share_one_base() -> None:
    assert BUILD[0].rest == "${PYTHON} AS build"
    assert IMAGE[0].rest == "${PYTHON}"
    assert re.search(r"^ARG PYTHON=python:3\.11-slim-\w+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_the_image_runs_nothing_as_root() -> None:
    """The last stage only copies, and its user is a number."""
    assert {instruction.word for instruction in IMAGE}.isdisjoint({"RUN", "ADD"})
    user, _, group = only(IMAGE, "USER").rest.partition(":")
    assert int(user) > 0
    assert int(group) > 0


def test_downloads_go_to_the_volume() -> None:
    assert environment(IMAGE)["HF_HOME"] == only(IMAGE, "VOLUME").rest


def test_the_health_check_asks_the_port_that_the_entry_point_opens() -> None:
    entry = only(IMAGE, "ENTRYPOINT").argv()
    assert entry[:2] == ["renderd", "serve"]
    config, ignored = parse(entry[2:])
    assert not ignored
    check = only(IMAGE, "HEALTHCHECK").rest
    assert f"'127.0.0.1', {config.probe_port}," in check
    assert only(IMAGE, "EXPOSE").rest.split() == [str(config.port), str(config.probe_port)]
