"""Options of RLlib that are not taken as they are: those without effect, those that are absent, and names of others."""

from __future__ import annotations

from typing import Any

__all__ = ["ABSENT", "FIXED", "FUNCTIONS", "IGNORED", "NEUTRAL", "OF_REPLAY", "OTHERS", "TF"]

# Options that are or hold functions, which no search space calls.
FUNCTIONS = (
    *("env", "env_config", "callbacks", "evaluation_config"),
    *("multiagent", "policies", "policy_mapping_fn", "policies_to_train"),
)
TF = "it is of TensorFlow, and models are torch's"
_STACK = "there is one stack of classes here"
_COMPILED = "models run as they are, without torch.compile"
_OFFLINE = "training is from an environment, and not from recorded data"
_REPLACED = "a rollout process that is lost is always replaced"
_PROBES = "sample_timeout_s says when a process counts as lost"
_LEARNER = "the learner is the process of the algorithm"
# Options that change nothing here, and the reason.  Empty: nothing is lost, and nothing is said.
IGNORED: dict[str, str] = {
    **dict.fromkeys(
        ("tf_session_args", "local_tf_session_args", "tf_debug_inf_or_nan", "tf_debug_filter", "devices", "eager"), TF
    ),
    **dict.fromkeys(("eager_tracing", "eager_max_retraces", "simple_optimizer", "multi_gpu", "use_tf_debugger"), TF),
    **dict.fromkeys(("num_gpus_per_batch", "tf_single_threaded"), TF),
    **dict.fromkeys(
        (
            "enable_rl_module_and_learner",
            "enable_env_runner_and_connector_v2",
            "enable_connectors",
            "_enable_new_api_stack",
            "_enable_rl_module_api",
            "_enable_learner_api",
            "_disable_execution_plan_api",
            "_disable_initialize_loss_from_dummy_batch",
            "_use_trajectory_view_api",
            "use_exec_api",
        ),
        "",
    ),
    **dict.fromkeys(("learner_class", "learner_connector", "env_to_module_connector"), _STACK),
    **dict.fromkeys(("module_to_env_connector", "env_runner_cls", "sampler_config"), _STACK),
    **dict.fromkeys(
        (
            "recreate_failed_workers",
            "recreate_failed_env_runners",
            "restart_failed_env_runners",
            "max_num_worker_restarts",
            "max_num_env_runner_restarts",
            "delay_between_worker_restarts_s",
            "delay_between_env_runner_restarts_s",
            "num_consecutive_worker_failures_tolerance",
            "num_consecutive_env_runner_failures_tolerance",
            "ignore_worker_failures",
            "ignore_env_runner_failures",
        ),
        _REPLACED,
    ),
    **dict.fromkeys(("worker_health_probe_timeout_s", "env_runner_health_probe_timeout_s"), _PROBES),
    **dict.fromkeys(("worker_restore_timeout_s", "env_runner_restore_timeout_s"), _PROBES),
    "_disable_preprocessor_api": "observations are flattened, and discrete ones are one-hot",
    "_disable_action_flattening": "actions have the form of the action space",
    **dict.fromkeys(("num_learners", "num_learner_workers", "num_gpus_per_learner_worker"), _LEARNER),
    **dict.fromkeys(("num_cpus_per_learner", "num_cpus_per_learner_worker", "local_gpu_idx"), _LEARNER),
    **dict.fromkeys(("num_cpus_for_driver", "num_cpus_for_main_process", "num_cpus_for_local_worker"), _LEARNER),
    **dict.fromkeys(
        (
            "min_steps_per_task",
            "prioritized_replay_eps",
            "min_iter_time_s",
            "min_time_s_per_iteration",
            "min_train_timesteps_per_iteration",
            "keep_per_episode_custom_metrics",
            "collect_metrics_timeout",
            "metrics_episode_collection_timeout_s",
            "log_sys_usage",
            "logger_creator",
            "logger_config",
            "monitor",
            "monitor_env",
            "record_env",
            "render_env",
            "render",
            "env_task_fn",
            "placement_strategy",
            "use_worker_filter_stats",
            "update_worker_filter_stats",
            "synchronize_filters",
            "compress_observations",
            "remote_worker_envs",
            "remote_env_batch_wait_ms",
            "create_env_on_driver",
            "create_env_on_local_worker",
            "create_local_env_runner",
            "validate_workers_after_construction",
            "validate_env_runners_after_construction",
            "sample_async",
            "sample_collector",
            "vf_share_layers_warning",
            "shuffle_sequences",
            "no_done_at_end",
            "soft_horizon",
            "worker_side_prioritization",
            "always_attach_evaluation_results",
            "in_evaluation",
            "evaluation_num_workers",
            "evaluation_num_env_runners",
            "evaluation_parallel_to_training",
            "evaluation_force_reset_envs_before_iteration",
            "export_native_model_files",
            "checkpoint_trainable_policies_only",
            "store_buffer_in_checkpoints",
            "extra_python_environs_for_driver",
            "extra_python_environs_for_worker",
            "redirect_worker_output",
            "count_steps_by",
            "algorithm_config_overrides_per_module",
            "observation_fn",
            "is_atari",
            "env_runner_and_connector_v2",
        ),
        "it has no effect here",
    ),
    **dict.fromkeys(
        ("policy_map_capacity", "policy_map_cache", "policy_states_are_swappable"), "all policies stay in memory"
    ),
    "replay_mode": "each policy has a replay memory of its own",
    **dict.fromkeys(("torch_compile_learner", "torch_compile_learner_what_to_compile"), _COMPILED),
    **dict.fromkeys(("torch_compile_learner_dynamo_backend", "torch_compile_learner_dynamo_mode"), _COMPILED),
    **dict.fromkeys(("torch_compile_worker", "torch_compile_worker_dynamo_backend"), _COMPILED),
    "torch_compile_worker_dynamo_mode": _COMPILED,
    "torch_skip_nan_gradients": "an update without finite numbers is an error, which names it",
    "_torch_grad_scaler_class": "gradients have 32 bits, and are not scaled",
    "microbatch_size": "an update reads its batch at once, with the same gradient",
    "gym_env_vectorize_mode": "the environments of a group are stepped one after the other",
    "auto_wrap_old_gym_envs": "environments of former years are adapted",
    **dict.fromkeys(("num_aggregator_actors_per_learner", "max_requests_in_flight_per_learner"), _LEARNER),
    **dict.fromkeys(("torch_ddp_kwargs", "_fake_gpus"), _LEARNER),
    **dict.fromkeys(("_tf_policy_handles_more_than_one_loss", "num_multi_gpu_tower_stacks"), TF),
    **dict.fromkeys(("ope_split_batch_by_episode", "postprocess_inputs", "actions_in_input_normalized"), _OFFLINE),
    **dict.fromkeys(("shuffle_buffer_size", "dataset_num_iters_per_learner", "offline_sampling"), _OFFLINE),
    **dict.fromkeys(("offline_evaluation_interval", "offline_evaluation_duration"), _OFFLINE),
    **dict.fromkeys(("episode_lookback_horizon", "merge_env_runner_states", "broadcast_env_runner_states"), _STACK),
    "episodes_to_numpy": _STACK,
    **dict.fromkeys(
        (
            "evaluation_auto_duration_min_env_steps_per_sample",
            "evaluation_auto_duration_max_env_steps_per_sample",
            "log_gradients",
            "_run_training_always_in_thread",
            "_evaluation_parallel_to_training_wo_thread",
        ),
        "it has no effect here",
    ),
    "hiddens": "the layers are those of model['fcnet_hiddens']",
}

# Values of these options that ask for what happens here anyway.  Of other options: None, False, 0 and empty ones.
# An option of one algorithm has the algorithm's name in front.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "A3C.sample_async": (True,),
    **dict.fromkeys(("recreate_failed_workers", "recreate_failed_env_runners", "restart_failed_env_runners"), (True,)),
    **dict.fromkeys(("max_num_worker_restarts", "max_num_env_runner_restarts"), (1000,)),
    **dict.fromkeys(("delay_between_worker_restarts_s", "delay_between_env_runner_restarts_s"), (60.0,)),
    "num_consecutive_worker_failures_tolerance": (100,),
    "num_consecutive_env_runner_failures_tolerance": (100,),
    **dict.fromkeys(("worker_health_probe_timeout_s", "env_runner_health_probe_timeout_s"), (60.0, 30.0)),
    **dict.fromkeys(("worker_restore_timeout_s", "env_runner_restore_timeout_s"), (1800.0,)),
    **dict.fromkeys(("num_cpus_per_learner", "num_cpus_per_learner_worker"), (1, "auto")),
    **dict.fromkeys(("num_cpus_for_driver", "num_cpus_for_main_process", "num_cpus_for_local_worker"), (1,)),
    "eager_tracing": (True, False),  # of some years the one, and of others the other
    "eager_max_retraces": (20,),
    "simple_optimizer": (False, -1),
    "prioritized_replay_eps": (1e-6,),
    "collect_metrics_timeout": (180,),
    "metrics_episode_collection_timeout_s": (60.0,),
    "placement_strategy": ("PACK",),
    **dict.fromkeys(("log_sys_usage", "create_local_env_runner", "shuffle_sequences"), (True,)),
    **dict.fromkeys(("use_worker_filter_stats", "update_worker_filter_stats", "synchronize_filters"), (True,)),
    **dict.fromkeys(("validate_workers_after_construction", "validate_env_runners_after_construction"), (True,)),
    "evaluation_force_reset_envs_before_iteration": (True,),
    "count_steps_by": ("env_steps",),
    "policy_map_capacity": (100,),
    "replay_mode": ("independent",),
    "hiddens": (),
    "gym_env_vectorize_mode": ("SYNC",),
    "max_requests_in_flight_per_learner": (3,),
    "num_multi_gpu_tower_stacks": (1,),
    **dict.fromkeys(("auto_wrap_old_gym_envs", "broadcast_env_runner_states", "episodes_to_numpy"), (True,)),
    **dict.fromkeys(("ope_split_batch_by_episode", "log_gradients"), (True, False)),
    "episode_lookback_horizon": (1,),
    "merge_env_runner_states": ("training_only", True),
    "evaluation_auto_duration_min_env_steps_per_sample": (100,),
    "evaluation_auto_duration_max_env_steps_per_sample": (2000,),
    "storage_unit": ("timesteps", "fragments"),
    "replay_sequence_length": (1, None),
    "replay_burn_in": (0,),
    "replay_zero_init_states": (True,),
}

_SINGLE = "transitions are drawn one by one, from the memory of the learner"
# Keys of `replay_buffer_config` that change nothing here, and the reason.
OF_REPLAY: dict[str, str] = {
    **dict.fromkeys(("_enable_replay_buffer_api", "replay_batch_size"), ""),
    "prioritized_replay_eps": "it has no effect here",
    **dict.fromkeys(("storage_unit", "replay_sequence_length", "replay_burn_in", "replay_zero_init_states"), _SINGLE),
    **dict.fromkeys(("metrics_num_episodes_for_smoothing", "batch_size_B", "batch_length_T", "seed"), _SINGLE),
    **dict.fromkeys(("no_local_replay_buffer", "replay_buffer_shards_colocated_with_driver"), _SINGLE),
    **dict.fromkeys(("worker_side_prioritization", "underlying_buffer_config"), _SINGLE),
    "replay_mode": IGNORED["replay_mode"],
}

# Options of Ray's algorithms that have one value here: the values that mean the same, and what to do instead of others.
# A sentence that begins with "=" is said once for other values, which change nothing.
FIXED: dict[str, tuple[tuple[Any, ...], str]] = {
    "grad_clip_by": (("global_norm",), "Give `grad_clip`, which bounds the norm of the whole gradient."),
    "shuffle_batch_per_epoch": ((True,), "=minibatches are drawn anew in each epoch"),
    "use_critic": ((True,), "The value function is the baseline of advantages: leave use_critic out."),
    "action_mask_key": (("action_mask",), "Name the mask 'action_mask' in the dict of the observation."),
    "opt_type": (("adam",), "Derive an algorithm, and make another optimiser in its `setup_learner`."),
    "learner_config_dict": (({},), "Derive an algorithm, and read options of your own in `env_config` or `model`."),
    "add_default_connectors_to_learner_pipeline": ((True,), "Derive an algorithm, and change its update."),
    "add_default_connectors_to_env_to_module_pipeline": ((True,), "Wrap the environment."),
    "add_default_connectors_to_module_to_env_pipeline": ((True,), "Wrap the environment."),
    "max_requests_in_flight_per_aggregator_actor": ((), "=there are no aggregator actors"),
    "max_requests_in_flight_per_env_runner": ((1,), "=a process has one rollout under way"),
    "adam_epsilon": ((), "=the epsilon of Adam is fixed"),
    "noisy": ((False,), "Explore by `epsilon`."),
    "sigma0": ((0.5,), "=there are no noisy layers"),
    "num_atoms": ((1,), "The values of DQN are means, and no distributions: leave num_atoms out."),
    **dict.fromkeys(("v_min", "v_max"), ((-10.0, 10.0), "=the values of DQN are means, and no distributions")),
    "categorical_distribution_temperature": ((1.0,), "Explore by `epsilon`."),
    "td_error_loss_fn": (("huber",), "Derive from DQN, and change its update."),
    "tau": ((1.0,), "The target network is a copy, each `target_network_update_freq` steps."),
    "burn_in_len": ((0,), "Give the last observations as one, by gymnasium.wrappers.FrameStackObservation."),
    "before_learn_on_batch": ((None,), "Derive an algorithm, and change its update."),
    **dict.fromkeys(
        ("beta_annealing_fraction", "final_prioritized_replay_beta", "prioritized_replay_beta_annealing_timesteps"),
        ((-1, None), "=`prioritized_beta` stays as it is"),
    ),
    "twin_q": ((True,), "SAC has two networks of values."),
    "n_step": ((1,), "The targets of this algorithm have one step."),
    "target_network_update_freq": ((0, 1), "=the target networks follow by `tau` with each update"),
    "_deterministic_loss": ((False,), "The policy of SAC is a distribution."),
    "_use_beta_distribution": ((False,), "The policy of SAC is normal, squashed to the bounds."),
}

# Names of other libraries, and the options that mean the same, of which an algorithm has one: for messages.
OTHERS = {
    "learning_rate": "lr",
    "n_steps": "rollout_fragment_length",
    "train_freq": "rollout_fragment_length",
    "n_envs": "num_envs_per_env_runner",
    "num_envs": "num_envs_per_env_runner",
    "max_grad_norm": "grad_clip",
    "policy_kwargs": "model",
    "net_arch": "model",
    "clip_range": "clip_param",
    "clip_coef": "clip_param",
    "ent_coef": "entropy_coeff alpha",
    "vf_coef": "vf_loss_coeff",
    "gae_lambda": "lambda_",
    "n_epochs": "num_epochs",
    "update_epochs": "num_epochs",
    "target_kl": "kl_target",
    "gradient_steps": "updates_per_iteration",
    "target_update_interval": "target_network_update_freq",
    "exploration_initial_eps": "epsilon",
    "start_e": "epsilon",
    "end_e": "epsilon",
    "discount": "gamma",
    "discount_factor": "gamma",
}

ABSENT: dict[str, str] = {
    **dict.fromkeys(
        ("input", "input_", "input_config", "output", "output_config", "off_policy_estimation_methods"),
        "Train from an environment, and record its steps by a wrapper of gymnasium.",
    ),
    "_torch_lr_scheduler_classes": "Give lr as a schedule: lr=[[0, 1e-3], [100_000, 1e-4]].",
    "custom_eval_function": "Evaluate in the loop that calls `algo.train()`.",
    "custom_evaluation_function": "Evaluate in the loop that calls `algo.train()`.",
}
