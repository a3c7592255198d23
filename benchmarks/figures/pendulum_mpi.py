"""Episodes of a pendulum for E14, and their rounds by MPI.

The module imports nothing of zray: mpirun may start it with the Python of another environment.

    mpirun -n 2 python pendulum_mpi.py '[1, 2]'     seeds; prints steps per second of each as JSON
"""

from __future__ import annotations

import json
import math
import random
import sys
import time

ROUNDS = 3
LENGTHS = (10, 1_000)  # steps of an episode, evenly drawn: as in the paper's evolution strategies
STEP_UNIT = 20  # an episode takes so many times its steps: up to some tenths of a second


def episode(steps: int, seed: int) -> float:
    """The return of a swinging pendulum under a linear policy, as Pendulum-v1 has it.  Plain Python: one core."""
    angle, speed, total = math.pi + 0.01 * seed, 0.0, 0.0
    for _ in range(steps):
        torque = max(-2.0, min(2.0, -3.0 * math.sin(angle) - speed))
        total -= ((angle + math.pi) % (2 * math.pi) - math.pi) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = max(-8.0, min(8.0, speed + 0.05 * (15.0 * math.sin(angle) + 3.0 * torque)))
        angle += 0.05 * speed
    return total


def lengths(cores: int, seed: int) -> list[int]:
    """Steps of each episode of one run."""
    dice = random.Random(seed)
    return [dice.randint(*LENGTHS) for _ in range(ROUNDS * cores)]


def mpi_main(seeds: list[int]) -> None:
    """One rank: its episode of each round, and a barrier."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rates = []
    for seed in seeds:
        steps = lengths(world.size, seed)
        world.Barrier()
        started = time.perf_counter()
        for first in range(0, len(steps), world.size):
            for number in range(STEP_UNIT):
                episode(steps[first + world.rank], number)
            world.Barrier()
        rates.append(STEP_UNIT * sum(steps) / (time.perf_counter() - started))
    if world.rank == 0:
        print(json.dumps(rates))


if __name__ == "__main__":
    mpi_main(json.loads(sys.argv[1]))
