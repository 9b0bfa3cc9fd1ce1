"""Which configurations fit a server, found out by asking it, or a model's folder, by its tokenizer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path

import msgspec
from tokenizers import Tokenizer

from renderd.conformance.cases import Case, Golden, Json, Recording
from renderd.conformance.checks import ROUTES, Finding, Judge, Server, check_http, check_render
from renderd.conformance.client import Client
from renderd.conformance.derendering import Derendering
from renderd.conformance.divergences import Divergences
from renderd.conformance.progress import Told
from renderd.conformance.reading import gathered, reading
from renderd.conformance.runner import Progress, ServerError, other_tokens, server_under_test

SAMPLE = 10
"""Cases of a configuration that are tried."""

ENOUGH = 0.8
"""The part of their prompts that has to be right. A server with a fault or two is still what it is."""

UNFIT_LIMIT = 0.05
"""The part of a configuration's cases that may be for another tokenizer."""

CONTESTED = 80
"""Cases that are tried of configurations that are too much alike for ten to tell them apart."""

CLOSE = 0.98
"""How near to the nearest of these another one is replayed as well."""

LIKE = 0.25
"""How near the nearest has to be to be named, where nothing fits."""

FLAGGED: dict[str, Callable[[Json], bool]] = {
    "--trust-request-chat-template": lambda request: "chat_template" in request,
    "--enable-auto-tool-choice": lambda request: bool(request.get("tools")) and "tool_choice" not in request,
}
"""Flags that few cases show, and the chat requests that are refused without them."""

Pair = tuple[Case, Recording]


class Fit(msgspec.Struct):
    """How many of the cases of a configuration that were tried came out right.

    Attributes:
        right: were rendered as recorded. Of a model's folder: outputs with the recorded ids.
        prompts: had at least the recorded prompt, whatever the sampling parameters are written like.
        derendered, said: how many derender was asked of chats and completions, and how many have the recorded
            answer. What a server counts or calls by chance is no part of it, nor what other routes answer.
        flagged: a request that needs a flag is refused, or not, as it was when it was recorded.
    """

    server: str
    tried: int
    right: int = 0
    prompts: int = 0
    derendered: int = 0
    said: int = 0
    flagged: bool = True

    @property
    def good(self) -> bool:
        """Whether a folder's tokenizer is the configuration's."""
        return self.tried > 0 and self.right >= ENOUGH * self.tried

    @property
    def prompted(self) -> bool:
        return self.tried > 0 and self.prompts >= ENOUGH * self.tried


def fits(client: Client, golden: Golden, divergences: Divergences, progress: Progress) -> list[Fit]:
    """Of every configuration of a render server. Raises ServerError, OSError."""
    found: list[Fit] = []
    strange: set[str] = set()
    names = [name for name, table in golden.servers.items() if table.get("kind") != "engine"]
    for done, name in enumerate(names):
        progress(done, len(names), f"does {name} fit?")
        model = str(golden.servers[name]["model"])
        fit = Fit(name, 0) if model in strange else _fit(client, golden, divergences, name, SAMPLE)
        if fit is None:
            strange.add(model)
        found.append(fit or Fit(name, 0))
    return found


def _fit(client: Client, golden: Golden, divergences: Divergences, name: str, most: int) -> Fit | None:
    """Of one configuration. None where the server writes more outputs with other token ids than one, or than
    UNFIT_LIMIT."""
    recordings = golden.recordings(name)
    pairs = [(case, recordings[case.id]) for case in golden.cases(name) if case.id in recordings]
    sample = _sample(pairs, most)
    server = server_under_test(client, golden, name)
    fit = Fit(name, len(sample))
    others = 0
    for case, recording in sample:
        with reading(client, {}, ""):  # what cannot be read is not right
            if other_tokens(server, case, recording):
                others += 1
                if others > max(1, UNFIT_LIMIT * len(sample)):
                    return None
                continue
            _try(server, Judge(divergences, case, recording, server), case, recording, fit)
    for case, recording in _flagged(pairs):
        with reading(client, {}, ""):
            answer = client.post("/v1/chat/completions/render", server.renamed(case.request))
            fit.flagged &= (answer.status == 400) == (recording.status == 400)
    return fit


def _flagged(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """A case for each flag that few cases show, where there is one."""
    for shows in FLAGGED.values():
        chats = (pair for pair in pairs if pair[0].api == "chat" and shows(pair[0].request))
        yield from islice(chats, 1)


def fitting(
    golden: Golden, client: Client, divergences: Divergences, told: Told, sure: bool = False
) -> list[str]:
    """The configurations that a server is: prompts and token ids decide, and where these are the same for
    several, what else it answers.

    What is left out though its prompts fit is told on stderr. ServerError when nothing fits, and when it has
    to be `sure` and no configuration is answered alike.
    """
    found = fits(client, golden, divergences, told)
    groups = [group for group in _groups(golden, found) if any(fit.prompted for fit in group)]
    if not groups:
        nearest = max(found, key=lambda fit: _likeness([fit]), default=None)
        if nearest is None or _likeness([nearest]) < LIKE:
            raise ServerError(
                f"no configuration in servers.toml fits {client.url}: another model, template or flags"
            )
        derendered = f", {nearest.said} of {nearest.derendered} derender answers" * bool(nearest.derendered)
        raise ServerError(
            f"no configuration fits {client.url}. Nearest is {nearest.server}: {nearest.prompts} of "
            f"{nearest.tried} prompts, of which {ENOUGH:.0%} are wanted{derendered}. It was started with "
            f"{golden.command(nearest.server)}. --server {nearest.server} replays it all the same"
        )

    def again(several: Sequence[list[Fit]]) -> list[list[Fit]]:
        """Asked more cases."""
        more = (
            _fit(client, golden, divergences, fit.server, CONTESTED) for group in several for fit in group
        )
        return _groups(golden, [fit for fit in more if fit is not None])

    # One that derender could not be asked about says nothing of those that it could.
    asked = [group for group in groups if any(fit.derendered for fit in group)]
    chosen = _near(asked or groups, ENOUGH)
    if len(chosen) > 1 and (asked or any(map(_alike, chosen))):
        chosen = _near(again(chosen) or chosen, CLOSE)
    unasked = [group for group in groups if group not in asked and _alike(group)]
    alike = [group for group in again(unasked) if _likeness(group) >= CLOSE]
    if not any(map(_alike, chosen)):
        if alike:  # where derender always fails, render still shows what the server is
            chosen = [group for group in again(chosen) if _rendered(group) >= CLOSE]
        names = [fit.server for group in chosen for fit in group]
        if names and sure:
            raise ServerError(
                f"no configuration is answered alike. --server says which of these it is: {', '.join(names)}"
            )
        if names:
            _tell(
                told,
                golden,
                names,
                "No configuration is answered alike. Of these the prompts are as recorded:",
            )
    chosen += alike
    replayed = {fit.server for group in chosen for fit in group}
    left = [fit.server for group in groups for fit in group if fit.server not in replayed]
    if left:
        _tell(
            told,
            golden,
            left,
            "Not replayed, as another configuration's answers are nearer to this server's:",
        )
    return [fit.server for fit in found if fit.server in replayed]


def _near(groups: Sequence[list[Fit]], part: float) -> list[list[Fit]]:
    """The groups most like the server, and those that are nearly so: a part of it. A few cases that are all
    right prove less than many of which some are wrong, so neither leaves out the other."""
    right = [group for group in groups if all(fit.flagged for fit in group)] or groups
    near = []
    for doubt in (0, 1):
        least = max(_likeness(group, doubt) for group in right) * Fraction(part)
        near += [group for group in right if _likeness(group, doubt) >= least and group not in near]
    return near


def _alike(group: Sequence[Fit]) -> bool:
    """Whether both routes answer as recorded, as far as one can see."""
    tried, asked = sum(fit.tried for fit in group), sum(fit.derendered for fit in group)
    rendered = sum(fit.right for fit in group) >= ENOUGH * tried and all(fit.flagged for fit in group)
    return rendered and sum(fit.said for fit in group) >= ENOUGH * asked


def _likeness(group: Sequence[Fit], doubt: int = 0) -> Fraction:
    """Which part of what was asked came out as recorded, or near enough: of each route as much.

    `doubt`: how many more of each route might have been right, and how many wrong.
    """
    rendered = _rendered(group, doubt)
    asked = sum(fit.derendered for fit in group)
    said = _part(sum(fit.said for fit in group), asked, doubt)
    return (rendered + said) / 2 if asked else rendered


def _rendered(group: Sequence[Fit], doubt: int = 0) -> Fraction:
    right = sum(fit.right + fit.prompts for fit in group)
    return _part(right, 2 * sum(fit.tried for fit in group), doubt)


def _part(some: int, of: int, doubt: int) -> Fraction:
    return Fraction(some + doubt, (of + 2 * doubt) or 1)


def _groups(golden: Golden, fits: Sequence[Fit]) -> list[list[Fit]]:
    """Configurations by model and flags: a server is all of a group or none, whatever its faults in one."""
    found: dict[str, list[Fit]] = {}
    for fit in fits:
        table = golden.servers[fit.server]
        same = repr((table["model"], sorted(table["flags"]), table.get("env")))
        found.setdefault(same, []).append(fit)
    return list(found.values())


def _tell(told: Told, golden: Golden, names: Sequence[str], what: str) -> None:
    started = (f"  {name}, started with {golden.command(name)}" for name in names)
    told.note(what, *started, file=sys.stderr)


def _try(server: Server, judge: Judge, case: Case, recording: Recording, fit: Fit) -> None:
    """Count a case in, see Fit. Not where nothing could be asked."""
    if case.api == "http":
        rendered = gathered(check_http(server, judge, case, recording))
    else:
        rendered = gathered(check_render(server, judge, case))
    batch: list[Finding] | None = None
    if recording.generate is not None:
        batch = Derendering(server, judge, case, recording).run_batch().get("batch", [])
    asked = batch is not None and not _absent(batch)
    said = asked and all(_fine(one) or one.path[:1] == ("usage",) for one in batch or ())
    if case.api in ("chat", "completion"):
        fit.derendered += asked
        fit.said += said
    if not _absent(rendered):
        right = all(map(_fine, rendered))
        same = right or (case.api != "http" and _same_prompt(server, case, recording))
    elif asked:
        # Then nothing but the tokenizer's ids, or derender's answers, says what it is.
        right = same = said or server.ids("a") is not None
    else:
        fit.tried -= 1
        return
    fit.right, fit.prompts = fit.right + right, fit.prompts + same


def _absent(findings: Iterable[Finding]) -> bool:
    return any(finding.aside == "absent" for finding in findings)


def _fine(finding: Finding) -> bool:
    return bool(finding.declared) or finding.aside == "equivalent"


def _same_prompt(server: Server, case: Case, recording: Recording) -> bool:
    path = f"/v1/{ROUTES[case.api]}/render"
    answer = server.client.post(path, server.renamed(case.request))
    try:
        body = answer.json()
        ids = [one["token_ids"] for one in body] if isinstance(body, list) else body["token_ids"]
    except (msgspec.DecodeError, LookupError, TypeError):
        return False
    return bool(ids == (recording.prompt_token_ids or recording.render["token_ids"]))


def fits_folder(golden: Golden, folder: Path) -> list[Fit]:
    """Of every configuration, how many of its model's outputs a folder's tokenizer writes alike.

    None of a model that was made to generate nothing. ValueError without a tokenizer.json that can be read.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        raise ValueError(f"{folder} has no tokenizer.json, and nothing else of a model's folder is looked at")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path}: {error}") from error
    models: dict[str, list[bool]] = {}
    for name, table in golden.servers.items():
        models.setdefault(table["model"], []).extend(
            tokenizer.encode(text, add_special_tokens=False).ids in (ids, ids[:-1])
            for text, ids in _texts(golden, name)
        )
    right = ((name, models[table["model"]]) for name, table in golden.servers.items())
    return [Fit(name, len(outputs), sum(outputs)) for name, outputs in right]


def _texts(golden: Golden, server: str) -> Iterator[tuple[str, list[int]]]:
    """Outputs and their recorded tokens, of the cases that give them as text."""
    recordings = golden.recordings(server)
    for case in golden.cases(server):
        recording = recordings.get(case.id)
        text = (case.output or {}).get("text")
        if text and recording is not None and recording.generate is not None:
            generate = recording.generate
            first = generate if isinstance(generate, dict) else generate[0]
            yield text, first["choices"][0]["token_ids"]


def _sample(pairs: Sequence[Pair], most: int) -> Sequence[Pair]:
    """Cases from all over a configuration, of those with an output where there are any."""
    # A refusal may be any server's.
    rendered = [pair for pair in pairs if pair[0].api != "http" and pair[1].status == 200]
    scripted = [pair for pair in rendered if pair[0].output is not None]
    chosen = scripted or rendered or pairs
    return chosen[:: max(1, len(chosen) // most)][:most]
