"""A policy: a model, a distribution of actions and a filter of observations, without a learner."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from .convolution import is_image
from .distributions import distribution_of
from .filters import filter_of
from .masks import mask_of
from .model_keys import ReadKeys, refuse_absent
from .networks import ActorCritic
from .policy_calls import PolicyCalls
from .small_networks import SmallNetwork
from .spaces import OutsideSpace, check_finite, check_outputs, flat_size, misfit, one_hot

__all__ = ["Policy"]


class Policy(PolicyCalls):
    """A policy.

    Args:
        observation_space, action_space: of the environment.
        model: options of the model.
        observation_filter: "NoFilter" or "MeanStdFilter".
        make_model: a function of (inputs, outputs, is_continuous, model options) that makes a torch module; its forward
            gives the parameters of the distribution, and values.  inputs: the size of a flat observation, or the shape
            of an image.
        normalize_actions, clip_actions: of Box actions, see BoxActions.

    Raises:
        NotImplementedError: the options of the model ask for what is not there yet.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: dict[str, Any],
        observation_filter: str = "NoFilter",
        make_model: Any = ActorCritic,
        normalize_actions: bool = True,
        clip_actions: bool = True,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        model = ReadKeys(model)
        self.distribution = distribution_of(action_space, normalize_actions, clip_actions)
        self.inputs: Any = flat_size(observation_space)
        self.row_shape: tuple[int, ...] = (self.inputs,)
        self.row_dtype: Any = np.float32
        self.is_box = isinstance(observation_space, gymnasium.spaces.Box)
        if is_image(observation_space, model):
            self.inputs = self.row_shape = tuple(observation_space.shape or ())
            if observation_space.dtype == np.uint8:
                self.row_dtype = np.uint8  # a quarter of the memory; the model divides by 255
        self.mask = mask_of(observation_space, self.distribution.sizes, bool(model.get("custom_model")))
        self.filter = filter_of(observation_filter, self.row_shape, self.mask.columns if self.mask else None)
        inputs: Any = self.inputs - self.mask.width if self.mask else self.inputs  # of the model
        outputs, is_continuous = self.distribution.outputs, self.distribution.is_continuous
        refuse_absent(dict(model), bool(model.get("custom_model")))
        if model.get("custom_model"):
            from .custom import CustomModel

            if model.get("use_lstm"):
                raise NotImplementedError(
                    "zray.rllib puts no LSTM behind a custom_model yet: give the model an LSTM of its own, with "
                    "RecurrentNetwork as its base, and leave use_lstm out."
                )

            self.model: Any = CustomModel(
                observation_space, action_space, outputs, is_continuous, model, self.outputs_are_action_values
            )
            if self.model.is_v2:
                model.read.update(model)  # it has them all
        elif model.get("use_lstm"):
            from .recurrent import RecurrentActorCritic

            self.model = RecurrentActorCritic(inputs, outputs, is_continuous, model)
            model.read.add("vf_share_layers")  # policy and value have the same LSTM
        else:
            self.model = make_model(inputs, outputs, is_continuous, model)
        self.device = torch.device("cpu")
        self.small = SmallNetwork(self.model) if SmallNetwork.fits(self.model) else None
        make_state = getattr(self.model, "initial_state", None)
        self.initial_state: list[np.ndarray] = make_state() if make_state else []
        self.max_seq_len = int(model.get("max_seq_len", 20)) if self.initial_state else 20
        self.unread_keys = model.unread()

    def move_to(self, device: torch.device) -> None:
        """Move the model to a device.  The policies of rollouts stay on the CPU."""
        self.device = device
        self.model.to(device)
        if device.type != "cpu":
            self.small = None

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """An array as a tensor on the model's device; on the CPU it shares the memory."""
        return torch.from_numpy(array).to(self.device)

    outputs_are_action_values = False  # whether the model gives a value for each action

    def flatten(self, observations: list[Any]) -> np.ndarray:
        """Observations as rows of numbers; images stay images.

        Raises:
            OutsideSpace: an observation does not fit the observation space.
        """
        space = self.observation_space
        if self.is_box:
            try:
                return np.asarray(observations, dtype=self.row_dtype).reshape(len(observations), *self.row_shape)
            except (TypeError, ValueError) as error:
                if len(observations) == 1:
                    raise misfit(space, observations[0]) from error
                return np.concatenate([self.flatten([each]) for each in observations])  # one of them raises
        return np.stack([one_hot(space, each) for each in observations]).astype(np.float32)

    wants_next_observations = False  # whether the learner reads the state that a step led to

    def draw(self, parameters: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions and their log probabilities, one for each row of parameters."""
        return self.distribution.draw(parameters, self.log_std(), rng)

    @property
    def has_state(self) -> bool:  # type: ignore[override]
        """Whether actions depend on a state beside the observation."""
        return bool(self.initial_state)

    def get_initial_state(self) -> list[np.ndarray]:
        """The recurrent state at the start of an episode; empty: the model has none."""
        return [each.copy() for each in self.initial_state]

    def run(self, model: Any, rows: torch.Tensor, *rest: Any) -> Any:
        """The outputs of a model of this policy for filtered observations, with impossible actions masked."""
        if self.mask is None:
            return model(rows, *rest)
        outputs, values, *others = model(self.mask.inputs(rows), *rest)
        outputs = self.mask.apply(outputs, rows)
        return (outputs, outputs.max(-1).values if self.outputs_are_action_values else values, *others)

    def forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the actions, and values, of filtered observations."""
        if self.small is not None and self.small.takes(rows):
            if self.mask is None:
                return self.small(rows)
            outputs, of_states = self.small(self.mask.inputs(rows))
            return self.mask.apply(torch.from_numpy(outputs), torch.from_numpy(rows)).numpy(), of_states
        with torch.inference_mode():
            parameters, values = self.run(self.model, self.tensor(rows))
        return parameters.cpu().numpy(), values.cpu().numpy()

    def forward_states(
        self, rows: np.ndarray, states: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Parameters, values and next recurrent states.

        Args:
            rows: filtered observations, one of each environment.
            states: arrays with a row for each environment; empty where the model is not recurrent.
        """
        if not states:
            return (*self.forward(rows), [])
        with torch.inference_mode():
            given = [self.tensor(np.array(each)) for each in states]
            lengths = torch.ones(len(rows), dtype=torch.int64)
            parameters, values, after = self.run(self.model, self.tensor(rows), given, lengths)
        return parameters.cpu().numpy(), values.cpu().numpy(), [each.cpu().numpy().copy() for each in after]

    def evaluate(self, rows: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Parameters and values of a learner's rows, with gradients.

        Args:
            rows: "observations"; of a recurrent model also "lengths" of sequences, and their "state_0", "state_1"...
        """
        if not self.initial_state:
            parameters, values = self.run(self.model, rows["observations"])
            return parameters, values
        states = [rows[f"state_{number}"] for number in range(len(self.initial_state))]
        parameters, values, _ = self.run(self.model, rows["observations"], states, rows["lengths"])
        return parameters, values

    def log_std(self) -> Any:
        """The log standard deviations; None: the actions are discrete."""
        log_std = getattr(self.model, "log_std", None)
        return None if log_std is None else log_std.detach().cpu().numpy()

    def act(self, observation: Any, explore: bool, rng: np.random.Generator) -> Any:
        """The action for one observation, as the environment takes it; of a recurrent model, at an episode's start."""
        return self.act_with(observation, self.initial_state, explore, rng)[0]

    def act_with(
        self, observation: Any, state: list[Any], explore: bool, rng: np.random.Generator, is_full: bool = False
    ) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
        """The action for one observation, the next recurrent state, and what the model gave.

        Args:
            is_full: whether the probability of the action is wanted too.
        """
        states = [np.asarray(each, dtype=np.float32)[np.newaxis] for each in state]
        row = self.flatten([observation])
        check_finite(row, [observation])
        if self.mask is not None and self.mask.nothing_allowed(row) is not None:
            raise OutsideSpace("The action_mask of the observation allows no action.")
        parameters, values, after = self.forward_states(self.filter(row), states)
        check_outputs(parameters)
        if explore:
            actions, _ = self.draw(parameters, rng)
        else:
            actions = self.distribution.greedy(parameters)
        info = {"action_dist_inputs": parameters[0], "vf_preds": float(values[0])}
        if is_full:
            info.update({name: each[0] for name, each in self.facts(parameters, values, actions).items()})
        return self.distribution.to_environment(actions[0]), [each[0] for each in after], info

    def get_weights(self) -> dict[str, np.ndarray]:
        """The parameters of the model, by name."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self.model.state_dict().items()}

    def trained_names(self) -> set[str]:
        """The names of the weights that gradients change; buffers and frozen parameters are not among them."""
        named = self.model.named_parameters(remove_duplicate=False)
        return {name for name, value in named if value.requires_grad}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Take `weights`, arrays by name, as `get_weights` returns them; they are copied into the model."""
        self.model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
