"""PPO: proximal policy optimisation.

Schulman et al., "Proximal Policy Optimization Algorithms", 2017 (arXiv 1707.06347), Algorithm 1, clipped objective:

    for iteration = 1, 2, ...:
        run the policy pi_old in N environments for T steps
        compute advantage estimates A_1, ..., A_T                          equations 11 and 12: GAE
        optimise L, with K epochs of minibatches of size M <= N T

    r(theta)  = pi(a|s) / pi_old(a|s)
    L         = L_clip - c1 L_vf + c2 S                                    equation 9
    L_clip    = mean of min(r A, clip(r, 1 - epsilon, 1 + epsilon) A)      equation 7
    L_vf      = (V(s) - V_target)^2 / 2, with V_target = A + V_old(s)      the half: the authors' code
    S         = entropy of pi
    KL        - beta KL(pi_old, pi), if `kl_coeff` > 0                     equation 8

The paper's letters are these options:

    N, T        `num_groups` times `num_envs_per_env_runner`; `rollout_fragment_length`, or `train_batch_size` / N
    K, M        `num_epochs`, `minibatch_size`: a number of steps, and the last minibatch has what is left
    epsilon     `clip_param`
    c1, c2      `vf_loss_coeff`, `entropy_coeff`
    beta        `kl_coeff` is its first value; it moves towards the divergence `kl_target`, once in an iteration

The metrics of an iteration are means over its minibatches, before each step of the optimiser:

    kl                  log pi_old(a|s) - log pi(a|s), over the actions that were taken.  This mean steers beta: above
                        twice `kl_target` beta grows by half, below half of it beta is halved.  The penalty itself has
                        the exact divergence
    clip_fraction       share of the ratios r outside of 1 - epsilon and 1 + epsilon
    explained_variance  of the targets, by the values of the rollout: 1 is all, 0 none, at least -1
    curr_kl_coeff       beta behind the iteration

Details beyond the paper, from the authors' code (openai/baselines, ppo2) unless named otherwise:

    advantages    mean 0 and deviation 1 in each minibatch
    weights       orthogonal: gain sqrt(2), of the last layer 0.01 for the policy and 1 for the value; networks.py
    networks      one for the policy and one for the value; over images they share the convolution
    Adam          epsilon 1e-5
    lr            goes down to 0 linearly, if `lr_decay_steps` is given; schedules.py
    gradient      its norm is at most `grad_clip`
    value         its change is clipped, if `vf_clip_param` is finite
    Box actions   normal, with deviations that no state changes; the environment alone gets them clipped
    observations  normalised and clipped, with `observation_filter="MeanStdFilter"`; filters.py
    rewards       divided by the deviation of the return, with `normalize_rewards`; reward_scale.py
    truncation    a truncated episode is no end: the value of its last state counts, unlike in ppo2; advantages.py
    LSTM          whole sequences, which begin with the states of the rollout; recurrent.py, sequences.py

No epoch is left out where the divergence is large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...on_import import shadows
from ...tune.registry import environment_creator
from ..algorithm import Algorithm
from ..config import NOT_GIVEN, AlgorithmConfig
from ..helpers import explained_variance
from ..reward_scale import RewardScale
from ..schedules import entropy_coeff_at, restore_optimizer, set_learning_rate
from ..sequences import minibatches_of, rows_of
from ..updates import descend

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["PPO", "PPOConfig"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []


class PPOConfig(AlgorithmConfig):
    """Options of PPO, proximal policy optimisation: those of all algorithms, and of `training`.

    Args:
        algo_class: a subclass of PPO; None: PPO.

    Example:
        config = PPOConfig().environment("CartPole-v1").training(lr=1e-3, train_batch_size=2_000)
        algo = config.build_algo()
    """

    defaults = {
        "lambda_": 0.95,
        "clip_param": 0.2,
        "num_epochs": 10,
        "minibatch_size": 128,
        "vf_loss_coeff": 0.5,
        "vf_clip_param": float("inf"),
        "entropy_coeff": 0.0,
        "entropy_coeff_schedule": None,
        "kl_coeff": 0.0,
        "kl_target": 0.01,
        "train_batch_size": None,
        "lr_schedule": None,
        "lr_decay_steps": None,
        "normalize_rewards": False,
    }

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class or PPO)

    def training(
        self,
        *,
        gamma: float = NOT_GIVEN,
        lr: float | list[list[float]] | None = NOT_GIVEN,
        grad_clip: float | None = NOT_GIVEN,
        model: dict[str, Any] = NOT_GIVEN,
        lambda_: float = NOT_GIVEN,
        clip_param: float = NOT_GIVEN,
        num_epochs: int = NOT_GIVEN,
        minibatch_size: int = NOT_GIVEN,
        vf_loss_coeff: float = NOT_GIVEN,
        vf_clip_param: float | None = NOT_GIVEN,
        entropy_coeff: float | list[list[float]] = NOT_GIVEN,
        entropy_coeff_schedule: list[list[float]] | None = NOT_GIVEN,
        kl_coeff: float = NOT_GIVEN,
        kl_target: float = NOT_GIVEN,
        train_batch_size: int | None = NOT_GIVEN,
        lr_schedule: list[list[float]] | None = NOT_GIVEN,
        lr_decay_steps: int | None = NOT_GIVEN,
        normalize_rewards: bool = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the learner of PPO.

        Args:
            gamma: discount of rewards, for each step.  Default: 0.99.
            lr: learning rate; or a schedule, as `lr_schedule`.  Default: 0.0003.
            grad_clip: largest norm of the gradient; None: no limit.  Default: 0.5.
            model: keys of the network, as on the page about models; keys that are not given stay.  Default:
                {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}.
            lambda_: lambda of GAE: 1 takes the rewards to the end of the rollout, 0 the next value alone.  Default:
                0.95.
            clip_param: epsilon: largest change of the ratio of probabilities that pays.  Default: 0.2.
            num_epochs: passes over the steps of an iteration.  Default: 10.
            minibatch_size: steps of a minibatch, at most those of an iteration.  Default: 128.
            vf_loss_coeff: weight of the loss of values.  Default: 0.5.
            vf_clip_param: largest change of a value in an iteration; inf or None: no limit.  Default: inf.
            entropy_coeff: weight of the bonus for entropy; or a schedule, as `entropy_coeff_schedule`.  Default: 0.0.
            entropy_coeff_schedule: `[[steps, weight], ...]` in the place of `entropy_coeff`; None: constant.  Default:
                None.
            kl_coeff: beta: first weight of the penalty on the divergence; 0: no penalty.  Default: 0.0.
            kl_target: divergence towards which beta is steered by the metric `kl`, the mean of an iteration, where
                there is a penalty.  Default: 0.01.
            train_batch_size: steps of an iteration, rounded down to rollouts of one length in all environments; None:
                as rollouts give.  Default: None.
            lr_schedule: `[[steps, lr], ...]` in the place of `lr`, linear between its points; None: `lr` is constant.
                Default: None.
            lr_decay_steps: sampled steps in which `lr` goes down to 0; None: `lr` is constant.  Default: None.
            normalize_rewards: whether rewards are divided by the deviation of the discounted return.  Default: False.
        """
        return self._given("training", locals())

    def validate(self) -> None:
        """Check that options fit together; a ValueError or a TypeError names a conflicting one."""
        super().validate()
        env = self.options["env"]
        # Another environment may have several agents, whose steps all count: the algorithm looks when it has made one.
        if isinstance(env, str) and ":" not in env and environment_creator(env) is None:
            check_minibatch(self.options, type(self))


def check_minibatch(options: dict[str, Any], config_class: type[PPOConfig]) -> None:
    """Refuse minibatches that are larger than the batch of one agent; the default size is cut to the batch.

    Raises:
        ValueError: the size is larger.
    """
    size = options["minibatch_size"]
    if size == config_class.defaults["minibatch_size"] or options["policies"]:
        return
    if options["batch_mode"] == "complete_episodes":  # a batch has the episodes' steps
        return
    envs, given = options["num_groups"] * options["num_envs_per_env_runner"], options["train_batch_size"]
    steps = max(given, envs) if given else envs * options["rollout_fragment_length"]
    if size > steps:
        why = "train_batch_size" if given else "num_groups * num_envs_per_env_runner * rollout_fragment_length"
        raise ValueError(
            f"The option 'minibatch_size' of {config_class.__name__} is at most the steps of an iteration, not {size}: "
            f"an iteration has {steps} ({why})."
        )


class PPO(Algorithm):
    """Algorithm PPO, a trainable of Tune.  `PPOConfig` has its options.

    Args:
        config, env, logger_creator: as of `Algorithm`.
    """

    config_class = PPOConfig
    takes_sequences = takes_agents = takes_losses = True

    def setup_learner(self, config: dict[str, Any]) -> None:
        """Make Adam, beta, and T where `train_batch_size` gives it."""
        self.optimizer = torch.optim.Adam(self.policy.model.parameters(), lr=config["lr"], eps=1e-5)
        self.kl_coeff, self.entropy_coeff = config["kl_coeff"], entropy_coeff_at(config, 0)
        self.reward_scale = RewardScale(config["gamma"]) if config["normalize_rewards"] else None
        if config["train_batch_size"]:
            envs = self.num_groups * config["num_envs_per_env_runner"]
            self.steps_per_rollout = max(1, config["train_batch_size"] // envs)

    def make_policy(self, env: Any, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the policy, as `Algorithm` does, of a batch that a minibatch fits in."""
        check_minibatch(config, self.config_class)
        return super().make_policy(env, config)

    def training_step(self) -> dict[str, Any]:
        """An iteration of Algorithm 1 gives metrics that are means over all minibatches of all epochs."""
        config = self.config
        set_learning_rate(self.optimizer, config, self.steps_sampled)
        self.entropy_coeff = entropy_coeff_at(config, self.steps_sampled)
        data = self._data()
        totals: dict[str, float] = {}
        count = 0
        for _ in range(config["num_epochs"]):
            for rows in self._minibatches(data):
                losses = self._update(rows)
                count += 1
                for key, value in losses.items():
                    totals[key] = totals.get(key, 0.0) + value
        metrics = {key: value / count for key, value in totals.items()}
        self._adapt_kl(metrics["kl"])
        explained = explained_variance(data["targets"].cpu().numpy(), data["old_values"].cpu().numpy())
        return {**metrics, "explained_variance": explained, "curr_kl_coeff": self.kl_coeff}

    def _data(self) -> dict[str, torch.Tensor]:
        """The rollouts of all groups, with advantages: a row for each step.

        Rollouts have the shape [T, N, ...], and rows [T N, ...].  Of a recurrent model, the rows of a sequence follow
        one another, and "lengths" and "state_0", "state_1"... have a row for each sequence.
        """
        config = self.config
        batches = self.collect(self.steps_per_rollout)
        if self.reward_scale is not None:
            self.reward_scale.observe([batch.rewards for batch in batches], [batch.ended for batch in batches])
            batches = [batch._replace(rewards=self.reward_scale(batch.rewards)) for batch in batches]
        columns: dict[str, list[np.ndarray]] = {}
        for batch in batches:
            order = None  # rows of a rollout in the order of its sequences
            if batch.sequences is not None:
                order = rows_of(batch.sequences, batch.rewards.shape[1])
                columns.setdefault("lengths", []).append(np.array([each.length for each in batch.sequences]))
                for number, states in enumerate(batch.states or []):
                    columns.setdefault(f"state_{number}", []).append(states)
            advantages, targets = batch.advantages(config["gamma"], config["lambda_"])
            for key, value in {
                "observations": batch.observations,
                "actions": batch.actions,
                "old_log_p": batch.log_probabilities,
                "old_parameters": batch.parameters,  # of the distribution: logits, or means
                "old_values": batch.values,
                "advantages": advantages,
                "targets": targets,
            }.items():
                rows = value.reshape(-1, *value.shape[2:])
                columns.setdefault(key, []).append(rows if order is None else rows[order])
        data = {key: self.policy.tensor(np.concatenate(parts)) for key, parts in columns.items()}
        log_std = getattr(self.policy.model, "log_std", None)
        if log_std is not None:  # the model is pi_old until the first update
            data["old_log_std"] = log_std.detach().clone().expand(len(data["advantages"]), -1)
        return data

    def _minibatches(self, data: dict[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
        """The minibatches of an epoch: all rows in random order; of a recurrent model, whole sequences."""
        size = self.config["minibatch_size"]
        if not self.policy.has_state:
            order = self.policy.tensor(self.rng.permutation(len(data["advantages"])))
            for places in order.split(size):
                yield {key: value[places] for key, value in data.items()}
            return
        for sequences, places_of_rows in minibatches_of(data["lengths"].cpu().numpy(), size, self.rng):
            yield {
                key: value[sequences if key == "lengths" or key.startswith("state_") else places_of_rows]
                for key, value in data.items()
            }

    def _update(self, rows: dict[str, torch.Tensor]) -> dict[str, float]:
        """Take a step of the optimiser on a minibatch."""
        config, distribution = self.config, self.policy.distribution
        epsilon, value_change_max = config["clip_param"], config["vf_clip_param"]
        parameters, values = self.policy.evaluate(rows)
        log_std: Any = getattr(self.policy.model, "log_std", None)  # None: actions are discrete
        log_ratio = distribution.log_probability(parameters, log_std, rows["actions"]) - rows["old_log_p"]
        ratio = torch.exp(log_ratio)
        advantages = rows["advantages"]
        if len(advantages) > 1:  # one has no standard deviation
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -torch.min(ratio * advantages, ratio.clamp(1 - epsilon, 1 + epsilon) * advantages).mean()
        value_error = (values - rows["targets"]) ** 2
        if value_change_max is not None and np.isfinite(value_change_max):
            change = (values - rows["old_values"]).clamp(-value_change_max, value_change_max)
            value_error = torch.max(value_error, (rows["old_values"] + change - rows["targets"]) ** 2)
        value_loss = 0.5 * value_error.mean()
        entropy = distribution.entropy(parameters, log_std).mean()
        loss = policy_loss + config["vf_loss_coeff"] * value_loss - self.entropy_coeff * entropy
        kl = -log_ratio.mean()  # an estimate by the actions that were taken; the penalty has the divergence itself
        clipped = ((ratio.detach() - 1.0).abs() > epsilon).float().mean()
        if self.kl_coeff:
            divergence = distribution.divergence(rows["old_parameters"], rows.get("old_log_std"), parameters, log_std)
            loss = loss + self.kl_coeff * divergence.mean()
        if getattr(self.policy.model, "changes_loss", False):
            loss = self.policy.model.custom_loss(loss, rows)
        parts = {"policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy, "kl": kl}
        descend(self.optimizer, loss, parts, self.policy.model, config["grad_clip"])
        return {
            "policy_loss": float(policy_loss.detach()),
            "vf_loss": float(value_loss.detach()),
            "entropy": float(entropy.detach()),
            "kl": float(kl.detach()),
            "clip_fraction": float(clipped),
        }

    def _adapt_kl(self, kl: float) -> None:
        """Change beta where the divergence is far from its target: section 4.

        The factors are those of Ray.  The paper doubles beta above 1.5 times the target, and halves it below 1 / 1.5.
        """
        if self.kl_coeff:
            if kl > 2.0 * self.config["kl_target"]:
                self.kl_coeff *= 1.5
            elif kl < 0.5 * self.config["kl_target"]:
                self.kl_coeff *= 0.5

    def learner_state(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "kl_coeff": self.kl_coeff, "reward_scale": self.reward_scale}

    def set_learner_state(self, state: dict[str, Any]) -> None:
        restore_optimizer(self.optimizer, state["optimizer"])
        self.kl_coeff = state["kl_coeff"]
        self.reward_scale = state.get("reward_scale")


shadows.name_absent(__name__)
