"""CPU time per task of the pure parts of the task path, each alone in one process: where the microseconds go.

    python -m benchmarks.role_costs [--tasks 20000]

Prints one line per part: microseconds of CPU time per no-op task.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from zray.ids import children_prefix
from zray.roles.client import Client
from zray.roles.effects import OpenWindow, ProcessJoined, Send, SetTimer, StartWorker
from zray.roles.gcs import GcsShard
from zray.roles.local_scheduler import LocalScheduler
from zray.roles.local_scheduler.addresses import Addresses
from zray.roles.object_manager import ObjectManager
from zray.roles.task_executor import TaskExecutor
from zray.wire.link import Link
from zray.wire.objects import ReleaseObjects
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import Function, ObjectsReady, PublishFunction, StartTasks

BATCH = 128
FUNCTION = b"f" * 16


class TaskPath:
    """One scheduler, shard, client and two executors in one process, and clocks around what they do."""

    def __init__(self) -> None:
        addresses = Addresses("objects", ["global"], ["gcs-0"], "monitor")
        self.scheduler = LocalScheduler("local", addresses, total={"CPU": 20_000})
        self.shard = GcsShard("gcs-0")
        self.objects = ObjectManager("objects", "local", capacity=1 << 30)
        self.client = Client(deque(), deque())
        self.executors = {f"worker-{number}": TaskExecutor() for number in (1, 2)}
        self.links = {name: (Link(), Link()) for name in ("from driver", "to driver", "to worker", "from worker")}
        self.prefix = children_prefix(b"driver")
        self.inbox: deque[tuple[str, Any]] = deque()
        self.spent: dict[str, float] = {}  # seconds of CPU time, by part
        self.submitted = self.ready = 0

    def clocked(self, name: str, action: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = action()
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - begin
        return result

    def perform(self, effects: list[Any]) -> None:
        for effect in effects:
            if type(effect) is Send:
                self.inbox.append((effect.destination, effect.message))
            elif type(effect) is SetTimer:
                self.inbox.append(("local", effect.message))
            elif type(effect) is StartWorker:
                joined = ProcessJoined(effect.worker, "worker", 1, b"", effect.worker_id)
                self.inbox.append(("local", joined))
            else:
                assert type(effect) is OpenWindow, effect

    def over_link(self, name: str, messages: list[Any]) -> Any:
        source, target = self.links[name]
        frame = self.clocked(f"{name}: encode", lambda: source.pack(messages))
        source.unacknowledged.clear()
        return self.clocked(f"{name}: decode", lambda: target.unpack(frame))

    def handle(self, sender: str, message: Any, name: str) -> None:
        self.perform(self.clocked(name, lambda: self.scheduler.handle(sender, message, 0.0)))
        self.perform(self.clocked("scheduler: end of turn", lambda: self.scheduler.end_turn(0.0)))

    def settle(self) -> None:
        """Deliver until nothing is under way; timers fire last."""
        timers = []
        while self.inbox:
            destination, message = self.inbox.popleft()
            if destination == "local" and type(message) is not ProcessJoined:
                timers.append(message)
            else:
                self.deliver(destination, message)
        for message in timers:
            self.handle("local", message, "scheduler: lineage")
            while self.inbox and self.inbox[0][0] == "gcs-0":
                self.deliver(*self.inbox.popleft())

    def deliver(self, destination: str, message: Any) -> None:
        if destination == "local":
            self.handle(message.process, message, "start")
        elif destination == "gcs-0":
            self.clocked("GCS shard", lambda: self.shard.handle("local", message, 0.0))
        elif destination == "objects":
            self.objects.handle("local", message, 0.0)
        elif type(message) is ObjectsReady:
            (arrived,) = self.over_link("to driver", [message])
            self.clocked("client: values", lambda: self.client.handle(arrived))
            self.ready += len(message.objects)
        elif type(message) is StartTasks:
            (arrived,) = self.over_link("to worker", [message])
            executor = self.executors[destination]
            self.clocked("executor", lambda: run(executor, arrived))
            (arrived,) = self.over_link("from worker", executor.take_messages())
            self.handle(destination, arrived, "scheduler: finished")

    def make_specs(self) -> None:
        for _ in range(BATCH):
            self.submitted += 1
            self.client.submit(TaskSpec(self.prefix + self.submitted.to_bytes(6, "big"), FUNCTION, b"\x91\x05"))


def run(executor: TaskExecutor, message: StartTasks) -> None:
    executor.on_start_tasks(message)
    while executor.queue:
        spec = executor.queue.popleft()
        executor.ran_for(spec.function_id, 2.0)
        executor.finished(spec, [b"\x05"])


def measure(tasks: int) -> dict[str, float]:
    """Microseconds of CPU time per task, by part."""
    path = TaskPath()
    path.handle("driver-1", ProcessJoined("driver-1", "driver", 1, b"j" * 8), "start")
    path.settle()
    path.handle("driver-1", PublishFunction(Function(FUNCTION, "f", b"")), "start")
    while path.submitted < tasks:
        path.clocked("client: submit", path.make_specs)
        path.handle("driver-1", path.over_link("from driver", path.client.take_messages())[0], "scheduler: submit")
        if path.submitted % (8 * BATCH) == 0:
            path.settle()
    path.settle()
    assert path.ready == path.submitted, (path.ready, path.submitted)
    path.handle("driver-1", ReleaseObjects(list(path.client.held)), "scheduler: release")
    path.settle()
    assert not path.scheduler.objects.entries
    return {name: seconds / path.submitted * 1e6 for name, seconds in sorted(path.spent.items())}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20_480)
    options = parser.parse_args()
    measure(2_048)
    costs = [measure(options.tasks) for _ in range(5)]
    total = 0.0
    for name in costs[0]:
        value = sorted(cost[name] for cost in costs)[len(costs) // 2]
        total += value
        print(f"{name:28} {value:6.2f}")
    print(f"{'sum':28} {total:6.2f}")


if __name__ == "__main__":
    main()
