"""The Dockerfile without Docker: its own RUN lines in a folder, then what the image would start.

The server runs as the image's user, which has no name, without any capability, on a file system that is
read-only but for its /tmp. It takes PyPI and about a minute, so it is `make image` that runs it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from golden.carried import write_sentencepiece
from tests.deploy.dockerfile import ROOT, environment, only, stages

pytestmark = pytest.mark.skipif("RENDERD_IMAGE" not in os.environ, reason="make image runs it")

BUILD, IMAGE = stages()
LIMIT = 300_000_000
"""Bytes of installed packages that the image may hold."""

INDEX = ("pypi.org", 443)

CONFINE = """
set -e
user=$1 tmp=$2
shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs "$tmp"
awk '$3 !~ /^(proc|sysfs|cgroup2?|devpts|mqueue)$/ {print $2}' /proc/self/mounts | sort -u |
  grep -vxF "$tmp" | while read -r at; do mount -o remount,bind,ro "$at" 2>/dev/null || true; done
exec unshare --user --map-user="$user" --map-group="$user" -- "$@"
"""
"""A script that makes everything read-only but an empty folder, and runs its arguments as another user."""


class Image(NamedTuple):
    """A folder with what the image would hold, in the same places."""

    root: Path

    def path(self, text: str) -> str:
        """A line of the Dockerfile with the image's own absolute paths put under the folder."""
        return re.sub(r"(?<![\w.])/(opt|src|models|tmp)\b", rf"{self.root}/\1", text)

    def environment(self) -> dict[str, str]:
        own = {name: self.path(value) for name, value in environment(IMAGE).items()}
        path = own.pop("PATH").replace("$PATH", os.environ["PATH"])
        return {"PATH": path, "LANG": "C.UTF-8", "TMPDIR": self.path("/tmp"), **own}

    def installed(self) -> int:
        """Bytes on the disk of all that is copied into the last stage."""
        files = (path.lstat() for path in Path(self.path("/opt/renderd")).rglob("*"))
        return sum(status.st_blocks * 512 for status in files)


@pytest.fixture(scope="module")
def image() -> Image:
    """Built by the first stage. It stays for a look, until the next one is built."""
    try:
        socket.create_connection(INDEX, timeout=5).close()
    except OSError as error:
        pytest.skip(f"no PyPI: {error}")
    root = ROOT / ".cache" / "image"
    shutil.rmtree(root, ignore_errors=True)
    (root / "opt").mkdir(parents=True)
    (root / "tmp").mkdir()
    image = Image(root)
    workdir = Path(image.path(only(BUILD, "WORKDIR").rest))
    workdir.mkdir()
    # The base image's python is first on its PATH; here it is the one that runs the tests.
    python = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PIP_QUIET": "1"}
    for instruction in BUILD:
        if instruction.word == "COPY":
            *sources, target = instruction.paths()
            for source in sources:
                _copy(ROOT / source, workdir / target)
        elif instruction.word == "RUN":
            subprocess.run(image.path(instruction.rest), shell=True, check=True, cwd=workdir, env=python)
    for instruction in IMAGE:
        if instruction.word == "COPY":
            source, target = map(image.path, instruction.paths())
            if source != target:
                shutil.copytree(source, target, symlinks=True)
    return image


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target if target.is_dir() else target.parent / source.name)


def confined(image: Image, *argv: str) -> list[str]:
    """The command that runs `argv` as a container of the image would; as it is where that is not allowed."""
    user = only(IMAGE, "USER").rest.partition(":")[0]
    inner = ["sh", "-c", CONFINE, "sh", user, image.path("/tmp")]
    outer = ["unshare", "--map-root-user", "--mount", *inner]
    if shutil.which("unshare") is None or subprocess.run([*outer, "true"], capture_output=True).returncode:
        return list(argv)
    return [*outer, *argv]


@contextmanager
def started(image: Image, *flags: str, **env: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The image's ENTRYPOINT with flags, confined; yields its URL once the health check says healthy."""
    entry = only(IMAGE, "ENTRYPOINT").argv()
    log = image.root / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            confined(image, *entry, *flags),
            env={**image.environment(), **env},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 60
        while not healthy(image):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield "http://127.0.0.1:8000", process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def healthy(image: Image) -> bool:
    """What the image's HEALTHCHECK says."""
    argv = json.loads(only(IMAGE, "HEALTHCHECK").rest.partition("CMD ")[2])
    return subprocess.run(argv, env=image.environment(), capture_output=True, timeout=10).returncode == 0


@pytest.fixture(autouse=True)
def free_ports() -> None:
    """The ports are those of the image, so nothing else may have them."""
    for port in map(int, only(IMAGE, "EXPOSE").rest.split()):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is taken"


def test_size(image: Image) -> None:
    size = image.installed()
    print(f"installed packages: {size / 1e6:.0f} MB")
    assert size < LIMIT


def test_no_installer_is_left(image: Image) -> None:
    names = {path.name for path in Path(image.path("/opt/renderd/lib")).glob("python*/site-packages/*")}
    assert {"renderd", "parsers"} <= names
    assert names.isdisjoint({"pip", "setuptools", "hatchling", "tests", "golden"})


def test_the_servers_here_are_confined(image: Image) -> None:
    """Else the tests below say nothing about a read-only file system."""
    script = f"id -u; touch {image.path('/tmp')}/a; touch {image.root}/b {ROOT}/b /tmp/b /dev/shm/b"
    argv = confined(image, "sh", "-c", script)
    if argv[0] == "sh":
        pytest.skip("no namespaces for users here")
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert said.stdout.split() == [only(IMAGE, "USER").rest.partition(":")[0]]
    assert said.stderr.count("Read-only file system") == 4


def test_it_serves_the_carried_model(image: Image) -> None:
    assert not healthy(image)
    chat = {"messages": [{"role": "user", "content": "Hello"}]}
    with started(image) as (url, process):
        rendered = httpx2.post(f"{url}/v1/chat/completions/render", json=chat).json()
        said = {"request_id": "r", "choices": [{"index": 0, "token_ids": rendered["token_ids"]}]}
        body = {"chat_request": chat, "prompt_token_ids": [1], "generate_response": said}
        answer = httpx2.post(f"{url}/v1/chat/completions/derender", json=body)
        assert "Hello" in answer.json()["choices"][0]["message"]["content"]
        process.terminate()
        assert process.wait(timeout=30) == 0


def test_a_tokenizer_for_transformers(image: Image) -> None:
    """One without a tokenizer.json: transformers reads it, which has no byte code in the image."""
    folder = image.root / "foreign"
    folder.mkdir()
    write_sentencepiece(folder)
    (folder / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 4096}')
    with started(image, str(folder)) as (url, _):
        assert httpx2.post(f"{url}/tokenize", json={"prompt": "Hello"}).json()["count"] > 0


def test_a_mounted_cache_without_a_network(image: Image) -> None:
    """HF_HUB_OFFLINE: a model that the volume has is served, any other stops the start with a sentence."""
    models = Path(image.path("/models")) / "hub" / "models--someone--something"
    (models / "refs").mkdir(parents=True)
    (models / "refs" / "main").write_text("0" * 40)
    shutil.copytree(ROOT / "renderd" / "demo" / "model", models / "snapshots" / ("0" * 40))
    with started(image, "someone/something", HF_HUB_OFFLINE="1") as (url, _):
        assert httpx2.get(f"{url}/v1/models").json()["data"][0]["id"] == "someone/something"
    other = confined(image, *only(IMAGE, "ENTRYPOINT").argv(), "someone/else")
    refused = subprocess.run(
        other, env={**image.environment(), "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 1
    assert "someone/else" in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr
