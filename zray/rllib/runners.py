"""The holders of environments, as programs ask for them: `algo.workers`, `algo.env_runner_group`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Runner", "RunnerGroup"]


class Runner:
    """The environments of this process, with the policies of the algorithm."""

    worker_index = 0

    def __init__(self, algorithm: Any) -> None:
        self.algorithm, self.config = algorithm, algorithm.config

    @property
    def envs(self) -> list[Any]:
        """The environments.

        Raises:
            RuntimeError: other processes have them.
        """
        host = getattr(self.algorithm.rollouts, "host", None)
        if host is None:
            raise RuntimeError(
                "The environments of this algorithm are in other processes: give num_env_runners=0 to reach them, or "
                "act on them in callbacks."
            )
        return [env for group in host.groups for env in group.envs]

    env = property(lambda self: self.envs[0])
    module = property(lambda self: self.algorithm.get_module())
    policy_map = property(lambda self: {name: self.algorithm.get_policy(name) for name in self.algorithm.policy_ids()})

    def get_policy(self, policy_id: str = "default_policy") -> Any:
        """The policy."""
        return self.algorithm.get_policy(policy_id)

    def get_weights(self, *args: Any, **ignored: Any) -> dict[str, Any]:
        """The parameters of the models, by policy and name."""
        found: dict[str, Any] = self.algorithm.learner_group.get_weights()
        return found

    def set_weights(self, weights: dict[str, Any], *args: Any, **ignored: Any) -> None:
        """Take parameters, by policy and name."""
        self.algorithm.learner_group.set_weights(weights)

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """The results of a function of each environment."""
        return [func(env) for env in self.envs]

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """The results of a function of each policy and its name."""
        return [func(policy, name) for name, policy in self.policy_map.items()]


class RunnerGroup:
    """All holders of environments: each rollout gets the weights of the algorithm, so that none has others."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm

    @property
    def local_env_runner(self) -> Runner:
        """The holder in this process."""
        return Runner(self.algorithm)

    def local_worker(self) -> Runner:
        """The holder in this process: the former name."""
        return Runner(self.algorithm)

    def remote_workers(self) -> list[Any]:
        """The actors that hold environments."""
        return list(getattr(self.algorithm.rollouts, "actors", []))

    def num_remote_workers(self) -> int:
        """The number of actors that hold environments."""
        return len(self.remote_workers())

    def num_remote_env_runners(self) -> int:
        """The number of actors that hold environments."""
        return len(self.remote_workers())

    def sync_weights(self, *args: Any, **ignored: Any) -> None:
        """Nothing to do: a rollout begins with the weights of the algorithm."""

    def foreach_env_runner(self, func: Callable[[Any], Any], *args: Any, **ignored: Any) -> list[Any]:
        """The result of a function of the holder in this process.

        Raises:
            NotImplementedError: the environments are in other processes.
        """
        if self.remote_workers():
            raise NotImplementedError(
                "zray does not call functions in the processes of environments yet.  Give num_env_runners=0, or act in "
                "callbacks, which run there."
            )
        return [func(self.local_env_runner)]

    foreach_worker = foreach_env_runner

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any], *args: Any, **ignored: Any) -> list[Any]:
        """The result of a function of the holder in this process and its number, 0."""
        return self.foreach_env_runner(lambda runner: func(runner, 0))

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """The results of a function of each environment, by holder."""
        return self.foreach_env_runner(lambda runner: runner.foreach_env(func))

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """The results of a function of each policy and its name."""
        return self.local_env_runner.foreach_policy(func)
