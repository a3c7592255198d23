"""Rollouts: groups of environments in this process, or spread over actors; batches come in the order of the groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import zray

from .calls import Calls, end_in_order, fetched
from .global_random import Streams, seed_process, swap
from .groups import Batch, Group
from .lives import close_at_end, closed
from .policies import Policy

__all__ = ["GroupHost", "Rollouts"]

# The fork server imports torch once for the later actors of a session.
IS_PRELOADED = "zray.rllib.rollouts"
# An actor's call log is cut here: with an environment that can be pickled, recovery replays so many rollouts at most.
CALLS_BETWEEN_CHECKPOINTS = 8


class GroupHost:
    """Some of the groups, with a policy of their own: the class of the rollout actors.

    Args:
        policy: options of the policy, for its constructor.
        groups: options of the groups, for theirs.
        indices: numbers of the groups that are here.
    """

    # The actors of groups recover by the replay of their calls: a killed one goes on with the same rollouts.
    actor_options: dict[str, Any] = {
        "max_restarts": -1,
        "max_task_retries": -1,
        "checkpoint_interval": CALLS_BETWEEN_CHECKPOINTS,
    }

    def __init__(
        self, policy: dict[str, Any], groups: dict[str, Any], indices: list[int], worker_index: int = 0
    ) -> None:
        if worker_index:
            torch.set_num_threads(1)  # one process for each CPU
            seed_process(groups["seed"], worker_index)
        else:
            close_at_end(self)
        options = dict(policy)
        self.policy: Policy = options.pop("policy_class", Policy)(**options)
        self.worker_index = worker_index
        self.groups: list[Any] = []  # an environment that cannot be made leaves it so
        group_class = getattr(self.policy, "group_class", Group)
        self.groups = [group_class(index, worker_index=worker_index, **groups) for index in indices]

    def rollout(
        self, weights: dict[str, Any], observation_filter: Any, steps: int, clip_rewards: bool | float = False
    ) -> list[Batch]:
        """A batch of each group."""
        self.policy.set_weights(weights)
        self.policy.filter = observation_filter
        return [group.rollout(self.policy, steps, clip_rewards) for group in self.groups]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "global_random": Streams.of_process()} if self.worker_index else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        found = state.pop("global_random", None)
        self.__dict__.update(state)
        if found is not None:  # a process that takes the place of another one goes on with its numbers
            swap(found)

    def apply(self, function: Any, index: int) -> Any:
        """The result of a function of this holder of environments and its number."""
        from .runners import HostRunner

        return function(HostRunner(self), index)

    def state(self) -> bytes:
        """The groups, with their environments and random numbers, as a pickle.

        Raises:
            NotImplementedError: an environment cannot be pickled.
        """
        import cloudpickle

        try:
            data: bytes = cloudpickle.dumps(self.groups)
        except Exception as error:
            raise NotImplementedError(
                f"Environment {self.groups[0].name} cannot be pickled: {error}.  A checkpoint needs its state: give it "
                "__getstate__, or keep weights by get_weights()."
            ) from error
        return data

    def set_state(self, data: bytes) -> None:
        """Go on with groups of `state`."""
        import pickle

        self.take(pickle.loads(data))

    def reseed(self, seed: int) -> None:
        """Draw by other random numbers."""
        for group in self.groups:
            group.rng = np.random.default_rng([seed, group.index])

    def take(self, groups: list[Group]) -> None:
        """Go on with other groups, and close the environments of those that were here."""
        for own, group in zip(self.groups, groups, strict=True):
            own.close()
            group.worker_index, group.restarts = self.worker_index, own.restarts
            group.restarted, group.in_vain = [0] * group.size, [0] * group.size
            if own.restarts:
                group.maker = own.maker
        self.groups = groups

    def close(self) -> None:
        """Close all environments."""
        closed(self)
        for group in self.groups:
            group.close()

    __ray_shutdown__ = close


class Rollouts:
    """All groups.

    Args:
        policy, groups: options of the policy and of the groups.
        num_groups: groups, which does not depend on the number of actors.
        num_workers: actors; 0: all groups are in this process.
        resources: of each actor.
        timeout_s: seconds after which an actor whose rollout has not ended is replaced; None: it is waited for.
        host_class: the class of the actors.
    """

    def __init__(
        self,
        policy: dict[str, Any],
        groups: dict[str, Any],
        num_groups: int,
        num_workers: int,
        resources: dict[str, Any] | None = None,
        timeout_s: float | None = None,
        host_class: type[GroupHost] = GroupHost,
    ) -> None:
        self.timeout_s = timeout_s
        self.num_workers = min(num_workers, num_groups)
        self.host: Any = None
        self.actors: list[Any] = []
        self.started: set[int] = set()  # workers that have answered
        if not self.num_workers:
            self.host = host_class(policy, groups, list(range(num_groups)))
            return
        options = {"num_cpus": 1, **host_class.actor_options, **(resources or {})}
        actor_class = zray.remote(host_class).options(**options)
        self.indices = [list(range(worker, num_groups, self.num_workers)) for worker in range(self.num_workers)]
        self.actors = [
            actor_class.remote(policy, groups, indices, worker + 1) for worker, indices in enumerate(self.indices)
        ]

    def collect(
        self, weights: dict[str, Any], observation_filter: Any, steps: int, clip_rewards: bool | float = False
    ) -> list[Batch]:
        """A batch of each group, in the order of the groups."""
        if self.host is not None:
            return self.host.rollout(weights, observation_filter, steps, clip_rewards)
        ref = zray.put(weights)  # once, for all actors
        refs = [actor.rollout.remote(ref, observation_filter, steps, clip_rewards) for actor in self.actors]
        by_index: dict[int, Batch] = {}
        for indices, batches in zip(self.indices, self._gather(refs, self.timeout_s), strict=True):
            by_index.update(zip(indices, batches, strict=True))
        return [by_index[index] for index in sorted(by_index)]

    def _gather(self, refs: list[Any], timeout_s: float | None = None) -> list[Any]:
        """The values of one call of each actor.  An actor that hangs is replaced, and goes on with the same rollout.

        Args:
            timeout_s: seconds of a call that hangs; None: no limit.

        Raises:
            InvalidEnvironmentError: it hangs in each of several processes.
        """
        calls = Calls(self.actors, timeout_s, self.started)
        for worker, ref in enumerate(refs):
            calls.add(ref, worker)
        calls.wait(len(refs))
        return list(fetched(refs))

    def state(self) -> list[bytes]:
        """The state of each host of groups."""
        if self.host is not None:
            return [self.host.state()]
        return self._gather([actor.state.remote() for actor in self.actors])

    def set_state(self, states: list[bytes]) -> None:
        """Go on from a state; the number of actors may be another one."""
        import pickle

        groups = sorted((group for data in states for group in pickle.loads(data)), key=lambda group: group.index)
        import cloudpickle

        if self.host is not None:
            self.host.take(groups)
            return
        refs = []
        for actor, indices in zip(self.actors, self.indices, strict=True):
            refs.append(actor.set_state.remote(cloudpickle.dumps([groups[index] for index in indices])))
        self._gather(refs)

    def reseed(self, seed: int) -> None:
        """Let all groups draw by other random numbers, the same for any number of actors."""
        if self.host is not None:
            self.host.reseed(seed)
        self._gather([actor.reseed.remote(seed) for actor in self.actors])

    def close(self) -> None:
        """Close all environments, and end the actors."""
        if self.host is not None:
            self.host.close()
        actors, self.actors = self.actors, []
        end_in_order(actors)
