"""A replica on a real log: acknowledged when it is on the disk, there again at the next start."""

import os
import queue

import pytest

from tests.store.redis_servers import needs_server, running
from zray.host.cluster import replica_log
from zray.host.cluster.replica_log import ORDERS, ShardLog
from zray.ids import FIRST_RETURN
from zray.roles.effects import EndSession, SaveSnapshot, Send, SetTimer
from zray.roles.gcs import flushing, journal, state
from zray.roles.gcs.chain import ChainMember
from zray.store import log as log_module
from zray.store.check import check
from zray.store.durable import StoreDamaged, StoreLocked
from zray.store.log import Log
from zray.store.sqlite_store import SqliteStore
from zray.wire.chain import ChainChanged, ChainJoined, ChainResults, ChainWrite
from zray.wire.gcs import NodeLost, RebuildObject, RecordTasks, SubscribeObject
from zray.wire.task_spec import TaskSpec

CLIENT = "n1/shard-0"


class Host:
    """One process with one replica; the test is its reactor."""

    def __init__(self, folder, open_store=Log, *, is_lasting=True, lineage_bytes=0):
        self.inbox = queue.SimpleQueue()
        self.member = ChainMember("s1/gcs-0", "gcs-0", "chains", is_durable=True, lineage_bytes=lineage_bytes)
        self.lines = []
        self.log = ShardLog(
            folder,
            self.member,
            lambda role, message: self.inbox.put(message),
            open_store,
            is_lasting=is_lasting,
            log=self.lines.append,
        )
        self.sent = []
        self.timers = []
        self.ended = ""
        self.orders = 0
        self.orders_given = []
        self.member.start()
        self.perform(self.member.take_effects())

    def perform(self, effects):
        for effect in effects:
            if type(effect) in ORDERS:
                self.orders += 1
                self.orders_given.append(effect)
                self.log.perform(self.member.address, effect)
            elif type(effect) is SetTimer:
                self.timers.append(effect.message)
            elif type(effect) is EndSession:
                self.ended = effect.reason
            else:
                assert type(effect) is Send
                self.sent.append(effect.message)

    def tell(self, sender, message):
        self.perform(self.member.handle(sender, message, 0.0))
        self.perform(self.member.end_turn(0.0))

    def begin(self):
        """It is the whole chain."""
        self.tell("chains", ChainChanged("gcs-0", self.member.epoch + 1, ["s1/gcs-0"], ""))
        before = len(self.sent)
        while not any(type(message) is ChainJoined for message in self.sent[before:]):
            self.hear()  # of a snapshot's first part, perhaps

    def record(self, number):
        """One request."""
        request = ("n1/local", RecordTasks("n1/local", [TaskSpec(b"%016d" % number, b"f" * 16, b"a" * 100)], number))
        self.tell(CLIENT, ChainWrite(self.member.epoch, number, 0, [request]))

    def hear(self):
        """What the log has to say."""
        self.tell("host", self.inbox.get(timeout=20))

    def replies(self, kind):
        """What the shard has said, of that type."""
        told = [message.results for message in self.sent if type(message) is ChainResults]
        return [message for results in told for _, message in results if type(message) is kind]

    def done(self):
        """The last request that was acknowledged."""
        return max((message.applied for message in self.sent if type(message) is ChainResults), default=0)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "gcs-0")


@pytest.fixture(scope="module")
def redis():
    with running() as server:
        yield server


@pytest.fixture(params=[Log, SqliteStore, pytest.param("redis", marks=needs_server)])
def open_store(request):
    """A way to open each kind of store for a folder."""
    if request.param == "redis":
        return request.getfixturevalue("redis").opener()
    if request.param is SqliteStore:
        return lambda folder, is_lasting: SqliteStore(folder + ".db", is_lasting=is_lasting)
    return request.param


@pytest.mark.parametrize("is_lasting", [True, False])
@pytest.mark.parametrize("snapshot_bytes", [1 << 40, 1_000])
def test_what_was_acknowledged_is_there_at_the_next_start(folder, monkeypatch, open_store, snapshot_bytes, is_lasting):
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", snapshot_bytes)
    host = Host(folder, open_store, is_lasting=is_lasting)
    host.begin()
    for number in range(1, 101):
        host.record(number)
        assert host.done() < number  # never before the disk has it
    while host.done() < 100:
        host.hear()
    state = list(host.member.replica.dump())
    host.log.close()
    again = Host(folder, open_store)
    assert list(again.member.replica.dump()) == state and again.member.epoch == 1
    again.begin()
    again.record(100)  # sent again by a client that has not heard
    again.record(101)
    while again.done() < 101:
        again.hear()
    assert again.member.replica.sequence == 101
    again.log.close()


def test_who_starts_on_a_long_log_leaves_a_short_one(folder, monkeypatch, open_store):
    """A head that is started again now and then writes less in each life than what a snapshot is taken for."""
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 30_000)
    found = []
    for life in range(4):
        host = Host(folder, open_store)
        found.append(sum(len(entry.payload) for entry in host.log._store.records()))
        host.begin()
        for number in range(life * 100 + 1, life * 100 + 101):
            host.record(number)
        while host.done() < life * 100 + 100 or host.member.is_saving:
            host.hear()
        assert host.member.sequence == life * 100 + 100
        host.log.close()
    assert 15_000 < found[1] < 30_000 and found[2] < found[1], found


def test_a_long_log_is_made_short_before_anybody_asks_for_more(folder, monkeypatch):
    host = Host(folder)
    host.begin()
    for number in range(1, 101):
        host.record(number)
    while host.done() < 100:
        host.hear()
    before = list(host.member.replica.dump())
    host.log.close()
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 1_000)
    again = Host(folder)
    again.begin()
    while again.member.is_saving:
        again.hear()
    again.log.close()
    store = Log(folder)
    assert sum(len(entry.payload) for entry in store.records()) < 100
    assert [entry.payload for entry in store.snapshot()][1:] == before[1:]  # the first has the epoch
    store.close()


def test_requests_share_appends(folder):
    host = Host(folder)
    host.begin()
    before = host.orders
    for number in range(1, 101):
        host.record(number)  # and hears nothing meanwhile
    while host.done() < 100:
        host.hear()
    assert host.orders - before == 2
    host.log.close()


def test_a_second_process_is_refused(folder, open_store):
    host = Host(folder, open_store)
    with pytest.raises(StoreLocked):
        Host(folder, open_store)
    host.log.close()


def test_a_record_with_right_checksums_that_makes_no_sense_is_refused_with_its_place(folder):
    host = Host(folder)
    host.begin()
    host.log.close()
    log = Log(folder)
    offset = log._end
    log.append([b"\x93\x01\x02\x03"])
    log.close()
    with pytest.raises(StoreDamaged, match="no record of a shard") as caught:
        Host(folder)
    assert caught.value.offset == offset
    Log(folder).close()  # the folder is not left locked


@needs_server
def test_a_record_on_a_server_that_makes_no_sense_is_refused_with_its_number(folder, redis):
    Host(folder, redis.opener()).log.close()
    store = redis.opener()(folder)
    store.append([b"\x93\x01\x02\x03"])
    store.close()
    with pytest.raises(StoreDamaged, match="record 1 .*no record of a shard"):
        Host(folder, redis.opener())


@needs_server
def test_a_server_that_is_lost_holds_requests_and_is_said_until_it_is_back(folder):
    with running() as server:
        host = Host(folder, server.opener())
        host.begin()
        host.record(1)
        host.hear()
        server.kill()
        host.record(2)
        host.hear()
        place = server.address().text
        (line,) = host.lines
        assert line.startswith(f"GCS shard 0 cannot write its log in {place}: ")
        assert line.endswith("; tasks and actors wait until the server answers, and the shard continues by itself")
        assert place in host.member.statistics()["refuses"] and host.done() == 1
        server.start()
        host.tell("timer", host.timers.pop())
        while host.done() < 2:
            host.hear()
        assert host.lines[1].startswith(f"GCS shard 0 can write its log in {place} again, after ")
        server.order("FLUSHALL")
        host.record(3)
        host.hear()
        assert "were acknowledged" in host.ended and host.member.is_out
        host.log.close()


def test_a_failed_fsync_ends_the_replica(folder, monkeypatch):
    host = Host(folder)
    host.begin()

    def fails(descriptor):
        raise OSError(5, "input/output error")

    monkeypatch.setattr(log_module, "_sync", fails)
    host.record(1)
    host.hear()
    assert "fsync failed" in host.ended and host.member.is_out
    assert host.done() == 0
    host.log.close()


def test_a_full_disk_holds_requests_until_there_is_space(folder, monkeypatch):
    host = Host(folder)
    host.begin()

    def full(descriptor, data):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(log_module, "_write", full)
    host.record(1)
    host.hear()
    host.record(2)
    assert "no space left" in host.member.statistics()["refuses"]
    assert host.done() == 0 and host.member.entrance.held
    monkeypatch.undo()
    host.tell("timer", host.timers.pop())
    while host.done() < 2:
        host.hear()
    assert "refuses" not in host.member.statistics()
    host.log.close()


def test_a_full_disk_is_said_when_it_begins_once_a_minute_and_when_it_is_over(folder, monkeypatch):
    host = Host(folder)
    host.begin()
    clock = 1_000.0
    monkeypatch.setattr(replica_log.time, "monotonic", lambda: clock)

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    def retry(seconds):
        nonlocal clock
        clock += seconds
        host.tell("timer", host.timers.pop())
        host.hear()

    monkeypatch.setattr(log_module, "_write", full)
    host.record(1)
    host.hear()
    said = (
        f"GCS shard 0 cannot write its log in {folder}: No space left on device; tasks and actors wait until the disk "
        "has free space.  Free some, and the shard continues by itself"
    )
    assert host.lines == [said]
    for _ in range(10):
        retry(1.0)
    assert host.lines == [said]
    retry(50.0)
    assert host.lines == [said] * 2
    monkeypatch.setattr(log_module, "_write", os.write)
    retry(1.0)
    assert host.lines[2:] == [f"GCS shard 0 can write its log in {folder} again, after 61 s"]
    assert host.done() == 1
    monkeypatch.setattr(log_module, "_write", full)  # and soon again: no more often for that
    host.record(2)
    host.hear()
    monkeypatch.setattr(log_module, "_write", os.write)
    retry(1.0)
    assert len(host.lines) == 3 and host.done() == 2
    host.log.close()


@pytest.mark.parametrize("is_lasting", [True, False])
def test_specs_leave_memory_for_the_store_and_come_back(folder, open_store, is_lasting, monkeypatch):
    monkeypatch.setattr(flushing, "PAGE_BYTES", 2_000)
    host = Host(folder, open_store, is_lasting=is_lasting, lineage_bytes=5_000)
    host.begin()
    for number in range(1, 101):
        host.record(number)
    tasks = host.member.replica.shard.tasks
    while host.done() < 100 or tasks.weight > 5_000:
        host.hear()
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 0)
    host.record(101)
    while type(host.orders_given[-1]) is not SaveSnapshot or host.member.is_saving:
        host.hear()
    host.log.close()
    again = Host(folder, open_store, is_lasting=is_lasting, lineage_bytes=5_000)
    again.begin()
    tasks = again.member.replica.shard.tasks
    assert len(tasks.pages) > 5 and len(tasks.records) == 101
    wanted = b"%016d" % 1 + FIRST_RETURN
    questions = NodeLost("n2/local", "silent"), SubscribeObject("n1/local", wanted)
    requests = [("n1/local", question) for question in questions]
    again.tell(CLIENT, ChainWrite(again.member.epoch, 102, 0, requests))
    while not again.replies(RebuildObject):
        again.hear()
    (order, *_) = again.replies(RebuildObject)
    assert order.spec.args == b"a" * 100 and order.spec.task_id == b"%016d" % 1
    again.log.close()


def test_specs_leave_memory_as_fast_as_they_come_while_snapshots_are_written_too(folder, monkeypatch):
    monkeypatch.setattr(flushing, "PAGE_BYTES", 2_000)
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 20_000)
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 5)
    host = Host(folder, is_lasting=False, lineage_bytes=20_000)
    host.begin()
    tasks = host.member.replica.shard.tasks
    flushed = 0
    for number in range(1, 501):
        host.record(number)
        for _ in range(min(3, host.inbox.qsize())):
            is_saving = host.member.is_saving
            before = len(tasks.pages)
            host.hear()
            flushed += is_saving and len(tasks.pages) > before
        assert tasks.weight <= 1.5 * 20_000
    assert flushed > 3
    host.log.close()
    again = Host(folder, is_lasting=False, lineage_bytes=20_000)
    assert len(again.member.replica.shard.tasks.records) == 500
    for page in again.member.replica.shard.tasks.pages:
        assert again.log._store.read_page(page)
    again.log.close()


def test_a_damaged_page_is_named_by_its_file(folder):
    log = Log(folder)
    number = log.write_page(b"something")
    assert log.read_page(number) == b"something"
    path = log._path("page", number)
    with open(path, "r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    with pytest.raises(StoreDamaged, match="page-0+1 at byte"):
        log.read_page(number)
    (damaged,) = [found for found in check(folder) if found.is_damaged]
    assert damaged.path == path
    log.keep_pages([], number - 1)
    log.keep_pages([], number)
    with pytest.raises(StoreDamaged, match="it cannot be read: No such file"):
        log.read_page(number)
    log.close()
