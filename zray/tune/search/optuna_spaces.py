"""Search spaces of Tune in Optuna's terms: distributions by the path of the parameter, and the values in their places.

A choice whose values hold further distributions is drawn by the place of the value, and then what that value holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..evaluated import is_expression
from ..spaces import Categorical, Domain, Float, Function, Integer, multiple
from ..variants import has_unresolved_values

__all__ = ["distributions_of", "flat_point", "holds_distributions", "is_same", "nested", "values_of"]


def _module() -> Any:
    import optuna

    return optuna.distributions


def _children(value: Any) -> list[tuple[Any, Any]] | None:
    """Key and item of each part of a dict, a list or a tuple; None: the value has no parts."""
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else None


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Domain, _module().BaseDistribution))


def _is_conditional(value: Any) -> bool:
    return isinstance(value, Categorical) and any(holds_distributions(each) for each in value.categories)


def holds_distributions(value: Any) -> bool:
    """Whether distributions of Tune or of Optuna, or grids, are in a nested value."""
    if _is_leaf(value) or has_unresolved_values(value):
        return True
    return any(holds_distributions(item) for _, item in _children(value) or ())


def distributions_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """Optuna's distributions of a search space, by the path of the parameter.

    What only some values of a choice hold is not among them: `values_of` asks for it.

    Raises:
        ValueError: a grid, a function, or a normal distribution, which Optuna does not have.
    """
    found = dict(_distributions(space, ()))
    _check_choices(space, ())
    return found


def _distributions(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    name = "/".join(path)
    if isinstance(value, Mapping) and "grid_search" in value and len(value) == 1:
        raise ValueError(f"Grids do not go with OptunaSearch, and {name} is one: use tune.choice.")
    if isinstance(value, Function) or is_expression(value):
        raise ValueError(
            f"Functions do not go with OptunaSearch, and {name} is one: write a distribution, as tune.uniform(0, 1), "
            "or pass a define-by-run function as space."
        )
    if _is_leaf(value):
        yield name, _distribution(name, value)
        return
    for key, item in _children(value) or ():
        yield from _distributions(item, (*path, str(key)))


def _check_choices(value: Any, path: tuple[str, ...]) -> None:
    """Refuse what Optuna does not have inside of choices, before the first trial."""
    if isinstance(value, Categorical):
        for index, category in enumerate(value.categories):
            here = (*path, str(index))
            list(_distributions(category, here))
            _check_choices(category, here)
        return
    for key, item in _children(value) or ():
        _check_choices(item, (*path, str(key)))


def _distribution(name: str, domain: Any) -> Any:
    distributions = _module()
    if isinstance(domain, distributions.BaseDistribution):
        return domain
    if isinstance(domain, Categorical):
        values = range(len(domain)) if _is_conditional(domain) else domain.categories
        return distributions.CategoricalDistribution(tuple(values))
    if isinstance(domain, Integer):
        # Optuna has no steps on a logarithmic scale: `values_of` rounds.
        if domain.is_log:
            return distributions.IntDistribution(domain.lower, domain.largest, log=True)
        first, last = domain.multiples
        return distributions.IntDistribution(first * domain.step, last * domain.step, step=domain.step)
    if isinstance(domain, Float) and domain.normal is None:
        if domain.step is None or domain.is_log:
            return distributions.FloatDistribution(domain.lower, domain.upper, log=domain.is_log)
        first, last = domain.multiples
        low, high = multiple(first, domain.step), multiple(last, domain.step)
        return distributions.FloatDistribution(low, high, step=domain.step)
    raise ValueError(f"Optuna has no normal distribution, and {name} is one: use tune.uniform with bounds.")


def values_of(space: Any, trial: Any, path: tuple[str, ...] = ()) -> Any:
    """Return the nested configuration with the values of a trial, which is asked for missing values.

    Args:
        space: the search space.
        trial: one of Optuna.
        path: of the space, in the space of the search.
    """
    name = "/".join(path)
    if _is_leaf(space):
        drawn = trial.params[name] if name in trial.params else _suggested(trial, name, _distribution(name, space))
        if _is_conditional(space):
            return values_of(space[drawn], trial, (*path, str(drawn)))
        return space.clip(drawn) if isinstance(space, (Float, Integer)) else drawn
    if not holds_distributions(space):
        return space
    if isinstance(space, Mapping):
        return {key: values_of(item, trial, (*path, str(key))) for key, item in space.items()}
    items = [values_of(item, trial, (*path, str(index))) for index, item in enumerate(space)]
    if isinstance(space, tuple):
        return type(space)(*items) if hasattr(space, "_fields") else tuple(items)
    return items


def _suggested(trial: Any, name: str, distribution: Any) -> Any:
    distributions = _module()
    if isinstance(distribution, distributions.CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    suggest = trial.suggest_int if isinstance(distribution, distributions.IntDistribution) else trial.suggest_float
    return suggest(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def flat_point(space: Any, point: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """A configuration by the paths of its parameters, as Optuna takes it for a trial to come.

    Args:
        space: the search space; None: one of a define-by-run function.
        point: the configuration, nested or by paths.
        path: of both, in the configuration.
    """
    name = "/".join(path)
    if _is_conditional(space):
        for index, category in enumerate(space.categories):
            if _is_of(category, point):
                return {name: index, **flat_point(category, point, (*path, str(index)))}
        raise ValueError(f"points_to_evaluate: {point!r} is none of the values of {name}.")
    if _is_leaf(space):
        return {name: point}
    children = _children(point) if isinstance(point, Mapping) or holds_distributions(space) else None
    if children is None:
        return {name: point} if space is None else {}
    flat: dict[str, Any] = {}
    for key, item in children:
        if isinstance(space, Mapping) and key not in space and "/" in str(key):
            flat[str(key)] = item  # a path already
            continue
        own = dict(_children(space) or ()).get(key)
        if own is None and space is not None and not isinstance(item, Mapping):
            continue
        flat.update(flat_point(own, item, (*path, str(key))))
    return flat


def _is_of(category: Any, value: Any) -> bool:
    """Whether a value may come out of a category that holds distributions."""
    if isinstance(category, Categorical):
        return any(_is_of(each, value) for each in category.categories)
    if isinstance(category, Domain):
        return category.is_valid(value)
    parts, own = _children(category), _children(value)
    if parts is None or own is None:
        return bool(parts is own and category == value)
    found = dict(own)
    return found.keys() == dict(parts).keys() and all(_is_of(item, found[key]) for key, item in parts)


def is_same(left: Any, right: Any) -> bool:
    """Whether two values of a parameter are one."""
    return left is right or (type(left) is type(right) and bool(left == right))


def nested(flat: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The configuration of parameters by their paths: "b/x" is x in the dict b.

    Raises:
        TypeError: a parameter is a value, and has others below it.
    """
    found: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split("/")
        spot = found
        for parent in parents:
            spot = spot.setdefault(parent, {})
            if not isinstance(spot, dict):
                raise TypeError(
                    f"{place}: {name!r} lies below {parent!r}, which is a value itself.  Rename one of them."
                )
        if isinstance(spot.get(last), dict):
            raise TypeError(f"{place}: {name!r} is a value, and other parameters lie below it.  Rename one of them.")
        spot[last] = value
    return found
