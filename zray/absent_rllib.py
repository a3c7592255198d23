"""Names of Ray's RLlib that zray does not have: for each, a sentence that says what to do instead.

A row of a module stands for all below it.  docs/names_of_rllib.py lists the names that are looked for.
"""

from __future__ import annotations

__all__ = ["NAMES"]

OFFLINE = "Train from an environment, or write the loop over recorded steps with torch."
WORKERS = "Use `PPOConfig` with several `num_env_runners`."
MODEL = "Give a torch module: `config.training(model={'custom_model': ...})`."
CONNECTOR = "Change observations, rewards and actions by wrappers of gymnasium, and give `observation_filter`."
LEARNER = "Derive a class from the algorithm, and change its `training_step` or `_update`."
CONTINUOUS = "Use `SACConfig`."
VALUES = "Use `DQNConfig`, which has double Q, dueling networks, n-step returns and priorities."
AGENTS = "Use `PPOConfig` or `DQNConfig` with `multi_agent(policies=...)`."
EVOLUTION = "Use `ESConfig`, with `top_directions` and `return_proc_mode='reward_std'`."
CONTROL = "Step the program that calls from a class of `gymnasium.Env`, which asks it for observations."
EXPLORE = "Give `epsilon` for DQN, `entropy_coeff` for PPO, or `explore=False`."
EXAMPLE = "Copy the example's file: environments, models and callbacks run unchanged."

_ALGORITHMS = {
    **dict.fromkeys(("impala.IMPALA", "impala.Impala", "appo.APPO"), WORKERS),
    **dict.fromkeys(("bc.BC", "cql.CQL", "marwil.MARWIL", "crr.CRR", "iql.IQL", "dt.DT"), OFFLINE),
    **dict.fromkeys(("td3.TD3", "ddpg.DDPG", "apex_ddpg.ApexDDPG"), CONTINUOUS),
    **dict.fromkeys(("apex_dqn.ApexDQN", "simple_q.SimpleQ", "r2d2.R2D2", "slateq.SlateQ"), VALUES),
    **dict.fromkeys(("qmix.QMix", "maddpg.MADDPG"), AGENTS),
    "ars.ARS": EVOLUTION,
    "pg.PG": "Use `A2CConfig`.",
    "dreamerv3.DreamerV3": "Use `PPOConfig` or `SACConfig`.",
    "dreamer.Dreamer": "Use `PPOConfig` or `SACConfig`.",
    "maml.MAML": "Use `PPOConfig`, and draw the task in `reset`.",
    "mbmpo.MBMPO": "Use `SACConfig`.",
    "alpha_zero.AlphaZero": "Use `PPOConfig`, and mask impossible actions by `action_mask`.",
    "bandit.BanditLinUCB": "Use `DQNConfig` with `gamma=0`.",
    "bandit.BanditLinTS": "Use `DQNConfig` with `gamma=0`.",
    "random_agent.RandomAgent": "Call `env.action_space.sample()`.",
}


def _of_algorithms() -> dict[str, str]:
    """Rows of algorithms: the module, the class and its configuration, and the former Trainer."""
    found = {}
    for place, advice in _ALGORITHMS.items():
        module, name = place.split(".")
        found[f"zray.rllib.algorithms.{module}"] = found[f"zray.rllib.agents.{module}"] = advice
        for end in ("", "Config"):
            found[f"zray.rllib.algorithms.{name}{end}"] = advice
        found[f"zray.rllib.agents.{name}Trainer"] = advice
    return found


NAMES = {
    **_of_algorithms(),
    "zray.rllib.connectors": CONNECTOR,
    "zray.rllib.offline": OFFLINE,
    "zray.rllib.execution": LEARNER,
    "zray.rllib.core.learner.Learner": LEARNER,
    "zray.rllib.core.learner.learner": LEARNER,
    "zray.rllib.core.learner.torch": LEARNER,
    "zray.rllib.core.models": MODEL,
    "zray.rllib.core.testing": MODEL,
    "zray.rllib.core.rl_module.multi_rl_module": AGENTS,
    "zray.rllib.core.rl_module.MultiRLModule": AGENTS,
    "zray.rllib.core.rl_module.MultiRLModuleSpec": AGENTS,
    "zray.rllib.core.rl_module.torch": MODEL,
    "zray.rllib.core.rl_module.TorchRLModule": MODEL,
    "zray.rllib.core.rl_module.apis": MODEL,
    "zray.rllib.env.VectorEnv": "Give `num_envs_per_env_runner`: environments are stepped together.",
    "zray.rllib.env.vector_env": "Give `num_envs_per_env_runner`: environments are stepped together.",
    "zray.rllib.env.vector": "Give `num_envs_per_env_runner`: environments are stepped together.",
    "zray.rllib.env.ExternalEnv": CONTROL,
    "zray.rllib.env.external_env": CONTROL,
    "zray.rllib.env.ExternalMultiAgentEnv": CONTROL,
    "zray.rllib.env.external_multi_agent_env": CONTROL,
    "zray.rllib.env.PolicyClient": CONTROL,
    "zray.rllib.env.policy_client": CONTROL,
    "zray.rllib.env.PolicyServerInput": CONTROL,
    "zray.rllib.env.policy_server_input": CONTROL,
    "zray.rllib.env.TaskSettableEnv": "Change the task in `reset`, or in the callback `on_train_result`.",
    "zray.rllib.env.apis": "Change the task in `reset`, or in the callback `on_train_result`.",
    "zray.rllib.env.tcp_client_inference_env_runner": CONTROL,
    "zray.rllib.env.multi_agent_episode": "Read the episode in callbacks.",
    "zray.rllib.env.multi_agent_env_runner": "Count steps and returns in callbacks.",
    "zray.rllib.evaluation.RolloutMetrics": "Read `env_runners` and `hist_stats` of the result.",
    "zray.rllib.evaluation.collect_metrics": "Read `env_runners` and `hist_stats` of the result.",
    "zray.rllib.evaluation.collectors": LEARNER,
    "zray.rllib.models.tf": "Write the model with torch: `TorchModelV2`.",
    "zray.rllib.models.ActionDistribution": "Use a class of `zray.rllib.models.torch.torch_action_dist`.",
    "zray.rllib.models.action_dist": "Use a class of `zray.rllib.models.torch.torch_action_dist`.",
    "zray.rllib.models.distributions": "Use a class of `zray.rllib.models.torch.torch_action_dist`.",
    "zray.rllib.models.repeated_values": "Pad the observations to a Box of fixed shape.",
    "zray.rllib.models.torch.attention_net": "Give `use_lstm`, or a `RecurrentNetwork` of your own.",
    "zray.rllib.models.torch.visionnet": "Give `conv_filters`, or a `TorchModelV2` with convolutions of your own.",
    "zray.rllib.models.torch.complex_input_net": "Give a `TorchModelV2` of your own for Dict observations.",
    "zray.rllib.policy.TFPolicy": "Write the policy with torch.",
    "zray.rllib.policy.tf_policy": "Write the policy with torch.",
    "zray.rllib.policy.TorchPolicy": LEARNER,
    "zray.rllib.policy.torch_policy": LEARNER,
    "zray.rllib.policy.TorchPolicyV2": LEARNER,
    "zray.rllib.policy.torch_policy_v2": LEARNER,
    "zray.rllib.policy.build_policy_class": LEARNER,
    "zray.rllib.policy.build_torch_policy": LEARNER,
    "zray.rllib.policy.build_tf_policy": LEARNER,
    "zray.rllib.policy.policy_map": "Call `algo.get_policy(name)`.",
    "zray.rllib.policy.view_requirement": "Give `use_lstm`, or stack observations in a wrapper of gymnasium.",
    "zray.rllib.utils.exploration": EXPLORE,
    "zray.rllib.utils.from_config": "Call the class itself.",
    "zray.rllib.utils.actors": "Create actors by `zray.remote`.",
    "zray.rllib.utils.actor_manager": "Create actors by `zray.remote`.",
    "zray.rllib.utils.policy": "Call `Algorithm.from_checkpoint(path).get_policy()`.",
    "zray.rllib.utils.tf_utils": "Use torch.",
    "zray.rllib.utils.tf_ops": "Use torch.",
    "zray.rllib.examples.rl_modules": MODEL,
    "zray.rllib.examples.learners": LEARNER,
    "zray.rllib.examples.connectors": CONNECTOR,
    "zray.rllib.examples.policy": "Draw with `env.action_space.sample()`, or give a policy class of your own.",
    "zray.rllib.examples.models": "Give `action_mask` in a Dict observation, or a model of your own as `custom_model`.",
    "zray.rllib.examples.env.parametric_actions_cartpole": "Give `action_mask` in a Dict observation.",
    "zray.rllib.examples.algorithms": EXAMPLE,
    "zray.rllib.examples.callbacks": EXAMPLE,
    "zray.rllib.examples.utils": EXAMPLE,
    "zray.rllib.examples.env.two_step_game": EXAMPLE,
    "zray.rllib.examples.env.simple_corridor": EXAMPLE,
    "zray.rllib.examples.env.repeat_after_me_env": EXAMPLE,
    "zray.rllib.examples.env.rock_paper_scissors": EXAMPLE,
    "zray.rllib.examples.env.env_using_remote_actor": EXAMPLE,
    "zray.rllib.examples.env.cartpole_mass": EXAMPLE,
    "zray.rllib.examples.centralized_critic": EXAMPLE,
    "zray.rllib.examples.custom_env": EXAMPLE,
    "zray.rllib.examples.custom_model": EXAMPLE,
    "zray.rllib.contrib": "Use an algorithm of `zray.rllib.algorithms`.",
    "zray.rllib.optimizers": LEARNER,
    "zray.rllib.tuned_examples": "Use the options of `zray.rllib.tuned`.",
}
