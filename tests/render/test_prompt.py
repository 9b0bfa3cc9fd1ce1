"""Prompt text and token ids (contract C.3 to C.6)."""

from __future__ import annotations

from typing import Any

import pytest

from golden.models import model_path
from renderd.model import ModelConfig, load_model
from renderd.render.prompt import Truncation, encode, tokenize_text
from renderd.wire.errors import ApiError
from tests.render.support import GET, HELLO, Json, chat, chat_text, model, post, refusal

CHAT = "/v1/chat/completions/render"
TURN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
TRIMMED = TURN.replace("m.content", "m.content | trim")
PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% for c in m.content %}{{ c.text }}{% endfor %}</{{ m.role }}>{% "
    "endfor %}"
)


def continued(content: Any, template: str, role: str = "assistant") -> Json:
    return {
        "messages": [*HELLO["messages"], {"role": role, "content": content}],
        "chat_template": template,
        "continue_final_message": True,
        "add_generation_prompt": False,
    }


def test_default_template() -> None:
    answer = chat(HELLO)
    assert answer["token_ids"] == [151644, 872, 198, 9707, 151645, 198, 151644, 77091, 198]
    assert answer["sampling_params"]["max_tokens"] == 4087


@pytest.mark.parametrize(
    ("content", "template", "expected"),
    [
        ("pre  ", TURN, "<user>Hello</user><assistant>pre  "),
        ("pre  ", TRIMMED, "<user>Hello</user><assistant>pre"),
        (
            [{"type": "text", "text": "a "}, {"type": "text", "text": "b "}],
            PARTS,
            "<user>Hello</user><assistant>a b ",
        ),
        (None, TURN, "<user>Hello</user><assistant>"),
        ("   ", TRIMMED, "<user>Hello</user><assistant>"),
    ],
)
def test_continue_final_message(content: Any, template: str, expected: str) -> None:
    assert chat_text(continued(content, template)) == expected


def test_any_role_can_be_continued() -> None:
    assert chat_text(continued("r ", TURN, role="tool")) == "<user>Hello</user><tool>r "


@pytest.mark.parametrize(
    ("request_", "fragment"),
    [
        (continued("x", "{% for m in messages %}{{ m.role }}{% endfor %}"), "not an accepted field"),
        (continued([], PARTS), "could not find any text"),
        (continued("pre", TURN.replace("m.content", "m.content | upper")), "does not appear in the chat"),
        (continued("pre", "{% if messages[0].content %}a{% endif %}"), "does not appear in the chat"),
        ({**HELLO, "continue_final_message": True}, "are not compatible"),
    ],
)
def test_continue_final_message_refused(request_: Json, fragment: str) -> None:
    error = refusal(CHAT, request_)
    assert fragment in error.message
    assert (error.type, error.param) == ("BadRequestError", None)


def test_template_needs_trust() -> None:
    for request in ({"chat_template": ""}, {"chat_template_kwargs": {"chat_template": "x"}}):
        assert (
            "--trust-request-chat-template is not set" in refusal(CHAT, {**HELLO, **request}, "plain").message
        )
    assert chat_text({**HELLO, "chat_template_kwargs": {"chat_template": "v"}}) == "v"
    assert chat_text({**HELLO, "chat_template": ""}).startswith("<|im_start|>")


def test_template_variables() -> None:
    names = ["bos_token", "eos_token", "pad_token", "tools", "documents", "add_generation_prompt"]
    template = "|".join("{{ " + name + " }}" for name in [*names, "max_length", "q"])
    request = {**HELLO, "chat_template": template, "chat_template_kwargs": {"max_length": 3, "q": "v"}}
    assert chat_text(request) == "|<|im_end|>|<|endoftext|>|None|None|True||v"


def test_tools_of_kwargs_win() -> None:
    request = {**HELLO, "tools": [GET], "tool_choice": "none", "chat_template": "{{ tools | length }}"}
    assert chat_text(request) == "1"
    assert chat_text({**request, "chat_template_kwargs": {"tools": [1, 2]}}) == "2"


@pytest.mark.parametrize("name", ["messages", "conversation", "tokenizer", "model_config", "self"])
def test_kwargs_that_would_collide(name: str) -> None:
    assert name in refusal(CHAT, {**HELLO, "chat_template_kwargs": {name: 1}}).message


@pytest.mark.parametrize(
    ("limit", "side", "expected"),
    [
        (3, None, [128000, 602, 503]),
        (3, "left", [305, 602, 503]),
        (3, "right", [128000, 64, 293]),
        (1, None, [128000]),
        (0, None, []),
        (100, None, [128000, 64, 293, 272, 294, 384, 282, 342, 305, 602, 503]),
    ],
)
def test_truncation_of_text(limit: int, side: Any, expected: list[int]) -> None:
    """The tokenizer's own truncation keeps the token that it adds in front."""
    llama = model("llama3_1")
    ids, offsets = tokenize_text(llama, "a b c d e f g h i j", True, Truncation(limit, side), True)
    assert ids == expected
    assert offsets is not None and len(offsets) == len(ids)
    if expected[:1] == [128000]:
        assert offsets[0] == (0, 0)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions/render"])
def test_truncation_to_the_window(path: str) -> None:
    text = "word " * 5000
    request = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"prompt": text}
    answer = post(path, {**request, "truncate_prompt_tokens": -1})
    answer = answer if path == CHAT else answer[0]
    assert (len(answer["token_ids"]), answer["sampling_params"]["max_tokens"]) == (4095, 1)
    assert refusal(path, {**request, "truncate_prompt_tokens": 4096}).param == "max_tokens"


def test_too_long() -> None:
    text = {"messages": [{"role": "user", "content": "word " * 5000}]}
    assert "at least 4097 input tokens" in refusal(CHAT, text).message
    huge = {"messages": [{"role": "user", "content": "ab " * 180000}]}
    assert refusal(CHAT, huge).param == "input_text"
    assert len(chat({**huge, "truncate_prompt_tokens": 10})["token_ids"]) == 10
    ids = {"prompt": list(range(5000))}
    assert "contains 5000 input tokens" in refusal("/v1/completions/render", ids).message


def test_offsets() -> None:
    [answer] = post("/v1/completions/render", {"prompt": "é🌍 <|im_end|> a", "return_token_offsets": True})
    assert answer["token_ids"] == [963, 145691, 220, 151645, 264]
    assert answer["token_offsets"] == [[0, 1], [1, 2], [2, 3], [3, 13], [13, 15]]


def test_prompt_ids_of_an_earlier_turn() -> None:
    params = {"prompt_token_ids": [1, 2, 3], "a": 1}
    answer = chat({"messages": [], "kv_transfer_params": params, "truncate_prompt_tokens": 2})
    assert answer["token_ids"] == [1, 2, 3]
    assert answer["kv_transfer_params"] == {"a": 1}
    assert answer["sampling_params"]["max_tokens"] == 4094
    assert chat({**HELLO, "kv_transfer_params": params, "echo": True})["token_ids"][0] == 151644
    assert chat({**HELLO, "kv_transfer_params": {"prompt_token_ids": [151679]}})["token_ids"] == [151679]


@pytest.mark.parametrize("ids", [[], "x", [-1], ["a"], [1.0], [True], {}, [151680]])
def test_prompt_ids_refused(ids: Any) -> None:
    error = refusal(CHAT, {**HELLO, "kv_transfer_params": {"prompt_token_ids": ids}})
    assert error.param == "kv_transfer_params.prompt_token_ids"


def test_lone_surrogate() -> None:
    assert "TextEncodeInput" in refusal(CHAT, {"messages": [{"role": "user", "content": "\ud800"}]}).message


def test_a_text_that_the_tokenizer_gives_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model(), "max_text_chars", 10_000_000)
    with pytest.raises(ApiError, match="cannot split this text") as caught:
        encode(model(), " " * 10_000_000, add_special_tokens=False)
    assert caught.value.status == 400


def test_no_template() -> None:
    gptoss = load_model(ModelConfig(str(model_path("gptoss")), max_model_len=4096))
    with pytest.raises(Exception, match="you must provide a chat template"):
        gptoss.templates.choose(None, False)
