"""--tokenizer-mode: each mode of vLLM works or is refused with what to do instead (contract C.8)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from golden.models import model_path
from renderd.model import ModelConfig, load_model
from renderd.model.modes import CODED, choose_mode
from tests.model import foreign


@pytest.mark.parametrize("mode", CODED)
def test_python_coded_formats_are_refused_by_name(mode: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"--tokenizer-mode {mode} is not supported.*--chat-template"):
        choose_mode(mode, [], None, tmp_path)
    with pytest.raises(ValueError, match=f"--tokenizer-mode {mode} is not supported"):
        choose_mode(mode, [], "template.jinja", tmp_path)


@pytest.mark.parametrize(("mode", "kind"), [(mode, kind) for mode, kinds in CODED.items() for kind in kinds])
def test_models_that_vllm_puts_into_such_a_mode(mode: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=f"architecture {kind} need vLLM's tokenizer mode {mode}.*--chat-template"
    ):
        choose_mode("auto", [kind], None, tmp_path)
    assert choose_mode("auto", [kind], "template.jinja", tmp_path) == "hf"
    assert choose_mode("hf", [kind], None, tmp_path) == "hf"


def test_unknown_modes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--tokenizer-mode slow does not exist; there are auto, hf, mistral"):
        choose_mode("slow", [], None, tmp_path)


def test_mistral_files(tmp_path: Path) -> None:
    """`auto` takes them where nothing else is there, or where the repository is laid out as Mistral's are."""
    assert choose_mode("auto", ["MistralForCausalLM"], None, tmp_path) == "hf"
    (tmp_path / "tokenizer.model.v3").touch()
    assert choose_mode("auto", ["MistralForCausalLM"], None, tmp_path) == "mistral"
    assert choose_mode("hf", ["MistralForCausalLM"], None, tmp_path) == "hf"
    (tmp_path / "tokenizer.json").touch()
    assert choose_mode("auto", ["MistralForCausalLM"], None, tmp_path) == "hf"
    for name in ("params.json", "consolidated-00001-of-00002.safetensors"):
        (tmp_path / name).touch()
        assert choose_mode("auto", ["MistralForCausalLM"], None, tmp_path) == "mistral"
        (tmp_path / name).unlink()


def test_the_files_are_not_there(tmp_path: Path) -> None:
    foreign.write_config(tmp_path)
    with pytest.raises(ValueError, match=r"wants tekken\.json or tokenizer\.model\.v\*, and .* has neither"):
        load_model(ModelConfig(str(tmp_path), tokenizer_mode="mistral"))


def test_a_model_is_refused_as_a_whole(tmp_path: Path) -> None:
    foreign.write_config(tmp_path, architectures=["DeepseekV32ForCausalLM"])
    with pytest.raises(ValueError, match="Models of architecture DeepseekV32ForCausalLM need"):
        load_model(ModelConfig(str(tmp_path)))


@pytest.mark.parametrize("kind", ["deepseek_v32", "deepseek_v4"])
def test_the_type_alone_decides_nothing(kind: str, tmp_path: Path) -> None:
    """vLLM 0.33.0 served them under the architecture Qwen3ForCausalLM with the tokenizer's template."""
    shutil.copytree(model_path("qwen3"), tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    foreign.write_json(tmp_path / "config.json", {**config, "model_type": kind})
    assert load_model(ModelConfig(str(tmp_path))).templates.default is not None


@pytest.mark.parametrize("name", ["Cohere2ForCausalLM", "Cohere2MoeForCausalLM", "CohereForCausalLM"])
def test_models_that_vllm_leaves_to_their_template(name: str, tmp_path: Path) -> None:
    assert choose_mode("auto", [name], None, tmp_path) == "hf"
