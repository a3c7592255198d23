"""Scheduler count, on the head: starts and ends global schedulers, between two limits, by how busy they are.

Dialog (sender, message, reaction):

    services           ServiceAdded     a scheduler can be reached, and takes part: WatchLoad, to all
    services           ServiceEnded     it takes part no more: WatchLoad, to the others
    global scheduler   SchedulerLoad    once a second
    (timer)            tick             StartScheduler, EndScheduler, or nothing

Global schedulers keep nothing that a successor needs, so they come and go without a handover: nodes look for the tasks
of one that has ended, as after its death (local_scheduler/forwarding/flights.py).

    one more    in 10 s all together were busy above 0.7, requests have waited, and a machine has a core for it
    one fewer   in 60 s all together were busy below 0.2

One more of n equals takes 1/(n+1) of the work of each, so no load asks for one more and for one fewer in turns.  Busy
counts as the mean: where other roles of its process keep the first one busy, further ones soon change nothing.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from ..wire import counts
from .replica_effects import EndScheduler, ServiceAdded, ServiceEnded, StartScheduler
from .role import Role, on

# A report counts for so many periods.
FRESH = 3
# Their processes are those of one machine.
SCHEDULERS_MAX = 64


class Limits(Struct, frozen=True):
    """Times in seconds, shares of a core, and cores."""

    report_s: float = 1.0
    up_s: float = 10.0
    down_s: float = 60.0
    slow_s: float = 0.005  # a request that waits longer for its placement has waited
    busy_share: float = 0.7
    idle_share: float = 0.2
    start_s: float = 30.0  # a process that has not come up by then never does
    free_core: float = 0.9  # a machine's counters of time are not exact


LIMITS = Limits()


class Watched(Struct, eq=False):
    """A global scheduler that takes part."""

    host: str  # "": it is a role of the head's own process, and stays
    load: counts.SchedulerLoad | None = None
    at: float = 0.0


class Sample(Struct, gc=False, frozen=True):
    """What all schedulers reported together at one look."""

    at: float
    busy: float  # mean
    wait_s: float  # longest
    free_nodes: int
    idle_cores: float


class SchedulerCount(Role):
    """The number of global schedulers, from `least` to `most`.  own: those in the head's own process."""

    LASTING = {"watched": "most_ever", "samples": "samples_max"}

    def __init__(self, address: str, least: int, most: int, own: tuple[str, ...] = (), limits: Limits = LIMITS) -> None:
        super().__init__(address)
        self.least = least
        self.most = most
        self.limits = limits
        self.count = least  # are wanted
        self.watched = {role: Watched("") for role in own}
        self.ending = ""  # a host
        self.starting: float | None = None  # since when one starts
        self.samples: deque[Sample] = deque()  # since the number is what it is
        self.held = ""  # why there are not more
        self.last: tuple[float, str] | None = None  # change: when, and why

    @property
    def most_ever(self) -> int:
        """Return the limit of those that take part: one that dies while it is ended may be started again."""
        return self.most + 1

    @property
    def samples_max(self) -> int:
        """Return the limit of samples: one per look, and those at both ends."""
        return 3 + int(self.limits.down_s / self.limits.report_s)

    def start(self) -> None:
        """Begin."""
        self._tell()
        self.after(self.limits.report_s, self.tick)

    # --- who takes part ---

    @on(ServiceAdded)
    def on_service_added(self, message: ServiceAdded) -> None:
        """ServiceAdded: the scheduler listens."""
        self.starting = None
        for role in message.roles:
            self.watched[role] = Watched(message.host)
        self._tell()

    @on(ServiceEnded)
    def on_service_ended(self, message: ServiceEnded) -> None:
        """ServiceEnded."""
        if message.host == self.ending:
            self.ending = ""
        gone = [role for role, watched in self.watched.items() if watched.host == message.host]
        for role in gone:
            del self.watched[role]
        if gone:
            self._tell()

    def _tell(self) -> None:
        for role in self.watched:
            self.send(role, counts.WatchLoad(len(self.watched), self.limits.report_s))

    # --- the load ---

    @on(counts.SchedulerLoad)
    def on_scheduler_load(self, message: counts.SchedulerLoad) -> None:
        """SchedulerLoad."""
        watched = self.watched.get(self.sender)
        if watched is None:
            self.reject("a load of no global scheduler")
            return
        watched.load, watched.at = message, self.now

    def tick(self) -> None:
        """Look at the loads, and change the number by one at most."""
        self.after(self.limits.report_s, self.tick)
        known = [watched for watched in self.watched.values() if watched.load is not None]
        loads = [each.load for each in known if self.now - each.at <= FRESH * self.limits.report_s and each.load]
        if self.starting is not None and self.now - self.starting > self.limits.start_s:
            self._give_up()
        if len(self.watched) > self.count and not self.ending:
            self._end_one()  # its process was started again
        if not loads or not len(loads) == len(self.watched) == self.count:
            self.samples.clear()  # one starts, ends, or is silent: what the others do now says little
            return
        busy = sum(min(1.0, load.busy) for load in loads) / len(loads)
        wait_s = max(max(load.oldest_s, load.placing_s) for load in loads)
        free_nodes, idle_cores = max(load.free_nodes for load in loads), max(load.idle_cores for load in loads)
        self.samples.append(Sample(self.now, busy, wait_s, free_nodes, idle_cores))
        while self.now - self.samples[0].at > self.limits.down_s + self.limits.report_s:
            self.samples.popleft()
        self._decide(busy)

    def _decide(self, busy: float) -> None:
        lately, for_long = self._mean(self.limits.up_s), self._mean(self.limits.down_s)
        self.held = ""
        if lately is not None and lately > self.limits.busy_share and busy > self.limits.idle_share:
            self.held = self._why_not_more()
            if not self.held:
                self._one_more(lately)
        elif self.count > self.least and for_long is not None and max(for_long, lately or 0.0) < self.limits.idle_share:
            self._one_fewer(for_long)

    def _mean(self, seconds: float) -> float | None:
        """Return the mean busy share of so many seconds; None: the number is younger."""
        if self.now - self.samples[0].at < seconds - self.limits.report_s / 2:
            return None
        found = [sample.busy for sample in self._since(seconds)]
        return sum(found) / len(found)

    def _since(self, seconds: float) -> list[Sample]:
        """Return the samples of the last seconds."""
        return [sample for sample in self.samples if self.now - sample.at < seconds]

    def _wait_s(self) -> float:
        """Return the longest wait of a request lately."""
        return max(sample.wait_s for sample in self._since(self.limits.up_s))

    def _why_not_more(self) -> str:
        lately = self._since(self.limits.up_s)
        free_nodes = max(sample.free_nodes for sample in lately)  # at some moment: placements come in bursts
        if self.count >= self.most:
            return f"{self.most} is the most that was asked for"
        if self._wait_s() <= self.limits.slow_s:
            return "no request waits for its placement"
        if self.count >= free_nodes:
            return f"only {free_nodes} of the nodes have a free CPU"
        if sum(sample.idle_cores for sample in lately) / len(lately) < self.limits.free_core:
            return "no core of the head's machine is free"
        return ""

    # --- changes ---

    def _one_more(self, busy: float) -> None:
        wait_s = self._wait_s()
        self.count += 1
        self._changed(
            f"one more, since they were busy {busy:.2f} of {self.limits.up_s:g} s (above {self.limits.busy_share}), "
            f"and requests waited {wait_s * 1e3:.0f} ms for their placement"
        )
        self.starting = self.now
        self.perform(StartScheduler(self.count))

    def _give_up(self) -> None:
        """Go on without the one that has not come up."""
        self.starting = None
        self.count -= 1
        self._changed(f"the process of one more did not come up in {self.limits.start_s:g} s (the head's log has why)")
        self.perform(EndScheduler(""))

    def _one_fewer(self, busy: float) -> None:
        self.count -= 1
        self._changed(
            f"one fewer, since they were busy {busy:.2f} of {self.limits.down_s:g} s (below {self.limits.idle_share})"
        )
        self._end_one()

    def _end_one(self) -> None:
        """End the one that came last."""
        self.ending = [watched.host for watched in self.watched.values() if watched.host][-1]
        self.perform(EndScheduler(self.ending))

    def _changed(self, why: str) -> None:
        self.last = self.now, why
        self.held = ""
        self.samples.clear()

    # --- for people ---

    def in_words(self, now: float) -> str:
        """Return the number, the last change and why."""
        text = f"{len(self.watched)} global scheduler{'s' * (len(self.watched) != 1)}, {self.least} to {self.most}"
        if self.ending or len(self.watched) != self.count:
            text += f" ({self.count} wanted)"
        if self.last is not None:
            text += f"; {max(0.0, now - self.last[0]):.0f} s ago {self.last[1]}"
        return f"{text}; busy, but not more: {self.held}" if self.held else text
