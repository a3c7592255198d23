"""Policies whose parameters are one vector, computed with numpy alone: for evolution, which needs no gradients."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

from .boxes import BoxActions
from .filters import filter_of
from .keywords import ABOUT_THE_PAST, check_keywords
from .masks import LOWEST, mask_of
from .model_keys import ReadKeys
from .policy_views import PolicyViews
from .spaces import OutsideSpace, check_finite, check_outputs, flat_size, misfit, one_hot
from .views import Absent

__all__ = ["VectorPolicy"]

_NUMBERS = "Those of ES are numbers without a module of torch: policy.theta, and policy.forward(row)."
_ACTIVATIONS = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0), "linear": None}


class VectorPolicy(PolicyViews):
    """A linear policy or a multilayer perceptron, as one vector of parameters.

    A Discrete action is the one with the largest output.  A Box action is the outputs, with noise if it explores,
    scaled and clipped to the bounds of the space.

    Args:
        observation_space, action_space: of the environment.
        model: `fcnet_hiddens` and `fcnet_activation`; no hidden layers make a linear policy.
        observation_filter: "NoFilter" or "MeanStdFilter".
        action_noise_std: standard deviation of the noise of Box actions.
        normalize_actions: whether outputs from -1 to 1 are scaled to finite bounds of a Box.

    Example:
        model = {"fcnet_hiddens": [], "fcnet_activation": "tanh"}
        policy = VectorPolicy(env.observation_space, env.action_space, model)
        policy.use(policy.initial(np.random.default_rng(0)))
        action = policy.act(observation, explore=False, rng=np.random.default_rng(1))
    """

    has_state, framework = False, "numpy"
    model = Absent(_NUMBERS, "policies")
    device = Absent(_NUMBERS, "policies")
    dist_class: Any = Absent(_NUMBERS, "policies")
    compute_log_likelihoods = Absent("Its actions have no probabilities.", "policies")

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: dict[str, Any],
        observation_filter: str = "NoFilter",
        action_noise_std: float = 0.0,
        normalize_actions: bool = True,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.is_box = isinstance(observation_space, gymnasium.spaces.Box)
        self.inputs = flat_size(observation_space)
        if isinstance(action_space, gymnasium.spaces.Discrete):
            self.outputs, self.is_continuous = int(action_space.n), False
        elif isinstance(action_space, gymnasium.spaces.Box):
            self.outputs, self.is_continuous = int(np.prod(action_space.shape)), True
            self.to_box = BoxActions(action_space, normalize_actions)
        else:
            raise NotImplementedError(
                f"Evolution has actions of Discrete and Box spaces, not of {type(action_space).__name__} yet.  Flatten "
                "the space in a wrapper of the environment."
            )
        model = ReadKeys(model)
        if model["fcnet_activation"] not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise ValueError(f"The activation is one of {known}, not {model['fcnet_activation']!r}.")
        self.activation: Any = _ACTIVATIONS[model["fcnet_activation"]]
        self.action_noise_std = action_noise_std
        self.mask = mask_of(observation_space, None if self.is_continuous else [self.outputs], False)
        self.filter = filter_of(observation_filter, (self.inputs,), self.mask.columns if self.mask else None)
        sizes = [self.inputs, *model["fcnet_hiddens"], self.outputs]
        self.unread_keys = model.unread()
        self.shapes = list(zip(sizes[:-1], sizes[1:], strict=True))
        self.size = sum(rows * columns + columns for rows, columns in self.shapes)
        self.use(np.zeros(self.size, np.float32))

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        """Parameters to begin with: columns of norm 1, of norm 0.01 in the last layer, and biases of 0."""
        parts = []
        for number, (rows, columns) in enumerate(self.shapes):
            weights = rng.standard_normal((rows, columns))
            gain = 0.01 if number == len(self.shapes) - 1 else 1.0
            weights *= gain / np.sqrt((weights**2).sum(axis=0, keepdims=True))
            parts += [weights.ravel(), np.zeros(columns)]
        return np.concatenate(parts).astype(np.float32)

    def use(self, theta: np.ndarray) -> None:
        """Take a vector of parameters; the layers are views of it."""
        if theta.shape != (self.size,):
            raise ValueError(f"The policy has {self.size} parameters, and the vector the shape {theta.shape}.")
        self.theta = theta
        self.layers: list[tuple[np.ndarray, np.ndarray]] = []
        begin = 0
        for rows, columns in self.shapes:
            middle = begin + rows * columns
            end = middle + columns
            self.layers.append((theta[begin:middle].reshape(rows, columns), theta[middle:end]))
            begin = end

    def flatten(self, observation: Any) -> np.ndarray:
        """An observation as a row of numbers.

        Raises:
            OutsideSpace: the observation does not fit the observation space.
        """
        if not self.is_box:
            observation = one_hot(self.observation_space, observation)
        try:
            return np.asarray(observation, np.float32).reshape(self.inputs)
        except (TypeError, ValueError) as error:
            raise misfit(self.observation_space, observation) from error

    def forward(self, row: np.ndarray) -> np.ndarray:
        """The outputs for a filtered row of numbers."""
        whole = row
        for weights, biases in self.layers[:-1]:
            row = row @ weights + biases
            if self.activation is not None:
                row = self.activation(row)
        weights, biases = self.layers[-1]
        outputs = row @ weights + biases
        if self.mask is not None:
            outputs = np.where(whole[self.mask.columns] > 0, outputs, LOWEST)
        return outputs

    def to_action(self, outputs: np.ndarray, rng: np.random.Generator | None) -> Any:
        """The action of outputs, as the environment takes it; `rng` draws the noise of a Box action."""
        space: Any = self.action_space
        if not self.is_continuous:
            return int(outputs.argmax()) + int(space.start)
        if rng is not None and self.action_noise_std:
            outputs = outputs + self.action_noise_std * rng.standard_normal(self.outputs, np.float32)
        return self.to_box(outputs)

    def act(self, observation: Any, explore: bool, rng: np.random.Generator) -> Any:
        """The action for one observation, as the environment takes it."""
        raw = self.flatten(observation)
        check_finite(np.asarray(raw).reshape(1, -1), [observation])
        outputs = self.forward(self.filter(raw))
        check_outputs(outputs)
        return self.to_action(outputs, rng if explore else None)

    def act_with(
        self, observation: Any, state: list[Any], explore: bool, rng: np.random.Generator, is_full: bool = False
    ) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
        """The action for one observation, no recurrent state, and no other output."""
        return self.act(observation, explore, rng), [], {}

    def compute_actions(
        self, obs_batch: Any, state_batches: Any = None, *args: Any, explore: bool = True, **former: Any
    ) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
        """Actions of observations, as the environment takes them; no state, and no other output."""
        del state_batches, args
        check_keywords("compute_actions", former, ABOUT_THE_PAST)
        actions = [self.act(each, explore, self.own_rng) for each in obs_batch]
        return np.asarray(actions), [], {}

    def get_initial_state(self) -> list[np.ndarray]:
        """No recurrent state."""
        return []

    def get_weights(self) -> dict[str, np.ndarray]:
        """A copy of the parameters, under the name "theta"."""
        return {"theta": self.theta.copy()}

    def trained_names(self) -> set[str]:
        """The names of the weights that learn."""
        return {"theta"}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Copy parameters into the vector, in place."""
        theta = np.asarray(weights["theta"], np.float32)
        if theta.shape != self.theta.shape:
            raise ValueError(f"The policy has {self.size} parameters, and the weights the shape {theta.shape}.")
        self.theta[:] = theta

    def play(
        self, env: gymnasium.Env[Any, Any], seed: int, rng: np.random.Generator | None, horizon: float = math.inf
    ) -> tuple[float, list[np.ndarray], list[float], np.ndarray | None]:
        """Play one episode.

        Args:
            env: the environment, which is reset.
            seed: of the reset.
            rng: draws the noise of Box actions; None: there is none.
            horizon: steps after which the episode is cut off.

        Returns:
            (return, observations as rows, rewards, the row behind the last step); the last one is None where the
            episode has ended by itself.

        Raises:
            OutsideSpace: an observation does not fit the observation space; the error names the step.
        """
        rewards: list[float] = []

        def flatten(observation: Any) -> np.ndarray:
            try:
                return self.flatten(observation)
            except OutsideSpace as error:
                raise OutsideSpace(f"{str(error).rstrip('.')}, in step {len(rewards)}") from error

        observation, _ = env.reset(seed=seed)
        forward, to_action, step, apply = self.forward, self.to_action, env.step, self.filter
        rows: list[np.ndarray] = []
        while True:
            row = flatten(observation)
            rows.append(row)
            observation, reward, terminated, truncated, _ = step(to_action(forward(apply(row)), rng))
            rewards.append(float(reward))
            if terminated or truncated or len(rewards) >= horizon:
                return sum(rewards), rows, rewards, None if terminated else flatten(observation)
