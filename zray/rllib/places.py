"""The places of environments in a group: an environment is made for its place, and made anew there when it fails."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from .batches import FLOAT_MAX, is_finite
from .environments import EnvContext, InvalidEnvironmentError, NoNumberError, make_environment
from .lives import RESTARTS_MAX, close_all
from .old_environments import settled
from .spaces import holds_no_number, not_finite_in_words

__all__ = ["Places", "keep_attributes_fast"]

ONLY_OWNER = 3  # refs of attributes that nobody but their object holds: the object's, a variable's, the call's
logger = logging.getLogger("zray.rllib")


class Places:
    """Makes the environments of a group."""

    most = FLOAT_MAX  # the largest reward

    def _context(self: Any, place: int) -> EnvContext:
        number = self.index * self.size + place
        places: dict[str, Any] = {
            "worker_index": self.worker_index,
            "vector_index": number,
            "num_restarts": self.restarted[place],
        }
        return self.maker[1].copy_with_overrides(**places, recreated_worker=self.restarted[place] > 0)

    def _made(self: Any, place: int) -> Any:
        env = make_environment(self.maker[0], self._context(place))
        if self.worker_index:
            keep_attributes_fast(env)
        return env

    def _tell_created(self: Any, place: int) -> None:
        facts = {"env": self.envs[place], "sub_environment": self.envs[place], "env_context": self._context(place)}
        self._tell("on_environment_created", place, **facts)
        self._tell("on_sub_environment_created", place, **facts)

    def _make_anew(self: Any, place: int, problem: InvalidEnvironmentError, cause: Exception | None = None) -> None:
        """Make an environment that has failed anew, in its place.

        Raises:
            InvalidEnvironmentError: the option restart_failed_sub_environments is off, or several new ones have failed
                without a step.
        """
        self.in_vain[place] = 1 if self.lengths[place] else self.in_vain[place] + 1
        if not self.restarts or self.in_vain[place] > RESTARTS_MAX:
            raise problem from cause
        logger.warning("An environment is made anew: %s", problem)
        close_all([self.envs[place]], self.name)
        self.restarted[place] += 1
        self.num_failed += 1
        self.lengths[place] = 0
        try:
            self.envs[place] = settled(self._made(place))
        except InvalidEnvironmentError as error:
            self._make_anew(place, error)
            return
        if self.events is not None:
            self._tell_created(place)

    def _failed(self: Any, place: int, action: Any, error: Exception, active: list[tuple[int, Any]]) -> tuple[Any, ...]:
        """The result that a step that failed counts as, with the environment made anew: the end of a truncated episode.

        Args:
            active: the environments that are stepped; the new one takes its place.
        """
        length = self.lengths[place]
        if isinstance(error, NoNumberError):
            self._make_anew(place, error)
        else:
            self._make_anew(place, self._raised(place, action, error), error)
        self.lengths[place] = length
        active[[each for each, _ in active].index(place)] = (place, self._step_of(place))
        return self.observations[place], 0.0, False, True, {}

    def _step_of(self: Any, place: int) -> Callable[[Any], Any]:
        """The step of an environment.  Where it may be made anew, a result that holds no number raises at once."""
        step: Callable[[Any], Any] = self.envs[place].step
        if not self.restarts:
            return step  # numbers of all environments are looked at together

        def checked(action: Any) -> Any:
            found: Any = step(action)
            if not is_finite(found[1], self.most):
                problem = self._no_number(place, found[1])
                if isinstance(problem, NoNumberError):
                    raise problem
            self._check_numbers(place, found[0], is_counted=False)
            return found

        return checked

    def _check_numbers(self: Any, place: int, observation: Any, owner: str = "", *, is_counted: bool) -> None:
        """Look at an observation of an environment that may be made anew.

        Raises:
            NoNumberError: it holds NaN or infinity.
        """
        if self.restarts and holds_no_number(observation):
            held, where = not_finite_in_words(observation), self._where(place, is_counted)
            raise NoNumberError(f"The observation{owner} holds {held}, in {where}.")

    def _begun(self: Any, place: int, begin: Callable[[Any], Any]) -> Any:
        """The result of a reset; an environment that fails is made anew, if it may be."""
        while True:
            try:
                found = begin(self.envs[place])
                self._check_numbers(place, found[0], is_counted=True)
                return found
            except NoNumberError as error:
                self._make_anew(place, error)
            except InvalidEnvironmentError:
                raise
            except Exception as error:
                text = f"reset raised {type(error).__name__}: {error}, in {self._where(place)}."
                self._make_anew(place, InvalidEnvironmentError(text), error)


def keep_attributes_fast(env: Any) -> None:
    """Give an environment and its wrappers attributes whose access stays fast after the environment is pickled.

    A pickle asks for `__dict__`.  Until Python 3.13 the interpreter then moves the attributes into a dictionary that
    shares its keys, which its fast path does not read: each step of CartPole took 13 % longer after an actor's first
    checkpoint.  A dictionary with keys of its own is read by the fast path.  A dictionary that others hold too, or of
    another type, stays as it is.
    """
    if sys.version_info >= (3, 13):
        return
    seen: set[int] = set()
    while issubclass(type(env), gymnasium.Env) and id(env) not in seen:  # the type itself: proxies have a false class
        seen.add(id(env))
        descriptor = inspect.getattr_static(env, "__dict__", None)
        if not inspect.isgetsetdescriptor(descriptor):  # a property of the class
            return
        attributes = descriptor.__get__(env)
        if type(attributes) is dict and sys.getrefcount(attributes) <= ONLY_OWNER:
            descriptor.__set__(env, {**attributes})  # a `__setattr__` of the class is not asked
        env = attributes.get("env")
