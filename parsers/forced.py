"""Answers that a JSON constraint forces: families without a structural tag, tool choice required or named.

The regions replace a family's own as the beginning of the content (contract B.4.3).
"""

from __future__ import annotations

from collections.abc import Mapping

from parsers.bodies.forced import WholeText
from parsers.bodies.json_call import JsonCall
from parsers.grammar import On, Region, Text

FORCED_REGIONS: Mapping[str, Region] = {
    "named": Region(Text.BODY, (), WholeText()),
    "required": Region(Text.DROP, (On("[", "forced calls", as_text=True),)),
    "forced calls": Region(
        Text.DROP,
        (
            On("{", "forced call", keep=True, tentative=True, as_text=True),
            On(",", "forced calls", as_text=True),
            On("]", "forced end", as_text=True),
        ),
    ),
    "forced call": Region(
        Text.BODY, (), JsonCall(("parameters", "arguments"), certain_by_name=True), then="forced calls"
    ),
    "forced end": Region(Text.DROP),
}
"""Their names are those of `RequestContext.json`, by which they start."""
