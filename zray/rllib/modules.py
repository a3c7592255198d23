"""RLModule, the view of a policy in today's Ray: observations in, parameters of the distribution of actions out."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ..tune.saving import complete_save
from .models.torch.torch_action_dist import TorchCategorical, TorchDiagGaussian, TorchMultiCategorical

__all__ = ["Columns", "DefaultModelConfig", "LearnerGroup", "RLModule", "RLModuleSpec"]

DEFAULT_MODULE_ID = DEFAULT_POLICY_ID = DEFAULT_AGENT_ID = "default_policy"
COMPONENT_LEARNER_GROUP, COMPONENT_LEARNER, COMPONENT_RL_MODULE = "learner_group", "learner", "rl_module"
COMPONENT_ENV_RUNNER = "env_runner"


class Columns:
    """Names of the columns of batches."""

    OBS, NEXT_OBS, INFOS = "obs", "new_obs", "infos"
    ACTIONS, ACTIONS_FOR_ENV, REWARDS = "actions", "actions_for_env", "rewards"
    TERMINATEDS, TRUNCATEDS, EPS_ID, AGENT_ID, MODULE_ID = (
        "terminateds",
        "truncateds",
        "eps_id",
        "agent_id",
        "module_id",
    )
    ACTION_DIST_INPUTS, ACTION_PROB, ACTION_LOGP = "action_dist_inputs", "action_prob", "action_logp"
    STATE_IN, STATE_OUT, SEQ_LENS, T = "state_in", "state_out", "seq_lens", "t"
    EMBEDDINGS, VF_PREDS = "embeddings", "vf_preds"
    ADVANTAGES, VALUE_TARGETS, LOSS_MASK = "advantages", "value_targets", "loss_mask"


@dataclasses.dataclass
class DefaultModelConfig:
    """Options of the model, for `config.rl_module(model_config=...)`; None: the default of the algorithm.

    Args:
        fcnet_hiddens, fcnet_activation: sizes and activation of layers.
        conv_filters, conv_activation: the same for images.
        vf_share_layers: whether the value has the layers of the policy.
        use_lstm, lstm_cell_size, max_seq_len: whether the model is recurrent, its size, and the length of sequences.
    """

    fcnet_hiddens: list[int] | None = None
    fcnet_activation: str | None = None
    conv_filters: list[Any] | None = None
    conv_activation: str | None = None
    vf_share_layers: bool | None = None
    use_lstm: bool | None = None
    lstm_cell_size: int | None = None
    max_seq_len: int | None = None


class RLModuleSpec:
    """Options of a module, for `config.rl_module(rl_module_spec=...)`.

    Args:
        module_class: a class of modules, which zray does not have.
        model_config: options of the model.

    Raises:
        NotImplementedError: a class is given.
    """

    def __init__(self, module_class: Any = None, *, model_config: Any = None, **ignored: Any) -> None:
        del ignored
        if module_class is not None and module_class is not RLModule:
            name = getattr(module_class, "__name__", module_class)
            raise NotImplementedError(
                f"zray does not have modules of a class of your own, as {name}, yet.  Give a torch module: "
                'config.training(model={"custom_model": ...}).'
            )
        self.module_class, self.model_config = module_class, model_config


class RLModule:
    """A policy, as a program that plays by itself calls it.

    The results of `forward_inference`, `forward_exploration` and `forward_train` are the same: numbers of the
    distribution of actions ("action_dist_inputs"), and values of the states ("vf_preds").

    Args:
        policy: of an algorithm.
        module_id: its name.

    Example:
        module = algo.get_module()
        found = module.forward_inference({"obs": torch.from_numpy(observation).unsqueeze(0)})
        action = int(found["action_dist_inputs"].argmax(-1)[0])
    """

    def __init__(self, policy: Any, module_id: str = DEFAULT_MODULE_ID) -> None:
        self.policy, self.module_id, self.framework = policy, module_id, "torch"
        self.observation_space, self.action_space = policy.observation_space, policy.action_space

    def _forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        observations = batch["obs"]
        policy = self.policy
        if torch.is_tensor(observations):
            observations = observations.detach().cpu().numpy()
        rows = np.asarray(observations) if not isinstance(observations, list) else observations
        if not (isinstance(rows, np.ndarray) and rows.shape[1:] == policy.row_shape):  # a row is flat already
            rows = policy.flatten(list(rows))
        tensors = {"observations": policy.tensor(np.asarray(policy.filter(np.asarray(rows, policy.row_dtype))))}
        if policy.has_state:
            given = batch.get("state_in") or [np.stack([each] * len(rows)) for each in policy.initial_state]
            states = [torch.as_tensor(np.asarray(each)) for each in given]
            lengths = torch.ones(len(rows), dtype=torch.int64)
            parameters, values, after = policy.run(policy.model, tensors["observations"], states, lengths)
            return {"action_dist_inputs": parameters, "vf_preds": values, "state_out": after}
        parameters, values = policy.evaluate(tensors)
        log_std = getattr(policy.model, "log_std", None)
        if log_std is not None:  # as Ray has them: means, and behind them log standard deviations
            parameters = torch.cat([parameters, log_std.expand_as(parameters)], -1)
        return {"action_dist_inputs": parameters, "vf_preds": values}

    def forward_inference(self, batch: Mapping[str, Any], **ignored: Any) -> dict[str, Any]:
        """Outputs of the model for observations, without gradients.

        Args:
            batch: "obs", a tensor or an array with a row for each observation; of a recurrent model also "state_in".
        """
        with torch.no_grad():
            return self._forward(batch)

    forward_exploration = forward_inference

    def forward_train(self, batch: Mapping[str, Any], **ignored: Any) -> dict[str, Any]:
        """Outputs of the model for observations, with gradients.

        Args:
            batch: as for `forward_inference`.
        """
        return self._forward(batch)

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Any:
        """Values of states.

        Args:
            batch: as for `forward_inference`.
            embeddings: accepted for Ray's programs.
        """
        return self._forward(batch)["vf_preds"]

    def get_inference_action_dist_cls(self) -> Any:
        """The class of the distribution that "action_dist_inputs" are for."""
        if self.policy.distribution.is_continuous:
            return TorchDiagGaussian
        sizes = getattr(self.policy.distribution, "sizes", None) or []
        if len(sizes) > 1:
            return type("Sized", (TorchMultiCategorical,), {"__init__": _with_sizes(sizes)})
        return TorchCategorical

    get_exploration_action_dist_cls = get_train_action_dist_cls = get_inference_action_dist_cls

    def get_initial_state(self) -> Any:
        """The recurrent state at the start of an episode; empty: the model has none."""
        return self.policy.get_initial_state()

    def is_stateful(self) -> bool:
        """Whether the model is recurrent."""
        return bool(self.policy.has_state)

    def get_state(self, *args: Any, **ignored: Any) -> dict[str, Any]:
        """The parameters of the model, by name."""
        return dict(self.policy.get_weights())

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take parameters of the model.

        Args:
            state: arrays by name, as of `get_state`.
        """
        self.policy.set_weights(state)

    def parameters(self) -> Any:
        """The parameters, as tensors of torch."""
        return self.policy.model.parameters()

    def unwrapped(self) -> RLModule:
        """The module itself."""
        return self

    @classmethod
    def from_checkpoint(cls, path: Any, **ignored: Any) -> RLModule:
        """The module of a checkpoint.

        Args:
            path: the folder of an algorithm's checkpoint, or one in it, as Ray names it:
                folder/learner_group/learner/rl_module/default_policy.
        """
        from .algorithm import STATE, Algorithm

        given = folder = os.path.abspath(os.fspath(getattr(path, "path", path)).removeprefix("file://"))
        while not os.path.exists(os.path.join(complete_save(folder), STATE)):
            above = os.path.dirname(folder)
            if above == folder:
                raise FileNotFoundError(f"{given} is no checkpoint of an algorithm: no {STATE} is in it.")
            folder = above
        name = os.path.basename(given)
        algo = Algorithm.from_checkpoint(folder)
        try:
            found = algo.get_module(name if name in algo.policy_ids() else DEFAULT_MODULE_ID)
        finally:
            algo.stop()
        return found  # type: ignore[no-any-return]


def _with_sizes(sizes: list[int]) -> Any:
    def __init__(self: Any, inputs: Any, model: Any = None, **options: Any) -> None:
        TorchMultiCategorical.__init__(self, inputs, model, sizes, **options)

    return __init__


class LearnerGroup:
    """The learner of an algorithm, as programs of today ask for it."""

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm

    def get_weights(self, *args: Any, **ignored: Any) -> dict[str, Any]:
        """The parameters of the models, by policy and name."""
        found: dict[str, Any] = self.algorithm.get_weights()
        return found

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Take parameters of the models.

        Args:
            weights: arrays by policy and name, as of `get_weights`.
        """
        self.algorithm.set_weights(weights)

    def get_state(self, *args: Any, **ignored: Any) -> dict[str, Any]:
        """The parameters, and the state of the learner."""
        own = {"rl_module": self.get_weights(), "state": self.algorithm.learner_state()}
        return {"learner": own}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take a state.

        Args:
            state: as of `get_state`.
        """
        own = state["learner"]
        self.set_weights(own["rl_module"])
        if "state" in own:
            self.algorithm.set_learner_state(own["state"])

    def foreach_learner(self, func: Any, **ignored: Any) -> list[Any]:
        """Call a function for the learner, and return its results as a list.

        Args:
            func: a function of an object that has `module` and the methods of this class.
        """
        return [func(self)]

    @property
    def module(self) -> dict[str, RLModule]:
        """The modules, by policy."""
        return {name: self.algorithm.get_module(name) for name in self.algorithm.policy_ids()}
