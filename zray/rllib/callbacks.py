"""Callbacks: a program's functions at the events of training, in the signatures of all years.

An event is called with keyword arguments, and a function gets those that it names.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .environments import OldStep
from .history import History
from .spellings import once

__all__ = ["BaseEnv", "DefaultCallbacks", "Events", "LiveEpisode", "MetricsLogger", "RLlibCallback", "events_of"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []

# Values of one name that are kept until the next result; a mean over more changes little.
VALUES_MAX = 1_000


class DefaultCallbacks:
    """The events of training; a program derives a class, and defines the methods of the events that count for it.

    Methods of former signatures, as `on_episode_end(self, *, worker, base_env, policies, episode, **kwargs)`, and of
    today, as `on_episode_end(self, *, episode, env_index, metrics_logger, **kwargs)`, are called alike.

    Arguments are keywords, and a method names those that it reads.  Events of environments have `episode` (with
    `length`, `total_reward`, `user_data`, `custom_metrics`), `env`, `env_index`, `env_context`, `base_env`, `worker`
    and `metrics_logger`.  Other events have `algorithm`, `metrics_logger`, and `samples`, `result` or
    `evaluation_metrics`.

    Args:
        legacy_callbacks_dict: functions by event, as programs of former years give them.

    Example:
        class Angles(DefaultCallbacks):
            def on_episode_end(self, *, episode, **kwargs):
                episode.custom_metrics["angle"] = episode.last_observation_for()[2]
    """

    def __init__(self, legacy_callbacks_dict: Mapping[str, Any] | None = None) -> None:
        self.legacy_callbacks = dict(legacy_callbacks_dict or {})

    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        """The algorithm is ready for its first iteration."""

    def on_environment_created(self, *, env: Any, env_context: Any, **kwargs: Any) -> None:
        """An environment was made."""

    def on_sub_environment_created(self, *, worker: Any, sub_environment: Any, env_context: Any, **kwargs: Any) -> None:
        """An environment was made: the former name."""

    def on_episode_created(self, *, episode: Any, **kwargs: Any) -> None:
        """An episode is about to begin."""

    def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
        """An environment was reset."""

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        """An environment was stepped."""

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """An episode has ended."""

    def on_sample_end(self, *, samples: Any, **kwargs: Any) -> None:
        """The rollout of a group has arrived at the learner."""

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """An iteration has ended; the result may be changed."""

    def on_evaluate_start(self, *, algorithm: Any, **kwargs: Any) -> None:
        """An evaluation begins."""

    def on_evaluate_end(self, *, algorithm: Any, evaluation_metrics: dict[str, Any], **kwargs: Any) -> None:
        """An evaluation has ended."""

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """The algorithm has taken the state of a checkpoint."""


RLlibCallback = DefaultCallbacks

EVENTS = tuple(name for name in vars(DefaultCallbacks) if name.startswith("on_"))


class MetricsLogger:
    """Values logged by a program by name; a result has their mean, sum, smallest or largest value."""

    def __init__(self) -> None:
        self.values: dict[Any, tuple[str, list[float]]] = {}

    def log_value(self, key: Any, value: Any, *, reduce: str | None = "mean", **ignored: Any) -> None:
        """Log a number.

        Args:
            key: the number's name, or a tuple of names, which nests.
            value: the number.
            reduce: "mean", "sum", "min" or "max"; None: "mean".
        """
        _, kept = self.values.setdefault(key, (reduce or "mean", []))
        kept.append(float(value))
        del kept[:-VALUES_MAX]

    def log_dict(self, value_dict: Mapping[str, Any], *, key: Any = None, **options: Any) -> None:
        """Log the numbers of `value_dict` by name, below `key`; options are those of `log_value`."""
        above = () if key is None else key if isinstance(key, tuple) else (key,)
        for name, value in value_dict.items():
            self.log_value((*above, name) if above else name, value, **options)

    def peek(self, key: Any, default: Any = None, **ignored: Any) -> Any:
        """The reduced value of the name `key`, now; `default` where nothing was logged."""
        if key not in self.values:
            return default
        reduce, kept = self.values[key]
        return float(getattr(np, reduce)(kept))

    def take(self) -> dict[Any, tuple[str, list[float]]]:
        """Return all values, and forget them."""
        taken, self.values = self.values, {}
        return taken

    def merge(self, taken: Mapping[Any, tuple[str, list[float]]]) -> None:
        """Add values of another logger."""
        for key, (reduce, values) in taken.items():
            for value in values:
                self.log_value(key, value, reduce=reduce)

    def reduced(self) -> dict[str, Any]:
        """Return the reduced values, nested by name, and forget them."""
        found: dict[str, Any] = {}
        for key in list(self.values):
            place = found
            *above, last = key if isinstance(key, tuple) else (key,)
            for name in above:
                place = place.setdefault(name, {})
            place[last] = self.peek(key)
        self.values = {}
        return found


class LiveEpisode:
    """An episode as callbacks see it.

    custom_metrics: numbers by name; results have `custom_metrics/<name>_mean`, `_min` and `_max`.
    hist_data: lists of numbers by name; results have those of the last episodes in `hist_stats/<name>`.
    user_data: a dict for the program.  length, total_reward: so far.
    """

    history: History | None = None

    def __init__(self, env_id: int, number: int, keeps: bool = False, has_agents: bool = False) -> None:
        if keeps:
            self.history = History()
        self.env_id, self.episode_id = env_id, env_id * 1_000_000_000 + number
        self.has_agents = has_agents  # several: values are dicts by agent
        self.length, self.total_reward = 0, 0.0
        self.custom_metrics: dict[str, float] = {}
        self.user_data: dict[str, Any] = {}
        self.hist_data: dict[str, list[float]] = {}
        self.media: dict[str, Any] = {}
        self.is_terminated = self.is_truncated = False
        self.observation: Any = None
        self.action: Any = None
        self.reward = 0.0
        self.rewards: dict[Any, float] | None = None
        self.info: dict[Any, Any] = {}

    id_ = property(lambda self: str(self.episode_id))
    custom_data = property(lambda self: self.user_data)
    is_done = property(lambda self: self.is_terminated or self.is_truncated)
    worker: Any = None

    def __len__(self) -> int:
        return self.length

    def begun(self, observation: Any, info: dict[str, Any]) -> None:
        """Take the first observation."""
        self.observation, self.info = observation, info
        if self.history is not None:
            self.history.begin(observation, info)

    def stepped(
        self,
        action: Any,
        observation: Any,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
        rewards: dict[Any, float] | None = None,
    ) -> None:
        """Take a step of the environment.

        Args:
            reward: the sum over the agents.
            rewards: those of each of several agents.
        """
        if self.history is not None:
            self.history.add(action, observation, reward if rewards is None else rewards, info)
        self.action, self.observation, self.reward, self.info = action, observation, reward, info
        self.rewards = rewards
        self.length += 1
        self.total_reward += reward
        self.is_terminated, self.is_truncated = terminated, truncated

    def last_observation_for(self, agent_id: Any = None) -> Any:
        """The last observation; of several agents: that of `agent_id`, or all in a dict."""
        return self._of(self.observation, agent_id)

    last_raw_obs_for = last_observation_for

    def last_action_for(self, agent_id: Any = None) -> Any:
        """The last action, as the environment took it."""
        return self._of(self.action, agent_id)

    def last_reward_for(self, agent_id: Any = None) -> float:
        """The last reward; of several agents: that of `agent_id`, or the sum."""
        return (self.rewards or {}).get(agent_id, 0.0) if self.has_agents and agent_id is not None else self.reward

    def last_info_for(self, agent_id: Any = None) -> dict[Any, Any]:
        """The last info; of several agents: that of `agent_id`, or all in a dict."""
        return self.info.get(agent_id, {}) if self.has_agents and agent_id is not None else self.info

    def get_return(self) -> float:
        """The sum of rewards."""
        return self.total_reward

    def get_observations(self, indices: Any = None, **ignored: Any) -> Any:
        """All observations so far, the first one included; or those at `indices`: a number, a list, a slice."""
        return self._at("observations", self.observation, indices)

    def get_actions(self, indices: Any = None, **ignored: Any) -> Any:
        """All actions so far, as the environment took them, or those at `indices`."""
        return self._at("actions", self.action, indices)

    def get_rewards(self, indices: Any = None, **ignored: Any) -> Any:
        """All rewards so far, or those at `indices`."""
        return self._at("rewards", self.reward, indices)

    def get_infos(self, indices: Any = None, **ignored: Any) -> Any:
        """All infos so far, that of the reset included, or those at `indices`."""
        return self._at("infos", self.info, indices)

    @staticmethod
    def _of(value: Any, agent_id: Any) -> Any:
        return value[agent_id] if isinstance(value, dict) and agent_id in value else value

    def _at(self, kind: str, last: Any, indices: Any) -> Any:
        if self.history is not None:
            return self.history.at(kind, indices)
        if indices == -1:
            return last
        raise NotImplementedError(
            f"The earlier {kind} of this episode are not kept: they are where callbacks define an event of episodes, "
            "from the beginning of an episode on."
        )


class BaseEnv:
    """The environments of a group, as callbacks see them."""

    def __init__(self, envs: list[Any]) -> None:
        self.envs = envs

    def get_sub_environments(self) -> list[Any]:
        """Return the original environments: those of gym without the wrapper."""
        return [env.env if isinstance(env, OldStep) else env for env in self.envs]

    get_unwrapped = get_sub_environments


class FunctionCallbacks(DefaultCallbacks):
    """Functions by the name of their event: `{"on_episode_end": function}`.

    A function with one argument gets a dict, as in 2018; any other keyword arguments.
    """

    def __init__(self, functions: Mapping[str, Any]) -> None:
        super().__init__()
        for name, given in functions.items():
            if name not in EVENTS:
                raise ValueError(f"No event is called {name!r}.  The events are: {', '.join(EVENTS)}.")
            each = list(given) if isinstance(given, (list, tuple)) else [given]
            setattr(self, name, [_taking_names(function) for function in each])


def _taking_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of keyword arguments for a function that may take a dict."""
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind in (parameters[0].VAR_KEYWORD, parameters[0].KEYWORD_ONLY):
        return function

    def from_dict(**facts: Any) -> None:
        function(
            {**facts, "env": facts.get("base_env"), "policy": facts.get("policies"), "agent": facts.get("trainer")}
        )

    return from_dict


class Events:
    """The callbacks of an algorithm; events that no callback defines cost nothing.

    Args:
        callbacks: objects with methods by the names of events.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self.callbacks = list(callbacks)
        self.functions: dict[str, list[tuple[Callable[..., Any], set[str] | None]]] = {}
        for callback in self.callbacks:
            for name in dir(callback):
                if name.startswith("on_"):
                    self._add(name, callback)

    def _add(self, name: str, callback: Any) -> None:
        defined = callback.__dict__.get(name)
        if defined is None:
            if getattr(type(callback), name, None) is getattr(DefaultCallbacks, name, None):
                return
            defined = [getattr(callback, name)]
        if name not in EVENTS:
            once(name, "zray.rllib has no such event")
            return
        self.functions.setdefault(name, []).extend((function, _names_of(function)) for function in defined)

    @property
    def want_episodes(self) -> bool:
        """Whether a callback sees episodes."""
        return self.wants("on_episode_start", "on_episode_step", "on_episode_end")

    def wants(self, *names: str) -> bool:
        """Whether a callback defines one of the events."""
        return any(name in self.functions for name in names)

    def call(self, name: str, **facts: Any) -> None:
        """Call an event."""
        for function, names in self.functions.get(name, ()):
            function(**(facts if names is None else {key: facts[key] for key in names & facts.keys()}))

    def __reduce__(self) -> Any:
        return Events, (self.callbacks,)


def _names_of(function: Callable[..., Any]) -> set[str] | None:
    """The keyword arguments that a function takes; None: all."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}


def events_of(callbacks: Any) -> Events | None:
    """The events of the option `callbacks`: a class, a function that makes an object, a list, or a dict of functions.

    Returns:
        None: there are no callbacks.

    Raises:
        TypeError: something else.
    """
    if not callbacks:
        return None
    if isinstance(callbacks, Mapping):
        return Events([FunctionCallbacks(callbacks)])
    each = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    return Events([_made(one) for one in each])


def _made(given: Any) -> Any:
    """The callbacks of a class, or of a function that makes an object; an object is one already.

    Raises:
        TypeError: it has no event.
    """
    if not isinstance(given, (str, bytes)):
        made = given() if callable(given) else given
        if isinstance(made, DefaultCallbacks) or any(callable(getattr(made, name, None)) for name in EVENTS):
            return made
    kind = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
    raise TypeError(
        "The option 'callbacks' is a class derived from DefaultCallbacks, a list of such classes, or functions by the "
        f"name of their event, not {kind}."
    )


def make_multi_callbacks(callback_class_list: Sequence[Any]) -> Any:
    """A list of callback classes, which `config.callbacks` takes."""
    return list(callback_class_list)


class MemoryTrackingCallbacks(DefaultCallbacks):
    """The resident memory of the process, in bytes, as a custom metric of each episode."""

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """Read it."""
        with open("/proc/self/statm", encoding="ascii") as file:
            episode.custom_metrics["resident_bytes"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
