"""A replicated shard on a desk: master, members, clients; a queue per pair, and one seed for all that happens."""

from collections import deque
from random import Random

from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.gcs.chain import ChainMember
from zray.roles.gcs.client import ChainClient
from zray.roles.gcs.flushing import unpack_page
from zray.roles.gcs.master import ChainMaster
from zray.roles.gcs.replica import Replica
from zray.roles.replica_effects import ShardStalled
from zray.roles.role import Role, on
from zray.wire.chain import ChainMemberLost
from zray.wire.codec import Envelope, decode, encode
from zray.wire.gcs import (
    AddLocations,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    ObjectLocated,
    RecordTasks,
    RecordTasksReply,
    SubscribeObject,
)
from zray.wire.scheduling import LocateObjects, LocateObjectsReply
from zray.wire.task_spec import TaskSpec


class Asker(Role):
    """A local scheduler, as far as the shard sees one: it records tasks, and counts what it is answered."""

    def __init__(self, host):
        super().__init__(f"{host}/local")
        self.shard = f"{host}/shard-0"
        self.host = host
        self.request = 0
        self.answers = []  # requests, in the order of their answers
        self.located = []
        self.done = set()  # tasks whose record was acknowledged
        self.task_of_request = {}
        self.stalls = []  # what it was told of disks that take nothing, each time

    def ask(self):
        """One more task, with its location and a subscription to it."""
        self.request += 1
        task_id = f"{self.host}:{self.request}".encode().ljust(16, b".")
        self.task_of_request[self.request] = task_id
        self.send(self.shard, RecordTasks(self.address, [TaskSpec(task_id, b"f" * 16)], self.request))
        self.send(self.shard, SubscribeObject(self.address, return_id(task_id, 1)))
        self.send(self.shard, HoldAtNode(self.address, [return_id(task_id, 2)], self.request))
        self.send(self.shard, AddLocations(self.address, [(return_id(task_id, 1), 9)]))
        return self.take_effects()

    def look(self):
        """Where is what we know to be recorded?"""
        if not self.done:
            return []
        self.send(self.shard, LocateObjects(1, [return_id(task_id, 1) for task_id in sorted(self.done)]))
        return self.take_effects()

    @on(RecordTasksReply)
    def on_recorded(self, message):
        self.answers.append(("recorded", message.request))

    @on(HoldAtNodeReply)
    def on_held(self, message):
        self.answers.append(("held", message.request))

    @on(ObjectLocated)
    def on_located(self, message):
        """The last thing that is said of a task: all before it is done."""
        self.answers.append(("located", len(self.located) + 1))
        self.located.append(message.object_id)
        assert message.holders == [self.address]
        self.done.add(message.object_id[:16])

    @on(LocateObjectsReply)
    def on_found(self, message):
        assert len(message.objects) <= len(self.done)
        self.answers.append(("found", len(message.objects)))

    @on(FreeCopies)
    def on_freed(self, message):
        self.reject("freed what is held")


class Disk:
    """What outlives a member, and the orders that it has not carried out yet."""

    def __init__(self):
        self.snapshot, self.records = [], []
        self.orders = deque()
        self.pages = {}
        self.page = 0
        self.is_full = False
        self.is_broken = False

    def work(self):
        order = self.orders.popleft()
        if type(order) is e.ReadPage:
            if order.page in self.pages:
                return e.PageRead(order.page, self.pages[order.page])
            return e.PageLost(order.page, "page-7: it is not there")
        if self.is_broken:
            return e.LogBroken("input/output error")
        if self.is_full and type(order) is e.WritePage:
            return e.PageRefused(order.token, "no space left on device")
        if type(order) is e.WritePage:
            self.page += 1
            self.pages[self.page] = order.data
            return e.PageWritten(order.token, self.page)
        if self.is_full:
            return e.LogRefused(order.token, "no space left on device")
        if type(order) is e.SaveSnapshot:
            self.save(order)
        else:
            self.records += order.records
        return e.LogAppended(order.token)

    def save(self, order):
        if order.number == 1:
            self.coming, self.coming_at = [], len(self.records)
        self.coming.append(order.part)
        if order.is_last:
            self.snapshot, self.records = self.coming, self.records[self.coming_at :]
            assert set(order.pages) <= set(self.pages)
            keep = [page for page in self.pages if page in order.pages or page > order.newest_page]
            self.pages = {page: self.pages[page] for page in keep}


class ChainDesk:
    """One shard.  Every message is encoded, and arrives when the seed says so, in order within its pair.

    is_durable: each member has a disk, whose work is done when the seed says so.
    """

    def __init__(self, *, replicas, offers, hosts=2, seed=1, is_durable=False, lineage_bytes=0):
        self.is_durable = is_durable
        self.lineage_bytes = lineage_bytes
        self.disks = {}
        self.random = Random(seed)
        self.now = 0.0
        self.master = ChainMaster("master", replicas=replicas)
        self.roles = {"master": self.master}
        self.queues = {}
        self.told = {}  # (source, target) -> messages delivered, by type
        self.stopped = set()
        self.member_count = 0
        self.askers = [Asker(f"n{number}") for number in range(1, hosts + 1)]
        self.clients = []
        for asker in self.askers:
            self.roles[asker.address] = asker
            client = self.roles[asker.shard] = ChainClient(asker.shard, "gcs-0", "master", asker.address)
            self.clients.append(client)
            client.start()
            self._perform(client, client.take_effects())
        for _ in range(offers):
            self.offer()

    # --- members ---

    def offer(self, after=None):
        """One more member; after: on what that disk holds.  Returns it."""
        self.member_count += 1
        name = f"s{self.member_count}/gcs-0"
        options = {"is_durable": self.is_durable, "lineage_bytes": self.lineage_bytes}
        member = ChainMember(name, "gcs-0", "master", **options)
        disk = self.disks[member.address] = Disk()
        if after is not None:
            disk.snapshot, disk.records = after.snapshot, list(after.records)
            disk.pages, disk.page = dict(after.pages), after.page
            member.recover(disk.snapshot, disk.records)
        self.roles[member.address] = member
        member.start()
        self._perform(member, member.take_effects())
        return member

    @property
    def chain(self):
        """As the master sees it."""
        return self.master._chain("gcs-0")

    def members(self):
        """Head to tail."""
        return [self.roles[name] for name in self.chain.members]

    def kill(self, address, *, is_false=False):
        """kill -9, and the verdict; is_false: only the verdict."""
        if not is_false:
            del self.roles[address]
            for pair in [pair for pair in self.queues if address in pair]:
                # Of what it said last, the first part may have arrived.
                queue = self.queues[pair]
                if pair[1] == address:
                    queue.clear()
                else:
                    for _ in range(self.random.randint(0, len(queue))):
                        queue.pop()
        self.queues.setdefault(("host", "master"), deque()).append(ChainMemberLost(address, "killed by signal 9"))

    def killable(self):
        """Whoever may die without the loss of what only it has."""
        full = self.chain.full()
        names = [*self.chain.members, *self.chain.spares, self.chain.joining]
        names = [name for name in names if name in self.roles]
        # A verdict under way counts as given.
        alive = [name for name in full if name in self.roles and name not in self.accused()]
        return [name for name in names if alive != [name] and name not in self.accused()]

    def start_anew(self, disk):
        """Master and all members have died at once; what they last said is lost.  One starts again on its disk."""
        for name in [name for name in self.roles if name.startswith("s") or name == "master"]:
            del self.roles[name]
        for pair in self.queues:
            if pair[0] not in self.roles or pair[1] not in self.roles:
                self.queues[pair].clear()
        self.master = self.roles["master"] = ChainMaster("master", replicas=self.master.replicas)
        member = self.offer(disk)
        for client in self.clients:  # its host has a new connection to the master's
            client.start()
            self._perform(client, client.take_effects())
        return member

    def accused(self):
        """Whoever the master is about to expel."""
        return {message.member for message in self.queues.get(("host", "master"), ())}

    def whole(self, member):
        """Its state, as if nothing had ever left its memory."""
        pages = {page: unpack_page(data) for page, data in self.disks[member.address].pages.items()}
        replica, _ = Replica.load("gcs-0", list(member.replica.dump()), pages)
        return list(replica.dump())

    # --- messages ---

    def ask(self, index=0):
        asker = self.askers[index]
        self._perform(asker, asker.ask())

    def look(self, index=0):
        asker = self.askers[index]
        self._perform(asker, asker.look())

    def _perform(self, role, effects):
        for effect in effects:
            if type(effect) in (e.AppendToLog, e.SaveSnapshot, e.WritePage, e.ReadPage):
                self.disks[role.address].orders.append(effect)
                continue
            if type(effect) is e.SetTimer:
                self.queues.setdefault(("timer", role.address), deque()).append(effect.message)
                continue
            if type(effect) is e.EndSession:
                self.kill(role.address)
                continue
            assert type(effect) is e.Send
            if type(effect.message) is ShardStalled:
                self.roles[effect.destination].stalls.append(effect.message.reasons)
                continue
            self.queues.setdefault((role.address, effect.destination), deque()).append(effect.message)

    def work(self, address):
        """The disk of this member does the next of its orders."""
        role = self.roles.get(address)
        outcome = self.disks[address].work()
        if role is not None:
            self._turn(role, "host", [outcome])

    def step(self):
        """Deliver a few messages of one pair, as one turn.  False: there is nothing under way."""
        busy = [name for name, disk in self.disks.items() if disk.orders and name in self.roles]
        if busy and self.random.random() < 0.3:
            self.now += 1e-3
            self.work(self.random.choice(busy))
            return True
        pairs = [pair for pair, queue in self.queues.items() if queue and pair not in self.stopped]
        if not pairs:
            if busy:
                self.work(busy[0])
            return bool(busy)
        self.now += 1e-3
        pair = self.random.choice(pairs)
        self.deliver(*pair, count=self.random.randint(1, len(self.queues[pair])))
        return True

    def deliver(self, source, target, count=None):
        """So many messages of this pair, or all of them, as one turn."""
        pair = source, target
        queue = self.queues[pair]
        messages = [queue.popleft() for _ in range(count or len(queue))]
        role = self.roles.get(target)
        if role is None:
            return
        if source != "timer":
            messages = decode(encode(Envelope(1, 1, 0, messages))).messages
        self.told.setdefault(pair, []).extend(messages)
        self._turn(role, source, messages)

    def _turn(self, role, source, messages):
        for message in messages:
            self._perform(role, role.handle(source, message, self.now))
        self._perform(role, role.end_turn(self.now))
        role.check_everything()

    def settle(self, steps_max=50_000):
        """Until nothing is under way."""
        for _ in range(steps_max):
            if not self.step():
                return
        raise AssertionError("it never settles")

    # --- what must be true ---

    def check_all_is_well(self):
        """At rest: every request was answered once and in order, and every member has the same state."""
        self.settle()
        for asker, client in zip(self.askers, self.clients, strict=True):
            for kind in ("recorded", "held", "located"):
                numbers = [number for what, number in asker.answers if what == kind]
                assert numbers == list(range(1, asker.request + 1)), (kind, numbers)
            assert not client.pending and not client.reads
            assert not asker.rejected and not client.rejected
        members = self.members()
        states = [self.whole(member) for member in members]
        assert all(state == states[0] for state in states)
        assert all(member.has_caught_up and not member.aside.counts and not member.aside.refused for member in members)
        assert all(not member.history for member in members)
        assert not self.chain.tentative and not self.chain.is_lost
        records = members[-1].replica.shard.tasks.records
        assert set(records) == {task_id for asker in self.askers for task_id in asker.done}
