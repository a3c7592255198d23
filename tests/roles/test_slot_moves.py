"""Records of tasks that move from shard to shard: none is lost while a living one needs it, and none is left.

All messages between shards go through messages of a node, in any order, some of them twice.
"""

import random

import pytest

from zray.ids import return_id
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard, keeping, moves
from zray.wire import gcs
from zray.wire.chain import SlotsMoved
from zray.wire.groups import AttendShard
from zray.wire.keyed import parts_of
from zray.wire.shards import SlotsChanged, SlotTable
from zray.wire.task_spec import TaskSpec

NODES = ("n1/local", "n2/local")
BIRTH = SlotTable.at_birth(2)


def result(number):
    """The result of the task with that number in its slot."""
    return return_id(b"t" * 6 + number.to_bytes(10, "big"), 1)


class Cluster:
    """Shards, and two nodes that send all by the newest table; a node holds what its tasks take until they are
    recorded."""

    def __init__(self, chance):
        self.chance, self.table, self.mail = chance, BIRTH, []
        self.shards = [GcsShard(f"gcs-{number}") for number in range(5)]
        self.held, self.waiting, self.takes = {}, {}, {}  # result -> node; request -> result; result -> results
        self.uses = {}  # result -> tasks that take it, and are not recorded yet
        for number in range(5):
            self.say(number, SlotsChanged(BIRTH), "counts")
            for node in NODES:
                self.say(number, AttendShard(node, True), node)

    def say(self, number, message, sender):
        shard = self.shards[number]
        effects = shard.handle(sender, message, 1.0) + shard.end_turn(1.0)
        shard.check_everything()
        assert not shard.rejected.keys() - {"a batch that was known to be heard", "a table of slots that is not newer"}
        self.take(number, effects)

    def take(self, number, effects):
        for effect in effects:
            message = effect.message
            assert type(effect) is Send
            if type(message) is SlotsMoved:
                self.request(message.request)
            elif type(message) is gcs.RecordTasksReply:
                done = self.waiting.pop(message.request)
                for it in self.takes[done]:
                    self.uses[it].remove(done)
            elif type(message) in (gcs.LineageNeeded, gcs.LineageNeededReply, gcs.LineageMoved):
                self.mail.append(message)

    def request(self, message):
        for owner, part in parts_of(message, self.table).items():
            self.say(owner, part, message.node)

    # --- what happens ---

    def record(self, number):
        known = [it for it in self.held if it not in self.waiting.values()]
        takes = self.chance.sample(known, min(len(known), self.chance.randrange(4)))
        mine, node = result(number), self.chance.choice(NODES)
        self.held[mine], self.takes[mine], self.waiting[number + 1] = node, takes, mine
        for it in takes:
            self.uses.setdefault(it, []).append(mine)
        self.request(gcs.RecordTasks(node, [TaskSpec(mine[:16], b"f" * 16, deps=takes)], number + 1, 2))

    def drop(self):
        free = [it for it in self.held if not self.uses.get(it) and it not in self.waiting.values()]
        if free:
            dropped = self.chance.choice(free)
            self.request(gcs.ReleaseAtNode(self.held.pop(dropped), [dropped]))

    def deliver(self):
        message = self.mail.pop(self.chance.randrange(len(self.mail)))
        number = message.target if type(message) is gcs.LineageNeeded else message.source
        if self.chance.random() < 0.1:
            self.mail.append(message)
        self.say(number, message, self.chance.choice(NODES))

    def tell(self):
        late = [it for it, shard in enumerate(self.shards) if shard.tasks.slots.epoch < self.table.epoch]
        if late:
            self.say(self.chance.choice(late), SlotsChanged(self.table), "counts")
        return bool(late)

    def move(self):
        """Returns whether slots have moved."""
        while self.mail and self.chance.random() < 0.9:
            self.deliver()
        if self.tell():
            return False
        loser = self.chance.choice(self.table.in_use())
        own = self.table.slots_of(loser)
        if self.table.shards < 5 and len(own) > 1 and self.chance.random() < 0.7:
            table = self.table.split(loser, self.chance.sample(own, self.chance.randrange(1, len(own))))
            gainer = table.shards - 1
        elif len(self.table.in_use()) > 1:
            gainer = self.chance.choice([it for it in self.table.in_use() if it != loser])
            table = self.table.merge(loser, gainer)
        else:
            return False
        try:
            moves.may_receive(self.shards[gainer], table, [])
        except ValueError:
            return False
        self.table = table
        moves.receive(self.shards[gainer], moves.give(self.shards[loser], table))
        for number in (gainer, loser):
            self.take(number, self.shards[number].end_turn(1.0))
            self.shards[number].check_everything()
        return True

    def replace(self):
        number = self.chance.randrange(5)
        copy = GcsShard(self.shards[number].address)
        copy.load(self.shards[number].dump())
        assert list(copy.dump()) == list(self.shards[number].dump())
        self.shards[number] = copy

    def check(self):
        """Recorded and held tasks have all that they need, in turn."""
        seen, open_ = set(), [it for it in self.held if it not in self.waiting.values()]
        while open_:
            it = open_.pop()
            if it not in seen:
                seen.add(it)
                record = self.shards[self.table.owner(it)].tasks.records.get(it[:16])
                assert record is not None and record.spec is not None, "a record that is needed is lost"
                open_ += self.takes[it]


@pytest.mark.parametrize("seed", range(60))
def test_no_record_is_lost_and_none_is_left(seed, monkeypatch):
    monkeypatch.setattr(keeping, "WORDS_MAX", 3)
    chance = random.Random(seed)
    cluster, moved = Cluster(chance), 0
    for number in range(600):
        what = chance.random()
        if what < 0.25:
            cluster.record(number)
        elif what < 0.55:
            cluster.drop()
        elif what < 0.85 and cluster.mail:
            cluster.deliver()
        elif what < 0.88:
            cluster.tell()
        elif what < 0.94:
            moved += cluster.move()
        elif what < 0.95:
            cluster.replace()
        cluster.check()
    while cluster.mail or cluster.tell():
        if cluster.mail:
            cluster.deliver()
    while cluster.held:
        cluster.drop()
        while cluster.mail:
            cluster.deliver()
    assert moved > 1 and not cluster.waiting
    for shard in cluster.shards:
        assert not shard.tasks.records, shard.address
        held = shard.tasks.keeping
        assert held is None or not (held.abroad or held.kept_for or held.via or held.held), shard.address
