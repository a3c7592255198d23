"""A shard keeps copies of what is not made again, though nobody holds it, for tasks that may run again."""

import pytest

from zray.ids import put_id, return_id
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard
from zray.wire.gcs import (
    AddLocations,
    FreeCopies,
    HoldAtNode,
    LineageNeeded,
    NodeLost,
    OfferCopies,
    RecordTasks,
    ReleaseAtNode,
    RemoveLocations,
)
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options

N1, N2, N3 = "n1/local", "n2/local", "n3/local"
ONCE = encode_options(TaskOptions(max_retries=0))
LOGGED = encode_options(TaskOptions(max_retries=3, is_logged=True))
MADE, TAKER, OTHER = (bytes([number]) * 16 for number in (2, 4, 6))
VALUE, RESULT, ANOTHER = (return_id(task, 1) for task in (MADE, TAKER, OTHER))


class Desk:
    """A shard, and what it has freed since the last look."""

    def __init__(self, **options):
        self.shard = GcsShard("gcs-0", **options)
        self.freed = []

    def tell(self, sender, message):
        for effect in self.shard.handle(sender, message, 0.0) + self.shard.end_turn(0.0):
            assert type(effect) is Send
            if type(effect.message) is FreeCopies:
                self.freed += [(effect.destination, object_id) for object_id in effect.message.object_ids]
        self.shard.check_everything()

    def take_freed(self):
        freed, self.freed = self.freed, []
        return freed

    def record(self, task_id, *deps, options=b"", shards=1):
        self.tell(N1, RecordTasks(N1, [TaskSpec(task_id, b"f" * 16, deps=deps, options=options)], 0, shards))

    def release(self, object_id):
        self.tell(N1, ReleaseAtNode(N1, [object_id]))

    def copies(self):
        item = self.shard.tasks.find_object(VALUE)
        return [*item.sizes] if item is not None else []


def taken(made=ONCE, taker=b"", **options):
    """A value with copies on two nodes, which a task has taken, and whose last holder has let go."""
    desk = Desk(**options)
    desk.record(MADE, options=made)
    for node in (N2, N3):
        desk.tell(node, AddLocations(node, [(VALUE, 9)]))
    desk.record(TAKER, VALUE, options=taker)
    desk.release(VALUE)
    return desk


@pytest.mark.parametrize("made", [ONCE, LOGGED])
def test_copies_stay_until_the_record_of_the_taker_goes(made):
    desk = taken(made)
    assert not desk.take_freed()
    assert desk.copies() == [N2, N3]
    desk.release(RESULT)
    assert desk.take_freed() == [(N2, VALUE), (N3, VALUE)]
    assert not desk.shard.tasks.records


@pytest.mark.parametrize("options", [{"made": b""}, {"taker": ONCE}, {"taker": LOGGED}, {"is_alone": True}])
def test_copies_go_where_nothing_would_run_again_that_needs_them(options):
    desk = taken(**options)
    assert {node for node, _ in desk.take_freed()} >= {N2, N3}
    assert not desk.copies()


def test_copies_stay_for_the_last_of_several_takers_that_may_run_again():
    desk = Desk()
    desk.record(MADE, options=ONCE)
    desk.tell(N2, AddLocations(N2, [(VALUE, 9)]))
    desk.record(TAKER, VALUE)
    desk.record(OTHER, VALUE, options=ONCE)
    desk.release(VALUE)
    desk.release(ANOTHER)
    assert desk.copies() == [N2]
    desk.record(OTHER, VALUE, options=ONCE)
    desk.release(RESULT)
    assert not desk.copies()
    assert MADE in desk.shard.tasks.records  # the other one is known


def test_puts_are_not_kept_so():
    desk = Desk()
    put = put_id(MADE, 0)
    desk.record(MADE, options=ONCE)
    desk.tell(N1, HoldAtNode(N1, [put], 0))
    desk.tell(N1, AddLocations(N1, [(put, 9)]))
    desk.record(TAKER, put)
    desk.release(put)
    assert desk.take_freed() == [(N1, put)]


def test_a_copy_goes_where_it_is_offered_and_nobody_holds_it():
    desk = taken()
    desk.tell(N2, OfferCopies(N2, [VALUE]))
    assert desk.take_freed() == [(N2, VALUE)] and desk.copies() == [N3]
    desk.tell(N2, HoldAtNode(N2, [VALUE], 0))
    desk.tell(N3, OfferCopies(N3, [VALUE]))
    assert not desk.take_freed() and desk.copies() == [N3]
    desk.tell(N2, ReleaseAtNode(N2, [VALUE]))
    assert not desk.take_freed() and desk.copies() == [N3]
    desk.tell(N3, OfferCopies(N3, [VALUE]))
    assert desk.take_freed() == [(N3, VALUE)] and not desk.copies()


def test_a_copy_that_comes_late_is_kept_too():
    desk = taken()
    desk.tell(N1, AddLocations(N1, [(VALUE, 9)]))
    assert not desk.take_freed() and desk.copies() == [N2, N3, N1]


def test_copies_are_forgotten_with_their_nodes_and_by_their_word():
    desk = taken()
    desk.tell("monitor", NodeLost(N2, "killed"))
    assert desk.copies() == [N3]
    desk.tell(N3, RemoveLocations(N3, [VALUE]))
    assert not desk.copies()
    desk.release(RESULT)
    assert not desk.take_freed()
    assert not desk.shard.tasks.records


def test_copies_are_freed_where_the_node_of_the_takers_last_holder_is_lost():
    desk = taken()
    desk.tell("monitor", NodeLost(N1, "killed"))
    assert desk.take_freed() == [(N2, VALUE), (N3, VALUE)]


def test_copies_stay_for_the_records_of_other_shards():
    desk = Desk()
    desk.record(MADE, options=ONCE, shards=2)
    desk.tell(N2, AddLocations(N2, [(VALUE, 9)]))
    desk.tell(N2, LineageNeeded(1, 0, 2, 1, [MADE], []))
    desk.release(VALUE)
    assert not desk.take_freed() and desk.copies() == [N2]
    desk.tell(N2, LineageNeeded(1, 0, 2, 2, [], [MADE]))
    assert desk.take_freed() == [(N2, VALUE)]
    assert not desk.shard.tasks.records


def test_copies_are_kept_by_specs_in_the_store_and_by_a_state_that_was_loaded():
    desk = Desk(is_chained=True)
    desk.record(MADE, options=ONCE)
    desk.tell(N2, AddLocations(N2, [(VALUE, 9)]))
    desk.record(TAKER, VALUE)
    desk.record(OTHER, VALUE, options=ONCE)
    tasks = desk.shard.tasks
    for index, task_id in enumerate((MADE, TAKER, OTHER)):
        tasks.flush(task_id, tasks.records[task_id].spec, 1, index)
    other = Desk(is_chained=True)
    other.shard.load(list(desk.shard.dump()))
    for each in (desk, other):
        each.release(VALUE)
        assert not each.take_freed() and each.copies() == [N2]
        each.release(RESULT)
        assert each.take_freed() == [(N2, VALUE)]
        each.release(ANOTHER)
        assert not each.shard.tasks.records
