"""Placement groups at their shard: each row of the table of their states is taken by messages."""

import pytest

from zray.roles.gcs import GcsShard
from zray.wire.gcs import NodeLost
from zray.wire.groups import (
    CREATED,
    PACK,
    AttendShard,
    BundlesPrepared,
    GiveUpGroup,
    GroupSpec,
    RegisterGroup,
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
