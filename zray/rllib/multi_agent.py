"""Several agents: policies by name, and the learner of each.

The policies learn independently, from rollouts that they share: each is trained by the algorithm as if it were alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .agent_groups import AgentGroup, Life, reset_agents, step_agents
from .environments import name_of
from .groups import Batch
from .limits import check_numbers
from .playing import add_policies
from .policies import Policy
from .policy.policy import PolicySpec
from .spellings import once, translated

__all__ = ["PolicyMap", "SeveralAgents", "with_agents"]

DEFAULT = "default_policy"


class Filters(dict[str, Any]):
    """The filters of policies, by name."""

    def merge(self, others: list[dict[str, Any]]) -> None:
        """Add what others have counted, in their order."""
        for name, own in self.items():
            own.merge([other[name] for other in others])


class PolicyMap:
    """Policies by name, in the place of one policy.

    Args:
        policies: the options of each policy, for its constructor, with its "policy_class".
        mapping: a function of agent and episode that names the policy.
    """

    group_class = AgentGroup
    has_state = False  # each policy says for itself

    def __init__(self, policies: dict[str, dict[str, Any]], mapping: Any) -> None:
        self.policies: dict[str, Policy] = {}
        for name, options in policies.items():
            own = dict(options)
            self.policies[name] = own.pop("policy_class")(**own)
        self.mapping = _adapted(mapping, list(policies))

    def policy_of(self, agent: Any, episode: Life, mapping: Callable[[Any, Life], Any] | None = None) -> str:
        """The name of an agent's policy in an episode.

        Args:
            mapping: in the place of that of training.

        Raises:
            TypeError: the policy_mapping_fn gives no text.
            ValueError: the policy_mapping_fn names a policy that is not there.
        """
        name = _checked((mapping or self.mapping)(agent, episode), agent)
        if name not in self.policies:
            raise ValueError(
                f"The policy_mapping_fn gives {name!r} for agent {agent!r}, which is none of the policies: "
                f"{', '.join(self.policies)}."
            )
        return str(name)

    @property
    def filter(self) -> Filters:
        """The filters, by policy."""
        return Filters({name: policy.filter for name, policy in self.policies.items()})

    @filter.setter
    def filter(self, filters: dict[str, Any]) -> None:
        for name, found in filters.items():
            self.policies[name].filter = found

    def move_to(self, device: Any) -> None:
        """Move all models to a device."""
        for policy in self.policies.values():
            policy.move_to(device)

    def get_weights(self) -> dict[str, Any]:
        """The parameters of the models, by policy."""
        return {name: policy.get_weights() for name, policy in self.policies.items()}

    def set_weights(self, weights: dict[str, Any]) -> None:
        """Take parameters, by policy; policies that are not named keep theirs."""
        for name, found in weights.items():
            self.policies[name].set_weights(found)


def _adapted(mapping: Any, names: list[str]) -> Callable[[Any, Life], Any]:
    """The mapping as a function of agent and episode.  Former ones take the agent alone, or a worker too."""
    if mapping is None:
        return lambda agent, episode: agent if agent in names else names[0] if len(names) == 1 else DEFAULT
    parameters = inspect.signature(mapping).parameters.values()
    kinds = [each.kind for each in parameters]
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes_episode = len(positional) > 1 or inspect.Parameter.VAR_POSITIONAL in kinds
    takes_worker = any(each.name == "worker" for each in parameters) or inspect.Parameter.VAR_KEYWORD in kinds
    options = {"worker": None} if takes_worker else {}
    if takes_episode:
        return lambda agent, episode: mapping(agent, episode, **options)
    return lambda agent, episode: mapping(agent, **options)


def _checked(name: Any, agent: Any) -> Any:
    """Return the name that a policy_mapping_fn gives for an agent; None is left to a clearer error.

    Raises:
        TypeError: the name is no text.
    """
    if name is None or isinstance(name, str):
        return name
    raise TypeError(
        f"The policy_mapping_fn gives {name!r} ({type(name).__name__}) for agent {agent!r}, and names of policies are "
        f"texts: return {str(name)!r}, and name the policy so."
    )


def specs_of(policies: Any) -> dict[str, PolicySpec]:
    """The option `policies` as specifications by name.

    Args:
        policies: a dict of specifications, tuples (class, observation space, action space, config) or None; or names.

    Raises:
        TypeError: a name is no text, or a specification is of another kind.
    """
    if not policies:
        return {DEFAULT: PolicySpec()}
    if isinstance(policies, str):
        raise TypeError(f"The option policies is a list of names, or a dict: give [{policies!r}], not {policies!r}.")
    if others := [name for name in policies if not isinstance(name, str)]:
        raise TypeError(
            f"Names of policies are texts, and {others[0]!r} is {type(others[0]).__name__}: name it "
            f"{str(others[0])!r}, also in policy_mapping_fn."
        )
    if not isinstance(policies, dict):
        names = sorted(policies) if isinstance(policies, (set, frozenset)) else policies
        return {name: PolicySpec() for name in names}
    found = {}
    for name, spec in policies.items():
        if spec is None or isinstance(spec, PolicySpec):
            found[name] = spec or PolicySpec()
        elif isinstance(spec, (tuple, list)):
            found[name] = PolicySpec(*spec)
        else:
            raise TypeError(f"Policy {name!r} is a PolicySpec, a tuple or None, not {type(spec).__name__}.")
    return found


def spaces_of(name: str, spec: PolicySpec, env: Any, mapping: Callable[[Any, Life], Any]) -> tuple[Any, Any]:
    """The spaces of a policy: its own, else those of the agents that are mapped to it.

    Raises:
        ValueError: there are none.
    """
    observation, action = spec.observation_space, spec.action_space
    agents = env.get_agent_ids() if observation is None or action is None else []
    if (observation is None or action is None) and not agents:
        agents = list(reset_agents(env, 0)[0])
    mine = [agent for agent in agents if _checked(mapping(agent, Life(0, 0, 0)), agent) == name]
    for agent in mine or agents[:1]:
        observation = observation if observation is not None else env.get_observation_space(agent)
        action = action if action is not None else env.get_action_space(agent)
    if observation is None or action is None:
        raise ValueError(
            f"The spaces of policy {name!r} are not known: give PolicySpec(observation_space=..., action_space=...), "
            f"or give {type(env).__name__} observation_spaces and action_spaces, as dicts by agent."
        )
    return observation, action


def specs_with_spaces(specs: dict[str, PolicySpec], env: Any, mapping: Any) -> dict[str, PolicySpec]:
    """Specifications whose spaces are their own, else those of an environment, of several agents or of one."""
    found = {}
    adapted = _adapted(mapping, list(specs))
    for name, spec in specs.items():
        if hasattr(env, "get_agent_ids"):
            observation, action = spaces_of(name, spec, env, adapted)
        else:
            observation = spec.observation_space if spec.observation_space is not None else env.observation_space
            action = spec.action_space if spec.action_space is not None else env.action_space
        found[name] = PolicySpec(spec.policy_class, observation, action, spec.config)
    return found


class Member:
    """The learner of one policy: the algorithm over batches that are given to it."""

    team: Any
    given: list[Batch]

    @property
    def steps_sampled(self) -> int:
        """Steps of environments, of all policies."""
        return int(self.team.steps_sampled)

    def collect(self, steps: int) -> list[Batch]:
        """The batches of the policy, from the rollouts that all policies share."""
        return self.given


class SeveralAgents:
    """The parts of an algorithm that differ when there are several agents.

    PPO, for example, becomes a class that derives from SeveralAgents and PPO.
    """

    def make_policy(self: Any, env: Any, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The policies, and the options that make them again in other processes."""
        if not self.takes_agents:
            raise NotImplementedError(
                f"{type(self).__name__} has no environments of several agents yet: use PPO or DQN."
            )
        if config["batch_mode"] == "complete_episodes":
            reason = (
                "rollouts of several agents have a fixed length, and the value of the last state stands for the rest"
            )
            once("batch_mode", reason)
        if not hasattr(env, "get_agent_ids"):
            raise ValueError(
                "The options policies and policy_mapping_fn are for several agents, and the environment "
                f"{name_of(config['env'])} has one: leave them out, derive it from MultiAgentEnv, or wrap it by "
                "make_multi_agent."
            )
        specs = specs_of(config["policies"])
        mapping = config["policy_mapping_fn"]
        adapted = _adapted(mapping, list(specs))
        self.specs = specs
        policies = {}
        for name, spec in specs.items():
            observation_space, action_space = spaces_of(name, spec, env, adapted)
            policies[name] = {
                **self.options_of_policy(observation_space, action_space, self.config_of(name, config)),
                "policy_class": spec.policy_class or self.policy_class,
            }
        options = {"policies": policies, "mapping": mapping}
        made = PolicyMap(**options)
        for name, policy in made.policies.items():
            policy.algorithm_options = self.config_of(name, config)
            self.check_policy(policy)
        return made, {**options, "policy_class": PolicyMap}

    def config_of(self: Any, name: str, config: dict[str, Any]) -> dict[str, Any]:
        """The options of a policy."""
        own = translated(self.specs[name].config, config, f"PolicySpec of {name!r}", type(self).__name__)
        check_numbers({**config, **own}, f"policy {name!r}")
        for option in ("lr", "entropy_coeff"):
            if option in own:
                own.setdefault(f"{option}_schedule", None)  # its own number stands for the schedule of all policies
        model = {**config["model"], **(own.pop("model", None) or {})}
        return {**config, **own, "model": model}

    def setup_learner(self: Any, config: dict[str, Any]) -> None:
        """A learner for each policy that is trained."""
        wanted = config["policies_to_train"]
        names = list(self.specs)
        if callable(wanted):
            names = [name for name in names if wanted(name)]
        elif wanted is not None:
            unknown = set(wanted) - set(names)
            if unknown:
                raise ValueError(f"policies_to_train names {sorted(unknown)}; the policies are {', '.join(names)}.")
            names = [name for name in names if name in wanted]
        own = next(each for each in type(self).__mro__ if not issubclass(each, SeveralAgents))
        member_class: Any = type(own.__name__, (Member, own), {})
        self.members: dict[str, Any] = {}
        for number, name in enumerate(names):
            member = member_class.__new__(member_class)
            member.team, member.config, member.given = self, self.config_of(name, config), []
            member.policy, member.num_groups = self.policy.policies[name], self.num_groups
            member.rng = np.random.default_rng([config["seed"], 1_000_003, number])
            member.steps_per_rollout = self.steps_per_rollout
            if member.config.get("normalize_rewards"):
                raise NotImplementedError(
                    "zray.rllib does not have normalize_rewards of several agents yet: scale the rewards in the "
                    "environment."
                )
            member.setup_learner(member.config)
            self.members[name] = member

    def training_step(self: Any) -> dict[str, Any]:
        """A rollout with all policies, and the updates of each that is trained."""
        for member in self.members.values():
            member.before_rollout()
        steps = {member.steps_per_rollout for member in self.members.values()} or {self.steps_per_rollout}
        found = self.collect(max(steps))
        metrics = {}
        for name, member in self.members.items():
            member.given = [each.batches[name] for each in found if name in each.batches]
            if member.given:
                metrics[name] = member.training_step()
            member.given = []
        return metrics

    def learner_state(self: Any) -> dict[str, Any]:
        """The state that the learners need to go on exactly."""
        return {name: {"own": each.learner_state(), "rng": each.rng} for name, each in self.members.items()}

    def set_learner_state(self: Any, state: dict[str, Any]) -> None:
        """Go on from a state of `learner_state`."""
        for name, each in state.items():
            self.members[name].set_learner_state(each["own"])
            self.members[name].rng = each["rng"]

    @property
    def steps_trained(self: Any) -> int:
        """The steps in the batches of updates so far: of the policy with the most, where each draws its own."""
        return max(self._drawn(), default=int(self.steps_sampled))

    @property
    def agent_steps_trained(self: Any) -> int:
        """The same, of all policies."""
        return sum(self._drawn()) if self._drawn() else int(self.agent_steps_sampled)

    def _drawn(self: Any) -> list[int]:
        """The steps that each policy has drawn from its replay memory; empty: the policies have none."""
        return [vars(each)["steps_trained"] for each in self.members.values() if "steps_trained" in vars(each)]

    def _iterated(self: Any) -> dict[str, Any]:
        """Run an iteration; returns of policies are means over the agents of the last episodes."""
        result: dict[str, Any] = super()._iterated()  # type: ignore[misc]
        returns: dict[str, list[float]] = {}
        for episode in self.episodes:
            for name, values in (episode.policy_returns or {}).items():
                returns.setdefault(name, []).extend(values)
        add_policies(result, returns)
        return result

    def player(self: Any, options: dict[str, Any]) -> Any:
        """The player of the episodes of an evaluation."""
        return AgentsPlayer(self.policy, options, self.rng)

    def policy_ids(self: Any) -> list[str]:
        """The names of the policies."""
        return list(self.policy.policies)

    def get_policy(self: Any, policy_id: str = DEFAULT) -> Policy:
        """The policy of this name.

        Raises:
            ValueError: there is none.
        """
        policies: dict[str, Policy] = self.policy.policies
        if policy_id in policies:
            return policies[policy_id]
        if policy_id == DEFAULT and len(policies) == 1:
            return next(iter(policies.values()))
        raise ValueError(f"No policy is called {policy_id!r}; give policy_id=, one of {', '.join(policies)}.")


class AgentsPlayer:
    """The policies of an algorithm, which play the episodes of an evaluation.

    Args:
        policies: by name.
        options: of the evaluation.
        rng: draws actions, where they are drawn.
    """

    def __init__(self, policies: PolicyMap, options: dict[str, Any], rng: np.random.Generator) -> None:
        self.policies, self.explores, self.rng = policies, bool(options["explore"]), rng
        self.mapping = _adapted(options["policy_mapping_fn"], list(policies.policies))
        self.returns: dict[str, list[float]] = {}  # by policy, one for each of its agents in each episode

    def play(self, env: Any, seed: int, is_late: Callable[[], bool]) -> tuple[float, int] | None:
        """Return and length of an episode: the sum over agents.

        Args:
            is_late: asked at each step; True: None is returned, and the episode is given up.
        """
        observations, _ = reset_agents(env, seed)
        life, total, length, is_over = Life(seed, 0, 0), 0.0, 0, False
        names: dict[Any, str] = {}
        owners: dict[Any, Policy] = {}
        states: dict[Any, Any] = {}
        returns: dict[Any, float] = {}
        while not is_over:
            actions = {}
            for agent, observation in observations.items():
                if agent not in owners:
                    names[agent] = self.policies.policy_of(agent, life, self.mapping)
                    owners[agent] = self.policies.policies[names[agent]]
                    states[agent] = owners[agent].get_initial_state()
                found = owners[agent].act_with(observation, states[agent], self.explores, self.rng)
                actions[agent], states[agent], _ = found
            after, rewards, terminateds, truncateds, is_terminal, is_truncated, _ = step_agents(env, actions)
            observations = {
                agent: each for agent, each in after.items() if not (terminateds.get(agent) or truncateds.get(agent))
            }
            total += float(sum(rewards.values()))
            for agent, reward in rewards.items():
                returns[agent] = returns.get(agent, 0.0) + float(reward)
            length += 1
            is_over = is_terminal or is_truncated
            if not is_over and is_late():
                return None
        for agent, value in returns.items():
            name = names.get(agent) or self.policies.policy_of(agent, life, self.mapping)
            self.returns.setdefault(name, []).append(value)
        return total, length


_made: dict[type, type] = {}


def with_agents(algorithm_class: type) -> type:
    """The algorithm for several agents."""
    if algorithm_class not in _made:
        _made[algorithm_class] = type(algorithm_class.__name__, (SeveralAgents, algorithm_class), {})
    return _made[algorithm_class]
