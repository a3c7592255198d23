"""Distributions of actions over the numbers that a model gives, for programs that draw actions themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributions

__all__ = [
    "TorchCategorical",
    "TorchDeterministic",
    "TorchDiagGaussian",
    "TorchDistributionWrapper",
    "TorchMultiCategorical",
]


class TorchDistributionWrapper:
    """A distribution of actions.

    Args:
        inputs: what the model gave, with a row for each observation.
        model: not read.

    Example:
        found = algo.get_module().forward_inference({"obs": observations})
        TorchCategorical(found["action_dist_inputs"]).sample()
    """

    def __init__(self, inputs: Any, model: Any = None, **options: Any) -> None:
        del options
        self.inputs, self.model = torch.as_tensor(inputs), model
        self.dist: Any = self.make()
        self.last: Any = None

    def make(self) -> Any:
        """The distribution of torch."""
        raise NotImplementedError(f"{type(self).__name__} has no method make: it returns a distribution of torch.")

    @classmethod
    def from_logits(cls, logits: Any, **options: Any) -> Any:
        """The distribution of what a model gave."""
        return cls(logits, **options)

    @classmethod
    def get_partial_dist_cls(cls, **options: Any) -> Any:
        """The class with options given."""
        return lambda inputs, model=None: cls(inputs, model, **options)

    def _summed(self, values: Any) -> Any:
        return values

    def sample(self) -> Any:
        """Drawn actions."""
        self.last = self.dist.sample()
        return self.last

    def deterministic_sample(self) -> Any:
        """The most likely actions."""
        self.last = self.dist.mode
        return self.last

    def logp(self, actions: Any) -> Any:
        """Log probabilities of actions."""
        return self._summed(self.dist.log_prob(torch.as_tensor(actions)))

    def sampled_action_logp(self) -> Any:
        """Log probabilities of the last actions."""
        return self.logp(self.last)

    def entropy(self) -> Any:
        """Entropies."""
        return self._summed(self.dist.entropy())

    def kl(self, other: Any) -> Any:
        """Divergences from another distribution."""
        return self._summed(distributions.kl_divergence(self.dist, other.dist))

    def to_deterministic(self) -> Any:
        """A distribution of the most likely actions alone."""
        return TorchDeterministic(self.dist.mode)


class TorchCategorical(TorchDistributionWrapper):
    """Distribution over several actions, by logits."""

    def make(self) -> Any:
        return distributions.Categorical(logits=self.inputs)


class TorchDiagGaussian(TorchDistributionWrapper):
    """Normal numbers, by means and, behind them, log standard deviations."""

    def make(self) -> Any:
        means, logs = self.inputs.chunk(2, -1)
        return distributions.Normal(means, logs.exp())

    def _summed(self, values: Any) -> Any:
        return values.sum(-1)


class TorchDeterministic(TorchDistributionWrapper):
    """The inputs themselves."""

    def make(self) -> Any:
        return None

    def sample(self) -> Any:
        self.last = self.inputs
        return self.inputs

    deterministic_sample = sample

    def logp(self, actions: Any) -> Any:
        return torch.zeros(len(self.inputs))


class TorchMultiCategorical(TorchDistributionWrapper):
    """Several actions, each one of its own number, by logits behind one another.

    Args:
        input_lens: the number of logits of each action.
    """

    def __init__(self, inputs: Any, model: Any = None, input_lens: Any = None, **options: Any) -> None:
        self.input_lens = [int(each) for each in input_lens]
        super().__init__(inputs, model, **options)

    def make(self) -> Any:
        parts = self.inputs.split(self.input_lens, -1)
        self.parts = [distributions.Categorical(logits=part) for part in parts]
        return None

    def sample(self) -> Any:
        self.last = torch.stack([part.sample() for part in self.parts], -1)
        return self.last

    def deterministic_sample(self) -> Any:
        self.last = torch.stack([part.mode for part in self.parts], -1)
        return self.last

    def logp(self, actions: Any) -> Any:
        each = torch.as_tensor(actions).unbind(-1)
        return torch.stack([part.log_prob(action) for part, action in zip(self.parts, each, strict=True)]).sum(0)

    def entropy(self) -> Any:
        return torch.stack([part.entropy() for part in self.parts]).sum(0)

    def kl(self, other: Any) -> Any:
        pairs = zip(self.parts, other.parts, strict=True)
        return torch.stack([distributions.kl_divergence(own, each) for own, each in pairs]).sum(0)

    def to_deterministic(self) -> Any:
        return TorchDeterministic(self.deterministic_sample())
