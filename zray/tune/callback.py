"""Callbacks of an experiment."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Iterable
from typing import Any

from .errors import TuneError
from .refs import dumps
from .result import SHOULD_CHECKPOINT
from .storage import write_aside
from .trial import Trial
from .trial_results import copied, is_own
from .unknown import shown

__all__ = ["Callback", "CallbackList", "check_callbacks", "pickled", "unpickled"]

# The file with the states of callbacks, in the experiment's folder.
STOPPED = "The experiment has stopped: correct the callback, then go on with Tuner.restore."
STATES = "callbacks.pkl"


class Callback:
    """The events of an experiment; subclasses define the methods that they need.

    Arguments of methods: `iteration` grows with each result, and with each turn of the experiment's loop; `trials`
    are all trials; `trial` is the one that the event is about, with `trial_id`, `config`, `last_result` and `path`;
    `result` is a dict of metrics, a copy for this callback alone, of which `should_checkpoint` may be set;
    `checkpoint` has a `path`; `info` is room for more.

    An error that a method raises ends the experiment: `fit` raises `TuneError`, which names the method.  Correct the
    callback, and go on with `Tuner.restore`.

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


def check_callbacks(callbacks: Iterable[Any]) -> None:
    """Raises:
    TypeError: one of them is a class, or has no method of callbacks.
    """
    for place, each in enumerate(callbacks):
        if isinstance(each, type):
            raise TypeError(f"callbacks[{place}] is {shown(each)}: pass an object, as {each.__name__}().")
        if not isinstance(each, Callback) and not any(callable(getattr(type(each), name, None)) for name in _EVENTS):
            what = repr(each) if each is None or isinstance(each, str) else shown(each)
            raise TypeError(f"callbacks[{place}] is a tune.Callback, or has methods of it, not {what}.")


_EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_") or name == "setup")


class CallbackList:
    """Several callbacks as one."""

    def __init__(self, callbacks: list[Any]) -> None:
        self.callbacks = callbacks
        self._methods: dict[str, list[Any]] = {}  # name -> the methods that do something
        self._are_ours: dict[str, list[bool]] = {}  # name -> whether each of these is a part of Tune
        self._has_begun = False
        self._saved = b""

    def methods(self, name: str) -> list[Any]:
        """The methods of a name that callbacks define themselves."""
        if name not in self._methods:
            nothing = getattr(Callback, name)
            found = [callback for callback in self.callbacks if getattr(type(callback), name, nothing) is not nothing]
            self._methods[name] = [getattr(callback, name) for callback in found]
            self._are_ours[name] = [is_own(callback) for callback in found]
        return self._methods[name]

    def call(self, name: str, **arguments: Any) -> None:
        """Call one method of all.

        Raises:
            TuneError: one has raised an error.
        """
        methods, takes_result = self.methods(name), "result" in arguments
        for method, is_ours in zip(methods, self._are_ours[name], strict=True):
            try:
                if takes_result and not is_ours:
                    self._call_with_result(method, arguments)
                else:
                    method(**arguments)
            except Exception as error:
                raise _failure(method, error, STOPPED) from error

    def _call_with_result(self, method: Any, arguments: dict[str, Any]) -> None:
        """Call a method with a result of its own; the one change that counts asks the trial for a checkpoint."""
        result = arguments["result"]
        own = copied(result)
        method(**{**arguments, "result": own})
        if own.get(SHOULD_CHECKPOINT):
            result[SHOULD_CHECKPOINT] = True

    def begin(self, folder: str, goes_on: bool, **info: Any) -> None:
        """Call `setup` of all; where an experiment goes on, give them their states back.

        Raises:
            TuneError: a callback has raised an error, or the file of states cannot be read.
        """
        self.call("setup", **info)
        if goes_on:
            self._load(folder)
        self._has_begun = True

    def save(self, folder: str) -> None:
        """Keep the states of all callbacks with a state. The file may hold their keys, so only its user can read it.

        Raises:
            TuneError: a callback gives no state, or one that cannot be pickled.
        """
        if not self._has_begun:
            return  # states of callbacks that were not told theirs would replace those of the former run
        states = [(_name(method), self._of(method)) for method in self.methods("get_state")]
        if states and (data := self._pickled(states)) != self._saved:
            write_aside(os.path.join(folder, STATES), data, 0o600)
            self._saved = data

    def _of(self, method: Any, *state: Any) -> Any:
        """The state that a callback gives, or takes."""
        try:
            return method(*state)
        except Exception as error:
            raise _failure(method, error, STOPPED) from error

    def _pickled(self, states: list[tuple[str, Any]]) -> bytes:
        try:
            return dumps(states)
        except Exception:
            for method, state in zip(self.methods("get_state"), states, strict=True):
                try:
                    dumps(state)
                except Exception as error:
                    raise _failure(method, error, STOPPED) from error
            raise

    def _load(self, folder: str) -> None:
        """Give the callbacks their states back, except to callbacks of other classes."""
        if not self.methods("set_state"):
            return
        states = _read_states(os.path.join(folder, STATES))
        for method in self.methods("set_state"):
            place = next((place for place, (name, _) in enumerate(states) if name == _name(method)), None)
            if place is not None:
                state = states.pop(place)[1]
                if state is not None:
                    self._of(method, state)

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
    """Return the callbacks for a restored experiment, without callbacks that do not pickle."""
    import cloudpickle

    found = []
    for callback in callbacks:
        with contextlib.suppress(Exception):
            found.append(cloudpickle.dumps(callback))
    return found


def unpickled(pickles: list[bytes]) -> list[Any]:
    """Return the callbacks of a restored experiment, without callbacks of missing modules."""
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


def _read_states(path: str) -> list[tuple[str, Any]]:
    """Return the states in a file, with the names of their callbacks; empty without a file.

    Raises:
        TuneError: the file is damaged, or needs a module that is not here.
    """
    advice = "The file is damaged: remove it, and the callbacks begin anew while the trials go on"
    try:
        with open(path, "rb") as file:
            found = pickle.load(file)
    except FileNotFoundError:
        return []
    except OSError:
        raise
    except Exception as error:
        if isinstance(error, (ImportError, AttributeError)):
            advice = "Make the module importable, as in the first run, or remove the file: the callbacks begin anew"
        raise TuneError(
            f"{path}, the states of the callbacks, cannot be read: {type(error).__name__}: {error}.  {advice}."
        ) from error
    if not isinstance(found, list) or not all(isinstance(each, tuple) and len(each) == 2 for each in found):
        raise TuneError(
            f"{path} holds no states of callbacks but {type(found).__name__} of another program.  {advice}."
        )
    return found


def _name(method: Any) -> str:
    return type(method.__self__).__qualname__


def _failure(method: Any, error: Exception, after: str) -> TuneError:
    name = f"{type(method.__self__).__name__}.{method.__name__}"
    return TuneError(f"The callback {name} failed with {type(error).__name__}: {error}.  {after}")
