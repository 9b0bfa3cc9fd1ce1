"""Puts the golden cases into the wheel, as one file that `renderd conformance` reads: of 100 MB it makes 3.

An editable install reads golden/ itself, and a build without that folder, the image's, carries none.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = (
    *("servers.toml", "divergences.toml", "divergences", "defaults.json"),
    *("cases", "recorded", "templates", "schema"),
)
"""What of golden/ a replay reads; the rest is for whoever starts the server or reads the cases."""


def pack(golden: Path, target: Path) -> None:
    """Write the archive. The same files give the same bytes. LZMA, as it finds what is far apart."""
    files = [path for part in PARTS for path in sorted([golden / part, *(golden / part).rglob("*")])]
    with zipfile.ZipFile(target, "w") as archive:
        for path in files:
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(golden).as_posix())
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_LZMA)


class GoldenHook(BuildHookInterface[Any]):
    """Called by hatchling before it writes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        golden = Path(self.root) / "golden"
        if version != "editable" and golden.is_dir():
            target = Path(mkdtemp()) / "golden.zip"
            pack(golden, target)
            build_data["force_include"][str(target)] = "renderd/conformance/golden.zip"
