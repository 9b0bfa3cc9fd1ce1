"""Structural tags: how the calls of a family are constrained while they are generated (contract B.4.4).

A `TagModel` is a family's call markup as data; `build_tag` makes of it what xgrammar calls a structural
tag. The dicts and their key order are those of xgrammar's own JSON dump, so that a request reads the same
wherever it was rendered. Nothing here compiles or checks a grammar: that is the engine's work.
"""

from parsers.tags.build import (
    ForcedChoice,
    Section,
    StrictLevel,
    TagModel,
    as_tag,
    build_tag,
    framed,
)
from parsers.tags.formats import Format, json_schema
from parsers.tags.models import (
    COHERE_TAG,
    DEEPSEEK_V3_TAG,
    DEEPSEEK_V4_TAG,
    DEEPSEEK_V31_TAG,
    DEEPSEEK_V32_TAG,
    DEEPSEEK_V41_TAG,
    GLM_TAG,
    HARMONY_TAG,
    HERMES_TAG,
    KIMI_K2_TAG,
    KIMI_K3_TAG,
    LLAMA_TAG,
    LONGCAT_TAG,
    MIMO_TAG,
    MINIMAX_TAG,
    PLAMO3_TAG,
    QWEN_CODER_TAG,
    hy_v4_tag,
)

__all__ = [
    "COHERE_TAG",
    "DEEPSEEK_V3_TAG",
    "DEEPSEEK_V4_TAG",
    "DEEPSEEK_V31_TAG",
    "DEEPSEEK_V32_TAG",
    "DEEPSEEK_V41_TAG",
    "GLM_TAG",
    "HARMONY_TAG",
    "HERMES_TAG",
    "KIMI_K2_TAG",
    "KIMI_K3_TAG",
    "LLAMA_TAG",
    "LONGCAT_TAG",
    "MIMO_TAG",
    "MINIMAX_TAG",
    "PLAMO3_TAG",
    "QWEN_CODER_TAG",
    "ForcedChoice",
    "Format",
    "Section",
    "StrictLevel",
    "TagModel",
    "as_tag",
    "build_tag",
    "framed",
    "hy_v4_tag",
    "json_schema",
]
