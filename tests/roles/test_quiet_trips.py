"""Tasks that go up without a word to the shards: nobody but their origin knows what they return."""

import pytest

from tests.roles.desk import FUNCTION, JOB
from tests.roles.test_code import Node
from tests.roles.test_trips import OTHER, TASK, acknowledge, desk_with_a_peer
from zray.ids import return_id
from zray.roles.local_scheduler.objects import undoing
from zray.roles.local_scheduler.task import FORWARDED
from zray.wire.actors import ResultsHeld
from zray.wire.drains import CopiesTaken, TakeCopies
from zray.wire.gcs import (
    AddLocations,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    NodeJoined,
    NodeLost,
    RebuildObject,
    RecordTasks,
    RecordTasksReply,
    ReleaseAtNode,
)
from zray.wire.objects import FetchObject, ObjectFetched
from zray.wire.scheduling import (
    JobEnded,
    JobFacts,
    PlaceTask,
    SpillTask,
    StealTasks,
    TaskAccepted,
    TaskDone,
    TaskGivenBack,
    TaskPlaced,
    Thief,
)
from zray.wire.shards import SlotTable
from zray.wire.task_spec import RESOURCE_UNIT, StoredValue, TaskSpec
from zray.wire.tasks import ObjectsReady, SubmitTasks, TaskResult, TasksFinished, WaitObjects

SPEC = TaskSpec(TASK, FUNCTION)
REF = return_id(TASK, 1)
SMALL, LARGE = b"\x07", b"\xc4" + bytes(100)


def told_to_shards(desk):
    return [message for target, message in desk.take_sent() if target == "gcs-0"]


# --- at the origin ---


def test_what_takes_no_refs_leaves_at_once_and_what_does_waits_for_the_shards():
    node = Node()
    (ref,) = node.submit(SPEC)
    sent = node.take_sent()
    ((_, spill),) = [item for item in sent if type(item[1]) is SpillTask]
    assert spill.is_quiet and not [item for item in sent if item[0] == "gcs-0"]
    node.submit(node.new_spec(holds=[ref]))
    assert not node.take_sent(SpillTask)


def test_on_another_trip_it_waits_too():
    node = Node()
    node.submit(SPEC)
    node.tell("global", TaskPlaced(TASK, OTHER, 1))
    node.take_sent()
    node.tell("monitor", NodeLost(OTHER, "killed"))
    assert not [1 for _, message in node.sent if type(message) is SpillTask]
    acknowledge(node)
    assert [(spill.trip, spill.is_quiet) for _, spill in node.take_sent(SpillTask)] == [(2, False)]


def test_while_the_shards_have_not_heard_of_its_code_it_waits():
    node = Node()
    node.publish(node.put_bundle())
    node.submit(node.new_spec(), node.new_spec())
    assert not node.take_sent(SpillTask)
    node.acknowledge()
    assert [spill.is_quiet for _, spill in node.take_sent(SpillTask)] == [False, False]
    node.submit(node.new_spec())
    assert [spill.is_quiet for _, spill in node.take_sent(SpillTask)] == [True]
    node.publish(node.put_bundle())
    node.submit(node.new_spec())
    assert not node.take_sent(SpillTask)


def test_a_small_result_comes_and_the_shards_never_hear_of_it():
    node = Node()
    node.submit(SPEC)
    node.take_sent()
    node.tell(OTHER, TaskDone(TASK, 1, [SMALL]))
    assert node.take_sent(ObjectsReady)[0][1].objects == [(REF, SMALL)]
    assert not told_to_shards(node) and TASK not in node.scheduler.tasks


def test_a_large_one_is_held_before_the_other_node_hears_so():
    node = Node()
    node.submit(SPEC)
    node.tell("driver-1", WaitObjects(1, [REF], 1, True, False))
    node.take_sent()
    node.tell(OTHER, TaskDone(TASK, 1, [200_000]))
    sent = node.take_sent()
    (record,) = [message for _, message in sent if type(message) is RecordTasks and message.request]
    assert record.specs == [SPEC]
    ((_, fetch),) = [item for item in sent if type(item[1]) is FetchObject]
    assert (fetch.size, fetch.holders) == (200_000, [OTHER])
    assert ResultsHeld not in {type(message) for _, message in sent}
    assert not [message for _, message in sent if type(message) is ReleaseAtNode]
    node.tell("gcs-0", RecordTasksReply(record.request))
    assert (OTHER, ResultsHeld([REF])) in node.take_sent()


def test_a_task_that_takes_it_goes_up_with_word_of_where_it_is():
    """Its shard may not have heard of it yet."""
    node = Node()
    (ref,) = node.submit(SPEC)
    node.tell(OTHER, TaskDone(TASK, 1, [200_000]))
    node.submit(node.new_spec(deps=[ref]))
    node.acknowledge()
    assert [spill.located for _, spill in node.take_sent(SpillTask)] == [[], [(ref, 200_000, [OTHER])]]


def test_one_that_runs_again_while_its_result_comes_is_done_with_that():
    """The shard asked for it to be made before it heard of the copy."""
    node = Node()
    node.submit(SPEC)
    node.tell("driver-1", WaitObjects(1, [REF], 1, True, False))
    node.tell(OTHER, TaskDone(TASK, 1, [200_000]))
    node.tell("gcs-0", RebuildObject(REF, SPEC))
    assert node.scheduler.tasks[TASK].state >= FORWARDED
    node.tell("objects", ObjectFetched(REF, StoredValue(0, 0, 200_000)))
    assert not node.scheduler.tasks and node.scheduler.objects.entries[REF].task is None


def test_what_is_not_awaited_need_not_be_kept():
    node = Node()
    node.tell(OTHER, TaskDone(TASK, 1, [200_000]))
    assert node.take_sent(ResultsHeld) == [(OTHER, ResultsHeld([REF]))]


# --- where it runs ---


def test_one_that_takes_longer_is_accepted_when_loads_are_reported():
    """The others are done before."""
    desk = desk_with_a_peer()
    desk.join_cluster()
    desk.tell("global", PlaceTask(SPEC, OTHER, JOB, is_quiet=True))
    assert not desk.take_sent(TaskAccepted)
    for _ in range(2):
        desk.timer("Members.report")
    assert desk.take_sent(TaskAccepted) == [(OTHER, TaskAccepted(TASK, 1))]


def placed(**options):
    """A desk with a small limit, on which a worker has the task."""
    desk = desk_with_a_peer()
    desk.scheduler.inline_bytes_max = 100
    desk.tell("global", PlaceTask(SPEC, OTHER, JOB, is_quiet=True, **options))
    worker = desk.give_birth()
    desk.take_sent()
    return desk, worker


def test_a_small_result_goes_to_the_origin_and_leaves_nothing_here():
    desk, worker = placed()
    desk.finish_one(worker, SMALL)
    sent = desk.take_sent()
    assert (OTHER, TaskDone(TASK, 1, [SMALL])) in sent and not [item for item in sent if item[0] == "gcs-0"]
    assert not desk.scheduler.objects.entries and not desk.scheduler.results.unaccepted


def test_a_large_one_stays_until_the_origin_holds_it():
    desk, worker = placed()
    desk.finish_one(worker, StoredValue(0, 0, 200_000))
    sent = desk.take_sent()
    assert (OTHER, TaskDone(TASK, 1, [200_000])) in sent
    said = [type(message) for target, message in sent if target == "gcs-0"]
    assert said.index(HoldAtNode) < said.index(AddLocations) and ReleaseAtNode not in said
    desk.tell(OTHER, ResultsHeld([REF]))
    assert ReleaseAtNode("local", [REF]) in told_to_shards(desk)


def with_a_ref_inside(desk, worker, value):
    """What the worker's task returns names what a child of it makes."""
    child = desk.new_spec()
    inner = return_id(child.task_id, 1)
    desk.tell(worker, SubmitTasks([child]))
    desk.windows[worker] -= 1
    desk.tell(worker, TasksFinished([TaskResult(TASK, [value], [(inner,)])]))
    return child, inner


@pytest.mark.parametrize("value", [SMALL, StoredValue(0, 0, 200_000)], ids=["small", "large"])
def test_the_origin_hears_of_refs_inside_when_the_shards_know_who_makes_these(value):
    """Else its record of a task that takes one of them may come before the record of that."""
    desk, worker = placed()
    child, inner = with_a_ref_inside(desk, worker, value)
    said = [message for target, message in desk.sent if target == "gcs-0"]
    assert [message.specs for message in said if type(message) is RecordTasks] == [[child]]
    (hold,) = [message for message in said if type(message) is HoldAtNode and message.request]
    assert hold.object_ids == [inner]
    # Until then it knows where its task is: nobody looks for it.
    assert desk.take_sent(TaskAccepted) == [(OTHER, TaskAccepted(TASK, 1))]
    desk.tell("gcs-0", HoldAtNodeReply(hold.request))
    size = value.size if type(value) is StoredValue else len(value)
    assert desk.take_sent(TaskDone) == [(OTHER, TaskDone(TASK, 1, [size]))]
    assert not desk.scheduler.acks.expected


def test_an_origin_that_is_lost_meanwhile_is_told_nothing():
    desk, worker = placed()
    with_a_ref_inside(desk, worker, SMALL)
    acks = [message for _, message in desk.take_sent(HoldAtNode) if message.request]
    desk.tell("monitor", NodeLost(OTHER, "killed"))
    for hold in acks:
        desk.tell("gcs-0", HoldAtNodeReply(hold.request))
    assert not desk.take_sent(TaskDone) and not desk.scheduler.results.unheld


def test_with_several_shards_a_copy_is_announced_when_they_know_what_is_inside():
    """The shard of the one may be quicker than that of the other."""
    desk, worker = placed()
    desk.scheduler.addresses.shards, desk.scheduler.addresses.slots = ["gcs-0", "gcs-1"], SlotTable.at_birth(2)
    _, inner = with_a_ref_inside(desk, worker, StoredValue(0, 0, 200_000))
    sent = desk.take_sent()
    assert AddLocations not in {type(message) for _, message in sent}
    holds = [item for item in sent if type(item[1]) is HoldAtNode and item[1].request]
    assert {target for target, _ in holds} == {desk.scheduler.addresses.shard_of(inner)}
    for target, hold in holds:
        desk.tell(target, HoldAtNodeReply(hold.request))
    assert not desk.take_sent(AddLocations)
    for target, record in [item for item in sent if type(item[1]) is RecordTasks]:
        desk.tell(target, RecordTasksReply(record.request))
    assert [message.objects for _, message in desk.take_sent(AddLocations)] == [[(REF, 200_000)]]
    assert not desk.scheduler.remote.unsaid


def test_a_node_that_is_to_leave_hears_of_a_copy_when_that_is_announced():
    """Else the shard might hear of its end first, and believe that the last copy went with it."""
    desk = desk_with_a_peer()
    desk.scheduler.addresses.shards, desk.scheduler.addresses.slots = ["gcs-0", "gcs-1"], SlotTable.at_birth(2)
    desk.tell(OTHER, TakeCopies(1, [(REF, 200_000)]))
    desk.take_sent()
    inner = return_id(desk.new_spec().task_id, 1)
    desk.tell("objects", ObjectFetched(REF, StoredValue(0, 0, 200_000), (inner,)))
    for target, hold in desk.take_sent(HoldAtNode):
        desk.tell(target, HoldAtNodeReply(hold.request))
    holds = [item for item in desk.take_sent() if type(item[1]) is HoldAtNode and item[1].request]
    desk.timer("Taking.see_what_has_come")
    for target, hold in desk.take_sent(HoldAtNode):
        desk.tell(target, HoldAtNodeReply(hold.request))
    assert not desk.take_sent(CopiesTaken)
    for target, hold in holds:
        desk.tell(target, HoldAtNodeReply(hold.request))
    assert desk.take_sent(AddLocations)
    desk.timer("Taking.see_what_has_come")
    for target, hold in desk.take_sent(HoldAtNode):
        desk.tell(target, HoldAtNodeReply(hold.request))
    assert desk.take_sent(CopiesTaken) == [(OTHER, CopiesTaken(1, [REF]))]


def test_what_has_gone_by_then_is_not_announced():
    desk, worker = placed()
    desk.scheduler.addresses.shards, desk.scheduler.addresses.slots = ["gcs-0", "gcs-1"], SlotTable.at_birth(2)
    with_a_ref_inside(desk, worker, StoredValue(0, 0, 200_000))
    sent = desk.take_sent()
    desk.tell(desk.scheduler.addresses.shard_of(REF), FreeCopies([REF]))
    desk.tell(OTHER, ResultsHeld([REF]))
    desk.tell(desk.scheduler.addresses.shard_of(REF), FreeCopies([REF]))
    assert REF not in desk.scheduler.objects.entries
    desk.take_sent()
    for target, message in sent:
        if type(message) is HoldAtNode and message.request:
            desk.tell(target, HoldAtNodeReply(message.request))
        elif type(message) is RecordTasks:
            desk.tell(target, RecordTasksReply(message.request))
    assert not desk.take_sent(AddLocations) and not desk.scheduler.remote.unsaid


def test_when_its_origin_is_lost_the_shards_are_told():
    """Who was given the ref before that may wait for it."""
    desk, worker = placed()
    desk.tell("monitor", NodeLost(OTHER, "killed"))
    desk.take_sent()
    desk.finish_one(worker, SMALL)
    assert [message for message in told_to_shards(desk) if type(message) is AddLocations]


def test_so_they_are_when_somebody_else_waits_for_it():
    desk, worker = placed()
    desk.tell("gcs-0", RebuildObject(REF, SPEC))
    desk.finish_one(worker, SMALL)
    sent = desk.take_sent()
    assert (OTHER, TaskDone(TASK, 1, [SMALL])) in sent
    said = [type(message) for target, message in sent if target == "gcs-0"]
    assert [kind for kind in said if kind in (HoldAtNode, AddLocations, ReleaseAtNode)] == [
        HoldAtNode,
        AddLocations,
        ReleaseAtNode,
    ]


def test_one_that_is_here_already_for_another_node_goes_back():
    """It comes again by way of the shards, so that both get what it returns."""
    desk, _ = placed()
    desk.tell("global", PlaceTask(SPEC, "n3/local", JOB, is_quiet=True))
    assert desk.take_sent() == [("n3/local", TaskGivenBack(TASK, 1, 0))]
    assert desk.scheduler.tasks[TASK].origin == OTHER


@pytest.mark.parametrize("portion", [1, 1_000])
@pytest.mark.parametrize(
    "sender, message, left",
    [
        ("n3/local", JobEnded(b"job-0002"), []),
        ("monitor", NodeLost("n3/local", "killed"), []),
        ("monitor", NodeLost(OTHER, "killed"), []),
        ("global", StealTasks([Thief("n3/local", 1, {})]), [TASK, b"u" * 16]),
    ],
    ids=["its job ends", "and its home with it", "its origin is lost", "it is stolen"],
)
def test_what_has_left_is_not_said_to_be_here(sender, message, left, portion, monkeypatch):
    monkeypatch.setattr(undoing, "PORTION_COUNT_MAX", portion)
    desk = desk_with_a_peer()
    desk.join_cluster()
    desk.tell("monitor", NodeJoined("n3/local", {"CPU": RESOURCE_UNIT}))
    for task_id in (TASK, b"u" * 16, b"v" * 16):
        spec = TaskSpec(task_id, FUNCTION)
        desk.tell("global", PlaceTask(spec, OTHER, b"job-0002", JobFacts(home="n3/local"), is_quiet=True))
    desk.tell(sender, message)
    assert [what for what, count, count_max in desk.scheduler.bounds() if count > count_max] == []
    desk.take_sent()
    desk.timer("Members.report")
    assert [accepted.task_id for _, accepted in desk.take_sent(TaskAccepted)] == left
    assert set(desk.scheduler.results.unaccepted) == set()
