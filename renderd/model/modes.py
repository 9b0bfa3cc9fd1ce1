"""--tokenizer-mode (contract C.8): which library reads the tokenizer, and what writes the prompts.

vLLM has prompt formats that are Python code. renderd has two of its own, Mistral's and gpt-oss's; where a
model needs another one, it says so at the start instead of writing prompts that nobody trained it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

Mode = Literal["hf", "mistral"]

CODED = {
    "alpamayo2_super": (),
    "cohere": (),
    "deepseek_v32": ("DeepseekV32ForCausalLM",),
    "deepseek_v4": ("DeepseekV4ForCausalLM",),
    "deepseek_v41": ("DeepseekV41ForCausalLM",),
    "inkling": ("InklingForConditionalGeneration", "InklingForCausalLM"),
    "kimi_audio": (),
    "kimi_k3": ("KimiK3ForConditionalGeneration",),
}
"""vLLM's modes that are code which is not here, and the architectures that vLLM 0.33.0 was seen to put into
them, whatever `model_type` says. Cohere's stay with their template; what was not seen is served."""


def choose_mode(asked: str, architectures: Sequence[str], template: str | None, tokenizer_dir: Path) -> Mode:
    """What reads the tokenizer in a directory. `asked`: --tokenizer-mode; `architectures`: of config.json;
    `template`: --chat-template.

    Raises ValueError, with what to do instead, for a prompt format that is not here, and for unknown modes.
    """
    if asked in CODED:
        raise ValueError(
            f"--tokenizer-mode {asked} is not supported: vLLM writes these prompts with Python code that is "
            "not here. Give --tokenizer-mode hf and a Jinja template of the same format by --chat-template."
        )
    if asked not in ("auto", "hf", "mistral"):
        raise ValueError(f"--tokenizer-mode {asked} does not exist; there are auto, hf, mistral.")
    if asked != "auto":
        return "mistral" if asked == "mistral" else "hf"
    for mode, known in CODED.items():
        if template is None and architectures and architectures[0] in known:
            raise ValueError(
                f"Models of architecture {architectures[0]} need vLLM's tokenizer mode {mode}: Python code "
                "that writes their prompts, which is not here. Give a Jinja template of the same format by "
                "--chat-template, or --tokenizer-mode hf to serve the model with what template it has."
            )
    return "mistral" if mistral_file(tokenizer_dir) is not None and _of_mistral(tokenizer_dir) else "hf"


def _of_mistral(directory: Path) -> bool:
    """Whether nothing but Mistral's file is there, or what lies beside it shows that Mistral laid it out.

    vLLM looks for consolidated weights. Those are never fetched here; params.json always comes with them.
    """
    if not (directory / "tokenizer.json").is_file() or (directory / "params.json").is_file():
        return True
    return any(directory.glob("consolidated*.safetensors"))


def mistral_file(directory: Path) -> Path | None:
    """The file that mistral-common reads: tekken.json, else the newest of tokenizer.model.v*."""
    tekken = directory / "tekken.json"
    if tekken.is_file():
        return tekken
    return max(directory.glob("tokenizer.model.v*"), default=None)
