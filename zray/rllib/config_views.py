"""Values that follow from the options of a configuration, and a sentence for each that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ABSENT", "ConfigViews"]

_LEARNER = "Derive a class from the algorithm, and change its training_step or _update."
_DICT = "Take a dict: options = config.to_dict(), and AlgorithmConfig.from_dict(options)."
# Attributes of Ray's configurations that are not there, and what to use instead.
ABSENT = {
    **dict.fromkeys(("learner_class", "get_default_learner_class", "build_learner", "build_learner_group"), _LEARNER),
    **dict.fromkeys(("serialize", "get_state", "from_state", "pop", "update", "setdefault", "clear"), _DICT),
    "get_default_rl_module_spec": "Read config.rl_module_spec.",
    "get_multi_rl_module_spec": "Read config.rl_module_spec, and the config of each PolicySpec.",
    "get_config_for_module": "Read algo.get_policy(name).config.",
    "get_torch_compile_worker_config": "Models are not compiled: compile a custom_model in its constructor.",
    "is_policy_to_train": "Call the second value of config.get_multi_agent_setup().",
    "in_evaluation": "Act in the callbacks on_evaluate_start and on_evaluate_end.",
    "env_runner_cls": "Act in callbacks; config.environment takes a class or a function that makes an environment.",
    "uses_new_env_runners": "Leave it out: there is one kind of rollouts.",
    "enable_rl_module_and_learner": "Leave it out: there is one stack of classes.",
    "exploration_config": "Read config.epsilon of DQN; other algorithms draw from their distribution.",
    "validate_train_batch_size_vs_rollout_fragment_length": "Call config.validate().",
}


class ConfigViews:
    """Values that follow from options."""

    @property
    def is_multi_agent(self: Any) -> bool:
        """Whether policies are named."""
        return bool(self.options["policies"])

    @property
    def total_train_batch_size(self: Any) -> int:
        """Return the steps of an iteration's batch, for the one learner; `train_batch_size`, or the rollouts' size."""
        given = self.options.get("train_batch_size")
        if given:
            return int(given)
        names = ("num_groups", "num_envs_per_env_runner", "rollout_fragment_length")
        groups, envs, steps = (self.options[name] for name in names)
        return int(groups * envs * steps)

    @property
    def num_learners(self: Any) -> int:
        """0: the learner is the process of the algorithm."""
        return 0

    @property
    def rl_module_spec(self: Any) -> Any:
        """The options of the model, as a specification of a module."""
        from .modules import RLModuleSpec

        return RLModuleSpec(model_config=self.options["model"])

    def get_rl_module_spec(self: Any, *args: Any, **ignored: Any) -> Any:
        """The options of the model, as `rl_module_spec`."""
        del args, ignored
        return self.rl_module_spec

    @property
    def framework_str(self: Any) -> str:
        """The name of the framework."""
        return str(self.options["framework"])

    @property
    def is_atari(self: Any) -> bool:
        """Whether the environment is the id of an Atari game with images."""
        from .atari import is_atari_id

        return is_atari_id(self.options["env"])

    is_offline, is_online = False, True  # recorded steps are not read

    def get_rollout_fragment_length(self: Any, worker_index: int = 0) -> int:
        """The steps of each environment in a rollout."""
        return int(self.options["rollout_fragment_length"])

    def get_evaluation_config_object(self: Any) -> Any:
        """The configuration of evaluations: this one, with what `evaluation_config` changes."""
        from .playing import EVALUATED, options_of_evaluation

        found = self.copy()
        options = options_of_evaluation(self.options, type(self).__name__)
        found.options.update({name: options[name] for name in EVALUATED if name in found.options})
        found.freeze()
        return found

    def get_multi_agent_setup(
        self: Any, *, env: Any = None, **ignored: Any
    ) -> tuple[dict[str, Any], Callable[..., bool]]:
        """Return the policies by name, each as a `PolicySpec`, and a function of a name: whether the policy learns.

        Args:
            env: an environment of several agents, which names the spaces of policies without their own.
        """
        from .multi_agent import specs_of, specs_with_spaces

        del ignored
        specs = specs_of(self.options["policies"])
        if env is not None:
            specs = specs_with_spaces(specs, env, self.options["policy_mapping_fn"])
        wanted = self.options["policies_to_train"]

        def learns(name: str, batch: Any = None) -> bool:
            return wanted is None or bool(wanted(name) if callable(wanted) else name in wanted)

        return specs, learns
