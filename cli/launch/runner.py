"""The order of the work over all hosts: `zray up` and `zray down`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from zray.version import __version__

from ..drain import POLL_SECONDS, Pace
from . import files, plan, records, ssh
from .connection import Connection
from .hosts_file import Cluster, Host
from .plan import Found, Session
from .troubles import Trouble

# A node that leaves finishes its tasks for so long at most.
DRAIN_SECONDS = 60.0
# A node that leaves sooner needs no line.
QUIET_SECONDS = 1.0
# Says that a host has come to an end: (host, is it well, words).
Say = Callable[[Host, bool, str], None]


@dataclass
class Head:
    """The head that runs."""

    connection: Connection
    address: str
    session: str
    is_new: bool  # without memory of nodes that joined an earlier one
    token: str = ""


class Work:
    """Connections to all hosts of a file, and to those of its record that the file does not name any more."""

    def __init__(self, cluster: Cluster, record: records.Record, say: Say, timeout: float) -> None:
        self.cluster, self.record, self.say, self.timeout = cluster, record, say, timeout
        self.folder = ssh.control_folder()
        self.logins = asyncio.Semaphore(ssh.LOGINS_MAX)
        self.progress: Callable[[Host, str], None] = lambda host, words: None  # prints what takes long
        self.states: dict[str, str] = {}  # of hosts that are at work
        self.interrupted: dict[str, str] = {}  # of those, at Ctrl-C
        self.connections: list[Connection] = []
        self.removed = plan.removed_hosts(cluster, record.hosts)
        self.head: asyncio.Future[Head] = asyncio.get_running_loop().create_future()

    async def connect(self, host: Host) -> tuple[Connection, Found]:
        """Log in to a host, and look at it.

        Raises:
            Trouble: it cannot be done.
        """
        connection = await self.open(host)
        self.states[host.label] = "looking"
        return connection, Found.from_reply(await self.ask(connection, "look", "it was looked at", **self.look_facts()))

    async def open(self, host: Host) -> Connection:
        """Log in to a host.

        Raises:
            Trouble: it cannot be done.
        """
        self.states[host.label] = "logging in"
        connection = Connection(self.cluster, host, self.folder, records.Log(self.record.log_path(host)))
        self.connections.append(connection)
        connection.steps = lambda step: self.step(host, step)
        await connection.open(self.logins)
        return connection

    def step(self, host: Host, line: str) -> None:
        """Hear of a line that runs on a host."""

    def look_facts(self) -> dict[str, Any]:
        """The facts that a look compares."""
        return {"zray": __version__}

    async def ask(self, connection: Connection, do: str, doing: str, **facts: Any) -> Any:
        """Ask an agent, one question at a time."""
        names = {"cluster_name": self.cluster.name, "label": connection.host.label}
        async with connection.lock:
            return await connection.ask(do, doing, **names, **facts)

    async def each(self, hosts: Iterable[Host], work: Callable[[Host], Any]) -> bool:
        """Do the work on all hosts at once, and return whether all went well; a trouble is one line."""

        async def one(host: Host) -> bool:
            try:
                words = await work(host)
            except Trouble as trouble:
                self.say(host, False, str(trouble))
                if host.is_head and not self.head.done():
                    self.head.set_exception(Trouble("it did not join", "the head is not up"))
                    self.head.exception()  # there may be no node that asks
                return False
            except asyncio.CancelledError:
                self.interrupted[host.label] = self.states.get(host.label, "waiting")
                raise
            finally:
                self.states.pop(host.label, None)
            if words:
                self.say(host, True, words)
            return True

        tasks = [asyncio.ensure_future(one(host)) for host in hosts]
        try:
            return all(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self, connection: Connection, sessions: Iterable[Session], *, force: bool = False) -> None:
        """End sessions of a host."""
        names = [session.name for session in sessions]
        if names:
            self.states[connection.host.label] = "stopping"
            await self.ask(connection, "stop", "its session ended", sessions=names, force=force)

    async def drain(self, connection: Connection, session: Session, head: Head) -> None:
        """Have a node leave, and end its session."""
        host = connection.host
        if session.node_id and session.kind == "node":
            self.states[host.label] = "draining"
            try:
                reason = await self.wait_until_left(host, session, head)
                connection.log.line(f"node {session.node_id} has left{f': {reason}' if reason else ''}")
            except Trouble as trouble:  # the head is gone: there is nothing to hand over
                connection.log.line(f"node {session.node_id} cannot leave in order: {trouble}")
        await self.stop(connection, [session])

    async def wait_until_left(self, host: Host, session: Session, head: Head) -> str:
        """Wait until a node has left; return why it was removed, or "" if it has finished.

        Raises:
            Trouble: the head does not know.
        """
        facts = {"node": session.node_id, "session": head.session, "timeout": self.timeout}
        pace, clock = Pace(), asyncio.get_running_loop()
        begin = clock.time()
        while True:
            found = await self.ask(head.connection, "drain", f"{host.label} left", **facts)
            if found["is_gone"]:
                return str(found["reason"])
            now = clock.time()
            if now - begin > QUIET_SECONDS and pace.is_due(found["waits_for"], now):
                self.progress(host, f"waits for {', '.join(found['waits_for']) or 'the others'}")
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """End all agents; ssh's connections stay for a while."""
        await asyncio.gather(*(connection.close() for connection in self.connections), return_exceptions=True)
        for connection in self.connections:
            connection.log.close()


class Up(Work):
    """`zray up`: whatever differs from the file is changed, whatever has died is started."""

    def __init__(self, cluster: Cluster, record: records.Record, say: Say, timeout: float = DRAIN_SECONDS) -> None:
        super().__init__(cluster, record, say, timeout)
        self.files = {file.place: file for file in files.of_cluster(cluster)}
        self.up: dict[str, str] = {}  # session by label
        self.head_python: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # "": not known
        self.token_lock = asyncio.Lock()

    async def run(self) -> bool:
        """Bring all hosts up; return whether all are."""
        is_well = await self.each(self.cluster.hosts, self.bring)
        if self.removed and self.head.exception() is None:
            is_well &= await self.each(self.removed, self.take_away)
        return is_well

    def step(self, host: Host, line: str) -> None:
        if line.startswith("setup "):  # it may take minutes
            self.progress(host, line)

    def look_facts(self) -> dict[str, Any]:
        return {**super().look_facts(), "files": [file.facts() for file in self.files.values()]}

    async def bring(self, host: Host) -> str:
        """Bring a host up, and return how in words."""
        python = ""
        try:
            connection, found = await self.connect(host)
            self.record.add(host)  # before anything is started there
            python = found.python
        finally:
            if host.is_head:
                self.head_python.set_result(python)
        plan.check_versions(host, found, __version__, await asyncio.shield(self.head_python))
        done = await self.prepare(connection, found)
        words = await (self.bring_head if host.is_head else self.bring_node)(connection, found)
        return ", ".join([words, *done])

    async def prepare(self, connection: Connection, found: Found) -> list[str]:
        """Send files and run the set-up; return what was done."""
        host, done = connection.host, []
        for place in found.differing:
            self.states[host.label] = f"receiving {place}"
            file = self.files[place]
            facts = {"path": place, "size": file.size, "mode": file.mode}
            await self.ask(connection, "file", f"{place} was sent", data=file.data(), **facts)
        if found.differing:
            done.append(f"{len(found.differing)} file{'s' * (len(found.differing) != 1)} sent")
        if plan.needs_setup(host, found):
            self.states[host.label] = "setting up"
            facts = {"commands": host.setup, "digest": plan.digest(host.setup)}
            await self.ask(connection, "setup", "its set-up ran", **facts)
            done.append("set up")
        return done

    async def bring_head(self, connection: Connection, found: Found) -> str:
        """Start the head, unless it runs."""
        host = connection.host
        start = plan.head_start(host, found)
        if start.session is not None:
            head = Head(connection, start.session.cluster, start.session.name, is_new=False)
        else:
            answer = await self.start(connection, plan.start_arguments(host))
            is_new = "state_dir" not in host.options
            head = Head(connection, answer["cluster"], answer["session"], is_new, answer["token"])
        self.record.address = head.address
        self.record.write()
        self.up[host.label] = head.session
        self.head.set_result(head)
        how = "runs" if start.session is not None else "started"
        return f"{how}: head at {head.address}, session {head.session}"

    async def bring_node(self, connection: Connection, found: Found) -> str:
        """Start a node, unless it runs with the options of the file."""
        host = connection.host
        self.states[host.label] = "waiting for the head"
        head = await asyncio.shield(self.head)
        start = plan.node_start(host, found, head.address, is_new_head=head.is_new)
        await self.stop(connection, start.stale, force=True)
        if start.action == "keep" and start.session is not None:
            self.up[host.label] = start.session.name
            again = ", which joins again by itself" if start.session.kind == "returning" else ""
            return f"runs: session {start.session.name}{again}"
        if start.session is not None:
            await self.drain(connection, start.session, head)
        token = await self.token(head)
        answer = await self.start(connection, plan.start_arguments(host, head.address), token=token)
        self.up[host.label] = answer["session"]
        return f"{'started' if start.session is None else 'started with other options'}: session {answer['session']}"

    async def start(self, connection: Connection, arguments: list[str], token: str = "") -> Any:
        """Start a session."""
        host = connection.host
        self.states[host.label] = "starting"
        others = [node.name for node in self.cluster.nodes]
        facts = {"arguments": arguments, "digest": plan.options_digest(host), "others": others, "token": token}
        return await self.ask(connection, "start", "its session started", **facts)

    async def token(self, head: Head) -> str:
        """A token for nodes: the head has just printed one, or makes one for an hour."""
        async with self.token_lock:
            if not head.token:
                facts = {"uses": 2 * len(self.cluster.nodes), "session": head.session}
                head.token = (await self.ask(head.connection, "token", "a token was made", **facts))["token"]
        return head.token

    async def take_away(self, host: Host) -> str:
        """End the session of a host that the file does not name any more."""
        head = self.head.result()
        try:
            connection, found = await self.connect(host)
        except Trouble as trouble:
            remedy = f"{trouble.remedy}; the file does not name it any more: `--forget {host.label}` gives it up"
            raise Trouble(trouble.what, remedy) from None
        for session in plan.sessions_to_end(found, head.address):
            await self.drain(connection, session, head)
        await self.ask(connection, "forget", "its record was removed")
        self.record.drop(host)
        return "left: the file does not name it any more"


class Down(Work):
    """`zray down`: nodes finish and leave, the head ends last."""

    def __init__(
        self, cluster: Cluster, record: records.Record, say: Say, timeout: float = DRAIN_SECONDS, *, now: bool = False
    ) -> None:
        super().__init__(cluster, record, say, timeout)
        self.now = now

    async def run(self) -> bool:
        """End the cluster on all hosts; return whether nothing is left on any."""
        nodes = [*self.cluster.nodes, *self.removed]
        others = asyncio.ensure_future(self.each(nodes, self.take_down))
        self.ends = asyncio.get_running_loop().create_future()
        others.add_done_callback(lambda _: self.ends.set_result(None))
        try:
            is_well = await self.each([self.cluster.head], self.take_head_down) & await others
        finally:
            others.cancel()
        if not self.record.hosts:
            self.record.remove()
        return is_well

    async def take_down(self, host: Host) -> str:
        """End the sessions of a node."""
        connection, found = await self.connect(host)
        head = None
        try:
            head = None if self.now else await asyncio.shield(self.head)
        except Trouble:
            pass  # without a head, nothing can be handed over
        sessions = plan.sessions_to_end(found, head.address if head is not None else self.record.address)
        for session in sessions:
            if head is not None:
                await self.drain(connection, session, head)
            else:
                await self.stop(connection, [session], force=self.now)
        return await self.forget(connection, sessions)

    async def take_head_down(self, host: Host) -> str:
        """End the head, after all other nodes."""
        connection, found = await self.connect(host)
        sessions = plan.sessions_to_end(found, self.record.address)
        heads = [session for session in sessions if session.kind == "head"]
        if heads:
            self.head.set_result(Head(connection, heads[0].cluster, heads[0].name, is_new=False))
        else:
            self.head.set_exception(Trouble("it is not up", "nothing to do"))
            self.head.exception()
        await self.ends
        await self.stop(connection, sessions, force=self.now)
        return await self.forget(connection, sessions)

    async def forget(self, connection: Connection, sessions: list[Session]) -> str:
        """Remove the record of a host."""
        await self.ask(connection, "forget", "its record was removed")
        self.record.drop(connection.host)
        names = ", ".join(session.name for session in sessions)
        return f"ended: session {names}" if sessions else "nothing ran"

    async def close(self) -> None:
        await super().close()
        await asyncio.gather(*(connection.hang_up() for connection in self.connections), return_exceptions=True)
