"""SAC: soft actor-critic, for actions of Box spaces.

Haarnoja et al., "Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with a Stochastic Actor",
2018 (arXiv 1801.01290), and "Soft Actor-Critic Algorithms and Applications", 2018 (arXiv 1812.05905), Algorithm 1:

    for each iteration:
        for each environment step:
            a ~ pi(a|s; phi),  D = D + (s, a, r, s')
        for each gradient step:
            draw a minibatch from D
            y = r + gamma (min_i Q(s', a'; theta-_i) - alpha log pi(a'|s')),  a' ~ pi, or r at an end    equations 3, 5
            theta_i: descend (Q(s, a; theta_i) - y)^2 / 2,  i = 1, 2                                     equation 5
            phi:     descend alpha log pi(a|s) - min_i Q(s, a; theta_i),  a = f(noise; s)                equation 9
            alpha:   descend -alpha (log pi(a|s) + target entropy)                                       equation 18
            theta-_i = tau theta_i + (1 - tau) theta-_i

Details, from the papers unless named otherwise:

    twin Q          the smaller of two action values, against overestimation: section 5 of the second paper
    squashing       a = tanh(u), u normal, log pi(a|s) = log N(u) - sum log(1 - tanh(u)^2): appendix C
    log std         of each state; within [-20, 2]: the authors' code
    alpha           is learnt as its logarithm, which stands for alpha in the loss: the authors' code; `initial_alpha`
                    1, or fixed by `alpha`
    target entropy  -dim(A): appendix D
    networks        two hidden layers of 256, ReLU, Adam 3e-4, minibatches of 256, tau 0.005: appendix D
    weights         orthogonal, with a gain of 0.01 in the actor's last layer, so that the first means are small
    steps           `updates_per_iteration` gradient steps behind each rollout: one for each environment step
    first actions   uniform, for `learning_starts` steps: the authors' code
    truncation      a truncated episode is no end: y counts the value of its last state
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from torch import nn

from ...on_import import shadows
from ..algorithm import Algorithm
from ..config import NOT_GIVEN, AlgorithmConfig
from ..convolution import is_image
from ..networks import mlp
from ..policies import Policy
from ..replay import Replay, updates_of
from ..schedules import restore_optimizer, set_learning_rate
from ..updates import descend

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SAC", "SACConfig"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


class SACConfig(AlgorithmConfig):
    """Options of SAC, soft actor-critic: those of all algorithms, and of `training`.

    Args:
        algo_class: a subclass of SAC; None: SAC.

    Example:
        config = SACConfig().environment("Pendulum-v1").training(learning_starts=500)
        algo = config.build_algo()
    """

    defaults = {
        "num_groups": 1,
        "num_envs_per_env_runner": 1,
        "rollout_fragment_length": 8,
        "grad_clip": None,
        "lr_schedule": None,
        "lr_decay_steps": None,
        "model": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
        "tau": 0.005,
        "alpha": "auto",
        "initial_alpha": 1.0,
        "alpha_lr": None,
        "target_entropy": "auto",
        "capacity": 1_000_000,
        "learning_starts": 1_000,
        "train_batch_size": 256,
        "updates_per_iteration": 8,
        "training_intensity": None,
    }

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class or SAC)

    def training(
        self,
        *,
        gamma: float = NOT_GIVEN,
        lr: float | list[list[float]] | None = NOT_GIVEN,
        grad_clip: float | None = NOT_GIVEN,
        model: dict[str, Any] = NOT_GIVEN,
        lr_schedule: list[list[float]] | None = NOT_GIVEN,
        lr_decay_steps: int | None = NOT_GIVEN,
        tau: float = NOT_GIVEN,
        alpha: float | str = NOT_GIVEN,
        initial_alpha: float = NOT_GIVEN,
        alpha_lr: float | None = NOT_GIVEN,
        target_entropy: float | str = NOT_GIVEN,
        capacity: int = NOT_GIVEN,
        learning_starts: int = NOT_GIVEN,
        train_batch_size: int | None = NOT_GIVEN,
        updates_per_iteration: int = NOT_GIVEN,
        training_intensity: float | None = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the learner of SAC.

        Args:
            gamma: discount of rewards, for each step.  Default: 0.99.
            lr: learning rate; or a schedule, as `lr_schedule`.  Default: 0.0003.
            grad_clip: largest norm of the gradient; None: no limit.  Default: None.
            model: keys of the network, as on the page about models; keys that are not given stay.  Default:
                {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"}.
            lr_schedule: `[[steps, lr], ...]` in the place of `lr`, linear between its points; None: `lr` is constant.
                Default: None.
            lr_decay_steps: sampled steps in which `lr` goes down to 0; None: `lr` is constant.  Default: None.
            tau: share of the networks that the target networks take over in each update.  Default: 0.005.
            alpha: temperature: a fixed number; "auto": learnt.  Default: "auto".
            initial_alpha: temperature at the start, where it is learnt.  Default: 1.0.
            alpha_lr: learning rate of the temperature; None: `lr`.  Default: None.
            target_entropy: entropy to which the temperature leads; "auto": minus the size of an action.  Default:
                "auto".
            capacity: transitions of the replay memory.  Default: 1000000.
            learning_starts: sampled steps before the first update.  Default: 1000.
            train_batch_size: transitions of a minibatch.  Default: 256.
            updates_per_iteration: minibatches behind each rollout.  Default: 8.
            training_intensity: steps trained on for each sampled one, in the place of `updates_per_iteration`; None:
                not used.  Default: None.
        """
        return self._given("training", locals())


class Squashed:
    """Normal numbers squashed into (-1, 1) by tanh, and scaled to the bounds of the space for the environment.

    The parameters of an action are its means, and behind them its log standard deviations.
    """

    is_continuous = True

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise ValueError(
                f"SAC needs bounded actions, and the action space is {space}.  Bound them by a wrapper of the "
                "environment, such as gymnasium.wrappers.RescaleAction."
            )
        self.shape, self.low, self.high = space.shape, space.low, space.high
        self.outputs = int(np.prod(space.shape))

    def draw(self, parameters: np.ndarray, log_std: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions within (-1, 1).  The learner reads no log densities of old actions: they are 0 here."""
        means, logs = np.split(parameters, 2, -1)
        noise = rng.standard_normal(means.shape).astype(np.float32)
        return np.tanh(means + np.exp(logs) * noise), np.zeros(len(means), np.float32)

    def greedy(self, parameters: np.ndarray) -> np.ndarray:
        """The squashed means."""
        return np.tanh(np.split(parameters, 2, -1)[0])

    def to_environment(self, action: Any) -> Any:
        """An action as the environment takes it."""
        part = (np.reshape(action, self.shape) + 1.0) * 0.5
        found = np.clip(self.low + part * (self.high - self.low), self.low, self.high)
        return (np.rint(found) if np.issubdtype(self.low.dtype, np.integer) else found).astype(self.low.dtype)

    def from_environment(self, action: Any) -> Any:
        """An action of the environment as the distribution has it."""
        return (2.0 * (np.asarray(action) - self.low) / (self.high - self.low) - 1.0).ravel().astype(np.float32)

    @staticmethod
    def log_probability(parameters: torch.Tensor, log_std: Any, actions: torch.Tensor) -> torch.Tensor:
        """Log densities of actions within (-1, 1); those at the bounds count as close to them."""
        means, logs = parameters.chunk(2, -1)
        u = torch.atanh(actions.clamp(-1 + 1e-6, 1 - 1e-6))
        log_density = (-0.5 * ((u - means) / logs.exp()) ** 2 - logs - 0.5 * math.log(2 * math.pi)).sum(-1)
        log_slope = (2 * (math.log(2) - u - nn.functional.softplus(-2 * u))).sum(-1)
        return torch.as_tensor(log_density - log_slope)

    @staticmethod
    def sample(parameters: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """a = f(noise; s) and log pi(a|s), which can be differentiated.

        log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), which is exact for large u too.
        """
        means, logs = parameters.chunk(2, -1)
        u = means + logs.exp() * noise
        log_density = (-0.5 * noise**2 - logs - 0.5 * math.log(2 * math.pi)).sum(-1)
        log_slope = (2 * (math.log(2) - u - nn.functional.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), log_density - log_slope


class Actor(nn.Module):
    """pi: means and log standard deviations of a state."""

    def __init__(self, inputs: int, outputs: int, is_continuous: bool, model: dict[str, Any]) -> None:
        super().__init__()
        self.body = mlp([inputs, *model["fcnet_hiddens"], 2 * outputs], model["fcnet_activation"], 0.01)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The parameters of the actions; values are not known to the actor, and are 0."""
        means, logs = self.body(observations).chunk(2, -1)
        parameters = torch.cat([means, logs.clamp(LOG_STD_MIN, LOG_STD_MAX)], -1)
        return parameters, torch.zeros(len(observations))


class TwinQ(nn.Module):
    """Two action values."""

    def __init__(self, inputs: int, actions: int, model: dict[str, Any]) -> None:
        super().__init__()
        sizes = [inputs + actions, *model["fcnet_hiddens"], 1]
        self.first, self.second = (mlp(sizes, model["fcnet_activation"], 1.0) for _ in range(2))

    def forward(self, observations: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Q_1(s, a) and Q_2(s, a)."""
        rows = torch.cat([observations, actions], -1)
        return self.first(rows).squeeze(-1), self.second(rows).squeeze(-1)


class SACPolicy(Policy):
    """A policy with the actor pi as its model; its actions are uniform before the first update."""

    wants_next_observations = True

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: dict[str, Any],
        observation_filter: str = "NoFilter",
        **options: Any,
    ) -> None:
        if not isinstance(action_space, gymnasium.spaces.Box):
            other = "DQN" if isinstance(action_space, gymnasium.spaces.Discrete) else "PPO"
            raise NotImplementedError(
                f"SAC has actions of Box spaces, not of {type(action_space).__name__}: use {other} for these."
            )
        if is_image(observation_space, model):
            raise NotImplementedError(
                "SAC has no convolutions: flatten the images by a wrapper, such as gymnasium.wrappers."
                "FlattenObservation, or use PPO or DQN."
            )
        # The networks have numbers as actions, also where the environment has integers: these are rounded for it.
        low, high = np.asarray(action_space.low, np.float32), np.asarray(action_space.high, np.float32)
        numbers = gymnasium.spaces.Box(low, high, action_space.shape, np.float32)
        super().__init__(observation_space, numbers, model, observation_filter, Actor, **options)
        self.action_space = action_space
        self.distribution: Any = Squashed(action_space)
        self.is_uniform = False

    def draw(self, parameters: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        if self.is_uniform:
            shape = (len(parameters), self.distribution.outputs)
            return rng.uniform(-1.0, 1.0, shape).astype(np.float32), np.zeros(len(parameters), np.float32)
        return self.distribution.draw(parameters, None, rng)  # type: ignore[no-any-return]

    def get_weights(self) -> dict[str, np.ndarray]:
        return {**super().get_weights(), "is_uniform": np.array(self.is_uniform)}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        own = dict(weights)
        self.is_uniform = bool(own.pop("is_uniform", np.array(self.is_uniform)))
        super().set_weights(own)


class SAC(Algorithm):
    """Algorithm SAC, a trainable of Tune.  `SACConfig` has its options.

    Args:
        config, env, logger_creator: as of `Algorithm`.
    """

    config_class = SACConfig
    policy_class = SACPolicy
    takes_custom_models = False
    steps_trained = 0  # drawn from D
    unread_options = dict.fromkeys(
        ("normalize_actions", "clip_actions"), "actions of SAC are always scaled to the bounds of their space"
    )

    def setup_learner(self, config: dict[str, Any]) -> None:
        """Make the memory D, theta_1 and theta_2, theta-, alpha, and an Adam for each of theta, phi and alpha."""
        outputs = self.policy.distribution.outputs
        self.memory, self.steps_trained = Replay(config["capacity"], config["seed"]), 0
        self.q = TwinQ(self.policy.inputs, outputs, config["model"]).to(self.policy.device)
        self.target_q = copy.deepcopy(self.q).requires_grad_(False)
        # Pairs of theta- and theta, parameter by parameter.
        self.averages = list(zip(self.target_q.parameters(), self.q.parameters(), strict=True))
        self.is_alpha_learnt = config["alpha"] == "auto"
        start = config["initial_alpha"] if self.is_alpha_learnt else config["alpha"]
        self.log_alpha = torch.tensor(math.log(start), requires_grad=self.is_alpha_learnt, device=self.policy.device)
        wanted = config["target_entropy"]
        self.target_entropy = -float(outputs) if wanted == "auto" else float(wanted)
        lr = config["lr"]
        # One fused step takes a quarter of the time, where networks are small.
        self.actor_optimizer = torch.optim.Adam(self.policy.model.parameters(), lr=lr, fused=True)
        self.q_optimizer = torch.optim.Adam(self.q.parameters(), lr=lr, fused=True)
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=config["alpha_lr"] or lr)

    def training_step(self) -> dict[str, Any]:
        """An iteration of Algorithm 1 takes environment steps, then gradient steps."""
        config, policy = self.config, self.policy
        assert isinstance(policy, SACPolicy)
        policy.is_uniform = self.steps_sampled < config["learning_starts"]
        steps = 0
        for batch in self.collect(config["rollout_fragment_length"]):
            steps += batch.rewards.size
            assert batch.next_observations is not None
            rows = {
                "observations": batch.observations,
                "actions": batch.actions,
                "rewards": batch.rewards,
                "next_observations": batch.next_observations,
                "alive": 1.0 - batch.terminated,
            }
            self.memory.add({name: value.reshape(-1, *value.shape[2:]) for name, value in rows.items()})
        if self.steps_sampled < config["learning_starts"]:
            return {}
        optimizers = [self.actor_optimizer, self.q_optimizer]
        for optimizer in optimizers if config["alpha_lr"] else [*optimizers, self.alpha_optimizer]:
            set_learning_rate(optimizer, config, self.steps_sampled)
        totals: dict[str, float] = {}
        count = updates_of(config, steps)
        for _ in range(count):
            drawn = self.memory.draw(config["train_batch_size"])
            losses = self._update({name: policy.tensor(value) for name, value in drawn.items()})
            for key, value in losses.items():
                totals[key] = totals.get(key, 0.0) + value
        self.steps_trained += count * config["train_batch_size"]
        return {key: value / count for key, value in totals.items()}

    def _noise(self, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """Normal numbers of the learner's own, for one action of each row."""
        return self.policy.tensor(self.rng.standard_normal(rows["actions"].shape, dtype=np.float32))

    def _update(self, rows: dict[str, torch.Tensor]) -> dict[str, float]:
        """A gradient step for each of theta, phi and alpha, and one of theta- towards theta."""
        config, actor = self.config, self.policy.model
        observations, next_observations = rows["observations"], rows["next_observations"]
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            next_actions, next_log_p = Squashed.sample(actor(next_observations)[0], self._noise(rows))
            next_value = torch.min(*self.target_q(next_observations, next_actions)) - alpha * next_log_p
            y = rows["rewards"] + config["gamma"] * rows["alive"] * next_value
        first, second = self.q(observations, rows["actions"])
        q_loss = 0.5 * ((first - y) ** 2).mean() + 0.5 * ((second - y) ** 2).mean()
        self._step("q_loss", self.q_optimizer, q_loss, self.q)

        actions, log_p = Squashed.sample(actor(observations)[0], self._noise(rows))
        for _, parameter in self.averages:  # theta
            parameter.requires_grad = False  # the gradient goes through Q to the actions, and not into it
        actor_loss = (alpha * log_p - torch.min(*self.q(observations, actions))).mean()
        for _, parameter in self.averages:
            parameter.requires_grad = True
        self._step("actor_loss", self.actor_optimizer, actor_loss, actor)

        entropy = -log_p.detach().mean()
        if self.is_alpha_learnt:
            self._step("loss of alpha", self.alpha_optimizer, self.log_alpha * (entropy - self.target_entropy), None)

        with torch.no_grad():
            for old, new in self.averages:
                old.lerp_(new, config["tau"])
        return {
            "q_loss": float(q_loss.detach()),
            "actor_loss": float(actor_loss.detach()),
            "entropy": float(entropy),
            "alpha": float(alpha),
            "mean_q": float(first.detach().mean()),
        }

    def _step(self, name: str, optimizer: torch.optim.Optimizer, loss: torch.Tensor, module: Any) -> None:
        descend(optimizer, loss, {name: loss}, module, None if module is None else self.config["grad_clip"])

    def _modules(self) -> dict[str, Any]:
        return {
            "q": self.q,
            "target_q": self.target_q,
            "actor_optimizer": self.actor_optimizer,
            "q_optimizer": self.q_optimizer,
            "alpha_optimizer": self.alpha_optimizer,
        }

    def learner_state(self) -> dict[str, Any]:
        own = {name: module.state_dict() for name, module in self._modules().items()}
        facts = {"memory": self.memory.state(), "steps_trained": self.steps_trained}
        return {**own, **facts, "log_alpha": self.log_alpha.detach().clone()}

    def set_learner_state(self, state: dict[str, Any]) -> None:
        for name, module in self._modules().items():
            if isinstance(module, torch.optim.Optimizer):
                restore_optimizer(module, state[name])
            else:
                module.load_state_dict(state[name])
        with torch.no_grad():
            self.log_alpha.copy_(state["log_alpha"])
        self.memory.set_state(state["memory"])
        self.steps_trained = state.get("steps_trained", 0)  # absent in former checkpoints


shadows.name_absent(__name__)
