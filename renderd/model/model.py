"""A model as renderd needs it: tokenizer, templates, limits and defaults. Loaded once, never changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from renderd.model.config import ModelConfig
from renderd.model.files import fetch, read_json
from renderd.model.generation import eos_token_ids, generation_defaults, output_cap
from renderd.model.harmony import MODEL_TYPE as HARMONY_MODELS
from renderd.model.harmony import Harmony, load_harmony
from renderd.model.limits import max_model_len, text_config
from renderd.model.mistral_tokenizer import load_mistral_tokenizer
from renderd.model.modes import choose_mode, mistral_file
from renderd.model.template_kwargs import check_effort_map
from renderd.model.templates import ChatTemplates, load_named_templates, server_template
from renderd.model.tokenizer import Tokenizer, load_tokenizer, tokenizer_config
from renderd.model.transformers_tokenizer import load_with_transformers
from renderd.wire.errors import unknown_model

_LEAST_TEXT_CHARS = 4 * 1024 * 1024
_CHARS_A_TOKEN = 16
"""More than any text that fits a model has on average. One word of that length takes seconds to tokenize."""


class Model:
    """What render and derender share.

    `name`: directory or hub id as given. `served_names`: names that requests may use. `max_model_len`:
    context window in tokens. `hf_config`: config.json. `generation_defaults`: sampling defaults by request
    field. `output_cap`: output tokens that no request may exceed. `eos_token_ids`: every token that ends an
    answer. `tokenizer_config`: tokenizer_config.json. `harmony`: what
    writes prompts, where no chat template does. `max_text_chars`: characters of one text that is tokenized,
    ids of one list that is detokenized.
    """

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: Tokenizer,
        templates: ChatTemplates,
        hf_config: dict[str, Any],
        max_model_len: int,
        generation_defaults: dict[str, Any],
        output_cap: int | None,
        eos_token_ids: frozenset[int],
        tokenizer_config: Mapping[str, Any],
        harmony: Harmony | None = None,
    ) -> None:
        self.config = config
        self.name = config.model
        self.served_names = list(config.served_model_name) or [config.model]
        self.tokenizer = tokenizer
        self.templates = templates
        self.hf_config = hf_config
        self.model_type: str | None = hf_config.get("model_type")
        self.max_model_len = max_model_len
        self.generation_defaults = generation_defaults
        self.output_cap = output_cap
        self.eos_token_ids = eos_token_ids
        self.tokenizer_config = tokenizer_config
        self.harmony = harmony
        self.max_text_chars = config.max_text_chars or max(_LEAST_TEXT_CHARS, _CHARS_A_TOKEN * max_model_len)
        size = text_config(hf_config).get("vocab_size")
        self.max_token_id = max(tokenizer.max_id, size - 1 if isinstance(size, int) else -1)
        self._any_name = os.environ.get("VLLM_SKIP_MODEL_NAME_VALIDATION", "0") in ("1", "true", "True")

    def prompt_marker_ids(self, markers: Iterable[str]) -> dict[str, list[int]]:
        """The token ids that spell each marker in a prompt."""
        return {marker: list(self.tokenizer.encode(marker, add_special_tokens=False)) for marker in markers}

    def check_name(self, name: str | None) -> None:
        """Raises ApiError 404 unless `name` is absent, empty or served here (contract A.4)."""
        if name and name not in self.served_names and not self._any_name:
            raise unknown_model(name, self.served_names)


def load_model(config: ModelConfig) -> Model:
    """Load a model's files. Raises ValueError with one clear sentence for whatever is missing or wrong."""
    try:
        return _load(config)
    except (OSError, ValueError):
        raise
    except Exception as error:  # what nobody thought of that can stand in a file is still the file's fault
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"The files of the model '{config.model}' cannot be used: {reason}") from error


def _load(config: ModelConfig) -> Model:
    check_effort_map(config.reasoning_effort_map)
    model_dir = fetch(config.model, config.revision, config.hf_token, config.download_dir)
    tokenizer_dir = model_dir
    if config.tokenizer and config.tokenizer != config.model:
        revision = config.tokenizer_revision or config.revision
        tokenizer_dir = fetch(config.tokenizer, revision, config.hf_token, config.download_dir)
    if not (model_dir / "config.json").is_file():
        raise ValueError(f"The model '{config.model}' has no config.json.")
    hf_config = {**read_json(model_dir / "config.json"), **config.hf_overrides}
    tokenizer = _load_tokenizer(tokenizer_dir, config, hf_config.get("architectures") or ())
    from_tokenizer = tokenizer_config(tokenizer_dir)
    named = load_named_templates(tokenizer_dir, from_tokenizer)
    defaults = generation_defaults(config.generation_config, config.override_generation_config, model_dir)
    return Model(
        config=config,
        tokenizer=tokenizer,
        templates=ChatTemplates(
            named, server_template(config.chat_template, named), config.trust_request_chat_template
        ),
        hf_config=hf_config,
        max_model_len=max_model_len(config.max_model_len, hf_config),
        generation_defaults=defaults,
        output_cap=output_cap(config.generation_config, config.override_generation_config, defaults),
        eos_token_ids=eos_token_ids(model_dir, hf_config, tokenizer.eos_token_id),
        tokenizer_config=from_tokenizer,
        harmony=load_harmony(tokenizer) if hf_config.get("model_type") == HARMONY_MODELS else None,
    )


def _load_tokenizer(directory: Path, config: ModelConfig, architectures: Sequence[str]) -> Tokenizer:
    """The tokenizer in a directory. Raises ValueError if there is none that can be read, or that knows no
    text: transformers makes one of nothing where vocabulary files are missing."""
    tokenizer = _read_tokenizer(directory, config, architectures)
    if tokenizer.special_ids.issuperset(tokenizer.encode_whole("Hello world")):
        raise ValueError(
            f"The tokenizer of '{directory}' has no vocabulary: there is no tokenizer.json with one, nor "
            "another file that a vocabulary can be read from."
        )
    return tokenizer


def _read_tokenizer(directory: Path, config: ModelConfig, architectures: Sequence[str]) -> Tokenizer:
    mode = choose_mode(config.tokenizer_mode, architectures, config.chat_template, directory)
    if mode == "mistral":
        path = mistral_file(directory)
        if path is None:
            raise ValueError(
                f"--tokenizer-mode mistral wants tekken.json or tokenizer.model.v*, and '{directory}' has "
                "neither."
            )
        return load_mistral_tokenizer(path)
    path = directory / "tokenizer.json"
    if path.is_file():
        return load_tokenizer(directory)
    if path.exists() or path.is_symlink():
        raise ValueError(f"tokenizer.json of '{directory}' is not a file, or a link to none.")
    return load_with_transformers(directory, config.trust_remote_code)
