"""Checkpoints of algorithms: everything that the next iterations depend on, in one file, and the weights beside it."""

from __future__ import annotations

import os
import pickle
from typing import Any

import torch

from .devices import on_cpu
from .other_environments import differing
from .spellings import logger
from .weight_files import write_weights

__all__ = ["STATE", "Checkpoints"]

STATE = "algorithm_state.pkl"


class Checkpoints:
    """Saves an algorithm, and lets an algorithm go on from what was saved."""

    def save_checkpoint(self: Any, checkpoint_dir: str) -> None:
        """Write everything that the next iterations depend on."""
        state = {
            "weights": self.policy.get_weights(),
            "filter": self.policy.filter,
            "learner": on_cpu(self.learner_state()),
            "rng": self.rng,
            "streams": self.streams.states,
            "torch": torch.get_rng_state(),
            "episodes": list(self.episodes),
            "steps_sampled": self.steps_sampled,
            "agent_steps_sampled": self.agent_steps_sampled,
            "groups": self.rollouts.state(),
            "config": self.algorithm_config,
            "algorithm": type(self).__name__,
            "threads": torch.get_num_threads(),
        }
        import cloudpickle

        with open(os.path.join(checkpoint_dir, STATE), "wb") as file:
            cloudpickle.dump(state, file)
        policies = {name: self.get_policy(name) for name in self.policy_ids()}
        weights = {name: policy.get_weights() for name, policy in policies.items()}
        write_weights(checkpoint_dir, weights, {name: policy.filter for name, policy in policies.items()})

    def load_checkpoint(self: Any, checkpoint: Any) -> None:
        """Go on from a checkpoint."""
        with open(os.path.join(str(checkpoint), STATE), "rb") as file:
            state = pickle.load(file)
        self.policy.set_weights(state["weights"])
        self.policy.filter = state["filter"]
        self.set_learner_state(state["learner"])
        self.rng = state["rng"]
        self.streams.states = state.get("streams", self.streams.states)
        torch.set_rng_state(state["torch"])
        self.episodes.clear()
        self.episodes.extend(state["episodes"])
        self.steps_sampled = state["steps_sampled"]
        self.agent_steps_sampled = state.get("agent_steps_sampled", 0)
        other = differing(state["config"], self.algorithm_config)
        if other:
            logger.warning(
                "The checkpoint has another %s than this algorithm: training goes on with the weights of the "
                "checkpoint, in new episodes of the environments of this algorithm.",
                " and another ".join(other),
            )
        else:
            self.rollouts.set_state(state["groups"])
        self._tell("on_checkpoint_loaded")

    def save_to_path(self: Any, path: Any = None) -> str:
        """Save into a folder, and return its path."""
        return str(self.save(None if path is None else os.fspath(path)))

    def restore_from_path(self: Any, path: Any) -> None:
        """Go on from the checkpoint in a folder."""
        self.restore(path)

    @classmethod
    def from_checkpoint(cls, path: Any) -> Any:
        """Make the algorithm of the checkpoint in the folder `path`; its next iterations are those after the save."""
        folder = str(getattr(path, "path", path))
        with open(os.path.join(folder, STATE), "rb") as file:
            config = pickle.load(file)["config"]
        made = config.copy().build_algo()
        made.restore(folder)
        return made
