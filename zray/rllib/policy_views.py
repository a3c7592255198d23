"""Attributes of Ray's policies beside those that act: a few facts, and a sentence for each that is not there."""

from __future__ import annotations

from typing import Any

import numpy as np

from .exports import Exports
from .keywords import ABOUT_THE_PAST, check_keywords
from .views import Absent

__all__ = ["PolicyViews"]


_LEARN = "Call algo.train(), or derive a class from the algorithm and change its training_step or _update."
# Attributes that are not there, and what to use instead.
_ABSENT = {
    "learn_on_batch learn_on_loaded_batch learn_on_batch_from_replay_buffer load_batch_into_buffer": _LEARN,
    "get_num_samples_loaded_into_buffer get_batch_divisibility_req compute_gradients apply_gradients": _LEARN,
    "optimizer extra_grad_process extra_compute_grad_fetches stats_fn get_tower_stats update_target": _LEARN,
    "loss": "Give the model a custom_loss, or derive a class from the algorithm and change its _update.",
    "postprocess_trajectory": "Change rewards in a wrapper of the environment, or derive a class from the algorithm "
    "and change its training_step.",
    "extra_action_out": "Read the third value of compute_actions.",
    "view_requirements init_view_requirements": "Stack observations in a wrapper of gymnasium.",
    "exploration get_exploration_state": "Actions are drawn from outputs of the model; a policy of DQN has epsilon.",
    "agent_connectors action_connectors reset_connectors restore_connectors get_connector_metrics": "Change "
    "observations, rewards and actions in wrappers of gymnasium.",
    "get_session": "Models are torch modules: use policy.model.",
    "make_rl_module": "Call algo.get_module().",
    "devices model_gpu_towers": "Read policy.device: a policy has one model.",
    "global_timestep on_global_var_update": "Read num_env_steps_sampled_lifetime of the result.",
    "get_host": "Call socket.gethostname().",
    "export_onnx": "Call torch.onnx.export(policy.model, ...).",
    "import_model_from_h5": "Set the parameters: policy.set_weights(weights).",
    "from_state": "Call Policy.from_checkpoint(folder), which reads what policy.export_checkpoint wrote.",
    "apply": "Call the function with the policy.",
}


class PolicyViews(Exports):
    """Facts of a policy under Ray's names."""

    has_state: bool
    framework = "torch"

    algorithm_options: dict[str, Any] | None = None  # given by the algorithm, in its own process

    @property
    def config(self) -> dict[str, Any]:
        """The options of the algorithm for this policy, by name.

        Raises:
            NotImplementedError: the policy is not the algorithm's own, but a copy in a process of environments.
        """
        if self.algorithm_options is None:
            raise NotImplementedError(
                "policy.config is there for algo.get_policy() alone, not for its copies in processes of environments "
                "yet: callbacks read algorithm.config in on_algorithm_init and on_train_result."
            )
        return self.algorithm_options

    def is_recurrent(self) -> bool:
        """Whether actions depend on a state beside the observation."""
        return bool(self.has_state)

    is_stateful = is_recurrent

    def num_state_tensors(self: Any) -> int:
        """The number of arrays of the recurrent state; 0: the model has none."""
        return len(self.get_initial_state())

    @property
    def dist_class(self) -> Any:
        """The class of the distribution of `action_dist_inputs`, which are means and log deviations of Box actions.

        The class takes the outputs of `algo.get_module().forward_inference`.
        """
        from .modules import RLModule

        return RLModule(self).get_inference_action_dist_cls()

    def compute_actions_from_input_dict(
        self: Any, input_dict: Any, explore: bool | None = None, timestep: int | None = None, **former: Any
    ) -> Any:
        """Actions of a batch, as `compute_actions` gives them.

        Args:
            input_dict: "obs", one observation a row; of a recurrent model also "state_in_0", "state_in_1"...
            explore: whether actions are drawn; False: the most likely ones.  None: they are.
            timestep: accepted for Ray's programs.
        """
        del timestep
        check_keywords("compute_actions_from_input_dict", former, ABOUT_THE_PAST)
        names = [f"state_in_{number}" for number in range(self.num_state_tensors())]
        states = [input_dict[name] for name in names] if names and names[0] in input_dict else None
        return self.compute_actions(input_dict["obs"], states, explore=explore is None or explore)

    def compute_single_action(
        self: Any, obs: Any, state: list[Any] | None = None, *args: Any, explore: bool = True, **former: Any
    ) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
        """The action of an observation, as the environment takes it.

        Args:
            obs: the observation.
            state: the recurrent state; None: that of an episode's start.
            explore: whether the action is drawn; False: the most likely one.

        Returns:
            The action; the next state; and by name, as for `compute_actions`, the outputs of the model.
        """
        del args
        check_keywords("compute_single_action", former, ABOUT_THE_PAST, input_dict="Give obs, and state.")
        found: tuple[Any, list[np.ndarray], dict[str, Any]] = self.act_with(
            obs, state or self.get_initial_state(), explore, self.own_rng, is_full=True
        )
        return found

    @property
    def own_rng(self: Any) -> np.random.Generator:
        """Random numbers of calls by a program: training does not read them."""
        if "_rng" not in vars(self):
            import torch

            options = self.algorithm_options
            seed = torch.initial_seed() if options is None else int(options["seed"]) + 1_000_003
            self._rng = np.random.default_rng(seed % 2**63)
        rng: np.random.Generator = self._rng
        return rng

    def get_state(self: Any) -> dict[str, Any]:
        """The parameters of the model, and the filter of observations."""
        return {"weights": self.get_weights(), "filter": self.filter}

    def set_state(self: Any, state: dict[str, Any]) -> None:
        """Take a state of `get_state`."""
        self.set_weights(state["weights"])
        self.filter = state.get("filter", self.filter)


for _names, _words in _ABSENT.items():
    for _name in _names.split():
        setattr(PolicyViews, _name, Absent(_words, "policies", _name))
