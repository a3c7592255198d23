"""ES: evolution strategies, in their paper's order.

Salimans et al., "Evolution Strategies as a Scalable Alternative to Reinforcement Learning", 2017 (arXiv 1703.03864),
Algorithm 2, parallelised evolution strategies:

    initialise n workers with known random seeds, and parameters theta_0
    for t = 0, 1, 2, ...:
        each worker i: sample e_i ~ N(0, I), compute the return F_i = F(theta_t + sigma e_i)
        send all scalars F_i to each worker
        reconstruct all perturbations e_j from the known seeds
        theta_(t+1) = theta_t + alpha 1 / (n sigma) sum of F_j e_j

The paper's letters are these options: sigma `noise_stdev`, alpha `stepsize` or `lr`, n `episodes_per_batch`.  A worker
is a process of `num_env_runners`, and plays several perturbations.

Details, with their sources:

    noise table         section 2.1: perturbations are slices of one block of noise, which processes share
    antithetic pairs    section 2.1, "mirrored sampling": e and -e; the two episodes of a pair begin with the same seed
    centred ranks       section 2.1, "fitness shaping": the ranks of the returns, from -0.5 to 0.5, stand for F
    weight decay        section 2.1: l2_coeff theta is subtracted from the gradient
    Adam, step 0.01     the authors' code (openai/evolution-strategies-starter), which leaves out 1 / sigma
    MeanStd filter      the same code: observations are normalised, and clipped to [-10, 10]
    noise on actions    the same code: a Box action gets normal noise of deviation 0.01
    sum of F_j e_j      a pair adds (F+ - F-) e to the sum; the sum is divided by the number of episodes n

Virtual batch normalisation (section 2.2) and a limit of steps that moves (section 2.1) are absent; `horizon` is fixed.

Beyond them: equal returns have equal ranks, where the authors' code ranks them by their place.  Options make it
augmented random search (Mania et al., 2018, arXiv 1803.07055): `return_proc_mode="reward_std"`, `top_directions`,
`optimizer="sgd"` with `momentum=0`, `l2_coeff=0`, and a linear policy.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..algorithm import Algorithm
from ..config import NOT_GIVEN, AlgorithmConfig
from ..env.multi_agent_env import MultiAgentEnv
from ..environments import name_of
from ..evolution import Evolution, Played, Vector
from ..groups import Episode
from ..lives import close_all
from ..schedules import restore_optimizer
from ..vector_policy import VectorPolicy

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ES", "ESConfig", "centred_ranks", "pair_weights"]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []

# Options of all algorithms that change nothing here, and the reason.
UNREAD: dict[str, str] = {
    "gamma": "ES does not discount returns",
    "grad_clip": "ES does not clip its estimate of the gradient",
    "clip_rewards": "ES has returns as they are",
    **dict.fromkeys(("batch_mode", "rollout_fragment_length"), "ES plays whole episodes"),
    **dict.fromkeys(("num_groups", "num_envs_per_env_runner"), "a process of ES plays one episode at a time"),
    "clip_actions": "ES clips Box actions to their bounds in any case",
    "disable_env_checking": "ES looks at each environment before its first episode",
    "num_gpus": "ES computes with numpy, on CPUs",
    "metrics_num_episodes_for_smoothing": "ES has report_length in its place",
}


class ESConfig(AlgorithmConfig):
    """Options of ES, evolution strategies: those of all algorithms, and of `training`.

    Args:
        algo_class: a subclass of ES; None: ES.

    Example:
        config = ESConfig().environment("CartPole-v1").training(noise_size=100_000, model={"fcnet_hiddens": []})
        algo = config.build_algo()
    """

    defaults = {
        "episodes_per_batch": 200,
        "train_batch_size": 0,
        "noise_stdev": 0.02,
        "stepsize": 0.01,
        "lr": None,
        "l2_coeff": 0.005,
        "optimizer": "adam",
        "momentum": 0.9,
        "noise_size": 25_000_000,
        "return_proc_mode": "centered_rank",
        "top_directions": None,
        "action_noise_std": 0.01,
        "eval_prob": 0.003,
        "horizon": None,
        "report_length": 100,
        "aggregation": "tree",
        "fan_in": 4,
        "observation_filter": "MeanStdFilter",
    }

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class or ES)

    def training(
        self,
        *,
        gamma: float = NOT_GIVEN,
        lr: float | list[list[float]] | None = NOT_GIVEN,
        grad_clip: float | None = NOT_GIVEN,
        model: dict[str, Any] = NOT_GIVEN,
        episodes_per_batch: int = NOT_GIVEN,
        train_batch_size: int | None = NOT_GIVEN,
        noise_stdev: float = NOT_GIVEN,
        stepsize: float = NOT_GIVEN,
        l2_coeff: float = NOT_GIVEN,
        optimizer: str = NOT_GIVEN,
        momentum: float = NOT_GIVEN,
        noise_size: int = NOT_GIVEN,
        return_proc_mode: str = NOT_GIVEN,
        top_directions: int | None = NOT_GIVEN,
        action_noise_std: float = NOT_GIVEN,
        eval_prob: float = NOT_GIVEN,
        report_length: int = NOT_GIVEN,
        aggregation: str = NOT_GIVEN,
        fan_in: int = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the learner of ES.

        Args:
            gamma: accepted for all algorithms; returns are not discounted.  Default: 0.99.
            lr: alpha: learning rate; None: `stepsize`.  Default: None.
            grad_clip: accepted for all algorithms; the estimate is not clipped.  Default: 0.5.
            model: keys of the network, as on the page about models; keys that are not given stay.  Default:
                {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}.
            episodes_per_batch: n: episodes of an iteration, two for each perturbation.  Default: 200.
            train_batch_size: steps of an iteration, at least.  Default: 0.
            noise_stdev: sigma: standard deviation of the perturbations.  Default: 0.02.
            stepsize: learning rate, where `lr` is None.  Default: 0.01.
            l2_coeff: weight decay.  Default: 0.005.
            optimizer: "adam" or "sgd".  Default: "adam".
            momentum: momentum of "sgd".  Default: 0.9.
            noise_size: numbers of the shared table of noise, 4 bytes each.  Default: 25000000.
            return_proc_mode: weights of returns: "centered_rank", "sign", or "reward_std" (divided by their
                deviation).  Default: "centered_rank".
            top_directions: perturbations that count, the best ones; None: all.  Default: None.
            action_noise_std: standard deviation of the noise on Box actions.  Default: 0.01.
            eval_prob: share of episodes without perturbation.  Default: 0.003.
            report_length: episodes of which results have the means.  Default: 100.
            aggregation: "tree": processes add up the noise among themselves; "flat": the program does.  Default:
                "tree".
            fan_in: parts that one node of the tree adds up.  Default: 4.
        """
        return self._given("training", locals())


def centred_ranks(returns: np.ndarray) -> np.ndarray:
    """The ranks of returns, from -0.5 to 0.5; equal ones share the mean of their ranks."""
    _, places, counts = np.unique(returns, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts + 1) / 2
    return (ranks[places.reshape(returns.shape)] / max(1, returns.size - 1) - 0.5).astype(np.float32)


def pair_weights(returns: np.ndarray, mode: str, top_directions: int | None) -> np.ndarray:
    """The weight of each pair's noise in the gradient.

    Args:
        returns: of shape [n, 2], for +noise and -noise.
        mode: "centered_rank"; "sign"; "reward_std": the returns divided by their standard deviation, as in ARS.
        top_directions: pairs that count, those with the largest return of the two; None: all.
    """
    used = np.arange(len(returns))
    if top_directions is not None:
        used = np.argsort(-returns.max(axis=1), kind="stable")[:top_directions]
    if mode == "centered_rank":
        shaped = centred_ranks(returns)[used]
    elif mode == "sign":
        shaped = np.sign(returns[used])
    elif mode == "reward_std":
        shaped = returns[used] / (returns[used].std() + 1e-8)
    else:
        raise ValueError(f'return_proc_mode is "centered_rank", "sign" or "reward_std", not {mode!r}.')
    weights: np.ndarray = np.zeros(len(returns), np.float32)
    weights[used] = (shaped[:, 0] - shaped[:, 1]) / (2 * len(used))
    return weights


class ES(Algorithm):
    """Algorithm ES, a trainable of Tune.  `ESConfig` has its options.

    Args:
        config, env, logger_creator: as of `Algorithm`.
    """

    config_class = ESConfig
    takes_custom_models = False
    unread_options = UNREAD

    def workers_of(self, config: dict[str, Any]) -> int:
        """The processes that play."""
        return int(config["num_env_runners"])

    def setup(self, config: dict[str, Any]) -> None:
        """Make the policy, the table of noise, the actors and the optimiser."""
        self.begin(config)
        self.check_model(config["model"])
        probe = self.probed(config)
        if config["policies"] or isinstance(probe, MultiAgentEnv):
            close_all([probe], name_of(config["env"]))
            raise NotImplementedError("ES has no environments of several agents yet: use PPO or DQN.")
        options = {
            "observation_space": probe.observation_space,
            "action_space": probe.action_space,
            "model": config["model"],
            "observation_filter": config["observation_filter"],
            "action_noise_std": config["action_noise_std"],
            "normalize_actions": config.get("normalize_actions", False),  # absent in former checkpoints
        }
        close_all([probe], name_of(config["env"]))
        self.policy: Any = VectorPolicy(**options)
        self.policy.algorithm_options = dict(config)
        self.check_unread(self.policy)
        if config["noise_size"] < self.policy.size:
            raise ValueError(
                f"noise_size is {config['noise_size']}, and the policy has {self.policy.size} parameters: give "
                "noise_size at least ten times as many."
            )
        self.rollouts: Any = Evolution(
            config["num_env_runners"],
            config["noise_size"],
            config["aggregation"],
            config["fan_in"],
            {
                "num_cpus": config["num_cpus_per_env_runner"],
                "num_gpus": config["num_gpus_per_env_runner"],
                "resources": config["custom_resources_per_env_runner"],
            },
            config["sample_timeout_s"],
            options,
            self.env,
            config["env_config"],
            config["seed"],
            {
                **{name: config[name] for name in ("noise_stdev", "horizon", "eval_prob")},
                "restarts": config.get("restart_failed_sub_environments", False),
            },
        )
        self.episodes = deque(maxlen=config["report_length"])
        self.updates = 0
        self.setup_learner(config)
        self._tell("on_algorithm_init")

    def setup_learner(self, config: dict[str, Any]) -> None:
        """theta_0, and the optimiser: it shares memory with the policy's vector."""
        self.policy.use(self.policy.initial(self.rng))
        self.theta = torch.nn.Parameter(torch.from_numpy(self.policy.theta))
        rate, decay = config["lr"] or config["stepsize"], config["l2_coeff"]
        if config["optimizer"] == "adam":
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam([self.theta], lr=rate, weight_decay=decay)
        elif config["optimizer"] == "sgd":
            self.optimizer = torch.optim.SGD([self.theta], lr=rate, momentum=config["momentum"], weight_decay=decay)
        else:
            raise ValueError(f'optimizer is "adam" or "sgd", not {config["optimizer"]!r}.')

    def training_step(self) -> dict[str, Any]:
        """Algorithm 2, one t."""
        config = self.config
        returns, unperturbed = self._returns()
        weights = pair_weights(returns, config["return_proc_mode"], config["top_directions"])
        gradient = self.rollouts.weighted_noise(self.updates, weights)
        before = self.policy.theta.copy()
        self.theta.grad = torch.from_numpy(-gradient)  # the optimiser descends
        self.optimizer.step()
        self.updates += 1
        norm = float(np.linalg.norm(self.policy.theta))
        metrics = {
            "weights_norm": norm,
            "grad_norm": float(np.linalg.norm(gradient)),
            "update_ratio": float(np.linalg.norm(self.policy.theta - before)) / max(norm, 1e-8),
            "perturbed_return_mean": float(returns.mean()),
            "perturbed_return_max": float(returns.max()),
        }
        if unperturbed:
            metrics["unperturbed_return_mean"] = float(np.mean(unperturbed))
        return metrics

    def _returns(self) -> tuple[np.ndarray, list[float]]:
        """F of all perturbations: rounds of `episodes_per_batch`, until `train_batch_size` steps are played."""
        pairs = max(1, self.config["episodes_per_batch"] // 2)
        vector = Vector(self.policy.theta, self.policy.filter)
        blocks: list[Played] = []
        count = steps = 0
        while not count or steps < self.config["train_batch_size"]:
            played = self.rollouts.play(vector, self.updates, range(count, count + pairs))
            blocks += played
            count += pairs
            steps += sum(int(block.lengths.sum()) + sum(length for _, length in block.unperturbed) for block in played)
        self.steps_sampled += steps
        self.policy.filter.merge([block.counted for block in blocks])
        for block in blocks:
            for total, length in zip(block.returns.ravel(), block.lengths.ravel(), strict=True):
                self.last_episodes.append(Episode(float(total), int(length), 0, self.updates, 0))
                self.episodes.append(self.last_episodes[-1])
        unperturbed = [total for block in blocks for total, _ in block.unperturbed]
        return np.concatenate([block.returns for block in blocks]), unperturbed

    def learner_state(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "updates": self.updates}

    def set_learner_state(self, state: dict[str, Any]) -> None:
        restore_optimizer(self.optimizer, state["optimizer"])
        self.updates = state["updates"]
