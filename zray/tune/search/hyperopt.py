"""HyperOpt's TPE as a searcher."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..evaluated import is_expression
from ..numbers import number, whole
from ..spaces import Categorical, Domain, Float, Integer
from ..unknown import checks_names
from ..variants import has_unresolved_values
from .former import flat_config
from .points import check_points
from .searcher import Searcher, learnt_values, settled_seed, space_for

__all__ = ["HyperOptSearch"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []


def _hyperopt() -> Any:
    try:
        import hyperopt
    except ImportError:
        raise ImportError(
            "HyperOptSearch needs hyperopt, which is not installed: `pip install hyperopt`, or use OptunaSearch, whose "
            "default sampler is TPE too."
        ) from None
    return hyperopt


def _converted(space: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """HyperOpt's space of a space of Tune."""
    hp = _hyperopt().hp
    found: dict[str, Any] = {}
    for key, value in space.items():
        name = f"{path}{key}"
        if is_expression(value):
            raise ValueError(
                f"Functions do not go with HyperOptSearch, and {name} is one: write a distribution, as "
                "tune.uniform(0, 1)."
            )
        if isinstance(value, Mapping) and set(value) == {"grid_search"}:
            raise ValueError(f"Grids do not go with HyperOptSearch, and {name} is one: use tune.choice.")
        if isinstance(value, Mapping):
            found[key] = _converted(value, f"{name}/")
        elif isinstance(value, Categorical):
            if has_unresolved_values(value.categories):
                raise ValueError(
                    f"The choice {name} holds distributions: pass a space of HyperOpt, or use OptunaSearch."
                )
            found[key] = hp.choice(name, value.categories)
        elif isinstance(value, Integer):
            is_plain = value.step == 1 and not value.is_log
            found[key] = (
                hp.randint(name, value.lower, value.upper)
                if is_plain
                else hp.qloguniform(name, math.log(value.lower), math.log(value.largest), value.step)
                if value.is_log
                else hp.quniform(name, value.lower, value.largest, value.step)
            )
        elif isinstance(value, Float):
            found[key] = _converted_float(hp, name, value)
        elif isinstance(value, Domain):
            raise ValueError(f"HyperOpt has no {value!r}, and {name} is one.")
        elif has_unresolved_values(value):
            raise ValueError(f"The list {name} holds distributions: pass a space of HyperOpt, or use OptunaSearch.")
        else:
            found[key] = value
    return found


def _converted_float(hp: Any, name: str, value: Float) -> Any:
    if value.normal is not None:
        return hp.normal(name, *value.normal) if value.step is None else hp.qnormal(name, *value.normal, value.step)
    low, high = (math.log(value.lower), math.log(value.upper)) if value.is_log else (value.lower, value.upper)
    if value.step is None:
        return hp.loguniform(name, low, high) if value.is_log else hp.uniform(name, low, high)
    return hp.qloguniform(name, low, high, value.step) if value.is_log else hp.quniform(name, low, high, value.step)


def _fitted(space: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with numbers of the types and bounds of Tune's space: HyperOpt draws integers as floats."""
    fitted = dict(config)
    for key, value in space.items():
        if isinstance(value, Mapping):
            fitted[key] = _fitted(value, config[key])
        elif isinstance(value, (Integer, Float)):
            fitted[key] = value.clip(config[key])
    return fitted


def _point(space: Mapping[str, Any], point: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A point in HyperOpt's form: by path, with the index in place of a value that is chosen.

    Missing parameters are drawn; constants are none of HyperOpt's parameters.
    """
    flat, found = flat_config(point), {}
    for name, domain in _domains(space):
        value = flat[name] if name in flat else domain.draw(rng)
        if isinstance(domain, Categorical) and value in domain.categories:
            value = domain.categories.index(value)
        found[name] = value
    return found


def _domains(space: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Domain]]:
    for key, value in space.items():
        if isinstance(value, Mapping):
            yield from _domains(value, f"{path}{key}/")
        elif isinstance(value, Domain):
            yield f"{path}{key}", value


@checks_names("HyperOptSearch")
class HyperOptSearch(Searcher):
    """A search by HyperOpt's tree of Parzen estimators.

    Args:
        space: a space of Tune or of HyperOpt; None: the experiment's search space.
        metric: the result's key that is optimised; None: that of TuneConfig.
        mode: "min" or "max"; None: that of TuneConfig.
        points_to_evaluate: configurations that come first; for a space of HyperOpt by label, choices by index.
        n_initial_points: random configurations before the estimator.
        random_state_seed: the seed; None: that of the experiment, or one from numpy's global state.
        gamma: the fraction of observations that count as good.
        reward_attr: the name of metric in 2018, with mode "max".
        max_concurrent: the number of trials at once; None: that of TuneConfig.
    """

    _has_taken = False  # whether the space is an experiment's

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        n_initial_points: int = 20,
        random_state_seed: int | None = None,
        gamma: float = 0.25,
        reward_attr: str | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        super().__init__(reward_attr or metric, "max" if reward_attr else mode)
        self._space, self._points = space, list(points_to_evaluate or ())
        self._n_initial_points = whole("n_initial_points", n_initial_points)
        self._gamma = number("gamma", gamma, most=1.0, is_above=True)
        self._seed = None if random_state_seed is None else whole("random_state_seed", random_state_seed)
        self._rng: np.random.Generator | None = None  # begins with the search
        self.max_concurrent = None if max_concurrent is None else whole("max_concurrent", max_concurrent)
        self._domain: Any = None
        self._is_own = False  # whether the space is one of Tune
        self._trials: Any = None
        self._ids: dict[str, int] = {}

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        self._metric, self._mode = self._metric or metric, self._mode or mode
        self._seed = settled_seed(self._seed, spec)
        space = space_for(self, self._space, config, self._has_taken)
        if isinstance(space, Mapping) and has_unresolved_values(space):
            check_points(self._points, space, "HyperOptSearch", keeps=False)
        takes = self._space is None and space is not None
        self._space, self._has_taken = space, self._has_taken or takes
        return takes

    def _start(self) -> None:
        hyperopt = _hyperopt()
        if not self._metric or self._mode not in ("min", "max"):
            raise ValueError('HyperOptSearch needs a metric and a mode, as metric="loss", mode="min".')
        if self._space is None:
            raise ValueError("HyperOptSearch needs a search space: pass param_space to Tuner, or space here.")
        self._is_own = isinstance(self._space, Mapping) and has_unresolved_values(self._space)
        space = _converted(self._space) if self._is_own else self._space
        self._domain = hyperopt.Domain(lambda config: config, space)
        self._trials = hyperopt.Trials()
        if self._points:
            # Not hyperopt.fmin, which is the function of this name.
            generate = importlib.import_module("hyperopt.fmin").generate_trials_to_calculate
            points = self._points
            if self._is_own:
                rng = np.random.default_rng([settled_seed(self._seed, {}), len(points)])
                points = [_point(self._space, point, rng) for point in points]
            self._trials = generate(points)
            self._trials.refresh()

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self._domain is None:
            self._start()
        hyperopt = _hyperopt()
        place = len(self._ids)
        if place < len(self._points):
            document = self._trials.trials[place]
        else:
            self._trials.refresh()
            (number,) = self._trials.new_trial_ids(1)
            if self._rng is None:
                self._rng = np.random.default_rng(settled_seed(self._seed, {}))
            seed = int(self._rng.integers(2**31))
            suggest = hyperopt.rand.suggest if place < self._n_initial_points else hyperopt.tpe.suggest
            options = {"gamma": self._gamma} if suggest is hyperopt.tpe.suggest else {}
            (document,) = suggest([number], self._domain, self._trials, seed, **options)
            self._trials.insert_trial_doc(document)
            self._trials.refresh()
        self._ids[trial_id] = document["tid"]
        config = hyperopt.base.spec_from_misc(document["misc"])
        control = hyperopt.base.Ctrl(self._trials, current_trial=document)
        memo = self._domain.memo_from_config(config)
        hyperopt.utils.use_obj_for_literal_in_memo(self._domain.expr, control, hyperopt.base.Ctrl, memo)
        found = hyperopt.pyll.rec_eval(self._domain.expr, memo=memo, print_node_on_error=False)
        return _fitted(self._space, found) if self._is_own else dict(found)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        number = self._ids.get(trial_id)
        if number is None:
            return
        hyperopt = _hyperopt()
        (document,) = (each for each in self._trials.trials if each["tid"] == number)
        values = learnt_values(result, self._metric)
        if error or values is None:
            document["state"] = hyperopt.JOB_STATE_ERROR
            document["result"] = {"status": hyperopt.STATUS_FAIL}
        else:
            (value,) = values
            document["state"] = hyperopt.JOB_STATE_DONE
            document["result"] = {"loss": -value if self._mode == "max" else value, "status": hyperopt.STATUS_OK}
        self._trials.refresh()
