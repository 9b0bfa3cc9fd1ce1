"""Mutated requests to renderd and to a real vLLM; differences are printed with the smallest request.

    python -m golden.fuzz [--server NAME] [--requests N] [--seed N] [--vllm URL] [--renderd URL]

Requests begin as right ones and lose, gain and change fields, from the values of golden/request_values.py and
at random inside. Answers are compared key by key as `renderd conformance` compares them. The servers are
started unless they are given. The oracle is built when it is missing. Exit status 0 when nothing differs.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import Any

from golden import models, oracle
from golden.cases import Json, load_cases, load_servers
from golden.processes import LOGS, renderd_serve
from golden.request_values import BASES, FIELDS
from renderd.conformance.checks import ROUTES, brief, comparable_failures, failed, parsed
from renderd.conformance.client import Answer, Client
from renderd.conformance.compare import Difference, differences
from renderd.conformance.paths import ABSENT, show
from renderd.conformance.rules import RENDER

_SCALARS: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3.0,
        0.5,
        2**31,
        2**64,
        -(2**63),
        "",
        "a",
        "text",
        "1",
        "ü🌍\n",
        "\ud800",
    ),
    *([], {}, [None], ["a"], [1], {"a": 1}, {"type": "text", "text": "t"}, "<|im_end|>", " ", "x" * 300),
]
TRIES = 60
"""Requests that may be spent on making one finding small."""


class Pair:
    """Two servers that are asked the same."""

    def __init__(self, vllm: str, renderd: str) -> None:
        self._urls = vllm, renderd
        self._clients = Client(vllm), Client(renderd)
        self.asked = 0
        self.statuses: Counter[int] = Counter()

    def differences(self, api: str, request: Json) -> list[Difference]:
        """How renderd's answer differs from vLLM's, where it may not."""
        want, got = map(parsed, self._answers(f"/v1/{ROUTES[api]}/render", json.dumps(request).encode()))
        self.asked += 1
        self.statuses[want["status"] if failed(want) else 200] += 1
        rules = RENDER
        if failed(want) or failed(got):
            want, got, rules = comparable_failures(want, got)
            if want["status"] >= 500 and got["status"] == 400:
                return []  # bad input is no failure of the server
        return [found for found in differences(want, got, rules) if not intended(found)]

    def _answers(self, path: str, body: bytes) -> list[Answer]:
        headers = {"Content-Type": "application/json"}
        try:
            return [client.send("POST", path, body, headers) for client in self._clients]
        except (OSError, HTTPException):  # a connection that was kept open does not outlive a 500
            self._clients = Client(self._urls[0]), Client(self._urls[1])
            return [client.send("POST", path, body, headers) for client in self._clients]


def intended(difference: Difference) -> bool:
    """renderd always writes max_tokens; vLLM leaves 16 out, which its engine takes for no limit."""
    return difference.path[-1] == "max_tokens" and difference.want is ABSENT and difference.got == 16


class Mutations:
    """Random requests, the same for the same seed."""

    def __init__(self, seed: int, server: str) -> None:
        self._random = random.Random(seed)
        self._bases = {api: list(bases) for api, bases in BASES.items()}
        self._fields = {api: dict(fields) for api, fields in FIELDS.items()}
        paths = {f"/v1/{route}/render": api for api, route in ROUTES.items()}
        for case in load_cases(server):
            request = case["request"]
            if case["api"] in BASES:
                self._bases[case["api"]].append(request)
            elif isinstance(request.get("json"), dict) and (api := paths.get(request.get("path"))):
                # Of the other APIs, requests and the values of their fields come from the recorded cases.
                self._bases.setdefault(api, []).append(request["json"])
                for field, value in request["json"].items():
                    self._fields.setdefault(api, {}).setdefault(field, []).append(value)

    def next(self) -> tuple[str, Json]:
        """An API and a request of it."""
        rng = self._random
        recorded = [api for api in self._bases if api not in BASES]
        api = "chat" if rng.random() < 0.7 else "completion"
        if recorded and rng.random() < 0.7:
            api = rng.choice(recorded)
        request: Json = copy.deepcopy(rng.choice(self._bases[api]))
        for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
            kind = rng.random()
            if kind < 0.7:
                field = rng.choice(list(self._fields[api]))
                request[field] = copy.deepcopy(rng.choice(self._fields[api][field]))
            elif kind < 0.75 and request:
                del request[rng.choice(list(request))]
            else:
                self._change_inside(request)
        return api, request

    def _change_inside(self, request: Json) -> None:
        """One value anywhere in the request becomes another, goes, or comes twice."""
        rng = self._random
        places = list(_places(request))
        if not places:
            return
        parent, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.6:
            parent[key] = copy.deepcopy(rng.choice(_SCALARS))
        elif kind < 0.8:
            del parent[key]
        elif isinstance(parent, list):
            parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
        else:
            parent[rng.choice(("type", "text", "name", "extra", "content", "role"))] = copy.deepcopy(
                parent[key]
            )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def minimised(pair: Pair, api: str, request: Json, shown: str) -> Json:
    """A smaller request with the same difference: without all that can go."""
    tries = 0
    smaller = True
    while smaller and tries < TRIES:
        smaller = False
        for at in reversed(range(len(list(_places(request))))):
            candidate = copy.deepcopy(request)
            parent, key = list(_places(candidate))[at]
            del parent[key]
            tries += 1
            if tries > TRIES:
                break
            if shown in map(signature, pair.differences(api, candidate)):
                request, smaller = candidate, True
                break
    return request


def signature(difference: Difference) -> str:
    """What makes two findings the same one."""
    return f"{show(difference.path)}: vLLM {brief(difference.want)}, renderd {brief(difference.got)}"


def fuzz(pair: Pair, mutations: Mutations, count: int) -> int:
    """Ask that many requests, print each new difference. The number of them."""
    seen: Counter[str] = Counter()
    begun = time.monotonic()
    while pair.asked < count:
        api, request = mutations.next()
        found = pair.differences(api, request)
        for difference in found[:1]:
            kind = signature(difference)
            key = f"{show(difference.path)} {brief(difference.want)[:50]} {brief(difference.got)[:50]}"
            seen[key] += 1
            if seen[key] == 1:
                print(f"{api}: {kind}", flush=True)
                print(f"    {json.dumps(minimised(pair, api, request, kind))}", flush=True)
    minutes = (time.monotonic() - begun) / 60
    statuses = ", ".join(f"{status}: {number}" for status, number in sorted(pair.statuses.items()))
    print(f"{pair.asked} requests in {minutes:.0f} minutes (vLLM's answers: {statuses})")
    print(f"{seen.total()} differed, in {len(seen)} ways")
    return len(seen)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m golden.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--server", default="qwen3-hermes", help="a configuration of golden/servers.toml")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vllm", metavar="URL", help="instead of starting one")
    parser.add_argument("--renderd", metavar="URL", help="instead of starting one")
    options = parser.parse_args(arguments)
    server = load_servers()[options.server]
    model = models.fetch(server.model)
    with contextlib.ExitStack() as stack:
        vllm, renderd = options.vllm, options.renderd
        if vllm is None:
            reference = oracle.build()
            log = LOGS / "fuzz-vllm.log"
            vllm = stack.enter_context(reference.render(model, server.flags, log, server.env))
        if renderd is None:
            log = LOGS / "fuzz-renderd.log"
            renderd = stack.enter_context(renderd_serve(model, server.flags, log, server.env))
        mutations = Mutations(options.seed, server.name)
        sys.exit(1 if fuzz(Pair(vllm, renderd), mutations, options.requests) else 0)


if __name__ == "__main__":
    main()
