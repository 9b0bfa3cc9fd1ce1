"""gpt-oss' own prompt format. Its library writes the parts that are text and encodes; the vocabulary is taken
from the model's tokenizer.json, so nothing is downloaded."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

MODEL_TYPE = "gpt_oss"
"""Models of this `model_type` are spoken to in Harmony."""

_VOCABULARY = "o200k_base.tiktoken"  # the file that the library looks for
_FOLDER = "TIKTOKEN_ENCODINGS_BASE"  # and where it looks for it instead of the network
_FRAME = ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|call|>")


class _Bpe(msgspec.Struct):
    vocab: dict[str, int]


class _Added(msgspec.Struct):
    id: int
    content: str


class _TokenizerFile(msgspec.Struct):
    model: _Bpe
    added_tokens: list[_Added] = []


class Harmony:
    """Writes messages as token ids. `ids`: of the tokens that frame a message, by their text.

    `library`: the module openai_harmony, which is imported for models that need it only.
    """

    def __init__(self, library: Any, encoding: Any, ids: Mapping[str, int]) -> None:
        self._library = library
        self._encoding = encoding
        self.ids = ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text, in which no token is special. Raises UnicodeEncodeError for a lone surrogate."""
        text.encode()  # the library would put another character in its place
        ids: list[int] = self._encoding.encode(text, disallowed_special=())
        return ids

    def system(self, instructions: str | None, effort: str, date: str, with_functions: bool) -> list[int]:
        """The message that says who the model is, what day it is and how to answer. `instructions`: a line
        more on who it is. `effort`: high, medium or low. `with_functions`: it says where their calls go.

        Raises ValueError for a lone surrogate.
        """
        library = self._library
        content = library.SystemContent.new()
        content.with_reasoning_effort(library.ReasoningEffort[effort.upper()])
        content.with_conversation_start_date(date)
        if instructions is not None:
            content.with_model_identity(f"{content.model_identity}\n{instructions}")
        return self._render(library.Role.SYSTEM, content, with_functions)

    def developer(self, instructions: str | None, tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """The message that gives instructions and declares functions. `tools`: as chat requests have them.

        Raises ValueError for a lone surrogate and for what is nested too deeply.
        """
        library = self._library
        content = library.DeveloperContent.new()
        if instructions is not None:
            content.with_instructions(instructions)
        if tools:
            functions = [tool["function"] for tool in tools]
            new = library.ToolDescription.new
            content.with_function_tools(
                [new(f["name"], f["description"] or "", f["parameters"]) for f in functions]
            )
        return self._render(library.Role.DEVELOPER, content)

    def _render(self, role: Any, content: Any, with_functions: bool = False) -> list[int]:
        message = self._library.Message.from_role_and_content(role, content)
        options = self._library.RenderOptions(conversation_has_function_tools=with_functions)
        try:
            ids: list[int] = self._encoding.render(message, options)
        except RecursionError:
            raise ValueError("recursion limit exceeded") from None
        return ids


def load_harmony(model_dir: Path) -> Harmony:
    """Harmony with the vocabulary of a model's tokenizer.json. Raises ValueError if it is not gpt-oss'."""
    import openai_harmony as library  # type: ignore[import-untyped]

    try:
        file = msgspec.json.decode((model_dir / "tokenizer.json").read_bytes(), type=_TokenizerFile)
        ranks = _ranks(file.model.vocab)
    except (OSError, msgspec.MsgspecError, KeyError) as error:
        raise ValueError(
            f"The tokenizer.json of '{model_dir}' holds no vocabulary that Harmony can use, which models of "
            f"type {MODEL_TYPE} are spoken to in ({error})"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, _VOCABULARY).write_bytes(ranks)
        before = os.environ.get(_FOLDER)
        os.environ[_FOLDER] = folder
        try:
            encoding = library.load_harmony_encoding(library.HarmonyEncodingName.HARMONY_GPT_OSS)
        except library.HarmonyError as error:
            raise ValueError(
                f"The vocabulary of '{model_dir}' is not the one of Harmony, which models of type "
                f"{MODEL_TYPE} are spoken to in: {error}"
            ) from error
        finally:
            if before is None:
                del os.environ[_FOLDER]
            else:
                os.environ[_FOLDER] = before
    own = {token.content: token.id for token in file.added_tokens}
    ids = {text: encoding.encode(text, allowed_special={text})[0] for text in _FRAME}
    for text, token_id in ids.items():
        if own.get(text) != token_id:
            raise ValueError(f"The token {text} of '{model_dir}' is {own.get(text)}, in Harmony {token_id}.")
    return Harmony(library, encoding, ids)


def _ranks(vocabulary: Mapping[str, int]) -> bytes:
    """A byte-level vocabulary as lines of each token's bytes in base64 and its rank. Raises KeyError for a
    character that stands for no byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + n): b for n, b in enumerate(others)}
    ranks = sorted((rank, bytes(byte_of[char] for char in token)) for token, rank in vocabulary.items())
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in ranks)
