# The tag, not a digest: a digest has to be looked up where images are pulled, and replaced with every security fix of
# the base. To build on one: docker build --build-arg PYTHON=python@sha256:... (docker buildx imagetools inspect TAG).
# Everything that comes from PyPI is pinned with hashes in the two lock files (`make lock`).
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --no-deps --requirement requirements-build.lock
RUN python -m venv --without-pip /opt/renderd \
 && /opt/build/bin/pip --python /opt/renderd/bin/python install --no-cache-dir --no-compile \
      --require-hashes --no-deps --requirement requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY parsers parsers
COPY renderd renderd
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /opt/build/wheels . \
 && /opt/build/bin/pip --python /opt/renderd/bin/python install --no-cache-dir --no-compile --no-deps /opt/build/wheels/*.whl \
 && /opt/build/bin/pip --python /opt/renderd/bin/python check
# Byte code is written here: the file system may be read-only later. Not that of transformers, of which a tokenizer
# without a tokenizer.json needs a small part, once, at the start: it would be 45 MB, and saves 0.2 seconds.
RUN /opt/renderd/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash -x '/transformers/' /opt/renderd/lib
RUN mkdir /opt/models

FROM ${PYTHON}
COPY --from=build /opt/renderd /opt/renderd
# What the hub client downloads. Mount a volume here to keep it, or a directory of models and HF_HUB_OFFLINE=1.
COPY --from=build --chown=10001:10001 /opt/models /models
ENV PATH=/opt/renderd/bin:$PATH PYTHONUNBUFFERED=1 HOME=/tmp HF_HOME=/models
VOLUME /models
# A number, so that runAsNonRoot of Kubernetes can see that it is not root. No name is needed; any other number will do.
USER 10001:10001
WORKDIR /tmp
EXPOSE 8000 8081
# Ready, not alive: what waits for a healthy container wants its answers. A model may take minutes to download.
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s CMD ["python", "-c", "import http.client; c = http.client.HTTPConnection('127.0.0.1', 8081, timeout=4); c.request('GET', '/health/ready'); exit(c.getresponse().status != 200)"]
# Arguments are those of `renderd serve`; without a MODEL it serves the small model that the package carries.
ENTRYPOINT ["renderd", "serve", "--probe-port", "8081"]
