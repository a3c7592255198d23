"""The node process: its roles, and the code that performs their effects.

On a laptop, and on the head of a cluster, one process hosts all roles; the other nodes of a cluster have a local
scheduler and an object manager.  The node ends with its driver (embedded), upon StopSession, or when its fork server is
beyond repair; it removes all that it made.  Neither numpy nor pickle is imported: payloads are opaque.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import zmq

from ...exceptions.printable import printable
from ...roles import effects, work_effects
from ...roles.gcs import GcsShard
from ...roles.global_scheduler import GlobalScheduler
from ...roles.local_scheduler import LocalScheduler
from ...roles.local_scheduler.addresses import Addresses
from ...roles.monitor import Monitor
from ...roles.object_manager import ObjectManager
from ...store.segment import Segment, SegmentCutError, segment_name
from ...wire import gcs, hosts, scheduling
from ...wire.events import State
from ...wire.listing import HEAD_BYTES
from ...wire.message import Bulk
from ..client.event_log import VARIABLE as EVENTS_VARIABLE
from ..links.process_links import Peers
from ..process import visible_gpus
from ..process.process_utils import end_children
from ..reactor import Reactor
from ..session.session import DRIVER_DESCRIPTOR, SECRET_DESCRIPTOR, Session
from ..session.session_info import SessionInfo
from ..session.spill_directory import is_in_memory
from .event_rings import WaitRecords
from .health_check import HealthCheck, LookAgain
from .node_resources import with_names_of_node
from .session_server import Doorman, SessionEnd
from .spill_folder import SpillFolder
from .worker_processes import Workers

if TYPE_CHECKING:
    from ..cluster.head import Head
    from ..cluster.membership import Membership
    from ..output.forwarding import OutputThread
    from ..session.kept_logs import KeptLogs

# Time for the last messages to leave: they only have to reach a local socket.
LAST_WORDS_MS = 200
LOG_BYTES_MAX = 8 << 20
# Start of the log's last line; the reason follows.
ENDS = "the session ends: "


class Node:
    """A node process."""

    def __init__(
        self, session: Session, fork_server: tuple[int, socket.socket] | None, lock: int, options: dict[str, Any]
    ) -> None:
        self.session = session
        self.driver_pid: int = options["driver_pid"]
        self.is_embedded = self.driver_pid != 0
        self.log_bytes = 0
        self.lock = lock
        self.kept_logs: KeptLogs | None = options["kept_logs"]
        self.session_end = SessionEnd(self)
        self.node_id = os.urandom(8)
        self.host = self.node_id.hex()
        self.tell_ready: Callable[[], None] = lambda: None  # tells the starting process
        self.segments: dict[int, Segment] = {}
        self.slow: queue.SimpleQueue[Any] | None = None
        self.spill_above: float = options["spill_above"]
        self.spill_folder = self._spill_folder(options["spill_directory"])
        self.output: OutputThread | None = None  # once workers have printed for another node's driver
        self.workers = Workers(session, fork_server, self.tell_local, self.log, self._watch_workers, self._services)
        self.head: Head | None = None
        self.token = b""  # kept where a new node is to join in our place, should we be cut off
        self.may_rejoin = False  # we were
        self.chain_clients: list[Any] = []
        self.membership = self._join(options.get("cluster"), options["hash_seed"])
        self.workers.hash_seed = self.membership.hash_seed if self.membership is not None else options["hash_seed"]
        if self.head is not None and fork_server is None:
            self.workers.launch()
        self.context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self.peers = Peers(self.context, session.address, self.log)
        self.doorman = Doorman(self, self.driver_pid)
        self.health = HealthCheck(self)
        self.waits = WaitRecords(session.name)
        self.peers.on_stuck = self.doorman.stuck
        self.reactor = Reactor(
            self._roles(options["total"], options["capacity"], options["labels"]),
            self.peers,
            self._effects(),
            self.doorman.hello,
            self.doorman.drop,
            self.doorman.offend,
            self.membership.neighbours if self.membership is not None else None,
        )
        self.workers.environments.reactor = self.reactor
        if self.workers.connection is not None:
            self.reactor.watch(self.workers.connection.fileno(), self._hear_workers)
        # Inherited open: it shows the end of the starting process, even if that came first.
        if self.driver_pid or options.get("is_bound"):
            self.reactor.watch(DRIVER_DESCRIPTOR, self.doorman.starter_ended)
        self.local.now = time.monotonic()
        self.local.pool.prestart()
        if self.membership is not None:
            self._take_part(self.membership)
        else:
            self.local.changes.node_is(State.ALIVE)
        self.reactor._perform(self.local.address, self.local.take_effects())
        session.write_info(self._info())
        self._describe_logs(options["program"])
        self.health.begin()

    def _spill_folder(self, directory: str | None) -> SpillFolder | None:
        """Return the folder for objects that the store has no room for, or None: spilling is off."""
        if directory == "" or (directory is None and is_in_memory(self.session.folder)):
            return None

        def deliver(role: str, outcome: Any) -> None:
            self.reactor.deliver_from_thread(role, outcome)

        if directory is not None and "://" in directory:
            from .spill_url import SpillUrl

            return SpillUrl(directory, self.session.name, self.session.folder, self.segments, deliver)
        return SpillFolder(directory, self.session.name, self.session.folder, self.segments, deliver)

    def _join(self, cluster: dict[str, Any] | None, hash_seed: str) -> Membership | None:
        """Found or join a cluster, if wanted.  hash_seed: for a new cluster."""
        if cluster is None:
            return None
        from ..cluster import membership

        if cluster["kind"] == "head":
            from ..cluster.head import take_up

            def deliver(role: str, message: Any) -> None:
                self.reactor.deliver_from_thread(role, message)  # the reactor exists before any order

            asked = {**cluster, "hash_seed": hash_seed}
            found, self.head = take_up(self.session, self.host, asked, self.log, deliver)
            return found
        secret = membership.read_descriptor(SECRET_DESCRIPTOR)
        self.token = secret if cluster.get("rejoin") else b""
        joined = membership.join_cluster(self.host, self.session.folder, cluster, secret, self.log)
        return joined.host_replicas(self.session, is_willing=cluster.get("replicas", True))

    def _roles(self, total: dict[str, int], capacity: int, labels: dict[str, str]) -> list[Any]:
        member, host = self.membership, self.host
        is_outside = member is not None and member.kind == "driver"
        own = Addresses(f"{host}/objects", [f"{host}/global"], [f"{host}/gcs-0"], f"{host}/monitor")
        self.local = LocalScheduler(
            f"{host}/local",
            own if member is None else member.addresses,
            total=with_names_of_node(total, member),
            node_id=self.node_id,
            session=self.session.name,
            is_embedded=member is None,
            labels=labels,
            policy=scheduling.BOTTOM_UP if member is None else member.policy,
            gpu_names=visible_gpus.visible(),
        )
        self.local.load.store_bytes = 0 if is_outside else capacity
        self.local.stages.is_on = os.environ.get(EVENTS_VARIABLE, "") != "0"
        roles: list[Any] = [self.local]
        if member is None:
            roles += [
                GcsShard(own.shards[0], is_alone=True),
                GlobalScheduler(own.global_schedulers[0], own.shards),
                Monitor(own.monitor, [*own.global_schedulers, *own.shards]),
            ]
        manager = ObjectManager(
            own.object_manager,
            self.local.address,
            capacity=capacity,
            is_outside=is_outside,
            spill_above=self.spill_above if self.spill_folder is not None else None,
        )
        roles += [manager, self.doorman, self.health]
        if member is not None:
            from ..cluster.head import chain_clients

            self.chain_clients = chain_clients(member.addresses, member.chains, self.local.address)
            # Requests of this node to the shards reach the replica here within a round.
            roles += [*self.chain_clients, *(self.head.roles if self.head is not None else ())]
            roles += member.helpers
        return roles

    def _take_part(self, member: Membership) -> None:
        """Be reachable, reach the head, and have the others told of us."""
        links = member.neighbours
        member.attach(self.reactor)
        links.on_goodbye, links.on_link, links.on_new_head = self._host_left, self._link_changed, self._new_head
        links.on_expelled = self._expelled
        member.on_scheduler_gone = self.doorman.scheduler_gone
        if member.head_key is not None:
            member.neighbours.meet(member.head, member.head_key, member.cluster)
        if self.head is not None:
            from ..cluster.read_only import Readers

            links.on_read = Readers(links, self.doorman.ask_for_reader).hear
            self.head.start(self.reactor)
        for client in self.chain_clients:
            client.start()
            self.reactor._perform(client.address, client.take_effects())
        if member.entrance is not None:
            member.entrance.open(self.reactor, self._register, self.end)
        else:
            self._register()

    def _register(self) -> None:
        member = self.membership
        assert member is not None
        self.local.now = time.monotonic()  # the lease runs from now on
        key = member.neighbours.keys.public
        endpoint = member.advertised or member.endpoint
        self.local.members.start(member.kind, endpoint, key, member.head_wait, socket.gethostname())
        self.reactor._perform(self.local.address, self.local.take_effects())

    def _host_left(self, host: str, reason: str) -> None:
        assert self.membership is not None
        if self.membership.kind == "head":
            self.reactor.deliver(self.local.addresses.monitor, effects.HostLeft(f"{host}/local", reason))
        elif host == self.membership.head:
            self.farewell_and_end(f"the head of the cluster has ended ({reason})")

    def _link_changed(self, host: str, is_up: bool) -> None:
        assert self.membership is not None
        if self.membership.entrance is None:
            neighbour = self.membership.neighbours.by_host.get(host)
            # Not of the head's own processes, nor of replicas.
            if neighbour is None or neighbour.key.kind in ("node", "driver"):
                self.reactor.deliver(self.local.addresses.monitor, effects.HostLinkChanged(f"{host}/local", is_up))
        elif is_up:
            self.membership.entrance.link_is_up(self.membership.neighbours.by_host[host])

    def _new_head(self, former: str, welcome: hosts.HostWelcome) -> None:
        assert self.membership is not None
        changed = self.membership.follow(welcome)
        keepers = [self.membership.hosted.keeper] if self.membership.hosted is not None else []
        for role in (self.local, *self.chain_clients, self.doorman, *keepers):
            self.reactor.deliver(role.address, changed)
        self.reactor.handle_delivered(time.monotonic())  # messages of the new head may have arrived with its welcome

    def _expelled(self, host: str, reason: str) -> None:
        """Handle an expulsion: by the head, a declared death; other hosts were only told before this one."""
        assert self.membership is not None
        if host == self.membership.head:
            self.tell_local(gcs.NodeLost(self.local.address, reason))

    def farewell_and_end(self, reason: str) -> None:
        """End the session in trouble, and tell the remaining drivers why."""
        self.doorman.farewell(reason)
        self.end(reason)

    def _end_session(self, role: str, effect: effects.EndSession) -> None:
        self.may_rejoin = effect.may_rejoin
        self.farewell_and_end(effect.reason)

    def _info(self) -> SessionInfo:
        info = SessionInfo(
            self.session.name, os.getpid(), self.workers.pid, self.is_embedded, self.driver_pid, node_id=self.host
        )
        if self.membership is not None:
            self.membership.describe(info)
        return info

    def _describe_logs(self, program: str) -> None:
        """Note in the index of kept logs where this node runs, and for which program."""
        if self.kept_logs is not None:
            info = self._info()
            facts = {"cluster": info.cluster, "kind": info.kind, "called": info.called, "endpoint": info.endpoint}
            self.kept_logs.note(
                started=time.time(),
                host=socket.gethostname(),
                node_id=self.host,
                node_pid=info.node_pid,
                driver_pid=info.driver_pid,
                program=program,
                **facts,
            )

    def log(self, line: str) -> None:
        """Write a line to node.log, up to a size."""
        if self.log_bytes < LOG_BYTES_MAX:
            self.log_bytes += len(line) + 32
            with suppress(OSError):  # a full disk is no reason to end
                print(f"{time.strftime('%H:%M:%S')} {printable(line)}", file=sys.stderr, flush=True)

    def end(self, reason: str) -> None:
        """End the session after this turn, or after actors have stopped."""
        self.session_end.begin(reason)

    def tell_local(self, message: Any) -> None:
        """A message of the host's own to the local scheduler."""
        self.reactor.deliver(self.local.address, message)

    def _hear_workers(self) -> None:
        before = self.workers.connection
        assert before is not None
        descriptor = before.fileno()
        if not self.workers.receive():
            self.doorman.farewell(f"the node ends: {self.workers.death}")
            self.reactor.ended = self.reactor.ended or "its fork server died too often"
        elif (now := self.workers.connection) is not None and now is not before:
            self.reactor.watched.pop(descriptor, None)
            self.reactor.watch(now.fileno(), self._hear_workers)
            self._watch_workers()

    def _watch_workers(self) -> None:
        """Watch for space in the fork server's connection while orders are pending."""
        if self.workers.connection is not None:
            self.reactor.watch_writing(self.workers.connection.fileno(), self.workers.is_full)

    def _services(self) -> list[int]:
        """Return the pids of replicas' and global schedulers' processes of this node."""
        hosted = self.membership.hosted if self.membership is not None else None
        running = [*(self.head.processes.running.values() if self.head is not None else ())]
        return [one.pid for one in (*running, *(hosted.running.values() if hosted is not None else ()))]

    def begin_to_work(self) -> None:
        """We are a member now."""
        self.reactor.watch(self.workers.launch().fileno(), self._hear_workers)
        self._watch_workers()
        self.session.write_info(self._info())

    # --- effects ---

    def _effects(self) -> dict[type, Any]:
        return {
            effects.StartWorker: lambda role, effect: self.workers.start(
                effect.worker, effect.worker_id, effect.packages
            ),
            effects.KillWorker: lambda role, effect: self.workers.kill(effect.worker),
            work_effects.InterruptWorker: lambda role, effect: self.workers.interrupt(effect.worker),
            effects.OpenWindow: lambda role, effect: self.workers.open_window(effect.worker, effect.count),
            effects.ReclaimTasks: self._reclaim,
            work_effects.StopWorkers: lambda role, effect: self.workers.stop(are_stopped=effect.are_stopped),
            work_effects.HearAgain: lambda role, effect: self.reactor.hear_again(role, effect.kept),
            work_effects.ActorsHaveStopped: lambda role, effect: self.session_end.complete(),
            effects.ForgetProcess: lambda role, effect: self.reactor.leaving.append(
                effect.process
            ),  # behind last messages
            effects.CreateSegment: self._create_segment,
            effects.ReservePages: self._slowly,
            effects.ReadRange: self._read_range,
            effects.WriteRange: self._slowly,
            **dict.fromkeys(effects.SPILL_EFFECTS, self.spill_folder.order if self.spill_folder is not None else None),
            effects.EndSession: self._end_session,
            work_effects.WatchMemory: lambda role, effect: self.health.memory.watch(effect),
            work_effects.ReadEvents: self._read_events,
            work_effects.ReadHeads: self._read_heads,
            work_effects.RecordWait: self.waits.wait,
            work_effects.RecordFetch: self.waits.fetch,
            work_effects.RecordChange: self.waits.change,
            work_effects.WriteLine: lambda role, effect: self.log(effect.text),
            **dict.fromkeys(effects.OUTPUT_EFFECTS, self._output),
            effects.MeetHost: self._meet_host,
            effects.ForgetHost: self._forget_host,
            effects.ProbeHost: self._probe_host,
            **(self.head.effects() if self.head is not None else {}),
            **(self.membership.effects(self.peers) if self.membership is not None else {}),
        }

    def _output(self, role: str, effect: Any) -> None:
        if self.output is None:
            from ..output.forwarding import OutputThread

            where = (self.membership.advertised or self.membership.endpoint) if self.membership is not None else ""
            self.output = OutputThread(self.session, where, lambda news: self.reactor.deliver_from_thread(role, news))
        self.output.orders.put(effect)

    def counts(self) -> dict[str, int]:
        """Return the counters of all roles."""
        counts = {"bad_frames": self.peers.bad_frames}
        for role in self.reactor.roles:
            if hasattr(role, "statistics"):
                counts |= {name: value for name, value in role.statistics().items() if type(value) is int}
        return counts

    def _read_events(self, role: str, effect: work_effects.ReadEvents) -> None:
        if effect.are_metrics:
            memory = self.health.memory.usage()
            rings, left_out = self.workers.metric_pages.read(effect.bytes_max, self.host, self.counts(), memory)
        else:
            rings, left_out = self.workers.event_rings.read(effect.bytes_max)
        self.reactor.deliver(role, work_effects.EventsRead(effect.request, rings, left_out))

    def _read_heads(self, role: str, effect: work_effects.ReadHeads) -> None:
        for fact, place in effect.values:
            with suppress(SegmentCutError):
                fact.begins_with(bytes(self.segments[0].bytes_of(place.offset, min(place.size, HEAD_BYTES))))

    def _meet_host(self, role: str, effect: effects.MeetHost) -> None:
        assert self.membership is not None
        if self.kept_logs is not None:
            self.kept_logs.note(node=effect.node.partition("/")[0], kind=effect.kind, endpoint=effect.endpoint)
        self.membership.meet(effect)
        if effect.is_earlier and self.membership.entrance is not None:
            self.membership.entrance.admitted(self.local.members.lease, self.tell_ready)

    def _forget_host(self, role: str, effect: effects.ForgetHost) -> None:
        if self.membership is not None:
            self.membership.lose(effect.node.partition("/")[0], effect.reason)

    def _probe_host(self, role: str, effect: effects.ProbeHost) -> None:
        assert self.membership is not None
        self.membership.look(
            effect, lambda finding: self.reactor.deliver(role, effects.HostProbed(effect.role, finding))
        )

    def _reclaim(self, role: str, effect: effects.ReclaimTasks) -> None:
        taken = self.workers.reclaim(effect.worker, effect.count)
        self.reactor.deliver(role, effects.TasksReclaimed(effect.worker, taken, effect.sought))

    def _create_segment(self, role: str, effect: effects.CreateSegment) -> None:
        try:
            name = segment_name(self.session.name, effect.segment)
            self.segments[effect.segment] = Segment.create(name, effect.size)
            self.reactor.deliver(role, effects.SegmentCreated(effect.segment))
        except OSError as error:
            self.reactor.deliver(role, effects.SegmentCreateFailed(effect.segment, str(error)))

    def _read_range(self, role: str, effect: effects.ReadRange) -> None:
        try:
            view = self.segments[effect.segment].bytes_of(effect.offset, effect.size)
        except SegmentCutError as error:
            self.health.give_up(error.strerror)
        else:
            self.reactor.deliver(role, effects.RangeRead(effect.token, Bulk(view)))

    def _slowly(self, role: str, effect: Any) -> None:
        """Perform an effect that would stall the reactor in a thread; the outcome comes back as a message."""
        if self.slow is None:
            self.slow = queue.SimpleQueue()
            threading.Thread(target=self._slow_thread, name="zray-slow", daemon=True).start()
        self.slow.put((role, effect))

    def _slow_thread(self) -> None:
        assert self.slow is not None
        while True:
            role, effect = self.slow.get()
            try:
                outcome, is_awaited = self._perform_slowly(self.segments[effect.segment], effect)
            except SegmentCutError:
                role, outcome, is_awaited = self.health.address, LookAgain(), True  # ends the session
            self.reactor.deliver_from_thread(role, outcome, is_awaited=is_awaited)

    def _perform_slowly(self, segment: Segment, effect: Any) -> tuple[Any, bool]:
        """Its outcome, and whether somebody waits for that."""
        if type(effect) is effects.WriteRange:
            segment.write(effect.offset, effect.data.data)
            return effects.RangeWritten(effect.token), effect.is_awaited
        try:
            segment.reserve(effect.offset, effect.length)
        except SegmentCutError:
            raise
        except OSError as error:
            return effects.PagesRefused(effect.token, str(error)), True
        return effects.PagesAreThere(effect.token), True

    # --- the whole ---

    def run(self) -> None:
        """Run until the session ends, then remove everything."""
        try:
            self.reactor.run()
            self.reactor.turn(())
            self.log(f"{ENDS}{self.reactor.ended}")
        except Exception as error:
            self.log(traceback.format_exc())
            self.doorman.farewell(f"the node process failed ({type(error).__name__}: {error})")
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Close processes, sockets, segments, folder."""
        links = self.reactor.neighbours
        if self.head is not None and links is not None and not self.reactor.ended:
            links.has_said_goodbye = True  # it failed: nodes wait until it is started again
        elif links is not None:
            links.say_goodbye(self.reactor.ended or "it failed")
        # The fork server first, busy or still importing; its workers and their children become ours.
        end_children()
        self.workers.close()
        if self.output is not None:
            self.output.close()
        if self.membership is not None:
            self.membership.close()
        self.reactor.close()
        if self.head is not None:
            self.head.close(in_order=bool(self.reactor.ended))
        self.context.destroy(linger=LAST_WORDS_MS)
        if self.spill_folder is not None:
            self.spill_folder.remove()
        if self.kept_logs is not None:
            has_failed = not self.reactor.ended or not self.is_embedded or self.workers.deaths > 0
            self.kept_logs.end(self.reactor.ended or "the node has failed", is_worth_keeping=has_failed)
        self.session.remove()
        self.health.say_at_last()
