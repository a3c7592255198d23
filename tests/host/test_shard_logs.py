"""A replica on a real log: acknowledged when it is on the disk, there again at the next start."""

import queue

import pytest

from zray.host.shard_logs import ShardLog
from zray.roles.effects import AppendToLog, EndSession, SaveSnapshot, Send, SetTimer
from zray.roles.gcs import journal
from zray.roles.gcs.chain import ChainMember
from zray.store import log as log_module
from zray.store.durable import StoreDamaged, StoreLocked
from zray.store.log import Log
from zray.store.sqlite_store import SqliteStore
from zray.wire.chain import ChainChanged, ChainJoined, ChainResults, ChainWrite
from zray.wire.gcs import RecordTasks
from zray.wire.task_spec import TaskSpec

CLIENT = "n1/shard-0"


class Host:
    """One process with one replica; the test is its reactor."""

    def __init__(self, folder, open_store=Log, *, is_lasting=True):
        self.inbox = queue.SimpleQueue()
        self.member = ChainMember("s1/gcs-0", "gcs-0", "chains", is_durable=True)
        self.log = ShardLog(
            folder, self.member, lambda role, message: self.inbox.put(message), open_store, is_lasting=is_lasting
        )
        self.sent = []
        self.timers = []
        self.ended = ""
        self.orders = 0
        self.member.start()
        self.perform(self.member.take_effects())

    def perform(self, effects):
        for effect in effects:
            if type(effect) in (AppendToLog, SaveSnapshot):
                self.orders += 1
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
        self.hear()
        assert type(self.sent.pop()) is ChainJoined

    def record(self, number):
        """One request."""
        request = ("n1/local", RecordTasks("n1/local", [TaskSpec(b"%016d" % number, b"f" * 16, b"a" * 100)], number))
        self.tell(CLIENT, ChainWrite(self.member.epoch, number, 0, [request]))

    def hear(self):
        """What the log has to say."""
        self.tell("host", self.inbox.get(timeout=20))

    def done(self):
        """The last request that was acknowledged."""
        return max((message.applied for message in self.sent if type(message) is ChainResults), default=0)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "gcs-0")


@pytest.mark.parametrize("is_lasting", [True, False])
@pytest.mark.parametrize("open_store", [Log, SqliteStore])
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


def test_a_second_process_is_refused(folder):
    host = Host(folder)
    with pytest.raises(StoreLocked):
        Host(folder)
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
    assert host.done() == 0 and host.member.held
    monkeypatch.undo()
    host.tell("timer", host.timers.pop())
    while host.done() < 2:
        host.hear()
    assert "refuses" not in host.member.statistics()
    host.log.close()
