"""DQN: deep Q-learning with replay, in its papers' order.

Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015), Algorithm 1:

    with probability epsilon a random action, else argmax_a Q(s, a; theta)
    store (s, a, r, s') in the replay memory D
    draw a minibatch from D:  y = r + gamma max_a' Q(s', a'; theta-), or r at an end
    a gradient step on the Huber loss of y - Q(s, a; theta)
    every C steps: theta- = theta

With these, each an option:

    double_q     van Hasselt et al., 2016 (arXiv 1509.06461): a' is chosen by theta, and valued by theta-
    dueling      Wang et al., 2016 (arXiv 1511.06581): Q = V + A - mean A, equation 9
    n_step       Sutton 1988: the return of n steps, then the value; fewer steps at the end of a rollout
    prioritized  Schaul et al., 2016 (arXiv 1511.05952): replay.py
    D in actors  Horgan et al., 2018 (arXiv 1803.00933), Ape-X: `num_replay_buffer_shards`, replay_actors.py

Details, which are the paper's unless named otherwise:

    steps and updates  a rollout, then `updates_per_iteration` minibatches; by default 4 steps for each update
    C                  `target_network_update_freq`, in steps of environments, where the paper counts updates
    start              no update before `learning_starts` steps, which the policy itself takes
    epsilon            goes linearly from point to point of its schedule; a number is the same at all times
    Adam               in place of RMSProp; epsilon 1.5e-4: Hessel et al., 2018 (arXiv 1710.02298)
    gradient           its norm is at most `grad_clip`: 10 in openai/baselines
    beta               the exponent of the weights is fixed, where Schaul et al. raise it to 1
    truncation         a truncated episode is no end: y counts the value of its last state
    weights            orthogonal, as those of PPO
    images             an environment's wrapper skips and stacks frames; `clip_rewards` takes the signs of rewards
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from torch import nn

from ...on_import import shadows
from ..algorithm import Algorithm
from ..config import NOT_GIVEN, AlgorithmConfig
from ..masks import is_masked
from ..networks import features_of, mlp
from ..policies import Policy
from ..replay import PrioritizedReplay, Replay, n_step, updates_of
from ..replay_actors import ReplayActors
from ..schedules import restore_optimizer, set_learning_rate, value_at
from ..updates import descend

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DQN", "DQNConfig", "QNetwork"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []


class QNetwork(nn.Module):
    """Q: the values of all actions of an observation."""

    def __init__(self, inputs: int | tuple[int, ...], outputs: int, is_continuous: bool, model: dict[str, Any]) -> None:
        super().__init__()
        self.body, size = features_of(inputs, model)
        self.advantage = mlp([size, outputs], "linear", 1.0)  # without `dueling`, it is Q
        self.value = mlp([size, 1], "linear", 1.0) if model.get("dueling", True) else None

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Q for each action; and the largest one, as the value."""
        features = self.body(observations)
        q = self.advantage(features)
        if self.value is not None:
            q = self.value(features) + q - q.mean(-1, keepdim=True)
        return q, q.max(-1).values


class QPolicy(Policy):
    """An epsilon-greedy policy: the action of the largest Q, or a random one with probability epsilon.

    Epsilon belongs to the weights, so that rollouts in other processes have it.
    """

    wants_next_observations = True
    outputs_are_action_values = True

    def __init__(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], *args: Any, **kwargs: Any
    ) -> None:
        if not isinstance(action_space, gymnasium.spaces.Discrete):
            kind = type(action_space).__name__
            if isinstance(action_space, gymnasium.spaces.Box):
                raise ValueError(f"DQN has discrete actions only, and the action space is {kind}: use PPO or SAC.")
            raise NotImplementedError(f"DQN has one discrete action, and not those of {kind} yet: use PPO.")
        super().__init__(observation_space, action_space, *args, **{**kwargs, "make_model": QNetwork})
        self.epsilon = 1.0

    def draw(self, parameters: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        actions = parameters.argmax(-1)
        random_actions = rng.integers(parameters.shape[-1], size=len(actions))
        masked = is_masked(parameters)
        if masked.any():
            random_actions = np.where(masked, -1.0, rng.random(parameters.shape)).argmax(-1)
        actions = np.where(rng.random(len(actions)) < self.epsilon, random_actions, actions)
        return actions, np.zeros(len(actions), np.float32)

    def get_weights(self) -> dict[str, np.ndarray]:
        return {**super().get_weights(), "epsilon": np.array(self.epsilon)}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        own = dict(weights)
        self.epsilon = float(own.pop("epsilon", np.array(self.epsilon)))
        super().set_weights(own)


class DQNConfig(AlgorithmConfig):
    """Options of DQN, deep Q-learning: those of all algorithms, and of `training`.

    Args:
        algo_class: a subclass of DQN; None: DQN.

    Example:
        config = DQNConfig().environment("CartPole-v1").training(epsilon=[[0, 1.0], [5_000, 0.02]], capacity=20_000)
        algo = config.build_algo()
    """

    defaults = {
        "num_groups": 1,
        "num_envs_per_env_runner": 4,
        "rollout_fragment_length": 16,
        "lr": 5e-4,
        "lr_schedule": None,
        "lr_decay_steps": None,
        "grad_clip": 10.0,
        "double_q": True,
        "dueling": True,
        "n_step": 1,
        "prioritized": True,
        "prioritized_alpha": 0.6,
        "prioritized_beta": 0.4,
        "capacity": 50_000,
        "num_replay_buffer_shards": 0,
        "learning_starts": 1_000,
        "train_batch_size": 32,
        "updates_per_iteration": 16,
        "training_intensity": None,
        "target_network_update_freq": 500,
        "epsilon": [[0, 1.0], [10_000, 0.05]],
    }

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class or DQN)

    def training(
        self,
        *,
        gamma: float = NOT_GIVEN,
        lr: float | list[list[float]] | None = NOT_GIVEN,
        grad_clip: float | None = NOT_GIVEN,
        model: dict[str, Any] = NOT_GIVEN,
        lr_schedule: list[list[float]] | None = NOT_GIVEN,
        lr_decay_steps: int | None = NOT_GIVEN,
        double_q: bool = NOT_GIVEN,
        dueling: bool = NOT_GIVEN,
        n_step: int = NOT_GIVEN,
        prioritized: bool = NOT_GIVEN,
        prioritized_alpha: float = NOT_GIVEN,
        prioritized_beta: float = NOT_GIVEN,
        capacity: int = NOT_GIVEN,
        num_replay_buffer_shards: int = NOT_GIVEN,
        learning_starts: int = NOT_GIVEN,
        train_batch_size: int | None = NOT_GIVEN,
        updates_per_iteration: int = NOT_GIVEN,
        training_intensity: float | None = NOT_GIVEN,
        target_network_update_freq: int = NOT_GIVEN,
        epsilon: float | list[list[float]] = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the learner of DQN.

        Args:
            gamma: discount of rewards, for each step.  Default: 0.99.
            lr: learning rate; or a schedule, as `lr_schedule`.  Default: 0.0005.
            grad_clip: largest norm of the gradient; None: no limit.  Default: 10.0.
            model: keys of the network, as on the page about models; keys that are not given stay.  Default:
                {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}.
            lr_schedule: `[[steps, lr], ...]` in the place of `lr`, linear between its points; None: `lr` is constant.
                Default: None.
            lr_decay_steps: sampled steps in which `lr` goes down to 0; None: `lr` is constant.  Default: None.
            double_q: whether the network chooses the action that the target network values.  Default: True.
            dueling: whether the network adds a value of the state and advantages of actions.  Default: True.
            n_step: steps whose rewards stand in a target.  Default: 1.
            prioritized: whether transitions are drawn by the size of their errors; False: evenly.  Default: True.
            prioritized_alpha: exponent of the priorities.  Default: 0.6.
            prioritized_beta: exponent of the weights that correct for the priorities.  Default: 0.4.
            capacity: transitions of the replay memory.  Default: 50000.
            num_replay_buffer_shards: actors that hold the replay memory, as in Ape-X; 0: the learner holds it.
                Default: 0.
            learning_starts: sampled steps before the first update.  Default: 1000.
            train_batch_size: transitions of a minibatch.  Default: 32.
            updates_per_iteration: minibatches behind each rollout.  Default: 16.
            training_intensity: steps trained on for each sampled one, in the place of `updates_per_iteration`; None:
                not used.  Default: None.
            target_network_update_freq: sampled steps from one copy of the network to the next.  Default: 500.
            epsilon: share of random actions: a number, or a schedule `[[steps, share], ...]`.  Default: [[0, 1.0],
                [10000, 0.05]].
        """
        return self._given("training", locals())


class DQN(Algorithm):
    """Algorithm DQN, a trainable of Tune.  `DQNConfig` has its options.

    Args:
        config, env, logger_creator: as of `Algorithm`.
    """

    config_class = DQNConfig
    policy_class = QPolicy
    takes_agents = True
    steps_trained = 0  # drawn from D

    def setup(self, config: dict[str, Any]) -> None:
        config["model"]["dueling"] = config["dueling"]
        super().setup(config)

    def setup_learner(self, config: dict[str, Any]) -> None:
        """Make the memory D, theta- and Adam."""
        shards = config["num_replay_buffer_shards"]
        capacity, seed, alpha = -(-config["capacity"] // max(1, shards)), config["seed"], config["prioritized_alpha"]

        def make(shard: int) -> Replay:
            own = seed + 1_000_003 * shard  # each shard draws differently
            return PrioritizedReplay(capacity, own, alpha) if config["prioritized"] else Replay(capacity, own)

        self.memory: Any = ReplayActors(make, shards, config["capacity"]) if shards else make(0)
        self.target = copy.deepcopy(self.policy.model)
        self.optimizer = torch.optim.Adam(self.policy.model.parameters(), lr=config["lr"], eps=1.5e-4)
        self.target_age = 0  # steps of environments since theta- = theta
        self.steps_trained = 0

    def before_rollout(self) -> None:
        """Give the policy the epsilon of this rollout."""
        self.policy.epsilon = value_at(self.config["epsilon"], self.steps_sampled)

    def training_step(self) -> dict[str, Any]:
        """An iteration of Algorithm 1 adds a rollout to D, then takes gradient steps."""
        config, policy = self.config, self.policy
        self.before_rollout()
        steps = 0
        for batch in self.collect(self.steps_per_rollout):
            steps += batch.rewards.size
            returns, last_step, terminal, discounts = n_step(
                batch.rewards, batch.terminated, batch.ended, config["n_step"], config["gamma"]
            )
            assert batch.next_observations is not None
            envs = np.arange(batch.rewards.shape[1])
            rows = {
                "observations": batch.observations,
                "actions": batch.actions,
                "returns": returns,
                "next_observations": batch.next_observations[last_step, envs],
                "discounts": (discounts * (1.0 - terminal)).astype(np.float32),  # 0 at an end: y is r
            }
            self.memory.add({name: value.reshape(-1, *value.shape[2:]) for name, value in rows.items()})
        metrics: dict[str, float] = {"epsilon": policy.epsilon}
        if self.steps_sampled < config["learning_starts"]:
            return metrics
        set_learning_rate(self.optimizer, config, self.steps_sampled)
        last: dict[str, torch.Tensor] = {}
        count = updates_of(config, steps)
        for _ in range(count):
            last = self._update() or last
        self.steps_trained += count * config["train_batch_size"]
        metrics.update({name: float(value) for name, value in last.items()})
        self.target_age += steps
        if self.target_age >= config["target_network_update_freq"]:
            self.target.load_state_dict(policy.model.state_dict())
            self.target_age = 0
        return metrics

    def _update(self) -> dict[str, torch.Tensor]:
        """A gradient step on a minibatch of D."""
        config, policy, model = self.config, self.policy, self.policy.model
        rows = self.memory.draw(config["train_batch_size"], config["prioritized_beta"])
        if not rows:
            return {}  # all replay actors have just been replaced
        tensors = {name: self.policy.tensor(value) for name, value in rows.items()}
        with torch.no_grad():
            next_q, _ = policy.run(self.target, tensors["next_observations"])
            choosing_q = policy.run(model, tensors["next_observations"])[0] if config["double_q"] else next_q
            next_actions = choosing_q.argmax(-1, keepdim=True)
            y = tensors["returns"] + tensors["discounts"] * next_q.gather(-1, next_actions).squeeze(-1)
        q = policy.run(model, tensors["observations"])[0].gather(-1, tensors["actions"].unsqueeze(-1)).squeeze(-1)
        loss = (tensors["weights"] * torch.nn.functional.smooth_l1_loss(q, y, reduction="none")).mean()
        descend(self.optimizer, loss, {}, model, config["grad_clip"])
        self.memory.update(rows["places"], (q - y).detach().cpu().numpy())
        return {"loss": loss.detach(), "mean_q": q.detach().mean()}

    def cleanup(self) -> None:
        """End the actors, and close the environments."""
        super().cleanup()
        for each in (self, *getattr(self, "members", {}).values()):
            if isinstance(getattr(each, "memory", None), ReplayActors):
                each.memory.close()

    def learner_state(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.state_dict(),
            "target": self.target.state_dict(),
            "memory": self.memory.state(),
            "target_age": self.target_age,
            "steps_trained": self.steps_trained,
        }

    def set_learner_state(self, state: dict[str, Any]) -> None:
        restore_optimizer(self.optimizer, state["optimizer"])
        self.target.load_state_dict(state["target"])
        self.memory.set_state(state["memory"])
        self.target_age = state["target_age"]
        self.steps_trained = state.get("steps_trained", 0)  # absent in former checkpoints


shadows.name_absent(__name__)
