"""A simulated world: the roles of production, in virtual time, determined by a seed.

One seed -> one generator -> every decision.  Verbs: run(until), and those of network and faults.  The same seed gives
the same run, message for message, whatever PYTHONHASHSEED is (`trace.digest()`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ..roles import effects as e
from ..roles.local_scheduler import LocalScheduler
from ..roles.local_scheduler.addresses import Addresses
from ..roles.object_manager import ObjectManager
from ..wire.scheduling import JobFacts
from ..wire.session import Goodbye
from ..wire.task_spec import RESOURCE_UNIT
from .checkers import Checkers
from .costs import Costs, Stopwatch
from .cuts import GUEST
from .faults import Faults
from .heads import Heads
from .network import Connection, End
from .node import Node
from .options import DELAYS, Options
from .output import Output
from .process import Driver, Process
from .schedulers import Schedulers
from .shards import Shards
from .trace import Trace
from .transitions import watch_tasks
from .weather import Weather
from .worker import TASK_SECONDS, Worker
from .workloads import PROGRAMS_THAT_NEED_ROOM

WORKER_START_SECONDS = (0.5e-3, 5e-3)
# How long the news of a process's end takes.
EXIT_SECONDS = (10e-6, 3e-3)


class Simulator:
    """A simulated world."""

    def __init__(self, options: Options, *, costs: Costs | None = None, stopwatch: Stopwatch | None = None) -> None:
        watch_tasks()
        self.options = options
        self.costs = costs
        self.stopwatch = stopwatch
        self.random = Random(f"zray {options.seed}")
        self.now = 0.0
        self.trace = Trace()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._event_count = 0
        self.nodes: dict[str, Node] = {}
        self.lost_nodes: dict[str, Node] = {}
        self.homes: dict[str, Node] = {}  # role -> its node
        self.between_nodes: dict[tuple[str, str], Connection] = {}  # by the two roles, sorted
        self.by_hosts: dict[tuple[str, str], dict[tuple[str, str], Connection]] = {}  # the same, of two hosts, sorted
        self.drivers: list[Driver] = []
        self.kill_before_birth: set[str] = set()  # workers; membership only
        self.pid = 0
        self.dropped = 0
        self.runs: dict[bytes, int] = {}  # task -> number of its starts
        self.recovering: set[bytes] = set()  # actors that recover, for their handles; membership only
        self.generators = 0  # that workers have submitted
        self.actor_logs: dict[tuple[bytes, str], list[tuple[str, int]]] = {}  # (actor, worker)
        self.faults = Faults(self)
        self.weather = Weather(self)
        self.heads = Heads(self)
        self.checkers = Checkers(self)
        self.shards = Shards(self)
        self.schedulers = Schedulers(self)
        self.output = Output(self)
        for number in range(1, options.nodes + 1):
            self.add_node(f"n{number}", {"room": self._rooms_of(f"n{number}")})
        if options.has_guest:
            self.add_node(GUEST, {})
        if options.late_node_seconds:
            self.call_at(options.late_node_seconds, self.add_node, "late", {"late": 1})
        self.shards.start()
        self.schedulers.start()

    def add_node(self, name: str, resources: dict[str, int]) -> None:
        """Add a node, which joins."""
        options, heads = self.options, self.heads
        is_head = name == heads.name
        cpus = options.head_cpus if heads.are_killed and is_head else options.cpus
        cpus = 0 if name == GUEST else cpus
        gpus = {"GPU": options.gpus} if options.gpus and cpus else {}
        node = self.nodes[name] = Node(self, name, pages_max=options.pages_max)
        shards = self.shards.addresses(name)
        addresses = Addresses(f"{name}/objects", heads.schedulers(), shards, heads.role("monitor"))
        node.scheduler = LocalScheduler(
            f"{name}/local",
            addresses,
            total=self.resources_of(name, {"CPU": cpus, **resources, **gpus}),
            is_embedded=options.nodes == 1 and not options.late_node_seconds,
            worker_prefix=f"{name}/worker-",
            inline_bytes_max=options.inline_bytes_max,
            policy=options.policy,
            labels={"parity": "odd" if len(self.nodes) % 2 else "even"},
        )
        node.manager = ObjectManager(
            f"{name}/objects",
            f"{name}/local",
            capacity=options.capacity,
            chunk_bytes=options.chunk_bytes,
            reserve_bytes=options.reserve_bytes,
            gives_max=options.gives_max,
            is_outside=name == GUEST,
            spill_above=options.spill_above,
        )
        node.scheduler.stages.is_on = True
        if options.spill_above is not None:
            node.scheduler.load.store_bytes = options.capacity
        node.add_role(node.scheduler)
        node.add_role(node.manager)
        self.shards.add_to(node, is_first=is_head)
        if is_head:
            heads.add_to(node, shards)
        self.schedulers.add_to(node, is_first=is_head)
        if not node.scheduler.is_embedded:
            # A newcomer was told of the global schedulers at the time of its question.
            takes_long = self.schedulers.are_apart and self.now > 0
            self.call_later(self.random.uniform(0.0, 1.0) if takes_long else 0.0, self._join, node)

    def resources_of(self, name: str, counts: dict[str, int]) -> dict[str, int]:
        """Return the amounts of a node's resources."""
        return {key: count * RESOURCE_UNIT for key, count in counts.items()}

    def _rooms_of(self, name: str) -> int:
        """Return the node's amount of "room": actors that request it run on other nodes than their driver's, one on
        each, or all on the remaining one.
        """
        if self.options.nodes == 1:
            return 10
        if name in ("n1", self.heads.home):
            return 0
        options = self.options
        is_short = options.nodes == 2 or not PROGRAMS_THAT_NEED_ROOM.isdisjoint(options.programs)
        return 10 if options.loses_nodes or options.node_drains or is_short else 1

    def _join(self, node: Node) -> None:
        node.scheduler.now = node.now
        kind = "head" if node.name == self.heads.name else "driver" if node.name == GUEST else "node"
        node.scheduler.members.start(kind)
        node._perform_all(node.scheduler, node.scheduler.take_effects())
        node.turn()

    def hosts_beside(self) -> list[str]:
        """Return the hosts that are no nodes."""
        return [*self.shards.hosts, *self.schedulers.hosts]

    def bandwidth_of(self, name: str) -> float:
        """Return the bytes/s of a node's line."""
        options = self.options
        last = GUEST if options.has_guest else f"n{options.nodes}"
        return options.bandwidth / (options.slow_line if name == last else 1.0)

    def bytes_on_line(self, frame: bytes, messages: Sequence[Any]) -> int:
        """Return the bytes of a frame with these messages, as its line has them."""
        return len(frame)

    # --- time ---

    def call_at(self, when: float, function: Callable[..., None], *args: Any) -> None:
        """Schedule a call; events of the same time happen in the order of their requests."""
        self._event_count += 1
        heapq.heappush(self._events, (when, self._event_count, function, args))

    def call_later(self, delay: float, function: Callable[..., None], *args: Any) -> None:
        """Schedule a call in `delay` seconds."""
        self.call_at(self.now + delay, function, *args)

    def run(self, until: float, *, unless: Callable[[], bool] | None = None) -> bool:
        """Let time pass, to `until` or until `unless()`.  Returns whether the latter came about."""
        events = self._events
        while events and events[0][0] <= until:
            if unless is not None and unless():
                return True
            self.now, _, function, args = heapq.heappop(events)
            function(*args)
        if unless is not None and unless():
            return True
        self.now = max(self.now, until)
        return False

    def draw_delay(self) -> float:
        """Draw the delay of a frame."""
        low, high, tail = DELAYS[self.options.delay]
        delay = self.random.uniform(low, high)
        return delay * 10 if tail and self.random.random() < tail else delay

    def delay_of(self, source: str) -> float:
        """Draw the delay of a frame from a role or a process."""
        return self.draw_delay()

    def draw_start_seconds(self, node: str) -> float:
        """Draw the time within which a worker of a node starts."""
        return self.random.uniform(*WORKER_START_SECONDS)

    def draw_task_seconds(self, *, is_call: bool) -> float:
        """Draw the cost of a task or a call beyond its own code."""
        return self.random.uniform(*TASK_SECONDS)

    def draw_turn_delay(self) -> float:
        """Draw the time within which arrivals belong to the same turn."""
        longest = self.options.turn_delay_max
        return self.random.uniform(0.0, longest) if longest else 0.0

    # --- connections ---

    def connection(self, node: Node, source: str, target: str) -> Connection:
        """Return the connection from a node to one of its processes, or from a role to another node's role."""
        own = node.connections.get(target)
        if own is not None:
            return own
        key = (source, target) if source < target else (target, source)
        connection = self.between_nodes.get(key)
        if connection is None:
            connection = self.between_nodes[key] = Connection(self, self._role_end(*key), self._role_end(*key[::-1]))
            if not (self.homes[source].is_alive and self.homes[target].is_alive):
                connection.close()
            first, second = self.homes[source].name, self.homes[target].name
            self.by_hosts.setdefault((min(first, second), max(first, second)), {})[key] = connection
            connection.is_up = not self.faults.is_cut(first, second) and self.schedulers.have_met(first, second)
            connection.ends[source].is_held = self.faults.lines.is_stopped(first, second)
            connection.ends[target].is_held = self.faults.lines.is_stopped(second, first)
        return connection

    def _role_end(self, own: str, other: str) -> End:
        home = self.homes[own]

        def receive(messages: Any) -> None:
            for message in messages:
                home.arrive(other, own, message)

        return End(own, receive)

    # --- processes ---

    def start_worker(self, node: Node, asker: str, effect: e.StartWorker) -> None:
        """StartWorker."""
        delay = self.draw_start_seconds(node.name)
        if self.faults.fails_to_start():
            outcome = e.WorkerStartFailed(effect.worker, "fork: resource temporarily unavailable")
            self.call_later(delay, node.arrive, "host", asker, outcome)
            return
        node.windows[effect.worker] = 0
        self.call_later(delay, self._worker_is_born, node, asker, effect)

    def _worker_is_born(self, node: Node, asker: str, effect: e.StartWorker) -> None:
        address = effect.worker
        self.pid += 1
        node.arrive("host", asker, e.WorkerStarted(address, self.pid))
        if not node.is_alive:
            return
        if address in self.kill_before_birth or self.faults.dies_at_birth():
            self.trace.event(self.now, address, "dies before its Hello")
            self.call_later(1e-4, node.arrive, "host", asker, e.WorkerExited(address, "killed by signal 9", 0))
            return
        process = Worker(self, node, address, self.pid, effect.packages)
        node.attach(process)
        joined = e.ProcessJoined(address, "worker", self.pid, b"", effect.worker_id)
        node.arrive("host", asker, joined)
        self.trace.event(self.now, address, "is born")

    def start_driver(self, node: Node, number: int, program: Any, args: tuple[Any, ...]) -> Driver:
        """Start a driver that runs `program(*args)`."""
        self.pid += 1
        address = f"{node.name}/driver-{number}"
        driver = Driver(self, node, address, self.pid, b"job%05d" % number, program, args)
        node.attach(driver)
        self.drivers.append(driver)
        options = self.options
        facts = JobFacts(
            infeasible=options.infeasible,
            log_to_driver=options.prints,
            cancels_unreferenced=options.cancels_unreferenced,
        )
        joined = e.ProcessJoined(address, "driver", self.pid, driver.job_id, 0, facts)
        node.arrive("host", node.scheduler.address, joined)
        self.call_later(self.draw_delay(), driver.start)
        return driver

    def end_process(self, process: Process, cause: str) -> None:
        """End a process now; its node is told soon.  Its last messages may or may not arrive."""
        if not process.is_alive:
            return
        process.die()
        self.trace.event(self.now, process.address, f"ends: {cause}")
        node, connection = process.node, process.connection
        if self.random.random() < 0.5:
            connection.generation += 1  # frames in flight are lost
        connection.is_up = False
        news: Any
        if process.kind == "worker":
            news = e.WorkerExited(process.address, cause, 0)
        else:
            news = e.ProcessLeft(process.address, cause)
        self.call_later(self.random.uniform(*EXIT_SECONDS), self._process_has_ended, node, process, news)

    def _process_has_ended(self, node: Node, process: Process, news: Any) -> None:
        if not node.is_alive:
            return
        node.processes.pop(process.address, None)
        node.is_dying.discard(process.address)
        node.arrive("host", node.scheduler.address, news)

    def orderly_exit(self, process: Process, cause: str) -> None:
        """End a process after its last message, so that all its messages arrive."""
        process.die()
        self.trace.event(self.now, process.address, f"ends: {cause}")
        end = process.connection.ends[process.address]
        when = max(end.arrives_at, self.now) + self.random.uniform(*EXIT_SECONDS)
        news = e.WorkerExited(process.address, cause, 0)
        self.call_at(when, self._process_has_ended, process.node, process, news)

    def end_driver(self, driver: Driver) -> None:
        """Goodbye."""
        if driver.is_alive:
            driver.client.say(Goodbye())
            driver.flush()
            driver.die()
