"""The configuration of an algorithm, as a chain of methods."""

from __future__ import annotations

import copy
import difflib
from typing import Any

__all__ = ["AlgorithmConfig"]

# Which method owns an option; the first column of the table in the guide.
OWNERS: dict[str, tuple[str, ...]] = {
    "environment": ("env", "env_config", "clip_rewards", "observation_space", "action_space", "disable_env_checking"),
    "env_runners": (
        "num_env_runners",
        "num_envs_per_env_runner",
        "num_groups",
        "rollout_fragment_length",
        "observation_filter",
        "explore",
        "num_cpus_per_env_runner",
        "batch_mode",
        "sample_timeout_s",
    ),
    "training": ("gamma", "lr", "train_batch_size", "minibatch_size", "num_epochs", "grad_clip", "model"),
    "evaluation": ("evaluation_interval", "evaluation_duration"),
    "debugging": ("seed", "log_level"),
    "framework": ("framework",),
    "resources": ("num_gpus",),
    "callbacks": ("callbacks_class",),
    "fault_tolerance": ("restart_failed_env_runners", "max_num_env_runner_restarts"),
}
_ACCEPTED = ("api_stack", "learners", "reporting", "checkpointing", "experimental", "rl_module", "python_environment")


class AlgorithmConfig:
    """Options of an algorithm.  Methods return the configuration itself, so that they can be chained.

    Example:
        config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2).training(lr=3e-4)
        algo = config.build_algo()
    """

    algo_class: Any = None
    # Options of the algorithm beyond the common ones: name -> default.
    defaults: dict[str, Any] = {}

    def __init__(self, algo_class: Any = None) -> None:
        self.algo_class = algo_class or type(self).algo_class
        self.is_frozen = False
        self.options: dict[str, Any] = {
            "env": None,
            "env_config": {},
            "clip_rewards": False,
            "num_env_runners": 0,
            "num_envs_per_env_runner": 4,
            "num_groups": 2,
            "rollout_fragment_length": 128,
            "observation_filter": "NoFilter",
            "explore": True,
            "num_cpus_per_env_runner": 1,
            "gamma": 0.99,
            "lr": 3e-4,
            "grad_clip": 0.5,
            "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"},
            "evaluation_interval": 0,
            "evaluation_duration": 10,
            "seed": 0,
            "framework": "torch",
            "num_gpus": 0,
            **copy.deepcopy(type(self).defaults),
        }

    def _set(self, method: str, given: dict[str, Any]) -> AlgorithmConfig:
        if self.is_frozen:
            raise RuntimeError("The configuration is in use by an algorithm: change a copy, by config.copy().")
        for name, value in given.items():
            if name == "model":
                self.options["model"] = {**self.options["model"], **(value or {})}
            elif name in self.options or name in OWNERS.get(method, ()):
                self.options[name] = value
            else:
                raise TypeError(self._unknown(method, name))
        return self

    def _unknown(self, method: str, name: str) -> str:
        known = [*self.options, *(each for names in OWNERS.values() for each in names)]
        near = difflib.get_close_matches(name, known, 1)
        text = f"{type(self).__name__}.{method} has no option {name!r}."
        if near:
            owner = next((owner for owner, names in OWNERS.items() if near[0] in names), "training")
            text += f"  Near: {near[0]!r}, of {owner}()."
        return text

    def environment(self, env: Any = None, **options: Any) -> Any:
        """The environment: its id, class or registered name; `env_config`, `clip_rewards`."""
        return self._set("environment", {**({"env": env} if env is not None else {}), **options})

    def env_runners(self, **options: Any) -> Any:
        """Rollouts: actors, environments in a group, groups, steps of a rollout, filter."""
        return self._set("env_runners", options)

    def training(self, **options: Any) -> Any:
        """The learner: gamma, lr, model, and the options of the algorithm."""
        return self._set("training", options)

    def evaluation(self, **options: Any) -> Any:
        """Evaluation: the interval in iterations, and the number of episodes."""
        return self._set("evaluation", options)

    def debugging(self, **options: Any) -> Any:
        """The seed of everything that is drawn."""
        return self._set("debugging", options)

    def framework(self, framework: str = "torch", **ignored: Any) -> Any:
        """torch is the only framework."""
        del ignored
        if framework not in ("torch", None):
            raise ValueError(f'The framework is "torch", not {framework!r}.')
        return self

    def resources(self, **options: Any) -> Any:
        """Resources of the learner."""
        return self._set("resources", options)

    def update_from_dict(self, options: dict[str, Any]) -> Any:
        """Take options from a flat dict."""
        return self._set("training", options)

    def copy(self) -> Any:
        """A copy that can be changed."""
        other = copy.copy(self)
        other.options = copy.deepcopy(self.options)
        other.is_frozen = False
        return other

    def to_dict(self) -> dict[str, Any]:
        """The options, as a flat dict."""
        return copy.deepcopy(self.options)

    def build_algo(self) -> Any:
        """The algorithm."""
        if self.algo_class is None:
            raise ValueError(f"{type(self).__name__} names no algorithm: use the config of one, as PPOConfig.")
        return self.algo_class(self)

    build = build_algo

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.get("options", {})
        if name in options:
            return options[name]
        if name in _ACCEPTED:
            return lambda *args, **kwargs: self
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
