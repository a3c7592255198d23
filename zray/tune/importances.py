"""The importances of parameters, as Optuna computes them from the recorded trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .numbers import is_beyond_float, shown

__all__ = ["importances"]

# Below this, any answer is noise.
TRIALS_MIN = 4
# The time of the forest that Optuna grows is more than linear: 3 s for so many.  More trials change little.
TRIALS_MAX = 300
# Squares of larger scores are no floats; the shares are those of scores in any unit.
SQUARED_MAX = 1e150


def importances(parameters: dict[str, list[Any]], scores: Sequence[float | None], mode: str | None) -> dict[str, float]:
    """The share of each parameter in the differences of the scores, the largest first.

    Args:
        parameters: the values of each parameter, in the order of the trials.
        scores: the best value of each trial; None, inf or nan: it has none.  Of more than TRIALS_MAX, some are used,
            evenly spread.
        mode: "min" or "max".

    Raises:
        ValueError: nothing can be said, and why.
        ImportError: Optuna is not installed.
    """
    kept = [place for place, score in enumerate(scores) if score is not None and math.isfinite(score)]
    if len(kept) < TRIALS_MIN:
        raise ValueError(f"{len(kept)} trials have a score, and importances need {TRIALS_MIN}.")
    if len(kept) > TRIALS_MAX:
        kept = [kept[place * len(kept) // TRIALS_MAX] for place in range(TRIALS_MAX)]
    if len({scores[place] for place in kept}) < 2:
        raise ValueError("All trials have the same score.")
    try:
        import optuna
    except ImportError:
        raise ImportError("Importances need Optuna: install zray[tune], or `pip install optuna`.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    columns: dict[str, list[Any]] = {}
    distributions: dict[str, Any] = {}
    for name, values in parameters.items():
        own = [values[place] for place in kept]
        pair = _distribution(optuna, own)
        if pair is not None:
            distributions[name], columns[name] = pair
    if not distributions:
        raise ValueError("No parameter differs between the trials.")
    study = optuna.create_study(direction="maximize" if mode == "max" else "minimize")
    numbers = [float(score) for place in kept if (score := scores[place]) is not None]
    largest = max(map(abs, numbers))
    for row, number in enumerate(numbers):
        params = {name: values[row] for name, values in columns.items()}
        value = number / largest if largest > SQUARED_MAX else number
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=value))
    try:
        found = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.FanovaImportanceEvaluator(seed=0)
        )
    except ImportError:  # fANOVA needs scikit-learn
        found = optuna.importance.get_param_importances(study, evaluator=_ped_anova(optuna))
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    return {str(name): float(value) for name, value in found.items()}


def _ped_anova(optuna: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is called experimental
        return optuna.importance.PedAnovaImportanceEvaluator()


def _distribution(optuna: Any, values: list[Any]) -> tuple[Any, list[Any]] | None:
    """Return the possible distribution of a parameter's values, and the values within; None: all are equal."""
    distributions = optuna.distributions
    values = [shown(value) if is_beyond_float(value) else value for value in values]  # no distribution has such bounds
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        low, high = min(values), max(values)
        return None if low == high else (distributions.IntDistribution(low, high), values)
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) and value == value for value in values):
        numbers = [float(value) for value in values]
        low, high = min(numbers), max(numbers)
        is_log = low > 0 and high / low >= 100
        return None if low == high else (distributions.FloatDistribution(low, high, log=is_log), numbers)
    texts = [value if isinstance(value, (str, bool, int, float, type(None))) else repr(value) for value in values]
    choices = list({(type(text), text): text for text in texts}.values())
    return None if len(choices) < 2 else (distributions.CategoricalDistribution(choices), texts)
