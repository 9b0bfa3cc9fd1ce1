"""What replicas must have in common, as a short hash: whatever decides what a 200 answer says or how a stream
state is read.

Files count by what was loaded of them, not by their path. What only refuses requests (keys, limits, trust),
where the server listens and what it calls the model do not count, nor does renderd's release: streams live
through a rolling upgrade as long as the layout of the state stays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from parsers.plugins import ENTRY_POINTS
from renderd.model import Model
from renderd.server.config import ServerConfig, StartupError, environment_flag
from renderd.server.parsing import Parsing
from renderd.wire import state


@dataclass(frozen=True)
class Fingerprint:
    """`whole`: 16 hexadecimal digits. `parts`: 8 of each part, by its name: they say where two servers
    differ."""

    whole: str
    parts: Mapping[str, str]


def fingerprint(config: ServerConfig, model: Model, parsing: Parsing) -> Fingerprint:
    """Of a server with this configuration. Raises StartupError when a plug-in can no longer be read."""
    contents = {
        "tokenizer": _tokenizer(model),
        "template": _template(config, model),
        "parsers": _parsers(config, parsing),
        "defaults": _defaults(model),
        "state": [state.VERSION, config.stream_state, config.max_undecided_bytes],
    }
    return Fingerprint(_hash(contents, 8), {name: _hash(content, 4) for name, content in contents.items()})


def _hash(content: Any, size: int) -> str:
    """Of a JSON value, whatever the order of its keys; `size` in bytes."""
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=size).hexdigest()


def _tokenizer(model: Model) -> Any:
    tokenizer = model.tokenizer
    return [
        tokenizer.digest,
        tokenizer.special_tokens,
        sorted(tokenizer.special_ids),
        model.max_token_id,
        model.tokenizer_config,
    ]


def _template(config: ServerConfig, model: Model) -> Any:
    content: list[Any] = [
        model.templates.named,
        model.templates.server,
        config.chat_template_content_format,
        config.default_chat_template_kwargs,
        config.reasoning_effort_map,
        config.exclude_tools_when_tool_choice_none,
        config.anthropic_disabled_thinking_effort,
    ]
    if model.harmony is not None:
        names = ("VLLM_SYSTEM_START_DATE", "VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS")
        content.append([os.environ.get(name) for name in names])
    return content


def _parsers(config: ServerConfig, parsing: Parsing) -> Any:
    family = parsing.family
    parts = (family.reasoning, family.tools) if family else ()
    installed = {
        (entry.value, entry.dist.version if entry.dist else "") for entry in entry_points(group=ENTRY_POINTS)
    }
    return [
        [part.names[0] if part else None for part in parts],
        [_file(path) for path in (config.reasoning_parser_plugin, config.tool_parser_plugin) if path],
        sorted(installed),
        environment_flag("VLLM_ENFORCE_STRICT_TOOL_CALLING", True),
        config.tool_strict_level,
        config.response_role,
    ]


def _file(path: str) -> str:
    try:
        return blake2b(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise StartupError(f"the parser plugin {path} cannot be read: {error}") from error


def _defaults(model: Model) -> Any:
    return [
        model.model_type,
        model.max_model_len,
        model.generation_defaults,
        model.output_cap,
        sorted(model.eos_token_ids),
    ]
