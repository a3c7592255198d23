"""What is replicated of a shard, beside its tables: what its clients have asked and been told."""

import pytest

from zray.roles.gcs.replica import Replica
from zray.wire.chain import Update
from zray.wire.gcs import NodeLost
from zray.wire.groups import AttendShard, GroupSpec, KeepGroup, RegisterGroup

N1, N2 = "n1/local", "n2/local"
GROUP = b"a group, so it is"[:16]


def replica_with_a_group(*, keeper):
    """Its keeper has not said a word yet."""
    replica = Replica("gcs-0")
    spec = GroupSpec([{"CPU": 1_000}], "PACK")
    requests = [(N1, AttendShard(N1, True)), (N1, RegisterGroup(GROUP, spec, N1, keeper, b"job-0001", keeper))]
    replica.apply(Update(1, 1.0, "n1/shard-0", 1, 0, requests))
    return replica


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_a_role_is_told_before_it_has_asked_for_anything_waits_for_it(is_loaded):
    """A chain that was late heard of a program's group by a worker, and nobody looked for places for it (found by seed
    945000249)."""
    replica = replica_with_a_group(keeper=N2)
    if is_loaded:
        replica, _ = Replica.load("gcs-0", list(replica.dump()))
    touched = replica.apply(Update(2, 2.0, "n2/shard-0", 1, 0, [(N2, AttendShard(N2, False))]))
    assert touched == ["n2/shard-0"]
    assert [(item.target, type(item.message)) for item in replica.sessions["n2/shard-0"].results] == [(N2, KeepGroup)]
    assert not replica.early


def test_nothing_waits_for_a_node_that_is_lost():
    replica = replica_with_a_group(keeper=N2)
    replica.apply(Update(2, 2.0, "n1/shard-0", 3, 0, [("monitor", NodeLost(N2, "it was unplugged"))]))
    assert not replica.early
