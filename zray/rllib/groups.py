"""Groups of environments: the unit of rollouts, with the same results in whichever process a group is.

A group has a fixed size, and its observations are one batch of the model.  Its random numbers are its own, seeded by
the experiment's seed and the number of the group.  The same weights give the same rollout with any number of processes.
"""

from __future__ import annotations

import copy
import math
import sys
from sys import getrefcount
from typing import Any

import numpy as np
from numpy import ndarray

from .batches import FLOAT_MAX, Batch, Cut, Episode, clipped, copied, is_finite, whole_episodes
from .callbacks import BaseEnv, Events, LiveEpisode, MetricsLogger
from .distributions import rows_to_environment
from .environments import (
    EnvContext,
    InvalidEnvironmentError,
    NoNumberError,
    check_environment,
    check_reward,
    name_of,
)
from .episodes import ACTIONS_MAX, is_stateless, play_again
from .lives import close_all
from .old_environments import settled
from .places import Places, keep_attributes_fast
from .policies import Policy
from .sequences import sequences_of
from .spaces import OutsideSpace, not_finite_in_words

__all__ = ["Batch", "Episode", "Group"]


# Steps of a rollout that waits for the ends of its episodes: an environment that never ends would fill the memory.
STEPS_MAX = 1_000_000


def _own_count() -> int:
    observation = np.zeros(1)
    return getrefcount(observation)


# The reference count of an array that only one variable has, as this interpreter counts.
OWN = _own_count()


class Group(Places):
    """Environments that are stepped together.

    Args:
        index: the number of the group.
        size: its environments.
        env, env_config: how an environment is made.
        seed: the experiment's.
        events: the callbacks.
        checks: whether the first environment is checked before the first rollout.
        is_whole: whether a rollout goes on until the episodes have ended.
        restarts: whether an environment that raises is made anew.
        num_workers: the processes of the algorithm, for the contexts of environments.
    """

    is_settled = True  # whether wrappers of environments have seen a first step
    is_closed = restarts = has_agents = False
    num_failed = 0  # environments that were made anew, since the last rollout

    def __init__(
        self,
        index: int,
        size: int,
        env: Any,
        env_config: dict[str, Any],
        seed: int,
        worker_index: int = 0,
        events: Events | None = None,
        checks: bool = True,
        is_whole: bool = False,
        restarts: bool = False,
        num_workers: int = 0,
    ) -> None:
        self.is_whole, self.restarts = is_whole, restarts
        self.index, self.size, self.name, self.worker_index = index, size, name_of(env), worker_index
        self.events, self.metrics = events, MetricsLogger()
        self.live: list[LiveEpisode] = []
        self.maker = (env, EnvContext(env_config, num_workers=num_workers))
        # Of each environment: how often it was made anew, and how often without a step between.
        self.restarted, self.in_vain = [0] * size, [0] * size
        self.envs: list[Any] = []
        self.is_settled = checks
        try:
            self._begin(size, checks, np.random.default_rng([seed, index]))
        except BaseException:
            self.close()
            raise

    def _begin(self, size: int, checks: bool, rng: np.random.Generator) -> None:
        """Make and reset the environments."""
        for place in range(size):
            self.envs.append(self._made(place))
            if checks and not place:
                check_environment(self.envs[0], self.name)
                self.envs = [settled(self.envs[0])]
        if self.events is not None:
            self.live = [LiveEpisode(self.index * size + place, 0) for place in range(size)]
            for place in range(size):
                self._tell_created(place)
        self.rng = rng
        self.numbers = [0] * size
        self.seeds = [0] * size
        self.returns = [0.0] * size
        self.lengths = [0] * size
        # The actions of the episode under way, of environments whose pickle holds no state.
        self.taken: list[list[Any]] | None = [[] for _ in range(size)] if is_stateless(self.envs[0]) else None
        self.states: list[np.ndarray] = []  # of a recurrent policy, with a row for each environment
        self.observations = [self._reset(place) for place in range(size)]

    def _reset(self, place: int) -> Any:
        self.seeds[place] = seed = int(self.rng.integers(2**31))
        self.returns[place], self.lengths[place] = 0.0, 0
        if self.taken is not None:
            self.taken[place] = []
        observation, info = self._begun(place, lambda env: env.reset(seed=seed))
        observation = copied(observation)
        self._tell_begun(place, observation, info)
        return observation

    def _tell_begun(self, place: int, observation: Any, info: dict[str, Any]) -> None:
        if self.events is not None:
            keeps = self.events.want_episodes
            env_id = self.index * self.size + place
            self.live[place] = LiveEpisode(env_id, self.numbers[place], keeps, self.has_agents)
            self.live[place].begun(observation, info)
            self._tell("on_episode_created", place)
            self._tell("on_episode_start", place)

    def _where(self, place: int, is_counted: bool = True) -> str:
        """The place of a fault.  Steps count from 1, and the observation of a reset is of step 0.

        Args:
            place: of the environment.
            is_counted: whether the step with the fault is in the length of the episode already.
        """
        return (
            f"environment {self.name} number {self.index * self.size + place}, "
            f"step {self.lengths[place] + (not is_counted)} of the "
            f"episode with seed {self.seeds[place]}, worker {self.worker_index}"
        )

    def _raised(self, place: int, action: Any, error: Exception) -> InvalidEnvironmentError:
        return InvalidEnvironmentError(
            f"step raised {type(error).__name__}: {error}, in {self._where(place, False)}, action {action!r}."
        )

    def _no_number(self, place: int, reward: Any) -> InvalidEnvironmentError:
        where = self._where(place, is_counted=False)
        try:
            check_reward(reward, f"in {where}")
        except InvalidEnvironmentError as error:
            return error
        said = ", which is infinite in 32 bits" if math.isfinite(reward) else ""
        return NoNumberError(f"The reward is {reward}{said}, in {where}.")

    def watch(self, events: Events) -> None:
        """Call other callbacks from now on; the present episodes count from their beginning."""
        if self.events is None:
            self.live = [LiveEpisode(self.index * self.size + place, self.numbers[place]) for place in range(self.size)]
            for place, episode in enumerate(self.live):
                episode.length, episode.total_reward = self.lengths[place], self.returns[place]
                episode.observation = self.observations[place]
        self.events = events
        for place, length in enumerate(self.lengths):
            if not length:
                self._tell("on_episode_start", place)

    def _tell(self, event: str, place: int, **facts: Any) -> None:
        """Call the callbacks of an event of an environment."""
        assert self.events is not None
        if self.events.wants(event):
            self.events.call(
                event,
                **{
                    "episode": self.live[place],
                    "worker": self,
                    "env_runner": self,
                    "base_env": BaseEnv(self.envs),
                    "env": self.envs[place],
                    "env_index": place,
                    "policies": {},
                    "rl_module": None,
                    "metrics_logger": self.metrics,
                    **facts,
                },
            )

    def _flat(self, policy: Policy, observations: list[Any], there: list[tuple[int, Any]] | None = None) -> np.ndarray:
        """Observations as rows.

        Args:
            there: environment and agent of each observation; None: one of each environment, without agents.

        Raises:
            InvalidEnvironmentError: one of them does not fit the observation space.
        """
        try:
            return policy.flatten(observations)
        except OutsideSpace as error:
            for number, observation in enumerate(observations):
                try:
                    policy.flatten([observation])
                except OutsideSpace as own:
                    place, owner = self._owner_of(number, there)
                    said = str(own).rstrip(".").replace("observation", f"observation{owner}", 1)
                    raise InvalidEnvironmentError(f"{said}, in {self._where(place)}.") from error
            raise

    def _numbers(
        self, policy: Policy, observations: list[Any], there: list[tuple[int, Any]] | None = None
    ) -> np.ndarray:
        """Observations as rows of finite numbers.

        Raises:
            InvalidEnvironmentError: one of them does not fit the observation space, or holds NaN or infinity.
        """
        rows = self._flat(policy, observations, there)
        if not np.isfinite(rows).all():
            raise self._no_numbers(rows, observations, there)
        return rows

    def _seen(self, policy: Policy, observations: list[Any], there: list[tuple[int, Any]] | None = None) -> np.ndarray:
        """Observations that are acted on, as rows.

        Raises:
            InvalidEnvironmentError: as `_numbers`; or a mask allows no action.
        """
        rows = self._numbers(policy, observations, there)
        number = None if policy.mask is None else policy.mask.nothing_allowed(rows)
        if number is not None:
            place, owner = self._owner_of(number, there)
            raise InvalidEnvironmentError(
                f"The action_mask of the observation{owner} allows no action, in {self._where(place)}."
            )
        return rows

    def _no_numbers(
        self, rows: np.ndarray, observations: list[Any], there: list[tuple[int, Any]] | None
    ) -> InvalidEnvironmentError:
        number = int(np.argmin(np.isfinite(rows).reshape(len(rows), -1).all(axis=1)))
        place, owner = self._owner_of(number, there)
        held = not_finite_in_words(observations[number])
        return InvalidEnvironmentError(f"The observation{owner} holds {held}, in {self._where(place)}.")

    @staticmethod
    def _owner_of(number: int, there: list[tuple[int, Any]] | None) -> tuple[int, str]:
        """The environment of an observation, and its agent in words; empty: the environment has no agents."""
        if there is None:
            return number, ""
        place, agent = there[number]
        return place, "" if agent is None else f" of agent {agent!r}"

    def rollout(self, policy: Policy, steps: int, clip_rewards: bool | float = False) -> Batch:
        """Step all environments so many times by the policy; with `is_whole`, each until its episode ends.

        Raises:
            InvalidEnvironmentError: an environment raised, or gave what is no number; or an episode does not end.
        """
        self._start_states(policy)
        size, observations, returns, lengths = self.size, self.observations, self.returns, self.lengths
        # Environments that are stepped; looked up once: a step takes microseconds, and so do calls for each reward.
        self.most = most = sys.float_info.max if clip_rewards else FLOAT_MAX
        active = [(place, self._step_of(place)) for place in range(size)]
        has_events, keeps_actions, counted = self.events is not None, self.taken is not None, policy.filter.fresh()
        rewards, terminated, ended = _zeros(steps, size)
        rows, actions, logs, parameters, values = (list[np.ndarray]() for _ in range(5))  # of each step
        before: list[list[np.ndarray]] = []  # the recurrent states of each step
        cut: list[Cut] = []
        episodes: list[Episode] = []
        step = 0
        while step < steps or (self.is_whole and active):
            if step == len(rewards):
                rewards, terminated, ended = (self._longer(each, active) for each in (rewards, terminated, ended))
            raw = self._seen(policy, observations)
            counted.observe(raw if len(active) == size else raw[[place for place, _ in active]])
            row = policy.filter(raw)
            before.append(self.states)
            parameter, value, self.states = policy.forward_states(row, self.states)
            action, log_probability = policy.draw(parameter, self.rng)
            rows.append(row)
            parameters.append(parameter)
            values.append(value)
            actions.append(action)
            logs.append(log_probability)
            taken_by_all, rewards_of_step = rows_to_environment(policy.distribution, action), rewards[step]
            for place, env_step in active:
                taken = taken_by_all[place]
                if keeps_actions:
                    self._keep(place, taken)
                try:
                    observation, reward, is_terminal, is_truncated, info = env_step(taken)
                except Exception as error:
                    observation, reward, is_terminal, is_truncated, info = self._failed(place, taken, error, active)
                # A plain array to which nothing else refers is written by nobody else.
                if type(observation) is not ndarray or observation.base is not None or getrefcount(observation) > OWN:
                    observation = copied(observation)
                if not (type(reward) is float and -most <= reward <= most) and not is_finite(reward, most):
                    raise self._no_number(place, reward)
                if has_events:
                    self.live[place].stepped(
                        taken, observation, float(reward), bool(is_terminal), bool(is_truncated), info
                    )
                    self._tell("on_episode_step", place)
                returns[place] += float(reward)
                lengths[place] += 1
                rewards_of_step[place] = clipped(reward, clip_rewards) if clip_rewards else reward
                if is_terminal or is_truncated:
                    terminated[step, place], ended[step, place] = is_terminal, True
                    if not is_terminal:
                        (last_row,) = self._numbers(policy, [observation], [(place, None)])
                        cut.append(Cut(step, place, last_row, [each[place].copy() for each in self.states]))
                    episodes.append(self._episode(place))
                    observation = self._reset(place)
                    for each, initial in zip(self.states, policy.initial_state, strict=True):
                        each[place] = initial
                observations[place] = observation
            step += 1
            if self.is_whole and step >= steps:
                active = [(place, env_step) for place, env_step in active if not ended[step - 1, place]]
        of_steps = (rewards[:step], terminated[:step], ended[:step])
        batch = self._batch(policy, rows, actions, *of_steps, logs, parameters, values, cut, episodes, counted)
        return self._finished(batch, before, policy.max_seq_len)

    def _finished(self, batch: Batch, before: list[list[np.ndarray]], max_seq_len: int) -> Batch:
        """The batch, cut to whole episodes if these are asked for, with the sequences of a recurrent model."""
        if self.num_failed:
            batch, self.num_failed = batch._replace(num_failed=self.num_failed), 0
        if not self.is_settled:
            self.envs, self.is_settled = [settled(each) for each in self.envs], True
        if self.is_whole:
            batch, before = whole_episodes(batch, before)
        return self._with_sequences(batch, before, max_seq_len) if self.states else batch

    def _longer(self, array: np.ndarray, active: list[tuple[int, Any]]) -> np.ndarray:
        """An array with space for as many steps again.

        Raises:
            InvalidEnvironmentError: there are too many.
        """
        if len(array) >= STEPS_MAX:
            raise InvalidEnvironmentError(
                f"The episode has not ended, in {self._where(active[0][0])}: give the option horizon, or leave out "
                'batch_mode="complete_episodes".'
            )
        return np.concatenate([array, np.zeros_like(array)])

    def _start_states(self, policy: Policy) -> None:
        """Begin with the states of the last rollout, or of a first one."""
        shapes = [each.shape for each in policy.initial_state]
        if [each.shape[1:] for each in self.states] != shapes:
            self.states = [np.stack([each] * self.size) for each in policy.initial_state]

    def _with_sequences(self, batch: Batch, before: list[list[np.ndarray]], max_length: int) -> Batch:
        sequences = sequences_of(batch.ended, max_length)
        states = [
            np.stack([before[begin][number][env] for env, begin, _ in sequences]) for number in range(len(self.states))
        ]
        return batch._replace(sequences=sequences, states=states)

    def _episode(self, place: int) -> Episode:
        env = self.index * self.size + place
        episode = Episode(self.returns[place], self.lengths[place], env, self.numbers[place], self.seeds[place])
        if self.events is not None:
            self._tell("on_episode_end", place)
            # The program may change arrays of a former episode in place.
            custom, history = copy.deepcopy((self.live[place].custom_metrics, self.live[place].hist_data))
            episode = episode._replace(custom_metrics=custom, hist_data=history, logged=self.metrics.take())
        self.numbers[place] += 1
        return episode

    def _batch(
        self,
        policy: Policy,
        rows: list[np.ndarray],
        actions: list[np.ndarray],
        rewards: np.ndarray,
        terminated: np.ndarray,
        ended: np.ndarray,
        logs: list[np.ndarray],
        parameters: list[np.ndarray],
        values: list[np.ndarray],
        cut: list[Cut],
        episodes: list[Episode],
        counted: Any,
    ) -> Batch:
        last_row = policy.filter(self._numbers(policy, self.observations))
        _, last, _ = policy.forward_states(last_row, self.states)
        all_values = np.stack([*values, last]).astype(np.float32)
        next_values = all_values[1:].copy()
        next_rows = np.stack([*rows[1:], last_row]) if policy.wants_next_observations else None
        if cut:
            cut_rows = policy.filter(np.stack([each.row for each in cut]))
            cut_states = [np.stack(each) for each in zip(*(each.states for each in cut), strict=True)]
            _, of_cut, _ = policy.forward_states(cut_rows, cut_states)
            for (step, place, _, _), value, row in zip(cut, of_cut, cut_rows, strict=True):
                next_values[step, place] = value
                if next_rows is not None:
                    next_rows[step, place] = row
        return Batch(
            np.stack(rows),
            np.stack(actions),
            rewards,
            terminated,
            ended,
            np.stack(logs).astype(np.float32),
            np.stack(parameters),
            all_values[:-1],
            next_values,
            episodes,
            counted,
            next_rows,
        )

    def _keep(self, place: int, action: Any) -> None:
        """Note an action: with the others it leads to the state of the environment again."""
        assert self.taken is not None
        if len(self.taken[place]) <= ACTIONS_MAX:
            self.taken[place].append(action)

    def __getstate__(self) -> dict[str, Any]:
        if self.taken is not None and max(map(len, self.taken)) > ACTIONS_MAX:
            raise ValueError(
                f"its pickle holds no state, and an episode has more than {ACTIONS_MAX:,} steps: give a horizon"
            )
        if self.restarts:
            return self.__dict__
        return {name: value for name, value in self.__dict__.items() if name != "maker"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for env in self.envs:
            keep_attributes_fast(env)
        if self.taken is not None:
            for env, seed, actions in zip(self.envs, self.seeds, self.taken, strict=True):
                play_again(env, seed, actions)

    def close(self) -> None:
        """Close the environments, once."""
        if not self.is_closed:
            self.is_closed = True
            close_all(self.envs, self.name)


def _zeros(steps: int, size: int) -> list[np.ndarray]:
    return [np.zeros((steps, size), np.float32) for _ in range(3)]
