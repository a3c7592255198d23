"""The base of custom recurrent models on torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....on_import import shadows
from .torch_modelv2 import TorchModelV2

__all__ = ["RecurrentNetwork"]

shadows.name_absent(__name__)


class RecurrentNetwork(TorchModelV2):
    """A recurrent custom model: a class derives from it and from torch.nn.Module, and defines `forward_rnn`.

    Args:
        obs_space, action_space, num_outputs, model_config, name: see ModelV2.
    """

    def forward(self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """The outputs of all steps, by `forward_rnn`."""
        rows = input_dict["obs_flat"].float()
        inputs = rows.reshape(len(seq_lens), -1, rows.shape[-1])
        outputs, states = self.forward_rnn(inputs, state, seq_lens)
        return outputs.reshape(-1, self.num_outputs), states

    def forward_rnn(self, inputs: Any, state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """The outputs for padded sequences, and the next states.

        Args:
            inputs: of shape [sequences, steps, numbers of an observation].
            state: tensors with a row for each sequence.
            seq_lens: steps of each sequence.

        Returns:
            (outputs of shape [sequences, steps, num_outputs], states).
        """
        raise NotImplementedError(f"{type(self).__name__} has no method forward_rnn: it returns (outputs, state).")

    def get_initial_state(self) -> list[Any]:
        """The state at the start of an episode."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method get_initial_state: it returns a list of arrays or tensors, such as "
            f"{[np.zeros(2).tolist()]}."
        )
