"""Harmony's own library, which renderd does without, as the measure: it is what vLLM writes prompts with."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import openai_harmony as library  # type: ignore[import-untyped]
from tokenizers import Tokenizer

from golden.models import model_path

_FOLDER = "TIKTOKEN_ENCODINGS_BASE"


@cache
def encoding() -> Any:
    """The library's encoding, with the vocabulary of the test model: nothing is downloaded."""
    vocabulary = Tokenizer.from_file(str(model_path("gptoss") / "tokenizer.json")).get_vocab(False)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "o200k_base.tiktoken").write_bytes(_ranks(vocabulary))
        before = os.environ.get(_FOLDER)
        os.environ[_FOLDER] = folder
        try:
            return library.load_harmony_encoding(library.HarmonyEncodingName.HARMONY_GPT_OSS)
        finally:
            os.environ.pop(_FOLDER)
            if before is not None:
                os.environ[_FOLDER] = before


def encode(text: str) -> list[int]:
    """The ids of a text in which no token is special."""
    ids: list[int] = encoding().encode(text, disallowed_special=())
    return ids


def developer(instructions: str | None, functions: list[Mapping[str, Any]]) -> list[int]:
    """A developer message as ids."""
    content = library.DeveloperContent.new()
    if instructions is not None:
        content.with_instructions(instructions)
    new = library.ToolDescription.new
    if functions:
        content.with_function_tools(
            [new(f["name"], f["description"] or "", f["parameters"]) for f in functions]
        )
    message = library.Message.from_role_and_content(library.Role.DEVELOPER, content)
    ids: list[int] = encoding().render(message)
    return ids


def _ranks(vocabulary: Mapping[str, int]) -> bytes:
    """A byte-level vocabulary as lines of each token's bytes in base64 and its rank."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + n): b for n, b in enumerate(others)}
    ranks = sorted((rank, bytes(byte_of[char] for char in token)) for token, rank in vocabulary.items())
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in ranks)
