"""A training that goes on keeps its memory."""

import os

import pytest

import zray

pytest.importorskip("torch", reason="torch is not installed here")

from benchmarks import rllib_memory  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402

ITERATIONS = 150
MEGABYTES = 1.0  # of all processes: a few kilobytes of each iteration that stay take more


@pytest.mark.slow
def test_memory_of_ppo_does_not_grow_with_its_iterations(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False):
        config = PPOConfig().environment("CartPole-v1").training(num_epochs=1, minibatch_size=16)
        config.training(model={"fcnet_hiddens": [8]})
        config.env_runners(num_env_runners=2, num_envs_per_env_runner=1, rollout_fragment_length=8)
        algo = config.build_algo()

        def memory():
            for _ in range(ITERATIONS):
                algo.train()
            return {process: rllib_memory.resident_bytes(process) / 1e6 for process in rllib_memory.family(os.getpid())}

        before, after = memory(), memory()
        algo.stop()
    grown = {process: after[process] - before[process] for process in before if process in after}
    assert sum(grown.values()) < MEGABYTES, (grown, before)
