"""What the flags of `renderd serve` say, as one value. Names and meanings are vLLM's (contract H)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal


class StartupError(Exception):
    """The server cannot start as configured. The message is one sentence for the operator."""


def environment_int(name: str, default: int) -> int:
    """A whole number of 0 or more from the environment. Raises StartupError for anything else."""
    text = os.environ.get(name, "").strip() or str(default)
    if not text.isascii() or not text.isdigit():
        raise StartupError(f"the environment variable {name} must be a whole number, not {text!r}")
    return int(text)


def environment_flag(name: str, default: bool) -> bool:
    """A switch from the environment: 0, 1, true or false. Raises StartupError for anything else."""
    text = os.environ.get(name, "").strip().lower() or str(int(default))
    if text not in ("0", "1", "true", "false"):
        raise StartupError(f"the environment variable {name} must be 0 or 1, not {text!r}")
    return text in ("1", "true")


@dataclass(frozen=True)
class ServerConfig:
    """The configuration of one server. Fields bear the names of the flags; their help says what they do."""

    # model
    model: str | None = None
    """Directory or Hugging Face id; None is the carried demo model."""
    served_model_name: list[str] = field(default_factory=list)
    tokenizer: str | None = None
    tokenizer_mode: str = "auto"
    tokenizer_revision: str | None = None
    trust_remote_code: bool = False
    revision: str | None = None
    hf_token: str | None = None
    download_dir: str | None = None
    hf_overrides: dict[str, Any] = field(default_factory=dict)
    max_model_len: int | None = None
    """Tokens of prompt and answer together; None derives it from the model."""
    max_logprobs: int = 20
    generation_config: str = "auto"
    override_generation_config: dict[str, Any] = field(default_factory=dict)
    renderer_num_workers: int = 1
    """Processes of each worker for renders and derenders that take long."""

    # template
    chat_template: str | None = None
    chat_template_content_format: Literal["auto", "string", "openai"] = "auto"
    trust_request_chat_template: bool = False
    trust_request_mm_kwargs: bool = False
    default_chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    reasoning_effort_map: dict[str, str] = field(default_factory=dict)
    exclude_tools_when_tool_choice_none: bool = False
    anthropic_disabled_thinking_effort: str = "auto"

    # parsing
    enable_auto_tool_choice: bool = False
    tool_call_parser: str | None = None
    tool_parser_plugin: str | None = None
    reasoning_parser: str | None = None
    reasoning_parser_plugin: str | None = None
    tool_strict_level: Literal["auto", "function", "parameter"] | None = None
    response_role: str = "assistant"

    # HTTP
    host: str | None = None
    """Address to listen on; None is all IPv4 addresses."""
    port: int = 8000
    """0 takes a free port; the ready line names it."""
    uds: str | None = None
    probe_port: int | None = None
    """Another port, for probes and metrics alone; 0 takes a free one."""
    workers: int = 1
    """Processes that answer requests."""
    drain_seconds: float = 30.0
    """What requests get to finish after a signal."""
    root_path: str = ""
    api_key: list[str] = field(default_factory=list)
    api_key_file: str | None = None
    allowed_origins: list[str] = field(default_factory=list)
    allowed_methods: list[str] = field(default_factory=lambda: ["*"])
    allowed_headers: list[str] = field(default_factory=lambda: ["*"])
    allow_credentials: bool = False
    middleware: list[str] = field(default_factory=list)
    enable_request_id_headers: bool = False
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_ca_certs: str | None = None
    ssl_cert_reqs: int = 0
    ssl_ciphers: str | None = None
    enable_ssl_refresh: bool = False
    disable_fastapi_docs: bool = False
    enable_tokenizer_info_endpoint: bool = False

    # logging
    uvicorn_log_level: str = "info"
    disable_uvicorn_access_log: bool = False
    disable_access_log_for_endpoints: list[str] = field(default_factory=list)
    log_format: Literal["human", "json"] = "human"
    enable_log_requests: bool = False
    max_log_len: int | None = None
    """Characters of a body in the log; None for all."""
    otlp_traces_endpoint: str | None = None

    # engines
    engine_url: list[str] = field(default_factory=list)
    """Engines that answer or, where there are others for prefill, decode. None: no whole route here."""
    prefill_url: list[str] = field(default_factory=list)
    engine_api_key: str | None = field(default=None, repr=False)
    engine_retries: int = 2
    engine_connect_seconds: float = 5.0
    engine_first_token_seconds: float = 600.0
    """With a long queue and a long prompt before it."""
    engine_idle_seconds: float = 120.0
    kv_failure: Literal["fail", "recompute"] = "fail"

    # renderd's own
    stream_state: Literal["compact", "replayable"] = "compact"
    max_undecided_bytes: int = 65536
    encode_cache_bytes: int = 64 * 1024 * 1024
    max_body_bytes: int = 64 * 1024 * 1024
    """Room for a prompt of millions of tokens, or for 40,000 sampled tokens with 20 candidates each."""
    max_concurrent_requests: int = 1024
    """Requests of one worker that are not answered yet, those that wait among them."""
    max_pending_bytes: int = 512 * 1024 * 1024
    """Bytes of their bodies."""
    max_queue_seconds: float = 30.0
    """How long work waits for a process that does long work."""
    max_client_seconds: float = 60.0
    """How long a client may take to send a request, and to take its answer."""
    max_text_chars: int | None = None
    """Of one text that is tokenized, and ids of one list that is detokenized; None: see Model."""
    max_state_bytes: int = 4 * 1024 * 1024
    """Of a `parser_state`. Those of responses hold the answer so far."""
    max_answer_bytes: int = 256 * 1024 * 1024
    """Of an answer that repeats what came once."""
    max_template_seconds: float = 2.0
    """Of a processor, for a template that a request brings."""
