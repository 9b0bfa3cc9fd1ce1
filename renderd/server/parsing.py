"""Which parsers a server has: names, `auto`, plugins, and whether they fit the model (contract H)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import parsers
from parsers.choose import Pick, choose
from parsers.plugins import PluginError, load_file, load_installed
from parsers.registry import AUTO, reasoning_parser_names, tool_parser_names
from renderd.model import Model
from renderd.server.config import ServerConfig, StartupError, environment_flag

logger = logging.getLogger("renderd.server")


@dataclass(frozen=True)
class Parsing:
    """The parsers of a server and the names that chose them, None where there are none."""

    family: parsers.Family | None = None
    reasoning: str | None = None
    tools: str | None = None


def load_parsers(config: ServerConfig, model: Model) -> Parsing:
    """The parsers that the flags name. A tool parser counts only where it is enabled (contract B.3). A model
    that is spoken to in Harmony answers in it, so its reasoning is read in any case (contract C.7).

    Parsers that are named for such a model, or not enabled, are without effect: a warning says so.

    Raises StartupError for a name that is none, a plugin that fails, a model that lacks what a parser needs,
    and parsers that cannot be combined.
    """
    load_plugins(config)
    enforces_tags = environment_flag("VLLM_ENFORCE_STRICT_TOOL_CALLING", True)
    tools = config.tool_call_parser if config.enable_auto_tool_choice else None
    if tools != config.tool_call_parser:
        unused = config.tool_call_parser
        logger.warning("--tool-call-parser %s has no effect without --enable-auto-tool-choice", unused)
    facts = facts_of(model)
    if model.harmony is None:
        reasoning, tools = _chosen(model, config.reasoning_parser, tools)
    else:
        reasoning, tools = _of_harmony(config.reasoning_parser, tools)
    if reasoning is None and tools is None:
        return Parsing()
    try:
        for flag, name, family in (
            ("--reasoning-parser", reasoning, parsers.build(reasoning=reasoning, model=facts)),
            ("--tool-call-parser", tools, parsers.build(tools=tools, model=facts)),
        ):
            missing = sorted(token for token in family.required_tokens if not facts.is_token(token))
            if missing:
                tokens = ", ".join(map(repr, missing))
                raise StartupError(
                    f"{flag} {name} cannot be used with the tokenizer of '{model.name}': "
                    f"it has no token {tokens}"
                )
        return Parsing(parsers.build(reasoning, tools, facts, enforces_tags), reasoning, tools)
    except (parsers.UnknownParserError, parsers.UnfitModelError, parsers.MixedParsersError) as error:
        raise StartupError(str(error)) from error


def load_plugins(config: ServerConfig) -> None:
    """Register the families of installed packages and of the files that flags name. Raises StartupError."""
    for failure in load_installed():
        logger.warning("%s", failure)
    for path in dict.fromkeys((config.reasoning_parser_plugin, config.tool_parser_plugin)):
        if path:
            try:
                load_file(path)
            except PluginError as error:
                raise StartupError(str(error)) from error


def facts_of(model: Model) -> parsers.ModelFacts:
    """What parsers may know of a model."""
    return parsers.ModelFacts(
        is_token=lambda text: model.tokenizer.token_id(text) is not None,
        added_tokens=model.tokenizer.added_tokens,
        tokenizer_config=model.tokenizer_config,
        chat_template=model.templates.default,
        model_type=model.model_type,
    )


def choose_for(model: Model, reasoning: str | None = AUTO, tools: str | None = AUTO) -> tuple[Pick, Pick]:
    """As `parsers.choose`, by all templates that requests may get: tools may have one of their own."""
    facts, templates = facts_of(model), model.templates
    tool_template = None if templates.server else templates.named.get("tool_use")
    texts = [text for text in (facts.chat_template, tool_template) if text]
    return choose(replace(facts, chat_template="\n".join(texts) or None), reasoning, tools)


def _chosen(model: Model, reasoning: str | None, tools: str | None) -> tuple[str | None, str | None]:
    """The names, `auto` replaced and reported."""
    if AUTO not in (reasoning, tools):
        return reasoning, tools
    picks = choose_for(model, reasoning, tools)
    if reasoning == AUTO:
        reasoning = _report("--reasoning-parser", picks[0])
    if tools == AUTO:
        tools = _report("--tool-call-parser", picks[1])
    return reasoning, tools


def _of_harmony(reasoning: str | None, tools: str | None) -> tuple[str, str | None]:
    """Harmony's framing is read, reasoning too, whatever the names are. Raises StartupError for unknown
    ones."""
    own = {"--reasoning-parser": "openai_gptoss", "--tool-call-parser": "openai"}
    for flag, name, known in (
        ("--reasoning-parser", reasoning, reasoning_parser_names()),
        ("--tool-call-parser", tools, tool_parser_names()),
    ):
        if name == AUTO:
            _report(flag, Pick(own[flag], "the model answers in Harmony"))
        elif name is not None and name not in known:
            raise StartupError(f"invalid {flag} {name} (chosen from {', '.join(known)})")
        elif name not in (None, own[flag]):
            logger.warning("%s is %s, not %s: the model answers in Harmony", flag, own[flag], name)
    return own["--reasoning-parser"], own["--tool-call-parser"] if tools else None


def _report(flag: str, pick: Pick) -> str | None:
    level = logging.WARNING if pick.name is None else logging.INFO
    logger.log(level, "%s auto is %s: %s", flag, pick.name or "none", pick.reason)
    return pick.name
