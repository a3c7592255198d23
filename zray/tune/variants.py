"""Variants: the concrete configurations that a search space stands for.

The cross product of the grids is in the order of Ray: the first key, by name, varies fastest.  Distributions are drawn
anew for each variant, from a generator of its own, so that a variant does not depend on those before it.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import shadows
from .spaces import Domain, Function, generator_of, grid_search

__all__ = ["RecursiveDependencyError", "generate_variants", "grid_count", "grid_search", "has_unresolved_values"]

Path = tuple[Any, ...]


class RecursiveDependencyError(Exception):
    """Parameters depend on one another in a circle."""


class _Unresolved(Exception):
    """A function asked for a parameter that has no value yet."""


class AttributeDict(dict[Any, Any]):
    """A dict whose keys are attributes too: `spec.config.lr`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The configuration has no {name!r}: it has {', '.join(map(str, self))}.") from None

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, Domain) or _is_grid(value):
            raise _Unresolved(key)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default


def _is_grid(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and "grid_search" in value


def _is_lambda(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and value.__name__ == "<lambda>"


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The grids and distributions of a nested configuration."""
    if _is_grid(value):
        if not isinstance(value["grid_search"], (list, tuple)) or not value["grid_search"]:
            raise ValueError(
                f"The grid of {_name(path)} is a list of at least one value, not {value['grid_search']!r}."
            )
        yield path, value
    elif isinstance(value, Domain):
        yield path, value
    elif _is_lambda(value):
        yield path, Function(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))


def _name(path: Path) -> str:
    return "/".join(map(str, path))


def _copied(value: Any) -> Any:
    """A copy of the nested dicts and lists; other values are shared."""
    if isinstance(value, Mapping) and not _is_grid(value):
        return AttributeDict((key, _copied(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        items = [_copied(item) for item in value]
        is_named = isinstance(value, tuple) and hasattr(value, "_fields")
        return type(value)(*items) if is_named else items if isinstance(value, list) else _Tuple(items)
    return Function(value) if _is_lambda(value) else value


class _Tuple(list[Any]):
    """A tuple while values are put in."""


def _plain(value: Any) -> Any:
    if isinstance(value, AttributeDict):
        return {key: _plain(item) for key, item in dict.items(value)}
    if isinstance(value, _Tuple):
        return tuple(_plain(item) for item in value)
    return [_plain(item) for item in value] if type(value) is list else value


def _assign(config: Any, path: Path, value: Any) -> None:
    for key in path[:-1]:
        config = dict.__getitem__(config, key) if isinstance(config, dict) else config[key]
    if isinstance(config, dict):
        dict.__setitem__(config, path[-1], value)
    else:
        config[path[-1]] = value


def has_unresolved_values(space: Any) -> bool:
    """Whether a configuration holds grids, distributions or lambdas."""
    return any(True for _ in _leaves(space))


def grid_count(space: Any) -> int:
    """The number of variants of one sample: the product of the sizes of the grids."""
    count = 1
    for _, leaf in _leaves(space):
        if _is_grid(leaf):
            count *= len(leaf["grid_search"])
    return count


def variant(space: Any, index: int, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that were chosen, by their path as text; and the configuration.

    Args:
        space: the nested configuration.
        index: the number of the variant in the cross product of the grids.
        rng: where distributions are drawn from.

    Raises:
        RecursiveDependencyError: functions depend on one another in a circle.
    """
    config = _copied(space)
    chosen: dict[str, Any] = {}
    leaves = sorted(_leaves(space), key=lambda item: tuple(map(str, item[0])))
    for path, leaf in leaves:
        if _is_grid(leaf):
            values = leaf["grid_search"]
            index, place = divmod(index, len(values))
            value = values[place]
            if has_unresolved_values(value):
                _, resolved = variant({"value": value}, 0, rng)
                value = resolved["value"]
            _assign(config, path, value)
            chosen[_name(path)] = value
    domains = [(path, leaf) for path, leaf in leaves if isinstance(leaf, Domain)]
    functions = [(path, leaf) for path, leaf in domains if isinstance(leaf, Function)]
    for path, leaf in domains:
        if not isinstance(leaf, Function):
            chosen[_name(path)] = value = leaf.draw(rng)
            _assign(config, path, value)
    spec = AttributeDict(config=config)
    while functions:
        waiting = []
        for path, leaf in functions:
            try:
                value = leaf.draw(rng, spec)
            except _Unresolved:
                waiting.append((path, leaf))
                continue
            _assign(config, path, value)
            chosen[_name(path)] = value
        if len(waiting) == len(functions):
            names = ", ".join(_name(path) for path, _ in waiting)
            raise RecursiveDependencyError(f"The parameters {names} depend on one another in a circle.")
        functions = waiting
    return chosen, _plain(config)


def generate_variants(
    space: Any, constant_grid_search: bool = False, random_state: int | np.random.Generator | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All variants of one sample, as (chosen values by path, configuration)."""
    del constant_grid_search  # distributions are drawn for each variant
    rng = generator_of(random_state)
    for index in range(grid_count(space)):
        yield variant(space, index, rng)


shadows.name_absent(__name__)
