"""Which chat template applies to a request (contract C.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from renderd.model.files import read_json, read_text
from renderd.wire.errors import bad_request

_NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat "
    "template if the tokenizer does not define one."
)
_UNTRUSTED = (
    "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request "
    "with untrusted chat template."
)


BUILT_IN = {
    "template_basic.jinja": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    "template_chatml.jinja": (
        "{% for message in messages %}"
        "{% if not loop.first %}{{ '<|im_end|>\n' }}{% endif %}"
        "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}"
        "{{ '<|im_end|>\n' }}"
        "{% if messages[-1]['role'] != 'assistant' %}{{ '<|im_start|>assistant\n' }}{% endif %}"
        "{% endif %}"
    ),
}
"""Templates that --chat-template may name without a file, as vLLM's: they give the same text."""

_ELSEWHERE = (
    "template_blip2.jinja",
    "template_deepseek_ocr.jinja",
    "template_deepseek_vl2.jinja",
    "template_kimi_audio.jinja",
    "template_minicpmv45.jinja",
)
"""Names that vLLM has a template for and renderd has not: those of models for images and sound."""


class ChatTemplates:
    """A tokenizer's templates by name ("default" for the only one) and the command line's own.

    `server` is None, or what --chat-template gave: Jinja text or a name among `named`.
    """

    def __init__(
        self, named: Mapping[str, str], server: str | None = None, trust_requests: bool = False
    ) -> None:
        self.named = named
        self.server = server
        self.trust_requests = trust_requests

    @property
    def default(self) -> str | None:
        """Jinja text for a request that names no template, None if there is none."""
        source = self.server or "default"
        return self.named.get(source, self.server)

    def check_trust(self, template: Any, kwargs: Mapping[str, Any] | None) -> None:
        """Raises ApiError 400 if a request brings its own template and this server does not trust
        requests."""
        brought = template is not None or (kwargs or {}).get("chat_template") is not None
        if brought and not self.trust_requests:
            raise bad_request(_UNTRUSTED)

    def choose(self, requested: Any, with_tools: bool) -> str:
        """Jinja text for a request. `requested`: a template, a template's name, or None.

        Raises ApiError 400 if there is none.
        """
        source = requested or self.server
        if source is not None:
            if not isinstance(source, str):
                raise bad_request("`chat_template` must be a string.")
            return self.named.get(source, source) if len(self.named) > 1 else source
        chosen = self.named.get("tool_use") if with_tools else None
        chosen = chosen or self.named.get("default")
        if chosen is None:
            raise bad_request(_NO_TEMPLATE)
        return chosen


def load_named_templates(model_dir: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """The templates that come with a tokenizer: chat_template.jinja and additional_chat_templates/, else
    those in tokenizer_config.json. Raises ValueError for a file that cannot be read or holds no templates."""
    path = model_dir / "chat_template.jinja"
    if path.is_file():
        extra = sorted((model_dir / "additional_chat_templates").glob("*.jinja"))
        return {"default": read_text(path), **{p.stem: read_text(p) for p in extra}}
    template = config.get("chat_template") or read_json(model_dir / "chat_template.json").get("chat_template")
    if isinstance(template, str):
        return {"default": template}
    if isinstance(template, list):
        try:
            return {str(entry["name"]): str(entry["template"]) for entry in template}
        except (TypeError, KeyError):
            raise ValueError(
                "chat_template in tokenizer_config.json of the model is a list whose entries are not all "
                "objects with a name and a template."
            ) from None
    return dict(template) if isinstance(template, dict) else {}


def server_template(argument: str | None, named: Mapping[str, str]) -> str | None:
    """What --chat-template means: a file, a name of the tokenizer's own templates or of a built-in one, or
    Jinja text.

    Raises ValueError for what looks like a path and does not exist.
    """
    if argument is None:
        return None
    if len(named) > 1 and argument in named:
        return argument
    path = Path(argument).expanduser()
    try:
        if path.is_file():
            return path.read_text("utf-8")
    except OSError:
        pass  # too long for a file name: Jinja text
    if argument in BUILT_IN:
        return BUILT_IN[argument]
    if argument in _ELSEWHERE:
        raise ValueError(
            f"--chat-template '{argument}' names a template that vLLM carries and renderd does not: give the "
            "path of that file, which a vLLM installation has in vllm/transformers_utils/chat_templates."
        )
    if not any(c in argument for c in "{}\n"):
        raise ValueError(f"--chat-template '{argument}' looks like a file path, but there is no such file.")
    return argument
