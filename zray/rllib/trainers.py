"""The classes and configurations that programs of 2018 to 2022 name: PPOAgent, PPOTrainer, DEFAULT_CONFIG.

`PPOAgent` has the defaults of 2018, and `PPOTrainer` is `PPO`.  So it is for each algorithm of the registry.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from . import spellings
from .doors import ALGORITHMS

__all__ = ["DEFAULTS_2018", "build_trainer", "get_agent_class", "with_common_config"]

_MODEL_2018 = {"fcnet_hiddens": [256, 256], "fcnet_activation": "tanh"}
_A3C_2018: dict[str, Any] = {
    "num_workers": 4,
    "batch_size": 10,
    "gamma": 0.99,
    "lambda": 1.0,
    "grad_clip": 40.0,
    "lr": 1e-4,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": -0.01,
    "observation_filter": "NoFilter",
    "model": _MODEL_2018,
}

# The defaults of version 0.3, in the spelling of that year.
DEFAULTS_2018: dict[str, dict[str, Any]] = {
    "A2C": _A3C_2018,
    "A3C": {**_A3C_2018, "optimizer": {"grads_per_step": 100}},
    "DQN": {
        "dueling": True,
        "double_q": True,
        "gamma": 0.99,
        "schedule_max_timesteps": 100_000,
        "timesteps_per_iteration": 1_000,
        "exploration_fraction": 0.1,
        "exploration_final_eps": 0.02,
        "learning_starts": 1_000,
        "target_network_update_freq": 500,
        "buffer_size": 50_000,
        "prioritized_replay": True,
        "prioritized_replay_alpha": 0.6,
        "prioritized_replay_beta": 0.4,
        "lr": 5e-4,
        "sample_batch_size": 1,
        "num_envs_per_worker": 1,
        "updates_per_iteration": 1,
        "train_batch_size": 32,
        "grad_norm_clipping": 10.0,
        "model": {"fcnet_hiddens": [256, 256, 256], "fcnet_activation": "tanh"},
    },
    "ES": {
        "l2_coeff": 0.005,
        "noise_stdev": 0.02,
        "episodes_per_batch": 1_000,
        "eval_prob": 0.003,
        "return_proc_mode": "centered_rank",
        "num_workers": 10,
        "stepsize": 0.01,
        "observation_filter": "MeanStdFilter",
    },
    "PPO": {
        "gamma": 0.995,
        "horizon": 2_000,
        "lambda": 1.0,
        "kl_coeff": 0.2,
        "kl_target": 0.01,
        "num_sgd_iter": 30,
        "sgd_stepsize": 5e-5,
        "sgd_batchsize": 128,
        "vf_loss_coeff": 1.0,
        "entropy_coeff": 0.0,
        "clip_param": 0.3,
        "grad_clip": None,
        "observation_filter": "MeanStdFilter",
        "timesteps_per_batch": 4_000,
        "num_workers": 5,
        "model": _MODEL_2018,
    },
}

# Spellings of the middle, from 2019 to 2022, for the options of today that were renamed since.
MIDDLE = {
    "num_env_runners": "num_workers",
    "num_envs_per_env_runner": "num_envs_per_worker",
    "num_cpus_per_env_runner": "num_cpus_per_worker",
    "num_gpus_per_env_runner": "num_gpus_per_worker",
    "custom_resources_per_env_runner": "custom_resources_per_worker",
    "minibatch_size": "sgd_minibatch_size",
    "num_epochs": "num_sgd_iter",
    "lambda_": "lambda",
    "capacity": "buffer_size",
    "prioritized": "prioritized_replay",
    "prioritized_alpha": "prioritized_replay_alpha",
    "prioritized_beta": "prioritized_replay_beta",
}


def _in_the_middle(options: dict[str, Any]) -> dict[str, Any]:
    return {MIDDLE.get(name, name): value for name, value in options.items()}


@functools.cache  # one for each algorithm
def agent_class(name: str) -> Any:
    """The class of an algorithm with the defaults of 2018."""
    own = trainer_class(name)

    def __init__(
        self: Any, config: Any = None, env: Any = None, registry: Any = None, logger_creator: Any = None, **kwargs: Any
    ) -> None:
        own.__init__(self, config, env, logger_creator, **kwargs)

    def configured(cls: Any, options: dict[str, Any]) -> Any:
        made = own.config_class(cls)
        known = DEFAULTS_2018.get(name, {})
        if name == "ES":  # its options have no rows in the table of spellings
            known = {key: value for key, value in known.items() if key in made}
        return made.update_from_dict(known).update_from_dict(options)

    facts = {
        "__init__": __init__,
        "configured": classmethod(configured),
        "__module__": __name__,
        "__doc__": f"{name} with the defaults of 2018.",
    }
    return type(f"{name}Agent", (own,), facts)


def trainer_class(name: str) -> Any:
    """The class of an algorithm.

    Raises:
        NotImplementedError: the algorithm is not there yet.
    """
    from .algorithms.registry import get_algorithm_class

    try:
        return get_algorithm_class(name)
    except ValueError:
        from ..ray_names import absent

        row = f"zray.rllib.algorithms.{name.lower()}"
        if row not in absent.NAMES:
            raise
        raise absent.not_built(absent.NAMES, row, f"the algorithm {name}") from None


def get_agent_class(alg: str) -> Any:
    """The class of an algorithm with the defaults of 2018."""
    return agent_class(alg)


def with_common_config(extra_config: dict[str, Any]) -> dict[str, Any]:
    """The options of all algorithms, with some of a program's own."""
    return {**_in_the_middle(spellings.common_defaults()), **extra_config}


def build_trainer(*args: Any, **kwargs: Any) -> Any:
    """A trainer of parts: not there.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "zray does not have build_trainer yet.  Derive a class from zray.rllib.algorithms.algorithm.Algorithm, and "
        "define setup_learner and training_step."
    )


@functools.cache  # a few names for each algorithm
def _found(attribute: str) -> Any:
    if attribute == "COMMON_CONFIG":
        return with_common_config({})
    for name in ALGORITHMS.values():
        if attribute == f"{name}Agent":
            return agent_class(name)
        if attribute == f"{name}Trainer":
            return trainer_class(name)
        if attribute == f"{name}Config":
            return trainer_class(name).config_class
        if attribute == f"{name}_DEFAULTS":
            return _in_the_middle(trainer_class(name).config_class().to_dict())
        if attribute == f"{name}_DEFAULTS_2018":
            trainer_class(name)
            return copy.deepcopy({**DEFAULTS_2018.get(name, {}), "env_config": {}})
    return None


def __getattr__(attribute: str) -> Any:
    found = _found(attribute)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
    return found
