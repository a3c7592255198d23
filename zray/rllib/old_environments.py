"""Environments of former years: `reset` without a seed, an observation alone, a `step` of four values, spaces of gym.

Nothing is tried out beforehand: a wrapper sees what the first `reset` and the first `step` return.  An environment that
does all as today is taken out of its wrapper again, so that it costs no time.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

import gymnasium
import numpy as np

from ..util.once import is_first

__all__ = ["OldStep", "adapted", "seed_otherwise", "settled", "space_of"]

logger = logging.getLogger("zray.rllib")

# Kinds of environments, as tuples of the classes of their wrappers, that do all as today.
_OF_TODAY: set[tuple[type, ...]] = set()


class OldStep(gymnasium.Env[Any, Any]):
    """An environment with today's `reset` and `step`, around one of any year.

    Args:
        env: the environment.
        name: of the environment, for messages.
        is_silent: whether another process says what is of former years.
    """

    name, is_silent, takes_seed = "", True, False
    of_former_years: tuple[str, ...] = ()
    has_stepped = False

    def __init__(self, env: Any, name: str = "", is_silent: bool = False) -> None:
        self.env, self.name, self.is_silent = env, name or type(env).__name__, is_silent
        self.observation_space = space_of(getattr(env, "observation_space", None))
        self.action_space = space_of(getattr(env, "action_space", None))
        self.takes_seed = all(_takes_seed(each) for each in _chain(env))
        self.of_former_years = () if self.takes_seed else ("reset takes no seed",)

    def __getattr__(self, name: str) -> Any:
        if name == "env" or name.startswith("__"):  # a copy asks before it has any attribute
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def is_of_today(self) -> bool:
        """Whether a first step has shown that the environment needs no wrapper."""
        return self.has_stepped and not self.of_former_years and isinstance(self.env, gymnasium.Env)

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return getattr(self.env, "unwrapped", self.env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if self.takes_seed:
            found = self.env.reset(seed=seed, **({"options": options} if options is not None else {}))
        else:
            if seed is not None:
                seed_otherwise(self.env, seed)
            found = self.env.reset()
        if self._is_pair(found) or (isinstance(found, tuple) and not self._is_observation(found)):
            return found  # type: ignore[no-any-return]
        self._note("reset returns the observation alone")
        return found, {}

    def _is_pair(self, found: Any) -> bool:
        """Whether a reset returned (observation, info), and not an observation that looks like it."""
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict)):
            return False
        return not self._is_observation(found)

    def _is_observation(self, found: tuple[Any, ...]) -> bool:
        space = self.observation_space
        return isinstance(space, gymnasium.spaces.Tuple) and space.contains(found)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        found = self.env.step(action)
        if not (isinstance(found, tuple) and len(found) == 4) or isinstance(found[3], (bool, np.bool_)):
            self.has_stepped = self.has_stepped or self._noted()
            return found  # type: ignore[no-any-return]
        self._note("step returns four values")
        self.has_stepped = self.has_stepped or self._noted()
        observation, reward, done, info = found
        is_over = bool(np.asarray(done).all())
        is_truncated = is_over and isinstance(info, dict) and bool(info.get("TimeLimit.truncated", False))
        return observation, reward, is_over and not is_truncated, is_truncated, info

    def _note(self, what: str) -> None:
        if what not in self.of_former_years:
            self.of_former_years = (*self.of_former_years, what)

    def _noted(self) -> bool:
        """Remember the kind of environment, or say once what is of former years.  True."""
        if not self.of_former_years:
            if isinstance(self.env, gymnasium.Env):
                _OF_TODAY.add(_kind(self.env))
        elif not self.is_silent and is_first(f"{self.name} is of former years"):
            logger.warning(
                "Environment %s is of former years: %s.  A wrapper turns that into today's form: "
                "reset(self, *, seed=None, options=None) returns (observation, info), and step returns (observation, "
                "reward, terminated, truncated, info).",
                self.name,
                ", ".join(self.of_former_years),
            )
        return True

    def render(self, *args: Any, **options: Any) -> Any:
        """A picture."""
        return self.env.render(*args, **options)

    def close(self) -> None:
        """Close the environment; a plain class may have no `close`."""
        if hasattr(self.env, "close"):
            self.env.close()


def adapted(env: Any, name: str, is_silent: bool) -> gymnasium.Env[Any, Any]:
    """The environment itself where its classes are known to do all as today, else in a wrapper."""
    if isinstance(env, gymnasium.Wrapper) and _is_own(type(env)):  # a time limit, for example: it asks for five values
        inner = adapted(env.env, name, is_silent)
        if inner is not env.env:
            env.env = inner
        return env
    if isinstance(env, gymnasium.Env) and (_is_own(type(env)) or _kind(env) in _OF_TODAY):
        return env
    return OldStep(env, name, is_silent)


def settled(env: Any) -> Any:
    """The environment without the wrapper, if a first step has shown that the wrapper does nothing."""
    if isinstance(env, OldStep):
        return env.env if env.is_of_today else env
    outer = env
    while isinstance(outer, gymnasium.Wrapper):  # as `adapted` goes; a look at `vars` makes attributes slow for good
        inner = outer.env
        if isinstance(inner, OldStep):
            if inner.is_of_today:
                outer.env = inner.env
            break
        outer = inner
    return env


def seed_otherwise(env: Any, seed: int) -> None:
    """Seed an environment whose `reset` takes no seed: by its `seed`, else its spaces and its `np_random`."""
    inner = getattr(env, "unwrapped", env)
    for each in (env, inner):
        if callable(getattr(each, "seed", None)):
            each.seed(seed)
            return
    for number, name in enumerate(("action_space", "observation_space")):
        space: Any = getattr(inner, name, None)
        if callable(getattr(space, "seed", None)):
            space.seed(seed + number)
    if isinstance(inner, gymnasium.Env):
        inner.np_random = gymnasium.utils.seeding.np_random(seed)[0]


def space_of(space: Any) -> Any:
    """The space of gymnasium that a space of gym stands for; another thing as it is."""
    if isinstance(space, gymnasium.Space) or space is None:
        return space
    kind, own = type(space).__name__, gymnasium.spaces
    if kind == "Discrete":
        return own.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "Box":
        return own.Box(np.asarray(space.low), np.asarray(space.high), dtype=space.dtype)
    if kind == "MultiDiscrete":
        return own.MultiDiscrete(np.asarray(space.nvec))
    if kind == "MultiBinary":
        return own.MultiBinary(space.n)
    if kind == "Tuple":
        return own.Tuple([space_of(each) for each in space.spaces])
    if kind == "Dict":
        return own.Dict({name: space_of(each) for name, each in space.spaces.items()})
    return space


def _is_own(kind: type) -> bool:
    """Whether a class is one of gymnasium's, of its games', or of this package's: these are of today."""
    return kind.__module__.split(".")[0] in ("gymnasium", "ale_py", "zray")


def _chain(env: Any) -> list[Any]:
    """The environment and those that it wraps, from the outermost to the innermost."""
    found = [env]
    while isinstance(found[-1], gymnasium.Wrapper):
        found.append(found[-1].env)
    return found


def _kind(env: Any) -> tuple[type, ...]:
    return tuple(type(each) for each in _chain(env))


def _takes_seed(env: Any) -> bool:
    try:
        parameters = inspect.signature(env.reset).parameters
    except (TypeError, ValueError):  # a compiled class says nothing
        return isinstance(env, gymnasium.Env)
    return "seed" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
