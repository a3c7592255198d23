"""The base of the searchers: which configuration is tried next."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...on_import import shadows
from ..objective import Objective
from ..spaces import global_seed
from ..storage import write_aside
from ..variants import has_unresolved_values, with_distributions

__all__ = ["SearchAlgorithm", "Searcher", "learnt_values", "metrics_of", "set_search_properties", "settled_seed"]


class Searcher:
    """A source of configurations, by `suggest`, that learns from results.

    Args:
        metric: the result's key that is optimised.
        mode: "min" or "max".

    Raises:
        ValueError: the mode is another one.

    Example:
        class Halving(Searcher):
            lr = 1.0

            def suggest(self, trial_id):
                self.lr /= 2
                return {"lr": self.lr} if self.lr > 1e-4 else Searcher.FINISHED

        tune.Tuner(train, tune_config=tune.TuneConfig(search_alg=Halving(), num_samples=-1))
    """

    FINISHED = "FINISHED"
    takes_expressions = False  # whether it draws {"eval": ...} itself, or passes it on to another searcher

    def __init__(self, metric: str | None = None, mode: str | None = None) -> None:
        if mode not in (None, "min", "max") and not isinstance(mode, list):
            raise ValueError(f'The mode is "min" or "max", not {mode!r}.')
        self._metric, self._mode = metric, mode

    @property
    def metric(self) -> Any:
        """The result's key that is optimised."""
        return self._metric

    @property
    def mode(self) -> Any:
        """ "min" or "max"."""
        return self._mode

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take the experiment's metric, mode and search space.

        Returns:
            False: the searcher has others already.
        """
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Choose the configuration of a new trial.

        Args:
            trial_id: the trial, as in the methods below.

        Returns:
            The configuration, as a dict.  None: not now.  Searcher.FINISHED: no more at all.
        """
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Learn from a result of a running trial.

        Args:
            trial_id: the trial.
            result: its metrics.
        """

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Learn from an ended trial.

        Args:
            trial_id: the trial.
            result: its last result; None: there is none.
            error: whether the trial has failed.
        """

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> bool:
        """Take a result known from elsewhere.

        Returns:
            False: the searcher does not learn from such results.
        """
        return False

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take the limit of trials at once.

        Returns:
            False: the experiment holds it.
        """
        return False

    def get_state(self) -> dict[str, Any]:
        """The state, for `set_state`."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state into the file `checkpoint_path`, by `get_state`.  Only the user may read it."""
        import cloudpickle

        write_aside(checkpoint_path, cloudpickle.dumps(self.get_state()), 0o600)

    def restore(self, checkpoint_path: str) -> None:
        """Read the state from the file `checkpoint_path` of `save`, by `set_state`."""
        import cloudpickle

        with open(checkpoint_path, "rb") as file:
            self.set_state(cloudpickle.load(file))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Write the state into a folder, by `save`, in place of an earlier state.

        Args:
            checkpoint_dir: the folder.
            session_str: names the file, so that several searchers may share a folder.
        """
        os.makedirs(checkpoint_dir, exist_ok=True)
        path = _file_in(checkpoint_dir, session_str)
        self.save(f"{path}.new")
        os.replace(f"{path}.new", path)

    def restore_from_dir(self, checkpoint_dir: str, session_str: str = "") -> None:
        """Read the state from a folder of `save_to_dir`, by `restore`.

        Args:
            checkpoint_dir: the folder.
            session_str: the one of `save_to_dir`; "": the newest file.

        Raises:
            FileNotFoundError: the folder holds no state of a searcher.
        """
        found = glob.glob(_file_in(glob.escape(checkpoint_dir), session_str or "*"))
        if not found:
            raise FileNotFoundError(f"{checkpoint_dir} holds no state of a searcher: call save_to_dir first.")
        self.restore(max(found, key=os.path.getmtime))


def _file_in(folder: str, session: str) -> str:
    return os.path.join(folder, f"searcher-state-{session}.pkl")


# The name of the base class beside Searcher in Ray.
SearchAlgorithm = Searcher


def set_search_properties(
    searcher: Searcher, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
) -> bool:
    """Call the searcher's `set_search_properties`; subclasses of 2020 take no more than the three arguments.

    Expressions that are distributions are given as these.
    """
    import inspect

    if not searcher.takes_expressions:
        config = with_distributions(config)

    taken = inspect.signature(searcher.set_search_properties).parameters.values()
    takes_more = any(each.kind is each.VAR_KEYWORD for each in taken)
    return bool(searcher.set_search_properties(metric, mode, config, **(spec if takes_more else {})))


def space_for(searcher: Searcher, own: Any, config: dict[str, Any], has_taken: bool) -> Any:
    """Return the space of a searcher: its own, or that of the experiment; None: no space is there.

    Args:
        own: the space that the searcher has; None: it has none.
        config: the experiment's parameters.
        has_taken: whether the searcher's space is that of an experiment.

    Raises:
        ValueError: a second experiment has a space, too.
    """
    own, is_space = with_distributions(own), has_unresolved_values(config)
    if has_taken and is_space:
        name = type(searcher).__name__
        raise ValueError(
            f"This {name} has the search space and the trials of another experiment: make a new one for each "
            f"experiment, {name}(...)."
        )
    return config if own is None and is_space else own


def metrics_of(metric: str | Sequence[str] | None) -> list[str]:
    """Return the metrics of a searcher, several for several objectives."""
    return [metric or ""] if metric is None or isinstance(metric, str) else [str(each) for each in metric]


def learnt_values(result: dict[str, Any] | None, metric: str | Sequence[str] | None) -> list[float] | None:
    """Return the values for a searcher to learn from a result, one for each metric.

    Returns:
        None: a value is absent, no number, NaN or infinite, and the trial counts as failed for the searcher.
    """
    values = [Objective(name, None).finite(result or {}) for name in metrics_of(metric)]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def settled_seed(own: int | None, spec: Mapping[str, Any]) -> int:
    """Return the seed of a searcher: its own, the experiment's, or one drawn from numpy's global state.

    Args:
        spec: what `set_search_properties` was given.
    """
    if own is not None:
        return own
    given = spec.get("seed")
    return global_seed() if given is None else int(given)


shadows.name_absent(__name__)
