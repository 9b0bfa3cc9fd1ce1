"""Configuration -> services. A configuration that cannot work stops here, in one sentence (contract H)."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

import renderd
from renderd.demo import model_dir
from renderd.derender import Derenderer, DerenderOptions
from renderd.model import ModelConfig, load_model
from renderd.model.fast_encoder import SpeedUp
from renderd.model.jinja import compile_template
from renderd.model.segments import Encoder
from renderd.render import Renderer, RenderOptions
from renderd.server.config import ServerConfig, StartupError, environment_int
from renderd.server.fingerprint import fingerprint
from renderd.server.parsing import load_parsers
from renderd.server.services import Services
from renderd.wire.errors import ApiError

if TYPE_CHECKING:
    from renderd.gateway.gateway import Gateway

DEMO = "demo"
"""What the carried model is called."""

_LIMITS = {
    "VLLM_MAX_STOP_STRINGS": 4,
    "VLLM_MAX_COMPLETION_PROMPTS": 1024,
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": 5,
}
"""Limits that are read elsewhere and later; a wrong value is to stop the server at once, not requests."""


_REHEARSAL_TURNS = 12
_REHEARSAL_SECONDS = 0.1


def load(config: ServerConfig) -> tuple[Services, SpeedUp]:
    """Load the model and set up both directions. The second is to be proved when all is ready, and taken.

    Raises StartupError.
    """
    for name, default in _LIMITS.items():
        environment_int(name, default)
    if config.enable_auto_tool_choice and config.tool_call_parser is None:
        raise StartupError("--enable-auto-tool-choice requires --tool-call-parser")
    if config.prefill_url and not config.engine_url:
        raise StartupError("--prefill-url requires --engine-url")
    if (key := config.engine_api_key) is not None and not (key.isascii() and key.isprintable() and key):
        raise StartupError("--engine-api-key has characters that no HTTP header may have, or none")
    try:
        model = load_model(_model_config(config))
    except (OSError, ValueError) as error:
        raise StartupError(str(error)) from error
    model.tokenizer.encoder.max_bytes = config.encode_cache_bytes
    parsing = load_parsers(config, model)
    if config.chat_template is not None:
        try:
            compile_template(model.templates.choose(None, False))
        except ApiError as error:
            raise StartupError(f"--chat-template cannot be used: {error.message}") from error
    found = fingerprint(config, model, parsing)
    render_options = RenderOptions(
        exclude_tools_when_tool_choice_none=config.exclude_tools_when_tool_choice_none,
        tool_strict_level=config.tool_strict_level,
        trust_request_mm_kwargs=config.trust_request_mm_kwargs,
        anthropic_disabled_thinking_effort=config.anthropic_disabled_thinking_effort,
        max_answer_bytes=config.max_answer_bytes,
    )
    derender_options = DerenderOptions(
        max_logprobs=config.max_logprobs,
        max_undecided_bytes=config.max_undecided_bytes,
        replayable=config.stream_state == "replayable",
        max_n=environment_int("VLLM_MAX_N_SEQUENCES", 16384),
        response_role=config.response_role,
        fingerprint=found.whole,
        max_state_bytes=config.max_state_bytes,
        max_answer_bytes=config.max_answer_bytes,
    )
    renderer = Renderer(model, parsing.family, render_options)
    derenderer = Derenderer(
        model, parsing.family, derender_options, read_messages=renderer.messages_reader.read
    )
    services = Services(
        model,
        renderer,
        derenderer,
        parsing.reasoning,
        parsing.tools,
        renderer.about,
        fingerprint=found.whole,
        fingerprint_parts=found.parts,
        gateway=_gateway(config, renderer, derenderer, found.whole),
    )
    faster = SpeedUp(model.tokenizer)
    with suppress(ApiError):  # a model may have no template
        # What only the first request needs, above all compiling the template, is done before any fork.
        renderer.chat(b'{"messages": [{"role": "user", "content": "Hello"}]}', None)
    return services, faster


def _gateway(
    config: ServerConfig, renderer: Renderer, derenderer: Derenderer, fingerprint: str
) -> Gateway | None:
    if not config.engine_url:
        return None
    from renderd.gateway.gateway import gateway_of  # nobody else should wait for what it imports

    name = f"renderd-{renderd.__version__}-{fingerprint[:8]}"
    return gateway_of(renderer.server, derenderer.setup, name)


def settle() -> None:
    """Leave memory as it is best shared with processes that are forked."""
    gc.collect()
    # The C library, where it is glibc, gives back what loading took and freed: a quarter of all.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    gc.freeze()  # the collector would write to every object


def rehearse(services: Services, encoder: Encoder) -> None:
    """Answer a few requests of a conversation that grows, and forget them.

    The first requests of a process that was just forked make copies of the pages that they write to, and a
    heap that grows: on a virtual machine that took as long as all the rest of their work.
    """
    ends = perf_counter() + _REHEARSAL_SECONDS
    messages: list[dict[str, str]] = []
    with encoder.forgetting(), suppress(Exception):  # what cannot be answered is said to who asks for it
        for turn in range(_REHEARSAL_TURNS):
            for role in ("user", "assistant"):
                words = [f"{role}{turn}x{number}" for number in range(100)]
                messages.append({"role": role, "content": " ".join(words)})
            body = msgspec.json.encode({"messages": messages[:-1]})
            asked = msgspec.json.decode(services.renderer.chat(body, None))
            chunk = {
                "stream": True,
                "prompt_token_ids": asked["token_ids"],
                "chat_request": {"messages": messages[:1], "stream": True},
                "generate_chunk": {
                    "request_id": "",
                    "choices": [{"index": 0, "token_ids": asked["token_ids"][:50], "finish_reason": None}],
                },
            }
            services.derenderer.chat(msgspec.json.encode(chunk))
            if perf_counter() > ends:
                break


def _model_config(config: ServerConfig) -> ModelConfig:
    return ModelConfig(
        model=config.model if config.model is not None else str(model_dir()),
        tokenizer=config.tokenizer,
        revision=config.revision,
        tokenizer_revision=config.tokenizer_revision,
        tokenizer_mode=config.tokenizer_mode,
        trust_remote_code=config.trust_remote_code,
        hf_token=config.hf_token,
        download_dir=config.download_dir,
        hf_overrides=config.hf_overrides,
        max_model_len=config.max_model_len,
        chat_template=config.chat_template,
        chat_template_content_format=config.chat_template_content_format,
        generation_config=config.generation_config,
        override_generation_config=config.override_generation_config,
        served_model_name=config.served_model_name or ([DEMO] if config.model is None else []),
        trust_request_chat_template=config.trust_request_chat_template,
        default_chat_template_kwargs=config.default_chat_template_kwargs,
        reasoning_effort_map=config.reasoning_effort_map,
        max_text_chars=config.max_text_chars,
        max_template_seconds=config.max_template_seconds,
    )
