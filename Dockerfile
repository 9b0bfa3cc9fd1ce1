FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/renderd
COPY pyproject.toml README.md LICENSE ./
COPY parsers parsers
COPY renderd renderd
RUN /opt/renderd/bin/pip install --no-cache-dir .

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 renderd
COPY --from=build /opt/renderd /opt/renderd
ENV PATH=/opt/renderd/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/renderd
EXPOSE 8000
# Arguments are those of `renderd serve`; without a MODEL it serves the small model that the package carries.
ENTRYPOINT ["renderd", "serve"]
