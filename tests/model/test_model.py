"""A model's files (contract B.4.2, C.3, C.5, E.4), and one clear sentence for whatever is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golden.models import model_path
from renderd.demo import model_dir
from renderd.model import Model, ModelConfig, load_model
from renderd.model.limits import max_model_len
from renderd.wire.errors import ApiError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A copy of the small carried model, to be changed."""
    for path in model_dir().iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), "utf-8")


def load(files: Path, **config: Any) -> Model:
    return load_model(ModelConfig(str(files), **config))


def test_names(files: Path) -> None:
    model = load(files, served_model_name=["a", "b"])
    assert (model.name, model.served_names) == (str(files), ["a", "b"])
    for name in (None, "", "a", "b"):
        model.check_name(name)
    with pytest.raises(ApiError) as caught:
        model.check_name("c")
    assert (caught.value.status, caught.value.param) == (404, "model")
    assert load(files).served_names == [str(files)]


def test_name_check_can_be_switched_off(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_SKIP_MODEL_NAME_VALIDATION", "1")
    load(files).check_name("anything")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"model": "/no/such/place"}, "does not exist"),
        ({"model": "./no"}, "does not exist"),
        ({"generation_config": "/no/such/place"}, "has no generation_config.json"),
        ({"chat_template": "templates/none.jinja"}, "no such file"),
        ({"max_model_len": "many"}, "must be a positive number of tokens"),
        ({"max_model_len": 10**9}, "greater than the model's own limit"),
        ({"reasoning_effort_map": {"huge": "low"}}, "unknown efforts ['huge']"),
        ({"reasoning_effort_map": {"low": 1}}, "must be a JSON object mapping reasoning efforts to strings"),
    ],
)
def test_configurations_that_cannot_work(files: Path, config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        load_model(ModelConfig(**{"model": str(files), **config}))
    assert sentence in str(caught.value)


def rope(scaling: dict[str, Any]) -> str:
    """A config.json."""
    config = {"max_position_embeddings": 100, "original_max_position_embeddings": "x"}
    return json.dumps({**config, "rope_scaling": scaling})


NO_WORDS = json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": []}})
NO_UNKNOWN = json.dumps(
    {
        "model": {"type": "WordLevel", "vocab": {}, "unk_token": "u"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"x": {"id": "x", "ids": [99], "tokens": ["x"]}},
        },
    }
)
"""A tokenizer that can be read, and fails with the first text."""


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.json", None, "has no config.json"),
        ("config.json", "{", "config.json of the model cannot be read"),
        ("config.json", "[]", "does not hold a JSON object"),
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("tokenizer.json", "{}", "cannot be read"),
        ("tokenizer.json", NO_WORDS, "has no vocabulary"),
        ("tokenizer.json", NO_UNKNOWN, "tokenizer.json of '"),
        (
            "tokenizer_config.json",
            '{"a":' + "[" * 100000 + "]" * 100000 + "}",
            "tokenizer_config.json of the",
        ),
        ("config.json", '{"rope_scaling": [1]}', "The rope scaling in config.json"),
        ("config.json", '{"rope_scaling": "yarn"}', "The rope scaling in config.json"),
        ("config.json", rope({"rope_type": ["x"]}), "The rope scaling in config.json"),
        ("config.json", rope({"rope_type": "linear", "factor": None}), "factor in config.json"),
        ("config.json", rope({"rope_type": "linear", "factor": "x"}), "factor in config.json"),
        ("config.json", rope({"rope_type": "linear", "factor": 1e999}), "factor in config.json"),
        ("config.json", rope({"rope_type": "longrope"}), "original_max_position_embeddings in config.json"),
        ("config.json", '{"architectures": 3}', "The files of the model '"),
        ("generation_config.json", '{"temperature": "hot"}', "temperature in generation_config.json"),
        ("generation_config.json", '{"top_k": 1e400}', "top_k in generation_config.json"),
        ("generation_config.json", '{"skip_special_tokens": 1}', "must be true or false"),
        ("chat_template.jinja", b"\xff", "chat_template.jinja of the model cannot be read"),
    ],
)
def test_files_that_cannot_work(files: Path, name: str, content: str | bytes | None, sentence: str) -> None:
    (files / name).unlink(missing_ok=True)
    if content is not None:
        (files / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        load(files)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("kind", ["directory", "dangling link"])
def test_a_tokenizer_that_is_no_file(files: Path, kind: str) -> None:
    path = files / "tokenizer.json"
    path.unlink()
    if kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(files / "nothing")
    with pytest.raises(ValueError, match="is not a file, or a link to none"):
        load(files)


@pytest.mark.parametrize("content", [[{"name": 1}], [3]])
def test_templates_that_are_none(files: Path, content: Any) -> None:
    set_template(files, content)
    with pytest.raises(ValueError, match=r"^chat_template in tokenizer_config.json[^\n]+$"):
        load(files)


def test_hub_models_without_a_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="neither a directory nor a repository that could be fetched"):
        load_model(ModelConfig("some/model", download_dir=str(tmp_path)))


def test_only_small_files_are_fetched(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    asked: dict[str, Any] = {}

    def snapshot(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(files)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    load_model(ModelConfig("some/model", revision="r", hf_token="t", download_dir="d"))
    assert (asked["name"], asked["revision"], asked["token"], asked["cache_dir"]) == (
        "some/model",
        "r",
        "t",
        "d",
    )
    assert "tokenizer.json" in asked["allow_patterns"]
    assert not any("safetensors" in pattern or pattern.startswith("*") for pattern in asked["allow_patterns"])


GENERATION = {
    "temperature": 0.6,
    "top_k": 50,
    "max_new_tokens": 100,
    "do_sample": False,
    "top_p": None,
    "eos_token_id": [1, 2],
}


def test_generation_defaults(files: Path, tmp_path: Path) -> None:
    write(files / "generation_config.json", GENERATION)
    model = load(files, override_generation_config={"temperature": 0.3, "skip_special_tokens": False})
    assert model.generation_defaults == {
        "temperature": 0.3,
        "top_k": 50,
        "max_tokens": 100,
        "skip_special_tokens": False,
    }
    assert model.output_cap is None
    assert model.eos_token_ids == {1, 2, model.tokenizer.eos_token_id}
    assert load(files, generation_config="vllm").generation_defaults == {}
    assert load(files, generation_config="vllm").eos_token_ids >= {1, 2}
    assert load(files, override_generation_config={"max_new_tokens": 5}).output_cap == 5
    assert load(files, generation_config=str(files)).output_cap == 100


@pytest.mark.parametrize(
    ("wanted", "config", "expected"),
    [
        (None, {"max_position_embeddings": 4096, "seq_length": 2048}, 2048),
        (None, {}, 2048),
        (None, {"text_config": {"max_position_embeddings": 77}}, 77),
        (None, {"max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": 4.0}}, 400),
        (None, {"max_position_embeddings": 100, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 100),
        (
            None,
            {"max_position_embeddings": 100, "rope_parameters": {"rope_type": "dynamic", "factor": 2}},
            200,
        ),
        (
            None,
            {
                "max_position_embeddings": 131072,
                "original_max_position_embeddings": 4096,
                "rope_scaling": {"type": "longrope"},
            },
            4096,
        ),
        (None, {"max_position_embeddings": 100, "model_max_length": 300}, 300),
        ("auto", {"max_position_embeddings": 100}, 100),
        ("8k", {"max_position_embeddings": 9000}, 8000),
        ("8K", {"max_position_embeddings": 9000}, 8192),
        (50, {"max_position_embeddings": 100}, 50),
    ],
)
def test_context_window(wanted: Any, config: dict[str, Any], expected: int) -> None:
    assert max_model_len(wanted, config) == expected


def test_window_above_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
    assert max_model_len(500, {"max_position_embeddings": 100}) == 500


def set_template(files: Path, value: Any) -> None:
    (files / "chat_template.jinja").unlink()
    config = json.loads((files / "tokenizer_config.json").read_text("utf-8"))
    write(files / "tokenizer_config.json", {**config, "chat_template": value})


def test_template_files(files: Path) -> None:
    assert "<|im_start|>" in load(files).templates.choose(None, False)
    extra = files / "additional_chat_templates"
    extra.mkdir()
    (extra / "tool_use.jinja").write_text("tools")
    templates = load(files).templates
    assert templates.choose(None, True) == "tools"
    assert templates.choose("tool_use", False) == "tools"
    set_template(files, "plain")
    assert load(files).templates.choose(None, True) == "plain"
    assert load(files).templates.choose("tool_use", True) == "tool_use"
    set_template_list = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    (files / "chat_template.jinja").touch()
    set_template(files, set_template_list)
    templates = load(files).templates
    assert (templates.choose(None, False), templates.choose(None, True)) == ("d", "t")
    assert load(files, chat_template="tool_use").templates.choose(None, False) == "t"


def test_server_template(files: Path) -> None:
    path = files / "own.jinja"
    path.write_text("from a file")
    assert load(files, chat_template=str(path)).templates.choose(None, True) == "from a file"
    literal = load(files, chat_template="{{ messages }}").templates
    assert (literal.choose(None, False), literal.choose("asked", False)) == ("{{ messages }}", "asked")


def test_special_tokens(files: Path) -> None:
    config = json.loads((files / "tokenizer_config.json").read_text("utf-8"))
    config |= {
        "tokenizer_class": "GemmaTokenizer",
        "bos_token": {"content": "<s>", "special": True},
        "eos_token": "<|im_end|>",
        "pad_token": None,
        "extra_special_tokens": {"image_token": "<image>"},
    }
    write(files / "tokenizer_config.json", config)
    tokenizer = load(files).tokenizer
    assert tokenizer.special_tokens == {
        "bos_token": "<s>",
        "eos_token": "<|im_end|>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "image_token": "<image>",
    }
    assert tokenizer.eos_token_id == tokenizer.token_id("<|im_end|>")
    bos = tokenizer.token_id("<s>")
    assert bos in tokenizer.special_ids
    assert tokenizer.encode("a<s>", False)[-1] == bos


def test_tokenizer() -> None:
    tokenizer = load_model(ModelConfig(str(model_path("llama3_1")))).tokenizer
    assert tokenizer.encode("Hello", True) == [128000, 9906]
    assert tokenizer.encode("Hello", False) == [9906]
    assert tokenizer.frame(True) == ([128000], [])
    assert tokenizer.frame(False) == ([], [])
    assert tokenizer.encode_with_offsets("Hello there", True) == (
        [128000, 9906, 1070],
        [(0, 0), (0, 5), (5, 11)],
    )
    assert len(tokenizer.special_ids) == 256
    assert (len(tokenizer), tokenizer.max_id, tokenizer.max_piece_chars) == (128256, 128255, 128)
    assert tokenizer.piece(198) == "Ċ"
    assert (tokenizer.piece(-1), tokenizer.piece(10**12)) == (None, None)
    assert tokenizer.join(["Hello", "Ġthere"]) == "Hello there"
    assert tokenizer.token_id("<|eot_id|>") == 128009
    assert tokenizer.token_id("Hello there") is None
    assert tokenizer.decode([128000, 9906, 128009]) == "<|begin_of_text|>Hello<|eot_id|>"


@pytest.mark.parametrize(
    ("name", "count"), [("qwen3", 14), ("deepseek_v3", 804), ("gemma3", 10), ("gptoss", 21)]
)
def test_special_ids_are_all_that_are_flagged(name: str, count: int) -> None:
    assert len(load_model(ModelConfig(str(model_path(name)))).tokenizer.special_ids) == count
