"""Variants: the concrete configurations that a search space stands for.

The cross product of the grids is in the order of Ray: the first key, by name, varies fastest.  Distributions are drawn
anew for each variant, from a generator of its own, so that a variant does not depend on those before it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..on_import import shadows
from .evaluated import Evaluated, Unresolved, is_expression
from .spaces import Categorical, Domain, Function, generator_of, grid_search

__all__ = [
    "RecursiveDependencyError",
    "check_space",
    "generate_variants",
    "grid_count",
    "grid_search",
    "has_unresolved_values",
    "space_of",
    "variant",
    "with_distributions",
]

Path = tuple[Any, ...]


class RecursiveDependencyError(Exception):
    """Parameters depend on one another in a circle."""


class AttributeDict(dict[Any, Any]):
    """A dict whose keys are attributes too: `config.optimizer.lr`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The configuration has no {name!r}: it has {', '.join(map(str, self))}.") from None

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, AttributeDict):  # asked for what is inside
            return value
        return _seen(value, key)

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]


class _Items(Sequence[Any]):
    """A list of which not all values are known yet, for functions of the configuration.

    Items are read one by one; what needs the whole list waits.
    """

    def __init__(self, items: list[Any]) -> None:
        self._all = items

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, place: Any) -> Any:
        return _seen(self._all[place], place)

    def _wait(self, *_: Any) -> Any:
        raise Unresolved("a list")

    __add__ = __radd__ = __mul__ = __rmul__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _wait
    __repr__ = _wait
    __hash__ = None  # type: ignore[assignment]


def _seen(value: Any, key: Any) -> Any:
    """A value as functions of the configuration see it.

    Raises:
        Unresolved: the value is not known yet.
    """
    if isinstance(value, AttributeDict) or not any(True for _ in _leaves(value)):
        return AttributeDict(value) if type(value) is dict else value
    if isinstance(value, list):
        return _Items(value)
    raise Unresolved(key)


class Spec(AttributeDict):
    """The configuration for functions of `sample_from`: `spec["lr"]`, `spec.lr` and `spec.config.lr` are equal."""

    def __getitem__(self, key: Any) -> Any:
        if key in self:
            return super().__getitem__(key)
        if key == "config":
            return self
        inner = dict.get(self, "config")  # generate_variants({"config": space})
        return inner[key] if isinstance(inner, AttributeDict) else super().__getitem__(key)


# Most values of a space; what they are is asked for each trial, and abstract classes take their time.
_SCALARS = frozenset({bool, int, float, str, bytes, type(None)})


def _is_grid(value: Any) -> bool:
    return type(value) not in _SCALARS and isinstance(value, Mapping) and len(value) == 1 and "grid_search" in value


def _is_lambda(value: Any) -> bool:
    """Whether a value is `lambda spec: ...`, as programs of 2018 write functions of the configuration."""
    if not isinstance(value, types.FunctionType) or value.__name__ != "<lambda>":
        return False
    code = value.__code__
    is_plain = not code.co_kwonlyargcount and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return is_plain and code.co_argcount == 1 and code.co_varnames[0] == "spec"


def as_values(space: Any) -> Any:
    """Return a space whose lambdas are values, whatever the names of their parameters."""
    if isinstance(space, types.FunctionType) and _is_lambda(space):
        made = types.FunctionType(space.__code__, space.__globals__, "value", space.__defaults__, space.__closure__)
        made.__dict__.update(space.__dict__)
        return made
    if type(space) is dict:
        return {key: as_values(value) for key, value in space.items()}
    return [as_values(value) for value in space] if type(space) is list else space


def space_of(trainable: Any, space: Any) -> Any:
    """Return a space as a dict.  Functions of an algorithm's configuration are values, as of `policy_mapping_fn`.

    Args:
        trainable: a class or function.
        space: a dict, or the configuration of an algorithm, of which `sample_from` alone is a function of the others.
    """
    if hasattr(space, "to_dict"):
        return as_values(space.to_dict())
    names = getattr(trainable, "function_options", ())
    if not names or not isinstance(space, Mapping):
        return space
    return {key: as_values(value) if key in names else value for key, value in space.items()}


def _leaves(value: Any, path: Path = (), takes_lambdas: bool = True) -> Iterator[tuple[Path, Any]]:
    """The grids and distributions of a nested configuration.

    Args:
        takes_lambdas: whether a lambda is a function of the configuration.  Inside of a choice or a grid it is a value.
    """
    if type(value) in _SCALARS:
        return
    if _is_grid(value):
        if not isinstance(value["grid_search"], (list, tuple)) or not value["grid_search"]:
            raise ValueError(
                f"The grid of {_name(path)} is a list of at least one value, not {value['grid_search']!r}."
            )
        yield path, value
    elif isinstance(value, Domain):
        yield path, value
    elif is_expression(value):
        yield path, Function(Evaluated(value["eval"], _name(path)))
    elif takes_lambdas and _is_lambda(value):
        yield path, Function(value)
    elif isinstance(value, Mapping):
        for key, item in _pairs(value):
            yield from _leaves(item, (*path, key), takes_lambdas)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index), takes_lambdas)


def _pairs(value: Mapping[Any, Any]) -> Any:
    """Keys and values as they stand, also those that are not known yet."""
    return dict.items(value) if isinstance(value, dict) else value.items()


def _name(path: Path) -> str:
    return "/".join(map(str, path))


def _copied(value: Any) -> Any:
    """A copy of the nested dicts and lists, into which values can be put; other values are shared."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping) and not _is_grid(value) and not is_expression(value):
        return AttributeDict((key, _copied(item)) for key, item in _pairs(value))
    if isinstance(value, tuple):
        return _Tuple([_copied(item) for item in value], type(value))
    return [_copied(item) for item in value] if isinstance(value, list) else value


class _Tuple(list[Any]):
    """A tuple while values are put in.

    Args:
        kind: `tuple`, or the class of a named tuple.
    """

    def __init__(self, items: list[Any], kind: Any) -> None:
        super().__init__(items)
        self.kind = kind


def _plain(value: Any) -> Any:
    if isinstance(value, AttributeDict):
        return {key: _plain(item) for key, item in dict.items(value)}
    if isinstance(value, _Tuple):
        items = [_plain(item) for item in value]
        return value.kind(*items) if hasattr(value.kind, "_fields") else tuple(items)
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


def with_distributions(space: Any, path: Path = ()) -> Any:
    """Return a configuration with the distributions that its expressions are, for searchers that draw these.

    An expression that is a function of other parameters, or draws a value itself, stays.

    Raises:
        TuneError: an expression cannot be evaluated.
    """
    if is_expression(space):
        return Evaluated(space["eval"], _name(path)).distribution() or space
    if isinstance(space, Function) and isinstance(space.func, Evaluated):
        return space.func.distribution() or space
    if isinstance(space, Categorical):
        inner = with_distributions(space.categories, path)
        return space if inner is space.categories else Categorical(inner)
    if isinstance(space, Mapping):
        mapped = {key: with_distributions(item, (*path, key)) for key, item in space.items()}
        return space if all(mapped[key] is item for key, item in space.items()) else mapped
    if not isinstance(space, (list, tuple)):
        return space
    items = [with_distributions(item, (*path, index)) for index, item in enumerate(space)]
    if all(mapped is item for mapped, item in zip(items, space, strict=True)):
        return space
    return _plain(_Tuple(items, type(space))) if isinstance(space, tuple) else items


def grid_count(space: Any) -> int:
    """The number of variants of one sample: the product of the sizes of the grids."""
    count = 1
    for _, leaf in _leaves(space):
        if _is_grid(leaf):
            count *= sum(grid_count(value) for value in leaf["grid_search"])
    return count


def check_space(space: Any) -> None:
    """Raises:
    ValueError: a grid stands inside of a choice, so that the number of trials would depend on what is drawn.
    """
    for path, leaf in _leaves(space):
        for value in leaf["grid_search"] if _is_grid(leaf) else getattr(leaf, "categories", ()):
            if not _is_grid(leaf) and any(_is_grid(inner) for _, inner in _leaves(value, (), False)):
                raise ValueError(
                    f"{_name(path)} is a choice with a grid inside: the number of trials would depend on what is drawn."
                    "  Write tune.choice in place of tune.grid_search there."
                )
            check_space({_name(path): value})


def _of_grid(grid: Mapping[str, Any], place: int) -> Any:
    """The value at a place of a grid, whose values may hold grids themselves."""
    for value in grid["grid_search"]:
        count = grid_count(value)
        if place < count:
            return _without_grids(value, place)
        place -= count
    raise IndexError(place)


def _without_grids(value: Any, index: int) -> Any:
    leaves = sorted(_leaves(value, (), False), key=lambda item: tuple(map(str, item[0])))
    grids = [(path, leaf) for path, leaf in leaves if _is_grid(leaf)]
    if not grids:
        return value
    holder = AttributeDict(value=_copied(value))
    for path, leaf in grids:
        index, place = divmod(index, sum(grid_count(each) for each in leaf["grid_search"]))
        _assign(holder, ("value", *path), _of_grid(leaf, place))
    return _plain(dict.__getitem__(holder, "value"))


class _Draw:
    """A variant while values are drawn.

    Args:
        config: a copy of the space, into which values are put.
        rng: where distributions are drawn from.
    """

    def __init__(self, config: Any, rng: np.random.Generator) -> None:
        self.config, self.rng = config, rng
        self.functions: list[tuple[Path, Function]] = []

    def put(self, path: Path, value: Any) -> None:
        """Put a value in its place, and draw inner distributions: a choice of dicts has distributions inside."""
        inner = list(_leaves(value, (), False))
        _assign(self.config, path, _copied(value) if inner else value)
        for own, leaf in inner:
            self.draw((*path, *own), leaf)

    def draw(self, path: Path, leaf: Any) -> None:
        """Draw a distribution; functions wait until all distributions are drawn."""
        if _is_grid(leaf):
            raise ValueError(
                f"A grid at {_name(path)} comes out of a choice or a function, when the trials are counted already.  "
                "Write tune.choice."
            )
        if isinstance(leaf, Function):
            _assign(self.config, path, leaf)  # a bare lambda or an expression is seen as one
            self.functions.append((path, leaf))
        else:
            self.put(path, leaf.draw(self.rng))

    def call_functions(self) -> None:
        """Call the functions, each when all requested parameters are known.

        Raises:
            RecursiveDependencyError: functions depend on one another in a circle.
        """
        while self.functions:
            asked, self.functions = self.functions, []
            waiting = []
            for path, leaf in asked:
                try:
                    value = leaf.draw(self.rng, Spec(self.config))
                    if isinstance(value, _Items) or isinstance(value, AttributeDict) and has_unresolved_values(value):
                        raise Unresolved(path)
                except Unresolved:
                    waiting.append((path, leaf))
                    continue
                self.put(path, value)
            if len(waiting) == len(asked):
                names = ", ".join(_name(path) for path, _ in waiting)
                raise RecursiveDependencyError(f"The parameters {names} depend on one another in a circle.")
            self.functions += waiting


def variant(space: Any, index: int, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that were chosen, by their path as text; and the configuration.

    Args:
        space: the nested configuration.
        index: the number of the variant in the cross product of the grids.
        rng: where distributions are drawn from.

    Raises:
        RecursiveDependencyError: functions depend on one another in a circle.
    """
    draw = _Draw(_copied(space), rng)
    leaves = sorted(_leaves(space), key=lambda item: tuple(map(str, item[0])))
    for path, leaf in leaves:
        if _is_grid(leaf):
            index, place = divmod(index, sum(grid_count(each) for each in leaf["grid_search"]))
            draw.put(path, _of_grid(leaf, place))
    for path, leaf in leaves:
        if not _is_grid(leaf):
            draw.draw(path, leaf)
    draw.call_functions()
    config = _plain(draw.config)
    return {_name(path): _at(config, path) for path, _ in leaves}, config


def _at(config: Any, path: Path) -> Any:
    for key in path:
        config = config[key]
    return config


def generate_variants(
    space: Any, constant_grid_search: bool = False, random_state: int | np.random.Generator | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All variants of one sample, as (chosen values by path, configuration)."""
    del constant_grid_search  # distributions are drawn for each variant
    rng = generator_of(random_state)
    for index in range(grid_count(space)):
        yield variant(space, index, rng)


shadows.name_absent(__name__)
