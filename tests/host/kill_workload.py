"""A driver that test_random_kills.py kills parts of: run as a script, it does some of everything and judges it.

stdout   "ready" when the session is there, "begun" when work is under way, at the end a line of counts
stdin    "work" begins, "stop" ends the work after the round in hand
exit     0: every get had its right value or an error that names its cause; 1: not so, and stderr says what
"""

import collections
import random
import select
import sys

import numpy as np

import zray
from zray import exceptions

GET_SECONDS = 40.0


@zray.remote
def add(a, b):
    return a + b


@zray.remote
def parent(base):
    return sum(zray.get([add.remote(base, i) for i in range(5)]))


@zray.remote
def total(array):
    return float(array.sum())


@zray.remote
def make(size):
    return np.ones(size)


@zray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


@zray.remote(max_restarts=-1, max_task_retries=-1)
class Echo:
    def echo(self, value):
        return value


class Judge:
    """Counts what came of each get; `wrong` says what should not have come."""

    def __init__(self):
        self.counts = collections.Counter()
        self.wrong = []
        self.is_lost = False  # the node is gone

    def value(self, ref, expected, *, may_die=False):
        """A ref's value, or an error with a cause; an actor's calls may die with it."""
        try:
            found = zray.get(ref, timeout=GET_SECONDS)
        except exceptions.ClusterLostError as error:
            self.is_lost = True
            self.counts["ClusterLostError"] += 1
            if "ended" not in str(error):
                self.wrong.append(f"no cause in {error!r}")
        except exceptions.RayActorError as error:
            self.counts[type(error).__name__] += 1
            if not may_die:
                self.wrong.append(f"{error!r}, but it can be repeated")
            if not any(word in str(error) for word in ("signal", "fork server", "killed", "exited")):
                self.wrong.append(f"no cause in {error!r}")
        except BaseException as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
        else:
            self.counts["values"] += 1
            if expected is not None and found != expected:
                self.wrong.append(f"{found!r} is not {expected!r}")


def work(judge, pick, counter, echo):
    """One round."""
    tasks = [(add.remote(i, 1), i + 1) for i in range(pick.randrange(1, 60))]
    tasks += [(parent.remote(i), 5 * i + 10) for i in range(pick.randrange(1, 8))]
    size = pick.randrange(1, 400_000)
    put = zray.put(np.ones(size))
    tasks += [(total.remote(put), float(size)), (total.remote(make.remote(size)), float(size))]
    tasks += [(echo.echo.remote(i), i) for i in range(10)]
    calls = [counter.add.remote() for _ in range(20)]
    fresh = Counter.remote()
    calls += [fresh.add.remote()]
    print("begun", flush=True)
    pick.shuffle(tasks)
    for ref, expected in tasks:
        judge.value(ref, expected)
    for call in calls:
        judge.value(call, None, may_die=True)
    del tasks, calls, fresh, put
    # Whoever was killed: all works again.
    judge.value(add.remote(20, 22), 42)


def main(seed):
    judge, pick = Judge(), random.Random(seed)
    try:
        zray.init(num_cpus=2, log_to_driver=pick.random() < 0.5)
        judge.value(add.remote(1, 1), 2)
        counter, echo = Counter.remote(), Echo.remote()
        print("ready", flush=True)
        sys.stdin.readline()
        while not judge.is_lost and not judge.wrong:
            work(judge, pick, counter, echo)
            if select.select([sys.stdin], [], [], 0)[0]:
                break
    except exceptions.ClusterLostError as error:
        judge.counts["ClusterLostError"] += 1
        if "node" not in str(error):
            judge.wrong.append(f"no cause in {error!r}")
    print(dict(judge.counts), flush=True)
    print("\n".join(judge.wrong), file=sys.stderr)
    if pick.random() < 0.5:
        zray.shutdown()
    sys.exit(1 if judge.wrong else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
