"""Templates that requests bring under --trust-request-chat-template: stopped, alone and in company."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from .running import Running, running

RENDER = "/v1/chat/completions/render"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
SHARED = "{% set n = namespace(x=1) %}{% for i in range(40) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
HOSTILE = [
    ENDLESS,
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ 'a' * 10**10 }}",
    "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "{% for a in range(99999) %}{{ 'a' * 999999 }}{% endfor %}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.append(1) }}",
    "{% include '/etc/passwd' %}",
    "{{ cycler.__init__.__globals__ }}",
    SHARED + "{{ n.x|tojson }}",
    SHARED + "{{ n.x }}",
    "{{ 'a'.encode().ljust(2500000000)|length }}",
    "{{ (1).to_bytes(2500000000, 'big')|length }}",
    "{{ '{0:{w}}'.format(1, w=2500000000) }}",
    "{{ [[[1]]]|tojson(indent=500000000)|length }}",
    "{% set n = namespace(x=[]) %}{% for i in range(3000) %}"
    "{% set n.x = n.x + [range(90000)|list] %}{% endfor %}{{ n.x|length }}",
    "{% if %}",
    "{{ raise_exception('no') }}",
]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running("--trust-request-chat-template", "--renderer-num-workers", "2") as started:
        yield started


@pytest.mark.parametrize("template", HOSTILE)
def test_stopped_with_400_and_the_server_lives_on(server: Running, template: str) -> None:
    answer = server.post(RENDER, {**CHAT, "chat_template": template})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "BadRequestError"
    assert server.process.poll() is None
    assert server.post(RENDER, CHAT).status_code == 200


def test_it_is_refused_where_requests_are_not_trusted() -> None:
    with running() as server:
        assert server.post(RENDER, {**CHAT, "chat_template": ENDLESS}).status_code == 400
        assert "untrusted" in server.post(RENDER, {**CHAT, "chat_template": ENDLESS}).text


def test_neighbours_are_answered_meanwhile(server: Running) -> None:
    """While one worker renders a template without end, the other does its chats."""
    body = {**CHAT, "chat_template": ENDLESS}
    server.post(RENDER, CHAT)
    refused: list[int] = []
    attacker = threading.Thread(target=lambda: refused.append(server.post(RENDER, body).status_code))
    attacker.start()
    answered = 0
    while attacker.is_alive():
        assert server.post(RENDER, CHAT).status_code == 200
        answered += not refused
    attacker.join()
    assert refused == [400]
    assert answered
