"""Searchers: what is tried next."""

from __future__ import annotations

from typing import Any

from ..spaces import grid_search
from ..unknown import nearest, not_built, shown
from .ask_tell import AskTellSearch
from .basic_variant import BasicVariantGenerator
from .concurrency_limiter import ConcurrencyLimiter
from .repeater import Repeater
from .searcher import SearchAlgorithm, Searcher

__all__ = [
    "AskTellSearch",
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Repeater",
    "SearchAlgorithm",
    "Searcher",
    "create_searcher",
    "grid_search",
]


# Ray's names of searchers that are not names of their modules.
_MODULES_OF_RAY = {"blendsearch": "flaml", "cfo": "flaml"}


def as_searcher(searcher: Any) -> Searcher:
    """The searcher that a `search_alg` stands for.

    Args:
        searcher: a Searcher, a name, or an object with `ask` and `tell`.

    Raises:
        TypeError: something else.
    """
    if isinstance(searcher, Searcher):
        return searcher
    if isinstance(searcher, str):
        return create_searcher(searcher)
    is_class = isinstance(searcher, type)
    if not is_class and callable(getattr(searcher, "ask", None)) and callable(getattr(searcher, "tell", None)):
        return AskTellSearch(searcher)
    raise TypeError(f"search_alg is a Searcher, a name or an object with ask and tell, not {shown(searcher)}.")


def create_searcher(search_alg: str, **options: Any) -> Searcher:
    """A searcher by its name, with its options: `create_searcher("optuna", seed=1)`.

    Args:
        search_alg: "random", "optuna" or "hyperopt".
        options: arguments of the class.

    Raises:
        ValueError: no searcher has the name.
    """
    name = search_alg.lower()
    if name in ("variant_generator", "random"):
        return BasicVariantGenerator(**options)
    if name == "optuna":
        from .optuna import OptunaSearch

        return OptunaSearch(**options)
    if name == "hyperopt":
        from .hyperopt import HyperOptSearch

        return HyperOptSearch(**options)
    if message := not_built(f"{__name__}.{_MODULES_OF_RAY.get(name, name)}", "searcher", search_alg):
        raise ValueError(message)
    close = nearest(name, ("hyperopt", "optuna", "random"))
    raise ValueError(f'No searcher is called {search_alg!r}.{close}  The names are: "hyperopt", "optuna", "random".')


def __getattr__(name: str) -> Any:
    if name in ("OptunaSearch", "HyperOptSearch"):
        from importlib import import_module

        return getattr(import_module(f".{name.removesuffix('Search').lower()}", __name__), name)
    from ...ray_names import absent

    raise absent.attribute_error(__name__, name)
