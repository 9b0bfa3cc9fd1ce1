"""Flags of how the server serves: limits, engines, HTTP, TLS, logs. See `renderd.server.flags`."""

from __future__ import annotations

import argparse

from renderd.server import arguments

_Group = argparse._ArgumentGroup


def limit_flags(group: _Group) -> None:
    """What a worker takes on and remembers."""
    add = group.add_argument
    add(
        "--encode-cache-bytes",
        metavar="N",
        type=arguments.natural_int,
        help="texts of prompts and their token ids that a worker remembers (64M); 0: none",
    )
    add(
        "--max-body-bytes",
        metavar="N",
        type=arguments.positive_int,
        help="size of a request's body (64M); what is larger is refused with 413",
    )
    add(
        "--max-concurrent-requests",
        metavar="N",
        type=arguments.positive_int,
        help="requests that a worker has at one time (1024); what is over is refused with 503",
    )
    add(
        "--max-pending-bytes",
        metavar="N",
        type=arguments.positive_int,
        help="bytes of their bodies, and of answers that clients have still to take (512M); what is over is "
        "refused with 503",
    )
    add(
        "--max-queue-seconds",
        metavar="S",
        type=arguments.positive_seconds,
        help="how long a request waits for a process that does long work (30) before it is refused with 503",
    )
    add(
        "--max-client-seconds",
        metavar="S",
        type=arguments.positive_seconds,
        help="how long a client may take to send a request, and to take its answer (60)",
    )
    add(
        "--max-text-chars",
        metavar="N",
        type=arguments.positive_int,
        help="characters of a text to tokenize, and ids to detokenize; default: 16 for each token of "
        "--max-model-len, but at least 4M",
    )
    add(
        "--max-state-bytes",
        metavar="N",
        type=arguments.positive_int,
        help="size of the parser_state of a stream (4M)",
    )
    add(
        "--max-answer-bytes",
        metavar="N",
        type=arguments.positive_int,
        help="size of an answer that repeats parts of its request, for each prompt or choice (256M)",
    )
    add(
        "--max-template-seconds",
        metavar="S",
        type=arguments.positive_seconds,
        help="time of a processor that a template of a request may take (2)",
    )


def engine_flags(group: _Group) -> None:
    """The engines behind the server."""
    add = group.add_argument
    add(
        "--engine-url",
        metavar="URL",
        type=arguments.http_url,
        nargs="+",
        action="extend",
        help="tokens-only engines; with one, chats, completions and messages are answered whole",
    )
    add(
        "--prefill-url",
        metavar="URL",
        type=arguments.http_url,
        nargs="+",
        action="extend",
        help="engines that compute the prompts, whose KV those of --engine-url load",
    )
    add(
        "--engine-api-key",
        metavar="KEY",
        help="key that the engines want, those for prefill too; or else RENDERD_ENGINE_API_KEY",
    )
    add(
        "--engine-retries",
        metavar="N",
        type=arguments.natural_int,
        help="further engines that get a request which fails before its first token (2)",
    )
    add(
        "--engine-connect-seconds",
        metavar="S",
        type=arguments.positive_seconds,
        help="how long an engine may take to accept a connection (5)",
    )
    add(
        "--engine-first-token-seconds",
        metavar="S",
        type=arguments.positive_seconds,
        help="how long a stream's first token may take, and a prefill (600)",
    )
    add(
        "--engine-idle-seconds",
        metavar="S",
        type=arguments.positive_seconds,
        help="how long a stream may say nothing after that (120)",
    )
    add(
        "--kv-failure",
        choices=["fail", "recompute"],
        help="when the KV of a prefill cannot be loaded: an error (fail), or the prompt computed again",
    )


def http_flags(group: _Group) -> None:
    """Where and how the server listens."""
    add = group.add_argument
    add("--host", metavar="ADDRESS", help="address to listen on; default: all")
    add("--port", metavar="N", type=arguments.port, help="port to listen on (8000); 0 takes a free one")
    add("--uds", metavar="PATH", help="listen on a Unix socket instead")
    add(
        "--probe-port",
        metavar="N",
        type=arguments.port,
        help="port that probes and /metrics have to themselves, beside --port",
    )
    add(
        "--workers",
        "--api-server-count",
        "-asc",
        metavar="N",
        type=arguments.positive_int,
        help="processes that answer requests (1); they share the port and the loaded model",
    )
    add(
        "--drain-seconds",
        "--shutdown-timeout",
        metavar="S",
        type=arguments.seconds,
        help="how long requests may take to finish after SIGTERM or SIGINT (30)",
    )
    add("--root-path", metavar="PATH", help="prefix that a proxy in front adds to paths")
    add("--api-key", metavar="KEY", nargs="+", help="keys of which requests under /v1 must bring one")
    add("--api-key-file", metavar="FILE", help="further keys, one a line; read again when it changes")
    add(
        "--allowed-origins",
        metavar="JSON",
        type=arguments.json_strings,
        help="origins of browsers (CORS); default: none",
    )
    add(
        "--allowed-methods",
        metavar="JSON",
        type=arguments.json_strings,
        help="methods of browsers; default: all",
    )
    add(
        "--allowed-headers",
        metavar="JSON",
        type=arguments.json_strings,
        help="headers of browsers; default: all",
    )
    add("--allow-credentials", action=arguments.Switch, help="let browsers send credentials")
    add(
        "--middleware",
        metavar="IMPORT.PATH",
        action="append",
        help="ASGI middleware to put around the application",
    )
    add("--enable-request-id-headers", action=arguments.Switch, help="answer with the header X-Request-Id")
    add("--disable-fastapi-docs", action=arguments.Switch, help="no /openapi.json, /docs and /redoc")
    add(
        "--enable-tokenizer-info-endpoint",
        action=arguments.Switch,
        help="answer GET /tokenizer_info with the tokenizer's configuration",
    )


def tls_flags(group: _Group) -> None:
    """Certificates."""
    add = group.add_argument
    add("--ssl-keyfile", metavar="FILE", help="private key")
    add("--ssl-certfile", metavar="FILE", help="certificate chain")
    add("--ssl-ca-certs", metavar="FILE", help="authorities that sign clients' certificates")
    add(
        "--ssl-cert-reqs",
        metavar="N",
        type=int,
        choices=[0, 1, 2],
        help="client certificates: 0 none, 1 optional, 2 required",
    )
    add("--ssl-ciphers", metavar="LIST", help="ciphers in OpenSSL's notation")
    add(
        "--enable-ssl-refresh",
        action=arguments.Switch,
        help="load certificates again when their files change",
    )


def log_flags(group: _Group) -> None:
    """Logs and traces."""
    add = group.add_argument
    add(
        "--uvicorn-log-level",
        choices=["critical", "error", "warning", "info", "debug", "trace"],
        help="default: info",
    )
    add("--disable-uvicorn-access-log", action=arguments.Switch, help="no line a request")
    add(
        "--disable-access-log-for-endpoints",
        metavar="PATHS",
        type=arguments.comma_separated,
        help="no line for requests to these paths, such as /health,/metrics",
    )
    add("--log-format", choices=["human", "json"], help="a JSON object a line, or lines to read (human)")
    add(
        "--enable-log-requests",
        action=arguments.Switch,
        help="log what requests say and are answered; prompts and answers are in no line otherwise",
    )
    add(
        "--max-log-len",
        metavar="N",
        type=arguments.positive_int,
        help="characters of a body that --enable-log-requests logs; default: all",
    )
    add(
        "--otlp-traces-endpoint",
        metavar="URL",
        help="collector that gets a trace of each request (OTLP over HTTP), with `pip install renderd[otel]`",
    )
