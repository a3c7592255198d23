"""Batches of steps as dicts of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["DEFAULT_POLICY_ID", "MultiAgentBatch", "SampleBatch", "concat_samples"]

DEFAULT_POLICY_ID = "default_policy"


class SampleBatch(dict[str, Any]):
    """Columns of equal length by name; each row is a step.

    Args:
        columns: arrays or lists by name, as a dict or by keyword.

    Raises:
        ValueError: the columns differ in length.

    Example:
        batch = SampleBatch(obs=[[0.0], [1.0]], rewards=[1.0, 2.0])
        batch.count  # 2
    """

    OBS, NEXT_OBS = "obs", "new_obs"
    ACTIONS, REWARDS = "actions", "rewards"
    PREV_ACTIONS, PREV_REWARDS = "prev_actions", "prev_rewards"
    TERMINATEDS, TRUNCATEDS, DONES = "terminateds", "truncateds", "dones"
    INFOS, EPS_ID, AGENT_INDEX, UNROLL_ID, T = "infos", "eps_id", "agent_index", "unroll_id", "t"
    ACTION_DIST_INPUTS, ACTION_PROB, ACTION_LOGP = "action_dist_inputs", "action_prob", "action_logp"
    VF_PREDS, VALUES_BOOTSTRAPPED, SEQ_LENS = "vf_preds", "values_bootstrapped", "seq_lens"
    CUR_OBS = OBS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        for name, column in dict(*args, **kwargs).items():
            self[name] = np.asarray(column) if isinstance(column, (list, tuple)) else column
        lengths = {name: len(column) for name, column in self.items() if name != self.SEQ_LENS}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"The columns of a batch are of one length, not of {lengths}.")
        self.count = next(iter(lengths.values()), 0)

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return bool(self.count)

    def env_steps(self) -> int:
        """The steps."""
        return self.count

    agent_steps = env_steps

    def columns(self, keys: Sequence[str]) -> list[Any]:
        """Columns, in the order of the names."""
        return [self[key] for key in keys]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each step as a dict."""
        for place in range(self.count):
            yield {name: column[place] for name, column in self.items() if name != self.SEQ_LENS}

    def slice(self, start: int, end: int) -> SampleBatch:
        """The steps from `start` to before `end`, as views."""
        return SampleBatch({name: column[start:end] for name, column in self.items() if name != self.SEQ_LENS})

    def copy(self, shallow: bool = False) -> SampleBatch:
        """The batch with arrays of its own; with `shallow`, with the same ones."""
        return SampleBatch({name: column if shallow else np.array(column) for name, column in self.items()})

    def shuffle(self, rng: np.random.Generator | None = None) -> SampleBatch:
        """Put the steps into random order, in place.

        Args:
            rng: draws the order; None: one that is seeded by the system.
        """
        order = (rng or np.random.default_rng()).permutation(self.count)
        for name, column in self.items():
            self[name] = np.asarray(column)[order]
        return self

    def minibatches(self, size: int) -> Iterator[SampleBatch]:
        """Consecutive parts of `size` steps; the last one may be shorter."""
        for start in range(0, self.count, size):
            yield self.slice(start, min(start + size, self.count))

    def timeslices(self, size: int) -> list[SampleBatch]:
        """The minibatches, as a list."""
        return list(self.minibatches(size))

    def split_by_episode(self) -> list[SampleBatch]:
        """The parts of consecutive steps with the same `eps_id`."""
        ids = np.asarray(self[self.EPS_ID])
        bounds = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), self.count]
        return [self.slice(start, end) for start, end in zip(bounds[:-1], bounds[1:], strict=True)]

    def concat(self, other: SampleBatch) -> SampleBatch:
        """The steps of this batch, and then of the other."""
        return concat_samples([self, other])

    @staticmethod
    def concat_samples(samples: Sequence[SampleBatch]) -> SampleBatch:
        """The steps of all batches, in their order."""
        return concat_samples(samples)


def concat_samples(samples: Sequence[SampleBatch]) -> SampleBatch:
    """Join batches: the steps of all, in their order.

    Args:
        samples: batches with the same columns.

    Raises:
        ValueError: the batches differ in their columns.
    """
    filled = [each for each in samples if each.count]
    if not filled:
        return SampleBatch()
    if any(each.keys() != filled[0].keys() for each in filled):
        raise ValueError(f"The batches differ in their columns: {[sorted(each) for each in filled]}.")
    return SampleBatch({name: np.concatenate([each[name] for each in filled]) for name in filled[0]})


class MultiAgentBatch:
    """The batches of several policies, by name.

    Args:
        policy_batches: a SampleBatch for each policy.
        env_steps: steps of the environment that they are of.
    """

    def __init__(self, policy_batches: dict[str, SampleBatch], env_steps: int) -> None:
        self.policy_batches, self.count = dict(policy_batches), env_steps

    def env_steps(self) -> int:
        """The steps of the environment."""
        return self.count

    def agent_steps(self) -> int:
        """The steps of all agents."""
        return sum(batch.count for batch in self.policy_batches.values())

    def __getitem__(self, key: str) -> SampleBatch:
        return self.policy_batches[key]

    def as_multi_agent(self) -> MultiAgentBatch:
        """The batch itself."""
        return self
