"""Token ids of a tokens-only engine -> OpenAI answers, finished or streamed (contract E)."""

from renderd.derender.derenderer import Derenderer
from renderd.derender.setup import DerenderOptions

__all__ = ["DerenderOptions", "Derenderer"]
