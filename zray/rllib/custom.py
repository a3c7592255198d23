"""Custom models: a class of the program's own, called as algorithms call their own networks."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from .models.catalog import MODEL_DEFAULTS, custom_model_of
from .models.modelv2 import ModelV2, restore_original_dimensions
from .models.preprocessors import get_preprocessor
from .networks import log_std_of, mlp
from .sequences import pad

__all__ = ["CustomModel"]

# Ray's names of the columns that custom_loss is given.
LOSS_INPUTS = {
    "observations": "obs",
    "old_log_p": "action_logp",
    "old_parameters": "action_dist_inputs",
    "old_values": "vf_preds",
    "targets": "value_targets",
    "lengths": "seq_lens",
}


def _make(model_class: Any, arguments: tuple[Any, ...], own: dict[str, Any]) -> Any:
    """A model of its class.

    Args:
        model_class: of the program.
        arguments: what zray gives its constructor.
        own: `custom_model_config`.

    Raises:
        TypeError: it is no class, or its constructor does not take these arguments.
    """
    if not callable(model_class) or isinstance(model_class, nn.Module):
        raise TypeError(
            f"custom_model is a class, or a registered name, not an object of {type(model_class).__name__}."
        )
    signature = inspect.signature(model_class)
    reads_config = isinstance(model_class, type) and issubclass(model_class, ModelV2)
    # As in Ray, a TorchModelV2 without these arguments reads them in model_config["custom_model_config"].
    for given in (own, {}) if reads_config else (own,):
        try:
            signature.bind(*arguments, **given)
        except TypeError as error:
            fault = str(error)
        else:
            return model_class(*arguments, **given)
    names = (
        "obs_space, action_space, num_outputs, model_config, name"
        if reads_config
        else ("observation_space, action_space, num_outputs")
    )
    raise TypeError(
        f"Model {model_class.__name__} is made by ({names}, **custom_model_config), and its constructor does not take "
        f"these: {fault}."
    )


class CustomModel(nn.Module):
    """A custom model in the place of ActorCritic.

    Args:
        observation_space, action_space: of the environment.
        outputs: parameters of the action distribution, without the standard deviations.
        is_continuous: whether free standard deviations belong to the parameters.
        model: `custom_model`: a registered name, a class that derives from TorchModelV2, or another class of torch;
            `custom_model_config`: its own arguments.
        is_action_value: whether outputs are values of actions: the value of an observation is the largest.

    A class that is no TorchModelV2 is made by (observation_space, action_space, num_outputs, **custom_model_config).
    Its forward takes observations in their structure, and returns outputs, or outputs and values.  Where it returns
    outputs alone, and they are no action values, a multilayer perceptron of its own gives the values.

    Raises:
        ValueError: the outputs are not as many as the action distribution needs.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        outputs: int,
        is_continuous: bool,
        model: dict[str, Any],
        is_action_value: bool = False,
    ) -> None:
        super().__init__()
        made = custom_model_of(model["custom_model"])
        own = model.get("custom_model_config") or {}
        self.preprocessed = get_preprocessor(observation_space)(observation_space).observation_space
        self.outputs, self.is_action_value = outputs, is_action_value
        self.is_v2 = isinstance(made, type) and issubclass(made, ModelV2)
        self.changes_loss = self.is_v2 and made.custom_loss is not ModelV2.custom_loss
        if self.is_v2:
            config = {**MODEL_DEFAULTS, **model}
            self.inner: Any = _make(made, (self.preprocessed, action_space, outputs, config, "custom_model"), own)
        else:
            self.inner = _make(made, (observation_space, action_space, outputs), own)
        self.log_std = log_std_of(outputs, model) if is_continuous else None
        self.own_value: nn.Module | None = None
        if not self.is_v2 and not is_action_value and not self._gives_values():
            size = int(np.prod(self.preprocessed.shape))
            hidden = model.get("fcnet_hiddens", MODEL_DEFAULTS["fcnet_hiddens"])
            self.own_value = mlp([size, *hidden, 1], model.get("fcnet_activation", "tanh"), 1.0)

    def _gives_values(self) -> bool:
        was_training = self.inner.training
        self.inner.eval()  # a row of zeros must not count in statistics
        with torch.no_grad():
            found = self.inner(self._structured(torch.zeros(1, *self.preprocessed.shape)))
        self.inner.train(was_training)
        return isinstance(found, tuple)

    def _structured(self, rows: torch.Tensor) -> Any:
        rows = rows.float().reshape(-1, *self.preprocessed.shape)
        return restore_original_dimensions(rows, self.preprocessed)

    def initial_state(self) -> list[np.ndarray]:
        """The recurrent state at the start of an episode, of one environment; empty: there is none."""
        if not self.is_v2:
            return []
        states = [each.detach() if torch.is_tensor(each) else each for each in self.inner.get_initial_state()]
        return [np.asarray(each, dtype=np.float32) for each in states]

    def forward(
        self, rows: torch.Tensor, states: list[torch.Tensor] | None = None, lengths: torch.Tensor | None = None
    ) -> Any:
        """Outputs and values of rows; with states, the next states too.

        Args:
            rows: observations; of sequences one behind another, where there are lengths.
            states: recurrent states at the begin of each sequence.
            lengths: of the sequences.
        """
        if not self.is_v2:
            found = self.inner(self._structured(rows))
            outputs, values = found if isinstance(found, tuple) else (found, None)
            return self._checked(outputs), self._values(rows, outputs, values)
        if states is None or lengths is None:
            outputs, _ = self._call(rows, [], None)
            return outputs, self._values(rows, outputs, None if self.is_action_value else self.inner.value_function())
        rectangle, places = pad(rows, lengths)
        outputs, next_states = self._call(rectangle.flatten(0, 1), states, lengths)
        values = self.inner.value_function().reshape(-1)
        return outputs.reshape(-1, self.outputs)[places], values[places], list(next_states)

    def custom_loss(self, loss: torch.Tensor, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """The loss as the model changes it.

        Args:
            loss: of the algorithm.
            rows: those of the minibatch.

        Raises:
            ValueError: the model returns several losses.
        """
        inputs = {LOSS_INPUTS.get(name, name): value for name, value in rows.items()}
        inputs = {name.replace("state_", "state_in_"): value for name, value in inputs.items()}
        found = self.inner.custom_loss([loss], inputs)
        if isinstance(found, (list, tuple)):
            if len(found) != 1:
                raise ValueError(
                    f"custom_loss of {type(self.inner).__name__} returns {len(found)} losses, and there is one "
                    "optimiser: add the terms up, as in [loss + term for loss in policy_loss]."
                )
            found = found[0]
        changed: torch.Tensor = found
        return changed

    def _call(self, rows: torch.Tensor, states: list[torch.Tensor], lengths: Any) -> tuple[torch.Tensor, Any]:
        flat = rows.float().reshape(-1, *self.preprocessed.shape)
        inputs = {"obs": flat, "is_training": torch.is_grad_enabled()}
        outputs, next_states = self.inner(inputs, states, lengths)
        return self._checked(outputs), next_states

    def _checked(self, outputs: torch.Tensor) -> torch.Tensor:
        if outputs.shape[-1] != self.outputs:
            raise ValueError(
                f"Model {type(self.inner).__name__} gives {outputs.shape[-1]} outputs for an observation, where "
                f"num_outputs is {self.outputs}.  Standard deviations of a Box are parameters beside the model."
            )
        return outputs

    def _values(self, rows: torch.Tensor, outputs: torch.Tensor, values: Any) -> torch.Tensor:
        if self.is_action_value:
            return outputs.max(-1).values
        if values is None:
            assert self.own_value is not None
            values = self.own_value(rows.float().flatten(1))
        found: torch.Tensor = values.reshape(-1)
        return found
