"""Golden cases against a server that remembers no segments of prompts: answers do not depend on the cache.

One configuration, unless RENDERD_UNCACHED in the environment names others, or is `all`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_conformance_golden import golden, serving

from renderd.conformance import report
from renderd.conformance.client import Client
from renderd.conformance.divergences import Divergences
from renderd.conformance.main import GOLDEN
from renderd.conformance.runner import replay

ASKED = os.environ.get("RENDERD_UNCACHED", "matrix-qwen3").split()
SERVED = [name for name, table in golden.servers.items() if table.get("kind", "serve") == "serve"]


@pytest.mark.parametrize("server", SERVED if ASKED == ["all"] else ASKED)
def test_every_case_without_the_cache(server: str, tmp_path: Path) -> None:
    with serving(server, tmp_path / "log", "--encode-cache-bytes", "0") as url:
        results = replay(Client(url), golden, Divergences.load(GOLDEN / "divergences.toml"), server)
    assert results
    if any(result.outcome() == "fail" for result in results):
        pytest.fail(report.differences(results, verbose=False), pytrace=False)
