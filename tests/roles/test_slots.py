"""Tables of slots: a shard sends back what belongs to others, and a node sends that again in its order."""

import pytest

from tests.roles.desk import Desk
from zray.ids import group_name_key, name_key, put_id, return_id
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.local_scheduler.actors.traces import Trace
from zray.roles.local_scheduler.membership.slots import Slots
from zray.wire import actors, gcs, groups, handles, homes, scheduling
from zray.wire.chain import ShardRequest, SlotsMoved
from zray.wire.groups import AttendShard
from zray.wire.keyed import KEYS, LISTS, ids_of, parts_of
from zray.wire.shards import AwaitReturns, AwaitReturnsReply, SlotsChanged, SlotTable
from zray.wire.task_spec import TaskSpec

N1, N2 = "n1/local", "n2/local"
SHARDS = ["gcs-0", "gcs-1", "gcs-2", "gcs-3"]
BIRTH = SlotTable.at_birth(2)
HALF = BIRTH.slots_of(0)[::2]
SPLIT = BIRTH.split(0, HALF)  # shard 2 has slots 0, 4, 8 ...


def task(slot, number=0):
    return b"t" * 6 + (slot + 256 * number).to_bytes(10, "big")


KEPT, MOVED, OTHER = task(2), task(4), task(1)


def spec(task_id, *takes):
    return TaskSpec(task_id, b"f" * 16, deps=takes)


def say(role, sender, message):
    effects = role.handle(sender, message, 1.0) + role.end_turn(1.0)
    role.check_everything()
    return [(effect.destination, effect.message) for effect in effects if type(effect) is Send]


# --- requests and their ids ---


def test_each_request_has_ids_or_is_for_every_shard():
    for_all = {gcs.ReleaseFunctions, actors.LookUpActorNames, gcs.NodeLost, AttendShard, SlotsChanged, AwaitReturns}
    by_number = {gcs.LineageNeeded, gcs.LineageNeededReply, gcs.LineageMoved}
    assert set(ShardRequest.__args__) == {*LISTS, *KEYS, *for_all, *by_number}


def test_names_belong_to_the_slots_of_their_keys():
    assert ids_of(actors.LookUpActor("space", "name")) == [name_key("space", "name")]
    assert ids_of(groups.LookUpGroups(1, b"", "space", "name")) == [group_name_key("space", "name")]
    assert ids_of(groups.LookUpGroups(1, MOVED)) == [MOVED] and ids_of(groups.LookUpGroups(1)) == []
    assert ids_of(actors.ActorRemoved(MOVED, name_key("", "name"))) == [name_key("", "name")]
    assert ids_of(homes.ActorForgotten(MOVED, N1)) == [MOVED]


def test_parts_have_each_id_once_and_in_order():
    ids = [return_id(task(slot, number), 1) for number in range(3) for slot in range(6)]
    parts = parts_of(gcs.HoldAtNode(N1, ids, 7), SPLIT)
    assert {owner: part.object_ids for owner, part in parts.items()} == {
        owner: [it for it in ids if SPLIT.owner(it) == owner] for owner in (2, 1, 0)
    }
    assert all((part.node, part.request) == (N1, 7) for part in parts.values())
    request = gcs.RecordTasks(N1, [spec(KEPT), spec(MOVED)], 7, attempts=[(MOVED, 2)])
    parts = parts_of(request, SPLIT)
    assert [(owner, part.specs, part.attempts) for owner, part in parts.items()] == [
        (0, [spec(KEPT)], []),
        (2, [spec(MOVED)], [(MOVED, 2)]),
    ]
    assert parts_of(request, BIRTH) == {0: request}


# --- the shard ---


@pytest.fixture
def shard():
    shard = GcsShard("gcs-0")
    assert say(shard, "counts", SlotsChanged(SPLIT)) == [] and not shard.rejected
    return shard


def test_a_request_for_an_id_of_another_shard_comes_back_whole(shard):
    request = gcs.RecordTasks(N1, [spec(KEPT), spec(MOVED)], 7, 2)
    assert say(shard, N1, request) == [(N1, SlotsMoved(SPLIT, request))]
    assert not shard.tasks.records
    for other in (gcs.SubscribeObject(N1, return_id(MOVED, 1)), scheduling.LocateObjects(1, [put_id(MOVED, 0)])):
        assert say(shard, N1, other) == [(N1, SlotsMoved(SPLIT, other))]
    assert say(shard, N1, gcs.RecordTasks(N1, [spec(KEPT)], 8, 2)) == [(N1, gcs.RecordTasksReply(8))]


def test_without_a_table_all_is_answered():
    shard = GcsShard("gcs-0")
    assert say(shard, N1, gcs.RecordTasks(N1, [spec(KEPT), spec(MOVED)], 7, 2)) == [(N1, gcs.RecordTasksReply(7))]


def test_the_answer_comes_behind_all_that_came_back(shard):
    request = gcs.HoldAtNode(N1, [return_id(MOVED, 1)], 7)
    effects = shard.handle(N1, request, 1.0) + shard.handle(N1, AwaitReturns(3), 1.0)
    assert [effect.message for effect in effects] == [SlotsMoved(SPLIT, request), AwaitReturnsReply(3)]


def test_an_older_table_is_refused(shard):
    say(shard, "counts", SlotsChanged(BIRTH))
    say(shard, "counts", SlotsChanged(SPLIT))
    assert shard.tasks.slots == SPLIT and shard.rejected == {"a table of slots that is not newer": 2}


def test_a_table_by_which_records_would_move_is_refused():
    shard = GcsShard("gcs-0")
    say(shard, N1, gcs.RecordTasks(N1, [spec(MOVED)], 0, 2))
    say(shard, "counts", SlotsChanged(SPLIT))
    assert shard.tasks.slots is None and shard.rejected == {"a table of slots by which records would move": 1}


def test_the_table_is_part_of_the_state(shard):
    say(shard, N1, gcs.RecordTasks(N1, [spec(KEPT, return_id(MOVED, 1))], 0, 2))
    copy = GcsShard("gcs-0")
    copy.load(shard.dump())
    assert copy.tasks.slots == SPLIT and copy.tasks.keeping.slots == SPLIT
    assert copy.tasks.keeping.shard_of(MOVED) == 2


# --- the node ---


@pytest.fixture
def desk():
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.addresses.shards, desk.scheduler.addresses.slots = list(SHARDS), BIRTH
    return desk


def hold(*task_ids, request=0):
    return gcs.HoldAtNode("local", [return_id(task_id, 1) for task_id in task_ids], request)


def send(desk, request):
    """The node sends a request by its table."""
    (owner,) = parts_of(request, desk.scheduler.addresses.slots)
    desk.scheduler.send(SHARDS[owner], request)
    desk._perform(desk.scheduler.end_turn(desk.now))


def release(*task_ids):
    return gcs.ReleaseAtNode("local", [return_id(task_id, 1) for task_id in task_ids])


def test_returned_requests_go_ahead_of_later_ones(desk):
    first, second, third, aside = hold(MOVED), release(MOVED), hold(MOVED), hold(KEPT)
    desk.take_sent()
    send(desk, first)
    send(desk, second)
    assert desk.take_sent() == [("gcs-0", first), ("gcs-0", second)]
    desk.tell("gcs-0", SlotsMoved(SPLIT, first))
    assert desk.take_sent() == [("gcs-0", AwaitReturns(1))]
    send(desk, third)
    send(desk, aside)
    assert desk.take_sent() == [("gcs-0", aside)]
    desk.tell("gcs-0", SlotsMoved(SPLIT, second))
    desk.tell("gcs-0", AwaitReturnsReply(1))
    assert desk.take_sent() == [("gcs-2", first), ("gcs-2", second), ("gcs-2", third)]
    send(desk, release(MOVED))
    assert desk.take_sent() == [("gcs-2", release(MOVED))]
    assert not desk.scheduler.slots.held and desk.scheduler.addresses.slots == SPLIT


def test_an_older_table_is_never_taken(desk):
    merged = SPLIT.merge(2, 0)
    desk.scheduler.addresses.slots = merged
    desk.take_sent()
    desk.tell("gcs-0", SlotsMoved(SPLIT, hold(MOVED)))
    assert desk.scheduler.addresses.slots == merged and not desk.scheduler.slots.held
    assert desk.take_sent() == [("gcs-0", hold(MOVED))]


def test_acknowledgements_of_all_parts_are_awaited(desk):
    node, done = desk.scheduler, []
    request = node.acks.next_request()
    node.acks.expect(request, 1, lambda: done.append(request))
    desk.take_sent()
    desk.tell("gcs-0", SlotsMoved(SPLIT, hold(KEPT, MOVED, request=request)))
    desk.tell("gcs-0", AwaitReturnsReply(1))
    asked = desk.take_sent(gcs.HoldAtNode)
    assert asked == [("gcs-0", hold(KEPT, request=request)), ("gcs-2", hold(MOVED, request=request))]
    desk.tell("gcs-2", gcs.HoldAtNodeReply(request))
    assert not done
    desk.tell("gcs-0", gcs.HoldAtNodeReply(request))
    assert done == [request]


def test_a_second_table_waits_for_the_first(desk):
    third = SPLIT.split(2, HALF[:1])  # slot 0: to shard 3
    desk.take_sent()
    desk.tell("gcs-0", SlotsMoved(SPLIT, hold(MOVED)))
    desk.tell("gcs-1", SlotsMoved(third, hold(task(0))))
    assert desk.scheduler.addresses.slots == SPLIT
    assert desk.take_sent() == [("gcs-0", AwaitReturns(1))]
    send(desk, hold(task(0, 1)))
    desk.tell("gcs-0", AwaitReturnsReply(1))
    assert desk.scheduler.addresses.slots == third
    sent = desk.take_sent()
    assert sent == [("gcs-2", hold(MOVED)), ("gcs-2", hold(task(0, 1))), ("gcs-2", AwaitReturns(2))]
    desk.tell("gcs-2", SlotsMoved(third, hold(task(0, 1))))
    desk.tell("gcs-2", AwaitReturnsReply(2))
    assert desk.take_sent() == [("gcs-3", hold(task(0))), ("gcs-3", hold(task(0, 1)))]


def test_shards_that_give_slots_to_each_other_do_not_wait_for_each_other(desk):
    """A node that has slept through some epochs: 0 has gained slots from 1, and 1 from 0."""
    swapped = SlotTable(tuple(1 - owner for owner in BIRTH.owners), 5, 2)
    desk.take_sent()
    desk.tell("gcs-0", SlotsMoved(swapped, hold(MOVED)))
    assert desk.take_sent() == [("gcs-0", AwaitReturns(1)), ("gcs-1", AwaitReturns(2))]
    send(desk, hold(KEPT))
    desk.tell("gcs-1", AwaitReturnsReply(2))
    desk.tell("gcs-0", AwaitReturnsReply(1))
    assert desk.take_sent() == [("gcs-1", hold(MOVED)), ("gcs-1", hold(KEPT))]


def test_a_table_with_a_shard_that_is_not_known_waits_for_it(desk):
    desk.scheduler.addresses.shards = SHARDS[:2]
    desk.take_sent()
    desk.tell("gcs-0", SlotsMoved(SPLIT, hold(MOVED)))
    slots: Slots = desk.scheduler.slots
    assert desk.take_sent() == [] and slots.coming == SPLIT and slots.later == [hold(MOVED)]
    assert desk.scheduler.addresses.slots == BIRTH


def test_a_trace_that_asked_the_wrong_shard_is_given_up(desk):
    traces = desk.scheduler.traces
    trace = traces.trace = Trace(7, {}, {"gcs-0": None})

    def steps():
        traces._end(trace, [])
        yield

    traces.steps = steps()
    desk.tell("gcs-0", SlotsMoved(SPLIT, handles.FindHolders(6, [MOVED])))
    assert not trace.is_void
    desk.tell("gcs-0", SlotsMoved(SPLIT, handles.FindHolders(7, [MOVED])))
    assert trace.is_void and not trace.silent and traces.trace is None


# --- the global scheduler ---


def spilled(*takes):
    return scheduling.SpillTask(spec(task(9), *takes), N1, b"job", "driver", 1)


def test_a_global_scheduler_asks_the_owners_by_the_newer_table():
    role = GlobalScheduler("global", list(SHARDS[:3]))
    role.slots = BIRTH
    ids = [return_id(KEPT, 1), return_id(MOVED, 1)]
    assert say(role, N1, spilled(*ids)) == [("gcs-0", scheduling.LocateObjects(1, ids))]
    said = say(role, "gcs-0", SlotsMoved(SPLIT, scheduling.LocateObjects(1, ids)))
    assert said == [("gcs-0", scheduling.LocateObjects(1, ids[:1])), ("gcs-2", scheduling.LocateObjects(1, ids[1:]))]
    assert role.slots == SPLIT
    say(role, "gcs-0", scheduling.LocateObjectsReply(1, []))
    assert role.locating
    say(role, "gcs-2", scheduling.LocateObjectsReply(1, []))
    assert not role.locating


def test_a_global_scheduler_never_takes_an_older_table():
    role = GlobalScheduler("global", list(SHARDS[:3]))
    role.slots = SPLIT.merge(2, 0)
    ids = [return_id(MOVED, 1)]
    assert say(role, N1, spilled(*ids)) == [("gcs-0", scheduling.LocateObjects(1, ids))]
    say(role, "gcs-0", SlotsMoved(SPLIT, scheduling.LocateObjects(1, ids)))
    assert role.slots.epoch == 2 and not role.locating


def test_a_hold_and_a_record_of_one_request_are_counted_apart(desk):
    """A task that leaves is recorded under the number under which its arguments are held."""
    node, done = desk.scheduler, []
    request = node.acks.next_request()
    node.lineage.record_one(spec(KEPT), request)
    node.acks.expect(request, 2, lambda: done.append(request))
    desk.take_sent()
    desk.tell("gcs-0", SlotsMoved(SPLIT, hold(KEPT, MOVED, request=request)))
    desk.tell("gcs-0", AwaitReturnsReply(1))
    desk.tell("gcs-0", gcs.RecordTasksReply(request))
    assert not node.lineage.owed and not done
    desk.tell("gcs-0", gcs.HoldAtNodeReply(request))
    desk.tell("gcs-2", gcs.HoldAtNodeReply(request))
    assert done == [request]


def test_parts_of_a_record_are_all_awaited(desk):
    node = desk.scheduler
    request = node.acks.next_request()
    node.lineage.record_one(spec(KEPT), request)
    desk.tell("gcs-0", SlotsMoved(SPLIT, gcs.RecordTasks("local", [spec(KEPT), spec(MOVED)], request, 4)))
    desk.tell("gcs-0", gcs.RecordTasksReply(request))
    assert node.lineage.owed
    desk.tell("gcs-2", gcs.RecordTasksReply(request))
    assert not node.lineage.owed


def test_objects_whose_holders_are_asked_for_at_the_wrong_shard_are_asked_for_again(desk):
    task_spec = desk.new_spec()
    desk.submit(task_spec)
    node = desk.scheduler
    node.fates.asked[5] = [node.tasks[task_spec.task_id]]
    desk.take_sent()
    ids = [return_id(task_spec.task_id, 1)]
    desk.tell("gcs-0", SlotsMoved(SPLIT, gcs.FindUnheld("local", 5, ids, N2)))
    for number in (1, 2):
        desk.tell("gcs-0", AwaitReturnsReply(number))
    ((shard, asked),) = desk.take_sent(gcs.FindUnheld)
    assert shard == node.addresses.shard_of(ids[0]) and (asked.object_ids, asked.lost) == (ids, N2)
    assert list(node.fates.asked) == [asked.request]
