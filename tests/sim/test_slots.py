"""Nodes and global schedulers with tables of slots that are older than the shards': all is as if they were not.

The tables differ from node to node, and are up to four epochs old.  No record moves here: the shards have had theirs
from the beginning.
"""

from functools import partial

import pytest

from tests.sim.slot_tables import begin_nodes_with, call_after
from zray.roles.gcs import GcsShard, slots
from zray.roles.gcs.keeping import Keeping
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.local_scheduler.membership.slots import Slots
from zray.sim.main import Wanted, run_seed
from zray.sim.shards import Shards
from zray.wire.shards import SlotsChanged, SlotTable

pytestmark = pytest.mark.sim


def history():
    """Tables from birth on: two shards that split, one that is merged, and one that has all slots of another."""
    tables = [SlotTable.at_birth(2)]
    tables.append(tables[-1].split(0, tables[-1].slots_of(0)[::2]))
    tables.append(tables[-1].split(1, tables[-1].slots_of(1)[:50]))
    tables.append(tables[-1].merge(2, 1))
    tables.append(tables[-1].merge(0, 3))
    return tables


@pytest.fixture
def taken(monkeypatch):
    """All nodes begin with old tables.  What they take: from which epoch, to which."""
    *former, newest = history()
    taken = []

    def old_table(address):
        return former[sum(address.encode()) % len(former)]

    def take(self):
        before = self.node.addresses.slots.epoch
        really_take(self)
        if self.node.addresses.slots.epoch != before:
            taken.append((before, self.node.addresses.slots.epoch))

    really_take, wrap = Slots._take, partial(call_after, monkeypatch)
    begin_nodes_with(monkeypatch, lambda addresses: old_table(addresses.object_manager))
    monkeypatch.setattr(Slots, "_take", take)
    wrap(GlobalScheduler, "__init__", lambda role, *_: setattr(role, "slots", old_table(role.address)))
    wrap(GcsShard, "__init__", lambda shard, *_: slots.take(shard, newest))
    wrap(Shards, "__init__", lambda shards, *_: shards.follow(newest))
    return taken


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(nodes=3, shards=4),
        Wanted(nodes=3, shards=4, deaths=True),
        Wanted(nodes=3, shards=4, replicas=2),
        Wanted(nodes=4, shards=4, replicas=1, heads=True),
        Wanted(nodes=3, shards=4, drains=True, groups=True),
    ],
    ids=["plain", "deaths", "replicas", "heads", "drains"],
)
def test_programs_end_as_ever(taken, wanted):
    for seed in range(1, 7):
        outcome = run_seed(seed, wanted)
        assert not outcome.error, (seed, outcome.error)
    assert taken and all(before < after == history()[-1].epoch for before, after in taken)


# --- shards that hear of a change later than those whose slots move ---

BEFORE = SlotTable.at_birth(3)
AFTER = BEFORE.split(0, BEFORE.slots_of(0)[::2])


@pytest.fixture
def late(monkeypatch):
    """Shards 0 and 3 have the newer table, the others hear of it later, or from these.  Returned words, and epochs."""
    seen = {"returned": 0, "epochs": []}

    def is_made(shard, address, *_):
        slots.take(shard, AFTER if address[-1] in "03" else BEFORE)

    def is_heard(_, message):
        seen["returned"] += len(message.tasks)

    def tell(world):
        for number in (1, 2):
            world.call_at(world.random.uniform(0.0, 2.0), tell_one, world, f"gcs-{number}")

    def tell_one(world, name):
        (shard,) = [shard for shard in world.shards.authorities() if shard.address == name]
        seen["epochs"].append(shard.tasks.slots.epoch)
        if shard.tasks.slots.epoch < AFTER.epoch:
            world.heads.node.arrive("counts", name, SlotsChanged(AFTER))

    wrap = partial(call_after, monkeypatch)
    begin_nodes_with(monkeypatch, lambda addresses: AFTER)
    wrap(GlobalScheduler, "__init__", lambda role, *_: setattr(role, "slots", AFTER))
    wrap(GcsShard, "__init__", is_made)
    wrap(Keeping, "came_back", is_heard)
    wrap(Shards, "__init__", lambda shards, *_: shards.follow(AFTER))
    wrap(Shards, "start", lambda shards: tell(shards.world))
    return seen


@pytest.mark.parametrize(
    "wanted",
    [Wanted(nodes=3, shards=4), Wanted(nodes=3, shards=4, deaths=True), Wanted(nodes=3, shards=4, drains=True)],
    ids=["plain", "deaths", "drains"],
)
def test_needs_follow_the_slots_of_their_tasks(late, wanted):
    for seed in range(1, 9):
        outcome = run_seed(seed, wanted)
        assert not outcome.error, (seed, outcome.error)
    assert late["returned"] and set(late["epochs"]) == {BEFORE.epoch, AFTER.epoch}
