"""The command line of `renderd serve` (contract H)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from renderd.server.arguments import inverses
from renderd.server.config import ServerConfig
from renderd.server.flags import parse


def config_of(*argv: str) -> ServerConfig:
    config, ignored = parse(argv)
    assert ignored == []
    return config


def test_nothing_given_is_the_defaults() -> None:
    assert config_of() == ServerConfig()


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        (["some/model"], "model", "some/model"),
        (["--model", "some/model"], "model", "some/model"),
        (["positional", "--model", "flag"], "model", "positional"),
        (["--served-model-name", "a", "b"], "served_model_name", ["a", "b"]),
        (["--served_model_name=a"], "served_model_name", ["a"]),
        (["--engine-url", "http://a:1/", "https://b"], "engine_url", ["http://a:1", "https://b"]),
        (["--engine-url", "http://a", "--engine-url", "http://b"], "engine_url", ["http://a", "http://b"]),
        (["--kv-failure", "recompute"], "kv_failure", "recompute"),
        (["--max-model-len", "8192"], "max_model_len", 8192),
        (["--max-model-len=8k"], "max_model_len", 8000),
        (["--max-model-len=8K"], "max_model_len", 8192),
        (["--max_model_len", "25.6k"], "max_model_len", 25600),
        (["--max-model-len", "1m"], "max_model_len", 1_000_000),
        (["--max-model-len", "auto"], "max_model_len", None),
        (["--max-model-len", "-1"], "max_model_len", None),
        (["--max-logprobs", "-1"], "max_logprobs", -1),
        (["--max-undecided-bytes", "1K"], "max_undecided_bytes", 1024),
        (["--encode-cache-bytes", "1M"], "encode_cache_bytes", 1024**2),
        (["--encode-cache-bytes", "0"], "encode_cache_bytes", 0),
        (["--enable-auto-tool-choice"], "enable_auto_tool_choice", True),
        (["--enable_auto_tool_choice"], "enable_auto_tool_choice", True),
        (["--enable-auto-tool-choice", "--disable-auto-tool-choice"], "enable_auto_tool_choice", False),
        (["--enable-auto-tool-choice", "--no-enable-auto-tool-choice"], "enable_auto_tool_choice", False),
        (["--disable-fastapi-docs"], "disable_fastapi_docs", True),
        (["--disable-fastapi-docs", "--enable-fastapi-docs"], "disable_fastapi_docs", False),
        (["--trust-request-chat-template"], "trust_request_chat_template", True),
        (["--trust-remote-code"], "trust_remote_code", True),
        (["--tokenizer-mode", "mistral"], "tokenizer_mode", "mistral"),
        (["--enable-tokenizer-info-endpoint"], "enable_tokenizer_info_endpoint", True),
        (
            ["--trust-request-chat-template", "--no-trust-request-chat-template"],
            "trust_request_chat_template",
            False,
        ),
        (["--reasoning-parser", "qwen3"], "reasoning_parser", "qwen3"),
        (["--reasoning-parser", "none"], "reasoning_parser", None),
        (["--reasoning-parser", ""], "reasoning_parser", None),
        (["--structured-outputs-config", '{"reasoning_parser": "qwen3"}'], "reasoning_parser", "qwen3"),
        (["--structured-outputs-config.reasoning_parser", "qwen3"], "reasoning_parser", "qwen3"),
        (["--default-chat-template-kwargs", '{"a": 1}'], "default_chat_template_kwargs", {"a": 1}),
        (["--default-chat-template-kwargs.a_b", "false"], "default_chat_template_kwargs", {"a_b": False}),
        (["--default_chat_template_kwargs.a.b=x y"], "default_chat_template_kwargs", {"a": {"b": "x y"}}),
        (
            ["--default-chat-template-kwargs", '{"a": {"b": 1}}', "--default-chat-template-kwargs.a.c", "2"],
            "default_chat_template_kwargs",
            {"a": {"b": 1, "c": 2}},
        ),
        (
            ["--default-chat-template-kwargs.l+", "1", "--default-chat-template-kwargs.l+=a,b"],
            "default_chat_template_kwargs",
            {"l": [1, "a", "b"]},
        ),
        (["--allowed-origins", '["https://a"]'], "allowed_origins", ["https://a"]),
        (["--api-key", "a", "b"], "api_key", ["a", "b"]),
        (["--middleware", "a.b", "--middleware", "c.d"], "middleware", ["a.b", "c.d"]),
        (
            ["--disable-access-log-for-endpoints", "/health, /ping"],
            "disable_access_log_for_endpoints",
            ["/health", "/ping"],
        ),
        (["--hf-token"], "hf_token", None),
        (["--hf-token", "t"], "hf_token", "t"),
        (["--stream-state", "replayable"], "stream_state", "replayable"),
    ],
)
def test_a_flag(argv: list[str], field: str, value: Any) -> None:
    config = config_of(*argv)
    assert getattr(config, field) == value
    others = {name: v for name, v in vars(config).items() if name != field}
    assert others == {name: v for name, v in vars(ServerConfig()).items() if name != field}


def test_flags_of_vllm_without_effect_are_reported() -> None:
    line = (
        "m --dtype half -tp 2 -tp=4 --tensor_parallel_size=2 --no-enable-prefix-caching "
        "--enable-prefix-caching --disable-log-stats --skip-tokenizer-init -cc.mode=3 "
        "--compilation-config.level 3 --lora-modules a=b c=d --max-num-seqs 8 "
        "--enforce-eager --gpu-memory-utilization 0.9 --port 80"
    )
    config, ignored = parse(line.split())
    assert (config.model, config.port) == ("m", 80)
    assert ignored == [
        "--dtype",
        "-tp",
        "--tensor-parallel-size",
        "--no-enable-prefix-caching",
        "--enable-prefix-caching",
        "--disable-log-stats",
        "--skip-tokenizer-init",
        "-cc",
        "--compilation-config",
        "--lora-modules",
        "--max-num-seqs",
        "--enforce-eager",
        "--gpu-memory-utilization",
    ]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["m", "extra"], "unrecognized arguments: extra"),
        (["--port", "abc"], "argument --port: 'abc' is not a port between 0 and 65535"),
        (["--port", "65536"], "--port"),
        (["--engine-url", "a:1"], "argument --engine-url: 'a:1' is no URL such as http://HOST:PORT"),
        (["--engine-url", "http://a:x"], "is no URL"),
        (["--engine-url", "http://"], "is no URL"),
        (["--engine-url", "http://a/?b"], "is no URL"),
        (["--engine-url", "http://user:secret@a"], "is no URL"),
        (["--engine-retries", "-1"], "--engine-retries: '-1' is not an integer of 0 or more"),
        (["--engine-idle-seconds", "0"], "--engine-idle-seconds"),
        (["--max-model-len", "8x"], "argument --max-model-len: '8x' is not a positive integer"),
        (["--max-model-len", "0"], "--max-model-len"),
        (["--max-model-len"], "expected one argument"),
        (["--max-logprobs", "many"], "--max-logprobs"),
        (["--default-chat-template-kwargs", "[1]"], "'[1]' is not a JSON object"),
        (["--default-chat-template-kwargs", "{"], "'{' is not a JSON object"),
        (["--allowed-origins", "https://a"], "'https://a' is not a JSON list of strings"),
        (["--chat-template-content-format", "xml"], "invalid choice: 'xml'"),
        (["--stream-state", "none"], "invalid choice: 'none'"),
        (["--enable-auto-tool-choice=true"], "ignored explicit argument 'true'"),
        (["--config", "no.yaml"], "argument --config: "),
    ],
)
def test_a_wrong_command_line_is_one_line(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(argv)
    assert exit.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith("renderd serve: error: ") and text.count("\n") == 1
    assert says in text


def test_the_command_line_wins_over_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "model: file/model\n"
        "served_model_name: [a, b]\n"
        "port: 9000\n"
        "host: file\n"
        "enable-auto-tool-choice: true\n"
        "trust_request_chat_template: false\n"
        "default-chat-template-kwargs: {x: 1, y: {z: 2}}\n"
        "api-key: null\n"
        "dtype: half\n"
        "enable-prefix-caching: false\n"
    )
    config, ignored = parse(["--config", str(file), "--port", "1", "--default-chat-template-kwargs.x", "3"])
    assert config.model == "file/model"
    assert config.served_model_name == ["a", "b"]
    assert (config.port, config.host) == (1, "file")
    assert config.enable_auto_tool_choice and not config.trust_request_chat_template
    assert config.default_chat_template_kwargs == {"x": 3, "y": {"z": 2}}
    assert ignored == ["--dtype", "--no-enable-prefix-caching"]
    assert config_of_model(file, "given") == "given"


def config_of_model(file: Path, *argv: str) -> str | None:
    return parse([*argv, "--config", str(file)])[0].model


def test_engines_of_the_command_line_replace_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("engine-url: [http://a, http://b]\nprefill-url: http://c\n")
    assert parse(["--config", str(file)])[0].engine_url == ["http://a", "http://b"]
    config, _ = parse(["--config", str(file), "--engine-url", "http://d"])
    assert (config.engine_url, config.prefill_url) == (["http://d"], ["http://c"])


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "3: 4\n", "bogus: 1\n"])
def test_a_wrong_configuration_file(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit) as exit:
        parse(["--config", str(file)])
    assert exit.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_every_flag_of_vllm_is_known() -> None:
    listed = Path(parse.__code__.co_filename).with_name("vllm_flags.txt").read_text().splitlines()
    flags = [line.split() for line in listed if not line.startswith("#")]
    assert len(flags) > 250
    for arity, *names in flags:
        values = {"0": [], "1": ["1"], "?": [], "+": ["1", "2"]}[arity]
        for name in [*names, *(inverses(names) if arity == "0" else [])]:
            assert parse([name, *values])[1] == [name]


def test_help_names_every_flag_that_has_an_effect(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(["--help"])
    assert exit.value.code == 0
    text = capsys.readouterr().out
    for field in vars(ServerConfig()):
        assert "--" + field.replace("_", "-") in text
    assert "--tensor-parallel-size" not in text
    json.dumps(text)


@pytest.mark.parametrize("given", [["-O3"], ["-O", "3"], ["-O=3"]])
def test_the_optimization_level_has_a_short_form(given: list[str]) -> None:
    config, ignored = parse(["model", *given, "--port", "1"])
    assert (config.model, config.port, ignored) == ("model", 1, ["--optimization-level"])
