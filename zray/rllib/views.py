"""The parts of an algorithm as programs of today, and of the middle, ask for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["Absent", "PolicyWeights", "Views"]


class Absent:
    """An attribute that algorithms or policies of Ray have, and that is an AttributeError with a sentence here.

    Args:
        words: what to use instead.
        owners: "algorithms" or "policies".
        name: of the attribute; "": the one that the body of a class gives it.
    """

    def __init__(self, words: str, owners: str = "algorithms", name: str = "") -> None:
        self.words, self.owners, self.name = words, owners, name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, algorithm: Any, owner: Any = None) -> Any:
        raise AttributeError(f"zray's {self.owners} have no {self.name!r}.  {self.words}")


class PolicyWeights(dict[str, Any]):
    """The parameters of a policy by name; as an array, all of them in a row."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        leaves = [np.ravel(leaf) for leaf in _leaves(self)]
        row = np.concatenate(leaves) if leaves else np.zeros(0, np.float32)
        return row if dtype is None else row.astype(dtype)


def _leaves(weights: Any) -> Iterator[Any]:
    for each in weights.values():
        yield from _leaves(each) if isinstance(each, Mapping) else (each,)


_OFFLINE = "Train from an environment: recorded steps are not read yet."
_CHECKPOINTS = "Keep a checkpoint: algo.save(folder), and Algorithm.from_checkpoint(folder)."


class Views:
    """Views of an algorithm: modules, the learner, and the processes with the environments."""

    def policy_ids(self) -> list[str]:
        """The names of the policies."""
        return ["default_policy"]

    def get_module(self: Any, module_id: str = "default_policy") -> Any:
        """The policy as an `RLModule`."""
        from .modules import RLModule

        return RLModule(self.get_policy(module_id), module_id)

    def get_weights(self: Any, policies: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        """The parameters of the models, by policy and name.

        `np.asarray` of a policy's parameters is one row of all of them.

        Args:
            policies: the names of policies; None: all.

        Raises:
            ValueError: no policy has such a name.
        """
        names = self.policy_ids() if policies is None else list(policies)
        self._check_policy_names(names)
        return {name: PolicyWeights(self.get_policy(name).get_weights()) for name in names}

    def set_weights(self: Any, weights: Mapping[str, Any]) -> None:
        """Take parameters of the models, by policy and name; with one policy also by name alone.

        Raises:
            ValueError: no policy has such a name.
        """
        if weights and not any(isinstance(each, Mapping) for each in weights.values()) and len(self.policy_ids()) == 1:
            weights = {self.policy_ids()[0]: weights}
        self._check_policy_names(weights)
        for name, found in weights.items():
            self.get_policy(name).set_weights(found)

    def _check_policy_names(self: Any, names: Collection[str]) -> None:
        own = self.policy_ids()
        for name in names:
            if name not in own:
                raise ValueError(f"No policy is called {name!r}.  The policies are: {', '.join(map(str, own))}.")

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

    @property
    def evaluation_config(self: Any) -> Any:
        """The configuration of evaluations: that of the training, with what `evaluation_config` changes."""
        return self.algorithm_config.get_evaluation_config_object()

    @property
    def eval_env_runner_group(self: Any) -> Any:
        """Absent: an evaluation plays in the process of the algorithm.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(
            "zray has no group of processes for evaluations: algo.evaluate() plays them in this process, in an "
            "environment of its own.  Act on that in callbacks: on_evaluate_start, on_evaluate_end."
        )

    evaluation_workers = eval_env_runner_group

    from_state = Absent(_CHECKPOINTS)
    import_model = Absent("Set the parameters: algo.set_weights(weights).")
    import_policy_model_from_h5 = Absent("Set the parameters: algo.set_weights(weights).")
    export_to = Absent("Call algo.get_policy().export_model(folder).")
    get_metadata = Absent("Read algo.config, and the dict that algo.train() returns.")
    local_worker = Absent("Call algo.workers.local_worker(), where num_env_runners=0.")
    remote_workers = Absent("Call algo.workers.foreach_worker(function).")
    eval_env_runner = Absent("algo.evaluate() plays in this process: act on it in on_evaluate_start, on_evaluate_end.")
    offline_data = Absent(_OFFLINE)
    evaluation_dataset = Absent(_OFFLINE)
    reward_estimators = Absent(_OFFLINE)
    train_buffered = Absent("Call algo.train() in a loop.")
    get_metrics = Absent("Read the dict that algo.train() returns.")
    validate_config = Absent("Call config.validate(), which the algorithm calls as well.")
    validate_env = Absent("Environments are checked before the first rollout, unless disable_env_checking=True.")
    try_recover_from_step_attempt = Absent("A rollout process that is lost is always replaced.")
    restore_workers = Absent("A rollout process that is lost is always replaced.")
    restore_env_runners = Absent("A rollout process that is lost is always replaced.")

    @property
    def local_replay_buffer(self: Any) -> Any:
        """The replay memory.

        Raises:
            AttributeError: the algorithm has none.
        """
        if (memory := vars(self).get("memory")) is None:
            raise AttributeError(f"{type(self).__name__} has no replay memory: DQN and SAC have one.")
        return memory

    @property
    def callbacks(self: Any) -> Any:
        """The objects of the option `callbacks`: one, or a list of several; an empty list: there are none."""
        found = list(self.events.callbacks) if self.events is not None else []
        return found[0] if len(found) == 1 else found

    @property
    def _counters(self: Any) -> dict[str, int]:
        """The steps so far, by Ray's names."""
        from .counts import counters

        return counters(self)

    @classmethod
    def merge_algorithm_configs(cls, config1: Mapping[str, Any], config2: Mapping[str, Any], *args: Any) -> Any:
        """A new dict of two, whose inner dicts are merged too; the second one counts."""
        from .helpers import merge_dicts

        return merge_dicts(config1, config2)

    @classmethod
    def get_default_policy_class(cls: Any, config: Any = None) -> Any:
        """The class of the algorithm's policies."""
        return cls.policy_class

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

    add_module = add_policy

    def remove_policy(self, policy_id: str = "default_policy", **options: Any) -> Any:
        """One policy less: not there.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "zray does not remove policies from an algorithm that is built yet.  Let policy_mapping_fn name others "
            f"than {policy_id!r}: a policy without agents costs its memory alone."
        )

    remove_module = remove_policy
