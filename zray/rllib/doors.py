"""Modules that programs of 2018 to today import from RLlib, and that hold names of other modules here: a table.

2018         zray.rllib.ppo, zray.rllib.agent; PPOAgent, DEFAULT_CONFIG; with the defaults of that year
the middle   zray.rllib.agents.ppo; PPOTrainer, DEFAULT_CONFIG; with the defaults of `PPOConfig`
today        zray.rllib.algorithms.ppo; PPO, PPOConfig

An algorithm is found by its name in `algorithms/registry.py`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ALGORITHMS", "MODULES", "install", "names_of"]

# Algorithms by the name of their module.
ALGORITHMS = {"a2c": "A2C", "a3c": "A3C", "dqn": "DQN", "es": "ES", "ppo": "PPO", "sac": "SAC"}

_CALLBACKS = {
    name: f"callbacks:{name}"
    for name in ("DefaultCallbacks", "RLlibCallback", "MemoryTrackingCallbacks", "make_multi_callbacks")
}
_EVALUATION = {
    "Episode": "callbacks:LiveEpisode",
    "EpisodeV2": "callbacks:LiveEpisode",
    "MultiAgentEpisode": "callbacks:LiveEpisode",
    "SingleAgentEpisode": "callbacks:LiveEpisode",
    "RolloutWorker": "groups:Group",
    "EnvRunner": "groups:Group",
    "SingleAgentEnvRunner": "groups:Group",
    "WorkerSet": "rollouts:Rollouts",
    **{name: f"postprocessing:{name}" for name in ("Postprocessing", "compute_advantages", "discount_cumsum")},
    "SampleBatch": "policy.sample_batch:SampleBatch",
    "MultiAgentBatch": "policy.sample_batch:MultiAgentBatch",
    "PolicyEvaluator": "groups:Group",
    "PolicyGraph": "policies:Policy",
}
_ENVIRONMENTS = {
    "BaseEnv": "callbacks:BaseEnv",
    "EnvContext": "environments:EnvContext",
    "MultiAgentEnv": "env.multi_agent_env:MultiAgentEnv",
    "PettingZooEnv": "env.wrappers.pettingzoo_env:PettingZooEnv",
    "ParallelPettingZooEnv": "env.wrappers.pettingzoo_env:ParallelPettingZooEnv",
    **_EVALUATION,
}
_REGISTRY = {
    name: f"algorithms.registry:{name}" for name in ("get_algorithm_class", "get_trainer_class", "get_agent_class")
}
_HELPERS = {
    name: f"helpers:{name}"
    for name in (
        "Deprecated",
        "DeveloperAPI",
        "ExperimentalAPI",
        "OldAPIStack",
        "OverrideToImplementCustomLogic",
        "PublicAPI",
        "add_mixins",
        "deep_update",
        "deprecation_warning",
        "explained_variance",
        "force_list",
        "merge_dicts",
        "override",
        "sigmoid",
        "softmax",
        "relu",
        "check_learning_achieved",
        "DEPRECATED_VALUE",
        "LARGE_INTEGER",
        "MAX_LOG_NN_OUTPUT",
        "MIN_LOG_NN_OUTPUT",
        "SMALL_NUMBER",
    )
} | {name: f"utils.framework:{name}" for name in ("try_import_jax", "try_import_tf", "try_import_tfp")}
_TYPES = {name: "typing:Any" for name in ("AgentID", "EnvConfigDict", "EnvID", "EnvType", "ModelConfigDict")} | {
    name: "typing:Any"
    for name in ("AlgorithmConfigDict", "EpisodeID", "MultiAgentDict", "MultiEnvDict", "PartialAlgorithmConfigDict")
    + ("PolicyID", "ResultDict", "TensorStructType", "TensorType", "TrainerConfigDict", "ModelWeights")
}
_MODULE = {
    name: f"modules:{name}"
    for name in ("Columns", "DefaultModelConfig", "LearnerGroup", "RLModule", "RLModuleSpec")
    + ("DEFAULT_MODULE_ID", "DEFAULT_POLICY_ID", "DEFAULT_AGENT_ID", "COMPONENT_LEARNER_GROUP", "COMPONENT_LEARNER")
    + ("COMPONENT_RL_MODULE", "COMPONENT_ENV_RUNNER")
}
_SPACES = {
    name: f"spaces:{name}"
    for name in ("batch", "clip_action", "flatten_space", "flatten_to_single_ndarray", "normalize_action", "unbatch")
    + ("unsquash_action",)
}
_AGENTS = {name: f"env.multi_agent_env:{name}" for name in ("MultiAgentCartPole", "make_multi_agent")}
_EXAMPLES = {
    "random_env": {"RandomEnv": "env.random_env:RandomEnv"},
    "stateless_cartpole": {"StatelessCartPole": "env.stateless_cartpole:StatelessCartPole"},
    "multi_agent": _AGENTS,
}
_TRAINER = {
    "Agent": "algorithm:Algorithm",
    "Trainer": "algorithm:Algorithm",
    "COMMON_CONFIG": "trainers:COMMON_CONFIG",
    "build_trainer": "trainers:build_trainer",
    "with_common_config": "trainers:with_common_config",
}


def _of_algorithms() -> dict[str, dict[str, str]]:
    """The modules of each algorithm."""
    found: dict[str, dict[str, str]] = {}
    for module, name in ALGORITHMS.items():
        middle = {
            **{f"{name}{end}": f"trainers:{name}{end}" for end in ("Trainer", "Config", "Agent")},
            "DEFAULT_CONFIG": f"trainers:{name}_DEFAULTS",
        }
        former = {**middle, "DEFAULT_CONFIG": f"trainers:{name}_DEFAULTS_2018"}
        found[module] = former
        found[f"{module}.{module}"] = former
        found[f"agents.{module}"] = middle
        found[f"agents.{module}.{module}"] = middle
        found[f"algorithms.{module}.{module}"] = {**middle, name: f"trainers:{name}Trainer"}
    found["agents.a3c.a2c"] = found["agents.a2c"]
    return found


# Modules below zray.rllib -> names -> where they are: module:attribute.  A module that is a file is not asked for here.
MODULES: dict[str, dict[str, str]] = {
    **_of_algorithms(),
    "agents": {**_TRAINER, **_CALLBACKS},
    "agent": {**_TRAINER, "get_agent_class": "trainers:get_agent_class"},
    "common": _TRAINER,
    "agents.agent": _TRAINER,
    "agents.trainer": _TRAINER,
    "agents.trainer_template": _TRAINER,
    "agents.registry": _REGISTRY,
    "agents.callbacks": _CALLBACKS,
    "algorithms.callbacks": _CALLBACKS,
    "callbacks.callbacks": _CALLBACKS,
    "algorithms.algorithm_config": {"AlgorithmConfig": "config:AlgorithmConfig", "NotProvided": "helpers:NotProvided"},
    "env": _ENVIRONMENTS,
    "env.base_env": _ENVIRONMENTS,
    "env.env_context": _ENVIRONMENTS,
    "env.env_runner": _ENVIRONMENTS,
    "env.single_agent_env_runner": _ENVIRONMENTS,
    "env.single_agent_episode": _ENVIRONMENTS,
    "evaluation": _EVALUATION,
    "evaluation.episode": _EVALUATION,
    "evaluation.episode_v2": _EVALUATION,
    "evaluation.rollout_worker": _EVALUATION,
    "evaluation.postprocessing": _EVALUATION,
    "evaluation.worker_set": _EVALUATION,
    "policy": {
        "Policy": "policies:Policy",
        "PolicySpec": "policy.policy:PolicySpec",
        "SampleBatch": "policy.sample_batch:SampleBatch",
    },
    "policy.policy": {"Policy": "policies:Policy"},
    "utils": _HELPERS,
    "utils.annotations": _HELPERS,
    "utils.deprecation": _HELPERS,
    "utils.numpy": _HELPERS,
    "utils.typing": _TYPES,
    "utils.filter": {"MeanStdFilter": "filters:MeanStdFilter", "NoFilter": "filters:NoFilter"},
    "utils.metrics.metrics_logger": {"MetricsLogger": "callbacks:MetricsLogger"},
    "utils.replay_buffers": {name: f"replay_buffers:{name}" for name in ("PrioritizedReplayBuffer", "ReplayBuffer")},
    "utils.schedules": {},
    "utils.spaces": _SPACES,
    "utils.spaces.space_utils": _SPACES,
    "utils.torch_ops": {name: f"utils.torch_utils:{name}" for name in ("FLOAT_MAX", "FLOAT_MIN")},
    **{
        name: _MODULE
        for name in ("core", "core.columns", "core.rl_module", "core.rl_module.rl_module", "core.learner.learner_group")
        + ("core.rl_module.default_model_config", "core.learner")
    },
    "examples": {},
    "examples.env": {},
    "examples.envs": {},
    "examples.envs.classes": {},
    **{
        f"examples.{place}.{name}": found
        for name, found in _EXAMPLES.items()
        for place in ("env", "envs", "envs.classes")
    },
    "utils.test_utils": {"check_learning_achieved": "helpers:check_learning_achieved"},
}


def value_at(place: str, asked: str) -> Any:
    """Return the value named by "module:attribute".

    Args:
        asked: the module that a program asks for the name.

    Raises:
        AttributeError: the place is not there.
    """
    module, _, attribute = place.partition(":")
    if module == "typing":
        return Any
    try:
        return getattr(importlib.import_module(f"zray.rllib.{module}"), attribute)
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("zray."):
            raise  # torch or gymnasium is not installed
        from ..ray_names import absent

        raise absent.attribute_error(asked, attribute) from error


class DoorFinder:
    """Finder behind that of files in sys.meta_path: a module of the table that is no file."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The specification of a module of the table; None: another finder may know the name."""
        own = name.removeprefix("zray.rllib.")
        if own == name or own not in MODULES:
            return None
        return ModuleSpec(name, DoorLoader(own), origin=__file__, is_package=True)  # type: ignore[arg-type]


class DoorLoader:
    """Loader of a module of the table, with names looked up on request."""

    def __init__(self, own: str) -> None:
        self.names = MODULES[own]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: the usual empty module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Let the module find its names."""
        name = module.__name__
        module.__doc__ = f"Names of {name} in Ray, which are in other modules here."
        vars(module).update(__getattr__=names_of(name), __dir__=lambda: sorted(self.names), __all__=[])


def names_of(name: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that has names of the table.

    Args:
        name: the module's `__name__`.
    """
    own = name.removeprefix("zray.rllib.")

    def find(attribute: str) -> Any:
        from ..ray_names import absent

        place = MODULES.get(own, {}).get(attribute)
        if place is not None:
            value = value_at(place, name)
            setattr(sys.modules[name], attribute, value)
            return value
        if f"{own}.{attribute}" in MODULES:
            return importlib.import_module(f"{name}.{attribute}")
        raise absent.attribute_error(name, attribute)

    return find


def install() -> None:
    """Let imports find the modules of the table.  A second call does nothing."""
    if DoorFinder in sys.meta_path:
        return
    # Ahead of the finder that names what to use in place of an absent module; behind all that find files.
    last = next(
        (place for place, finder in enumerate(sys.meta_path) if getattr(finder, "__name__", "") == "AbsentModules"),
        len(sys.meta_path),
    )
    sys.meta_path.insert(last, DoorFinder)  # type: ignore[arg-type]
