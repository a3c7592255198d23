"""Stoppers: when a trial, or the whole experiment, ends.

A stopper is called with each result, and says whether the trial ends; `stop_all` says whether the experiment does.
"""

from __future__ import annotations

import inspect
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..on_import import shadows
from .errors import TuneError
from .metrics import text_of
from .numbers import number, seconds, shown, whole
from .objective import LAST, Objective, number_of
from .trial import has_key, value_of
from .trial_results import result_for

__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
    "stopper_of",
]


# Of a value in a message.
VALUE_CHARACTERS_MAX = 100


class Stopper:
    """The base of the stoppers.

    A subclass may set `reason`, one sentence on why the last trial was stopped.

    Example:
        class Converged(tune.Stopper):
            def __call__(self, trial_id, result):
                return result["loss"] < 1e-3

        tune.RunConfig(stop=Converged())
    """

    reason: str = ""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial `trial_id` ends after the dict `result`; called with each result."""
        return False

    def stop_all(self) -> bool:
        """Whether the experiment ends; asked after each result.

        Trials that it ends are TERMINATED, and stay so when the experiment is restored: the end is the one that was
        asked for.  Those that a time budget or `fail_fast` has cut off go on then.
        """
        return False

    def on_trial_complete(self, trial_id: str, result: dict[str, Any]) -> None:
        """Forget the trial `trial_id`, which has ended with the last result `result`."""


class NoopStopper(Stopper):
    """A stopper that stops nothing."""


class ThresholdStopper(Stopper):
    """The end of a trial when one of several values is reached: `{"mean_accuracy": 0.9, "training_iteration": 100}`.

    A value is reached when the result is equal or larger.

    Raises:
        TuneError: a result does not have the key.
    """

    def __init__(self, thresholds: Mapping[str, Any]) -> None:
        self.thresholds = dict(thresholds)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        for key, threshold in self.thresholds.items():
            value = value_of(result, key)
            if value is None and not has_key(result, key):
                own = ", ".join(name for name in result if name != "config")
                raise TuneError(f"The stop criterion {key!r} is not in the result, which has: {own}.")
            number, limit = number_of(value), number_of(threshold)
            if number is None or limit is None:  # values of another kind, as texts
                is_reached, words = _is_at_least(key, value, threshold), f"{key} = {value} has reached {threshold}"
            else:
                is_reached, words = number >= limit, f"{key} = {number:.6g} has reached {limit:.6g}"
            if is_reached:
                self.reason = words
                return True
        return False


def _is_at_least(key: str, value: Any, threshold: Any) -> bool:
    try:
        return bool(value >= threshold)
    except Exception as error:
        text = text_of(value)
        text = text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}..."
        raise TypeError(
            f"the metric {key!r} is {text} ({type(value).__name__}), which has no order with the limit {threshold!r}"
        ) from error


class FunctionStopper(Stopper):
    """The end of a trial when a function says so.

    Args:
        function: a function of (trial_id, result) that returns whether the trial ends.

    Example:
        tune.RunConfig(stop=FunctionStopper(lambda trial_id, result: result["loss"] < 0.01))
    """

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        self.function = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.reason = f"{getattr(self.function, '__name__', 'the stop function')} returned True"
        return bool(self.function(trial_id, result_for(self.function, result)))


class MaximumIterationStopper(Stopper):
    """The end of a trial after a number of results.

    Args:
        max_iter: the number of results.
    """

    def __init__(self, max_iter: int) -> None:
        self.max_iter = whole("max_iter", max_iter, 1)
        self.counts: dict[str, int] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.counts[trial_id] = self.counts.get(trial_id, 0) + 1
        self.reason = f"it has {self.counts[trial_id]} results, the maximum"
        return self.counts[trial_id] >= self.max_iter

    def on_trial_complete(self, trial_id: str, result: dict[str, Any]) -> None:
        self.counts.pop(trial_id, None)


class TimeoutStopper(Stopper):
    """The end of the experiment after a time.

    Args:
        timeout: seconds, or a `datetime.timedelta`; counted from the first result.
    """

    def __init__(self, timeout: Any) -> None:
        self.timeout_s = seconds("timeout", timeout)
        self.began_at: float | None = None
        self.now: float = 0.0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        # The time of results: a replay of the journal decides as the first run did.
        self.now = float(result.get("timestamp") or time.time())
        if self.began_at is None:
            self.began_at = self.now - float(result.get("time_total_s") or 0.0)
        return False

    def stop_all(self) -> bool:
        return self.began_at is not None and self.now - self.began_at >= self.timeout_s


class TrialPlateauStopper(Stopper):
    """The end of a trial whose metric does not change any more, as `TrialPlateauStopper("loss", std=0.001)`.

    Args:
        metric: the result's key.
        std: the standard deviation of the last results below which the trial ends.
        num_results: number of results that are looked at.
        grace_period: number of results before the first look.
        metric_threshold: the value beyond which the metric has to be for a stop; None: any value.
        mode: the side of the threshold: "min": below, "max": above.

    Raises:
        ValueError: a threshold is given without a mode.
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError(f'With metric_threshold the mode is "min" or "max", not {mode!r}.')
        number("std", std)
        num_results, grace_period = whole("num_results", num_results, 1), whole("grace_period", grace_period)
        self.metric, self.std, self.num_results, self.grace_period = metric, std, num_results, grace_period
        self.metric_threshold, self.mode = metric_threshold, mode
        self.counts: dict[str, int] = {}
        self.windows: dict[str, deque[float]] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = number_of(value_of(result, self.metric))
        if value is None:
            return False
        self.counts[trial_id] = self.counts.get(trial_id, 0) + 1
        window = self.windows.setdefault(trial_id, deque(maxlen=self.num_results))
        window.append(value)
        if self.counts[trial_id] < self.grace_period or len(window) < self.num_results:
            return False
        if not all(map(math.isfinite, window)):  # NaN is no plateau
            return False
        if self.metric_threshold is not None:
            is_short = value > self.metric_threshold if self.mode == "min" else value < self.metric_threshold
            if is_short:
                return False
        deviation = statistics.pstdev(window)
        self.reason = f"the last {len(window)} values of {self.metric} deviate by {deviation:.3g}, at most {self.std:g}"
        return deviation < self.std

    def on_trial_complete(self, trial_id: str, result: dict[str, Any]) -> None:
        self.counts.pop(trial_id, None)
        self.windows.pop(trial_id, None)


class ExperimentPlateauStopper(Stopper):
    """The end of the experiment when its best values do not improve any more.

    Args:
        metric: the result's key.
        std: the standard deviation of the best values below which the experiment ends.
        top: number of best values that are looked at.
        mode: "min" or "max".
        patience: number of results in a row on the plateau before the end.

    Raises:
        ValueError: a number is out of its range, or the mode is another word.
    """

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f'The mode is "min" or "max", not {mode!r}.')
        if not _is_number(top, int) or top <= 1:
            raise ValueError(f"top is a whole number of at least 2, not {top!r}.")
        if not _is_number(std, (int, float)) or not std > 0:
            raise ValueError(f"std is a number larger than 0, not {std!r}.")
        if not _is_number(patience, int) or patience < 0:
            raise ValueError(f"patience is a whole number of at least 0, not {patience!r}.")
        self.metric, self.std, self.top, self.mode, self.patience = metric, std, top, mode, patience
        self.best: list[float] = []
        self.on_plateau = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        objective = Objective(self.metric, self.mode)
        score = objective.score(result)
        if score is not None:
            if score > LAST:
                best = [*self.best, objective.sign * score]
                self.best = objective.ranked(zip(best, best, strict=True))[: self.top]
            is_flat = len(self.best) == self.top and statistics.pstdev(self.best) <= self.std
            self.on_plateau = self.on_plateau + 1 if is_flat else 0
        self.reason = f"the best {self.top} values of {self.metric} are on a plateau"
        return self.stop_all()

    def stop_all(self) -> bool:
        return self.on_plateau > self.patience


class CombinedStopper(Stopper):
    """The end of a trial, or of the experiment, when one of several stoppers says so.

    Args:
        stoppers: the stoppers, as positional arguments; each of them sees each result.

    Example:
        stop = CombinedStopper(MaximumIterationStopper(100), TrialPlateauStopper("loss", std=0.001))
        tune.RunConfig(stop=stop)
    """

    def __init__(self, *stoppers: Stopper) -> None:
        self.stoppers = stoppers

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        # Each of them sees each result.
        stopping = [each for each in self.stoppers if each(trial_id, result_for(each, result))]
        self.reason = stopping[0].reason if stopping else ""
        return bool(stopping)

    def stop_all(self) -> bool:
        return any(stopper.stop_all() for stopper in self.stoppers)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any]) -> None:
        for stopper in self.stoppers:
            stopper.on_trial_complete(trial_id, result_for(stopper, result))


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def criterion(stopper: Stopper | None, trial_id: str, result: dict[str, Any]) -> tuple[str, str]:
    """Why a result ends its trial in order, and why the criterion fails at it; both empty: the trial goes on.

    Raises:
        TuneError: the criterion fits no result.
    """
    if result.get("done"):
        return "its result says that it is done", ""
    try:
        if stopper is not None and stopper(trial_id, result_for(stopper, result)):
            return stopper.reason or f"{type(stopper).__name__} has stopped it", ""
    except TuneError:
        raise
    except Exception as error:  # at this result alone, as at a text where others have numbers
        return "", f"The stop criterion fails at a result: {type(error).__name__}: {text_of(error)}"
    return "", ""


def stopper_of(stop: Any) -> Stopper | None:
    """The stopper that a `stop` argument stands for.

    Args:
        stop: None, a dict of thresholds, a function of (trial id, result), a stopper, or a list of these.

    Raises:
        TypeError: something else, or a threshold that is no number.
        TuneError: the function does not take a trial's id and a result.
    """
    if stop is None or (isinstance(stop, Mapping) and not stop):
        return None
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, Mapping):
        return ThresholdStopper(_thresholds(stop))
    if isinstance(stop, type):
        raise TypeError(f"stop is the class {stop.__name__}: make an instance, as {stop.__name__}(...).")
    if isinstance(stop, (list, tuple)):
        found = [stopper for stopper in map(stopper_of, stop) if stopper is not None]
        return CombinedStopper(*found)
    if callable(stop):
        _check_function(stop)
        return FunctionStopper(stop)
    raise TypeError(f"stop is a dict, a function of (trial_id, result) or a Stopper, not {type(stop).__name__}.")


def _thresholds(stop: Mapping[Any, Any], path: str = "") -> dict[str, Any]:
    """The thresholds by path: {"test": {"acc": 6}} is {"test/acc": 6}."""
    found: dict[str, Any] = {}
    for key, value in stop.items():
        if not isinstance(key, str):
            raise TypeError(f"The keys of stop are names of results, not {key!r}.")
        if isinstance(value, Mapping):
            found.update(_thresholds(value, f"{path}{key}/"))
            continue
        try:
            float(value if not isinstance(value, (str, bytes)) else None)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise TypeError(
                f"The stop criterion {path + key!r} is a number that the result has to reach, not {value!r}.  Pass a "
                "function of (trial_id, result) for anything else."
            ) from None
        except OverflowError:
            raise ValueError(
                f"The stop criterion {path + key!r} is {shown(value)}, which no result reaches: results hold floats."
            ) from None
        if value != value:
            raise ValueError(f"The stop criterion {path + key!r} is {value!r}, which no result reaches.")
        found[path + key] = value
    return found


def _check_function(stop: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(stop)
    except (TypeError, ValueError):  # built in
        return
    try:
        signature.bind("trial_id", {})
    except TypeError as error:
        name = getattr(stop, "__name__", type(stop).__name__)
        raise TuneError(f"The stop function {name}{signature} is called with (trial_id, result): {error}.") from error


shadows.name_absent(__name__)
