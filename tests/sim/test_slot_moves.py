"""Programs run to their ends while records of their tasks move from shard to shard.

Records of a slot move at one moment, where no other records than of tasks are.  The other shards, the nodes and the
global schedulers hear of it later, by messages.
"""

from functools import partial

import pytest

from tests.sim.slot_tables import begin_nodes_with, call_after
from zray.roles.gcs import GcsShard, moves, slots
from zray.roles.global_scheduler import GlobalScheduler
from zray.sim.main import Wanted, run_seed
from zray.sim.shards import Shards
from zray.wire.shards import SlotsChanged, SlotTable

pytestmark = pytest.mark.sim

BIRTH = SlotTable.at_birth(2)
EVERY = 0.02


class Mover:
    """Moves slots of a world whenever all shards have the last table."""

    def __init__(self, world, seen):
        self.world, self.seen, self.table = world, seen, BIRTH
        world.call_later(EVERY, self.go_on)

    def go_on(self):
        world = self.world
        if world.now < 20.0:
            world.call_later(world.random.uniform(0.0, 2 * EVERY), self.go_on)
        shards = {int(shard.address[-1]): shard for shard in world.shards.authorities()}
        late = [number for number, shard in shards.items() if shard.tasks.slots.epoch < self.table.epoch]
        for number in late:
            world.heads.node.arrive("counts", shards[number].address, SlotsChanged(self.table))
        if not late:
            self.move(shards)

    def move(self, shards):
        random = self.world.random
        loser = random.choice(self.table.in_use())
        shard = shards[loser]
        aside = set(map(self.table.slot, moves.keys_beside_tasks(shard)))
        of_tasks = sorted({self.table.slot(it) for it in shard.tasks.records if self.table.owner(it) == loser} - aside)
        own = self.table.slots_of(loser)
        gainers = [number for number in shards if number != loser]
        if not of_tasks or len(own) < 2:
            return
        moved = set(random.sample(of_tasks, random.randrange(1, len(of_tasks) + 1))) - {own[0]}
        gainer = random.choice(gainers)
        owners = tuple(gainer if it in moved else owner for it, owner in enumerate(self.table.owners))
        table = SlotTable(owners, self.table.epoch + 1, len(shards))
        try:
            moves.may_receive(shards[gainer], table, list(shard.lost))
        except ValueError:
            return
        if not moved:
            return
        self.table = table
        moves.receive(shards[gainer], moves.give(shard, table))
        self.seen.append(sum(table.slot(it) in moved for it in shards[gainer].tasks.records))
        self.world.shards.follow(table)
        for each in (shards[gainer], shard):
            self.world.heads.node._perform_all(each, each.take_effects())
        self.world.heads.node.turn()


@pytest.fixture
def moved(monkeypatch):
    """How many records each move had."""
    seen = []
    wrap = partial(call_after, monkeypatch)
    begin_nodes_with(monkeypatch, lambda addresses: BIRTH)
    wrap(GlobalScheduler, "__init__", lambda role, *_: setattr(role, "slots", BIRTH))
    wrap(GcsShard, "__init__", lambda shard, *_: slots.take(shard, BIRTH))
    wrap(Shards, "__init__", lambda shards, *_: shards.follow(BIRTH))
    wrap(Shards, "start", lambda shards: Mover(shards.world, seen))
    return seen


@pytest.mark.parametrize(
    "wanted",
    [Wanted(nodes=3, shards=4), Wanted(nodes=3, shards=4, deaths=True), Wanted(nodes=3, shards=4, drains=True)],
    ids=["plain", "deaths", "drains"],
)
def test_programs_end_while_records_move(moved, wanted):
    for seed in range(1, 9):
        outcome = run_seed(seed, wanted)
        assert not outcome.error, (seed, outcome.error)
    assert sum(moved) > 50, moved
