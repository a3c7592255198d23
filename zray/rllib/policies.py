"""A policy: a model, a distribution of actions and a filter of observations, without a learner."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from .distributions import distribution_of
from .filters import filter_of
from .networks import ActorCritic

__all__ = ["Policy"]


class Policy:
    """A policy.

    Args:
        observation_space, action_space: of the environment.
        model: options of the model.
        observation_filter: "NoFilter" or "MeanStdFilter".
        make_model: a function of (inputs, outputs, is_continuous, model options) that makes a torch module; its forward
            gives the parameters of the distribution, and values.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: dict[str, Any],
        observation_filter: str = "NoFilter",
        make_model: Any = ActorCritic,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.distribution = distribution_of(action_space)
        self.inputs = int(gymnasium.spaces.flatdim(observation_space))
        self.is_flat = isinstance(observation_space, gymnasium.spaces.Box)
        self.filter = filter_of(observation_filter, (self.inputs,))
        self.model = make_model(self.inputs, self.distribution.outputs, self.distribution.is_continuous, model)

    def flatten(self, observations: list[Any]) -> np.ndarray:
        """Observations as rows of numbers."""
        if self.is_flat:
            return np.asarray(observations, dtype=np.float32).reshape(len(observations), self.inputs)
        space = self.observation_space
        return np.stack([gymnasium.spaces.flatten(space, each) for each in observations]).astype(np.float32)

    wants_next_observations = False  # whether the learner reads the state that a step led to

    def draw(self, parameters: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions and their log probabilities, one for each row of parameters."""
        return self.distribution.draw(parameters, self.log_std(), rng)

    def forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the actions, and values, of filtered observations."""
        with torch.inference_mode():
            parameters, values = self.model(torch.from_numpy(rows))
        return parameters.numpy(), values.numpy()

    def log_std(self) -> Any:
        """The log standard deviations; None: the actions are discrete."""
        log_std = getattr(self.model, "log_std", None)
        return None if log_std is None else log_std.detach().numpy()

    def act(self, observation: Any, explore: bool, rng: np.random.Generator) -> Any:
        """The action for one observation, as the environment takes it."""
        parameters, _ = self.forward(self.filter(self.flatten([observation])))
        if explore:
            actions, _ = self.draw(parameters, rng)
        else:
            actions = self.distribution.greedy(parameters)
        return self.distribution.to_environment(actions[0])

    def get_weights(self) -> dict[str, np.ndarray]:
        """The parameters of the model, by name."""
        return {name: value.detach().numpy().copy() for name, value in self.model.state_dict().items()}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Take parameters; arrays in the object store are copied into the model."""
        self.model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
