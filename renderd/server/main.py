"""`renderd serve`: bind, load, say what is served, serve until a signal."""

from __future__ import annotations

import logging
import logging.config
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace

import renderd
from renderd.server import flags
from renderd.server.app import create_app
from renderd.server.config import ServerConfig, StartupError
from renderd.server.listener import Server, bind
from renderd.server.logs import log_config
from renderd.server.metrics import Metrics
from renderd.server.services import Services
from renderd.server.startup import load

logger = logging.getLogger("renderd.server")


def serve(argv: Sequence[str]) -> int:
    """Run the server. Returns the exit status: 0 after a signal, 1 when it cannot start."""
    config, ignored = flags.parse(argv)
    logging.config.dictConfig(log_config(config))
    if ignored:
        logger.warning("vLLM flags without effect here: %s", " ".join(ignored))
    if not config.api_key and (key := os.environ.get("VLLM_API_KEY")):
        config = replace(config, api_key=[key])
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        _run(config)
    except StartupError as error:
        print(f"renderd serve: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _run(config: ServerConfig) -> None:
    listening = bind(config)
    metrics = Metrics()
    services, faster = load(config, metrics.on_anomaly)
    server = Server(config, create_app(config, services, metrics), listening)
    logger.info("%s", _served(services))
    try:
        faster.start()
        server.run()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # what is left to do must not be cut short
            signal.signal(number, signal.SIG_IGN)
        faster.stop()


def _served(services: Services) -> str:
    model = services.model
    return (
        f"renderd {renderd.__version__} serves {model.name} as {', '.join(model.served_names)}: "
        f"reasoning parser {services.reasoning_parser or 'none'}, "
        f"tool parser {services.tool_parser or 'none'}, "
        f"{services.writer}, "
        f"max_model_len {model.max_model_len}"
    )
