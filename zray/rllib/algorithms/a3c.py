"""A3C: asynchronous advantage actor-critic.

Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", 2016 (arXiv 1602.01783), its supplement, for each
of several workers:

    repeat
        theta' = theta                                                          weights of the learner
        run the policy pi(a|s; theta') for T steps
        R = 0 behind a terminal state, else V(s_T; theta')                      V of the last state at a truncation
        for t = T - 1, ..., 0:
            R = r_t + gamma R
            dtheta += grad of -log pi(a_t|s_t; theta') (R - V(s_t; theta')) + c1 (R - V(s_t; theta'))^2 - c2 S
        update theta by dtheta, asynchronously                                  a step down: RMSProp, shared statistics

The factor R - V of log pi is a number: no gradient goes through it.

The workers are actors, and the learner is this process.  The learner applies the gradient of the worker that is ready
first, by `zray.wait`, and gives that worker the new weights: one put for each version, which the worker reads in place.
A gradient is thus late by about as many versions as there are other workers: the metric `gradient_lag`.

Details:

    S             the bonus for the entropy of pi: section 4, after Williams and Peng, 1991
    c1, c2        `vf_loss_coeff`, `entropy_coeff`
    RMSProp       one set of statistics for all workers: section 4, "Shared RMSProp"; decay 0.99: section 8
    epsilon       1e-5, added to the root, where section 4 adds it below the root
    networks      one for pi and one for V; over images they share the convolution, as the paper's do
    lr            goes down to 0 linearly, if `lr_decay_steps` is given: section 8; or as `lr_schedule` says
    T             20 steps in the paper: section 8; 10 in Ray of 2018, as are lr 1e-4, grad_clip 40 and c2 0.01
    sums          losses are sums over the rollout, as in the pseudocode, and not means
    grad_clip     the worker bounds the norm of dtheta before it sends it
    lambda_ < 1   Schulman et al., 2016 (arXiv 1506.02438): advantages by GAE; 1 is R - V
    environments  `num_envs_per_env_runner` of them in a rollout; the paper has 1

The order in which gradients arrive is a matter of time: with more than one process the curve is not the same twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

import zray

from ..algorithm import Algorithm
from ..calls import Calls, fetched
from ..config import NOT_GIVEN, AlgorithmConfig
from ..groups import Batch, Episode
from ..rollouts import GroupHost
from ..schedules import entropy_coeff_at, restore_optimizer, set_learning_rate
from ..updates import NotFiniteError, check_gradients

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["A3C", "A3CConfig"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []

# The fork server imports torch once for the later actors of a session.
IS_PRELOADED = "zray.rllib.rollouts"


class A3CConfig(AlgorithmConfig):
    """Options of A3C, asynchronous advantage actor-critic: those of all algorithms, and of `training`.

    Args:
        algo_class: a subclass of A3C; None: A3C.

    Example:
        config = A3CConfig().environment("CartPole-v1").env_runners(num_env_runners=4)
        algo = config.build_algo()
    """

    defaults = {
        "num_groups": 4,
        "num_envs_per_env_runner": 1,
        "rollout_fragment_length": 10,
        "lr": 1e-4,
        "grad_clip": 40.0,
        "lambda_": 1.0,
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.01,
        "entropy_coeff_schedule": None,
        "grads_per_step": 100,
        "lr_schedule": None,
        "lr_decay_steps": None,
    }

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class or A3C)

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
        grads_per_step: int = NOT_GIVEN,
        lr_schedule: list[list[float]] | None = NOT_GIVEN,
        lr_decay_steps: int | None = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the learner of A3C.

        Args:
            gamma: discount of rewards, for each step.  Default: 0.99.
            lr: learning rate; or a schedule, as `lr_schedule`.  Default: 0.0001.
            grad_clip: largest norm of the gradient; None: no limit.  Default: 40.0.
            model: keys of the network, as on the page about models; keys that are not given stay.  Default:
                {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}.
            lambda_: lambda of GAE: 1 takes the rewards to the end of the rollout, 0 the next value alone.  Default:
                1.0.
            vf_loss_coeff: weight of the loss of values.  Default: 0.5.
            entropy_coeff: weight of the bonus for entropy; or a schedule, as `entropy_coeff_schedule`.  Default: 0.01.
            entropy_coeff_schedule: `[[steps, weight], ...]` in the place of `entropy_coeff`; None: constant.  Default:
                None.
            grads_per_step: gradients of an iteration.  Default: 100.
            lr_schedule: `[[steps, lr], ...]` in the place of `lr`, linear between its points; None: `lr` is constant.
                Default: None.
            lr_decay_steps: sampled steps in which `lr` goes down to 0; None: `lr` is constant.  Default: None.
        """
        return self._given("training", locals())


class Gradient(NamedTuple):
    """The answer of a worker: dtheta, and the facts of the rollout.

    parts: the gradient of each parameter of the model, in its order.  steps: of the rollout.  counted: what the filter
    has seen.  num_failed: environments that failed and were made anew.
    """

    parts: list[np.ndarray]
    steps: int
    episodes: list[Episode]
    counted: Any
    metrics: dict[str, float]
    num_failed: int = 0


class GradientHost(GroupHost):
    """A worker: some groups of environments, run in turn.  A worker that has died starts again with new groups."""

    actor_options = {"max_restarts": -1, "max_task_retries": -1}

    def gradient(self, weights: dict[str, Any], observation_filter: Any, turn: int, config: dict[str, Any]) -> Gradient:
        """The gradient of one rollout, by the loop of the pseudocode.

        Args:
            weights, observation_filter: of the learner: theta.
            turn: how many gradients this worker has given; its groups follow one another.
            config: the options that rollout and loss need.
        """
        self.policy.set_weights(weights)
        self.policy.filter = observation_filter
        group = self.groups[turn % len(self.groups)]
        batch = group.rollout(self.policy, config["rollout_fragment_length"], config["clip_rewards"])
        loss, metrics = self._loss(batch, config)
        model = self.policy.model
        model.zero_grad()
        for name, value in {**metrics, "loss": loss.item()}.items():
            if not math.isfinite(value):
                raise NotFiniteError(f"The {name} of worker {self.worker_index} is {value}, and no weight has changed.")
        loss.backward()
        check_gradients(list(model.parameters()), model, config["grad_clip"])
        parts = [np.zeros(p.shape, np.float32) if p.grad is None else p.grad.numpy() for p in model.parameters()]
        return Gradient(parts, batch.rewards.size, batch.episodes, batch.counted, metrics, batch.num_failed)

    def _loss(self, batch: Batch, config: dict[str, Any]) -> tuple[torch.Tensor, dict[str, float]]:
        """Return the loss with the gradient dtheta, and the loss's parts, as means."""
        distribution, model = self.policy.distribution, self.policy.model
        # By GAE with lambda 1, the targets are R, and the advantages R - V.
        rollout = (batch.observations, batch.actions, *batch.advantages(config["gamma"], config["lambda_"]))
        observations, actions, advantages, returns = (
            torch.from_numpy(value.reshape(-1, *value.shape[2:])) for value in rollout
        )
        parameters, values = self.policy.evaluate({"observations": observations})
        log_std: Any = getattr(model, "log_std", None)
        policy_loss = -(distribution.log_probability(parameters, log_std, actions) * advantages).sum()
        value_loss = ((values - returns) ** 2).sum()
        entropy = distribution.entropy(parameters, log_std).sum()
        loss = policy_loss + config["vf_loss_coeff"] * value_loss - config["entropy_coeff"] * entropy
        losses = {"policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy}
        return loss, {key: float(value.detach()) / len(returns) for key, value in losses.items()}


class A3C(Algorithm):
    """Algorithm A3C, a trainable of Tune.  `A3CConfig` has its options.

    Args:
        config, env, logger_creator: as of `Algorithm`.
    """

    config_class = A3CConfig
    host_class = GradientHost

    def setup(self, config: dict[str, Any]) -> None:
        config["num_groups"] = max(config["num_groups"], config["num_env_runners"])  # a group for each worker
        super().setup(config)

    def setup_learner(self, config: dict[str, Any]) -> None:
        """Make the shared RMSProp: its statistics are in the learner."""
        self.optimizer = torch.optim.RMSprop(self.policy.model.parameters(), lr=config["lr"], alpha=0.99, eps=1e-5)
        self.gradients = 0  # applied
        names = ("rollout_fragment_length", "clip_rewards", "gamma", "lambda_", "vf_loss_coeff", "grad_clip")
        self.loss_options = {name: config[name] for name in names}

    def training_step(self) -> dict[str, Any]:
        """Apply `grads_per_step` gradients in an iteration, each as soon as ready."""
        count = self.config["grads_per_step"]
        self.totals: dict[str, float] = {}
        if self.rollouts.host is not None:
            for _ in range(count):
                weights, turn = self.policy.get_weights(), self.gradients
                gradient = self.rollouts.host.gradient(weights, self.policy.filter, turn, self._options_now())
                self._apply(gradient, 0)
        else:
            self._by_workers(count)
        return {key: value / count for key, value in self.totals.items()}

    def _options_now(self) -> dict[str, Any]:
        """The options of a gradient."""
        return {**self.loss_options, "entropy_coeff": entropy_coeff_at(self.config, self.steps_sampled)}

    def _by_workers(self, count: int) -> None:
        """Apply the gradient of any ready worker, and give the worker the new weights.

        No gradient is under way at the end, so that evaluation and checkpoints see all of them.
        """
        started = self.gradients
        last = started + count
        weights = zray.put(self.policy.get_weights())
        actors = self.rollouts.actors
        calls = Calls(actors, self.rollouts.timeout_s, self.rollouts.started)
        version_of: dict[int, int] = {}  # worker -> the version of the weights that it was given
        idle = list(range(len(actors)))
        while started < last or calls:
            for worker in idle[: last - started]:
                turn = started // len(actors)
                ref = actors[worker].gradient.remote(weights, self.policy.filter, turn, self._options_now())
                calls.add(ref, worker)
                version_of[worker] = self.gradients
                started += 1
            idle = []
            for ref, worker in calls.wait():
                self._apply(fetched(ref), self.gradients - version_of[worker])
                idle.append(worker)
            if started < last:
                weights = zray.put(self.policy.get_weights())

    def _apply(self, gradient: Gradient, lag: int) -> None:
        """A step of the optimiser by the gradient of a worker."""
        config = self.config
        set_learning_rate(self.optimizer, config, self.steps_sampled)
        for parameter, part in zip(self.policy.model.parameters(), gradient.parts, strict=True):
            parameter.grad = torch.from_numpy(np.array(part))
        self.optimizer.step()
        self.gradients += 1
        self.policy.filter.merge([gradient.counted])
        self.episodes.extend(gradient.episodes)
        self.last_episodes.extend(gradient.episodes)
        self.steps_sampled += gradient.steps
        self.num_failed += gradient.num_failed
        for key, value in {**gradient.metrics, "gradient_lag": lag}.items():
            self.totals[key] = self.totals.get(key, 0.0) + value

    def learner_state(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "gradients": self.gradients}

    def set_learner_state(self, state: dict[str, Any]) -> None:
        restore_optimizer(self.optimizer, state["optimizer"])
        self.gradients = state["gradients"]
