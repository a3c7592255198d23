"""A2C: advantage actor-critic, with the gradients of all environments in one step.

Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", 2016 (arXiv 1602.01783), its supplement, made
synchronous as in openai/baselines: the learner waits for the rollout of each environment and takes one step.

    repeat
        run the policy pi(a|s; theta) in N environments for T steps
        R = 0 behind a terminal state, else V(s_T)                             V of the last state at a truncation
        for t = T - 1, ..., 0:   R = r_t + gamma R
        optimise L = -log pi(a_t|s_t) A_t + c1 (R_t - V(s_t))^2 - c2 S          with A_t = R_t - V(s_t)

Details beyond the paper:

    lambda_ < 1   Schulman et al., 2016 (arXiv 1506.02438): advantages by GAE; 1 is the return of n steps above
    normalize     advantages of mean 0 and deviation 1 in each step; baselines and the paper do not normalise
    RMSProp       statistics over all environments, as the paper's shared ones: section 4; epsilon 1e-5: baselines
    grad_clip     the norm of the gradient is at most 0.5: baselines
    weights       orthogonal: baselines

The curve is the same for any number of processes: the rollouts are merged in the order of the groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..algorithm import Algorithm
from ..config import NOT_GIVEN, AlgorithmConfig
from ..schedules import entropy_coeff_at, restore_optimizer, set_learning_rate
from ..updates import descend

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["A2C", "A2CConfig"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []


class A2CConfig(AlgorithmConfig):
    """Options of A2C, advantage actor-critic: those of all algorithms, and of `training`.

    Args:
        algo_class: a subclass of A2C; None: A2C.

    Example:
        config = A2CConfig().environment("CartPole-v1").training(lr=1e-3)
        algo = config.build_algo()
    """

    defaults = {
        "rollout_fragment_length": 5,
        "lr": 7e-4,
        "lambda_": 1.0,
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.01,
        "entropy_coeff_schedule": None,
        "normalize_advantages": False,
        "updates_per_iteration": 25,
        "lr_schedule": None,
        "lr_decay_steps": None,
    }

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class or A2C)

    def training(
        self,
        *,
        gamma: float = NOT_GIVEN,
        lr: float | list[list[float]] | None = NOT_GIVEN,
        grad_clip: float | None = NOT_GIVEN,
        model: dict[str, Any] = NOT_GIVEN,
        lambda_: float = NOT_GIVEN,
        vf_loss_coeff: float = NOT_GIVEN,
        entropy_coeff: float | list[list[float]] = NOT_GIVEN,
        entropy_coeff_schedule: list[list[float]] | None = NOT_GIVEN,
        normalize_advantages: bool = NOT_GIVEN,
        updates_per_iteration: int = NOT_GIVEN,
        lr_schedule: list[list[float]] | None = NOT_GIVEN,
        lr_decay_steps: int | None = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the learner of A2C.

        Args:
            gamma: discount of rewards, for each step.  Default: 0.99.
            lr: learning rate; or a schedule, as `lr_schedule`.  Default: 0.0007.
            grad_clip: largest norm of the gradient; None: no limit.  Default: 0.5.
            model: keys of the network, as on the page about models; keys that are not given stay.  Default:
                {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}.
            lambda_: lambda of GAE: 1 takes the rewards to the end of the rollout, 0 the next value alone.  Default:
                1.0.
            vf_loss_coeff: weight of the loss of values.  Default: 0.5.
            entropy_coeff: weight of the bonus for entropy; or a schedule, as `entropy_coeff_schedule`.  Default: 0.01.
            entropy_coeff_schedule: `[[steps, weight], ...]` in the place of `entropy_coeff`; None: constant.  Default:
                None.
            normalize_advantages: whether advantages have mean 0 and deviation 1 in each update.  Default: False.
            updates_per_iteration: rollouts of an iteration, each with one gradient step.  Default: 25.
            lr_schedule: `[[steps, lr], ...]` in the place of `lr`, linear between its points; None: `lr` is constant.
                Default: None.
            lr_decay_steps: sampled steps in which `lr` goes down to 0; None: `lr` is constant.  Default: None.
        """
        return self._given("training", locals())


class A2C(Algorithm):
    """Algorithm A2C, a trainable of Tune.  `A2CConfig` has its options.

    Args:
        config, env, logger_creator: as of `Algorithm`.
    """

    config_class = A2CConfig

    def setup_learner(self, config: dict[str, Any]) -> None:
        """RMSProp, as the authors have it."""
        self.optimizer = torch.optim.RMSprop(self.policy.model.parameters(), lr=config["lr"], alpha=0.99, eps=1e-5)

    def training_step(self) -> dict[str, Any]:
        """Rollouts, `updates_per_iteration` of them, each with one step of the optimiser."""
        config = self.config
        count = config["updates_per_iteration"]
        totals: dict[str, float] = {}
        for _ in range(count):
            set_learning_rate(self.optimizer, config, self.steps_sampled)
            for key, value in self._update(self._data()).items():
                totals[key] = totals.get(key, 0.0) + value
        return {key: value / count for key, value in totals.items()}

    def _data(self) -> dict[str, torch.Tensor]:
        """The rollouts of all groups, with advantages, as rows."""
        config = self.config
        columns: dict[str, list[np.ndarray]] = {}
        for batch in self.collect(config["rollout_fragment_length"]):
            advantages, targets = batch.advantages(config["gamma"], config["lambda_"])
            for key, value in {
                "observations": batch.observations,
                "actions": batch.actions,
                "advantages": advantages,
                "targets": targets,
            }.items():
                columns.setdefault(key, []).append(value.reshape(-1, *value.shape[2:]))
        return {key: self.policy.tensor(np.concatenate(parts)) for key, parts in columns.items()}

    def _update(self, rows: dict[str, torch.Tensor]) -> dict[str, float]:
        """Take a step of the optimiser on all rows."""
        config, distribution = self.config, self.policy.distribution
        parameters, values = self.policy.evaluate(rows)
        log_std: Any = getattr(self.policy.model, "log_std", None)
        advantages = rows["advantages"]
        if config["normalize_advantages"]:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -(distribution.log_probability(parameters, log_std, rows["actions"]) * advantages).mean()
        value_loss = ((values - rows["targets"]) ** 2).mean()
        entropy = distribution.entropy(parameters, log_std).mean()
        entropy_coeff = entropy_coeff_at(config, self.steps_sampled)
        loss = policy_loss + config["vf_loss_coeff"] * value_loss - entropy_coeff * entropy
        parts = {"policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy}
        descend(self.optimizer, loss, parts, self.policy.model, config["grad_clip"])
        return {
            "policy_loss": float(policy_loss.detach()),
            "vf_loss": float(value_loss.detach()),
            "entropy": float(entropy.detach()),
        }

    def learner_state(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict()}

    def set_learner_state(self, state: dict[str, Any]) -> None:
        restore_optimizer(self.optimizer, state["optimizer"])
