"""Public modules and names of Ray's RLlib, in the versions 1.13, 2.2, 2.9 and 2.60: a list.

`scripts/compatibility` makes the table of absent names from it, and tests/docs/test_names_of_ray.py walks it.
"""

from __future__ import annotations

__all__ = ["NAMES"]

_CALLBACKS = "DefaultCallbacks RLlibCallback"
_ABSENT = {
    "apex_ddpg": "ApexDDPG", "apex_dqn": "ApexDQN", "appo": "APPO", "ars": "ARS", "bandit": "BanditLinUCB",
    "bc": "BC", "cql": "CQL", "crr": "CRR", "ddpg": "DDPG", "dreamerv3": "DreamerV3", "dt": "DT", "impala": "IMPALA",
    "iql": "IQL", "maddpg": "MADDPG", "maml": "MAML", "marwil": "MARWIL", "pg": "PG", "qmix": "QMix", "r2d2": "R2D2",
    "simple_q": "SimpleQ", "slateq": "SlateQ", "td3": "TD3",
}  # fmt: skip
_HERE = {"a2c": "A2C", "a3c": "A3C", "dqn": "DQN", "es": "ES", "ppo": "PPO", "sac": "SAC"}
_ALGORITHMS = {**_HERE, **_ABSENT}

# Modules behind `ray.`, and their names.
NAMES = {
    "rllib": "BaseEnv EnvContext MultiAgentEnv Policy RolloutWorker SampleBatch ExternalEnv VectorEnv "
    "TFPolicy TorchPolicy algorithms rollout train",
    "rllib.algorithms": "Algorithm AlgorithmConfig "
    + " ".join(f"{name} {name}Config" for name in _ALGORITHMS.values()),
    **{f"rllib.algorithms.{module}": f"{name} {name}Config" for module, name in _ALGORITHMS.items()},
    **{f"rllib.agents.{module}": f"{name}Trainer DEFAULT_CONFIG" for module, name in _HERE.items()},
    "rllib.agents.dqn": "DQNTrainer DEFAULT_CONFIG ApexTrainer",
    **{f"rllib.agents.{module}": f"{name}Trainer" for module, name in _ABSENT.items()},
    "rllib.algorithms.algorithm": "Algorithm",
    "rllib.algorithms.algorithm_config": "AlgorithmConfig",
    "rllib.algorithms.callbacks": f"{_CALLBACKS} MemoryTrackingCallbacks make_multi_callbacks",
    "rllib.algorithms.registry": "get_algorithm_class",
    "rllib.agents.trainer": "Trainer COMMON_CONFIG with_common_config",
    "rllib.agents.registry": "get_trainer_class get_agent_class",
    "rllib.callbacks.callbacks": "RLlibCallback",
    "rllib.connectors": "",
    "rllib.connectors.connector_v2": "ConnectorV2",
    "rllib.connectors.env_to_module": "MeanStdFilter FlattenObservations",
    "rllib.connectors.module_to_env": "NormalizeAndClipActions",
    "rllib.core": "Columns DEFAULT_MODULE_ID DEFAULT_AGENT_ID COMPONENT_LEARNER COMPONENT_RL_MODULE",
    "rllib.core.columns": "Columns",
    "rllib.core.learner.learner": "Learner",
    "rllib.core.learner.learner_group": "LearnerGroup",
    "rllib.core.rl_module": "RLModule RLModuleSpec MultiRLModule MultiRLModuleSpec",
    "rllib.core.rl_module.default_model_config": "DefaultModelConfig",
    "rllib.core.rl_module.multi_rl_module": "MultiRLModule MultiRLModuleSpec",
    "rllib.core.rl_module.rl_module": "RLModule RLModuleSpec SingleAgentRLModuleSpec",
    "rllib.core.rl_module.torch.torch_rl_module": "TorchRLModule",
    "rllib.env": "BaseEnv EnvContext MultiAgentEnv VectorEnv ExternalEnv ExternalMultiAgentEnv PolicyClient "
    "PolicyServerInput TaskSettableEnv RemoteVectorEnv RemoteBaseEnv PettingZooEnv ParallelPettingZooEnv",
    "rllib.env.base_env": "BaseEnv",
    "rllib.env.env_context": "EnvContext",
    "rllib.env.external_env": "ExternalEnv",
    "rllib.env.multi_agent_env": "ENV_STATE MultiAgentEnv make_multi_agent",
    "rllib.env.multi_agent_episode": "MultiAgentEpisode",
    "rllib.env.policy_client": "PolicyClient",
    "rllib.env.policy_server_input": "PolicyServerInput",
    "rllib.env.single_agent_env_runner": "SingleAgentEnvRunner",
    "rllib.env.single_agent_episode": "SingleAgentEpisode",
    "rllib.env.vector_env": "VectorEnv",
    "rllib.evaluation": "Episode MultiAgentBatch MultiAgentEpisode PolicyEvaluator PolicyGraph RolloutWorker "
    "SampleBatch "
    "TFPolicyGraph TorchPolicyGraph collect_metrics",
    "rllib.evaluation.metrics": "collect_metrics",
    "rllib.evaluation.episode": "Episode",
    "rllib.evaluation.postprocessing": "compute_advantages compute_gae_for_sample_batch discount_cumsum Postprocessing",
    "rllib.evaluation.rollout_worker": "RolloutWorker get_global_worker",
    "rllib.evaluation.worker_set": "WorkerSet",
    "rllib.evaluate": "run",
    "rllib.examples.env.multi_agent": "GuessTheNumberGame MultiAgentCartPole MultiAgentMountainCar MultiAgentPendulum",
    "rllib.examples.env.random_env": "RandomEnv",
    "rllib.examples.env.stateless_cartpole": "StatelessCartPole",
    "rllib.examples.envs.classes.multi_agent": "MultiAgentCartPole",
    "rllib.examples.models.action_mask_model": "TorchActionMaskModel",
    "rllib.examples.policy.random_policy": "RandomPolicy",
    "rllib.examples.rl_modules.classes": "ActionMaskingRLModule",
    "rllib.execution": "",
    "rllib.models": "ActionDistribution MODEL_DEFAULTS Model ModelCatalog ModelV2 Preprocessor",
    "rllib.models.catalog": "MODEL_DEFAULTS ModelCatalog",
    "rllib.models.modelv2": "ModelV2",
    "rllib.models.misc": "normc_initializer",
    "rllib.models.model": "Model",
    "rllib.models.preprocessors": "AtariRamPreprocessor DictFlatteningPreprocessor GenericPixelPreprocessor "
    "MultiBinaryPreprocessor NoPreprocessor OneHotPreprocessor Preprocessor TupleFlatteningPreprocessor "
    "get_preprocessor",
    "rllib.models.tf.tf_modelv2": "TFModelV2",
    "rllib.models.torch.attention_net": "GTrXLNet",
    "rllib.models.torch.complex_input_net": "ComplexInputNetwork",
    "rllib.models.torch.fcnet": "FullyConnectedNetwork",
    "rllib.models.torch.misc": "SlimFC normc_initializer",
    "rllib.models.torch.recurrent_net": "LSTMWrapper RecurrentNetwork",
    "rllib.models.torch.torch_action_dist": "TorchCategorical TorchDiagGaussian TorchDistributionWrapper "
    "TorchMultiCategorical TorchDeterministic",
    "rllib.models.torch.torch_modelv2": "TorchModelV2",
    "rllib.models.torch.visionnet": "VisionNetwork",
    "rllib.offline": "JsonReader JsonWriter",
    "rllib.offline.json_reader": "JsonReader",
    "rllib.offline.json_writer": "JsonWriter",
    "rllib.policy": "Policy TFPolicy TorchPolicy build_policy_class build_tf_policy",
    "rllib.policy.policy": "Policy PolicySpec",
    "rllib.policy.sample_batch": "DEFAULT_POLICY_ID MultiAgentBatch SampleBatch concat_samples",
    "rllib.policy.tf_policy_template": "build_tf_policy",
    "rllib.policy.torch_policy": "TorchPolicy",
    "rllib.policy.torch_policy_v2": "TorchPolicyV2",
    "rllib.policy.view_requirement": "ViewRequirement",
    "rllib.rollout": "create_parser rollout",
    "rllib.train": "create_parser run_rllib",
    "rllib.utils": "FilterManager add_mixins check_env check_learning_achieved deep_update deprecation_warning "
    "force_list merge_dicts override "
    "sigmoid softmax try_import_jax try_import_tf try_import_tfp try_import_torch",
    "rllib.utils.annotations": "override PublicAPI DeveloperAPI",
    "rllib.utils.exploration": "EpsilonGreedy StochasticSampling",
    "rllib.utils.exploration.curiosity": "Curiosity",
    "rllib.utils.filter": "MeanStdFilter NoFilter RunningStat",
    "rllib.utils.framework": "TensorType try_import_jax try_import_tf try_import_tfp try_import_torch",
    "rllib.utils.metrics": "ENV_RUNNER_RESULTS EPISODE_LEN_MEAN EPISODE_RETURN_MAX EPISODE_RETURN_MEAN "
    "EPISODE_RETURN_MIN EVALUATION_RESULTS LEARNER_RESULTS NUM_AGENT_STEPS_SAMPLED "
    "NUM_AGENT_STEPS_SAMPLED_LIFETIME NUM_ENV_STEPS_SAMPLED NUM_ENV_STEPS_SAMPLED_LIFETIME NUM_EPISODES "
    "NUM_EPISODES_LIFETIME",
    "rllib.utils.metrics.stats": "Stats",
    "rllib.utils.numpy": "LARGE_INTEGER MAX_LOG_NN_OUTPUT MIN_LOG_NN_OUTPUT SMALL_NUMBER convert_to_numpy fc one_hot "
    "relu sigmoid softmax",
    "rllib.utils.check_env": "check_env",
    "rllib.utils.deprecation": "DEPRECATED_VALUE Deprecated deprecation_warning",
    "rllib.utils.memory": "ray_get_and_free",
    "rllib.utils.minibatch_utils": "",
    "rllib.utils.spaces.repeated": "Repeated",
    "rllib.utils.spaces.simplex": "Simplex",
    "rllib.utils.replay_buffers": "PrioritizedReplayBuffer ReplayBuffer EpisodeReplayBuffer "
    "PrioritizedEpisodeReplayBuffer MultiAgentReplayBuffer MultiAgentPrioritizedReplayBuffer "
    "MultiAgentEpisodeReplayBuffer FifoReplayBuffer ReservoirReplayBuffer StorageUnit",
    "rllib.utils.spaces.space_utils": "clip_action convert_element_to_space_type flatten_space "
    "flatten_to_single_ndarray normalize_action unbatch "
    "unsquash_action",
    "rllib.utils.test_utils": "check_learning_achieved add_rllib_example_script_args "
    "run_rllib_example_script_experiment check check_train_results check_compute_single_action",
    "rllib.utils.torch_ops": "FLOAT_MAX FLOAT_MIN",
    "rllib.utils.torch_utils": "FLOAT_MAX FLOAT_MIN convert_to_torch_tensor explained_variance huber_loss "
    "sequence_mask",
    "rllib.utils.typing": "AgentID ModelConfigDict PolicyID TensorType",
    "rllib.utils.schedules": "Schedule ConstantSchedule LinearSchedule PiecewiseSchedule ExponentialSchedule "
    "PolynomialSchedule",
    "rllib.utils.schedules.scheduler": "Scheduler",
    "rllib.utils.schedules.piecewise_schedule": "PiecewiseSchedule",
    "rllib.utils.replay_buffers.episode_replay_buffer": "EpisodeReplayBuffer",
    "rllib.env.wrappers.dm_control_wrapper": "DMCEnv",
    "rllib.env.wrappers.dm_env_wrapper": "",
    "rllib.env.wrappers.open_spiel": "OpenSpielEnv",
    "rllib.env.wrappers.unity3d_env": "Unity3DEnv",
    "rllib.env.wrappers.recsim": "",
    "rllib.env.wrappers.kaggle_wrapper": "",
    "rllib.env.wrappers.uncertainty_wrappers": "",
    "rllib.env.wrappers.model_vector_env": "",
    "rllib.env.wrappers.group_agents_wrapper": "GroupAgentsWrapper",
    "rllib.env.wrappers.atari_wrappers": "FrameStack",
    "rllib.policy.torch_mixins": "KLCoeffMixin LearningRateSchedule",
    "rllib.policy.policy_template": "build_policy_class",
    "rllib.policy.rnn_sequencing": "add_time_dimension",
    "rllib.policy.tf_mixins": "",
    "rllib.policy.eager_tf_policy": "",
    "rllib.policy.dynamic_tf_policy": "",
    "rllib.evaluation.sampler": "SyncSampler",
    "rllib.utils.pre_checks.env": "check_env",
    "rllib.utils.metrics.learner_info": "LEARNER_INFO",
    "rllib.utils.error": "UnsupportedSpaceException",
    "rllib.utils.images": "resize",
    "rllib.utils.sgd": "minibatches",
    "rllib.utils.checkpoints": "get_checkpoint_info",
    "rllib.utils.runners.runner_group": "RunnerGroup",
    "rllib.core.rl_module.marl_module": "MultiAgentRLModuleSpec",
    "rllib.keras_policy": "",
    "rllib.tests.test_multi_agent_env": "",
    "rllib.algorithms.ppo.ppo_torch_policy": "PPOTorchPolicy",
    "rllib.algorithms.ppo.ppo_learner": "PPOLearner",
    "rllib.algorithms.ppo.default_ppo_rl_module": "DefaultPPORLModule",
    "rllib.algorithms.dqn.dqn_torch_policy": "DQNTorchPolicy",
    "rllib.algorithms.sac.sac_torch_policy": "SACTorchPolicy",
    "rllib.algorithms.sac.sac_torch_model": "SACTorchModel",
    "rllib.algorithms.alpha_star": "AlphaStar",
    "rllib.algorithms.leela_chess_zero": "LeelaChessZero",
    "rllib.algorithms.ddppo": "DDPPO",
    "rllib.algorithms.mock": "",
}
