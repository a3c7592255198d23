"""The store on a server: nothing acknowledged is lost or doubled, whatever becomes of the server or of the store."""

import contextlib
import itertools
import os
import re
import shutil
import signal

import pytest

from benchmarks import redis_store
from tests.gates import until
from tests.store.redis_servers import PROGRAM, PROGRAMS, Proxy, RedisServer, needs_server, running
from tests.store.test_log_deaths import mounts
from zray.store import owner, redis_server
from zray.store.durable import StoreAway, StoreBroken, StoreDamaged, StoreFull, StoreLocked
from zray.store.redis_store import APPEND, MARK, RedisStore

pytestmark = needs_server
GROUP = [b"one", b"", b"three" * 9]


@pytest.fixture(scope="module")
def lasting():
    """A server for tests that leave it as it was."""
    with running() as server:
        yield server


@pytest.fixture
def server():
    with running() as server:
        yield server


def read(store):
    return [entry.payload for entry in store.records()]


def parts(store):
    return [entry.payload for entry in store.snapshot()]


def check(server, folder, records, snapshot=()):
    """A store that is opened now finds these records."""
    store = server.store(folder)
    assert read(store) == list(records) and parts(store) == list(snapshot)
    store.close()


@pytest.mark.parametrize("kind", PROGRAMS)
def test_store_works_with_both_servers(tmp_path, kind):
    if PROGRAMS[kind] is None:
        pytest.skip(f"{kind}-server is not installed")
    with running(PROGRAMS[kind]) as server:
        store = server.store(tmp_path / "a")
        assert store.append(GROUP) == 3
        store.close()
        server.kill()
        server.start()
        check(server, tmp_path / "a", GROUP)


def test_groups_of_any_size_and_large_records(lasting, tmp_path):
    group = [b"%d" % number for number in range(12_000)]
    store = lasting.store(tmp_path / "a", "zray:large:0")
    store.append(group)
    store.append([b"x" * 3_000_000])
    assert read(store) == [*group, b"x" * 3_000_000]
    assert [entry.sequence for entry in store.records()] == list(range(1, 12_002))
    store.close()


def test_a_changed_record_is_named(lasting, tmp_path):
    store = lasting.store(tmp_path / "a", "zray:damaged:0")
    store.append(GROUP)
    lasting.order("LSET", "zray:damaged:0:log", 1, b"abcdefg")
    with pytest.raises(StoreDamaged, match="zray:damaged:0:log record 2.*checksum"):
        read(store)
    store.close()


# --- owners ---


def test_a_second_store_is_locked_out_while_the_first_is_connected(lasting, tmp_path):
    first = lasting.store(tmp_path / "a", "zray:locked:0")
    with pytest.raises(StoreLocked, match="in use under zray:locked:0 by the connection [0-9]+ from"):
        lasting.store(tmp_path / "b", "zray:locked:0")
    first.append(GROUP)
    first.close()
    lasting.store(tmp_path / "b", "zray:locked:0", patience=5.0).close()


def test_a_dead_owner_whose_connection_stays_is_replaced_at_once(lasting, tmp_path, monkeypatch):
    """A connection is left by a machine without power; here by a process that had no time to start anew."""
    first = lasting.store(tmp_path / "a", "zray:dead:0")
    machine, boot, namespace, pid, started = owner.place().split(" ")
    for place, is_dead in [
        (f"{machine} {boot} {namespace} {pid} {started}", False),
        (f"another {boot}x {namespace} {pid} {started}", False),
        (f"{machine} {boot} pid:[1] {pid} 1", False),
        ("", False),
        (f"{machine} {boot} {namespace} {pid} 1", True),
        (f"{machine} another {namespace} {pid} {started}", True),
    ]:
        lasting.order("HSET", "zray:dead:0:head", "place", place)
        assert owner.has_ended(place) is is_dead
        if is_dead:
            lasting.store(tmp_path / "b", "zray:dead:0").close()
            continue
        with pytest.raises(StoreLocked):
            lasting.store(tmp_path / "b", "zray:dead:0")
    with pytest.raises(StoreBroken, match="replaced"):
        first.append(GROUP)
    first.close()


def test_a_write_of_the_server_that_was_cut_off_counts_as_a_whole_or_not_at_all(server, tmp_path):
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    store.begin_snapshot()
    store.add_to_snapshot(b"state")
    file, sizes = server.log(), [server.log().stat().st_size]
    group = [b"%d" % number for number in range(1_500)]  # more than the script writes at a time
    store.append(group)
    sizes.append(file.stat().st_size)
    store.end_snapshot()
    sizes.append(file.stat().st_size)
    store.close()
    server.kill()
    whole = file.read_bytes()
    states = [(GROUP, []), ([*GROUP, *group], []), (group, [b"state"])]
    found = set()
    for number, (start, end) in enumerate(itertools.pairwise(sizes)):
        for size in [*range(start, end, (end - start) // 5), end - 1, end]:
            file.write_bytes(whole[:size])
            (tmp_path / "a" / MARK).unlink()
            server.start()
            store = server.store(tmp_path / "a")
            state = (read(store), parts(store))
            found.add(states.index(state))
            assert state == states[number + (size == end)], size
            store.close()
            server.kill()
    assert found == {0, 1, 2}


def test_a_store_that_was_replaced_writes_nothing_more(server, tmp_path):
    first = server.store(tmp_path / "a")
    first.append(GROUP)
    server.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    second = server.store(tmp_path / "b")
    for _ in range(2):
        with pytest.raises(StoreBroken, match=rf"process {os.getpid()} on .* so this head has been replaced"):
            first.append([b"late"])
    with pytest.raises(StoreBroken, match="replaced"):
        first.begin_snapshot()
    assert second.append([b"more"]) == 4 and read(second) == [*GROUP, b"more"]
    first.close()
    second.close()


def test_a_command_of_a_lost_connection_that_arrives_late_does_nothing(lasting, tmp_path):
    store = lasting.store(tmp_path / "a", "zray:late:0")
    store.append(GROUP)
    epoch = store._epoch
    store._is_away = True
    store.append([b"more"])
    store._epoch, current = epoch, store._epoch
    with pytest.raises(StoreBroken):
        store._run(APPEND, store.last, b"late")
    store._epoch, store.broken = current, ""
    assert epoch != current and store.append([b"and more"]) == 5
    store.close()


def test_a_connection_that_was_closed_is_made_again_at_once(server, tmp_path):
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    for number in range(3):
        server.order("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        server.order("SCRIPT", "FLUSH")
        assert store.append([b"%d" % number]) == 4 + number
    store.close()


# --- deaths ---


@pytest.mark.parametrize("at", Proxy.POINTS)
def test_a_server_that_is_killed_at_any_point_of_a_write_loses_and_doubles_nothing(server, tmp_path, at):
    proxy = Proxy(server)
    store = RedisStore(str(tmp_path / "a"), server.address(proxy.path), "zray:test:gcs-0:0")
    store.append([b"0"])  # the server knows the script then
    kept = [b"0"]

    def is_lost(write, *arguments):
        proxy.at = at
        with pytest.raises(StoreAway):
            write(*arguments)
        server.start()

    is_lost(store.append, [b"1", b"2"])
    assert store.append([b"1", b"2"]) == 3  # again, as a role does
    is_lost(store.append, [b"3"])
    assert store.append([b"other"]) in (4, 5)  # the role has given that one up
    kept = read(store)
    assert kept in ([b"0", b"1", b"2", b"other"], [b"0", b"1", b"2", b"3", b"other"])
    for step in range(3):
        steps = (store.begin_snapshot, ()), (store.add_to_snapshot, (b"state",)), (store.end_snapshot, ())
        for write, arguments in steps[:step]:
            write(*arguments)
        is_lost(steps[step][0], *steps[step][1])
        if step < 2:
            assert store.append([b"%d" % step]) == store.last
            kept.append(b"%d" % step)
            with pytest.raises(StoreFull, match="in the middle of a snapshot"):
                store.add_to_snapshot(b"more")
                store.end_snapshot()
            assert (read(store), parts(store)) == (kept, [])
    store.append([b"last"])
    assert (read(store), parts(store)) in (([*kept, b"last"], []), ([b"last"], [b"state"]))
    found = (read(store), parts(store))
    store.close()
    proxy.close()
    check(server, tmp_path / "a", *found)


def test_kills_of_server_and_writer_at_any_moment_lose_and_double_nothing(tmp_path, capsys):
    measured = redis_store.Server(PROGRAM, str(tmp_path))
    try:
        redis_store.kill_often(measured, 8, seed=2)
    finally:
        measured.kill()
    assert re.fullmatch(r"5 kills of the server, 3 of the writer: [\d,]+ records, none lost\n", capsys.readouterr().out)


def test_the_figures_of_the_store(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(redis_store, "LONE", 2)
    monkeypatch.setattr(redis_store, "GROUPS", 1)
    measured = redis_store.Server(PROGRAM, str(tmp_path))
    try:
        redis_store.show(redis_store.measure(measured, 1))
    finally:
        measured.kill()
    _, *rows, ratio = capsys.readouterr().out.splitlines()
    assert [row[:26].strip() for row in rows] == [
        "the bare client, RPUSH",
        "the store on the server",
        "a log on this disk",
    ]
    assert re.fullmatch(r"of the client's: [\d.]+ of the time alone, [\d.]+ of the rate in groups", ratio)


def test_a_server_that_stands_still_is_said_to_and_then_goes_on(server, tmp_path, monkeypatch):
    monkeypatch.setattr(redis_server, "SILENT_SECONDS", 0.2)
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    page = store.write_page(b"page")
    server.signal(signal.SIGSTOP)
    for _ in range(3):
        with pytest.raises(StoreAway, match="does not answer for 0.2 s") as caught:
            store.append([b"more"])
        assert caught.value.is_silent and store.read_page(page) == b"page"
    server.signal(signal.SIGCONT)
    assert store.append([b"more"]) == 4 and read(store) == [*GROUP, b"more"]
    store.close()


# --- records that are gone ---


def test_a_server_that_was_emptied_ends_the_store_with_both_numbers(server, tmp_path):
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    server.order("FLUSHALL")
    for _ in range(2):
        with pytest.raises(StoreBroken, match="it has 0 records of zray:test:gcs-0:0, and 3 were acknowledged"):
            store.append([b"more"])
    store.close()
    with pytest.raises(StoreBroken, match="it has 0 records of .* and 3 were acknowledged"):
        server.store(tmp_path / "a")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_server_that_comes_back_with_an_older_copy_ends_the_store_with_both_numbers(server, tmp_path, is_open):
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    store.begin_snapshot()
    store.add_to_snapshot(b"state")
    store.end_snapshot()
    server.kill()
    shutil.copytree(server.data, tmp_path / "copy")
    server.start()
    store.append([b"more"])
    if not is_open:
        store.close()
    server.kill()
    shutil.rmtree(server.data)
    shutil.copytree(tmp_path / "copy", server.data)
    server.start()
    with pytest.raises(StoreBroken, match="it has 3 records .* and 4 were acknowledged, so it was emptied"):
        store.append([b"and more"]) if is_open else server.store(tmp_path / "a")
    store.close()


def test_an_older_copy_that_lacks_nothing_is_no_reason_to_end(server, tmp_path):
    server.kill()
    shutil.copytree(server.data, tmp_path / "copy")
    server.start()
    store = server.store(tmp_path / "a")
    server.kill()
    shutil.rmtree(server.data)
    shutil.copytree(tmp_path / "copy", server.data)
    server.start()
    assert store.append(GROUP) == 3
    store.close()
    check(server, tmp_path / "a", GROUP)


def test_records_of_another_program_end_the_store(server, tmp_path):
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    server.order("RPUSH", "zray:test:gcs-0:0:log", "mine")
    with pytest.raises(StoreBroken, match="it has 4 records, where 3 belong: another program"):
        store.append([b"more"])
    store.close()


def test_a_store_whose_mark_is_older_than_the_server_goes_on(server, tmp_path):
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    store.close()
    for content in (b"", bytes(20)):  # the machine lost power before the mark was on the disk
        (tmp_path / "a" / MARK).write_bytes(content)
        check(server, tmp_path / "a", GROUP)


# --- full disks and full memory ---


@pytest.mark.skipif(not mounts(), reason="this user may not mount a small disk")
def test_a_server_ends_when_its_disk_is_full_and_has_all_when_it_is_back(tmp_path):
    server = RedisServer()
    fill, free = f"head -c 700k /dev/zero > {server.data}/filler", f"rm {server.data}/filler"
    script = f'mount -t tmpfs -o size=1m none {server.data} && {fill}; "$@"; {free}; exec "$@"'
    server.wrapper = ["unshare", "--mount", "sh", "-c", script, "sh"]
    try:
        store = server.start().store(tmp_path / "a")
        with pytest.raises(StoreAway):
            while True:
                store.append([b"r" * 5_000])
        lost = store.last

        def append():
            with contextlib.suppress(StoreAway):
                return store.append([b"r" * 5_000])

        assert until(append) == lost + 1 > 50
        store.close()
        check(server, tmp_path / "a", [b"r" * 5_000] * (lost + 1))
    finally:
        server.close()


def test_a_server_without_memory_is_a_full_store_until_it_has_some(server, tmp_path):
    store = server.store(tmp_path / "a")
    store.append(GROUP)
    server.order("CONFIG", "SET", "maxmemory", server.order("INFO", "memory")["used_memory"] // 2)
    for write, arguments in (store.append, [[b"more"] * 3_000]), (store.begin_snapshot, []), (store.append, [[b"x"]]):
        if write == store.begin_snapshot:
            write(*arguments)  # an order that frees
        else:
            with pytest.raises(StoreFull, match="maxmemory") as caught:
                write(*arguments)
            assert (caught.value.why, caught.value.until) == (
                "the server has no memory left (maxmemory)",
                "it has room again, and",
            )
    with pytest.raises(StoreFull):
        store.add_to_snapshot(b"state")
    assert read(store) == GROUP
    store.close()
    store = server.store(tmp_path / "a")  # a head may start
    server.order("CONFIG", "SET", "maxmemory", "0")
    assert store.append([b"more"]) == 4
    store.close()
