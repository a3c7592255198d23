"""Callbacks of an experiment."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from typing import Any

from .errors import TuneError
from .refs import dumps
from .trial import Trial

__all__ = ["Callback", "CallbackList", "pickled", "unpickled"]

# The file with the states of callbacks, in the experiment's folder.
STATES = "callbacks.pkl"


class Callback:
    """The events of an experiment; subclasses define the methods that they need.

    Arguments of methods: `iteration` grows with each result, and with each turn of the experiment's loop; `trials`
    are all trials; `trial` is the one that the event is about, with `trial_id`, `config`, `last_result` and `path`;
    `result` is a dict of metrics; `checkpoint` has a `path`; `info` is room for more.

    Example:
        class Printer(tune.Callback):
            def on_trial_result(self, iteration, trials, trial, result, **info):
                print(trial, result["loss"])

        tune.Tuner(train, run_config=tune.RunConfig(callbacks=[Printer()]))
    """

    def setup(
        self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None, **info: Any
    ) -> None:
        """Called before the first trial.

        Args:
            stop: the criteria of `RunConfig(stop=...)`.
            num_samples: of TuneConfig.
            total_num_samples: the number of trials, if it is known.
            info: room for more.
        """

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called at the beginning of each turn of the loop."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called at the end of each turn of the loop."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial starts, or starts again."""

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial starts from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has a checkpoint."""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Called with each result."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has ended."""

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a failed trial will start again."""

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has failed for good."""

    def on_checkpoint(self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Any, **info: Any) -> None:
        """Called when a trial has a checkpoint."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Called at the end."""

    def get_state(self) -> dict[str, Any] | None:
        """The state, for an experiment that is resumed."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from the dict `state` of `get_state`."""


class CallbackList:
    """Several callbacks as one."""

    def __init__(self, callbacks: list[Any]) -> None:
        self.callbacks = callbacks
        self._methods: dict[str, list[Any]] = {}  # name -> the methods that do something

    def methods(self, name: str) -> list[Any]:
        """The methods of a name that callbacks define themselves."""
        if name not in self._methods:
            nothing = getattr(Callback, name)
            found = [callback for callback in self.callbacks if getattr(type(callback), name, nothing) is not nothing]
            self._methods[name] = [getattr(callback, name) for callback in found]
        return self._methods[name]

    def call(self, name: str, **arguments: Any) -> None:
        """Call one method of all.

        Raises:
            TuneError: one has raised an error.
        """
        for method in self.methods(name):
            try:
                method(**arguments)
            except Exception as error:
                raise _failure(
                    method, error, "The experiment has stopped: correct the callback, then go on with Tuner.restore."
                ) from error

    def save(self, folder: str) -> None:
        """Keep the states of the callbacks that have one."""
        states = [(_name(method), method()) for method in self.methods("get_state")]
        if states:
            path = os.path.join(folder, STATES)
            with open(f"{path}.unfinished", "wb") as file:
                file.write(dumps(states))
            os.rename(f"{path}.unfinished", path)

    def load(self, folder: str) -> None:
        """Give the callbacks their states back; those of other classes are left out."""
        if not self.methods("set_state"):
            return
        try:
            with open(os.path.join(folder, STATES), "rb") as file:
                states = pickle.load(file)
        except FileNotFoundError:
            return
        for method in self.methods("set_state"):
            place = next((place for place, (name, _) in enumerate(states) if name == _name(method)), None)
            if place is not None:
                state = states.pop(place)[1]
                if state is not None:
                    method(state)

    def end(self, trials: list[Trial]) -> TuneError | None:
        """Call `on_experiment_end` of all; the first error is returned."""
        problem: TuneError | None = None
        for method in self.methods("on_experiment_end"):
            try:
                method(trials=trials)
            except Exception as error:
                made = _failure(method, error, "The experiment had ended before.")
                made.__cause__ = error
                problem = problem or made
        return problem


def pickled(callbacks: list[Any]) -> list[bytes]:
    """The callbacks for a restored experiment; those that do not pickle are left out."""
    import cloudpickle

    found = []
    for callback in callbacks:
        with contextlib.suppress(Exception):
            found.append(cloudpickle.dumps(callback))
    return found


def unpickled(pickles: list[bytes]) -> list[Any]:
    """The callbacks of a restored experiment; those whose module is not there any more are left out."""
    callbacks = []
    for data in pickles:
        with contextlib.suppress(Exception):
            callback = pickle.loads(data)
            # The program may define the class anew: a correction of it counts.
            current = getattr(sys.modules.get(type(callback).__module__), type(callback).__qualname__, None)
            if isinstance(current, type):
                with contextlib.suppress(TypeError):  # of another layout
                    callback.__class__ = current
            callbacks.append(callback)
    return callbacks


def _name(method: Any) -> str:
    return type(method.__self__).__qualname__


def _failure(method: Any, error: Exception, after: str) -> TuneError:
    name = f"{type(method.__self__).__name__}.{method.__name__}"
    return TuneError(f"The callback {name} failed with {type(error).__name__}: {error}.  {after}")
