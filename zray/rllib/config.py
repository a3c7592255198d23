"""The configuration of an algorithm, as a chain of methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

from . import spellings
from .config_views import ABSENT, ConfigViews

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NOT_GIVEN", "AlgorithmConfig"]

NOT_GIVEN: Any = spellings.UNSET  # the default of an argument: the option keeps its value

_OWN = ("algo_class", "is_frozen", "options")


class AlgorithmConfig(ConfigViews):
    """Options of an algorithm.  Methods return the configuration itself, so that they can be chained.

    An option is an attribute and an item too, in each of its spellings: `config.lr`, `config["num_workers"]`.
    Methods take former spellings too.  An unknown option is a TypeError.

    Args:
        algo_class: the algorithm, or its name; None: that of the class.

    Example:
        config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2).training(lr=3e-4)
        algo = config.build_algo()
    """

    algo_class: Any = None
    # Options of the algorithm beyond the common ones: name -> default.
    defaults: dict[str, Any] = {}

    def __init__(self, algo_class: Any = None) -> None:
        own = algo_class or type(self).algo_class
        if isinstance(own, str):
            from .algorithms.registry import get_algorithm_class

            own = get_algorithm_class(own)
        self.algo_class = own
        self.is_frozen = False
        self.options: dict[str, Any] = copy.deepcopy({**spellings.common_defaults(), **type(self).defaults})

    def _set(self, method: str, given: Mapping[str, Any]) -> Any:
        if self.is_frozen:
            raise RuntimeError("The configuration is in use by an algorithm: change a copy, by config.copy().")
        kind = getattr(self.algo_class, "__name__", "")
        for name, value in spellings.translated(given, self.options, f"{type(self).__name__}.{method}", kind).items():
            if name == "model" and isinstance(value, Mapping) and "grid_search" not in value:
                value = {**self.options["model"], **value}
            self.options[name] = value
        return self

    def _given(self, method: str, arguments: Mapping[str, Any]) -> Self:
        """Take the arguments of a method: given ones, and former spellings."""
        known = {name: value for name, value in arguments.items() if value is not NOT_GIVEN}
        former = known.pop("former")
        del known["self"]
        self._set(method, {**known, **former})
        return self

    # --- methods that own options ---

    def environment(
        self,
        env: Any = NOT_GIVEN,
        *,
        env_config: dict[str, Any] = NOT_GIVEN,
        clip_rewards: bool | float | None = NOT_GIVEN,
        horizon: int | None = NOT_GIVEN,
        normalize_actions: bool = NOT_GIVEN,
        clip_actions: bool = NOT_GIVEN,
        observation_space: Any = NOT_GIVEN,
        action_space: Any = NOT_GIVEN,
        disable_env_checking: bool = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the environment.

            config.environment(Maze, env_config={"size": 8}, horizon=200)

        Args:
            env: gymnasium id, class, function of the env_config, or name of `register_env`; required.  Default: None.
            env_config: dict for the environment's constructor.  Default: {}.
            clip_rewards: the bound of rewards; True: the learner gets their signs; None: so for Atari.  Default: None.
            horizon: steps after which an episode is truncated; None: no limit.  Default: None.
            normalize_actions: whether Box actions are scaled to finite bounds: -1 to the lower, 1 to the upper one.
                Default: True.
            clip_actions: whether Box actions that are not scaled are clipped to the bounds.  Default: True.
            observation_space, action_space: accepted; the spaces are those of the environment.  Default: None.
            disable_env_checking: whether the check before the first rollout is left out.  Default: False.
        """
        return self._given("environment", locals())

    def env_runners(
        self,
        *,
        preprocessor_pref: str | None = NOT_GIVEN,
        num_env_runners: int = NOT_GIVEN,
        num_envs_per_env_runner: int = NOT_GIVEN,
        num_groups: int = NOT_GIVEN,
        rollout_fragment_length: int | str = NOT_GIVEN,
        batch_mode: str = NOT_GIVEN,
        observation_filter: str = NOT_GIVEN,
        explore: bool = NOT_GIVEN,
        num_cpus_per_env_runner: float = NOT_GIVEN,
        num_gpus_per_env_runner: float = NOT_GIVEN,
        custom_resources_per_env_runner: dict[str, float] = NOT_GIVEN,
        sample_timeout_s: float | None = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the rollouts: processes, groups of environments, steps.

        Args:
            preprocessor_pref: "deepmind": images of Atari ids are scaled and stacked; None: observations as they are.
                Default: "deepmind".
            num_env_runners: processes for rollouts; 0: rollouts in the program itself.  Default: 0.
            num_envs_per_env_runner: environments of a group.  Default: 4; A3C, SAC: 1.
            num_groups: groups of environments, with random numbers of their own; at least as many as processes.
                Default: 2; A3C: 4; DQN, SAC: 1.
            rollout_fragment_length: steps of each environment in a rollout.  Default: 128; A2C: 5; A3C: 10; DQN: 16;
                SAC: 8.
            batch_mode: "truncate_episodes"; or "complete_episodes": a rollout goes on until the episodes have ended;
                not with several agents.  Default: "truncate_episodes".
            observation_filter: "NoFilter"; or "MeanStdFilter": observations are normalised by their running mean and
                deviation.  Default: "NoFilter"; ES: "MeanStdFilter".
            explore: whether `compute_single_action` draws actions.  Default: True.
            num_cpus_per_env_runner: CPUs of each process.  Default: 1.
            num_gpus_per_env_runner: GPUs of each process.  Default: 0.
            custom_resources_per_env_runner: further resources of each process, by name.  Default: {}.
            sample_timeout_s: seconds after which a process that hangs is replaced; None: never.  Default: 300.0.
        """
        return self._given("env_runners", locals())

    def training(
        self,
        *,
        gamma: float = NOT_GIVEN,
        lr: float | list[list[float]] | None = NOT_GIVEN,
        grad_clip: float | None = NOT_GIVEN,
        model: dict[str, Any] = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the learner, here those of all algorithms; the class of an algorithm has more.

        Args:
            gamma: discount of rewards, for each step.  Default: 0.99.
            lr: learning rate; or a schedule, as `lr_schedule`.  Default: 0.0003; A2C: 0.0007; A3C: 0.0001; DQN:
                0.0005; ES: None.
            grad_clip: largest norm of the gradient; None: no limit.  Default: 0.5; A3C: 40.0; DQN: 10.0; SAC: None.
            model: keys of the network, as on the page about models; keys that are not given stay.  Default:
                {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}; SAC: {"fcnet_hiddens": [256, 256],
                "fcnet_activation": "relu"}.
        """
        return self._given("training", locals())

    def evaluation(
        self,
        *,
        evaluation_interval: int | None = NOT_GIVEN,
        evaluation_duration: int = NOT_GIVEN,
        evaluation_duration_unit: str = NOT_GIVEN,
        evaluation_sample_timeout_s: float | None = NOT_GIVEN,
        evaluation_config: Any = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of evaluations, which are played by the program, with the most likely actions.

        Args:
            evaluation_interval: iterations from one evaluation to the next; 0: no evaluation.  Default: 0.
            evaluation_duration: episodes of an evaluation, or steps.  Default: 10.
            evaluation_duration_unit: "episodes"; or "timesteps": whole episodes with so many steps, at least.
                Default: "episodes".
            evaluation_sample_timeout_s: seconds of one episode; a longer one ends the evaluation with a warning.
                None: no limit.  Default: 120.0.
            evaluation_config: options that differ from training: explore, env, env_config (merged), horizon, seed,
                policy_mapping_fn.  Default: {}.
        """
        return self._given("evaluation", locals())

    def multi_agent(
        self,
        *,
        policies: Any = NOT_GIVEN,
        policy_mapping_fn: Callable[..., Any] | None = NOT_GIVEN,
        policies_to_train: Any = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set the policies of several agents, and which agent has which.

        Args:
            policies: names of policies, or a dict of a `PolicySpec` by name; None: one policy.  Default: None.
            policy_mapping_fn: function of `(agent_id, episode, **kwargs)` that returns the name of an agent's policy.
                Default: None.
            policies_to_train: names of the policies that learn, or a function of a name; None: all.  Default: None.
        """
        return self._given("multi_agent", locals())

    def callbacks(self, callbacks_class: Any = None, **options: Any) -> Any:
        """Set the program's functions at the events of training.

        Args:
            callbacks_class: a class derived from `DefaultCallbacks`, or a list of such classes.  Default: None.
            options: functions by the name of their event, as `on_episode_end=count`.
        """
        return self._set("callbacks", {"callbacks": callbacks_class or options or None})

    def debugging(
        self,
        *,
        seed: int | None = NOT_GIVEN,
        log_level: str | int | None = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options for runs that are looked into.

        Args:
            seed: seed of everything that is drawn; None: 0, or the number of the trial.  Default: None.
            log_level: level of the logger `zray.rllib`, as "INFO", or its number.  Default: "WARN".
        """
        return self._given("debugging", locals())

    def reporting(
        self,
        *,
        min_sample_timesteps_per_iteration: int | None = NOT_GIVEN,
        metrics_num_episodes_for_smoothing: int = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set options of the results.

        Args:
            min_sample_timesteps_per_iteration: steps of an iteration, at least.  Default: 0.
            metrics_num_episodes_for_smoothing: episodes of which results have the means.  Default: 100.
        """
        return self._given("reporting", locals())

    def resources(
        self,
        *,
        num_gpus: float = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set resources of the learner; resources of other processes are in `env_runners`.

        Args:
            num_gpus: GPUs of the learner, which uses the first one; rollouts stay on the CPU.  Default: 0.
        """
        return self._given("resources", locals())

    def fault_tolerance(
        self,
        *,
        restart_failed_sub_environments: bool = NOT_GIVEN,
        **former: Any,
    ) -> Self:
        """Set the reaction to an environment's error; a lost process is always replaced.

        Args:
            restart_failed_sub_environments: whether an environment that raises, or gives NaN or infinity, is made anew,
                and its episode counts as truncated, or is left out of an evaluation; False: training ends.  Default:
                False.
        """
        return self._given("fault_tolerance", locals())

    def framework(self, framework: str = "torch", **options: Any) -> Any:
        """Set the framework.

        Args:
            framework: "torch" is the only one.  Default: "torch".
        """
        return self._set("framework", {"framework": framework, **options})

    def rl_module(self, model_config: Any = None, **options: Any) -> Any:
        """The options of the model, as `training(model=...)` takes them."""
        if model_config is not None and not isinstance(model_config, Mapping):  # DefaultModelConfig, a dataclass
            if not hasattr(model_config, "__dataclass_fields__"):
                raise TypeError(f"model_config is a dict or a DefaultModelConfig, not {model_config!r}.")
            model_config = {name: value for name, value in vars(model_config).items() if value is not None}
        return self._set("rl_module", {**({"model": model_config} if model_config else {}), **options})

    # Methods without an option that changes anything.

    def api_stack(self, **options: Any) -> Any:
        """The stack of classes: there is one."""
        return self._set("api_stack", options)

    def learners(self, **options: Any) -> Any:
        """The learner is in the process of the algorithm."""
        return self._set("learners", options)

    def checkpointing(self, **options: Any) -> Any:
        """A checkpoint always holds everything."""
        return self._set("checkpointing", options)

    def experimental(self, **options: Any) -> Any:
        """Options that begin with an underscore."""
        return self._set("experimental", options)

    def python_environment(self, **options: Any) -> Any:
        """Environment variables belong to `zray.init(runtime_env=...)`."""
        return self._set("python_environment", options)

    def offline_data(self, **options: Any) -> Any:
        """Recorded steps are not there yet: a NotImplementedError where an input or an output is named."""
        return self._set("offline_data", options)

    rollouts = exploration = env_runners

    # --- the configuration as a dict ---

    def update_from_dict(self, options: Mapping[str, Any]) -> Any:
        """Take options from a flat dict, in any spelling."""
        return self._set("update_from_dict", options)

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any]) -> Any:
        """A configuration with the options of a flat dict."""
        return cls().update_from_dict(config_dict)

    def to_dict(self) -> dict[str, Any]:
        """A copy of all options, as a flat dict by today's names."""
        return copy.deepcopy(self.options)

    def get(self, key: str, default: Any = None) -> Any:
        """An option, or the default where there is none."""
        return self.options.get(spellings.today_name(key, self.options), default)

    def keys(self) -> KeysView[str]:
        """Today's names of the options."""
        return self.options.keys()

    def items(self) -> ItemsView[str, Any]:
        """Names and values."""
        return self.options.items()

    def values(self) -> ValuesView[Any]:
        """Values, in the order of the names."""
        return self.options.values()

    def __iter__(self) -> Iterator[str]:
        return iter(self.options)

    def __contains__(self, key: str) -> bool:
        return spellings.today_name(key, self.options) in self.options

    def __getitem__(self, key: str) -> Any:
        return self.options[spellings.today_name(key, self.options)]

    def __setitem__(self, key: str, value: Any) -> None:
        self._set("update_from_dict", {key: value})

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.get("options", {})
        today = spellings.today_name(name, options)
        if today in options:
            return options[today]
        words = f"  {ABSENT[name]}" if name in ABSENT else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.{words}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._set("update_from_dict", {name: value})

    # --- what is made of it ---

    def copy(self, copy_frozen: bool = False) -> Any:
        """A copy that can be changed; with `copy_frozen`, not if the configuration is in use by an algorithm."""
        other = copy.copy(self)
        other.options = copy.deepcopy(self.options)
        other.is_frozen = self.is_frozen and copy_frozen
        return other

    def freeze(self) -> None:
        """Let nothing change the configuration any more."""
        self.is_frozen = True

    @staticmethod
    def overrides(**options: Any) -> dict[str, Any]:
        """Options for an evaluation, or for one policy."""
        return options

    def validate(self) -> None:
        """Check that options fit together; a ValueError or a TypeError names a conflicting one."""
        from .limits import check_limits, say_unread

        if self.options["env"] is None:
            raise ValueError('The configuration names no environment: config.environment("CartPole-v1").')
        check_limits(self.options, type(self).__name__)
        unread = getattr(self.algo_class, "unread_options", {})
        say_unread(self.options, type(self).defaults, unread)
        workers, groups = self.options["num_env_runners"], self.options["num_groups"]
        if workers > groups and "num_groups" not in unread:
            spellings.logger.warning(
                "num_env_runners is %d, and num_groups is %d: %d processes are started.  Give num_groups=%d too.",
                workers,
                groups,
                groups,
                workers,
            )

    def build_algo(self, env: Any = None, **options: Any) -> Any:
        """Make the `Algorithm`, with its environments and processes, which `algo.stop()` ends.

        Args:
            env: the environment, if the configuration names none.
            options: `logger_creator`, as of 2018.

        Raises:
            ValueError, TypeError: no algorithm or environment is named, or an option does not fit.
        """
        if self.algo_class is None:
            raise ValueError(f"{type(self).__name__} names no algorithm: use the config of one, as PPOConfig.")
        return self.algo_class(self, **({"env": env} if env is not None else {}), **options)

    def build(self, env: Any = None, **options: Any) -> Any:
        """The algorithm, as `build_algo`."""
        return self.build_algo(env, **options)
