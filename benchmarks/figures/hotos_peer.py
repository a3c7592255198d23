"""The HotOS workload, serial and in stages of Dask's distributed, for E18.

The module imports nothing of zray: the Python of another environment that has `distributed` may run it.

    python hotos_peer.py 2 1        processes, and threads of each

Prints the version first.  Then it reads orders, a line of JSON each, and answers each with the seconds of all stages:
[simulations of a stage, seconds of each, whether they sleep, stages].  0 simulations: stages of an empty task for each
thread.
"""

from __future__ import annotations

import json
import math
import sys
import time

POLICY_SECONDS = 1e-3  # of the batched policy step


def simulate(seconds: float, sleeps: bool, action: float) -> float:
    """Simulate for so many seconds of this thread's CPU time, or sleep for as long."""
    if sleeps:
        time.sleep(seconds)
        return action
    angle, end = action, time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(20):
            angle += 0.05 * math.sin(angle)
    return angle


def policy(states: list[float], sleeps: bool) -> list[float]:
    """Choose the next action of each simulation, in one step."""
    simulate(POLICY_SECONDS, sleeps, 0.0)
    mean = sum(states) / len(states)
    return [state - 0.1 * mean for state in states]


def empty() -> None:
    """Do nothing."""


def serial(count: int, seconds: float, sleeps: bool, stages: int) -> float:
    """Return the seconds of so many stages, one simulation after the other."""
    started = time.perf_counter()
    actions = [1.0 + number for number in range(count)]
    for _ in range(stages):
        actions = policy([simulate(seconds, sleeps, action) for action in actions], sleeps)
    return time.perf_counter() - started


def with_dask(processes: int, threads: int) -> None:
    """Bulk-synchronous: each stage is submitted, and gathered before the policy step."""
    import distributed

    options = {"n_workers": processes, "threads_per_worker": threads, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:

        def stage(count: int, seconds: float, sleeps: bool, actions: list[float]) -> list[float]:
            if count:
                futures = client.map(simulate, [seconds] * count, [sleeps] * count, actions, pure=False)
                return policy(client.gather(futures), sleeps)
            client.gather([client.submit(empty, pure=False) for _ in range(processes * threads)])
            return actions

        def run(count: int, seconds: float, sleeps: bool, stages: int) -> float:
            started = time.perf_counter()
            actions = [1.0 + number for number in range(count)]
            for _ in range(stages):
                actions = stage(count, seconds, sleeps, actions)
            return time.perf_counter() - started

        run(processes * threads, 1e-3, True, 5)  # all of it is imported
        print(distributed.__version__, flush=True)
        for line in sys.stdin:
            print(run(*json.loads(line)), flush=True)


if __name__ == "__main__":
    with_dask(int(sys.argv[1]), int(sys.argv[2]))
