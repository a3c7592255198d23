"""Sequences: parts of rollouts that recurrent models read in order, each with the state at its begin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

__all__ = ["Sequence", "minibatches_of", "pad", "rows_of", "sequences_of"]


class Sequence(NamedTuple):
    """Consecutive steps of one environment, within one episode.

    env: column of the rollout.  begin: first step.  length: steps.
    """

    env: int
    begin: int
    length: int


def sequences_of(ended: np.ndarray, max_length: int) -> list[Sequence]:
    """The sequences of a rollout: cut at ends of episodes, and every `max_length` steps.

    Args:
        ended: of shape [T, N]; 1 where the episode of a step is over.
        max_length: steps of a sequence at most.
    """
    steps, envs = ended.shape
    found = []
    for env in range(envs):
        begin = 0
        for step in range(steps):
            if ended[step, env] or step + 1 - begin == max_length or step + 1 == steps:
                found.append(Sequence(env, begin, step + 1 - begin))
                begin = step + 1
    return found


def rows_of(sequences: list[Sequence], envs: int) -> np.ndarray:
    """Where the steps of sequences are in a rollout of shape [T, N] whose two axes are one.

    Args:
        sequences: of the rollout.
        envs: N.
    """
    return np.concatenate([(begin + np.arange(length)) * envs + env for env, begin, length in sequences])


def minibatches_of(lengths: np.ndarray, size: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Minibatches of whole sequences, in random order.

    Args:
        lengths: of the sequences, whose rows are one behind another.
        size: steps of a minibatch; its last sequence may exceed it.
        rng: draws the order.

    Returns:
        For each minibatch (sequences, rows): the numbers of its sequences, and of their rows.
    """
    begins = np.cumsum(lengths) - lengths
    found, chosen, steps = [], [], 0
    order = rng.permutation(len(lengths))
    for place, sequence in enumerate(order, start=1):
        chosen.append(int(sequence))
        steps += int(lengths[sequence])
        if steps >= size or place == len(order):
            rows = np.concatenate([np.arange(begins[each], begins[each] + lengths[each]) for each in chosen])
            found.append((np.array(chosen), rows))
            chosen, steps = [], 0
    return found


def pad(rows: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of sequences, one behind another, as a rectangle.

    Args:
        rows: of shape [sum of lengths, ...].
        lengths: of the sequences.

    Returns:
        (rectangle, places): of shape [sequences, longest, ...], with zeros behind shorter ones; and where each row is
        in the rectangle whose first two axes are one.
    """
    longest = int(lengths.max())
    lengths = lengths.to(rows.device)
    is_row = torch.arange(longest, device=rows.device) < lengths.unsqueeze(1)
    places = is_row.flatten().nonzero().squeeze(1)
    rectangle = rows.new_zeros(len(lengths) * longest, *rows.shape[1:])
    rectangle[places] = rows
    return rectangle.reshape(len(lengths), longest, *rows.shape[1:]), places
