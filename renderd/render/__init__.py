"""Request -> prompt text -> token ids and sampling parameters. Imports `model`, `wire` and `parsers`."""

from renderd.render.options import RenderOptions
from renderd.render.renderer import Renderer

__all__ = ["RenderOptions", "Renderer"]
