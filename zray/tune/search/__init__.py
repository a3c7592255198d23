"""Searchers."""

from ..spaces import grid_search
from .basic_variant import BasicVariantGenerator
from .searcher import Searcher

__all__ = ["BasicVariantGenerator", "Searcher", "as_searcher", "grid_search"]


def as_searcher(searcher: object) -> Searcher:
    """The searcher that a `search_alg` stands for."""
    if isinstance(searcher, Searcher):
        return searcher
    raise TypeError(f"A searcher is a Searcher, not {type(searcher).__name__}.")
