"""`renderd engine`: serve the scripted engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn

from renderd.engine.app import ScriptedEngine, create_app
from renderd.model import ModelConfig, load_model

DESCRIPTION = (
    "A scripted tokens-only engine for tests and demonstrations: no model runs in it. It speaks "
    "/inference/v1/generate as `vllm serve --tokens-only` does. It answers what a request's vllm_xargs say: "
    "force_text, a string, or force_token_ids, a list of ids; for n > 1 a list with one of them a choice. "
    "Else it answers a fixed sentence. force_delay: seconds a token takes; force_fault: what goes wrong, one "
    "of refuse, drop, error and stall, or KIND:EVENTS, such as drop:3. POST /script with fault and "
    "healthy says it for all requests and for /health, GET /script tells what came."
)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="renderd engine", description=DESCRIPTION)
    parser.add_argument("model", metavar="MODEL", help="directory or hub id; only its tokenizer is used")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8001, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--served-model-name", nargs="+", default=[], metavar="NAME", help="names it answers to"
    )
    parser.add_argument("--max-model-len", help="tokens of prompt and answer together (default: the model's)")
    parser.add_argument(
        "--token-delay", type=float, default=0.0, metavar="SECONDS", help="time each token takes (default: 0)"
    )
    parser.add_argument(
        "--kv-connector", action="store_true", help="hand KV over and take it, as engines with a connector do"
    )
    parser.add_argument(
        "--take-grammars",
        action="store_true",
        help="take grammars, as engines with a tokenizer do; the script is not held to them",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Serve until a signal. Returns the exit status: 0, or 1 when the model cannot be loaded."""
    args = parser().parse_args(argv)
    config = ModelConfig(
        model=args.model, served_model_name=args.served_model_name, max_model_len=args.max_model_len
    )
    try:
        engine = ScriptedEngine(load_model(config), args.token_delay, args.kv_connector, args.take_grammars)
    except (OSError, ValueError) as error:
        print(f"renderd engine (scripted): {error}", file=sys.stderr)
        return 1
    uvicorn.run(create_app(engine), host=args.host, port=args.port, log_config=log_config())
    return 0


def log_config() -> dict[str, Any]:
    """Logging in which every line says what this server is."""
    handler = {"class": "logging.StreamHandler", "formatter": "scripted"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "scripted": {
                "format": "%(asctime)s %(levelname)s renderd engine (scripted, no model): %(message)s"
            }
        },
        "handlers": {"stderr": handler},
        "loggers": {
            name: {"handlers": ["stderr"], "level": "INFO", "propagate": False}
            for name in ("uvicorn", "renderd.engine")
        },
    }
