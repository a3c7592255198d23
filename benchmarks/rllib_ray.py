"""Rollouts by Ray's RLlib: PPO's env runners, as a program of another interpreter that measures when it is told to.

It is run by its path, with Ray's Python: `python -I rllib_ray.py '{"env": ..., "workers": ...}'`.  Each line of the
input is answered by a line with the steps per second of one collection.  The end of the input ends it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

READY = "ready"
END_SECONDS = 60.0  # that Ray may take to end


class RaySampler:
    """The other interpreter, at the same work.

    Args:
        python: the interpreter that has ray[rllib].
        env: gymnasium's name of the environment.
        workers, size, steps: env runners, environments of each, and steps of each environment in a collection.
        hiddens: units of the layers of the policy, which are tanh, and of the value, which has layers of its own.

    Raises:
        RuntimeError: the interpreter ends before it is ready.
    """

    def __init__(self, python: str, env: str, workers: int, size: int, steps: int, hiddens: list[int]) -> None:
        options = {"env": env, "workers": workers, "size": size, "steps": steps, "hiddens": hiddens}
        self.process = subprocess.Popen(
            [python, "-I", __file__, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = self._answer(READY)
        self.steps_per_second()

    def _answer(self, key: str) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:  # Ray writes lines of its own
            if line.startswith(f'{{"{key}"'):
                return json.loads(line)[key]
        raise RuntimeError(f"Ray's interpreter ended with code {self.process.wait()}: does it have ray[rllib]?")

    def steps_per_second(self) -> float:
        """Steps per second of one collection."""
        assert self.process.stdin is not None
        self.process.stdin.write("collect\n")
        self.process.stdin.flush()
        return float(self._answer("measured"))

    def close(self) -> None:
        """End the interpreter and its Ray."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(END_SECONDS)


def measure(env: str, workers: int, size: int, steps: int, hiddens: list[int]) -> None:
    """Answer each line of the input by a figure."""
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

    ray.init(num_cpus=workers, log_to_driver=False, include_dashboard=False)
    total = workers * size * steps
    model = DefaultModelConfig(fcnet_hiddens=hiddens, fcnet_activation="tanh", vf_share_layers=False)
    config = (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=workers, num_envs_per_env_runner=size, rollout_fragment_length=steps)
        .learners(num_learners=0)
        .rl_module(model_config=model)
        .training(train_batch_size_per_learner=total)
    )
    algo = config.build_algo()

    def collect() -> float:
        """PPO's training step before its update: the weights go to the env runners, and a batch comes from them."""
        begin = time.perf_counter()
        algo.env_runner_group.sync_weights(
            from_worker_or_learner_group=algo.learner_group, policies=[DEFAULT_MODULE_ID], inference_only=True
        )
        episodes, _ = synchronous_parallel_sample(
            worker_set=algo.env_runner_group, max_env_steps=total, _uses_new_env_runners=True, _return_metrics=True
        )
        return sum(len(episode) for episode in episodes) / (time.perf_counter() - begin)

    print(json.dumps({READY: ray.__version__}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"measured": collect()}), flush=True)
    algo.stop()
    ray.shutdown()


if __name__ == "__main__":
    measure(**json.loads(sys.argv[1]))
