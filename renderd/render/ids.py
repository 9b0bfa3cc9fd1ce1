"""Request ids (contract B.5)."""

from __future__ import annotations

import msgspec

from renderd.wire.generate import random_id


def base_id(header: str | None, field: str | msgspec.UnsetType) -> str:
    """The part of the id behind its prefix: the X-Request-Id header, else the request's own, else 16 random
    hex digits."""
    if header is not None:
        return header
    return field if isinstance(field, str) else random_id()
