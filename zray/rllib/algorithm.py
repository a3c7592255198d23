"""The base of the algorithms: training in iterations, evaluation, checkpoints, actions."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np
import torch

from zray.tune import Trainable

from .atari import environment_of, is_atari_id
from .callbacks import Events, MetricsLogger, events_of
from .checkpoints import STATE, Checkpoints, number_of
from .config import AlgorithmConfig
from .counts import SAMPLED, Counts, counters
from .devices import fit_threads, learner_device
from .env.multi_agent_env import MultiAgentEnv
from .environments import EnvContext, Limited, check_spaces, make_environment, name_of, portable
from .global_random import Streams
from .groups import Batch, Episode
from .keywords import ABOUT_THE_PAST, check_keywords, check_scaling
from .limits import level_of
from .lives import close_all
from .model_keys import check_keys, refuse_absent
from .models.catalog import custom_model_of
from .other_options import FUNCTIONS
from .playing import Player, evaluated, options_of_evaluation, summary
from .policies import Policy
from .rollouts import GroupHost, Rollouts
from .schedules import add_learners
from .spellings import common_defaults, logger
from .views import Views

__all__ = ["STATE", "Algorithm"]

NO_STATE = (
    "has no recurrent models yet: use PPO, or give the last observations as one, by "
    "gymnasium.wrappers.FrameStackObservation."
)


class Algorithm(Counts, Views, Checkpoints, Trainable):
    """An algorithm: `train()` is one iteration.

    Subclasses define `config_class`, `setup_learner` and `training_step`.

    Args:
        config: an AlgorithmConfig, or a flat dict of options.
        env: the environment, if the config names none.
        logger_creator: a function of the options that makes a `tune.logger.Logger` for the results, as of 2018.
    """

    config_class: type[AlgorithmConfig] = AlgorithmConfig
    policy_class: type[Policy] = Policy
    host_class: type[GroupHost] = GroupHost
    _library_keys = frozenset(("config",))
    takes_sequences = False  # whether the learner reads sequences of a recurrent model
    takes_losses = False  # whether it calls custom_loss of a model
    unread_options: dict[str, str] = {}  # common options that change nothing here, and the reason
    takes_custom_models = True  # whether a model of the program can be the policy
    function_options = FUNCTIONS  # values, in a search space too
    takes_agents = False  # whether it has a learner for each of several policies
    _is_stopped = False

    def __init__(self, config: Any = None, env: Any = None, logger_creator: Any = None, **kwargs: Any) -> None:
        # A copy: the program may go on with its configuration, and build another algorithm.
        made = config.copy() if isinstance(config, AlgorithmConfig) else self.configured(config or {})
        if env is not None:
            made.environment(env)
        if made["seed"] is None:  # trials of one experiment draw their own numbers
            made.seed = number_of(getattr(self, "_trial_facts", {}).get("trial_id")) or 0
        made.freeze()
        self.algorithm_config, self.own_class = made, type(self)
        self.logger = logger_creator(made.to_dict()) if logger_creator is not None else None
        if self.logger is not None:
            self._logdir = self.logger.logdir
        super().__init__(made.options, **kwargs)
        self.config: Any = made  # the same options, which are items, attributes and keys

    @classmethod
    def _trial_actor_class(cls) -> Any:
        """Return the class of the actors of trials, for Tune."""
        from .trials import TrialActor

        return TrialActor

    def setup(self, config: dict[str, Any]) -> None:
        """Make policy, environments and learner."""
        self.begin(config)
        with self.streams:
            self._make_parts(config)
            fit_threads()
            self.setup_learner(config)
        self._tell("on_algorithm_init")

    def probed(self, config: dict[str, Any]) -> Any:
        """An environment for its spaces."""
        return make_environment(self.env, EnvContext(config["env_config"], num_workers=self.workers_of(config)))

    def workers_of(self, config: dict[str, Any]) -> int:
        """The processes that hold environments; 0: the program does."""
        return int(min(config["num_env_runners"], config["num_groups"]))

    def _make_parts(self, config: dict[str, Any]) -> None:
        """Make policy and environments."""
        torch.manual_seed(config["seed"])
        probe = self.probed(config)
        try:
            if not isinstance(probe, MultiAgentEnv):
                check_spaces(probe, name_of(config["env"]))
            if config["policies"] or isinstance(probe, MultiAgentEnv):
                from .multi_agent import with_agents

                self.__class__ = with_agents(type(self))  # what depends on the number of policies is defined there
            self.policy, self.policy_options = self.make_policy(probe, config)
        finally:
            close_all([probe], name_of(config["env"]))
        if config["num_gpus"]:
            self.policy.move_to(learner_device())
        env = portable(self.env)
        groups = {
            "size": config["num_envs_per_env_runner"],
            "env": Limited(env, config["horizon"]) if config["horizon"] else env,
            "env_config": config["env_config"],
            "seed": config["seed"],
            "events": self.events,
            "checks": not config["disable_env_checking"],
            "is_whole": config["batch_mode"] == "complete_episodes",
            "restarts": config.get("restart_failed_sub_environments", False),  # absent in former checkpoints
            "num_workers": self.workers_of(config),
        }
        self.num_groups = config["num_groups"]
        resources = {
            "num_cpus": config["num_cpus_per_env_runner"],
            "num_gpus": config["num_gpus_per_env_runner"],
            "resources": config["custom_resources_per_env_runner"],
        }
        self.rollouts = Rollouts(
            self.policy_options,
            groups,
            self.num_groups,
            config["num_env_runners"],
            resources,
            config["sample_timeout_s"],
            self.host_class,
        )
        self.steps_per_rollout = config["rollout_fragment_length"]
        # The groups that are in this process have drawn weights too: the learner's do not depend on them.
        torch.manual_seed(config["seed"] + 1_000_003)

    def begin(self, config: dict[str, Any]) -> None:
        """Check the options, and make the parts that do not depend on environments."""
        self.algorithm_config.validate()
        self.env = environment_of(config)
        if config["clip_rewards"] is None:
            config["clip_rewards"] = is_atari_id(config["env"])
        if config["log_level"] not in ("WARN", None):
            logger.setLevel(level_of(config["log_level"]))
        self.events = events_of(config["callbacks"])
        self.metrics, self.streams = MetricsLogger(), Streams(config["seed"])
        self.rng = np.random.default_rng([config["seed"], 1_000_003])
        self.episodes: deque[Episode] = deque(maxlen=config["metrics_num_episodes_for_smoothing"])
        self.last_episodes: list[Episode] = []  # that ended in the last iteration
        self.steps_sampled = self.agent_steps_sampled = 0  # agents' steps: 0 where there is one agent
        self.num_failed = 0  # environments that were made anew in the last iteration

    def make_policy(self, env: Any, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the policy, and the options to make the policy again in other processes."""
        options = self.options_of_policy(env.observation_space, env.action_space, config)
        policy = self.policy_class(**options)
        policy.algorithm_options = dict(config)
        self.check_policy(policy)
        return policy, {**options, "policy_class": self.policy_class}

    def check_model(self, model: dict[str, Any]) -> None:
        """Compare the options of a model with the learner's abilities.

        Raises:
            NotImplementedError: they ask for a model that the learner does not have.
        """
        name = type(self).__name__
        if model.get("custom_model") and not self.takes_custom_models:
            raise NotImplementedError(
                f"{name} has no custom_model yet: leave it out, and give fcnet_hiddens; or use PPO, A2C, A3C or DQN."
            )
        if model.get("use_lstm") and not self.takes_sequences:
            raise NotImplementedError(f"{name} {NO_STATE}")
        refuse_absent(model, bool(model.get("custom_model")))

    def check_unread(self, policy: Any) -> None:
        """Say which options of the model nothing has read."""
        silent = {"dim", "framestack"} if is_atari_id(self.algorithm_config["env"]) else set()
        if getattr(getattr(policy, "model", None), "log_std", None) is None:  # there are no free deviations
            silent.add("free_log_std")
        given = getattr(policy, "unread_keys", {})  # a policy class of the program may have none
        unread = {key: value for key, value in given.items() if key not in silent}
        defaults = {**common_defaults(), **self.config_class.defaults}["model"]
        check_keys(unread, defaults, type(self).__name__)

    def check_policy(self, policy: Policy) -> None:
        """Compare a policy with the learner's abilities.

        Raises:
            NotImplementedError: the model is recurrent, and the learner does not read sequences; or it has a loss of
                its own, and the learner does not call it.
        """
        if getattr(policy.model, "changes_loss", False) and not self.takes_losses:
            raise NotImplementedError(
                f"{type(self).__name__} does not call custom_loss of {type(policy.model.inner).__name__} yet: use PPO, "
                "or derive an algorithm and change its update."
            )
        if policy.has_state and not self.takes_sequences:
            raise NotImplementedError(f"{type(self).__name__} {NO_STATE}")
        self.check_unread(policy)

    def options_of_policy(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a policy."""
        model = dict(config["model"])
        self.check_model(model)
        model["custom_model"] = custom_model_of(model.get("custom_model"))  # names are known in this process alone
        return {
            "observation_space": observation_space,
            "action_space": action_space,
            "model": model,
            "observation_filter": config["observation_filter"],
            # Absent in checkpoints of the time before these options: actions were clipped.
            "normalize_actions": config.get("normalize_actions", False),
            "clip_actions": config.get("clip_actions", True),
        }

    def before_rollout(self) -> None:
        """Prepare the policy for the rollout of an iteration."""

    def setup_learner(self, config: dict[str, Any]) -> None:
        """Make the optimiser, and what else the algorithm has."""
        raise NotImplementedError

    def training_step(self) -> dict[str, Any]:
        """Do rollouts and updates, and return metrics of the learner."""
        raise NotImplementedError

    def learner_state(self) -> dict[str, Any]:
        """The state that the learner needs to go on exactly."""
        raise NotImplementedError

    def set_learner_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of `learner_state`."""
        raise NotImplementedError

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a checkpoint.  The program keeps its own random numbers of torch."""
        own = torch.get_rng_state()
        try:
            super().load_checkpoint(checkpoint)
        finally:
            torch.set_rng_state(own)

    # --- iterations ---

    def step(self) -> dict[str, Any]:
        """Run one iteration, and return metrics in the spellings of 2018 and of today."""
        with self.streams:
            result = self._iterated()
        result["sampler_results"] = {name: result[name] for name in SAMPLED if name in result}
        return result

    def _iterated(self) -> dict[str, Any]:
        before, begin, counted = self.steps_sampled, time.perf_counter(), counters(self)
        self.last_episodes, self.num_failed, self.sample_s = [], 0, 0.0
        learner = self.training_step()
        while self.steps_sampled - before < self.config["min_sample_timesteps_per_iteration"]:
            learner = self.training_step()
        result: dict[str, Any] = {"timesteps_this_iter": self.steps_sampled - before, "info": {"learner": learner}}
        result["config"] = self.algorithm_config.options
        result["episodes_this_iter"], result["num_faulty_episodes"] = len(self.last_episodes), self.num_failed
        result.update(summary([each.episode_return for each in self.episodes], [each.length for each in self.episodes]))
        self._add_counts(result, counted, time.perf_counter() - begin)
        add_learners(result, self)
        if (interval := self.config["evaluation_interval"]) and (self.iteration + 1) % interval == 0:
            result["evaluation"] = self.evaluate()
        if self.events is not None:
            self._add_metrics(result)
        return result

    def train(self) -> dict[str, Any]:
        """Train one iteration: rollouts, then updates.

        Returns:
            The metrics; `["env_runners"]["episode_return_mean"]` is NaN until a first episode has ended.
        """
        self.check_is_live()
        result = super().train()
        self._tell("on_train_result", result=result)
        if self.logger is not None:
            self.logger.on_result(result)
        return result

    def _tell(self, event: str, **facts: Any) -> None:
        """Call the callbacks of an event."""
        if self.events is not None:
            self.events.call(event, algorithm=self, trainer=self, metrics_logger=self.metrics, **facts)

    def watch(self, events: Events) -> None:
        """Add callbacks to an algorithm with its groups in the same process."""
        self.events = Events([*(self.events.callbacks if self.events is not None else ()), *events.callbacks])
        assert self.rollouts.host is not None, "The groups of this algorithm are in other processes."
        for group in self.rollouts.host.groups:
            group.watch(self.events)

    def _add_metrics(self, result: dict[str, Any]) -> None:
        """Add the notes of callbacks to a result: of the last episodes, and of the learner's process."""
        noted: dict[str, list[float]] = {}
        logger = MetricsLogger()
        for episode in self.episodes:
            for name, value in (episode.custom_metrics or {}).items():
                noted.setdefault(name, []).extend(np.ravel(value).tolist())
            for name, value in (episode.hist_data or {}).items():
                result["hist_stats"].setdefault(name, []).extend(np.ravel(value).tolist())
            logger.merge(episode.logged or {})
        custom = result["custom_metrics"] = {}
        for name, values in noted.items():
            custom.update({f"{name}_mean": np.mean(values), f"{name}_min": min(values), f"{name}_max": max(values)})
        result.setdefault("env_runners", {}).update(custom_metrics=custom, **logger.reduced())
        result.update(self.metrics.reduced())

    def collect(self, steps: int) -> list[Batch]:
        """A rollout of each group, with the current weights."""
        begin, weights = time.perf_counter(), self.policy.get_weights()
        batches = self.rollouts.collect(weights, self.policy.filter, steps, self.config["clip_rewards"])
        self.sample_s += time.perf_counter() - begin
        self.policy.filter.merge([batch.counted for batch in batches])
        for batch in batches:
            self.episodes.extend(batch.episodes)
            self.last_episodes.extend(batch.episodes)
            self._tell("on_sample_end", samples=batch, worker=self.rollouts, env_runner=self.rollouts)
        self.steps_sampled += sum(batch.rewards.size for batch in batches)
        self.num_failed += sum(batch.num_failed for batch in batches)
        for each in batches:
            by_policy: dict[str, Batch] = getattr(each, "batches", {})
            self.agent_steps_sampled += sum(own.rewards.size for own in by_policy.values())
        return batches

    def evaluate(self, episodes: int | None = None) -> dict[str, Any]:
        """Play episodes, by the most likely actions if `evaluation_config` says nothing else, and return the metrics.

        Args:
            episodes: number of episodes; None: `evaluation_duration`.
        """
        self.check_is_live()
        self._tell("on_evaluate_start")
        options = options_of_evaluation(self.config, type(self).__name__)
        env = environment_of(options) if "env" in (self.config["evaluation_config"] or {}) else self.env
        with self.streams:
            found = evaluated(self.player(options), env, options, episodes, self.workers_of(self.config))
        self._tell("on_evaluate_end", evaluation_metrics=found)
        return found

    def player(self, options: dict[str, Any]) -> Any:
        """The player of the episodes of an evaluation."""
        return Player(self.policy, bool(options["explore"]), self.rng)

    def compute_single_action(
        self,
        observation: Any,
        state: list[Any] | None = None,
        *,
        explore: bool | None = None,
        policy_id: str = "default_policy",
        full_fetch: bool = False,
        **former: Any,
    ) -> Any:
        """Return the action for an observation.

        Args:
            observation: as the environment gives it.
            state: the recurrent state: of `get_policy().get_initial_state()`, and then of the call before; None: that
                of an episode's start.
            explore: whether it is drawn; False: the most likely one.  None: the option `explore`.
            policy_id: the policy, where there are several.
            full_fetch: whether (action, next state, info) is returned; so it is for a recurrent model.
            former: keywords of Ray without effect, as prev_action.

        Raises:
            TypeError: Ray has no such keyword.
            NotImplementedError: a keyword of Ray asks for what is absent.
        """
        policy = self.get_policy(policy_id)
        if former:
            call = "compute_single_action"
            rest = check_scaling(call, former, getattr(policy, "distribution", None), self.config)
            check_keywords(call, rest, ABOUT_THE_PAST, input_dict="Give the observation, and state.")
        is_drawn = self.config["explore"] if explore is None else explore
        found = policy.act_with(observation, state or policy.get_initial_state(), is_drawn, self.rng, full_fetch)
        return found if full_fetch or policy.has_state else found[0]

    compute_action = compute_single_action

    def compute_actions(self, observations: Any, **options: Any) -> Any:
        """Return the actions for several observations: a dict by their keys, or a list in their order."""
        if isinstance(observations, dict):
            return {key: self.compute_single_action(each, **options) for key, each in observations.items()}
        return [self.compute_single_action(each, **options) for each in observations]

    @classmethod
    def configured(cls, options: dict[str, Any]) -> AlgorithmConfig:
        """The configuration with options in any spelling."""
        made: AlgorithmConfig = cls.config_class(cls).update_from_dict(options)
        return made

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """The configuration with the defaults of the algorithm."""
        return cls.config_class(cls)

    def get_policy(self, policy_id: str = "default_policy") -> Policy:
        """Return the policy `policy_id`; with one agent "default_policy" is the only one.

        Raises:
            ValueError: no policy has the name.
        """
        self._check_policy_names([policy_id])
        return self.policy

    def check(self, verbose: bool = True) -> Any:
        """Check the details of the algorithm on a live batch; the algorithm itself does not change.

        Args:
            verbose: whether the table is printed.

        Returns:
            The checks: a list of tuples of name, whether it holds, and numbers.

        Raises:
            AssertionError: a check does not hold; the message names the check.
        """
        from .checks import checked

        return checked(self, verbose)

    def stop(self) -> None:
        """End the processes, and close the environments; actions can still be computed."""
        super().stop()
        self._is_stopped = True

    def check_is_live(self) -> None:
        """Raise a RuntimeError once the algorithm has been stopped."""
        if self._is_stopped:
            raise RuntimeError(
                f"{type(self).__name__} has been stopped, and its environments are closed: call stop() behind the last "
                "iteration, or build another algorithm, by config.build_algo() or Algorithm.from_checkpoint(path)."
            )

    def cleanup(self) -> None:
        """End the rollout actors, and close the environments."""
        self.rollouts.close()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """Return the resources: one CPU for the learner, and those of the rollout actors."""
        from zray.tune import PlacementGroupFactory

        made = cls.configured(config)
        amounts = {"CPU": made["num_cpus_per_env_runner"], "GPU": made["num_gpus_per_env_runner"]}
        each = {name: amount for name, amount in amounts.items() if amount}
        workers = min(made["num_env_runners"], made["num_groups"])
        own = {"CPU": 1, "GPU": made["num_gpus"]} if made["num_gpus"] else {"CPU": 1}
        return PlacementGroupFactory([own, *([{**each, **made["custom_resources_per_env_runner"]}] * workers)])
