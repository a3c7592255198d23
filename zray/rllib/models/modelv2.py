"""The base of custom models, without a framework."""

from __future__ import annotations

from typing import Any

import gymnasium

__all__ = ["ModelV2", "restore_original_dimensions"]


class ModelV2:
    """A model that is called with a dict of inputs.

    Args:
        obs_space: a Box; for other spaces that of the flattened observations, with `original_space`.
        action_space: of the environment.
        num_outputs: numbers that `forward` returns for each observation.
        model_config: the options `model`, with defaults.
        name: of the model.
        framework: "torch".
    """

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int,
        model_config: dict[str, Any],
        name: str,
        framework: str,
    ) -> None:
        self.obs_space, self.action_space, self.num_outputs = obs_space, action_space, num_outputs
        self.model_config, self.name, self.framework = model_config, name, framework
        self._last_output: Any = None

    def get_initial_state(self) -> list[Any]:
        """The recurrent state at the start of an episode: arrays or tensors; empty: the model is not recurrent."""
        return []

    def forward(self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """The outputs for a batch, and the next recurrent state.

        Args:
            input_dict: "obs": observations in their structure; "obs_flat": as rows; "is_training".
            state: recurrent states, one tensor for each of `get_initial_state`, with a row for each sequence.
            seq_lens: the length of each sequence, where the model is recurrent.  Rows of sequences are padded to the
                longest one, sequence by sequence.

        Returns:
            Outputs of shape [rows, num_outputs], and the list of states.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method forward: it returns (outputs, state).")

    def value_function(self) -> Any:
        """The values of the observations of the last `forward`, of shape [rows]."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method value_function: return a value for each row of the last forward."
        )

    def custom_loss(self, policy_loss: Any, loss_inputs: dict[str, Any]) -> Any:
        """The loss, changed by the model; PPO calls this method.

        Args:
            policy_loss: a list of one loss, a tensor of one number.
            loss_inputs: tensors by name, one row a step: obs, actions, advantages, action_logp, value_targets, ...

        Returns:
            The list with the loss, which is descended.
        """
        del loss_inputs
        return policy_loss

    def metrics(self) -> dict[str, Any]:
        """Metrics of the model."""
        return {}

    def last_output(self) -> Any:
        """The outputs of the last call."""
        return self._last_output

    def is_time_major(self) -> bool:
        """Whether time is the first axis: it is not."""
        return False

    def __call__(
        self, input_dict: dict[str, Any], state: list[Any] | None = None, seq_lens: Any = None
    ) -> tuple[Any, list[Any]]:
        """`forward`, with observations restored to the structure of their space."""
        inputs = dict(input_dict)
        observations = inputs["obs"]
        if hasattr(observations, "reshape"):
            rows = len(observations)
            inputs["obs_flat"] = observations if observations.ndim <= 2 else observations.reshape(rows, -1)
            inputs["obs"] = restore_original_dimensions(observations, self.obs_space)
        found = self.forward(inputs, state or [], seq_lens)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise ValueError(
                f"forward of {type(self).__name__} returns (outputs, state), not {type(found).__name__}: without "
                "recurrence, return the state as it came."
            )
        self._last_output = found[0]
        return found


def restore_original_dimensions(obs: Any, obs_space: Any, framework: str = "torch") -> Any:
    """Rows of flattened observations, in the structure of `obs_space.original_space`, if it has one."""
    del framework
    original = getattr(obs_space, "original_space", None)
    return obs if original is None else _unflatten(original, obs, 0)[0]


def _unflatten(space: Any, rows: Any, begin: int) -> tuple[Any, int]:
    """The part of rows that belongs to a space, and where the next part begins.  The order is that of gymnasium."""
    if isinstance(space, gymnasium.spaces.Dict):
        parts: dict[str, Any] = {}
        for key, part in space.spaces.items():
            parts[key], begin = _unflatten(part, rows, begin)
        return parts, begin
    if isinstance(space, gymnasium.spaces.Tuple):
        found = []
        for part in space.spaces:
            value, begin = _unflatten(part, rows, begin)
            found.append(value)
        return tuple(found), begin
    end = begin + int(gymnasium.spaces.flatdim(space))
    part = rows[..., begin:end]
    if isinstance(space, gymnasium.spaces.Box):
        part = part.reshape(*rows.shape[:-1], *space.shape)
    return part, end
