"""Environments: made from an id, a class, a registered name or a function; checked before the first rollout."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from .old_environments import OldStep, adapted

__all__ = [
    "EnvContext",
    "InvalidEnvironmentError",
    "Limited",
    "NoNumberError",
    "OldStep",
    "check_environment",
    "check_reward",
    "check_spaces",
    "creator_of",
    "make_environment",
    "portable",
]

# Of the message of a missing package: the extra that brings it.
_EXTRAS = {"mujoco": "mujoco", "ale": "atari", "atari": "atari", "opencv": "atari", "cv2": "atari"}

MASK = "action_mask"  # the part of a Dict observation that says which actions are possible

# A path such as "games.maze.Maze", of which Ray's programs write the last dot as one too.
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class InvalidEnvironmentError(RuntimeError):
    """An environment does not do what gymnasium asks for."""


class NoNumberError(InvalidEnvironmentError):
    """An observation or a reward is no finite number."""


class EnvContext(dict[str, Any]):
    """The `env_config` of an environment, with the places of the environment.

    Args:
        config: what the user gave as env_config.
        worker_index: the process of the environment; 0: the program itself.
        vector_index: the number of the environment, over all processes.
        remote: False; environments have no processes of their own.
        num_workers: the processes of the algorithm beside the program.
        recreated_worker: whether the environment takes the place of one that failed.
        num_restarts: how often that has happened in this place.
    """

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        worker_index: int = 0,
        vector_index: int = 0,
        remote: bool = False,
        num_workers: int = 0,
        recreated_worker: bool = False,
        num_restarts: int = 0,
    ) -> None:
        super().__init__(config or {})
        self.worker_index, self.vector_index = worker_index, vector_index
        self.remote, self.num_workers = remote, num_workers
        self.recreated_worker, self.num_restarts = recreated_worker, num_restarts

    def copy_with_overrides(self, env_config: dict[str, Any] | None = None, **places: Any) -> EnvContext:
        """A copy with another env_config, or in another place."""
        return EnvContext(dict(self) if env_config is None else env_config, **{**vars(self), **places})

    def set_defaults(self, defaults: dict[str, Any]) -> None:
        """Add what the env_config lacks."""
        for key, value in defaults.items():
            self.setdefault(key, value)


def creator_of(env: Any) -> Callable[[EnvContext], Any]:
    """Return a function that makes an environment of its context.

    Args:
        env: a gymnasium id, a name of `register_env`, a class, a function of the context, or "module:Class".

    Raises:
        ValueError: nothing of this name is known.
        TypeError: none of these.
    """
    if isinstance(env, str):
        return _named(env)
    if isinstance(env, type) or callable(env):
        return env
    raise TypeError(f"An environment is an id, a class or a function of the env_config, not {type(env).__name__}.")


def _named(name: str) -> Callable[[EnvContext], Any]:
    from zray.tune.registry import environment_creator

    registered = environment_creator(name)
    if registered is not None:
        return registered
    from .atari import load

    known = load(name)
    if known in gymnasium.registry or known.startswith("gymnasium."):
        return lambda context: gymnasium.make(known, **context)
    module, _, attribute = name.partition(":")
    if attribute:
        found = getattr(importlib.import_module(module), attribute, None)
        if found is not None:
            made: Callable[[EnvContext], Any] = found
            return made
    former = getattr(sys.modules.get("gym"), "spec", None)
    if former is not None and _is_known(former, name):  # the program has registered it there
        return lambda context: sys.modules["gym"].make(name, **context)
    close = [known for known in gymnasium.registry if known.lower().split("-")[0] == name.lower().split("-")[0]]
    hint = f"  Near: {', '.join(sorted(close)[:3])}." if close else ""
    hint = right_form(name) or hint
    raise ValueError(
        f"No environment is called {name!r}: it is no id of gymnasium and no name of register_env.{hint}  "
        f"Name a class of your own: tune.register_env({name!r}, lambda config: Maze(config)), or pass the class itself."
    )


def _is_known(spec: Callable[[str], Any], name: str) -> bool:
    """Whether a registry of the former package gym has an id."""
    try:
        return spec(name) is not None
    except Exception:  # its errors depend on the version
        return False


class RegisteredEnvironment:
    """Return a creator of `register_env` with the name, unknown to other processes.

    Args:
        name: of the environment.
        creator: makes it of its context.
    """

    def __init__(self, name: str, creator: Callable[[EnvContext], Any]) -> None:
        self.__name__, self.creator = name, creator

    def __call__(self, context: EnvContext) -> Any:
        """An environment."""
        return self.creator(context)


def portable(env: Any) -> Any:
    """The environment of a configuration, as other processes can make it."""
    from zray.tune.registry import environment_creator

    registered = environment_creator(env) if isinstance(env, str) else None
    return env if registered is None else RegisteredEnvironment(env, registered)


def right_form(env: Any) -> str:
    """Return the sentence that writes "module.Class" with a colon; empty: the name has another form."""
    if isinstance(env, str) and _DOTTED.fullmatch(env):
        return f"  Write '{':'.join(env.rsplit('.', 1))}' for a class of a module."
    return ""


def missing_extra(error: BaseException) -> str:
    """Return the sentence that names the missing extra of an environment; empty: another error."""
    if isinstance(error, (ImportError, gymnasium.error.DependencyNotInstalled)):
        words = re.findall(r"[a-z0-9]+", str(error).lower())
        for word, extra in _EXTRAS.items():
            if word in words:
                return f"  It comes with the extra: pip install 'zray[{extra}]'"
    return ""


def make_environment(env: Any, context: EnvContext) -> gymnasium.Env[Any, Any]:
    """An environment with gymnasium's `reset` and `step`.

    Raises:
        InvalidEnvironmentError: its constructor raised; names the environment and its place.
    """
    creator = creator_of(env)
    try:
        made = creator(context)
    except Exception as error:
        place = f"Environment {name_of(env)} number {context.vector_index} of worker {context.worker_index}"
        hint = missing_extra(error) or right_form(env)
        if isinstance(error, TypeError):
            hint = "  A class or function of your own takes the env_config."
        raise InvalidEnvironmentError(f"{place} could not be made: {type(error).__name__}: {error}{hint}") from error
    from .env.multi_agent_env import MultiAgentEnv

    for attribute in ("reset", "step", "observation_space", "action_space"):
        if not isinstance(made, gymnasium.Env) and not hasattr(made, attribute):
            raise InvalidEnvironmentError(
                f"What makes environment {name_of(env)} returned {type(made).__name__}, which has no {attribute}: "
                "return an object of gymnasium.Env."
            )
    return made if isinstance(made, MultiAgentEnv) else adapted(made, name_of(env), context.worker_index > 1)


class Limited:
    """Return a function that makes environments with truncated episodes.

    Args:
        env: what `make_environment` takes.
        horizon: the most steps of an episode.
    """

    def __init__(self, env: Any, horizon: int) -> None:
        self.env, self.horizon, self.__name__ = env, horizon, name_of(env)

    def __call__(self, context: EnvContext) -> gymnasium.Env[Any, Any]:
        from .env.multi_agent_env import LimitedAgents, MultiAgentEnv

        made = make_environment(self.env, context)
        if isinstance(made, MultiAgentEnv):
            return LimitedAgents(made, self.horizon)
        return gymnasium.wrappers.TimeLimit(made, self.horizon)


def name_of(env: Any) -> str:
    """The environment's name, for messages."""
    return env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)


def check_spaces(env: gymnasium.Env[Any, Any], name: str) -> None:
    """Look at the spaces of an environment.

    Raises:
        InvalidEnvironmentError: one of them is missing, or is no space of gymnasium.
    """
    for attribute in ("observation_space", "action_space"):
        space = getattr(env, attribute, None)
        if not isinstance(space, gymnasium.Space):
            raise InvalidEnvironmentError(
                f"Environment {name} has no {attribute} of gymnasium, but {type(space).__name__}: set it in __init__."
            )


def check_environment(env: gymnasium.Env[Any, Any], name: str) -> None:
    """Reset and step an environment once, and compare with its spaces.

    Raises:
        InvalidEnvironmentError: says what is wrong.
    """
    from .env.multi_agent_env import MultiAgentEnv

    if isinstance(env, MultiAgentEnv):
        from .agent_groups import reset_agents

        for agent, observation in reset_agents(env, 0)[0].items():
            _check_observation(env.get_observation_space(agent), f"{name}, agent {agent!r},", observation, "reset")
        return
    check_spaces(env, name)
    found: Any = env.reset(seed=0)
    if not (isinstance(found, tuple) and len(found) == 2):
        said = f"a tuple of {len(found)}" if isinstance(found, tuple) else type(found).__name__
        raise InvalidEnvironmentError(f"reset of environment {name} returns (observation, info), not {said}.")
    _check_observation(env.observation_space, name, found[0], "reset")
    stepped: Any = env.step(_allowed_sample(env, found[0]))
    if not (isinstance(stepped, tuple) and len(stepped) == 5):
        raise InvalidEnvironmentError(
            f"step of environment {name} returns (observation, reward, terminated, truncated, info), not "
            f"{len(stepped) if isinstance(stepped, tuple) else type(stepped).__name__} values."
        )
    _check_observation(env.observation_space, name, stepped[0], "step")
    check_reward(stepped[1], f"of environment {name}")
    for place, value in (("terminated", stepped[2]), ("truncated", stepped[3])):
        if not isinstance(value, (bool, int, np.bool_)):
            raise InvalidEnvironmentError(
                f"The value {place} of step of environment {name} is a bool, not {type(value).__name__}."
            )


def _allowed_sample(env: gymnasium.Env[Any, Any], observation: Any) -> Any:
    """Return an action for the check of `step`, allowed by the environment's mask, if any."""
    space, observed = env.action_space, env.observation_space
    if not isinstance(observed, gymnasium.spaces.Dict) or MASK not in observed.spaces:
        return space.sample()
    mask = np.ravel(gymnasium.spaces.flatten(observed.spaces[MASK], observation[MASK])) > 0
    if isinstance(space, gymnasium.spaces.Discrete):
        return space.sample(mask.astype(np.int8)) if len(mask) == space.n else space.sample()
    from .distributions import distribution_of  # imports torch, which evolution does without

    distribution = distribution_of(space)
    if distribution.sizes is None or len(mask) != sum(distribution.sizes):
        return space.sample()
    (action,) = distribution.greedy(np.where(mask, 0.0, -np.inf)[np.newaxis])
    return distribution.to_environment(action)


def check_reward(reward: Any, where: str) -> None:
    """Look at a reward.

    Raises:
        InvalidEnvironmentError: it is no number, or an array of numbers.
    """
    if isinstance(reward, (str, bytes)):
        raise InvalidEnvironmentError(f"The reward {where} is a number, not {reward!r:.40}, a text.")
    if np.shape(reward):
        raise InvalidEnvironmentError(f"The reward {where} is one number, not an array of shape {np.shape(reward)}.")
    try:
        float(reward)
    except (TypeError, ValueError) as error:
        raise InvalidEnvironmentError(f"The reward {where} is a number, not {type(reward).__name__}.") from error


def _check_observation(space: Any, name: str, observation: Any, where: str) -> None:
    if space is None:
        return
    said = ""
    if isinstance(space, gymnasium.spaces.Box):  # another dtype, or a list, is converted
        try:
            converted = np.asarray(observation).astype(space.dtype)
        except (TypeError, ValueError):
            said = ", no array of numbers"
        else:
            if space.contains(converted):
                return
            said = f" of shape {converted.shape}"
            if converted.shape == space.shape:
                said += f" with values from {converted.min():g} to {converted.max():g}"
    elif space.contains(observation):
        return
    more = ""
    if isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
        from .spaces import OutsideSpace, check_form

        try:
            check_form(space, observation)
        except OutsideSpace as error:  # names the part
            more = f"  {error}"
    raise InvalidEnvironmentError(
        f"{where} of environment {name} returned an observation outside of its space: "
        f"{type(observation).__name__}{said}, where the space is {space}.{more}"
    )
