"""A model's files -> tokenizer, chat template, generation defaults, limits. Imports only `wire` of
renderd."""

from renderd.model.config import ModelConfig
from renderd.model.model import Model, load_model
from renderd.model.tokenizer import Tokenizer

__all__ = ["Model", "ModelConfig", "Tokenizer", "load_model"]
