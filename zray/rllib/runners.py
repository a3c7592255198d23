"""The holders of environments, as programs ask for them: `algo.workers`, `algo.env_runner_group`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zray

__all__ = ["HostRunner", "Runner", "RunnerGroup"]


class Runner:
    """The environments of this process, with the policies of the algorithm."""

    worker_index = 0

    def __init__(self, algorithm: Any) -> None:
        self.algorithm, self.config = algorithm, algorithm.config

    @property
    def has_envs(self) -> bool:
        """Whether the environments are in this process."""
        return getattr(self.algorithm.rollouts, "host", None) is not None

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
        """The results of a function of each environment; none, where other processes have them."""
        return [func(env) for env in self.envs] if self.has_envs else []

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """The results of a function of each policy and its name."""
        return [func(policy, name) for name, policy in self.policy_map.items()]


class HostRunner:
    """The environments of another process, in that process, with the policies of its last rollout.

    Args:
        host: the actor's object, which has the environments.
    """

    def __init__(self, host: Any) -> None:
        self.worker_index: int = host.worker_index
        self.envs = [env for group in host.groups for env in group.envs]
        self.policy_map = getattr(host.policy, "policies", None) or {"default_policy": host.policy}

    env = property(lambda self: self.envs[0])
    foreach_env = Runner.foreach_env
    foreach_policy = Runner.foreach_policy
    has_envs = True

    def get_policy(self, policy_id: str = "default_policy") -> Any:
        """The policy; its parameters are replaced by those of the algorithm at the next rollout."""
        return self.policy_map[policy_id]


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

    def foreach_env_runner(self, func: Callable[[Any], Any], *args: Any, **options: Any) -> list[Any]:
        """The results of a function of each holder, which runs in the holder's process.

        Args:
            options: `local_env_runner=False` leaves the holder in this process out; Ray's others are accepted.

        Raises:
            NotImplementedError: the algorithm is one whose processes take no functions, as ES.
        """
        return self.foreach_worker_with_index(lambda runner, index: func(runner), *args, **options)

    foreach_worker = foreach_env_runner

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any], *args: Any, **options: Any) -> list[Any]:
        """The results of a function of each holder and its number, as of `foreach_env_runner`."""
        names = ("local_env_runner", "local_worker")
        is_here = bool(args[0] if args else all(options.get(name, True) for name in names))
        actors = self.remote_workers()
        if not all(hasattr(actor, "apply") for actor in actors):
            raise NotImplementedError(
                "The processes of this algorithm take no functions.  Give num_env_runners=0, or act in callbacks."
            )
        refs = [actor.apply.remote(func, index) for index, actor in enumerate(actors, 1)]
        here = [func(self.local_env_runner, 0)] if is_here else []
        return here + list(zray.get(refs))

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        """The results of a function of each environment, by holder."""
        return self.foreach_env_runner(lambda runner: runner.foreach_env(func))

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        """The results of a function of each policy and its name."""
        return self.local_env_runner.foreach_policy(func)
