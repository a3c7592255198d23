"""Placement groups at their shard: each row of the table of their states is taken by messages."""

import pytest

from tests.roles.rows_taken import record_rows
from zray.roles.gcs import GcsShard
from zray.roles.gcs.groups import TRANSITIONS, GroupRecord
from zray.wire.gcs import NodeLost
from zray.wire.groups import (
    CREATED,
    PACK,
    PENDING,
    RESCHEDULING,
    UNSCHEDULABLE,
    AttendShard,
    BundlesPrepared,
    GiveUpGroup,
    GroupSpec,
    RegisterGroup,
    RemoveGroup,
    TryPlaces,
)

GROUP, N1, N2, N3 = b"g" * 16, "n1/local", "n2/local", "n3/local"


class Shard:
    """A shard with three nodes, and a group of two bundles that N1 keeps."""

    def __init__(self):
        self.role = GcsShard("gcs-0")
        for node in (N1, N2, N3):
            self.tell(node, AttendShard(node, True))
        spec = GroupSpec([{"CPU": 1}, {"CPU": 1}], PACK, is_detached=True)
        self.tell(N1, RegisterGroup(GROUP, spec, N1, N1, b"job", N1))

    def tell(self, sender, message):
        self.role.handle(sender, message, 0.0)

    @property
    def record(self):
        return self.role.groups.records[GROUP]

    def place(self, *nodes):
        missing = [index for index, node in enumerate(self.record.places) if not node]
        self.tell(N1, TryPlaces(GROUP, self.record.trip, list(zip(missing, nodes, strict=True))))
        for node in dict.fromkeys(nodes):
            self.tell(node, BundlesPrepared(GROUP, self.record.trip, node, True))

    def give_up(self):
        self.tell(N1, GiveUpGroup(GROUP, self.record.trip, "no node has so much"))


@pytest.fixture
def shard():
    return Shard()


def test_group_that_is_created_is_not_given_up(shard):
    """A keeper asks twice if a global scheduler is lost; the second answer may say that no node has so much."""
    shard.place(N2, N3)
    shard.give_up()
    assert (shard.record.state, shard.record.reason) == (CREATED, "")


def shard_in(state):
    """A shard with a group in this state.  One that is rescheduled has lost N3."""
    shard = Shard()
    if state in (CREATED, RESCHEDULING):
        shard.place(N2, N3)
    if state == RESCHEDULING:
        shard.tell("monitor", NodeLost(N3, "killed"))
    if state == UNSCHEDULABLE:
        shard.give_up()
    assert shard.record.state == state
    return shard


def test_each_row_is_taken(monkeypatch):
    taken = record_rows(monkeypatch, GroupRecord, "happened")
    for state in (PENDING, CREATED, RESCHEDULING, UNSCHEDULABLE):
        shard_in(state).tell(N1, RemoveGroup(GROUP, "it is not needed"))
        if state != CREATED:
            shard_in(state).give_up()
            shard_in(state).place(*((N2, N2) if state != RESCHEDULING else (N1,)))
    for state in (PENDING, RESCHEDULING):
        shard = shard_in(state)
        shard.give_up()
        shard.tell("n4/local", AttendShard("n4/local", True))
        assert shard.record.state == state
    assert taken >= set(TRANSITIONS)
