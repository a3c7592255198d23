"""Nodes and global schedulers with tables of slots that are older than the shards': all is as if they were not.

The tables differ from node to node, and are up to four epochs old.  No record moves here: the shards have had theirs
from the beginning.
"""

import pytest

from zray.roles.gcs import GcsShard, slots
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.local_scheduler.membership.slots import Slots
from zray.sim import simulator
from zray.sim.main import Wanted, run_seed
from zray.sim.shards import Shards
from zray.wire.shards import SlotTable

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

    def wrap(kind, name, after):
        before = getattr(kind, name)

        def wrapped(self, *args, **kwargs):
            before(self, *args, **kwargs)
            after(self)

        monkeypatch.setattr(kind, name, wrapped)

    def old_table(address):
        return former[sum(address.encode()) % len(former)]

    def addresses(*args, **kwargs):
        result = plain(*args, **kwargs)
        result.slots = old_table(result.object_manager)
        return result

    def take(self):
        before = self.node.addresses.slots.epoch
        really_take(self)
        if self.node.addresses.slots.epoch != before:
            taken.append((before, self.node.addresses.slots.epoch))

    plain, really_take = simulator.Addresses, Slots._take
    monkeypatch.setattr(simulator, "Addresses", addresses)
    monkeypatch.setattr(Slots, "_take", take)
    wrap(GlobalScheduler, "__init__", lambda role: setattr(role, "slots", old_table(role.address)))
    wrap(GcsShard, "__init__", lambda shard: slots.take(shard, newest))
    wrap(Shards, "__init__", lambda shards: shards.follow(newest))
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
