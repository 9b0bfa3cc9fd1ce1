"""Finished answers: the machine of the streams, fed once and told that it was all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from msgspec import UNSET

from parsers.events import Event
from renderd import telemetry
from renderd.derender import checks
from renderd.derender.choice import ChoiceDecoder
from renderd.derender.context import Context
from renderd.derender.ids import CallIds
from renderd.derender.message import finish_reason_of, message_of, text_of
from renderd.derender.requests import read_completion_request
from renderd.derender.route import CHAT, MessageRoute
from renderd.derender.setup import Setup
from renderd.derender.stops import End, drop_stop_token
from renderd.wire.answers import ChatChoice, ChatCompletion, Completion, CompletionChoice
from renderd.wire.derender import DerenderChatRequest, DerenderCompletionRequest, FinishedMessage
from renderd.wire.errors import bad_request
from renderd.wire.generate import GenerateChoice, GenerateResponse, GenerateUsage

T = TypeVar("T")


class Decoded(NamedTuple):
    """A choice read to its end. `finish_reason` and `stop_reason` are those to report."""

    events: list[Event]
    finish_reason: str | None
    stop_reason: int | str | None
    reasoning_tokens: int


class BatchDerenderer:
    """Derenders finished answers. Raises ApiError."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def chat(self, body: DerenderChatRequest) -> ChatCompletion:
        """The chat.completion of a finished answer."""
        model, context, seed = self.open(body, CHAT)
        return self.chat_answer(body.generate_response, model, context, seed, body.prompt_tokens or 0)

    def chat_answer(
        self,
        response: GenerateResponse,
        model: str,
        context: Context,
        seed: Sequence[int],
        prompt_tokens: int,
    ) -> ChatCompletion:
        """The same for a compiled request. `seed`: the ids before the output."""
        setup = self._setup
        choices, reasoning_tokens = [], 0
        for choice in response.choices:
            decoded = self.decode(choice, context, seed)
            reasoning_tokens += decoded.reasoning_tokens
            choices.append(self._chat_choice(choice, decoded, context, response.request_id))
        usage = _usage(prompt_tokens, [response])
        if setup.family is not None and setup.family.has_reasoning:
            usage.completion_tokens_details = {"reasoning_tokens": reasoning_tokens}
        return ChatCompletion(
            id=response.request_id,
            created=setup.now(),
            model=model,
            choices=choices,
            usage=usage,
            prompt_logprobs=response.prompt_logprobs,
            prompt_token_ids=response.prompt_token_ids if context.return_token_ids else None,
            kv_transfer_params=response.kv_transfer_params,
            metrics=response.metrics,
        )

    def open(self, body: FinishedMessage, route: MessageRoute[T]) -> tuple[str, Context, Sequence[int]]:
        """What the answer calls the model, the compiled request, and the ids that come before the output."""
        setup, response = self._setup, body.generate_response
        request = route.request(body, stream=False)
        model = setup.model_name(body.model)
        checks.check_response(setup, response, body.prompt_token_ids)
        if setup.family is not None and request is None:
            raise bad_request(checks.request_needed(route.field))
        for choice in response.choices:
            if not choice.token_ids:
                raise bad_request(f"choice {choice.index} has empty or null token_ids")
        known = response.prompt_token_ids
        known = body.prompt_token_ids if known is None else known
        verdict = setup.prompt_verdict(route.as_chat(request), known) if request is not None else "unknown"
        prompt_tokens = len(known or ()) if body.prompt_tokens is None else body.prompt_tokens
        context = route.context(setup, request, verdict, prompt_tokens)
        seed = body.prompt_token_ids if body.prompt_token_ids is not None else response.prompt_token_ids
        return model, context, seed or ()

    def completion(self, body: DerenderCompletionRequest) -> Completion:
        """The text_completion of finished answers, one a prompt."""
        setup, responses = self._setup, body.generate_responses
        loc = "body.DerenderCompletionRequest.completion_request"
        request = read_completion_request(body.completion_request, loc)
        context = setup.completion_context(request)
        model = setup.model_name(body.model)
        self._check_responses(body)
        prompts = body.prompt_token_ids or [None] * len(responses)
        echoes = setup.echoes(request)
        checks.check_repeats(setup, responses, echoes, context.return_token_ids)
        return self.completion_answer(
            responses, model, context, prompts, echoes, sum(body.prompt_tokens or ())
        )

    def completion_answer(
        self,
        responses: Sequence[GenerateResponse],
        model: str,
        context: Context,
        prompts: Sequence[Sequence[int] | None],
        echoes: Sequence[str],
        prompt_tokens: int,
    ) -> Completion:
        """The same for a compiled request. `prompts`: the ids before each output; `echoes`: texts to begin
        the answers with, of some of the prompts."""
        setup = self._setup
        choices: list[CompletionChoice] = []
        for number, (response, prompt) in enumerate(zip(responses, prompts, strict=True)):
            echo = echoes[number] if number < len(echoes) else ""
            seed = prompt if prompt is not None else response.prompt_token_ids
            for choice in response.choices:
                decoded = self.decode(choice, context, seed or ())
                shown = self._completion_choice(choice, decoded, context, len(choices))
                shown.text = echo + shown.text
                shown.prompt_token_ids = response.prompt_token_ids if context.return_token_ids else None
                choices.append(shown)
        first = responses[0].kv_transfer_params
        return Completion(
            id=responses[0].request_id,
            created=setup.now(),
            model=model,
            choices=choices,
            usage=_usage(prompt_tokens, responses),
            kv_transfer_params=first if all(r.kv_transfer_params == first for r in responses) else None,
            metrics=responses[0].metrics if len(responses) == 1 else None,
        )

    def _check_responses(self, body: DerenderCompletionRequest) -> None:
        setup, responses = self._setup, body.generate_responses
        if not responses:
            raise bad_request("generate_responses must not be empty")
        if len(responses) > setup.options.max_n:
            raise bad_request(
                f"generate_responses count ({len(responses)}) exceeds server maximum "
                f"({setup.options.max_n}). Set VLLM_MAX_N_SEQUENCES to increase this limit."
            )
        prompts = body.prompt_token_ids or [None] * len(responses)
        for response, prompt in zip(responses, prompts, strict=True):
            checks.check_response(setup, response, prompt)
        for response in responses:
            for choice in response.choices:
                if not choice.token_ids:
                    raise bad_request(
                        f"choice {choice.index} in response {response.request_id} has empty or null token_ids"
                    )

    def decode(self, choice: GenerateChoice, context: Context, seed: Sequence[int]) -> Decoded:
        """Read a choice."""
        decoder, end = self.begin(choice, context, seed)
        events = decoder.feed(end.text_ids, tokens_before=0, final=True, end_token=end.by_token)
        self._setup.report(events)
        if decoder.search.matched is not None:
            return Decoded(events, "stop", decoder.search.matched, decoder.reasoning_tokens)
        return Decoded(events, choice.finish_reason, end.stop_reason, decoder.reasoning_tokens)

    def begin(
        self, choice: GenerateChoice, context: Context, seed: Sequence[int]
    ) -> tuple[ChoiceDecoder, End]:
        """A decoder before the first id of a choice, and where the choice ends."""
        setup = self._setup
        telemetry.derendered(len(choice.token_ids or ()))
        reason = choice.finish_reason or "stop"  # a finished answer without a reason has stopped
        end = drop_stop_token(
            choice.token_ids or (),
            reason,
            choice.stop_reason,
            context,
            setup.model.tokenizer.eos_token_id,
            setup.model.eos_token_ids,
        )
        # An engine without a tokenizer runs on behind a stop string, whatever ends it in the end.
        stops = [end.stop_reason] if isinstance(end.stop_reason, str) else context.stop
        return setup.plan(context).decoder(seed, [stop for stop in stops if stop]), end

    def _chat_choice(
        self, choice: GenerateChoice, decoded: Decoded, context: Context, request_id: str
    ) -> ChatChoice:
        ids = CallIds(request_id, choice.index, context.first_call, nine=context.nine)
        message = message_of(decoded.events, context, ids)
        logprobs = self._setup.logprobs.chat(choice.logprobs, context.candidates, ())
        return ChatChoice(
            index=choice.index,
            message=message,
            logprobs=None if context.hidden else logprobs,
            finish_reason=finish_reason_of(
                decoded.finish_reason or "stop", context, message.tool_calls is not UNSET
            ),
            stop_reason=decoded.stop_reason,
            token_ids=choice.token_ids if context.return_token_ids and not context.hidden else None,
        )

    def _completion_choice(
        self, choice: GenerateChoice, decoded: Decoded, context: Context, index: int
    ) -> CompletionChoice:
        return CompletionChoice(
            index=index,
            text=text_of(decoded.events),
            logprobs=self._setup.logprobs.completion(choice.logprobs, context.candidates, ()),
            finish_reason=decoded.finish_reason,
            stop_reason=decoded.stop_reason,
            token_ids=choice.token_ids if context.return_token_ids else None,
            prompt_token_ids=None,
        )


def _usage(prompt_tokens: int, responses: Sequence[GenerateResponse]) -> GenerateUsage:
    completion = sum(len(choice.token_ids or ()) for r in responses for choice in r.choices)
    return GenerateUsage(prompt_tokens, prompt_tokens + completion, completion)
