"""renderd: OpenAI request -> token ids (`render`), token ids -> OpenAI answer (`derender`)."""

__version__ = "0.1.0"
