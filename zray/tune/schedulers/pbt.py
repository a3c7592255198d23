"""Population based training.

Jaderberg et al., "Population Based Training of Neural Networks", 2017 (arXiv 1711.09846), in its terms:

    step     a result of a trial
    eval     the metric of the result
    ready    perturbation_interval of time_attr has passed since the trial was ready the last time
    exploit  truncation selection: a trial of the bottom quantile takes weights and parameters of one of the top
    explore  each parameter is resampled with a probability, or perturbed: numbers by a factor, others to a neighbour

Two rules beyond the paper: a trial without a checkpoint is never copied, and a parameter that is given as a domain
stays within its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...on_import import shadows
from ..decisions import PAUSE, Decision
from ..numbers import number, whole
from ..objective import LAST, number_of
from ..spaces import Domain, Function
from ..trial import Trial, TrialState, value_of
from ..unknown import checks_names
from .spellings import OF_2018, with_reward_attr
from .trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["PopulationBasedTraining", "explore"]


def explore(
    config: dict[str, Any],
    mutations: Mapping[str, Any],
    resample_probability: float,
    factors: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[dict[str, Any], list[str]]:
    """A perturbed copy of a configuration, and one line for each parameter.

    mutations: for each parameter a list of values, a domain, a function without arguments, or a nested dict.
    """
    new, changes = dict(config), []
    for key, mutation in mutations.items():
        old = config.get(key)
        if isinstance(mutation, Mapping):
            new[key], nested = explore(dict(old or {}), mutation, resample_probability, factors, rng)
            changes += [f"{key}/{line}" for line in nested]
            continue
        is_resampled = rng.random() < resample_probability
        if isinstance(mutation, (list, tuple)):
            new[key] = _neighbour(list(mutation), old, is_resampled, rng)
        elif is_resampled or not isinstance(old, (int, float)) or isinstance(old, bool):
            new[key] = _drawn(mutation, rng)
        else:
            value = old * factors[0 if rng.random() < 0.5 else 1]
            new[key] = int(round(value)) if isinstance(old, int) else value
            if isinstance(mutation, Domain):
                new[key] = mutation.clip(new[key])
        changes.append(f"{key} {_shown(old)} -> {_shown(new[key])}" + " (resampled)" * is_resampled)
    return new, changes


def missing_values(
    config: Mapping[str, Any], mutations: Mapping[str, Any], rng: np.random.Generator, prefix: str = ""
) -> dict[str, Any]:
    """Return a value, by path, of each parameter named by mutations and missing in a configuration."""
    found: dict[str, Any] = {}
    for key, mutation in mutations.items():
        path, own = f"{prefix}{key}", config.get(key)
        if isinstance(mutation, Mapping):
            if key not in config or isinstance(own, Mapping):
                found.update(missing_values(own or {}, mutation, rng, f"{path}/"))
        elif key not in config:
            is_list = isinstance(mutation, (list, tuple))
            found[path] = _neighbour(list(mutation), None, True, rng) if is_list else _drawn(mutation, rng)
    return found


def _neighbour(values: list[Any], old: Any, is_resampled: bool, rng: np.random.Generator) -> Any:
    if is_resampled or old not in values:
        return values[int(rng.integers(len(values)))]
    place = values.index(old) + (-1 if rng.random() < 0.5 else 1)
    return values[min(max(place, 0), len(values) - 1)]


def _drawn(mutation: Any, rng: np.random.Generator) -> Any:
    if isinstance(mutation, Domain):
        return mutation.draw(rng)
    if isinstance(mutation, Function) or callable(mutation):
        return mutation()
    raise ValueError(f"A mutation is a list, a domain, a function or a dict, not {type(mutation).__name__}.")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@checks_names("PopulationBasedTraining", also=OF_2018)
class PopulationBasedTraining(TrialScheduler):
    """Population based training: the worst trials go on from checkpoints of the best, with perturbed parameters.

    With `num_samples=-1` the population has `max_concurrent_trials` trials, or as many as fit the resources.  A new
    trial takes the place of one that has ended.

    Args:
        time_attr: the result's key that measures progress, as "time_total_s" (seconds) or "training_iteration".
        metric: the result's key that is compared; None: that of TuneConfig.
        mode: "min" or "max"; None: that of TuneConfig.
        perturbation_interval: progress between two looks at a trial.
        burn_in_period: progress before the first look.
        hyperparam_mutations: for each parameter a list of values, a domain (`tune.uniform(...)`), a function without
            arguments, or a nested dict.
        quantile_fraction: the share of trials that are among the worst, and among the best; at most 0.5.
        resample_probability: the probability that a parameter is drawn anew, and not perturbed.
        perturbation_factors: the factors (up, down) of a perturbed number.
        custom_explore_fn: a function of the new configuration that returns a changed one.
        log_config: accepted for Ray's programs; decisions.jsonl has all changes.
        require_attrs: whether a result without metric or time_attr is an error.
        synch: whether trials wait for one another at each interval.
        seed: the seed of the perturbations.

    Raises:
        ValueError: nothing says how to perturb, or a number is out of its range.
        TypeError: a mutation is of another kind.

    Example:
        scheduler = PopulationBasedTraining(
            time_attr="training_iteration",
            perturbation_interval=5,
            hyperparam_mutations={"lr": tune.loguniform(1e-4, 1e-1)},
        )
        tune.TuneConfig(metric="loss", mode="min", num_samples=8, scheduler=scheduler)
    """

    needs_metric = True
    resumes_paused = False

    @with_reward_attr
    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Mapping[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, float] = (1.2, 0.8),
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        seed: int = 0,
    ) -> None:
        del log_config
        if not hyperparam_mutations and custom_explore_fn is None:
            raise ValueError(
                "PopulationBasedTraining needs hyperparam_mutations or custom_explore_fn: both are missing."
            )
        number("perturbation_interval", perturbation_interval, is_above=True)
        number("burn_in_period", burn_in_period)
        number("quantile_fraction", quantile_fraction, most=0.5)
        number("resample_probability", resample_probability, most=1.0)
        seed = whole("seed", seed)
        if not isinstance(perturbation_factors, (list, tuple)) or len(perturbation_factors) != 2:
            raise ValueError(f"perturbation_factors is a pair of numbers, not {perturbation_factors!r}.")
        for factor in perturbation_factors:
            number("Each of perturbation_factors", factor, is_above=True)
        for key, mutation in (hyperparam_mutations or {}).items():
            if not isinstance(mutation, (list, tuple, Mapping, Domain)) and not callable(mutation):
                raise TypeError(f"The mutation of {key!r} is a list, a domain, a function or a dict, not {mutation!r}.")
        self.time_attr, self.metric, self.mode = time_attr, metric, mode
        self.interval, self.burn_in, self.synch = perturbation_interval, burn_in_period, synch
        self.mutations = dict(hyperparam_mutations or {})
        self.quantile_fraction, self.resample_probability = quantile_fraction, resample_probability
        self.factors, self.custom_explore_fn = perturbation_factors, custom_explore_fn
        self.require_attrs, self.seed = require_attrs, seed
        self.scores: dict[str, float] = {}
        self.ready_at: dict[str, float] = {}  # trial -> time at its last look
        self.asked: dict[str, int] = {}  # trial -> iteration at which it was last asked for a checkpoint
        self.waiting: dict[str, str] = {}  # paused trial -> the trial whose checkpoint it goes on from
        self.num_checkpoints = self.num_perturbations = 0

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        self.ready_at[trial.trial_id] = 0.0

    def first_values(self, config: dict[str, Any], index: int) -> dict[str, Any]:
        """Draw the parameters that only the mutations name."""
        rng = np.random.default_rng([self.seed, index])
        return missing_values(config, self.mutations, rng)

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> Decision:
        if trial.iteration > self.asked.get(trial.trial_id, trial.iteration):
            self._release(controller, trial)  # its checkpoint was not made
        t, score = number_of(value_of(result, self.time_attr)), self.score(result)
        if score is None and value_of(result, self.metric or "") is not None:
            score = LAST  # a text, or another value that is no number, comes last as NaN does
        if t is None or score is None:
            if self.require_attrs:
                missing = self.time_attr if t is None else self.metric
                raise ValueError(f"Trial {trial} reported no {missing!r}, which PopulationBasedTraining needs.")
            return Decision()
        if t < self.burn_in or t - self.ready_at[trial.trial_id] < self.interval:
            return Decision()
        self.ready_at[trial.trial_id] = t
        self.scores[trial.trial_id] = score
        if self.synch:
            return Decision(PAUSE, f"it waits for the population at {self.time_attr} {t:g}")
        lower, upper = self.quantiles(controller)
        found = self._donor(controller, trial, upper) if trial in lower else None
        if found is not None and self._is_saving(controller, found[0]):
            self.waiting[trial.trial_id] = found[0].trial_id
            return Decision(PAUSE, f"it waits for the checkpoint of {found[0].trial_id}")
        if found is not None:
            self._exploit(controller, trial, *found)
        self.num_checkpoints += trial in upper
        if controller.settings.saves_when_paused and trial in upper:
            self.asked[trial.trial_id] = trial.iteration
        if self._others_wait(controller, trial):
            return Decision(PAUSE, f"at {self.time_attr} {t:g} it lets others take their turn")
        return Decision(save=trial in upper)

    def on_trial_saved(self, controller: Controller, trial: Trial) -> None:
        if not self._is_saving(controller, trial):
            self._release(controller, trial)

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        self._release(controller, trial)

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        self._release(controller, trial)

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        self._release(controller, trial)

    def _release(self, controller: Controller, donor: Trial) -> None:
        """Let trials that wait for a donor's checkpoint go on: from it, or from their own."""
        for trial_id in [trial_id for trial_id, awaited in self.waiting.items() if awaited == donor.trial_id]:
            del self.waiting[trial_id]
            trial = controller.trials[trial_id]
            if trial.is_over:
                continue
            if (
                donor.is_over
                or self._is_saving(controller, donor)
                or not self._exploit(controller, trial, donor, self._random(trial))
            ):
                controller.unpause(trial, f"{donor.trial_id} has no checkpoint to go on from")

    def _is_saving(self, controller: Controller, trial: Trial) -> bool:
        """Whether a checkpoint that the trial was asked for is still to come."""
        is_there = trial.state is TrialState.RUNNING or trial.trial_id in controller.halting
        saved = trial.saved.iteration if trial.saved is not None else 0
        return is_there and self.asked.get(trial.trial_id, 0) > saved

    def _others_wait(self, controller: Controller, trial: Trial) -> bool:
        """Whether others have no process, or have not begun: the population takes turns and advances together."""
        settings, live = controller.settings, controller.live_trials()
        known = len(controller.trials) if settings.num_samples >= 0 else len(live)
        to_come = 0 if controller.is_exhausted else max(0, self._population(controller) - known)
        if len(live) + to_come <= controller.places:
            return False
        return bool(to_come) or any(each is not trial and each.state is not TrialState.RUNNING for each in live)

    @staticmethod
    def _population(controller: Controller) -> int:
        """Return the size of the population: without an end of samples it is the bound on trials at once."""
        settings = controller.settings
        return settings.num_samples if settings.num_samples >= 0 else settings.max_concurrent or controller.places

    def takes_new(self, controller: Controller) -> bool:
        """Whether the population has room: without an end of samples, a trial that has ended makes room for another."""
        return controller.settings.num_samples >= 0 or len(controller.live_trials()) < self._population(controller)

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """Return a new trial, then the least advanced trial."""
        if self.synch:
            return super().choose_trial_to_run(controller)
        if not controller.has_no_new and self.takes_new(controller):
            return None
        candidates = [
            each for each in (*controller.pending(), *controller.resumable()) if each.trial_id not in self.waiting
        ]
        return min(candidates, key=lambda trial: (self.ready_at[trial.trial_id], trial.index), default=None)

    def quantiles(self, controller: Controller) -> tuple[list[Trial], list[Trial]]:
        """Return the trials at the bottom and at the top, among living trials with a score."""
        ranked = sorted(
            (trial for trial in controller.get_trials() if not trial.is_over and trial.trial_id in self.scores),
            key=lambda trial: (self.scores[trial.trial_id], -trial.index),  # of equal ones the earlier is better
        )
        if len(ranked) < 2:
            return [], []
        count = min(int(np.ceil(len(ranked) * self.quantile_fraction)), len(ranked) // 2)
        return ranked[:count], ranked[len(ranked) - count :]

    def _random(self, trial: Trial) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.num_perturbations, trial.index])

    def _donor(
        self, controller: Controller, trial: Trial, upper: list[Trial]
    ) -> tuple[Trial, np.random.Generator] | None:
        """A trial at the top that a trial goes on from, and the generator for its new configuration."""
        donors = [
            each
            for each in upper
            if each is not trial
            and (each.has_checkpoint() or self._is_saving(controller, each))
            and self.scores[each.trial_id] > LAST
        ]
        rng = self._random(trial)
        return (donors[int(rng.integers(len(donors)))], rng) if donors else None

    def _exploit(self, controller: Controller, trial: Trial, donor: Trial, rng: np.random.Generator) -> bool:
        """Let a trial go on from a donor's checkpoint, unless the trial itself is better than that."""
        score = self.score(donor.saved.metrics) if donor.saved is not None and donor.saved.metrics else None
        score = self.scores[donor.trial_id] if score is None else score  # of what is in the checkpoint
        if score < self.scores[trial.trial_id]:
            return False
        config, changes = explore(donor.config, self.mutations, self.resample_probability, self.factors, rng)
        if self.custom_explore_fn is not None:
            config = self.custom_explore_fn(config)
            if not isinstance(config, dict):
                raise TypeError(f"custom_explore_fn returns a configuration, not {type(config).__name__}.")
        reason = (
            f"{self.value_in_words(self.scores[trial.trial_id], trial.last_result)} is at the bottom: goes on from "
            f"{donor.trial_id} with {self.shown(score)}; {', '.join(changes)}"
        )
        is_done = controller.exploit(trial, donor, config, reason)
        self.num_perturbations += is_done
        return is_done

    def on_idle(self, controller: Controller) -> None:
        """All live trials wait: with synch, this is the moment of the exchange."""
        self.waiting.clear()
        lower, upper = self.quantiles(controller)
        for trial in sorted(lower, key=lambda each: each.index):
            if (found := self._donor(controller, trial, upper)) is not None:
                self._exploit(controller, trial, *found)
        for trial in controller.get_trials():
            controller.unpause(trial, "all trials have reached the exchange")

    def debug_string(self) -> str:
        counts = f"{self.num_checkpoints} checkpoints, {self.num_perturbations} perturbations"
        return f"Using PopulationBasedTraining: {counts}."


shadows.name_absent(__name__)
