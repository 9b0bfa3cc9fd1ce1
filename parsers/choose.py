"""`auto`: which parsers a model needs, by its chat template and its vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from parsers.grammar import ForModel, ModelFacts, ReasoningGrammar, Signs, ToolGrammar, UnfitModelError
from parsers.registry import AUTO, reasoning_grammars, tool_grammars


@dataclass(frozen=True)
class Pick:
    """A parser name, or None, and the reason as half a sentence."""

    name: str | None
    reason: str


@dataclass(frozen=True)
class _Found:
    name: str
    signs: Signs
    framing: str


def choose(model: ModelFacts, reasoning: str | None = AUTO, tools: str | None = AUTO) -> tuple[Pick, Pick]:
    """The reasoning parser and the tool parser that fit the model best.

    `reasoning`, `tools`: "auto", or what is settled already. Of all families whose signs a model shows the
    one with the most signs wins. Two parsers that cannot be combined are not chosen together: what is settled
    stays, else the one with fewer signs gives way.
    """
    found = [_candidates(reasoning_grammars(), model, reasoning), _candidates(tool_grammars(), model, tools)]
    if all(found) and found[0][0].framing != found[1][0].framing:
        settled = [name != AUTO for name in (reasoning, tools)]
        strong = max((0, 1), key=lambda kind: (settled[kind], _weight(found[kind][0].signs)))
        weak, framing = 1 - strong, found[strong][0].framing
        found[weak] = [other for other in found[weak] if other.framing == framing]
    return _pick(found[0], reasoning_grammars(), model), _pick(found[1], tool_grammars(), model)


def _candidates(
    grammars: Iterable[ReasoningGrammar | ToolGrammar | ForModel], model: ModelFacts, wanted: str | None
) -> list[_Found]:
    """All that the model shows the signs of and could be run with, the best first; or the one `wanted`."""
    found = []
    for grammar in grammars:
        shown = [signs for signs in grammar.signs if _shows(model, signs)]
        if wanted != AUTO:
            shown = [Signs()] if wanted in grammar.names else []
        if not shown:
            continue
        try:
            made = grammar.make(model) if isinstance(grammar, ForModel) else grammar
        except UnfitModelError:
            continue
        if all(map(model.is_token, made.required_tokens)):
            found.append(_Found(grammar.names[0], max(shown, key=_weight), made.framing))
    return sorted(found, key=lambda each: _weight(each.signs), reverse=True)


def _shows(model: ModelFacts, signs: Signs) -> bool:
    return not _missing(model, signs)


def _missing(model: ModelFacts, signs: Signs) -> list[str]:
    """What of the signs a model does not show, in half sentences."""
    template = model.chat_template or ""
    return [
        *(f"the chat template lacks {text!r}" for text in signs.template if text not in template),
        *(f"the chat template has {text!r}" for text in signs.lacks if text in template),
        *(f"the vocabulary lacks {text!r}" for text in signs.tokens if not model.is_token(text)),
        *(
            [f"the model's type is not {signs.model_type}"]
            if signs.model_type not in (None, model.model_type)
            else []
        ),
    ]


def _weight(signs: Signs) -> tuple[int, int]:
    """How much signs say: their number, then their length. What must be absent says nothing by itself."""
    texts = (*signs.template, *signs.tokens, *([signs.model_type] if signs.model_type else []))
    return len(texts), sum(map(len, texts))


def _pick(
    found: Sequence[_Found], grammars: Iterable[ReasoningGrammar | ToolGrammar | ForModel], model: ModelFacts
) -> Pick:
    if found:
        return Pick(found[0].name, _reason(found[0].signs))
    if model.chat_template is None:
        return Pick(None, "the model has no chat template to go by")
    reason = "chat template, vocabulary and model type have not all signs of any known family"
    near = [
        (len(missing), -shown, grammar.names[0], missing)
        for grammar in grammars
        for signs in grammar.signs
        for missing in [_missing(model, signs)]
        for shown in [_weight(signs)[0] - len(missing)]
        if missing and shown >= len(missing)
    ]
    if near:
        *_, name, missing = min(near)
        reason += f"; the nearest is {name}, but {' and '.join(missing)}"
    return Pick(None, reason)


def _reason(signs: Signs) -> str:
    parts = []
    if signs.template:
        parts.append(f"the chat template has {_listed(signs.template)}")
    if signs.tokens:
        parts.append(f"the vocabulary has {_listed(signs.tokens)}")
    if signs.model_type:
        parts.append(f"the model's type is {signs.model_type}")
    return ", ".join(parts)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(map(repr, texts))
