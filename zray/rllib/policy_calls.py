"""Methods of a policy that programs call: actions of observations, their probabilities, and the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .exports import Exports
from .spaces import check_finite

__all__ = ["PolicyCalls"]


class PolicyCalls(Exports):
    """Ray's methods of a policy, over the methods of this package.

    Example:
        policy = algo.get_policy()
        actions, state, info = policy.compute_actions(observations, explore=False)
        info["action_dist_inputs"], info["action_logp"], info["vf_preds"]
    """

    def facts(self: Any, parameters: np.ndarray, values: np.ndarray, actions: np.ndarray) -> dict[str, np.ndarray]:
        """Facts of a model beside actions: an array for each name, with a row for each action."""
        logs = self.log_probabilities(parameters, actions)
        return {
            "action_dist_inputs": parameters,
            "action_logp": logs,
            "action_prob": np.exp(logs),
            "vf_preds": np.asarray(values),
        }

    def log_probabilities(self: Any, parameters: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Log probabilities of actions, or log densities, one for each row of parameters.

        A policy without a distribution, as that of DQN, has those of the softmax of its values.
        """
        log_std = self.log_std()
        own = None if log_std is None else torch.from_numpy(np.asarray(log_std))
        with torch.inference_mode():
            found = self.distribution.log_probability(
                torch.from_numpy(np.array(parameters)), own, torch.from_numpy(np.array(actions))
            )
        return np.asarray(found.numpy())

    def compute_actions(
        self: Any,
        obs_batch: Any,
        state_batches: list[Any] | None = None,
        *args: Any,
        explore: bool = True,
        timestep: int | None = None,
        **ignored: Any,
    ) -> tuple[Any, list[np.ndarray], dict[str, np.ndarray]]:
        """Actions of observations, as the environment takes them.

        Args:
            obs_batch: observations, one a row.
            state_batches: recurrent states, with a row for each observation; None: those of an episode's start.
            explore: whether actions are drawn; False: the most likely ones.
            timestep: accepted for Ray's programs.

        Returns:
            Actions; states; and by name: "action_dist_inputs", "action_logp", "action_prob", "vf_preds".
        """
        del args, timestep, ignored
        parameters, values, after = self._outputs(obs_batch, state_batches)
        actions = self.draw(parameters, self.own_rng)[0] if explore else self.distribution.greedy(parameters)
        taken = [self.distribution.to_environment(each) for each in actions]
        if not any(isinstance(each, (tuple, dict)) for each in taken):
            taken = np.asarray(taken)
        return taken, after, self.facts(parameters, values, actions)

    def _outputs(self: Any, obs_batch: Any, state_batches: list[Any] | None) -> tuple[Any, Any, list[np.ndarray]]:
        """Parameters of the distribution, values and next states for observations; see compute_actions."""
        raw = self.flatten(list(obs_batch))
        check_finite(raw)
        rows = self.filter(raw)
        states = state_batches or [np.stack([each] * len(rows)) for each in self.initial_state]
        found: tuple[Any, Any, list[np.ndarray]] = self.forward_states(rows, [np.asarray(each) for each in states])
        return found

    def compute_single_action(
        self: Any, obs: Any, state: list[Any] | None = None, *args: Any, explore: bool = True, **ignored: Any
    ) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
        """The action of an observation, as the environment takes it.

        Args:
            obs: the observation.
            state: the recurrent state; None: that of an episode's start.
            explore: whether the action is drawn; False: the most likely one.

        Returns:
            The action; the next state; and by name, as for `compute_actions`, the outputs of the model.
        """
        del args, ignored
        found: tuple[Any, list[np.ndarray], dict[str, Any]] = self.act_with(
            obs, state or self.initial_state, explore, self.own_rng, is_full=True
        )
        return found

    def compute_log_likelihoods(
        self: Any, actions: Any, obs_batch: Any, state_batches: list[Any] | None = None, *args: Any, **ignored: Any
    ) -> np.ndarray:
        """Log probabilities of actions, or log densities, one for each observation.

        Args:
            actions: of the environment, one for each observation.
            obs_batch, state_batches: see compute_actions.

        Returns:
            An array of shape [observations].
        """
        del args, ignored
        parameters, _, _ = self._outputs(obs_batch, state_batches)
        own = np.stack([self.distribution.from_environment(each) for each in actions])
        return self.log_probabilities(parameters, own)

    @property
    def own_rng(self) -> np.random.Generator:
        """Random numbers of calls by a program, seeded by torch's: training does not read them."""
        if "_rng" not in vars(self):
            self._rng = np.random.default_rng(torch.initial_seed() % 2**63)
        return self._rng

    def get_state(self: Any) -> dict[str, Any]:
        """The parameters of the model, and the filter of observations."""
        return {"weights": self.get_weights(), "filter": self.filter}

    def set_state(self: Any, state: dict[str, Any]) -> None:
        """Take a state of `get_state`."""
        self.set_weights(state["weights"])
        self.filter = state.get("filter", self.filter)

    def is_stateful(self: Any) -> bool:
        """Whether the policy is recurrent."""
        return bool(self.is_recurrent)
