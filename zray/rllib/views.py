"""The parts of an algorithm as programs of today, and of the middle, ask for them."""

from __future__ import annotations

from typing import Any

__all__ = ["Views"]


class Views:
    """Views of an algorithm: modules, the learner, and the processes with the environments."""

    def policy_ids(self) -> list[str]:
        """The names of the policies."""
        return ["default_policy"]

    def get_module(self: Any, module_id: str = "default_policy") -> Any:
        """The policy as an `RLModule`."""
        from .modules import RLModule

        return RLModule(self.get_policy(module_id), module_id)

    @property
    def learner_group(self) -> Any:
        """The learner: weights and state, in today's spelling."""
        from .modules import LearnerGroup

        return LearnerGroup(self)

    @property
    def env_runner_group(self) -> Any:
        """The processes that hold the environments, in the spellings of workers."""
        from .runners import RunnerGroup

        return RunnerGroup(self)

    workers = env_runner_group
    env_runner = property(lambda self: self.env_runner_group.local_env_runner)

    @classmethod
    def with_updates(cls, *args: Any, **kwargs: Any) -> Any:
        """A class of parts is not there: always a NotImplementedError."""
        from .trainers import build_trainer

        return build_trainer()

    def add_policy(self, policy_id: str, *args: Any, **options: Any) -> Any:
        """A further policy: not there.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"zray does not add policies to an algorithm that is built yet.  Name {policy_id!r} in "
            "multi_agent(policies=...) beforehand, with a policy_mapping_fn that chooses by a variable; or build "
            "another algorithm with all policies: other.set_weights({**other.get_weights(), **algo.get_weights()})."
        )

    def remove_policy(self, policy_id: str = "default_policy", **options: Any) -> Any:
        """One policy less: not there.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "zray does not remove policies from an algorithm that is built yet.  Let policy_mapping_fn name others "
            f"than {policy_id!r}: a policy without agents costs its memory alone."
        )
