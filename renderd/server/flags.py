"""`renderd serve` command line -> ServerConfig. Flags bear vLLM's names and meanings (contract H).

`-` and `_` are interchangeable in names; switches have inverses; flags that take a JSON object also take
`--flag.key value`; `--config FILE` supplies flags that the command line overrides. A flag of vLLM's that
decides nothing here (vllm_flags.txt) is accepted and reported.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from renderd.model.template_kwargs import EFFORTS
from renderd.server import arguments, serving_flags
from renderd.server.config import ServerConfig


def parse(argv: Sequence[str]) -> tuple[ServerConfig, list[str]]:
    """The configuration, and the flags given that have no effect. Exits with 2 on a wrong command line."""
    parser = _parser()
    given = list(arguments.normalized(argv))
    values = parser.parse_args(given)
    if values.config is not None:
        from_file = parser.parse_args(list(arguments.normalized(_config_file(parser, values.config))))
        for name in ("engine_url", "prefill_url"):  # further values would be added to those of the file
            if getattr(values, name):
                setattr(from_file, name, [])
        values = parser.parse_args(given, namespace=from_file)
    if values.model_tag is not None:
        values.model = values.model_tag
    if not values.reasoning_parser:
        values.reasoning_parser = values.structured_outputs_config.get("reasoning_parser")
    for name in ("reasoning_parser", "tool_call_parser"):
        if getattr(values, name) in ("", "none"):
            setattr(values, name, None)
    config = ServerConfig(**{field.name: getattr(values, field.name) for field in fields(ServerConfig)})
    return config, list(dict.fromkeys(values.ignored))


def _config_file(parser: argparse.ArgumentParser, path: str) -> Iterator[str]:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        parser.error(f"argument --config: {' '.join(str(error).split())}")
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        parser.error(f"argument --config: {path} does not hold `flag: value` lines")
    return arguments.from_mapping(content)


def _defaults() -> dict[str, Any]:
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(ServerConfig)
    }


def _max_logprobs(text: str) -> int:
    return -1 if text == "-1" else int(text)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.Parser(
        prog="renderd serve",
        usage="renderd serve [MODEL] [flags]",
        description="OpenAI requests into token ids, and token ids back into OpenAI answers, over HTTP.",
        epilog="Other flags of `vllm serve` are accepted and named in a warning.",
    )
    parser.set_defaults(**_defaults(), ignored=[], structured_outputs_config={})
    parser.add_argument(
        "model_tag", metavar="MODEL", nargs="?", help="directory or Hugging Face id; default: a demo model"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of `flag: value` lines; the command line wins"
    )
    _model_flags(parser.add_argument_group("model"))
    _template_flags(parser.add_argument_group("chat template"))
    _parsing_flags(parser.add_argument_group("parsing of answers"))
    serving_flags.limit_flags(parser.add_argument_group("limits"))
    serving_flags.engine_flags(parser.add_argument_group("engines"))
    serving_flags.http_flags(parser.add_argument_group("HTTP"))
    serving_flags.tls_flags(parser.add_argument_group("TLS"))
    serving_flags.log_flags(parser.add_argument_group("logging"))
    for line in (
        resources.files("renderd.server").joinpath("vllm_flags.txt").read_text(encoding="utf-8").splitlines()
    ):
        if line.startswith("#"):
            continue
        arity, *names = line.split()
        if arity == "0":
            names += arguments.inverses(names)
        nargs = {"0": 0, "1": None, "?": "?", "+": "+"}[arity]
        parser.add_argument(
            *names, dest="ignored", nargs=nargs, action=arguments.Collect, help=argparse.SUPPRESS
        )
    return parser


_Group = argparse._ArgumentGroup


def _model_flags(group: _Group) -> None:
    add = group.add_argument
    add("--model", metavar="MODEL", help="the same as the positional MODEL")
    add("--served-model-name", metavar="NAME", nargs="+", help="names that requests may use; default: MODEL")
    add("--tokenizer", metavar="MODEL", help="take the tokenizer from another directory or id")
    add("--tokenizer-mode", metavar="MODE", help="auto, hf or mistral; others of vLLM's are refused")
    add(
        "--trust-remote-code",
        action=arguments.Switch,
        help="let Python files of the model run, for a tokenizer without tokenizer.json",
    )
    add("--revision", metavar="REV", help="branch, tag or commit on the hub")
    add("--tokenizer-revision", metavar="REV", help="the same for --tokenizer")
    add("--hf-token", metavar="TOKEN", nargs="?", help="hub access token")
    add("--download-dir", metavar="DIR", help="where downloads are kept; default: the hub client's cache")
    add(
        "--hf-overrides",
        metavar="JSON",
        type=arguments.json_object,
        action=arguments.JsonObject,
        help="values that win over the model's config.json",
    )
    add(
        "--max-model-len",
        metavar="N",
        type=arguments.positive_int_or_auto,
        help="tokens of prompt and answer together, such as 8192, 8k or 8K; default: the model's",
    )
    add(
        "--max-logprobs",
        metavar="N",
        type=_max_logprobs,
        help="candidates a token may bring (20); -1: any number",
    )
    add(
        "--generation-config",
        metavar="SOURCE",
        help="sampling defaults: auto (MODEL's), vllm (none) or a directory",
    )
    add(
        "--override-generation-config",
        metavar="JSON",
        type=arguments.json_object,
        action=arguments.JsonObject,
        help="sampling defaults that win over --generation-config",
    )
    add(
        "--renderer-num-workers",
        metavar="N",
        type=arguments.positive_int,
        help="processes of each worker for work that takes long (1)",
    )


def _template_flags(group: _Group) -> None:
    add = group.add_argument
    add(
        "--chat-template",
        metavar="TEMPLATE",
        help="file, a template's name (the tokenizer's or built in) or its text; default: the tokenizer's",
    )
    add(
        "--chat-template-content-format",
        choices=["auto", "string", "openai"],
        help="give templates message content as text or as a list of parts; default: what the template reads",
    )
    add(
        "--default-chat-template-kwargs",
        metavar="JSON",
        type=arguments.json_object,
        action=arguments.JsonObject,
        help="template variables that requests may override",
    )
    add(
        "--trust-request-chat-template", action=arguments.Switch, help="let requests bring their own template"
    )
    add("--trust-request-mm-kwargs", action=arguments.Switch, help="let requests bring multimodal kwargs")
    add(
        "--reasoning-effort-map",
        metavar="JSON",
        type=arguments.json_object,
        action=arguments.JsonObject,
        help="rewrite a request's reasoning effort to what the template knows",
    )
    add(
        "--anthropic-disabled-thinking-effort",
        choices=["auto", *(effort for effort in EFFORTS if effort != "minimal")],
        help="reasoning effort of messages requests that disable thinking; auto: none where the template "
        "knows it, else low",
    )
    add(
        "--exclude-tools-when-tool-choice-none",
        action=arguments.Switch,
        help="leave tools out of the prompt when tool_choice is none",
    )


def _parsing_flags(group: _Group) -> None:
    add = group.add_argument
    add(
        "--reasoning-parser",
        metavar="NAME",
        help="how reasoning is marked in answers; `renderd parsers` lists the names, auto finds one",
    )
    add(
        "--reasoning-parser-plugin",
        metavar="FILE",
        help="Python file that registers parsers (docs/adding-a-parser.md)",
    )
    add(
        "--tool-call-parser",
        metavar="NAME",
        help="how tool calls are marked, or auto; needs --enable-auto-tool-choice",
    )
    add("--tool-parser-plugin", metavar="FILE", help="the same as --reasoning-parser-plugin")
    add("--enable-auto-tool-choice", action=arguments.Switch, help="parse tool calls with --tool-call-parser")
    add(
        "--tool-strict-level",
        choices=["auto", "function", "parameter"],
        help="least strictness of structural tags",
    )
    add("--response-role", metavar="ROLE", help="role of answers that follow a generation prompt (assistant)")
    add(
        "--structured-outputs-config",
        metavar="JSON",
        type=arguments.json_object,
        action=arguments.JsonObject,
        help="its reasoning_parser is taken when --reasoning-parser is not given; the rest has no effect",
    )
    add(
        "--stream-state",
        choices=["compact", "replayable"],
        help="replayable keeps the token history too, for vLLM to take over a parsed stream (compact)",
    )
    add(
        "--max-undecided-bytes",
        metavar="N",
        type=arguments.positive_int,
        help="text of an unfinished call held back before it becomes content (65536)",
    )
