"""E16 (Ray paper, Fig 14b): PPO with asynchronous rollouts and one learner, beside a symmetric program.

Symmetric, as an MPI program is: each worker collects the same share of a batch, and all wait for the slowest one.
Asynchronous: a worker gets its next rollout as soon as it is free, until the batch is full.  Rollouts take unequal
times.  Then zray's own PPO learns, with workers that are killed, and with a GPU that the learner alone holds.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import signal
import statistics
import threading
import time
from typing import Any

import zray

from ..timing import Effort
from .results import EMULATED, MEASURED, Figure, Plot, Series

WORKERS = (2, 4, 8, 16)
ROLLOUTS_OF_WORKER = 8  # of a batch, in the symmetric program
STEPS = 200  # of a rollout
ROLLOUT_SECONDS = (0.005, 0.06)  # evenly drawn: rollouts end early where an episode does
LEARNER_SECONDS = 0.05  # of an update
KILL_SECONDS = 2.0
PAPER = "faster than MPI at every size, with fewer GPUs"


def measure(figure: Figure, effort: Effort) -> None:
    """Samples per second both ways; then the learning."""
    _rates(figure, effort)
    if not all(importlib.util.find_spec(name) for name in ("torch", "gymnasium")):
        figure.leave_out("PPO learns CartPole-v1", "torch and gymnasium are not installed: pip install 'zray[rllib]'")
        return
    _learning(figure, effort)
    _gpu(figure)


class Worker:
    """A rollout worker whose environment sleeps."""

    @zray.method
    def rollout(self, weights: Any, seconds: float) -> int:
        """Steps that were collected."""
        time.sleep(seconds)
        return STEPS

    @zray.method
    def rollouts(self, weights: Any, seconds: list[float]) -> int:
        """Several of them."""
        return sum(self.rollout(weights, each) for each in seconds)


def _rates(figure: Figure, effort: Effort) -> None:
    iterations = 2 if effort.quick else 8
    points: dict[str, list[tuple[float, float]]] = {"asynchronous": [], "symmetric": []}
    for count in WORKERS[:2] if effort.quick else WORKERS:
        with zray.init(num_cpus=count):
            workers = [zray.remote(Worker).options(num_cpus=1).remote() for _ in range(count)]
            zray.get([worker.rollout.remote(None, 0.0) for worker in workers])
            rates: dict[str, list[float]] = {"asynchronous": [], "symmetric": []}
            for seed in range(iterations):
                rates["asynchronous"].append(asynchronous(workers, seed))
                rates["symmetric"].append(symmetric(workers, seed))
        medians = {way: statistics.median(values) for way, values in rates.items()}
        for way, values in rates.items():
            points[way].append((float(count), medians[way]))
            figure.add(f"{count} workers, {way}", medians[way], "samples/s", EMULATED, paper=PAPER)
            figure.keep(f"{count} workers, {way}", values, "samples/s", EMULATED)
        ratio = medians["asynchronous"] / medians["symmetric"]
        label = f"{count} workers: asynchronous, to symmetric"
        figure.add(label, ratio, "x", EMULATED, paper=PAPER, at_least=1.0)
    lines = [Series(way, EMULATED, values) for way, values in points.items()]
    figure.plots.append(Plot("Samples of PPO per second", "workers", "samples/s", lines, log_x=True, log_y=True))
    figure.notes.append(
        f"Emulated: rollouts of {STEPS} steps sleep {ROLLOUT_SECONDS[0] * 1e3:.0f} to "
        f"{ROLLOUT_SECONDS[1] * 1e3:.0f} ms, {ROLLOUTS_OF_WORKER} for each worker and batch, and an update takes "
        f"{LEARNER_SECONDS * 1e3:.0f} ms. The symmetric program divides them evenly, and waits for the slowest worker."
    )


def durations(count: int, seed: int) -> list[float]:
    """Seconds of each rollout of a batch."""
    dice = random.Random(seed)
    return [dice.uniform(*ROLLOUT_SECONDS) for _ in range(count * ROLLOUTS_OF_WORKER)]


def asynchronous(workers: list[Any], seed: int) -> float:
    """Samples per second of one iteration; one rollout in flight for each worker."""
    left = iter(durations(len(workers), seed))
    started = time.perf_counter()
    weights = zray.put([0.0])
    flying = {worker.rollout.remote(weights, next(left)): worker for worker in workers}
    samples = 0
    while flying:
        (ref,), _ = zray.wait(list(flying))
        worker = flying.pop(ref)
        samples += zray.get(ref)
        for seconds in itertools.islice(left, 1):
            flying[worker.rollout.remote(weights, seconds)] = worker
    time.sleep(LEARNER_SECONDS)
    return samples / (time.perf_counter() - started)


def symmetric(workers: list[Any], seed: int) -> float:
    """Samples per second of one iteration; the same number of rollouts for each worker."""
    all_of_it = durations(len(workers), seed)
    started = time.perf_counter()
    weights = zray.put([0.0])
    count = len(workers)
    refs = [worker.rollouts.remote(weights, all_of_it[place::count]) for place, worker in enumerate(workers)]
    samples = sum(zray.get(refs))
    time.sleep(LEARNER_SECONDS)
    return samples / (time.perf_counter() - started)


# --- learning ---


def _config(workers: int) -> Any:
    from zray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=workers).debugging(seed=1)
    return config.training(lr=1e-3)


def learn(iterations: int, *, kills: bool) -> tuple[list[float], int]:
    """The mean return of episodes after each iteration, and how many workers were killed."""
    algo = _config(workers=2).build_algo()
    stop, killed = threading.Event(), 0

    def kill_in_turns() -> None:
        nonlocal killed
        for number in itertools.count():
            if stop.wait(KILL_SECONDS):
                return
            actor = algo.rollouts.actors[number % len(algo.rollouts.actors)]
            os.kill(zray.get(actor.__ray_call__.remote(lambda host: os.getpid())), signal.SIGKILL)
            killed += 1

    thread = threading.Thread(target=kill_in_turns, daemon=True)
    if kills:
        thread.start()
    try:
        return [algo.train().get("episode_reward_mean", 0.0) for _ in range(iterations)], killed
    finally:
        stop.set()
        if kills:
            thread.join()
        algo.stop()


def _learning(figure: Figure, effort: Effort) -> None:
    iterations = 15 if effort.quick else 100
    with zray.init(num_cpus=2):
        undisturbed, _ = learn(iterations, kills=False)
        disturbed, killed = learn(iterations, kills=True)
    best = max(disturbed)
    figure.add("PPO, CartPole-v1, two workers, one killed every 2 s: best mean return", best, "", MEASURED)
    words = f"{killed} workers killed, {sum(a != b for a, b in zip(undisturbed, disturbed, strict=True))} of " + (
        f"{iterations} iterations differ"
    )
    label = "PPO, CartPole-v1: the curve with killed workers is that without"
    figure.add_fact(label, undisturbed == disturbed and killed > 0, words, MEASURED)
    points = [(float(number + 1), value) for number, value in enumerate(disturbed)]
    lines = [Series("two workers, one killed every 2 s", MEASURED, points)]
    figure.plots.append(Plot("PPO on CartPole-v1", "iteration", "mean return", lines))


class Learner:
    """PPO, in an actor that holds the GPU."""

    @zray.method
    def train(self) -> tuple[list[int | str], list[list[int | str]]]:
        """Train for one iteration.  Returns the GPUs of the learner, and those of each rollout worker."""
        algo = _config(workers=2).build_algo()
        algo.train()
        held = zray.get([each.__ray_call__.remote(lambda host: zray.get_gpu_ids()) for each in algo.rollouts.actors])
        algo.stop()
        return zray.get_gpu_ids(), held


def _gpu(figure: Figure) -> None:
    with zray.init(num_cpus=2, num_gpus=1):
        own, others = zray.get(zray.remote(num_cpus=0, num_gpus=1)(Learner).remote().train.remote())
    words = f"learner: {len(own)}, rollout workers: {', '.join(str(len(each)) for each in others)}"
    label = "one declared GPU: the learner alone holds it"
    figure.add_fact(label, own == [0] and others == [[], []], words, MEASURED, paper=PAPER)
