"""`/v1/responses` request -> GenerateRequest (contract D.4)."""

from __future__ import annotations

from renderd.model.template_kwargs import mapped_effort
from renderd.render.chat import Server, check_message, render_message
from renderd.render.response_items import check_conversation
from renderd.wire.errors import ApiError
from renderd.wire.generate import GenerateRequest, random_id
from renderd.wire.responses import ResponsesRequest, as_chat, check_constraints

_UNFINISHED = ("in_progress", "incomplete")


def render_responses(server: Server, request: ResponsesRequest) -> GenerateRequest:
    """What an engine needs to answer the request. Raises ApiError 400 or 404."""
    server.model.check_name(request.model)
    if request.previous_response_id is not None:
        raise ApiError(
            400,
            "invalid_request_error",
            "previous_response_id is not supported by the stateless render endpoint.",
            "previous_response_id",
        )
    chat = as_chat(request)
    effort = mapped_effort(chat, server.model.config.reasoning_effort_map)
    chat.messages = server.writer.read(request, effort)
    check_message(server, chat, request.max_output_tokens, "max_output_tokens")
    if server.writer.templated:
        check_conversation(request, chat.messages)
    chat.add_special_tokens = True
    if continues(request):
        chat.add_generation_prompt, chat.continue_final_message = False, True
    name = request.request_id if isinstance(request.request_id, str) else f"resp_{random_id()}"
    rendered = render_message(
        server,
        chat,
        request.max_output_tokens,
        name,
        sized=True,
        takes_ids=server.writer.templated,
    )
    check_constraints(request)
    rendered.reasoning_ended = rendered.parse_context = None
    if not (request.vllm_xargs or rendered.kv_transfer_params or rendered.ec_transfer_params):
        rendered.sampling_params["extra_args"] = {}
    return rendered


def continues(request: ResponsesRequest) -> bool:
    """The answer goes on where the last message or thought of the input ends."""
    last = request.input[-1] if isinstance(request.input, list) and request.input else None
    if last is None or last.get("type") not in (None, "message", "reasoning"):
        return False
    return last.get("status") in _UNFINISHED
