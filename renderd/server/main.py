"""`renderd serve`: bind, answer probes, load, fork workers, serve until a signal."""

from __future__ import annotations

import logging
import logging.config
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import renderd
from renderd.server import flags
from renderd.server.admission import Admission
from renderd.server.app import create_app
from renderd.server.config import ServerConfig, StartupError
from renderd.server.listener import address, api_settings, bind, bind_probes, probe_settings
from renderd.server.logs import log_config
from renderd.server.long_work import LongWork
from renderd.server.metrics import Metrics
from renderd.server.probes import ProbeApp, State
from renderd.server.routes import handlers
from renderd.server.services import Services
from renderd.server.startup import load, rehearse, settle
from renderd.server.supervisor import Supervisor
from renderd.server.traces import traces_of
from renderd.server.worker import Server, Worker, places

if TYPE_CHECKING:
    from renderd.gateway.route import EngineRoute

logger = logging.getLogger("renderd.server")

P = ParamSpec("P")
T = TypeVar("T")


def serve(argv: Sequence[str]) -> int:
    """Run the server. Returns the exit status: 0 after a signal, 1 when it cannot start."""
    _open_streams()
    config, ignored = flags.parse(argv)
    logging.config.dictConfig(log_config(config))
    if ignored:
        logger.warning("vLLM flags without effect here: %s", " ".join(ignored))
    if not config.api_key and (key := os.environ.get("VLLM_API_KEY")):
        config = replace(config, api_key=[key])
    if config.engine_api_key is None and (key := os.environ.get("RENDERD_ENGINE_API_KEY", "").strip()):
        config = replace(config, engine_api_key=key)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads would not survive a fork
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: sys.exit(0))
    try:
        _run(config)
    except StartupError as error:
        print(f"renderd serve: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def _open_streams() -> None:
    """What writes to a closed standard stream would else write to whatever is opened next."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(nothing, number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))
    if nothing > 2:
        os.close(nothing)


def _run(config: ServerConfig) -> None:
    listening, for_probes = bind(config), bind_probes(config)
    state = State(places(config))
    metrics = Metrics(places(config), state.pids, lambda: state.not_ready() is None)
    route = _engine_route(config, metrics)
    early = Server(
        api_settings(config, ProbeApp(state, root_path=config.root_path), [("connection", "close")]),
        listening,
        state,
    )
    supervisor = Supervisor(state, metrics, config.workers, config.drain_seconds)
    try:
        if for_probes is not None:
            probes = Server(probe_settings(ProbeApp(state, metrics)), for_probes, state)
            supervisor.start_probes(_without(listening, probes.work))
            logger.info("probes and metrics on %s", address(for_probes))
        supervisor.start_early(_quiet(early.work))
        services, faster = load(config)
        services = replace(services, not_ready=state.not_ready)
        admission = Admission(config)
        long_work = LongWork(config, handlers(services))
        metrics.follow_admission(lambda: admission.in_flight, lambda: long_work.queued)
        metrics.follow_encoder(faster.encoder, lambda: faster.taken)
        traces = traces_of(config, services.model.served_names[0])
        app = create_app(config, services, metrics, admission, long_work, traces, route)
        settings = api_settings(config, app)
        worker = Worker(
            settings,
            listening,
            state,
            config,
            admission,
            long_work,
            metrics,
            partial(rehearse, services, faster.encoder),
            faster.take,
            traces,
            route,
        )
        logger.info("%s", _served(services))
        settle()
        supervisor.run(
            worker.work,
            _without(listening, faster.prove) if faster.found else None,
            faster.take,
            address(listening, settings.is_ssl),
            listening.close,
        )
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # what is left to do must not be cut short
            signal.signal(number, signal.SIG_IGN)
        supervisor.close()


def _engine_route(config: ServerConfig, metrics: Metrics) -> EngineRoute | None:
    if not config.engine_url:
        return None
    from renderd.server.engine_metrics import engine_route  # nobody else should wait for what it imports

    return engine_route(config, metrics.registry)


def _without(listening: socket.socket, work: Callable[P, T]) -> Callable[P, T]:
    """`work`, done by a process that does not hold this socket: it neither serves it nor keeps it open."""

    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        listening.close()
        return work(*args, **kwargs)

    return alone


def _quiet(work: Callable[P, T]) -> Callable[P, T]:
    """`work`, done by a process that does not log that its HTTP server begins and ends: another goes on."""

    def quiet(*args: P.args, **kwargs: P.kwargs) -> T:
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        return work(*args, **kwargs)

    return quiet


def _served(services: Services) -> str:
    model = services.model
    return (
        f"renderd {renderd.__version__} serves {model.name} as {', '.join(model.served_names)}: "
        f"reasoning parser {services.reasoning_parser or 'none'}, "
        f"tool parser {services.tool_parser or 'none'}, "
        f"{services.writer}, "
        f"max_model_len {model.max_model_len}"
    )
