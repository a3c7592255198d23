"""Event rings at a node: those that live are read, those that ended are copied, up to a bound."""

import os

import pytest

from zray.host.node import event_rings as module
from zray.host.node.event_rings import EventRings, WaitRecords
from zray.ids import return_id
from zray.roles.work_effects import RecordChange, RecordFetch, RecordWait
from zray.store.event_ring import EventRing, Kind, read_ring
from zray.store.segment import event_rings_of, unlink_session
from zray.wire.events import Stage, State, Thing

SESSION = f"rings{os.getpid()}"


@pytest.fixture
def rings():
    yield EventRings(SESSION)
    unlink_session(SESSION)


def ring(pid, count, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        made = EventRing(SESSION, f"worker {pid}")
    for number in range(count):
        made.add(Kind.TASK, bytes(16), float(number), float(number), float(number), float(number), 0)
    return made


def pids(found):
    return [read_ring(data).pid for data in found]


def test_living_and_ended_processes_are_read(rings, monkeypatch):
    kept = ring(11, 3, monkeypatch), ring(12, 2, monkeypatch)
    rings.process_ended(11)
    assert event_rings_of(SESSION) == [kept[1].name]
    found, left_out = rings.read(1 << 30)
    assert (pids(found), left_out) == ([12, 11], 0)
    assert [len(read_ring(data).events) for data in found] == [2, 3]


def test_process_without_a_ring_is_nothing(rings):
    rings.process_ended(13)
    assert rings.read(1 << 30) == ([], 0)


def test_copies_are_bounded_and_the_oldest_go(rings, monkeypatch):
    made = ring(1, 1, monkeypatch)
    size = len(rings.read(1 << 30)[0][0])
    monkeypatch.setattr(module, "COPIES_BYTES_MAX", 2 * size)
    rings.process_ended(1)
    for pid in (2, 3):
        made = ring(pid, 1, monkeypatch)
        rings.process_ended(pid)
    assert made and pids(rings.read(1 << 30)[0]) == [3, 2] and rings.bytes == 2 * size


def test_answer_has_at_most_so_many_bytes(rings, monkeypatch):
    made = [ring(pid, 1, monkeypatch) for pid in (1, 2, 3)]
    size = len(rings.read(1 << 30)[0][0])
    found, left_out = rings.read(2 * size)
    assert made and len(found) == 2 and left_out == 1
    assert rings.read(0) == ([], 3)


def test_waits_at_the_node_are_in_a_ring_of_its_process(rings):
    waits = WaitRecords(SESSION)
    assert not event_rings_of(SESSION)
    waits.wait("local", RecordWait(Stage.ROOM, bytes(16), 1.0, 1.5, 2.0, 3, "f"))
    waits.fetch("local", RecordFetch(return_id(bytes(16), 2), 1.0, 2.0, 50))
    (data,), _ = rings.read(1 << 30)
    found = read_ring(data)
    stage, fetch = found.events
    assert (found.label, found.pid) == ("node waits", os.getpid())
    assert (stage.stage, stage.begin, stage.read, stage.end, stage.tasks) == (Stage.ROOM, 1.0, 1.5, 2.0, 3)
    assert (fetch.kind, fetch.size, fetch.place) == (Kind.FETCH, 50, 2)


def test_wait_that_has_not_ended_is_in_the_ring(rings, monkeypatch):
    made = ring(1, 1, monkeypatch)
    for since in (1.5, 0.0):
        made.waits(since)
        (data,), _ = rings.read(1 << 30)
        assert read_ring(data).waits_since == since


def test_node_without_memory_for_a_ring_goes_on(rings, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(module, "EventRing", refuse)
    waits = WaitRecords(SESSION)
    for _ in range(2):
        waits.wait("local", RecordWait(Stage.QUEUE, bytes(16), 1.0, 1.0, 2.0, 1, "f"))
    assert rings.read(1 << 30) == ([], 0)


def test_reasons_leave_room_for_names_of_functions(rings):
    waits = WaitRecords(SESSION)
    for number in range(module.REASONS_MAX + 2):
        waits.change("local", RecordChange(Thing.WORKER, b"1", State.DEAD, 1.0, "", f"reason {number}", 7))
    waits.change("local", RecordChange(Thing.WORKER, b"1", State.DEAD, 2.0, "", "reason 0", 7))
    waits.wait("local", RecordWait(Stage.QUEUE, bytes(16), 1.0, 1.0, 2.0, 1, "f"))
    (data,), _ = rings.read(1 << 30)
    found = [event.error for event in read_ring(data).events if event.kind == Kind.CHANGE]
    assert found == [*(f"reason {number}" for number in range(module.REASONS_MAX)), "", "", "reason 0"]
    assert read_ring(data).events[-1].name == "f"
