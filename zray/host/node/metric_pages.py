"""Metrics of a node: pages of its living processes, the sums of those that ended, and what the node itself knows.

Nothing is read before somebody asks.  A process that has no metric has no page.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from ...store.metric_page import HEADER, IN_USE_AT, SIZE, Facts, Sums, entry_of, page_of
from ...store.segment import metric_page_name, metric_pages_of, read_start, unlink
from ...wire.events import RING_BYTES_MAX

# Gauges of a node by their names: the description, and the count of the node's roles.
COUNTS = {
    "zray_node_tasks": ("Tasks and calls that were submitted and have not ended.", "tasks"),
    "zray_node_tasks_ready": ("Tasks that wait for a worker or a resource only.", "ready"),
    "zray_node_workers": ("Worker processes, busy or idle.", "workers"),
    "zray_object_store_objects": ("Values in the object store.", "store_objects"),
    "zray_object_store_capacity_bytes": ("Size of the object store.", "store_capacity_bytes"),
}
# Places of values, each with the counts of the bytes there.
LOCATIONS = {"shared_memory": ("store_used_bytes",), "disk": ("spill_file_bytes", "overflow_bytes")}


class MetricPages:
    """Reads the pages of a session on this machine."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.ended = Sums(RING_BYTES_MAX)
        self.processor_times = (0.0, 0.0)  # busy and all, at the last look
        self.busy_percent = 0.0

    def process_ended(self, pid: int) -> None:
        """Add up the page of a process that has ended, and remove it."""
        name = metric_page_name(self.session, pid)
        data = _read(name)
        if data is not None:
            unlink(name)
            self.ended.add(data)

    def read(
        self, bytes_max: int, node: str, counts: Mapping[str, int], memory: tuple[int, int]
    ) -> tuple[list[bytes], int]:
        """The pages, as many as fit into so many bytes, and the number of the others.

        Args:
            node: id of the node.
            counts: what the roles of the node count.
            memory: bytes in use, and how many there are.
        """
        found, left_out, size = [], 0, 0
        living = (data for name in metric_pages_of(self.session) if (data := _read(name)) is not None)
        for data in (self._own(node, counts, memory), self.ended.page(), *living):
            if size + len(data) > bytes_max:
                left_out += 1
            else:
                found.append(data)
                size += len(data)
        return found, left_out

    def _own(self, node: str, counts: Mapping[str, int], memory: tuple[int, int]) -> bytes:
        """The page of what the node knows."""
        rows = [(name, text, "", float(counts.get(count, 0))) for name, (text, count) in COUNTS.items()]
        for location, names in LOCATIONS.items():
            used = sum(counts.get(name, 0) for name in names)
            rows.append(("zray_object_store_memory_bytes", "Bytes of values, by place.", location, float(used)))
        rows += [
            ("zray_node_cpu_percent", "Processors of the machine in use since the last look.", "", self._busy()),
            ("zray_node_mem_used_bytes", "Memory of the machine or its cgroup in use.", "", float(memory[0])),
            ("zray_node_mem_total_bytes", "Memory of the machine or its cgroup.", "", float(memory[1])),
        ]
        now, entries = time.time(), []
        for name, text, location, number in rows:
            tags = (("location", location),) if location else ()
            facts = Facts("gauge", name, text, (*tags, ("node", node)))
            entries.append(entry_of(msgspec.json.encode(facts), (number, now)))
        ended = Facts("counter", "zray_node_tasks_ended", "Tasks and calls that have ended.", (("node", node),))
        entries.append(entry_of(msgspec.json.encode(ended), (float(counts.get("finished", 0)),)))
        return page_of(entries)

    def _busy(self) -> float:
        """The percentage of processor time in use since the last look; at first, since the start of the machine."""
        with suppress(OSError, ValueError), open("/proc/stat", encoding="ascii") as file:
            times = [float(word) for word in file.readline().split()[1:9]]
            idle = sum(times[3:5])
            busy_before, all_before = self.processor_times
            self.processor_times = sum(times) - idle, sum(times)
            if (passed := self.processor_times[1] - all_before) > 0:
                self.busy_percent = 100 * (self.processor_times[0] - busy_before) / passed
        return self.busy_percent


def _read(name: str) -> bytes | None:
    """The part of a page in use; None: there is none."""
    return read_start(name, HEADER.size, lambda head: min(int.from_bytes(head[IN_USE_AT:][:8], "little"), SIZE))
