"""Waits of tasks in event records: what each task of a record has waited for, and how long, on one clock."""

import pytest

from zray.api.task_waits import WORDS, TaskWait, TaskWaits, in_process, milliseconds, name_of
from zray.store.event_ring import Event, Kind, Outcome
from zray.wire.events import Stage

PARENT = bytes(range(10))
NODE = "node1"


def task(number, parent=PARENT):
    return parent + number.to_bytes(6, "big")


def event(kind, task_id, begin, end, **facts):
    times = (begin, facts.pop("read", begin), end, end)
    return Event(kind, task_id, *times, "f", "", Outcome.FINISHED, 0, 0, **facts)


def stage(number, what, begin, end, count=1, last=None, parent=PARENT):
    read = begin if last is None else last
    return event(Kind.STAGE, task(number, parent), begin, end, read=read, tasks=count, stage=what)


def waits_of(*events, node=NODE, shift=0.0):
    found = TaskWaits()
    for each in events:
        found.add(each, node, shift)
    return found


def test_waits_are_found_in_their_order_on_the_clock_of_the_reader():
    found = waits_of(stage(1, Stage.QUEUE, 3.0, 4.0), stage(1, Stage.ARGUMENTS, 1.0, 3.0), shift=100.0)
    assert found.of(task(1)) == [TaskWait("arguments", NODE, 101.0, 103.0), TaskWait("queue", NODE, 103.0, 104.0)]
    assert found.of(task(2)) == [] and found.of(task(1, b"another parent"[:10])) == []


def test_tasks_of_one_record_have_begins_between_the_first_and_the_last():
    found = waits_of(stage(10, Stage.QUEUE, 1.0, 5.0, count=5, last=3.0))
    assert [found.of(task(number))[0].begin for number in range(10, 15)] == [1.0, 1.5, 2.0, 2.5, 3.0]
    assert found.of(task(9)) == found.of(task(15)) == []


def test_records_of_several_tasks_and_of_one_go_together():
    found = waits_of(
        stage(0, Stage.QUEUE, 1.0, 2.0, count=8),
        *(stage(number, Stage.ARGUMENTS, 0.0, 1.0) for number in range(0, 64, 2)),
        stage(8, Stage.QUEUE, 1.0, 3.0, count=56),
    )
    assert [wait.stage for wait in found.of(task(4))] == ["arguments", "queue"]
    assert [wait.seconds for wait in found.of(task(63))] == [2.0]


def test_way_of_arguments_is_told_without_overlaps_and_within_the_wait():
    maker = task(7, b"of another")
    fetch = [
        event(Kind.FETCH, maker, *times, place=place, size=9) for times, place in (((0.5, 2.0), 1), ((1.5, 3.0), 2))
    ]
    found = waits_of(stage(1, Stage.ARGUMENTS, 1.0, 4.0), *fetch)
    arguments = [(maker, 1), (maker, 2), (task(99), 1)]
    assert found.of(task(1), arguments) == [TaskWait("arguments", NODE, 1.0, 4.0), TaskWait("fetch", NODE, 1.0, 3.0)]
    assert [wait.stage for wait in found.of(task(1), [(maker, 3)])] == ["arguments"]
    assert milliseconds(found.of(task(1), arguments)) == {"arguments": 3000.0, "fetch": 2000.0}


def test_fetch_to_another_node_is_none_of_the_task():
    maker = task(7, b"of another")
    found = waits_of(stage(1, Stage.ARGUMENTS, 1.0, 4.0))
    found.add(event(Kind.FETCH, maker, 2.0, 3.0, place=1), "node2", 0.0)
    assert [wait.stage for wait in found.of(task(1), [(maker, 1)])] == ["arguments"]


def test_stage_of_a_later_version_is_left_out():
    assert waits_of(stage(1, 77, 1.0, 2.0)).of(task(1)) == [] and name_of(77) == "other"


@pytest.mark.parametrize("what", Stage)
def test_each_stage_has_words(what):
    (wait,) = waits_of(stage(1, what, 1.0, 2.0)).of(task(1))
    assert WORDS[wait.stage] and wait.stage == name_of(what)


def test_submission_is_the_begin_of_a_wait_if_no_record_of_the_node_is_lost():
    waits = waits_of()
    assert waits.of_run(task(1), [], 0.5, 4.0) == [TaskWait("process", "", 0.5, 4.0)]
    waits.has_gaps = True
    assert waits.of_run(task(1), [], 0.5, 4.0) == []
    waits.add(stage(1, Stage.QUEUE, 1.0, 3.0), NODE, 0.0)
    assert [wait.stage for wait in waits.of_run(task(1), [], 0.5, 4.0)] == ["queue", "process"]


def test_wait_in_the_process_goes_from_the_last_wait_at_a_node_or_from_the_submission():
    waits = waits_of(stage(1, Stage.QUEUE, 1.0, 3.0)).of(task(1))
    assert in_process(waits, 0.5, 4.0) == TaskWait("process", NODE, 3.0, 4.0)
    assert in_process([], 0.5, 4.0) == TaskWait("process", "", 0.5, 4.0)
    assert in_process(waits, 0.5, 3.001) is None and in_process([], None, 4.0) is None
    assert list(milliseconds([*waits, in_process(waits, 0.5, 4.0)])) == ["queue", "process"]
