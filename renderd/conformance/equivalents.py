"""Differences of a rendered request that an engine does not notice: golden/defaults.json says which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from renderd.conformance.cases import Folder, read
from renderd.conformance.compare import equal, request_id
from renderd.conformance.paths import ABSENT, Path


class Equivalents:
    """The table: by field of a rendered request, the values that mean what its absence means."""

    def __init__(self, table: Mapping[str, list[Any]]) -> None:
        self._table = table

    @classmethod
    def load(cls, golden: Folder) -> Equivalents:
        """Of a folder of cases; without the file hardly anything is. Raises ValueError for another form."""
        path = golden / "defaults.json"
        return cls(msgspec.json.decode(read(path), type=dict[str, list[Any]]) if path.exists() else {})

    def allow(self, whole: Any, path: Path, want: Any, got: Any, window: int | None) -> bool:
        """Whether two values at a place of a rendered request mean the same to an engine.

        `whole` is what `want` lies in, `window` how many tokens prompt and answer may have, if that is known.
        """
        prompt, keys = (whole[path[0]], path[1:]) if path and isinstance(path[0], int) else (whole, path)
        place = ".".join(map(str, keys))
        if place == "request_id":
            return request_id(want, got)
        same = [ABSENT, *self._table.get(place, ())]
        if place == "sampling_params.max_tokens" and window is not None:
            # Without a limit an engine generates until its window is full.
            same.append(window - len(prompt["token_ids"]))
        return all(any(_identical(value, one) for one in same) for value in (want, got))


def _identical(left: Any, right: Any) -> bool:
    """Equal; where the table (right) has 1, 1.0 is another value."""
    return equal(right, left)
