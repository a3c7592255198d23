"""Placement groups that no present node can hold, where they wait for other nodes: the shard knows why."""

from tests.roles.desk import DRIVER, JOB, Desk
from zray.roles import effects as e
from zray.roles.gcs import GcsShard
from zray.wire.groups import (
    CREATED,
    PENDING,
    AttendShard,
    BundlesPrepared,
    CreateGroup,
    GiveUpGroup,
    GroupFact,
    GroupsListed,
    GroupSpec,
    KeepGroup,
    LookUpGroups,
    PrepareBundles,
    RegisterGroup,
    TryPlaces,
)
from zray.wire.scheduling import JobFacts
from zray.wire.task_spec import RESOURCE_UNIT

GROUP = b"g" * 16
NODE = "local"
SPEC = GroupSpec([{"CPU": 3 * RESOURCE_UNIT}], "PACK")


def patient_desk():
    """A node of 2 CPUs that keeps the group, and has searched for places."""
    desk = Desk(cpus=2)
    desk.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002", facts=JobFacts(infeasible="wait")))
    desk.tell("driver-2", CreateGroup(1, GROUP, SPEC))
    desk.take_sent()
    desk.tell("gcs-0", KeepGroup(GroupFact(GROUP, SPEC, PENDING, [""]), 7, b"job-0002", NODE))
    return desk


def test_keeper_says_once_why_the_group_waits_and_when_that_is_over():
    desk = patient_desk()
    (said,) = [message for _, message in desk.take_sent(GiveUpGroup)]
    assert said.waits and said.trip == 7 and "3 CPU" in said.reason
    desk.scheduler.keeping.room_changed()
    desk.tell(DRIVER, CreateGroup(2, b"h" * 16, GroupSpec([{"CPU": 1}], "PACK")))
    assert not desk.take_sent(GiveUpGroup)
    desk.tell("gcs-0", PrepareBundles(b"r" * 16, 1, [(0, {"CPU": 2 * RESOURCE_UNIT})]))
    resources = desk.scheduler.resources  # of two, both of which are reserved now, and two more
    resources.total["CPU"], resources.free["CPU"] = 4 * RESOURCE_UNIT, 2 * RESOURCE_UNIT
    desk.scheduler.keeping.room_changed()
    desk.tell(DRIVER, CreateGroup(3, b"i" * 16, GroupSpec([{"CPU": 1}], "PACK")))
    assert [message for _, message in desk.take_sent(GiveUpGroup)] == [GiveUpGroup(GROUP, 7, "", waits=True)]


def test_table_of_the_shard_has_the_reason_until_the_group_has_its_places():
    shard = GcsShard("gcs-0")

    def turn(message):
        effects = [*shard.handle(NODE, message, 0.0), *shard.end_turn(0.0)]
        return [effect.message for effect in effects if type(effect) is e.Send]

    def state():
        (listed,) = [message for message in turn(LookUpGroups(1, GROUP)) if type(message) is GroupsListed]
        return listed.groups[0].state, listed.groups[0].reason

    turn(AttendShard(NODE, True))
    (keep,) = [m for m in turn(RegisterGroup(GROUP, SPEC, NODE, NODE, JOB, NODE)) if type(m) is KeepGroup]
    assert not turn(GiveUpGroup(GROUP, keep.trip, "too large", waits=True))
    assert state() == (PENDING, "too large")
    turn(GiveUpGroup(GROUP, keep.trip, "", waits=True))
    assert state() == (PENDING, "")
    turn(GiveUpGroup(GROUP, keep.trip, "too large", waits=True))
    assert any(type(message) is PrepareBundles for message in turn(TryPlaces(GROUP, keep.trip, [(0, NODE)])))
    turn(BundlesPrepared(GROUP, keep.trip, NODE, True))
    assert state() == (CREATED, "")
