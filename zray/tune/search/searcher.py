"""The base of the searchers: which configuration is tried next."""

from __future__ import annotations

from typing import Any

from ... import shadows

__all__ = ["SearchAlgorithm", "Searcher", "set_search_properties"]


class Searcher:
    """A source of configurations, by `suggest`, that learns from results.

    Args:
        metric: the result's key that is optimised.
        mode: "min" or "max".
    """

    FINISHED = "FINISHED"

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
        """The configuration of a new trial.

        Returns:
            None: not now.  Searcher.FINISHED: no more at all.
        """
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """A trial has an intermediate result."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A trial has ended; `result` is its last one."""

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> bool:
        """Take a result that is known from elsewhere.

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
        """Write the state into a file."""
        import cloudpickle

        with open(checkpoint_path, "wb") as file:
            cloudpickle.dump(self.get_state(), file)

    def restore(self, checkpoint_path: str) -> None:
        """Read the state from a file of `save`."""
        import cloudpickle

        with open(checkpoint_path, "rb") as file:
            self.set_state(cloudpickle.load(file))


# The name of the base class beside Searcher in Ray.
SearchAlgorithm = Searcher


def set_search_properties(
    searcher: Searcher, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
) -> bool:
    """Call the searcher's `set_search_properties`; subclasses of 2020 take no more than the three arguments."""
    import inspect

    taken = inspect.signature(searcher.set_search_properties).parameters.values()
    takes_more = any(each.kind is each.VAR_KEYWORD for each in taken)
    return bool(searcher.set_search_properties(metric, mode, config, **(spec if takes_more else {})))


shadows.name_absent(__name__)
