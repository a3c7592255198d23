"""ASHA stops most of four runs of PPO early, and the best learning rate learns to balance the pole.

Prints:
    ASHA ran ... of 32 iterations
    the best run balances for more than 40 steps: True
"""

import tempfile

import zray as ray
from zray import tune
from zray.rllib.algorithms.ppo import PPOConfig
from zray.tune.schedulers import ASHAScheduler

ITERATIONS = 8

if __name__ == "__main__":
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(rollout_fragment_length=100)
        .training(lr=tune.grid_search([1e-3, 3e-4, 1e-5, 1e-6]), num_epochs=4)
        .debugging(seed=1)
    )
    with tempfile.TemporaryDirectory() as folder, ray.init(num_cpus=2):
        results = tune.Tuner(
            "PPO",
            param_space=config,
            tune_config=tune.TuneConfig(
                metric="episode_reward_mean",
                mode="max",
                scheduler=ASHAScheduler(max_t=ITERATIONS, grace_period=1, reduction_factor=3),
            ),
            run_config=tune.RunConfig(name="poles", storage_path=folder, verbose=0),
        ).fit()
        ran = sum(result.metrics["training_iteration"] for result in results)
        best = results.get_best_result()
        print(f"ASHA ran {ran} of {4 * ITERATIONS} iterations")
        print(f"the best run balances for more than 40 steps: {best.metrics['episode_reward_mean'] > 40}")
