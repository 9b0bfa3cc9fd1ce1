"""Numbers of several processes in memory that they share: each writes a region of its own, any may read all.

A region grows by entries, a key and its numbers, which stay where they are. What a process wrote remains when
it ends, however it ends; one that takes its place goes on from there. Adding to a number costs a tenth of a
microsecond and no system call.
"""

from __future__ import annotations

import logging
import mmap
import struct
from collections.abc import Iterator

logger = logging.getLogger("renderd.server")

REGION_BYTES = 1 << 19
"""Some thousand series. Pages that nothing was written to take no memory."""
_HEAD = struct.Struct("=II")
_FIRST = 64
"""Numbers at the start of a region: how many bytes are used, then room for what fits nowhere."""


class Cells:
    """Regions 0 to `regions` - 1. Made before the processes are forked; each then enters one region.

    `values`: the numbers of all regions, for adding at a place that `place` gave.
    """

    def __init__(self, regions: int) -> None:
        self.memory = mmap.mmap(-1, regions * REGION_BYTES)
        self.values = memoryview(self.memory).cast("d")
        self._used = memoryview(self.memory).cast("Q")
        self.regions = regions
        for region in range(regions):
            self._used[region * REGION_BYTES // 8] = _FIRST * 8
        self.enter(0)

    def enter(self, region: int) -> None:
        """From here on this process writes this region, and nobody else does."""
        self._start = region * REGION_BYTES
        self._places = {key: at for key, at, _ in self.entries(region)}

    def place(self, key: bytes, count: int) -> int:
        """Where in `values` the `count` numbers of a key stand in the own region. New ones are 0."""
        at = self._places.get(key)
        if at is None:
            at = self._places[key] = self._append(key, count)
        return at

    def entries(self, region: int) -> Iterator[tuple[bytes, int, int]]:
        """Key, place and count of each entry of a region."""
        start = region * REGION_BYTES
        offset, end = start + _FIRST * 8, start + self._used[start // 8]
        while offset < end:
            size, count = _HEAD.unpack_from(self.memory, offset)
            key = self.memory[offset + _HEAD.size : offset + _HEAD.size + size]
            numbers = offset + _HEAD.size + _padded(size)
            yield key, numbers // 8, count
            offset = numbers + 8 * count

    def _append(self, key: bytes, count: int) -> int:
        used = self._used[self._start // 8]
        numbers = used + _HEAD.size + _padded(len(key))
        if numbers + 8 * count > REGION_BYTES:
            logger.error("there is no room for another metric: %s is not counted", key.decode())
            return self._start // 8 + 1
        _HEAD.pack_into(self.memory, self._start + used, len(key), count)
        offset = self._start + used + _HEAD.size
        self.memory[offset : offset + len(key)] = key
        self._used[self._start // 8] = numbers + 8 * count  # last: a reader sees whole entries
        return (self._start + numbers) // 8


def _padded(size: int) -> int:
    return -(-size // 8) * 8
