"""Values of every field of a request, good and bad: what the matrix asks one by one and the fuzzer mixes."""

from __future__ import annotations

from typing import Any

from golden.cases import Json

_TOOL_A: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather <now> & soon",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
_TOOL_B: Json = {"type": "function", "function": {"name": "now", "strict": True, "extra": 1}, "x": 2}
_TOOL_C: Json = {"function": {"name": "c", "parameters": {}, "defer_loading": None}, "defer_loading": True}
_CALL: Json = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"a": [1, null]}'}}
_TAG: Json = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"},
}
_LEGACY_TAG: Json = {
    "type": "structural_tag",
    "structures": [{"begin": "<f>", "schema": {"type": "object"}, "end": "</f>"}],
    "triggers": ["<f>"],
}
_SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "integer"}}}

_INTEGERS: list[Any] = [
    0,
    1,
    2,
    5,
    16,
    -1,
    -2,
    4096,
    5000,
    2**63,
    "3",
    " 4 ",
    3.0,
    3.5,
    True,
    "x",
    [],
    {},
    None,
]
_FLOATS: list[Any] = [0, 0.0, 0.005, 0.5, 1, 1.5, 2, 2.5, -1, -3, "0.25", True, "x", [], {}, None, 1e308]
_BOOLEANS: list[Any] = [True, False, None, 1, 0, "yes", "off", "maybe", 2, 1.0, [], {}]
_TEXTS: list[Any] = ["", "a", "ü🌍", "a/b", 5, True, [], {}, None]
_ID_LISTS: list[Any] = [[], [1], [1, 1, 2], [-1], [10**9], ["3"], [1.0], [1.5], [None], "1", 1, {}, None]
_TEXT_LISTS: list[Any] = [[], ["a"], ["a", "bc", "a"], [""], [1], [None], "a", 1, {}, None]
_MAPS: list[Any] = [{}, {"a": 1}, {"a": None}, {"a": {"b": [1, "x"]}}, [], "a", 1, None]

COMMON: dict[str, list[Any]] = {
    "model": ["other", *_TEXTS],
    "frequency_penalty": _FLOATS,
    "presence_penalty": _FLOATS,
    "repetition_penalty": _FLOATS,
    "temperature": _FLOATS,
    "top_p": _FLOATS,
    "min_p": _FLOATS,
    "length_penalty": _FLOATS,
    "top_k": _INTEGERS,
    "n": _INTEGERS,
    "seed": [-(2**63), 2**63 - 1, *_INTEGERS],
    "min_tokens": _INTEGERS,
    "max_tokens": _INTEGERS,
    "truncate_prompt_tokens": _INTEGERS,
    "prompt_logprobs": _INTEGERS,
    "priority": [-(2**63) - 1, *_INTEGERS],
    "routed_experts_prompt_start": _INTEGERS,
    "stream_interval": _INTEGERS,
    "thinking_token_budget": _INTEGERS,
    "watermarking": _BOOLEANS,
    "include_stop_str_in_output": _BOOLEANS,
    "ignore_eos": _BOOLEANS,
    "skip_special_tokens": _BOOLEANS,
    "spaces_between_special_tokens": _BOOLEANS,
    "stream": _BOOLEANS,
    "use_beam_search": _BOOLEANS,
    "echo": _BOOLEANS,
    "add_special_tokens": _BOOLEANS,
    "return_token_ids": _BOOLEANS,
    "return_token_offsets": _BOOLEANS,
    "return_tokens_as_token_ids": _BOOLEANS,
    "return_weight_versions": _BOOLEANS,
    "truncation_side": ["left", "right", "middle", 1, None],
    "stop": ["abc", ["a", "bcd"], [""], ["a"] * 4, ["a"] * 5, "", *_TEXT_LISTS],
    "bad_words": _TEXT_LISTS,
    "stop_token_ids": _ID_LISTS,
    "logprob_token_ids": _ID_LISTS,
    "allowed_token_ids": _ID_LISTS,
    "logit_bias": [{"1": 5}, {"1": 500, "2": -500}, {"x": 1}, {" 7 ": 1}, {"1": "2"}, {"1.5": 1}, *_MAPS],
    "stream_options": [
        {"include_usage": True},
        {"continuous_usage_stats": "yes", "z": 1},
        {"include_usage": None},
        *_MAPS,
    ],
    "repetition_detection": [
        {"max_pattern_size": 3, "min_pattern_size": 1, "min_count": 2},
        {"max_pattern_size": 3},
        {"min_pattern_size": 4, "max_pattern_size": 3, "min_count": 2},
        {"min_count": -1},
        *_MAPS,
    ],
    "response_format": [
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "s", "schema": _SCHEMA, "strict": True}},
        {"type": "json_schema", "json_schema": {"name": "s"}},
        {"type": "json_schema", "json_schema": {"schema": _SCHEMA}},
        {"type": "json_schema"},
        {"type": "xml"},
        {"type": "json_object", "z": 1},
        _TAG,
        _LEGACY_TAG,
        {"type": "structural_tag"},
        {"type": "structural_tag", "format": {"type": "none"}},
        *_MAPS,
    ],
    "structured_outputs": [
        {"json": _SCHEMA},
        {"json": '{"type": "object"}'},
        {"regex": "a+"},
        {"choice": ["a", "b"]},
        {"choice": []},
        {"grammar": 'root ::= "a"'},
        {"json_object": True},
        {"json_object": False},
        {"json": _SCHEMA, "regex": "a"},
        {"json": _SCHEMA, "grammar": "g"},
        {"regex": "a", "disable_any_whitespace": True, "whitespace_pattern": " "},
        {"structural_tag": '{"type": "structural_tag", "format": {"type": "any_text"}}'},
        {"structural_tag": "{}"},
        *_MAPS,
    ],
    "vllm_xargs": [
        {"a": 1, "b": "x", "c": [1, "y", 2.5], "d": True},
        {"a": 2**64},
        {"a": [[1]]},
        {"a": "1"},
        *_MAPS,
    ],
    "kv_transfer_params": [{"do_remote_decode": True}, {"prompt_token_ids": None}, *_MAPS],
    "ec_transfer_params": _MAPS,
    "cache_salt": ["s", "a@b", "x" * 128, "x" * 129, "a\\b", *_TEXTS],
    "request_id": ["my-id", *_TEXTS],
    "user": _TEXTS,
    "session_id": _TEXTS,
    "mm_payload": ["tensors", "none", "x", None],
    "unknown_field": [1, None],
    "guided_json": [{}],
}
"""Fields of both APIs."""

_INPUT_TEXT: Json = {"type": "input_text", "text": "c"}
_USER: Json = {"role": "user", "content": "Hello there"}

CHAT: dict[str, list[Any]] = {
    "messages": [
        [],
        [_USER],
        [{"role": "system", "content": "S"}, _USER],
        [{"role": "user", "content": None}],
        [{"role": "user"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": 5}],
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, "b", _INPUT_TEXT],
            }
        ],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "text", "text": 5}]}],
        [{"role": "user", "content": [{"type": "text", "text": None}, {"type": "nope"}]}],
        [{"role": "user", "content": [{"text": "untyped"}]}],
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}],
            }
        ],
        [{"role": "user", "content": [5]}],
        [{"role": "critic", "content": "C", "name": "n", "extra": 1}, _USER],
        [_USER, {"role": "assistant", "content": "A", "reasoning_content": "R"}, _USER],
        [_USER, {"role": "assistant", "content": "A", "reasoning": "R", "reasoning_content": "S"}, _USER],
        [_USER, {"role": "assistant", "content": None, "tool_calls": [_CALL]}],
        [_USER, {"role": "assistant", "tool_calls": [_CALL, _CALL]}, {"role": "tool", "content": "r"}],
        [_USER, {"role": "assistant", "tool_calls": []}, _USER],
        [_USER, {"role": "assistant", "content": "x", "tool_calls": None, "refusal": "no"}, _USER],
        [_USER, {"role": "assistant", "tool_calls": [{**_CALL, "type": "custom"}]}],
        [_USER, {"role": "assistant", "tool_calls": [{**_CALL, "id": None}]}],
        [_USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
        [_USER, {"role": "assistant", "tool_calls": [{**_CALL, "function": {"name": "f", "arguments": {}}}]}],
        [_USER, {"role": "assistant", "tool_calls": [{**_CALL, "function": {"name": "f"}}]}],
        [_USER, {"role": "assistant", "tool_calls": ["x"]}],
        [_USER, {"role": "assistant", "tool_calls": {"a": 1}}],
        [{"role": "developer", "content": "D", "tools": [_TOOL_A]}, _USER],
        [_USER, {"role": "developer", "content": "D"}, {"role": "system", "content": "S"}],
        [
            {"role": "system", "content": [{"type": "text", "text": "x-anthropic-billing-header: 1\nS"}]},
            _USER,
        ],
        [{"role": "tool", "content": [{"type": "tool_reference", "name": "t"}], "tool_call_id": "i"}, _USER],
        [{"role": "tool", "content": "r", "tool_call_id": 5}],
        [{"role": "function", "name": "f", "content": None}, _USER],
        [{"content": "x"}],
        [{"role": 5, "content": "x"}],
        [{"role": "user", "content": "x", "name": 5}],
        ["x"],
        "x",
        {},
        None,
    ],
    "max_completion_tokens": _INTEGERS,
    "logprobs": _BOOLEANS,
    "top_logprobs": _INTEGERS,
    "tools": [
        [],
        [_TOOL_A],
        [_TOOL_A, _TOOL_B, _TOOL_C],
        [{}],
        [{"type": "x", "function": {"name": "f"}}],
        [{"type": "function", "function": {"name": "f", "parameters": []}}],
        [1],
        {},
        "x",
        None,
    ],
    "tool_choice": [
        "none",
        "auto",
        "required",
        "any",
        {"type": "function", "function": {"name": "get_weather"}},
        {"type": "function", "function": {"name": "missing"}},
        {"type": "function", "function": {}},
        {"type": "function", "function": {"name": ""}},
        {"type": "function", "function": {"name": 5}},
        {"type": "function"},
        {"type": "x", "function": {"name": "get_weather"}},
        {},
        [],
        5,
        None,
    ],
    "parallel_tool_calls": _BOOLEANS,
    "reasoning_effort": ["none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "x", 1, None],
    "include_reasoning": _BOOLEANS,
    "add_generation_prompt": _BOOLEANS,
    "continue_final_message": _BOOLEANS,
    "documents": [[], [{"title": "t", "text": "d"}], [{"a": 1}], ["x"], {}, "x", None],
    "chat_template": ["", "{{ messages[0].content }}", "{{ x }}", "{% if %}", "name", 5, None],
    "chat_template_kwargs": [
        {"enable_thinking": False},
        {"enable_thinking": "auto", "x": None},
        {"tools": []},
        {"messages": []},
        {"tokenize": False, "add_generation_prompt": False, "padding": True},
        {"chat_template": "{{ bos_token }}x"},
        {"documents": 5},
        {"conversation": 1},
        {"continue_final_message": True},
        {"reasoning_effort": "high", "bos_token": "B"},
        {"return_dict": False, "return_tensors": "pt"},
        *_MAPS,
    ],
    "media_io_kwargs": [{"image": {"a": 1}}, *_MAPS],
    "mm_processor_kwargs": _MAPS,
    "return_mm_kwargs": _BOOLEANS,
    "return_prompt_text": _BOOLEANS,
    "kv_transfer_params": [
        {"prompt_token_ids": [1, 2, 3]},
        {"prompt_token_ids": []},
        {"prompt_token_ids": [-1]},
        {"prompt_token_ids": [10**9]},
        {"prompt_token_ids": "x", "a": 1},
        *COMMON["kv_transfer_params"],
    ],
}
"""Fields of chat requests alone, or with values of their own there."""

COMPLETION: dict[str, list[Any]] = {
    "prompt": [
        "Hello",
        "",
        [],
        ["a", "b"],
        [1, 2, 3],
        [[1, 2], [3]],
        [""],
        [[]],
        ["a", ""],
        [-1],
        [10**9],
        ["a", 1],
        [1, "a"],
        [[1], "a"],
        [1.0],
        [1.5],
        "<|im_end|> ü🌍 \n\n",
        5,
        {},
        None,
    ],
    "logprobs": _INTEGERS,
    "suffix": ["", "s", 5, None],
    "prompt_embeds": ["AAAA", "", [], ["AAAA"], 5, None],
}
"""Fields of completion requests alone."""

FIELDS: dict[str, dict[str, list[Any]]] = {
    "chat": {**COMMON, **CHAT},
    "completion": {**COMMON, **COMPLETION},
}

BASES: dict[str, list[Json]] = {
    "chat": [
        {"messages": [_USER]},
        {"messages": [{"role": "system", "content": "S"}, _USER], "tools": [_TOOL_A, _TOOL_B]},
        {
            "messages": [
                _USER,
                {"role": "assistant", "content": "A", "reasoning": "R", "tool_calls": [_CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "out"}]},
            ],
            "tools": [_TOOL_A],
            "tool_choice": "required",
        },
        {"messages": [_USER, {"role": "assistant", "content": "Once "}], "stream": True},
    ],
    "completion": [
        {"prompt": "Hello"},
        {"prompt": ["a"], "max_tokens": 7},
        {"prompt": [[1, 2], [3]]},
    ],
}
"""Requests that are right."""
