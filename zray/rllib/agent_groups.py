"""Groups of environments with several agents: the steps of each agent, gathered by policy.

In each step, the observations of all agents of a policy are one batch of its model.  As in groups.py, the random
numbers are the group's own: the same weights give the same rollout with any number of processes.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, NamedTuple

import numpy as np

from .batches import FLOAT_MAX, Batch, Episode, clipped, copied
from .environments import InvalidEnvironmentError, NoNumberError, check_reward
from .groups import Group
from .old_environments import seed_otherwise
from .policies import Policy
from .sequences import sequences_of

__all__ = ["AgentBatch", "AgentGroup", "AgentStep", "Life", "reset_agents", "step_agents"]

ALL = "__all__"


class Life(NamedTuple):
    """An episode, as a `policy_mapping_fn` sees it.

    episode_id: differs for all episodes of an algorithm.  env: the number of the environment.  number: of the episode.
    """

    episode_id: int
    env: int
    number: int


class AgentBatch(NamedTuple):
    """The rollout of a group: a batch for each policy, of shape [R, 1, ...].

    The R steps of a policy are those of its agents, one agent behind another; the last step of an agent in the rollout
    counts as ended.  rewards: the sums over agents, of shape [T, N].  counted: what the filters have seen, by policy.
    num_failed: environments that failed and were made anew.
    """

    batches: dict[str, Batch]
    rewards: np.ndarray
    episodes: list[Episode]
    counted: dict[str, Any]
    num_failed: int = 0


class Step:
    """The step of an agent, complete when the agent has its next observation or leaves."""

    __slots__ = (
        "row", "action", "log_probability", "parameters", "value", "states", "reward", "terminated", "ended",
        "next_row", "next_value", "is_complete",
    )  # fmt: skip

    def __init__(
        self, row: Any, action: Any, log_probability: Any, parameters: Any, value: Any, states: list[np.ndarray]
    ) -> None:
        self.row, self.action, self.log_probability = row, action, log_probability
        self.parameters, self.value, self.states = parameters, value, states
        self.reward = self.terminated = self.ended = 0.0
        self.next_row, self.next_value, self.is_complete = row, value, False

    def complete(self, row: Any, value: Any) -> None:
        """Take the observation that the step led to, and its value."""
        self.next_row, self.next_value, self.is_complete = row, value, True

    def end(self, is_terminal: bool) -> None:
        """The agent leaves: at a truncation without a last observation, the present value stands for the next one."""
        self.terminated, self.ended, self.is_complete = float(is_terminal), 1.0, True


class AgentStep(NamedTuple):
    """A step of an environment of several agents; the dicts are by agent."""

    observations: dict[Any, Any]
    rewards: dict[Any, Any]
    terminateds: dict[Any, Any]
    truncateds: dict[Any, Any]
    is_terminal: bool
    is_truncated: bool
    infos: dict[Any, Any]


def reset_agents(env: Any, seed: int | None) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Begin an episode, and return the observations and infos by agent; old environments take no seed."""
    if "seed" in inspect.signature(env.reset).parameters:
        found = env.reset(seed=seed)
    else:
        if seed is not None:
            seed_otherwise(env, seed)
        found = env.reset()
    is_pair = isinstance(found, tuple) and len(found) == 2
    observations = found[0] if is_pair else found
    if not isinstance(observations, dict):
        raise InvalidEnvironmentError(
            f"reset of {type(env).__name__} returns a dict of observations by agent, not {type(observations).__name__}."
        )
    infos = found[1] if is_pair else {}
    return dict(observations), dict(infos) if isinstance(infos, dict) else {}


def step_agents(env: Any, actions: dict[Any, Any]) -> AgentStep:
    """Take actions by agent."""
    found = env.step(actions)
    if not (isinstance(found, tuple) and len(found) in (4, 5) and all(isinstance(each, dict) for each in found)):
        raise InvalidEnvironmentError(
            f"step of {type(env).__name__} returns five dicts by agent: observations, rewards, terminateds, truncateds "
            "and infos."
        )
    observations, rewards, terminateds = found[:3]
    truncateds = found[3] if len(found) == 5 else {}
    if ALL not in terminateds:
        raise InvalidEnvironmentError(
            f'step of {type(env).__name__} returns terminateds without the key "__all__", which says whether the '
            "episode is over."
        )
    is_truncated = bool(truncateds.get(ALL, False))
    is_terminal = bool(terminateds.get(ALL, False)) and not is_truncated
    return AgentStep(observations, rewards, terminateds, truncateds, is_terminal, is_truncated, found[-1])


class AgentGroup(Group):
    """Environments of several agents that are stepped together.

    Args:
        index, size, env, env_config, seed, worker_index: see Group.
    """

    has_agents = True

    def __init__(self, index: int, size: int, *args: Any, **kwargs: Any) -> None:
        self.owners: list[dict[Any, str]] = [{} for _ in range(size)]  # the policy of each agent, in the episode
        self.pending: list[dict[Any, Step]] = [{} for _ in range(size)]  # the last step of agents that are there
        self.memories: list[dict[Any, list[np.ndarray]]] = [{} for _ in range(size)]  # recurrent states
        self.agent_returns: list[dict[Any, float]] = [{} for _ in range(size)]
        super().__init__(index, size, *args, **kwargs)
        self.taken = None  # actions are dicts by agent, which `play_again` does not take

    def _reset(self, place: int) -> Any:
        self.seeds[place] = seed = int(self.rng.integers(2**31))
        self.returns[place], self.lengths[place] = 0.0, 0
        for each in (self.owners, self.pending, self.memories, self.agent_returns):
            each[place] = {}  # type: ignore[call-overload]
        observations, infos = self._begun(place, lambda env: reset_agents(env, seed))
        observations = copied(observations)
        self._tell_begun(place, dict(observations), infos)
        return observations

    def _owner(self, policies: Any, place: int, agent: Any) -> str:
        """The policy of an agent: it is asked for once in an episode."""
        owner = self.owners[place].get(agent)
        if owner is None:
            env = self.index * self.size + place
            owner = policies.policy_of(agent, Life(self.numbers[place] * 1_000_000 + env, env, self.numbers[place]))
            self.owners[place][agent] = owner
        return owner

    def rollout(self, policy: Any, steps: int, clip_rewards: bool | float = False) -> Any:
        """Step all environments so many times by the policies of their agents.

        Args:
            policy: a PolicyMap.

        Raises:
            InvalidEnvironmentError: an environment raised, or gave what is no number.
        """
        policies: dict[str, Policy] = policy.policies
        counted = {name: each.filter.fresh() for name, each in policies.items()}
        tracks: dict[tuple[str, int, Any], list[Step]] = {}
        for place in range(self.size):  # steps of the last rollout that are not complete
            for agent, step in self.pending[place].items():
                tracks[self.owners[place][agent], place, agent] = [step]
        rewards: np.ndarray = np.zeros((steps, self.size), np.float32)
        cut: dict[str, list[tuple[Step, np.ndarray, list[np.ndarray]]]] = {name: [] for name in policies}
        episodes: list[Episode] = []
        for number in range(steps):
            actions = self._act(policy, counted, tracks)
            for place in range(self.size):
                rewards[number, place] = self._advance(policy, place, actions[place], clip_rewards, cut, episodes)
        self._complete(policy, cut)
        batches = {}
        for name, each in policies.items():
            own = [[step for step in track if step.is_complete] for key, track in tracks.items() if key[0] == name]
            own = [track for track in own if track]
            if own:
                batches[name] = _batch_of(each, own, counted[name])
        for place, there in enumerate(self.pending):
            self.pending[place] = {agent: step for agent, step in there.items() if not step.is_complete}
        num_failed, self.num_failed = self.num_failed, 0
        return AgentBatch(batches, rewards, episodes, counted, num_failed)

    def _act(self, policy: Any, counted: dict[str, Any], tracks: Any) -> list[dict[Any, Any]]:
        """The actions of all agents that have an observation; policy by policy."""
        by_policy: dict[str, list[tuple[int, Any]]] = {name: [] for name in policy.policies}
        for place, observations in enumerate(self.observations):
            for agent in observations:
                by_policy[self._owner(policy, place, agent)].append((place, agent))
        actions: list[dict[Any, Any]] = [{} for _ in range(self.size)]
        for name, there in by_policy.items():
            if not there:
                continue
            own: Policy = policy.policies[name]
            rows = self._rows(own, there, counted[name])
            before = [self.memories[place].get(agent, own.initial_state) for place, agent in there]
            states = [np.stack(each) for each in zip(*before, strict=True)]
            parameters, values, after = own.forward_states(rows, states)
            drawn, logs = own.draw(parameters, self.rng)
            for row, (place, agent) in enumerate(there):
                last = self.pending[place].get(agent)
                if last is not None and not last.is_complete:
                    last.complete(rows[row], values[row])
                step = Step(rows[row], drawn[row], logs[row], parameters[row], values[row], before[row])
                self.pending[place][agent] = step
                self.memories[place][agent] = [each[row] for each in after]
                tracks.setdefault((name, place, agent), []).append(step)
                actions[place][agent] = own.distribution.to_environment(drawn[row])
        return actions

    def _rows(self, policy: Policy, there: list[tuple[int, Any]], counted: Any) -> np.ndarray:
        """The filtered observations of agents."""
        raw = self._seen(policy, [self.observations[place][agent] for place, agent in there], there)
        counted.observe(raw)
        rows: np.ndarray = policy.filter(raw)
        return rows

    def _advance(
        self,
        policy: Any,
        place: int,
        actions: dict[Any, Any],
        clip_rewards: bool | float,
        cut: Any,
        episodes: list[Episode],
    ) -> float:
        """Step an environment, and give rewards and ends to the steps of its agents.  Returns the sum of rewards."""
        most = sys.float_info.max if clip_rewards else FLOAT_MAX
        try:
            found = step_agents(self.envs[place], actions)
            self._check_agents(place, found, most)
        except Exception as error:
            if isinstance(error, InvalidEnvironmentError) and not isinstance(error, NoNumberError):
                raise
            self._failed(place, actions, error, [(place, None)])
            found = AgentStep({}, {}, {}, {}, False, True, {})
        observations, rewards, terminateds, truncateds, is_terminal, is_truncated, infos = found
        there, total = self.pending[place], 0.0
        self.lengths[place] += 1
        for agent, reward in rewards.items():
            total += float(reward)
            self.agent_returns[place][agent] = self.agent_returns[place].get(agent, 0.0) + float(reward)
            if agent in there and not there[agent].is_complete:
                there[agent].reward += float(clipped(reward, clip_rewards))
        self.returns[place] += total
        next_observations = copied(dict(observations))
        if self.events is not None:
            seen = dict(next_observations)
            self.live[place].stepped(actions, seen, total, bool(is_terminal), bool(is_truncated), infos, dict(rewards))
            self._tell("on_episode_step", place)
        for agent in {**there, **observations}:
            is_end = is_terminal or bool(terminateds.get(agent, False))
            if not (is_end or is_truncated or truncateds.get(agent, False)):
                continue
            step = there.pop(agent, None)
            last = next_observations.pop(agent, None)
            state = self.memories[place].pop(agent, [])
            if step is not None and not step.is_complete:
                step.end(is_end)
                if not is_end and last is not None:
                    own = self.owners[place][agent]
                    (row,) = self._numbers(policy.policies[own], [last], [(place, agent)])
                    cut[own].append((step, row, state))
        self.observations[place] = next_observations
        if is_terminal or is_truncated:
            episodes.append(self._episode(place)._replace(policy_returns=self._policy_returns(policy, place)))
            self.observations[place] = self._reset(place)
        return total

    def _check_agents(self, place: int, found: AgentStep, most: float) -> None:
        """Look at the rewards of agents; where the environment may be made anew, also at their observations.

        Raises:
            InvalidEnvironmentError: one of them is no number; NoNumberError: it is NaN or infinite.
        """
        for agent, reward in found.rewards.items():
            if not isinstance(reward, (int, float)):  # the place is text, which takes time
                check_reward(reward, f"of agent {agent!r}, in {self._where(place, False)},")
            if not -most <= reward <= most:
                said = ", which is infinite in 32 bits" if np.isfinite(reward) else ""
                raise NoNumberError(f"The reward of agent {agent!r} is {reward}{said}, in {self._where(place, False)}.")
        if self.restarts:
            for agent, observation in found.observations.items():
                self._check_numbers(place, observation, f" of agent {agent!r}", is_counted=False)

    def _policy_returns(self, policy: Any, place: int) -> dict[str, list[float]]:
        """The returns of the episode's agents, by policy."""
        found: dict[str, list[float]] = {}
        for agent, value in self.agent_returns[place].items():
            found.setdefault(self._owner(policy, place, agent), []).append(value)
        return found

    def _complete(self, policy: Any, cut: dict[str, list[tuple[Step, np.ndarray, list[np.ndarray]]]]) -> None:
        """Value the observations behind truncated steps, and those that agents have at the end of the rollout."""
        for place, observations in enumerate(self.observations):
            for agent, observation in observations.items():
                step = self.pending[place].get(agent)
                if step is not None and not step.is_complete:
                    own_name = self.owners[place][agent]
                    (row,) = self._numbers(policy.policies[own_name], [observation], [(place, agent)])
                    cut[own_name].append((step, row, self.memories[place].get(agent, [])))
        for name, there in cut.items():
            if there:
                own: Policy = policy.policies[name]
                rows = own.filter(np.stack([row for _, row, _ in there]))
                states = [np.stack(each) for each in zip(*(states for _, _, states in there), strict=True)]
                _, values, _ = own.forward_states(rows, states)
                for (step, _, _), row, value in zip(there, rows, values, strict=True):
                    step.complete(row, value)


def _batch_of(policy: Policy, tracks: list[list[Step]], counted: Any) -> Batch:
    """The steps of a policy's agents, one agent behind another."""
    for track in tracks:
        track[-1].ended = 1.0  # the next row belongs to another agent
    steps = [step for track in tracks for step in track]

    def column(name: str, dtype: Any = None) -> np.ndarray:
        return np.asarray([getattr(step, name) for step in steps], dtype=dtype)[:, np.newaxis]

    batch = Batch(
        column("row"),
        column("action"),
        column("reward", np.float32),
        column("terminated", np.float32),
        column("ended", np.float32),
        column("log_probability", np.float32),
        column("parameters"),
        column("value", np.float32),
        column("next_value", np.float32),
        [],
        counted,
        column("next_row") if policy.wants_next_observations else None,
    )
    if not policy.has_state:
        return batch
    sequences = sequences_of(batch.ended, policy.max_seq_len)
    states = [
        np.stack([steps[begin].states[number] for _, begin, _ in sequences])
        for number in range(len(policy.initial_state))
    ]
    return batch._replace(sequences=sequences, states=states)
