"""Rings of event records: what is written is read, the oldest records go, and no bytes make a reader fail."""

import mmap
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zray.ids import put_id, return_id
from zray.store import event_ring
from zray.store.event_ring import (
    COUNT_MAX,
    NEEDS_MAX,
    NUMBER_MAX,
    PUT_BIT,
    RECORDS_AT,
    EventRing,
    Kind,
    Outcome,
    read_ring,
    reserved_bytes,
)
from zray.store.segment import SHARED_MEMORY_FOLDER, SegmentFullError, event_rings_of, unlink, unlink_session

SESSION = f"ringtest{os.getpid()}"
TASK = bytes(range(16))


@pytest.fixture
def ring():
    made = EventRing(SESSION, "worker 3")
    yield made
    unlink(made.name)


def content(ring):
    with open(SHARED_MEMORY_FOLDER + ring.name, "rb") as file:
        data = file.read()
    return read_ring(data[: RECORDS_AT + reserved_bytes(data[:RECORDS_AT])])


def test_record_is_read_as_it_was_written(ring):
    ring.add(
        Kind.CALL, TASK, 12.5, 12.75, 14.75, 15.0, ring.number_of("Keeper.add"), ring.number_of("OSError"), 1, 2, 7
    )
    found = content(ring)
    (event,) = found.events
    assert (found.pid, found.label, found.lost) == (os.getpid(), "worker 3", 0)
    times, words = (12.5, 12.75, 14.75, 15.0), ("Keeper.add", "OSError", Outcome.FAILED, 2, 7)
    assert event == (Kind.CALL, TASK, *times, *words, 0, (), (), (), 0, "", 0, 0, 0, 0, 0, 0)


def test_waits_and_fetches_of_a_node_are_read_as_they_were_written(ring):
    ring.add(Kind.STAGE, TASK, 1.0, 2.0, 5.0, 40.0, ring.number_of("f"), attempt=3)
    ring.add(Kind.FETCH, TASK, 1.0, 4096.0, 2.0, float(PUT_BIT | 2), 0)
    stage, fetch = content(ring).events
    assert (stage.begin, stage.read, stage.end, stage.tasks, stage.stage, stage.name) == (1.0, 2.0, 5.0, 40, 3, "f")
    assert (fetch.begin, fetch.end, fetch.size, fetch.place) == (1.0, 2.0, 4096, PUT_BIT | 2)
    assert stage.attempt == 0 and stage.stored == 5.0 and fetch.tasks == 0 and fetch.stored == 2.0


def test_names_have_one_number_each_and_the_last_space_is_for_other(ring):
    first = ring.number_of("f")
    assert ring.number_of("f") == first and ring.number_of("g") == first + 1
    numbers = {ring.number_of(f"function {number} " + "x" * 200) for number in range(2_000)}
    assert event_ring.OTHER in numbers and len(numbers) > 400
    ring.add(Kind.TASK, TASK, 1.0, 0, 0, 0, event_ring.OTHER)
    ring.add(Kind.TASK, TASK, 2.0, 0, 0, 0, first)
    assert [event.name for event in content(ring).events] == ["(other)", "f"]


def test_name_of_any_characters_is_a_name(ring):
    for name in ("\udc80", "", "é" * 100, "a\x1b[31m\n"):
        ring.add(Kind.TASK, TASK, 1.0, 0, 0, 0, ring.number_of(name))
    assert len(content(ring).events) == 4


def test_latest_records_are_kept_in_order(ring):
    for number in range(COUNT_MAX + 100):
        ring.add(Kind.TASK, TASK, float(number), 0, 0, 0, 0)
    found = content(ring)
    assert [event.begin for event in found.events] == [float(number) for number in range(100, COUNT_MAX + 100)]
    assert found.lost == 100


def test_dependencies_belong_to_the_run_before(ring):
    makers = [bytes([number]) * 16 for number in range(5)]
    ring.add(Kind.TASK, TASK, 1.0, 0, 0, 0, 0)
    ring.add_dependencies(makers)
    ring.add(Kind.TASK, TASK, 2.0, 0, 0, 0, 0)
    first, second = content(ring).events
    assert first.dependencies == tuple(makers) and second.dependencies == ()


def test_arguments_have_places_among_the_values_of_their_tasks(ring):
    ring.add(Kind.TASK, TASK, 1.0, 0, 0, 0, 0)
    ring.add_dependencies([return_id(TASK, 3), put_id(TASK, 2), return_id(TASK, 1), put_id(TASK, 1 << 20)])
    (event,) = content(ring).events
    assert event.dependencies == (TASK,) * 4
    assert event.places == (3, PUT_BIT | 2, 1, PUT_BIT | NUMBER_MAX)


def test_needs_belong_to_the_wait_before_and_consecutive_tasks_are_together(ring):
    children = [TASK[:10] + number.to_bytes(6, "big") for number in range(20)]
    ring.add(Kind.WAIT, TASK, 1.0, 1.0, 2.0, 2.0, 0)
    ring.add_needs([return_id(child, 1) for child in children], 4)
    ring.add(Kind.GET, TASK, 3.0, 3.0, 4.0, 4.0, 0)
    ring.add_needs([return_id(children[number], 1) for number in (2, 3, 4, 9, 10, 1)], 6)
    ring.add(Kind.GET, TASK, 5.0, 5.0, 6.0, 6.0, 0)
    wait, get, other = content(ring).events
    assert wait.needs == ((children[0], 1, 20),) and wait.wanted == 4
    assert get.needs == ((children[2], 1, 3), (children[9], 1, 2), (children[1], 1, 1)) and get.wanted == 6
    assert other.needs == ()


def test_wait_for_very_many_values_is_recorded_in_few_records(ring):
    ids = [return_id(TASK[:10] + number.to_bytes(6, "big"), 1) for number in range(10_000)]
    ring.add(Kind.GET, TASK, 1.0, 1.0, 2.0, 2.0, 0)
    ring.add_needs(ids[::3], len(ids[::3]))
    ring.add(Kind.GET, TASK, 1.0, 1.0, 2.0, 2.0, 0)
    ring.add_needs([each for number, each in enumerate(ids) if number % 50 != 1], 9_800)
    few, dense = content(ring).events
    assert len(few.needs) == NEEDS_MAX and few.wanted == 3_334
    assert dense.needs == ((ids[0][:16], 1, 10_000),) and dense.wanted == 9_800


def test_names_have_requests_behind_them_that_readers_of_names_do_not_see(ring):
    ring.add(Kind.TASK, TASK, 1.0, 0, 0, 0, ring.number_of("fit\0CPU:20000,GPU:5000"))
    (event,) = content(ring).events
    assert (event.name, event.request) == ("fit", "CPU:20000,GPU:5000")
    with open(SHARED_MEMORY_FOLDER + ring.name, "rb") as file:
        assert list(event_ring.names_of(file.read())) == ["fit"]


def test_dependencies_without_their_run_are_left_out(ring):
    ring.add(Kind.TASK, TASK, 1.0, 0, 0, 0, 0)
    ring.add_dependencies([TASK])
    for _ in range(COUNT_MAX - 1):
        ring.add(Kind.TASK, TASK, 2.0, 0, 0, 0, 0)
    assert all(event.begin == 2.0 and not event.dependencies for event in content(ring).events)


def test_full_machine_leaves_a_shorter_ring(ring, monkeypatch):
    reserve = ring._segment.reserve

    def refuse(offset, length):
        if length > 2 * event_ring.STEP * event_ring.RECORD.size:
            raise SegmentFullError(28, "no space")
        reserve(offset, length)

    monkeypatch.setattr(type(ring._segment), "reserve", lambda self, offset, length: refuse(offset, length))
    for number in range(COUNT_MAX):
        ring.add(Kind.TASK, TASK, float(number), 0, 0, 0, 0)
    begins = [event.begin for event in content(ring).events]
    assert 0 < len(begins) <= 2 * event_ring.STEP and begins[-1] == COUNT_MAX - 1.0


def test_ring_uses_memory_for_what_is_written_alone(ring):
    ring.add(Kind.TASK, TASK, 1.0, 0, 0, 0, 0)
    used = os.stat(SHARED_MEMORY_FOLDER + ring.name).st_blocks * 512
    assert used <= RECORDS_AT + event_ring.STEP * event_ring.RECORD.size + 2 * mmap.PAGESIZE


def test_end_of_a_session_removes_its_rings():
    ring = EventRing(SESSION, "driver")
    assert event_rings_of(SESSION) == [ring.name]
    assert ring.name in unlink_session(SESSION) and not event_rings_of(SESSION)


@given(st.binary(max_size=600), st.binary(max_size=300), st.integers(0, 63))
def test_reader_takes_any_bytes(names, records, shift):
    head = event_ring.HEADER.pack(event_ring.MAGIC, 1, 1.0, 5, 3) + b"abc"
    data = head.ljust(event_ring.NAMES_AT, b"\0") + names.ljust(RECORDS_AT - event_ring.NAMES_AT, b"\0")
    found = read_ring(data + records[shift:] * 20)
    assert found is not None and found.label == "abc"
    for event in found.events:
        assert event.begin >= 0 and event.name


@given(st.binary(max_size=200))
def test_bytes_without_a_header_are_no_ring(data):
    assert read_ring(data) is None and read_ring(data.ljust(RECORDS_AT + 96, b"\0")) is None
    assert reserved_bytes(data) == 0


def test_closed_ring_takes_what_its_pages_hold(ring):
    for number in range(2 * event_ring.STEP):
        if number == 1:
            ring.close()
        ring.add(Kind.TASK, TASK, float(number), float(number), float(number), float(number), 0)
    assert len(content(ring).events) == event_ring.STEP


def test_change_of_state_is_read_as_it_was_written(ring):
    ring.add(
        Kind.CHANGE, TASK, 12.5, 4_000_000.0, 0.0, 0.0, ring.number_of("Keeper"), ring.number_of("killed"), 0, 4, 5
    )
    ring.add(Kind.CHANGE, TASK, 13.5, 0.0, 0.0, 0.0, 0, 0, 0, 1, 3)
    first, second = content(ring).events
    assert (first.kind, first.task_id, first.begin, first.pid) == (Kind.CHANGE, TASK, 12.5, 4_000_000)
    assert (first.name, first.error, first.thing, first.state) == ("Keeper", "killed", 4, 5)
    assert (second.name, second.error, second.thing, second.state, second.pid) == ("", "", 1, 3, 0)
    assert (second.attempt, second.lane) == (0, 0)
