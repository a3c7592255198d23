"""A policy and a value function with an LSTM below them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from .networks import features_of, log_std_of, mlp
from .sequences import pad

__all__ = ["RecurrentActorCritic"]


class RecurrentActorCritic(nn.Module):
    """Features, an LSTM, and linear heads for policy and value; the state is reset where an episode ends.

    Hochreiter, Schmidhuber, "Long Short-Term Memory", Neural Computation 9 (1997).  Details from the recurrent PPO of
    Huang et al., "The 37 Implementation Details of PPO", ICLR blog track 2022: orthogonal weights with a gain of 1 and
    biases of 0; sequences begin with the states of the rollout.

    Args:
        inputs: size of a flat observation, or the shape of an image.
        outputs: parameters of the action distribution, without the standard deviations.
        is_continuous: whether free standard deviations belong to the parameters.
        model: `lstm_cell_size`: 256; and the options of the features.

    Raises:
        NotImplementedError: an option of Ray's LSTM that zray does not have.
    """

    def __init__(self, inputs: int | tuple[int, ...], outputs: int, is_continuous: bool, model: dict[str, Any]) -> None:
        super().__init__()
        for option in ("lstm_use_prev_action", "lstm_use_prev_reward", "_time_major"):
            if model.get(option):
                raise NotImplementedError(
                    f"zray.rllib has no {option} yet: add it to the observation, in a wrapper of the environment."
                )
        self.size = int(model.get("lstm_cell_size", 256))
        self.body, features = features_of(inputs, model)
        self.lstm = nn.LSTM(features, self.size, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(parameter, 1.0)
            else:
                nn.init.zeros_(parameter)
        self.policy = mlp([self.size, outputs], "linear", 0.01)
        self.value = mlp([self.size, 1], "linear", 1.0)
        self.log_std = log_std_of(outputs, model) if is_continuous else None

    def initial_state(self) -> list[np.ndarray]:
        """The state at the start of an episode, of one environment: output and cell."""
        return [np.zeros(self.size, np.float32), np.zeros(self.size, np.float32)]

    def forward(
        self, rows: torch.Tensor, states: list[torch.Tensor], lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """The parameters of the actions, the values, and the states behind the longest sequences.

        Args:
            rows: observations of sequences, one behind another.
            states: at the begin of each sequence.
            lengths: of the sequences.
        """
        rectangle, places = pad(self.body(rows), lengths)
        found, (output, cell) = self.lstm(rectangle, (states[0].unsqueeze(0), states[1].unsqueeze(0)))
        features = found.flatten(0, 1)[places]
        return self.policy(features), self.value(features).squeeze(-1), [output.squeeze(0), cell.squeeze(0)]
