"""Optuna's samplers as a searcher.

Everything that decides is Optuna's own: with the same seed and one trial at a time the parameters are, trial by trial,
those of `study.ask` and `study.tell` in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..numbers import whole
from ..unknown import checks_names
from .former import flat_config, former_trials
from .optuna_spaces import distributions_of, flat_point, is_same, nested, values_of
from .points import check_points
from .searcher import Searcher, learnt_values, metrics_of, settled_seed, space_for

__all__ = ["OptunaSearch", "distributions_of"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError("OptunaSearch needs optuna: install zray[tune], or `pip install optuna cmaes`.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _steps(results: list[dict[str, Any]], metric: str) -> dict[int, float]:
    """The values of a metric, by the training iteration."""
    found = {}
    for result in results:
        values, step = learnt_values(result, metric), result.get("training_iteration")
        if values is not None and isinstance(step, int):
            (found[step],) = values
    return found


@checks_names("OptunaSearch")
class OptunaSearch(Searcher):
    """A search by one of Optuna's samplers, TPE if none is given.

    Args:
        space: a nested dict of Tune's domains or of Optuna's distributions; or a define-by-run function of an
            `optuna.Trial`, in which "net/width" is `{"net": {"width": ...}}`, and which may return a dict of constants;
            None: the experiment's search space.
        metric: the result's key that is optimised, or a list for several objectives; None: that of TuneConfig.
        mode: "min" or "max", or a list; None: that of TuneConfig.
        points_to_evaluate: configurations that come first.
        sampler: an object of `optuna.samplers`; None: TPE.
        seed: the seed of the default sampler; None: that of the experiment, or one from numpy's global state.
        evaluated_rewards: the metric of each of points_to_evaluate, which are then not run.
        points_from: the folder of an earlier experiment, whose results the search starts with.
        storage: a storage of Optuna, or the path of a journal file, which Optuna's dashboard opens.
        study_name: the study's name in the storage; None: "optuna".

    Raises:
        ImportError: optuna is missing.
        ValueError: a seed stands beside a sampler, or metric, mode or space is missing when the search begins.

    Example:
        search = OptunaSearch(points_to_evaluate=[{"lr": 1e-3}], seed=1)
        tune.TuneConfig(metric="loss", mode="min", num_samples=30, search_alg=search)
    """

    _has_taken = False  # whether the space is an experiment's

    def __init__(
        self,
        space: Any = None,
        metric: Any = None,
        mode: Any = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        sampler: Any = None,
        study_name: str | None = None,
        storage: Any = None,
        seed: int | None = None,
        evaluated_rewards: list[float] | None = None,
        points_from: str | None = None,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        if seed is not None and sampler is not None:
            raise ValueError("The seed is that of the default sampler: give the seed to the sampler that you pass.")
        seed = None if seed is None else whole("seed", seed)
        self._space = space
        self._points = list(points_to_evaluate or ())
        self._rewards = list(evaluated_rewards or ())
        self._sampler, self._seed = sampler, seed
        self._storage, self._study_name = storage, study_name or "optuna"
        # Read now: the folder may be gone when the experiment is resumed.
        self._former = former_trials(points_from) if points_from is not None else []
        self._study: Any = None
        self._distributions: dict[str, Any] | None = None
        self._trials: dict[str, Any] = {}
        self._told: set[str] = set()

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        if (self._metric and metric and self._metric != metric) or (self._mode and mode and self._mode != mode):
            raise ValueError(
                f"OptunaSearch and TuneConfig name different metrics or modes: {self._metric!r} ({self._mode}) and "
                f"{metric!r} ({mode}).  Name them in one place."
            )
        self._metric, self._mode = self._metric or metric, self._mode or mode
        if self._sampler is None:
            self._seed = settled_seed(self._seed, spec)
        space = space_for(self, self._space, config, self._has_taken)
        if isinstance(space, Mapping):
            check_points(self._points, space, "OptunaSearch", keeps=False)
        takes = self._space is None and space is not None
        self._space, self._has_taken = space, self._has_taken or takes
        return takes

    # --- the study ---

    @property
    def study(self) -> Any:
        """Optuna's study."""
        if self._study is None:
            self._start()
        return self._study

    def _start(self) -> None:
        optuna = _optuna()
        if not self._metric or not self._mode:
            raise ValueError('OptunaSearch needs a metric and a mode, as metric="loss", mode="min".')
        if self._space is None:
            raise ValueError("OptunaSearch needs a search space: pass param_space to Tuner, or space here.")
        if not callable(self._space):
            self._distributions = distributions_of(self._space)
        modes = self._mode if isinstance(self._mode, (list, tuple)) else [self._mode]
        metrics = metrics_of(self._metric)
        if len(modes) == 1 and len(metrics) > 1:
            modes = list(modes) * len(metrics)
        sampler = self._sampler
        if sampler is None:
            made = optuna.samplers.TPESampler if len(metrics) == 1 else optuna.samplers.NSGAIISampler
            sampler = made(seed=settled_seed(self._seed, {}))
        self._study = optuna.create_study(
            storage=self._made_storage(optuna),
            sampler=sampler,
            pruner=optuna.pruners.NopPruner(),
            study_name=self._study_name,
            directions=["minimize" if mode == "min" else "maximize" for mode in modes],
            load_if_exists=True,
        )
        self._add_former(optuna, metrics)
        for place, point in enumerate(self._points):
            if place < len(self._rewards):
                self._add(optuna, point, self._rewards[place])
            else:
                self._study.enqueue_trial(self._within(self._flat(point)))

    def _flat(self, point: dict[str, Any]) -> dict[str, Any]:
        return flat_point(None if self._distributions is None else self._space, point)

    def _within(self, flat: dict[str, Any]) -> dict[str, Any]:
        """The values of a point, numbers moved to the nearest ones of the space, of which `check_points` has warned."""
        moved = dict(flat)
        for name, value in flat.items():
            low, high = (getattr((self._distributions or {}).get(name), end, None) for end in ("low", "high"))
            if low is not None and high is not None and isinstance(value, (int, float)):
                moved[name] = min(max(value, low), high)
        return moved

    def _add_former(self, optuna: Any, metrics: list[str]) -> None:
        """Add all trials of an earlier experiment with parameters in the space."""
        count = 0
        for former in self._former:
            values = learnt_values(former.results[-1], metrics)
            if values is None:
                continue
            flat = flat_config(former.config)
            try:
                if self._distributions is None:
                    fixed = optuna.trial.FixedTrial(flat)
                    self._space(fixed)
                    distributions = fixed.distributions
                else:
                    distributions = self._distributions
                made = optuna.trial.create_trial(
                    params={name: flat[name] for name in distributions},
                    distributions=distributions,
                    values=values,
                    intermediate_values=_steps(former.results, metrics[0]) if len(metrics) == 1 else None,
                )
            except (KeyError, ValueError):  # another space
                continue
            self._study.add_trial(made)
            count += 1
        if self._former and not count:
            raise ValueError(
                f"None of the {len(self._former)} trials of points_from has parameters in this search space and a "
                f"number for {' and '.join(map(repr, metrics))}."
            )

    def _made_storage(self, optuna: Any) -> Any:
        if isinstance(self._storage, str) and "://" not in self._storage:
            journal = optuna.storages.journal
            return optuna.storages.JournalStorage(journal.JournalFileBackend(self._storage))
        return self._storage

    def _add(self, optuna: Any, point: dict[str, Any], reward: Any) -> None:
        if self._distributions is None:
            raise ValueError("evaluated_rewards need a space of distributions, not a define-by-run function.")
        values = list(reward) if isinstance(reward, (list, tuple)) else [reward]
        self._study.add_trial(
            optuna.trial.create_trial(params=self._flat(point), distributions=self._distributions, values=values)
        )

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> bool:
        """Add a result that is known from elsewhere.

        Returns:
            False: the trial has failed or was pruned, and teaches nothing.
        """
        del intermediate_values
        if error or pruned:
            return False
        _ = self.study  # the distributions are known when the study begins
        self._add(_optuna(), parameters, value)
        return True

    # --- ask and tell ---

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        study = self.study
        if trial_id not in self._trials:
            if self._distributions is not None:
                self._trials[trial_id] = study.ask(fixed_distributions=self._distributions)
            else:
                self._trials[trial_id] = study.ask()
        trial = self._trials[trial_id]
        if self._distributions is not None:
            config: dict[str, Any] = values_of(self._space, trial)
            self.chosen = dict(trial.params)
            return config
        define: Callable[[Any], Any] = self._space
        constants = define(trial)
        place = f"The function {getattr(define, '__name__', 'of the space')}"
        if constants is not None and not isinstance(constants, Mapping):
            raise TypeError(
                f"{place} returns {type(constants).__name__}: return a dict of constants, or nothing.  Suggested "
                "values are in the configuration by themselves."
            )
        for name, value in (constants or {}).items():
            if name in trial.params and not is_same(value, trial.params[name]):
                raise TypeError(
                    f"{place} returns {value!r:.60} for {name!r}, which Optuna has suggested as "
                    f"{trial.params[name]!r:.60}: the search would learn from another value.  Return constants alone."
                )
        self.chosen = {**trial.params, **(constants or {})}
        return nested(self.chosen, place)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if isinstance(self._metric, str) and trial_id in self._trials and trial_id not in self._told:
            values = learnt_values(result, self._metric)
            step = result.get("training_iteration")
            if values is not None and step is not None:
                self._trials[trial_id].report(values[0], int(step))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        trial = self._trials.get(trial_id)
        if trial is None or trial_id in self._told:
            return
        self._told.add(trial_id)
        optuna = _optuna()
        values = learnt_values(result, self._metric)
        if error or values is None:
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(trial, values)

    def on_trial_restored(self, trial_id: str, config: dict[str, Any]) -> None:
        """Accepted for Ray's programs: a replay of the journal asks for the same trials again."""
