"""Nested parallelism: experiments run side by side, and each runs many simulations side by side.

An experiment that waits for its simulations gives its CPU back, so that two experiments and all their
simulations finish on two CPUs, or on one.

Prints:

    darts thrown at 4 boards: pi is about 3.141
    darts thrown at 8 boards: pi is about 3.141
"""

import numpy as np

import zray as ray

DARTS = 100_000


@ray.remote
def simulate(seed):
    """The share of random darts in the unit square that hit the quarter disc."""
    darts = np.random.default_rng(seed).random((DARTS, 2))
    return float(np.mean((darts**2).sum(axis=1) <= 1.0))


@ray.remote
def experiment(boards):
    shares = ray.get([simulate.remote(seed) for seed in range(boards)])
    return boards, 4 * sum(shares) / boards


with ray.init(num_cpus=2):
    for boards, pi in ray.get([experiment.remote(boards) for boards in (4, 8)]):
        print(f"darts thrown at {boards} boards: pi is about {pi:.3f}")
