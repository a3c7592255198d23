"""Lineage under a set memory: which specs leave it, what still works then, and what is said when a page is gone."""

from collections import deque

import pytest

from tests.roles.chain_desk import ChainDesk
from zray.ids import return_id
from zray.roles.gcs import entrance, flushing, journal
from zray.roles.gcs.tables import Flushed, TaskTable, digest_of, weight_of
from zray.wire.gcs import (
    AddLocations,
    HoldAtNode,
    NodeLost,
    ObjectLost,
    RebuildObject,
    RecordTasks,
    ReleaseAtNode,
    SubscribeObject,
)
from zray.wire.task_spec import TaskSpec

N1, N2 = "n1/local", "n2/local"


def task(number):
    return b"%016d" % number


def spec(number, *, size=1_000, after=None):
    deps = () if after is None else (return_id(task(after), 1),)
    return TaskSpec(task(number), b"f" * 16, b"%04d" % number + b"a" * size, deps)


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setattr(flushing, "PAGE_BYTES", 3_000)
    desk = ChainDesk(replicas=1, offers=1, is_durable=True, lineage_bytes=10_000)
    desk.settle()
    return desk


class Talk:
    """A host's roles, on the desk."""

    def __init__(self, desk):
        self.desk = desk
        self.heard = {}
        for asker in desk.askers:
            asker.handle = lambda sender, message, now, name=asker.address: self._hear(name, message)

    def _hear(self, name, message):
        self.heard.setdefault(name, []).append(message)
        return []

    def say(self, *messages, index=0):
        asker = self.desk.askers[index]
        self.desk.queues.setdefault((asker.address, asker.shard), deque()).extend(messages)
        self.desk.settle()

    def told(self, name, kind):
        return [message for message in self.heard.get(name, ()) if type(message) is kind]


def one(desk):
    (member,) = desk.members()
    return member, member.replica.shard.tasks, desk.disks[member.address]


def fill(talk, count, first=0):
    """A line of tasks; the last result is held by both nodes, and copies are on the second."""
    for number in range(first, first + count):
        talk.say(RecordTasks(N2, [spec(number, after=number - 1 if number else None)], 0), index=1)
        talk.say(AddLocations(N2, [(return_id(task(number), 1), 9)]), index=1)


def test_the_oldest_specs_leave_memory_and_what_stays_is_under_the_limit(desk):
    talk = Talk(desk)
    fill(talk, 40)
    _, tasks, disk = one(desk)
    kinds = [type(record.spec) for record in tasks.records.values()]
    assert tasks.weight <= 10_000 and kinds == sorted(kinds, key=[Flushed, TaskSpec].index)
    assert kinds.count(Flushed) > 30 and disk.pages.keys() == tasks.pages.keys()
    assert all(len(data) < 5_000 for data in disk.pages.values())
    assert desk.members()[0].statistics()["flushed"] == kinds.count(Flushed)


def test_specs_that_come_long_after_their_records_leave_memory_too(desk):
    """They lie in front of what has left it already."""
    talk = Talk(desk)
    early = range(100, 140)
    talk.say(HoldAtNode(N2, [return_id(task(number), 1) for number in early], 0), index=1)
    fill(talk, 40)
    for number in early:
        talk.say(RecordTasks(N2, [spec(number)], 0), index=1)
    _, tasks, _ = one(desk)
    assert tasks.weight <= 10_000 and sum(tasks.pages.values()) > 70


def test_what_is_lost_is_made_again_from_a_page(desk):
    talk = Talk(desk)
    fill(talk, 40)
    wanted = return_id(task(3), 1)
    talk.say(HoldAtNode(N1, [wanted], 0), SubscribeObject(N1, wanted))
    talk.say(NodeLost(N2, "silent"))
    talk.say(SubscribeObject(N1, wanted))
    orders = talk.told(N1, RebuildObject)
    assert orders and orders[0] == RebuildObject(wanted, spec(3, after=2), 0, True)
    assert not one(desk)[0].replica.shard.wanted


def test_a_page_that_cannot_be_read_is_a_lost_object_that_names_the_place(desk):
    talk = Talk(desk)
    fill(talk, 40)
    _, _, disk = one(desk)
    wanted = return_id(task(3), 1)
    talk.say(HoldAtNode(N1, [wanted], 0))
    talk.say(NodeLost(N2, "silent"))
    disk.pages.clear()
    talk.say(SubscribeObject(N1, wanted))
    (lost,) = talk.told(N1, ObjectLost)
    assert "page-7: it is not there" in lost.reason
    assert not one(desk)[0].replica.shard.wanted


def test_a_page_of_garbage_is_a_lost_object(desk):
    talk = Talk(desk)
    fill(talk, 40)
    _, _, disk = one(desk)
    wanted = return_id(task(3), 1)
    talk.say(HoldAtNode(N1, [wanted], 0))
    talk.say(NodeLost(N2, "silent"))
    for page in disk.pages:
        disk.pages[page] = b"\x93\x01\x02\x03"
    talk.say(SubscribeObject(N1, wanted))
    (lost,) = talk.told(N1, ObjectLost)
    assert "no page of specs" in lost.reason


def test_a_snapshot_knows_the_pages_and_those_that_nobody_needs_go(desk, monkeypatch):
    talk = Talk(desk)
    fill(talk, 40)
    member, tasks, disk = one(desk)
    whole = desk.whole(member)
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 0)
    talk.say(HoldAtNode(N1, [return_id(task(39), 1)], 0))
    assert disk.snapshot and disk.pages.keys() == tasks.pages.keys()
    assert sum(map(len, disk.snapshot)) < sum(map(len, whole)) / 2
    again = desk.start_anew(disk)
    desk.settle()
    assert desk.whole(again) == desk.whole(member)
    talk.say(NodeLost(N2, "silent"))
    again, tasks, disk = one(desk)
    assert list(tasks.records) == [task(number) for number in range(40)]
    talk.say(ReleaseAtNode(N1, [return_id(task(39), 1)]))
    assert not tasks.records and not tasks.pages and tasks.weight == 0


def test_a_full_disk_keeps_specs_in_memory_and_says_so(desk):
    talk = Talk(desk)
    fill(talk, 5)
    member, tasks, disk = one(desk)
    desk.stopped.add(("timer", member.address))
    refuse = type(disk).work
    disk.work = lambda: (setattr(disk, "is_full", type(disk.orders[0]).__name__ == "WritePage"), refuse(disk))[1]
    for number in range(5, 17):
        queue = desk.queues.setdefault((desk.askers[1].address, desk.askers[1].shard), deque())
        queue.append(RecordTasks(N2, [spec(number, after=number - 1)], 0))
        for _ in range(60):
            desk.step()
    assert tasks.weight > 10_000 and not disk.pages
    assert member.statistics()["does not flush"] == "no space left on device"
    desk.stopped.clear()
    del disk.work
    disk.is_full = False
    desk.settle()
    assert tasks.weight <= 10_000 and "does not flush" not in member.statistics()


@pytest.mark.parametrize("replicas, whose", [(1, 0), (2, 1), (3, 1)])
def test_a_disk_that_takes_no_pages_holds_back_who_records_more(replicas, whose, monkeypatch):
    """Whichever member's it is: what its specs weigh in memory is bounded as long as it lasts, and nothing is lost."""
    monkeypatch.setattr(flushing, "PAGE_BYTES", 3_000)
    monkeypatch.setattr(entrance, "HISTORY_MAX", 5)
    desk = ChainDesk(replicas=replicas, offers=replicas, is_durable=True, lineage_bytes=10_000)
    desk.settle()
    member = desk.members()[whose]
    disk = desk.disks[member.address]
    desk.stopped.add(("timer", member.address))
    refuse = type(disk).work
    disk.work = lambda: (setattr(disk, "is_full", type(disk.orders[0]).__name__ == "WritePage"), refuse(disk))[1]
    for number in range(60):
        desk.queues.setdefault((N1, "n1/shard-0"), deque()).append(RecordTasks(N1, [spec(number)], 0))
        desk.settle()
    tasks = member.replica.shard.tasks
    assert 20_000 < tasks.weight < 30_000 and desk.clients[0].pending
    desk.stopped.clear()
    del disk.work
    disk.is_full = False
    desk.settle()
    assert len(tasks.records) == 60 and tasks.weight <= 20_000 and not desk.clients[0].pending


def test_a_task_that_is_recorded_again_is_held_there_too_and_its_first_spec_stays():
    """Whatever it does now: its new holder believes that it holds it.  With its spec in memory or not."""
    for is_flushed in (False, True):
        tasks = TaskTable(is_weighed=True)
        tasks.record(spec(1), N1)
        if is_flushed:
            tasks.flush(task(1), tasks.records[task(1)].spec, 1, 0)
            assert tasks.records[task(1)].spec == Flushed(1 << 16, digest_of(spec(1)), ())
        tasks.record(spec(1), N2)
        assert tasks.unlike == 0
        tasks.record(spec(1, size=7), N2)
        assert tasks.unlike == 1
        assert list(tasks.records[task(1)].objects[return_id(task(1), 1)].holders) == [N1, N2]
        tasks.check_everything()
        assert tasks.weight == (0 if is_flushed else weight_of(spec(1)))
