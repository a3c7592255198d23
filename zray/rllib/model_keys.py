"""Keys of the option `model`: keys read by a policy, and warnings about the others."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from .models.catalog import MODEL_DEFAULTS
from .other_options import IGNORED
from .spellings import once

__all__ = ["ReadKeys", "check_keys", "refuse_absent"]

# Keys of Ray whose effect a model here cannot have, and what to do.  A TorchModelV2 of the program reads the last one.
ABSENT: dict[str, str] = {
    "use_attention": "use_lstm, or a recurrent custom_model",
    "custom_action_dist": "give the action space another form, in a wrapper of the environment",
    "custom_preprocessor": "change observations in a wrapper of the environment",
    "no_final_linear": "give a custom_model, as a class derived from FullyConnectedNetwork",
}
# Defaults of Ray, and what models here do anyway: nothing is lost.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    **{key: (value,) for key, value in MODEL_DEFAULTS.items() if not key.startswith("fcnet_")},
    "free_log_std": (True,),
    "log_std_clip_param": (20.0,),
    "lstm_use_prev_action_reward": (False, -1),
    "zero_mean": (True,),
    "attention_num_transformer_units": (1,),
    "attention_dim": (64,),
    "attention_num_heads": (1,),
    "attention_head_dim": (32,),
    "attention_memory_inference": (50,),
    "attention_memory_training": (50,),
    "attention_position_wise_mlp_dim": (32,),
    "attention_init_gru_gate_bias": (2.0,),
    "attention_use_n_prev_actions": (0,),
    "attention_use_n_prev_rewards": (0,),
    "_disable_preprocessor_api": (False,),
    "_disable_action_flattening": (False,),
    "_use_default_native_models": (-1, True, False),
    "always_check_shapes": (True, False),
    "dueling": (True, False),  # put there by DQN; a custom model has the head that it has
}
# Why nothing reads a key, by how it begins.
REASONS: dict[str, str] = {
    "lstm_": "the policy has no LSTM: give use_lstm=True too",
    "max_seq_len": "the policy has no recurrent model: give use_lstm=True too",
    "attention_": "there is no use_attention",
    "conv_": "observations are no images",
    "post_fcnet_": "the policy has no convolutions in front of these layers",
    "dim": "it is of Atari ids alone",
    "framestack": "it is of Atari ids alone",
    "grayscale": "images of Atari ids are gray, and others as they are",
    "free_log_std": "deviations are free numbers of Box actions, and no outputs of the layers",
    "_disable_preprocessor_api": IGNORED["_disable_preprocessor_api"],
    "_disable_action_flattening": IGNORED["_disable_action_flattening"],
    "log_std_": "deviations are free numbers of Box actions, and are not clipped",
    "vf_share_layers": "the policy has no value function",
    "custom_model_config": "there is no custom_model",
    "fcnet_weights": "weights are orthogonal, and biases 0",
    "fcnet_bias": "weights are orthogonal, and biases 0",
    "fcnet_": "over images the layers are those of post_fcnet_hiddens, and a custom_model has its own",
}


class ReadKeys(dict[str, Any]):
    """The options of a model, with the set of the keys that were read."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """An option, or the default where there is none."""
        self.read.add(key)
        return super().get(key, default)

    def unread(self) -> dict[str, Any]:
        """The options that nothing has read."""
        return {key: value for key, value in self.items() if key not in self.read}


def refuse_absent(model: Mapping[str, Any], reads_all: bool = False) -> None:
    """Refuse keys without a possible effect in a model of zray.

    Args:
        model: the options.
        reads_all: whether the model is a TorchModelV2 of the program, which gets all of them.

    Raises:
        NotImplementedError: such a key is given.
    """
    for key, advice in ABSENT.items():
        if model.get(key) and not (reads_all and key == "no_final_linear"):
            raise NotImplementedError(f"zray.rllib has no {key} yet: {advice}.")


def check_keys(unread: Mapping[str, Any], defaults: Mapping[str, Any], owner: str) -> None:
    """Warn once about each ineffective key with a value other than the default.

    Args:
        unread: the options of a model that nothing has read.
        defaults: those of `model` of the algorithm.
        owner: the algorithm's name.
    """
    for key, value in unread.items():
        neutral = NEUTRAL.get(key, (False,))
        if value is None or any(
            value == each and isinstance(value, bool) == isinstance(each, bool) for each in neutral
        ):
            continue
        if key in defaults and value == defaults[key]:
            continue
        known = {*MODEL_DEFAULTS, *NEUTRAL, *ABSENT}
        near = difflib.get_close_matches(str(key), known, 1, 0.9) if key not in known else []
        reason = next((text for begin, text in REASONS.items() if str(key).startswith(begin)), "")
        once(f"model[{key!r}]", f"near is {near[0]!r}" if near else reason or f"no model of {owner} reads it")
