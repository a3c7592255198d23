"""The log: what was acknowledged is there, what is torn is cut, what is damaged is refused with its place."""

import errno
import os
import struct
from zlib import crc32

import pytest

from tests.store.redis_servers import needs_server, running
from zray.store import log as log_module
from zray.store import records
from zray.store.durable import StoreBroken, StoreDamaged, StoreFull, StoreLocked
from zray.store.log import Log
from zray.store.sqlite_store import SqliteStore

GROUPS = [[b"one"], [b"two", b"", b"three" * 9], [b"\0" * 5, b"Z" * 40], [b"last"]]
ALL = [payload for group in GROUPS for payload in group]


def read(store):
    return [entry.payload for entry in store.records()]


def parts(store):
    return [entry.payload for entry in store.snapshot()]


def reopened(folder):
    """What a start finds, twice: recovery leaves nothing for the next one to do."""
    found = None
    for _ in range(2):
        log = Log(folder)
        now = (parts(log), read(log), log.last)
        log.close()
        assert found in (None, now)
        found = now
    return found


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "gcs")


@pytest.fixture
def redis():
    with running() as server:
        yield server


@pytest.fixture
def written(folder):
    """A log of GROUPS.  Returns the folder, the path of its file and where the groups end, in bytes."""
    log = Log(folder)
    path = log._path("log", 0)
    ends = [os.path.getsize(path)]
    for group in GROUPS:
        log.append(group)
        ends.append(os.path.getsize(path))
    log.close()
    return folder, path, ends


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    with open(path, "wb") as file:
        file.write(data)


@pytest.mark.parametrize("kind", ["log", "sqlite", pytest.param("redis", marks=needs_server)])
def test_what_was_appended_is_there_at_the_next_start(tmp_path, kind, request):
    path = str(tmp_path / "store")
    if kind == "redis":
        server = request.getfixturevalue("redis")

    def open_it():
        if kind == "redis":
            return server.store(path)
        return Log(path) if kind == "log" else SqliteStore(path)

    store = open_it()
    for group in GROUPS:
        store.append(group)
    assert (store.last, read(store)) == (len(ALL), ALL)
    store.close()
    store = open_it()
    assert (store.last, read(store), parts(store), store.cut_bytes) == (len(ALL), ALL, [], 0)
    with pytest.raises(StoreLocked):
        open_it()
    store.begin_snapshot()
    store.add_to_snapshot(b"one that is dropped")
    store.begin_snapshot()
    store.add_to_snapshot(b"half")
    assert store.append([b"more"]) == len(ALL) + 1
    assert (read(store), parts(store)) == ([*ALL, b"more"], [])
    store.add_to_snapshot(b"the other")
    store.end_snapshot()
    assert (read(store), parts(store)) == ([b"more"], [b"half", b"the other"])
    store.close()
    store = open_it()
    assert (store.last, read(store), parts(store)) == (len(ALL) + 1, [b"more"], [b"half", b"the other"])
    assert [entry.sequence for entry in store.records()] == [len(ALL) + 1]
    store.begin_snapshot()
    store.add_to_snapshot(b"not whole")
    store.append([b"and more"])
    store.close()
    store = open_it()
    assert (read(store), parts(store)) == ([b"more", b"and more"], [b"half", b"the other"])
    store.begin_snapshot()
    store.add_to_snapshot(b"whole")
    store.end_snapshot()
    assert (read(store), parts(store)) == ([], [b"whole"])
    store.close()


@pytest.mark.parametrize("is_lasting", [True, False])
def test_only_what_is_to_outlive_the_machine_waits_for_the_disk(tmp_path, monkeypatch, is_lasting):
    synced = []
    monkeypatch.setattr(log_module, "_sync", synced.append)
    log = Log(str(tmp_path / "store"), is_lasting=is_lasting)
    log.append([b"record"])
    log.save_snapshot([b"state"])
    log.close()
    assert bool(synced) is is_lasting
    again = Log(str(tmp_path / "store"))
    assert [entry.payload for entry in again.snapshot()] == [b"state"]
    again.close()


def test_cut_at_every_byte_it_starts_at_the_last_whole_record(written):
    folder, path, ends = written
    whole = content(path)
    for length in range(len(whole)):
        put(path, whole[:length])
        found, last = reopened(folder)[1:]
        assert found == ALL[:last]
        # Every group that lies wholly before the cut is there.
        assert last >= sum(len(group) for group, end in zip(GROUPS, ends[1:], strict=True) if end <= length)


def test_after_a_cut_it_goes_on_where_the_whole_records_end(written):
    folder, path, ends = written
    put(path, content(path)[: ends[2] + 20])
    log = Log(folder)
    assert log.cut_bytes == 20 and log.last == 4
    assert log.append([b"new"]) == 5
    log.close()
    assert reopened(folder)[1] == [*ALL[:4], b"new"]


def test_with_any_byte_changed_it_refuses_and_says_where(written):
    folder, path, ends = written
    whole = content(path)
    for at in range(len(whole)):
        for change in (0x01, 0x80, 0xFF):
            put(path, whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
            with pytest.raises(StoreDamaged) as caught:
                Log(folder).close()
            assert caught.value.file == path
            assert caught.value.offset <= at < caught.value.offset + 24 + 45
            assert f"byte {caught.value.offset}" in str(caught.value)


def test_a_snapshot_with_any_byte_changed_or_missing_is_refused(folder):
    log = Log(folder)
    log.append(ALL)
    log.save_snapshot([b"first part", b"second part"])
    path = log._path("snapshot", len(ALL))
    log.close()
    whole = content(path)
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]):
            put(path, data)
            with pytest.raises(StoreDamaged) as caught:
                Log(folder).close()
            assert caught.value.file == path and caught.value.offset <= at
    put(path, whole + whole[24:])
    with pytest.raises(StoreDamaged):
        Log(folder).close()


def craft(sequence, payload, *, version=1, length=None, flags=records.BEGINS_GROUP):
    """A record whose checksums are right, whatever it says."""
    length = len(payload) if length is None else length
    header = struct.pack("<2sBBIQI", b"ZR", version, flags, length, sequence, crc32(payload))
    return header + struct.pack("<I", crc32(header)) + payload


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (craft(8, b"x", version=7), "version 7"),
        (craft(8, b"x", length=1 << 31), str(1 << 31)),
        (craft(9, b"x"), "record 9, where 8 belongs"),
        (craft(7, b"x"), "record 7, where 8 belongs"),
    ],
)
def test_records_edited_by_hand_are_refused_with_the_offset(written, record, said):
    folder, path, ends = written
    put(path, content(path) + record)
    with pytest.raises(StoreDamaged, match=said) as caught:
        Log(folder)
    assert caught.value.offset == ends[-1]


def test_sectors_that_were_never_written_are_torn_only_at_the_end(folder):
    """After a power cut, a file may be as long as it should be, with zeros in it."""
    log = Log(folder)
    path = log._path("log", 0)
    log.append([b"a" * 2_000])
    log.append([b"b" * 2_000, b"c" * 2_000])
    log.close()
    whole = content(path)
    for start, end in ((3_072, 3_584), (2_560, 6_144), (4_608, len(whole)), (2_048, len(whole))):
        put(path, whole[:start] + bytes(end - start) + whole[end:])
        if start < 24 + 24 + 2_000:  # reaches into what was acknowledged before the last group was begun
            with pytest.raises(StoreDamaged):
                Log(folder)
        else:
            assert reopened(folder)[1] in ([b"a" * 2_000], [b"a" * 2_000, b"b" * 2_000])
    put(path, whole[:512] + bytes(512) + whole[1_024:])
    with pytest.raises(StoreDamaged, match="whole ones follow") as caught:
        Log(folder)
    assert caught.value.offset == 24
    put(path, whole + bytes(4_096))
    assert reopened(folder)[1] == [b"a" * 2_000, b"b" * 2_000, b"c" * 2_000]


def test_a_death_at_any_moment_of_a_snapshot_loses_nothing(folder, monkeypatch):
    """Every rename and removal may be the last thing that happens."""

    class Death(Exception):
        pass

    def write_all(folder, deaths):
        left = [deaths]

        def dies(function):
            def step(*args, **options):
                if not left[0]:
                    raise Death
                left[0] -= 1
                return function(*args, **options)

            return step

        log = Log(folder)
        log.append(ALL[:3])
        acknowledged = 3
        try:
            with monkeypatch.context() as patch:
                for name in ("rename", "unlink"):
                    patch.setattr(log_module.os, name, dies(getattr(os, name)))
                patch.setattr(log_module, "_write", dies(os.write))
                for upto in (3, 5, 7):
                    log.append(ALL[acknowledged:upto])
                    acknowledged = upto
                    log.begin_snapshot()
                    log.add_to_snapshot(b"%d" % upto)
                    log.append(ALL[acknowledged : upto + 1])
                    acknowledged = min(upto + 1, len(ALL))
                    log.add_to_snapshot(b"more")
                    log.end_snapshot()
        except Death:
            return acknowledged, False
        finally:
            log.close()
        return acknowledged, True

    deaths, is_done = 0, False
    while not is_done:
        here = f"{folder}-{deaths}"
        acknowledged, is_done = write_all(here, deaths)
        state, found, last = reopened(here)
        known = int(state[0]) if state else 0
        assert last >= acknowledged and ALL[:known] + found == ALL[:last]
        deaths += 1
    assert deaths > 15 and sorted(os.listdir(here)) == ["lock", f"log-{7:020}", f"snapshot-{7:020}"]


def test_records_that_are_missing_between_files_are_refused(folder):
    log = Log(folder)
    log.append(ALL)
    log.save_snapshot([b"state"])
    log.close()
    os.unlink(os.path.join(folder, f"snapshot-{7:020}"))
    with pytest.raises(StoreDamaged, match="records 1 to 7 are missing"):
        Log(folder)


def test_a_second_process_is_told_whose_it_is(folder):
    log = Log(folder)
    with pytest.raises(StoreLocked, match=f"process {os.getpid()} of boot"):
        Log(folder)
    log.close()
    Log(folder).close()


def test_a_folder_that_others_may_enter_is_refused(folder):
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    with pytest.raises(PermissionError):
        Log(folder)


def test_a_failed_fsync_is_final(folder, monkeypatch):
    log = Log(folder)
    log.append([b"good"])

    def fails(descriptor):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(log_module, "_sync", fails)
    with pytest.raises(StoreBroken, match="fsync"):
        log.append([b"who knows"])
    monkeypatch.undo()
    for attempt in (lambda: log.append([b"more"]), lambda: log.save_snapshot([b"state"])):
        with pytest.raises(StoreBroken, match="fsync"):
            attempt()  # never as if the disk were clean
    assert read(log) == [b"good"]
    log.close()
    assert reopened(folder)[1][0] == b"good"


def test_a_failed_write_is_final(folder, monkeypatch):
    log = Log(folder)

    def fails(descriptor, data):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(log_module, "_write", fails)
    for _ in range(2):
        with pytest.raises(StoreBroken, match="a write failed"):
            log.append([b"x"])
    log.close()


@pytest.mark.parametrize("room", [0, 1, 23, 24, 25, 60])
def test_a_full_disk_refuses_and_recovers(folder, monkeypatch, room):
    """Whatever fitted of the append is taken back."""
    log = Log(folder)
    log.append(ALL[:3])
    left = [room]

    def write(descriptor, data):
        count = min(len(data), left[0])
        if not count:
            raise OSError(errno.ENOSPC, "no space left on device")
        left[0] -= count
        return os.write(descriptor, bytes(data)[:count])

    monkeypatch.setattr(log_module, "_write", write)
    for _ in range(2):
        with pytest.raises(StoreFull, match="no space left"):
            log.append([b"does not fit" * 9])
        with pytest.raises(StoreFull):
            log.save_snapshot([b"nor does this" * 9])
    assert (read(log), log.last) == (ALL[:3], 3)
    left[0] = 1 << 20
    assert log.append([b"now"]) == 4
    log.close()
    assert reopened(folder) == ([], [*ALL[:3], b"now"], 4)
