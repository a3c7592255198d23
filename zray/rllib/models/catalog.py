"""The catalog of models: names of custom models, and preprocessors of observations."""

from __future__ import annotations

import difflib
from typing import Any

from ...tune.registry import model_of, names_of_models, register_model
from .preprocessors import Preprocessor, get_preprocessor

__all__ = ["MODEL_DEFAULTS", "ModelCatalog", "custom_model_of"]

# Keys of `model` that a custom model may read, with their defaults.
MODEL_DEFAULTS: dict[str, Any] = {
    "fcnet_hiddens": [64, 64],
    "fcnet_activation": "tanh",
    "conv_filters": None,
    "conv_activation": "relu",
    "post_fcnet_hiddens": None,
    "post_fcnet_activation": "relu",
    "vf_share_layers": False,
    "no_final_linear": False,
    "use_lstm": False,
    "lstm_cell_size": 256,
    "max_seq_len": 20,
    "dim": 84,
    "framestack": True,
    "custom_model": None,
    "custom_model_config": {},
}


class ModelCatalog:
    """Custom models by name, and preprocessors by space."""

    @staticmethod
    def register_custom_model(model_name: str, model_class: type) -> None:
        """Give a model class a name, by which `model={"custom_model": name}` finds it.

        Args:
            model_name: a text.
            model_class: a subclass of TorchModelV2 and torch.nn.Module, or of torch.nn.Module alone.

        Raises:
            TypeError: the name is no text, or the model no class.

        Example:
            ModelCatalog.register_custom_model("mine", MyModel)
            PPOConfig().training(model={"custom_model": "mine", "custom_model_config": {"size": 32}})
        """
        if not isinstance(model_name, str):
            raise TypeError(f"The name of a model is text, not {type(model_name).__name__}.")
        if not isinstance(model_class, type):
            raise TypeError(f"A custom model is a class, and {model_name!r} is {type(model_class).__name__}.")
        register_model(model_name, model_class)

    @staticmethod
    def get_preprocessor_for_space(observation_space: Any, options: dict[str, Any] | None = None) -> Preprocessor:
        """Return the preprocessor from observations of a space to the array for a model."""
        return get_preprocessor(observation_space)(observation_space, options)

    @staticmethod
    def get_preprocessor(env: Any, options: dict[str, Any] | None = None) -> Preprocessor:
        """The preprocessor of an environment's observations.

        Args:
            env: an environment, of which `observation_space` is read.
            options: keys of the option `model`; None: the defaults.

        Returns:
            The preprocessor, whose `transform(observation)` makes an array of numbers.
        """
        return ModelCatalog.get_preprocessor_for_space(env.observation_space, options)


def custom_model_of(value: Any) -> Any:
    """Return the class named by `custom_model`; None: no custom model.

    Raises:
        ValueError: the name is not registered in this process.
    """
    if not isinstance(value, str):
        return value
    found = model_of(value)
    if found is None:
        close = difflib.get_close_matches(value, names_of_models(), 1)
        near = f"  Near: {close[0]!r}." if close else ""
        raise ValueError(
            f"No custom model is called {value!r}.{near}  Call ModelCatalog.register_custom_model({value!r}, ...) in "
            "this program, or give the class as `custom_model`."
        )
    return found
