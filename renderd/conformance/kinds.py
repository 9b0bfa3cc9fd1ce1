"""What differs, counted by kind: the route, and the place in its answer with indexes masked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from renderd.conformance.cases import Case
from renderd.conformance.checks import ROUTES, Finding
from renderd.conformance.paths import Path
from renderd.conformance.runner import Result

_ROUTES = {"batch": "derender", "coupled": "derender stream", "stream": "stream against whole"}
"""Of checks, what they compare, where that is not the check's own name."""

_APIS = {
    f"POST /v1/{path}/{route}": (api, route)
    for api, path in ROUTES.items()
    for route in ("render", "derender")
}
"""Routes that cases of "http" may ask too."""

_FREE = ("arguments", "chat_template_kwargs", "extra_args", "json", "logit_bias", "properties", "vllm_xargs")
"""Keys whose values have keys of the user's own: a place ends at them."""


class Kind(msgspec.Struct, frozen=True, order=True):
    """Where answers differ.

    Attributes:
        api: "chat", "completion", "messages", "responses"; "http" for any other route.
        route: "render", "derender", "derender stream" (against a recorded one), "stream against whole" (the
            server's own); else the name of a check, or method and path.
        place: `choices[].message.content`. Of errors "error.param", of a status "error.status 400 -> 200",
            the wanted one and the one that came. "" where no values were compared.
    """

    api: str
    route: str
    place: str

    def __str__(self) -> str:
        """`chat derender: choices[].message.content`."""
        return f"{self.api} {self.route}: {self.place}".removesuffix(": ")


class Count(msgspec.Struct):
    """How often a kind was found.

    Attributes:
        example: the id of the first case that has it.
        families: how many cases have it, by family.
    """

    kind: Kind
    example: str
    families: dict[str, int] = {}

    @property
    def cases(self) -> int:
        return sum(self.families.values())


def asked(case: Case, check: str) -> tuple[str, str]:
    """API and route, as kinds have them, of what a check of a case compares."""
    if case.api != "http":
        return case.api, _ROUTES.get(check, check)
    route = f"{case.request['method']} {case.request['path'].partition('?')[0]}"
    return _APIS.get(route, ("http", route))


def kind_of(case: Case, check: str, finding: Finding) -> Kind:
    """The kind of a finding that a check of a case made."""
    place = _masked(finding.path)
    if place == "error.status" and finding.values is not None:
        place += " {} -> {}".format(*finding.values)
    return Kind(*asked(case, check), place)


def undeclared(finding: Finding) -> bool:
    """Whether it makes its case fail."""
    return not finding.declared and not finding.aside


def count(results: Iterable[Result], wanted: Callable[[Finding], bool] = undeclared) -> list[Count]:
    """The kinds of all wanted findings, most frequent first. A case counts once a kind, in every kind."""
    found: dict[Kind, Count] = {}
    for result in results:
        kinds = (
            kind_of(result.case, check, finding)
            for check, findings in result.found.items()
            for finding in findings
            if wanted(finding)
        )
        for kind in dict.fromkeys(kinds):
            families = found.setdefault(kind, Count(kind, result.case.id)).families
            families[result.family] = families.get(result.family, 0) + 1
    return sorted(found.values(), key=lambda one: (-one.cases, one.kind))


def _masked(path: Path) -> str:
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += "[]"
        else:
            text += "[]" if segment.isdigit() else f".{segment}" if text else segment
            if segment in _FREE:
                break
    return text
