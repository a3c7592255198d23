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
    "rllib": "BaseEnv EnvContext MultiAgentEnv Policy RolloutWorker SampleBatch ExternalEnv VectorEnv",
    "rllib.algorithms": "Algorithm AlgorithmConfig "
    + " ".join(f"{name} {name}Config" for name in _ALGORITHMS.values()),
    **{f"rllib.algorithms.{module}": f"{name} {name}Config" for module, name in _ALGORITHMS.items()},
    **{f"rllib.agents.{module}": f"{name}Trainer DEFAULT_CONFIG" for module, name in _HERE.items()},
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
    "rllib.core.rl_module.rl_module": "RLModule RLModuleSpec",
    "rllib.core.rl_module.torch.torch_rl_module": "TorchRLModule",
    "rllib.env": "BaseEnv EnvContext MultiAgentEnv VectorEnv ExternalEnv ExternalMultiAgentEnv PolicyClient "
    "PolicyServerInput TaskSettableEnv",
    "rllib.env.base_env": "BaseEnv",
    "rllib.env.env_context": "EnvContext",
    "rllib.env.external_env": "ExternalEnv",
    "rllib.env.multi_agent_env": "MultiAgentEnv make_multi_agent",
    "rllib.env.multi_agent_episode": "MultiAgentEpisode",
    "rllib.env.policy_client": "PolicyClient",
    "rllib.env.policy_server_input": "PolicyServerInput",
    "rllib.env.single_agent_env_runner": "SingleAgentEnvRunner",
    "rllib.env.single_agent_episode": "SingleAgentEpisode",
    "rllib.env.vector_env": "VectorEnv",
    "rllib.evaluation": "Episode MultiAgentEpisode RolloutWorker collect_metrics",
    "rllib.evaluation.episode": "Episode",
    "rllib.evaluation.postprocessing": "compute_advantages",
    "rllib.evaluation.rollout_worker": "RolloutWorker",
    "rllib.evaluation.worker_set": "WorkerSet",
    "rllib.examples.env.multi_agent": "MultiAgentCartPole",
    "rllib.examples.env.random_env": "RandomEnv",
    "rllib.examples.env.stateless_cartpole": "StatelessCartPole",
    "rllib.examples.envs.classes.multi_agent": "MultiAgentCartPole",
    "rllib.examples.models.action_mask_model": "TorchActionMaskModel",
    "rllib.examples.policy.random_policy": "RandomPolicy",
    "rllib.examples.rl_modules.classes": "ActionMaskingRLModule",
    "rllib.execution": "",
    "rllib.models": "ActionDistribution MODEL_DEFAULTS ModelCatalog ModelV2",
    "rllib.models.catalog": "MODEL_DEFAULTS ModelCatalog",
    "rllib.models.modelv2": "ModelV2",
    "rllib.models.preprocessors": "get_preprocessor",
    "rllib.models.tf.tf_modelv2": "TFModelV2",
    "rllib.models.torch.attention_net": "GTrXLNet",
    "rllib.models.torch.complex_input_net": "ComplexInputNetwork",
    "rllib.models.torch.fcnet": "FullyConnectedNetwork",
    "rllib.models.torch.misc": "SlimFC normc_initializer",
    "rllib.models.torch.recurrent_net": "RecurrentNetwork",
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
    "rllib.policy.torch_policy": "TorchPolicy",
    "rllib.policy.torch_policy_v2": "TorchPolicyV2",
    "rllib.policy.view_requirement": "ViewRequirement",
    "rllib.utils": "add_mixins check_learning_achieved deep_update deprecation_warning force_list merge_dicts override "
    "sigmoid softmax try_import_torch",
    "rllib.utils.annotations": "override PublicAPI DeveloperAPI",
    "rllib.utils.exploration": "EpsilonGreedy StochasticSampling",
    "rllib.utils.exploration.curiosity": "Curiosity",
    "rllib.utils.filter": "MeanStdFilter NoFilter",
    "rllib.utils.framework": "try_import_tf try_import_torch",
    "rllib.utils.metrics": "",
    "rllib.utils.numpy": "sigmoid softmax",
    "rllib.utils.replay_buffers": "PrioritizedReplayBuffer ReplayBuffer",
    "rllib.utils.spaces.space_utils": "clip_action flatten_space flatten_to_single_ndarray normalize_action unbatch "
    "unsquash_action",
    "rllib.utils.test_utils": "check_learning_achieved",
    "rllib.utils.torch_ops": "FLOAT_MAX FLOAT_MIN",
    "rllib.utils.torch_utils": "FLOAT_MAX FLOAT_MIN",
    "rllib.utils.typing": "AgentID ModelConfigDict PolicyID TensorType",
}
