"""A cluster of three nodes under faults: every few seconds one of its processes, of any kind, is killed with SIGKILL.

    python -m benchmarks.chaos [--tasks 20000] [--milliseconds 20] [--every 5] [--seed 0] [--victims head,node,...]

The same tasks run twice: in peace, and then while a process of the cluster dies every `every` seconds, the first one
after half of that.  Between two kills at least PORTION answers arrive: a machine that recovers more slowly than
processes die would never end.  The shard has two replicas and there are two global schedulers, so the cluster has
processes of every kind (KINDS): workers, fork servers, replicas beside the head and beside a node, global schedulers,
nodes, the head.  They are found in the process tree, and one there of no known kind is an error.  Kinds die in rounds:
each once in an order that the seed draws, then again; which process of the kind, the seed draws too.  A kind of which
there is none at the moment, since something else has just died, is waited for.  A node that died is replaced, and a
head that died is started again on its state folder, as whoever runs a cluster would do; all others the cluster
replaces itself.  The driver is a host of its own and lives.  Reported: seconds of both runs and their ratio, what was
killed, what was wrong, and how long it took until all resources of the cluster were free again.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import psutil

import zray
from zray.cluster_utils import Cluster, Node

CPUS = 4  # of each node: the tasks sleep
FREE_SECONDS = 10.0  # by then all resources must be free
STORE = "object_store_memory"
RATIO_MAX = 2.0
KINDS = ("worker", "fork server", "replica", "hosted replica", "global scheduler", "node", "head")
HEAD: dict[str, Any] = {"gcs_replicas": 2, "global_schedulers": 2}  # each a process of its own
WHOLE_SECONDS = 30.0  # by then a cluster has processes of each kind: a node's replica catches up, on a machine at work
LOOK_SECONDS = 0.02
UNKNOWN = "unknown"
PORTION = 250  # answers between two kills at least


class Crew:
    """Who keeps the cluster at three nodes."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="zc-")  # sockets lie there: a short name
        self.cluster = Cluster(shutdown_at_exit=False)
        self.port = 0
        self.environment = {name: os.environ.get(name) for name in ("ZRAY_TMPDIR", "ZRAY_TOKEN")}
        self.start_head()
        for _ in range(2):
            self.cluster.add_node(num_cpus=CPUS)

    def start_head(self) -> None:
        state = f"{self.folder.name}/state"
        head = self.cluster.add_node(num_cpus=CPUS, state_dir=state, port=self.port, **HEAD)
        self.port = int(head.address.rpartition(":")[2])

    def processes(self) -> dict[str, list[psutil.Process]]:
        """All of the cluster, by kind."""
        found: dict[str, list[psutil.Process]] = {kind: [] for kind in (*KINDS, UNKNOWN)}
        for node in self.cluster.list_all_nodes():
            for kind, process in family(node):
                is_head = kind == "node" and node is self.cluster.head_node
                found["head" if is_head else kind].append(process)
        return found

    def await_all(self) -> None:
        """Until there are processes of each kind, and no others."""
        end = time.monotonic() + WHOLE_SECONDS
        while True:
            found = self.processes()
            missing = [kind for kind in KINDS if not found[kind]]
            if not missing and not found[UNKNOWN]:
                return
            if time.monotonic() > end:
                unknown = [process.cmdline() for process in found[UNKNOWN]]
                raise TimeoutError(f"of the cluster's processes, missing: {missing}; of no known kind: {unknown}")
            time.sleep(LOOK_SECONDS)

    def strike(self, kind: str, draw: random.Random, is_over: Callable[[], bool]) -> bool:
        """Kill one of that kind, and replace what does not come back by itself.  False: there was none to the end."""
        while not is_over():
            if kind in ("head", "node"):
                self.replace(kind, draw)
                return True
            if found := self.processes()[kind]:
                try:
                    draw.choice(found).kill()
                except psutil.NoSuchProcess:
                    continue
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def replace(self, kind: str, draw: random.Random) -> None:
        """The head or a node dies, and another one comes."""
        if kind == "head":
            assert self.cluster.head_node is not None
            self.cluster.remove_node(self.cluster.head_node)
            self.start_head()
        else:
            self.cluster.remove_node(draw.choice(self.cluster.worker_nodes))
            self.cluster.add_node(num_cpus=CPUS)

    def join(self) -> None:
        """This process becomes the driver, as a host of its own: it looks for a node of its machine elsewhere."""
        folder = f"{self.folder.name}/d"
        os.mkdir(folder, 0o700)
        os.environ |= {"ZRAY_TMPDIR": folder, "ZRAY_TOKEN": self.cluster.token}
        zray.init(address=self.cluster.address)

    def close(self) -> None:
        """Nothing is left of it, in this process's environment either."""
        self.cluster.shutdown()
        for name, value in self.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.folder.cleanup()


def family(node: Node) -> Iterator[tuple[str, psutil.Process]]:
    """The process of a node and all below it, each with its kind; not those that end at this moment."""
    kinds = {node.pid: "node"}
    try:
        root = psutil.Process(node.pid)
        found = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in found:
        try:
            kind = kinds.get(process.pid) or kind_of(process, kinds.get(process.ppid(), UNKNOWN))
        except psutil.NoSuchProcess:  # or it has ended, and nobody has taken note yet
            continue
        kinds[process.pid] = kind
        yield kind, process


def kind_of(process: psutil.Process, parent: str) -> str:
    """By its parent, and by the title that it gives itself; none is known of one that has just begun."""
    if parent == "fork server":
        return "worker"
    title = next(iter(process.cmdline()), "")
    if parent != "node":
        return UNKNOWN
    if title == "zray: fork server":
        return "fork server"
    if title == "zray: global scheduler":
        return "global scheduler"
    if title.startswith("zray: GCS shard "):
        return "hosted replica" if title.endswith(" (hosted)") else "replica"
    return UNKNOWN


def in_rounds(kinds: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Each once, in an order that is drawn; and again."""
    while True:
        yield from draw.sample(kinds, len(kinds))


@zray.remote(max_retries=-1)
def work(number: int, seconds: float) -> int:
    """A task with a right answer."""
    time.sleep(seconds)
    return number * number


def run(count: int, seconds: float, progress: Callable[[], object] = lambda: None) -> tuple[float, int]:
    """Seconds that it took, and how many answers were wrong; `progress` is called after each PORTION of answers."""
    start = time.perf_counter()
    numbers = {work.remote(number, seconds): number for number in range(count)}
    pending, wrong = list(numbers), 0
    while pending:
        done, pending = zray.wait(pending, num_returns=min(PORTION, len(pending)))
        wrong += sum(1 for ref, answer in zip(done, zray.get(done), strict=True) if answer != numbers[ref] ** 2)
        progress()
    return time.perf_counter() - start, wrong


def free_again() -> float:
    """Seconds until nothing is held; -1: not within FREE_SECONDS."""
    start = time.perf_counter()
    while time.perf_counter() - start < FREE_SECONDS:
        total: dict[str, Any] = zray.cluster_resources()
        free = {**zray.available_resources(), STORE: total.get(STORE)}  # what the program has put stays
        if total.get("CPU") == 3 * CPUS and free == total:
            return time.perf_counter() - start
        time.sleep(0.05)
    print(f"not free: there are {total}, and free are {zray.available_resources()}", file=sys.stderr, flush=True)
    return -1.0


class Outcome(NamedTuple):
    """What came of both runs."""

    quiet_s: float
    fire_s: float
    wrong: int  # answers
    free_s: float  # until all resources were free again; -1: not in time
    killed: dict[str, int]

    @property
    def ratio(self) -> float:
        return self.fire_s / self.quiet_s


def measure(count: int, seconds: float, every_s: float, seed: int, victims: Sequence[str] = KINDS) -> Outcome:
    """`count` tasks of `seconds`, in peace and under fire."""
    draw = random.Random(seed)
    killed: Counter[str] = Counter()
    crew = Crew()
    try:
        crew.join()
        run(200, seconds)
        crew.await_all()
        quiet_s, quiet_wrong = run(count, seconds)
        is_over, has_progressed = threading.Event(), threading.Event()
        has_progressed.set()  # the first kill finds a cluster that is whole
        began = time.monotonic()

        def strike() -> None:
            for number, kind in enumerate(in_rounds(victims, draw)):
                moment = began + (number + 0.5) * every_s
                if is_over.wait(max(0.0, moment - time.monotonic())):
                    return
                has_progressed.wait()
                if crew.strike(kind, draw, is_over.is_set):
                    killed[kind] += 1
                    print(f"killed: {kind}", file=sys.stderr, flush=True)
                has_progressed.clear()

        striker = threading.Thread(target=strike)
        striker.start()
        try:
            fire_s, wrong = run(count, seconds, has_progressed.set)
        finally:
            is_over.set()
            has_progressed.set()
            striker.join()
        return Outcome(quiet_s, fire_s, quiet_wrong + wrong, free_again(), dict(sorted(killed.items())))
    finally:
        zray.shutdown()
        crew.close()


def main(argv: list[str] | None = None) -> int:
    """Print what came of it.  Returns 1 where it was not as the issue asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--milliseconds", type=float, default=20.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two deaths")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victims", default=",".join(KINDS), help="kinds of processes")
    options = parser.parse_args(argv)
    seconds = options.milliseconds / 1000
    victims = options.victims.split(",")
    found = measure(options.tasks, seconds, options.every, options.seed, victims)
    killed = ", ".join(f"{count} x {what}" for what, count in found.killed.items())
    print(f"{options.tasks} tasks of {options.milliseconds:g} ms on 3 nodes of {CPUS} CPUs, seed {options.seed}")
    print(f"in peace {found.quiet_s:.1f} s, under fire {found.fire_s:.1f} s")
    print(f"ratio {found.ratio:.2f}; at most {RATIO_MAX:g}")
    print(f"killed: {killed or 'nothing'}")
    print(f"wrong answers: {found.wrong}; all resources free after {found.free_s:.1f} s; at most {FREE_SECONDS:g}")
    return 0 if found.ratio <= RATIO_MAX and not found.wrong and found.free_s >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
