"""How busy a global scheduler is.  Nothing is measured before the role that decides on their number asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire import counts, scheduling
from ...wire.task_spec import RESOURCE_UNIT
from ..replica_effects import CpuMeasured, MeasureCpu
from ..role import on

if TYPE_CHECKING:
    from .scheduler import GlobalScheduler

# Between two reports, at least: whatever is asked for, a report costs a turn.
REPORT_SECONDS_MIN = 1e-3


class Watch:
    """The reports of a global scheduler about itself."""

    def __init__(self, scheduler: GlobalScheduler) -> None:
        self.scheduler = scheduler
        self.asker = ""  # nobody yet
        self.seconds = 0.0
        self.placing_s = 0.0  # since the last report
        self.last: tuple[float, CpuMeasured] | None = None

    @on(counts.WatchLoad)
    def on_watch_load(self, message: counts.WatchLoad) -> None:
        """WatchLoad."""
        scheduler, is_first = self.scheduler, not self.asker
        scheduler.shares_with(message.equals)
        self.asker, self.seconds = scheduler.sender, max(REPORT_SECONDS_MIN, message.seconds)
        if is_first:
            self._measure()

    def _measure(self) -> None:
        self.scheduler.perform(MeasureCpu())

    @on(CpuMeasured)
    def on_cpu_measured(self, message: CpuMeasured) -> None:
        """CpuMeasured: report, and measure again later."""
        scheduler, last = self.scheduler, self.last
        self.last = scheduler.now, message
        scheduler.after(self.seconds, self._measure)
        if last is None or scheduler.now <= last[0]:
            return
        seconds = scheduler.now - last[0]
        busy = (message.process_s - last[1].process_s) / seconds
        idle = (message.idle_s - last[1].idle_s) / seconds
        report = counts.SchedulerLoad(busy, self._oldest_s(), self.placing_s, self._free_nodes(), idle)
        self.placing_s = 0.0
        scheduler.send(self.asker, report)

    def heard(self, report: scheduling.LoadReport) -> None:
        """Note how long a node's spilled tasks took to be placed."""
        self.placing_s = max(self.placing_s, report.placing_s)

    def _oldest_s(self) -> float:
        """Return the age of the oldest task whose arguments are being located."""
        for _, since, _, _ in self.scheduler.locating.values():
            return self.scheduler.now - since
        return 0.0

    def _free_nodes(self) -> int:
        loads = self.scheduler.loads.values()
        able = (load for load in loads if load.kind != "driver" and not load.is_draining)
        return sum(load.free.get("CPU", 0) >= RESOURCE_UNIT for load in able)
