"""Tuned options: what an algorithm needs to learn a task, and in how many steps it does.

`stop` holds the level that the greedy policy reaches, and the steps within which it does so with seeds 0, 1 and 2.

Example:
    row = TUNED["pendulum-sac"]
    algo = get_algorithm_class(row["run"])(config=row["config"], env=row["env"])
"""

from __future__ import annotations

from typing import Any

__all__ = ["TUNED"]

TUNED: dict[str, dict[str, Any]] = {
    "cartpole-ppo": {
        "run": "PPO",
        "env": "CartPole-v1",
        "stop": {"episode_reward_mean": 475, "timesteps_total": 120_000},
        # Those of RL Baselines3 Zoo.
        "config": {
            "num_groups": 2,
            "num_envs_per_env_runner": 4,
            "rollout_fragment_length": 32,
            "lr": 1e-3,
            "lr_decay_steps": 120_000,
            "gamma": 0.98,
            "lambda_": 0.8,
            "num_epochs": 20,
            "minibatch_size": 256,
        },
    },
    "cartpole-dqn": {
        "run": "DQN",
        "env": "CartPole-v1",
        "stop": {"episode_reward_mean": 475, "timesteps_total": 60_000},
        # Those of RL Baselines3 Zoo, with returns of 3 steps, smaller networks and a smaller learning rate.
        "config": {
            "num_groups": 1,
            "num_envs_per_env_runner": 4,
            "rollout_fragment_length": 50,
            "lr": 1e-3,
            "train_batch_size": 64,
            "capacity": 100_000,
            "learning_starts": 1_000,
            "updates_per_iteration": 100,
            "target_network_update_freq": 1,
            "epsilon": [[0, 1.0], [8_000, 0.04]],
            "model": {"fcnet_hiddens": [128, 128], "fcnet_activation": "relu"},
            "n_step": 3,
            "double_q": True,
            "dueling": False,
            "prioritized": False,
        },
    },
    "cartpole-a2c": {
        "run": "A2C",
        "env": "CartPole-v1",
        "stop": {"episode_reward_mean": 475, "timesteps_total": 400_000},
        # The defaults, with rollouts of 16 steps: the value behind the last step counts less.
        "config": {"num_groups": 2, "num_envs_per_env_runner": 4, "rollout_fragment_length": 16},
    },
    "cartpole-a3c": {
        "run": "A3C",
        "env": "CartPole-v1",
        "stop": {"episode_reward_mean": 475, "timesteps_total": 400_000},
        # The defaults, with 64 steps instead of 10 in a gradient, and larger steps of the optimiser.
        "config": {
            "num_env_runners": 2,
            "num_groups": 2,
            "num_envs_per_env_runner": 4,
            "rollout_fragment_length": 16,
            "lr": 1e-3,
        },
    },
    "pendulum-ppo": {
        "run": "PPO",
        "env": "Pendulum-v1",
        "stop": {"episode_reward_mean": -200, "timesteps_total": 200_000},
        # Those of RL Baselines3 Zoo, without its state-dependent exploration.
        "config": {
            "normalize_actions": False,
            "num_groups": 1,
            "num_envs_per_env_runner": 4,
            "rollout_fragment_length": 1024,
            "lr": 1e-3,
            "gamma": 0.9,
            "lambda_": 0.95,
            "num_epochs": 10,
            "minibatch_size": 64,
        },
    },
    "pendulum-sac": {
        "run": "SAC",
        "env": "Pendulum-v1",
        "stop": {"episode_reward_mean": -200, "timesteps_total": 20_000},
        # The learning rate of RL Baselines3 Zoo, with smaller networks and minibatches.
        "config": {
            "lr": 1e-3,
            "train_batch_size": 128,
            "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "relu"},
        },
    },
    "cartpole-no-velocity-ppo-lstm": {
        "run": "PPO",
        "env": "zray.rllib.env.stateless_cartpole:StatelessCartPole",
        "stop": {"episode_reward_mean": 450, "timesteps_total": 300_000},
        # Those of "cartpole-ppo" with one group, an LSTM, and observations of unit variance.
        "config": {
            "num_groups": 1,
            "num_envs_per_env_runner": 8,
            "rollout_fragment_length": 32,
            "observation_filter": "MeanStdFilter",
            "lr": 1e-3,
            "lr_decay_steps": 300_000,
            "gamma": 0.98,
            "lambda_": 0.8,
            "num_epochs": 20,
            "minibatch_size": 256,
            "model": {"fcnet_hiddens": [64], "use_lstm": True, "lstm_cell_size": 64, "max_seq_len": 32},
        },
    },
    "inverted-pendulum-ppo": {
        "run": "PPO",
        "env": "InvertedPendulum-v5",
        "stop": {"episode_reward_mean": 950, "timesteps_total": 50_000},
        "config": {
            "normalize_actions": False,
            "num_groups": 1,
            "num_envs_per_env_runner": 4,
            "rollout_fragment_length": 256,
            "lr": 1e-3,
            "observation_filter": "MeanStdFilter",
            "normalize_rewards": True,
            "model": {"log_std_init": -1},
        },
    },
    "inverted-pendulum-es": {
        "run": "ES",
        "env": "InvertedPendulum-v5",
        "stop": {"episode_reward_mean": 950, "timesteps_total": 200_000},
        "config": {
            "normalize_actions": False,
            "episodes_per_batch": 20,
            "noise_stdev": 0.05,
            "stepsize": 0.05,
            "l2_coeff": 0.0,
            "noise_size": 1_000_000,
            "model": {"fcnet_hiddens": []},
        },
    },
    "halfcheetah-ppo": {
        "run": "PPO",
        "env": "HalfCheetah-v5",
        "stop": {"episode_reward_mean": 5_000, "timesteps_total": 1_000_000},
        # Those of RL Baselines3 Zoo, with 8 environments instead of one, and fewer and larger minibatches: a sixth of
        # the time.
        "config": {
            "num_groups": 1,
            "num_envs_per_env_runner": 8,
            "rollout_fragment_length": 256,
            "lr": 3e-4,
            "gamma": 0.98,
            "lambda_": 0.92,
            "clip_param": 0.2,
            "num_epochs": 10,
            "minibatch_size": 256,
            "entropy_coeff": 0.000401762,
            "vf_loss_coeff": 0.58096,
            "grad_clip": 0.8,
            "observation_filter": "MeanStdFilter",
            "normalize_rewards": True,
            "model": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu", "log_std_init": -2},
        },
    },
    "cartpole-es-linear": {
        "run": "ES",
        "env": "CartPole-v1",
        "stop": {"episode_reward_mean": 475, "timesteps_total": 100_000},
        "config": {
            "episodes_per_batch": 20,
            "noise_stdev": 0.05,
            "stepsize": 0.02,
            "l2_coeff": 0.0,
            "noise_size": 1_000_000,
            "model": {"fcnet_hiddens": []},
        },
    },
    "cartpole-es-mlp": {
        "run": "ES",
        "env": "CartPole-v1",
        "stop": {"episode_reward_mean": 475, "timesteps_total": 400_000},
        "config": {
            "episodes_per_batch": 40,
            "noise_stdev": 0.05,
            "stepsize": 0.03,
            "l2_coeff": 0.0,
            "noise_size": 1_000_000,
            "model": {"fcnet_hiddens": [64, 64]},
        },
    },
}
