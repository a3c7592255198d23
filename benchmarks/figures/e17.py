"""E17 (Ray paper, version 1): a simulated robot is controlled in soft real time.

The driver steps a pole on a cart at fixed intervals.  At each one it sends the state to an actor, which holds the
policy, and applies the action that comes back.  An action that is not there at the next interval is late: the last one
is repeated, as a real robot would do.  The robot's physics advance by the interval, so a late action matters.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import zray

from ..timing import Effort
from .results import MEASURED, Figure, Plot, Series

INTERVALS_MS = (1, 2, 3, 5, 10, 20, 30)
LIMITS = {5: 99.0, 10: 100.0, 20: 100.0, 30: 100.0}  # percent on time
WARM_UP = 200  # actions
GAINS = (1.0, 2.0, 24.0, 4.5)  # of the linear policy: position, speed, angle, angular speed
FALLEN = 0.5  # radians
PAPER = "acts in time at intervals down to a few milliseconds"


class Policy:
    """A linear policy behind a layer of features, as an actor."""

    def __init__(self) -> None:
        self.gains = np.array(GAINS)

    @zray.method
    def act(self, state: np.ndarray) -> float:
        """The force on the cart, in newtons."""
        return float(np.clip(self.gains @ state, -10.0, 10.0))


class CartPole:
    """Barto, Sutton and Anderson's cart with a pole, with a continuous force.

    Args:
        seed: of the pushes that the robot gets.
    """

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        self.state = np.array([0.0, 0.0, 0.05, 0.0])

    def step(self, force: float, seconds: float) -> None:
        """Advance by an interval, in steps of a millisecond."""
        x, speed, angle, turn = self.state
        force += self.dice.normal(0.0, 0.5)
        for _ in range(max(1, round(seconds * 1000))):
            sine, cosine = math.sin(angle), math.cos(angle)
            push = (force + 0.05 * turn**2 * sine) / 1.1
            bend = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
            speed_up = push - 0.05 * bend * cosine / 1.1
            x, speed = x + 0.001 * speed, speed + 0.001 * speed_up
            angle, turn = angle + 0.001 * turn, turn + 0.001 * bend
        self.state = np.array([x, speed, angle, turn])

    @property
    def has_fallen(self) -> bool:
        """Whether the pole is beyond rescue."""
        return abs(float(self.state[2])) > FALLEN


@dataclass
class Course:
    """The actions of one interval: their times, and how long the robot stood."""

    latencies: list[float]  # seconds, of actions that came
    on_time: int
    steps: int
    steps_upright: int


def measure(figure: Figure, effort: Effort) -> None:
    """Actions on time by interval, and how long the robot stays upright."""
    seconds = 1.0 if effort.quick else 10.0
    shares = []
    with zray.init(num_cpus=2), _without_collections():
        policy = zray.remote(Policy).remote()
        for _ in range(WARM_UP):
            zray.get(policy.act.remote(np.zeros(4)))
        for milliseconds in INTERVALS_MS:
            course = control(policy, milliseconds / 1e3, seconds)
            share = 100.0 * course.on_time / course.steps
            shares.append((float(milliseconds), share))
            label = f"every {milliseconds} ms"
            limit = LIMITS.get(milliseconds)
            figure.add(f"{label}: actions on time", share, "%", MEASURED, at_least=limit, paper=PAPER)
            times = sorted(course.latencies)
            figure.add(f"{label}: time to an action, median", statistics.median(times) * 1e6, "us", MEASURED)
            figure.add(f"{label}: time to an action, p99", times[int(0.99 * (len(times) - 1))] * 1e6, "us", MEASURED)
            upright = 100.0 * course.steps_upright / course.steps
            limit = 100.0 if milliseconds == 5 or milliseconds == 10 else None
            figure.add(f"{label}: steps until the robot falls, of all", upright, "%", MEASURED, at_least=limit)
            figure.keep(f"{label}: times to an action", course.latencies, "s", MEASURED)
    lines = [Series("zray", MEASURED, shares)]
    figure.plots.append(Plot("Actions on time", "ms between two actions", "%", lines, log_x=True))
    figure.notes.append(
        f"A cart with a pole, {seconds:g} s at each interval. A late action is dropped, and the last one is repeated. "
        f"{os.cpu_count()} cores; the limits are meant for a machine that does nothing else."
    )


def control(policy: Any, interval: float, seconds: float) -> Course:
    """Step the robot at fixed moments; the action for a state is due at the next one."""
    robot = CartPole(seed=17)
    course = Course([], 0, int(seconds / interval), 0)
    action, is_upright = 0.0, True
    due = time.perf_counter()
    for _ in range(course.steps):
        asked = time.perf_counter()
        due = max(due + interval, asked)  # a moment that has passed is not made up for by haste
        ref = policy.act.remote(robot.state)
        ready, _ = zray.wait([ref], timeout=max(0.0, due - time.perf_counter()))
        if ready:
            action = zray.get(ref)
            course.latencies.append(time.perf_counter() - asked)
            course.on_time += 1
        _sleep_until(due)
        robot.step(action, interval)
        is_upright = is_upright and not robot.has_fallen
        course.steps_upright += is_upright
    return course


def _sleep_until(moment: float) -> None:
    left = moment - time.perf_counter()
    if left > 0:
        time.sleep(left)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """No pause of the garbage collector in the driver: a program in real time does the same."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
