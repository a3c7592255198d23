"""Methods of a policy that programs call: actions of observations, their probabilities, and the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .keywords import ABOUT_THE_PAST, check_keywords
from .policy_views import PolicyViews
from .spaces import check_finite, check_outputs

__all__ = ["PolicyCalls"]


class PolicyCalls(PolicyViews):
    """Ray's methods of a policy, over the methods of this package.

    Example:
        policy = algo.get_policy()
        actions, state, info = policy.compute_actions(observations, explore=False)
        info["action_dist_inputs"], info["action_logp"], info["vf_preds"]
    """

    def facts(self: Any, parameters: np.ndarray, values: np.ndarray, actions: np.ndarray) -> dict[str, np.ndarray]:
        """Facts of a model beside actions: an array for each name, with a row for each action."""
        logs, log_std = self.log_probabilities(parameters, actions), self.log_std()
        inputs = parameters
        if log_std is not None:  # as Ray has them: means, and behind them log standard deviations
            inputs = np.concatenate([parameters, np.broadcast_to(log_std, parameters.shape)], axis=-1)
        return {
            "action_dist_inputs": inputs,
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
        **former: Any,
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
        del args, timestep
        check_keywords("compute_actions", former, ABOUT_THE_PAST)
        parameters, values, after = self._outputs(obs_batch, state_batches)
        actions = self.draw(parameters, self.own_rng)[0] if explore else self.distribution.greedy(parameters)
        taken = [self.distribution.to_environment(each) for each in actions]
        if not any(isinstance(each, (tuple, dict)) for each in taken):
            taken = np.asarray(taken)
        return taken, after, self.facts(parameters, values, actions)

    def _outputs(self: Any, obs_batch: Any, state_batches: list[Any] | None) -> tuple[Any, Any, list[np.ndarray]]:
        """Parameters of the distribution, values and next states for observations; see compute_actions."""
        raw = self.flatten(list(obs_batch))
        check_finite(raw, obs_batch)
        rows = self.filter(raw)
        states = state_batches or [np.stack([each] * len(rows)) for each in self.initial_state]
        found: tuple[Any, Any, list[np.ndarray]] = self.forward_states(rows, [np.asarray(each) for each in states])
        check_outputs(found[0])
        return found

    def compute_log_likelihoods(
        self: Any, actions: Any, obs_batch: Any, state_batches: list[Any] | None = None, *args: Any, **former: Any
    ) -> np.ndarray:
        """Log probabilities of actions, or log densities, one for each observation.

        Args:
            actions: of the environment, one for each observation.
            obs_batch, state_batches: see compute_actions.

        Returns:
            An array of shape [observations].
        """
        del args
        check_keywords("compute_log_likelihoods", former, (*ABOUT_THE_PAST, "actions_normalized", "in_training"))
        parameters, _, _ = self._outputs(obs_batch, state_batches)
        own = np.stack([self.distribution.from_environment(each) for each in actions])
        return self.log_probabilities(parameters, own)
