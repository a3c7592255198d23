"""Values larger than the store: they are spilled to disk, and come back."""

import contextlib
import errno
import glob
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import zray
from tests.gates import Gate, until
from zray.exceptions import ObjectLostError, ObjectStoreFullError
from zray.host import context
from zray.host.session.session import Session
from zray.host.session.spill_directory import checked_directory

pytestmark = pytest.mark.timeout(120)

MB = 1_000_000
STORE = 100 * MB
SIZE = 10 * MB


def array(number, size=SIZE):
    return np.full(size // 8, number, dtype=np.float64)


@zray.remote
def make(number, size=SIZE):
    return array(number, size)


@zray.remote
def total(values):
    return float(values.sum())


@zray.remote
def ends_of(one, two):
    return [float(one[0]), float(two[-1])]


@pytest.fixture
def session(tmp_path):
    zray.init(num_cpus=2, object_store_memory=STORE, object_spilling_directory=str(tmp_path))
    yield tmp_path
    zray.shutdown()
    assert not os.listdir(tmp_path), "spill files are left"


def files_in(folder):
    return [path for path in glob.glob(f"{folder}/**", recursive=True) if os.path.basename(path).isdigit()]


def bytes_in(folder):
    size = 0
    for path in files_in(folder):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            size += os.path.getsize(path)
    return size


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not become true"
        zray.wait([zray.put(None)], timeout=0.05)


def test_puts_of_five_stores_are_read_again(session):
    refs = [zray.put(array(number)) for number in range(50)]
    assert files_in(session)
    for number, ref in enumerate(refs):
        value = zray.get(ref)
        assert value.size == SIZE // 8 and (value == number).all()


def test_results_of_five_stores_are_arguments(session):
    blocks = [make.remote(number) for number in range(50)]
    sums = zray.get([total.remote(block) for block in blocks])
    assert sums == [number * SIZE / 8 for number in range(50)]
    pairs = zray.get([ends_of.remote(blocks[number], blocks[-1 - number]) for number in range(25)])
    assert pairs == [[number, 49 - number] for number in range(25)]


def test_values_of_many_sizes_come_back_with_equal_bytes(session):
    random = np.random.default_rng(1)
    sizes = [200_000, 1_300_000, 150_001, 9_000_000, 400_003] * 12
    values = [random.bytes(size) for size in sizes]
    refs = [zray.put(np.frombuffer(value, np.uint8)) for value in values]
    texts = [zray.put({"text": value.hex()[:300_000], "number": n}) for n, value in enumerate(values)]
    for value, ref in zip(values, refs, strict=True):
        assert zray.get(ref).tobytes() == value
    for n, (value, ref) in enumerate(zip(values, texts, strict=True)):
        assert zray.get(ref) == {"text": value.hex()[:300_000], "number": n}


def test_array_that_is_in_use_keeps_its_bytes_while_others_are_spilled(session):
    kept = [zray.get(zray.put(array(number))) for number in range(3)]
    for number in range(30):
        zray.put(array(number + 100))
    refs = [make.remote(number) for number in range(20)]
    assert zray.get([total.remote(ref) for ref in refs])
    assert all((value == number).all() for number, value in enumerate(kept))


def test_files_go_with_the_refs_of_their_values(session):
    refs = [zray.put(array(number)) for number in range(30)]
    assert files_in(session)
    del refs
    wait_until(lambda: not files_in(session))


def test_file_of_which_little_is_in_use_is_copied(session):
    refs = [zray.put(array(number, 500_000)) for number in range(600)]
    before = bytes_in(session)
    kept = refs[::10]
    del refs
    wait_until(lambda: bytes_in(session) < before / 4)
    assert all((zray.get(ref) == 10 * number).all() for number, ref in enumerate(kept))


def test_actor_takes_spilled_values_in_the_order_of_its_calls(session):
    @zray.remote
    class Log:
        def __init__(self, first):
            self.seen = [first[0]]

        def see(self, value):
            self.seen.append(value[0])

        def all(self):
            return self.seen

    refs = [zray.put(array(number)) for number in range(30)]
    log = Log.remote(refs[0])
    for ref in refs[1:]:
        log.see.remote(ref)
    assert zray.get(log.all.remote()) == list(range(30))


def test_wait_without_fetch_restores_nothing(session):
    refs = [zray.put(array(number)) for number in range(30)]
    ready, _ = zray.wait(refs, num_returns=30, fetch_local=False, timeout=10)
    assert len(ready) == 30


def test_generator_of_large_items_that_nobody_draws_is_spilled(session):
    @zray.remote
    def items():
        for number in range(30):
            yield array(number)

    stream = items.remote()
    zray.wait([stream.completed()], timeout=60)
    assert [zray.get(ref)[0] for ref in stream] == list(range(30))


def damage(session, change):
    for path in files_in(session):
        change(path)


def overwrite(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage" * 1000)


@pytest.mark.parametrize("change", [overwrite, os.unlink, lambda path: os.truncate(path, 100)])
def test_result_whose_file_is_damaged_is_made_again(session, change):
    refs = [make.remote(number) for number in range(30)]
    zray.wait(refs, num_returns=30, fetch_local=False)
    damage(session, change)
    assert all((zray.get(ref) == number).all() for number, ref in enumerate(refs))


@pytest.mark.parametrize("change", [overwrite, os.unlink])
@pytest.mark.parametrize("num_returns", [4, "streaming"])
def test_task_with_several_values_is_run_again_where_one_of_them_is_damaged(session, change, num_returns):
    @zray.remote(num_returns=num_returns)
    def row(number):
        yield from (array(4 * number + column, 4 * MB) for column in range(4))

    @zray.remote
    def firsts(*blocks):
        return [int(block[0]) if (block == block[0]).all() else None for block in blocks]

    rows = [list(row.remote(number)) for number in range(12)]
    flat = [ref for refs in rows for ref in refs]
    zray.wait(flat, num_returns=48, fetch_local=False)
    damage(session, change)
    columns = [firsts.remote(*refs) for refs in zip(*rows, strict=True)]
    assert zray.get(columns, timeout=60) == [list(range(column, 48, 4)) for column in range(4)]
    assert [int(zray.get(ref)[0]) for ref in flat] == list(range(48))


def test_put_whose_file_is_gone_is_an_error_that_names_the_file(session):
    refs = [zray.put(array(number)) for number in range(30)]
    damage(session, os.unlink)
    with pytest.raises(ObjectLostError, match="^The copy on disk is lost: the spill file .* cannot be read"):
        zray.get(refs[0], timeout=10)
    with pytest.raises(zray.exceptions.TaskError, match="spill file"):
        zray.get(total.remote(refs[1]), timeout=10)


def test_program_that_computes_returns_places_to_others(session):
    refs = [zray.put(array(number)) for number in range(8)]
    done = make.options(name="later").remote(1, 9 * SIZE)  # it needs all the space that this program was told of
    deadline = time.monotonic() + 30
    while not files_in(session):
        assert time.monotonic() < deadline
        sum(range(100_000))  # no call of zray
    assert zray.get(done).size == 9 * SIZE // 8
    del done
    assert [zray.get(ref)[0] for ref in refs] == list(range(8))


def test_async_program_awaits_spilled_values(session):
    import asyncio

    async def run():
        refs = [make.remote(number) for number in range(40)]
        return [float((await ref)[0]) for ref in refs]

    assert asyncio.run(run()) == list(range(40))


def test_store_is_full_where_spilling_is_off():
    zray.init(num_cpus=1, object_store_memory=STORE, object_spilling_directory="")
    try:
        made = make.remote(0, 2 * SIZE)
        zray.wait([made])
        with pytest.raises(ObjectStoreFullError) as caught:
            refs = []
            for number in range(20):
                refs.append(zray.put(array(number)))
        assert f"put at {__file__}:" in str(caught.value) and "task make" in str(caught.value)
    finally:
        zray.shutdown()


def test_folder_is_chosen_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ZRAY_SPILL_DIR", str(tmp_path / "new"))
    zray.init(num_cpus=1, object_store_memory=STORE)
    try:
        refs = [zray.put(array(number)) for number in range(20)]
        assert files_in(tmp_path / "new") and zray.get(refs[0])[0] == 0
    finally:
        zray.shutdown()


@pytest.fixture
def behind_url(tmp_path):
    """A session that spills to a URL of fsspec; the folder behind that."""
    with zray.init(num_cpus=2, object_store_memory=STORE, object_spilling_directory=f"local://{tmp_path}"):
        yield tmp_path
    assert not files_in(tmp_path), "the session has ended"


def test_values_come_back_from_a_url(behind_url):
    refs = [zray.put(array(number)) for number in range(20)]
    made = [make.remote(number) for number in range(20)]
    assert zray.get([total.remote(ref) for ref in made]) == [number * SIZE // 8 for number in range(20)]
    assert files_in(behind_url)
    for number, ref in enumerate(refs):
        values = zray.get(ref)
        assert values[0] == values[-1] == number
    small = [zray.put(np.full(200_000, number % 256, np.uint8)) for number in range(2_000)]
    assert [int(zray.get(ref)[-1]) for ref in small[::97]] == [number % 256 for number in range(0, 2_000, 97)]
    del refs, made, small, ref, values
    wait_until(lambda: not files_in(behind_url))


def test_result_whose_file_behind_a_url_is_damaged_is_made_again(behind_url):
    refs = [make.remote(number) for number in range(20)]
    zray.wait(refs, num_returns=20, fetch_local=False)
    wait_until(lambda: files_in(behind_url))
    for path in files_in(behind_url):
        with open(path, "r+b") as file:
            file.write(b"damaged")
    assert [float(zray.get(ref)[5]) for ref in refs] == list(range(20))


def test_files_of_a_dead_session_behind_a_url_are_removed_by_the_next(tmp_path):
    (old,) = {path.parent.parent for path in map(pathlib.Path, _spill_to(tmp_path))}
    lost = old / "dead-session"
    lost.mkdir(parents=True)
    (lost / "1").write_bytes(b"left")
    _spill_to(tmp_path)
    assert not lost.exists()


def _spill_to(folder):
    """Paths of the files of a session that spills there."""
    with zray.init(num_cpus=1, object_store_memory=STORE, object_spilling_directory=f"local://{folder}"):
        refs = [zray.put(array(number)) for number in range(20)]
        found = files_in(folder)
        assert found and len(refs) == 20
        return found


def test_url_of_a_file_is_a_folder(tmp_path):
    with zray.init(num_cpus=1, object_store_memory=STORE, object_spilling_directory=f"file://{tmp_path}/new"):
        refs = [zray.put(array(number)) for number in range(20)]
        assert files_in(tmp_path / "new") and zray.get(refs[0])[0] == 0


def test_default_folder_is_the_sessions(on_disk, monkeypatch):
    monkeypatch.delenv("ZRAY_SPILL_DIR", raising=False)
    zray.init(num_cpus=1, object_store_memory=STORE)
    try:
        from zray.host.session.spill_directory import is_in_memory

        folder = Session(context.runtime.session).folder
        if is_in_memory(folder):
            pytest.skip("the folder for temporary files lies in memory here")
        refs = [zray.put(array(number)) for number in range(20)]
        assert files_in(folder) and zray.get(refs[0])[0] == 0
    finally:
        zray.shutdown()
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (3, TypeError),
        ("none://bucket", ValueError),
        ("s3://bucket", ImportError),
        ("/proc/none", OSError),
        ("/proc", OSError),  # its bits say that root may write there
        ("a\0b", ValueError),
    ],
)
def test_bad_directory_is_refused_before_anything_starts(given, error):
    with pytest.raises(error, match="object_spilling_directory"):
        zray.init(num_cpus=1, object_spilling_directory=given)


def test_directory_may_begin_with_the_users_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checked_directory("~/spilled") == str(tmp_path / "spilled")
    assert os.listdir(tmp_path) == ["spilled"] and not os.listdir(tmp_path / "spilled")


def test_full_disk_is_no_bad_directory(monkeypatch, tmp_path):
    """Values are read while it is full, and there may be space later."""

    def is_full(path, mode):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", is_full)
        assert checked_directory(str(tmp_path)) == str(tmp_path)


def test_bad_threshold_is_refused(monkeypatch):
    monkeypatch.setenv("ZRAY_SPILL_THRESHOLD", "1.5")
    with pytest.raises(ValueError, match="ZRAY_SPILL_THRESHOLD"):
        zray.init(num_cpus=1)


PROGRAM = """
    import os, signal, sys, numpy as np, zray
    zray.init(num_cpus=1, object_store_memory=100e6, object_spilling_directory=sys.argv[1])
    refs = [zray.put(np.full(1_250_000, n)) for n in range(20)]
    from zray.host import context
    print("killed", flush=True)
    os.kill(context.runtime.node_pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_of_a_killed_session_go_with_its_last_process(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert "killed" in run.stdout, run.stderr
    until(lambda: not os.listdir(tmp_path))


def test_files_of_a_killed_node_go_with_its_session(tmp_path):
    zray.init(num_cpus=1, object_store_memory=STORE, object_spilling_directory=str(tmp_path))
    try:
        refs = [zray.put(array(number)) for number in range(20)]
        wait_until(lambda: files_in(tmp_path))
        os.kill(context.runtime.node_pid, signal.SIGKILL)
        with pytest.raises(zray.exceptions.ClusterLostError):
            zray.get(make.remote(1))
        del refs
    finally:
        zray.shutdown()
    until(lambda: not os.listdir(tmp_path))


def test_files_of_a_dead_session_are_removed_by_the_next_that_spills(tmp_path):
    dead = tmp_path / f"zray-spilled-{os.getuid()}" / "dead-session"
    dead.mkdir(parents=True, mode=0o700)
    dead.parent.chmod(0o700)
    (dead / "1").write_bytes(b"left")
    zray.init(num_cpus=1, object_store_memory=STORE, object_spilling_directory=str(tmp_path))
    try:
        refs = [zray.put(array(number)) for number in range(20)]
        (root,) = os.listdir(tmp_path)
        assert len(os.listdir(tmp_path / root)) == 1, "the folder of the dead session is left"
        del refs
    finally:
        zray.shutdown()
    assert not os.listdir(tmp_path)


# --- more in use than the store has ---


def segments_of(session):
    return glob.glob(f"{session}/**/segment-*", recursive=True)


def test_program_holds_more_arrays_than_the_store_has(session):
    held = [zray.get(zray.put(array(number))) for number in range(25)]
    assert segments_of(session)
    assert all((value == number).all() for number, value in enumerate(held))
    del held
    wait_until(lambda: not segments_of(session))


def test_get_of_a_list_that_is_larger_than_the_store(session):
    refs = [make.remote(number) for number in range(25)]
    assert all((value == number).all() for number, value in enumerate(zray.get(refs)))


def test_value_and_result_larger_than_the_store_are_read(session):
    ref = zray.put(array(7, 3 * STORE))
    assert (zray.get(ref) == 7).all()
    assert zray.get(total.remote(ref)) == 7 * 3 * STORE / 8
    assert (zray.get(make.remote(8, 2 * STORE)) == 8).all()
    assert zray.get(total.remote(array(1, 2 * STORE))) == 2 * STORE / 8
    del ref
    wait_until(lambda: not segments_of(session))


def test_task_takes_more_than_the_store_has(session):
    @zray.remote
    def firsts(*values):
        return [value[0] for value in values]

    assert zray.get(firsts.remote(*[zray.put(array(number)) for number in range(25)])) == list(range(25))


def test_large_value_stays_readable_when_its_refs_are_gone(session):
    value = zray.get(zray.put(array(3, 2 * STORE)))
    for number in range(20):
        zray.put(array(number))
    assert (value == 3).all()


def test_writer_killed_in_the_middle_leaves_no_file(session):
    @zray.remote(max_retries=0)
    def dies(size):
        zray.put(array(1, size))
        os._exit(1)

    for _ in range(3):
        with pytest.raises(zray.exceptions.WorkerCrashedError):
            zray.get(dies.remote(2 * STORE))
    wait_until(lambda: not segments_of(session))


SMALL_MEMORY = """
    import numpy as np, zray
    zray.init(num_cpus=1)
    refs = [zray.put(np.full(1_250_000, n)) for n in range(20)]
    held = [zray.get(ref) for ref in refs]
    print([int(value[0]) for value in held] == list(range(20)))
    zray.shutdown()
"""


def test_64_mebibytes_of_shared_memory_suffice(on_disk):
    """A program in a mount namespace has a small /dev/shm, as a container has by default."""
    mount = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this user cannot mount a file system in a namespace of its own")
    command = f'{mount} && exec "$0" -c "$1"'
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, sys.executable, textwrap.dedent(SMALL_MEMORY)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.stdout.strip() == "True", run.stderr


def test_loop_over_values_larger_than_half_the_store_does_not_pause(session):
    refs = [zray.put(array(number, 60 * MB)) for number in range(6)]
    seconds = []
    for number, ref in enumerate(refs):
        began = time.monotonic()
        values = zray.get(ref)  # while the former array is still in use
        seconds.append(time.monotonic() - began)
        assert values[0] == values[-1] == number
    assert sum(seconds) < 6, seconds  # 2 s for each second one, if nobody tells that no reader will leave anything


def test_calls_of_an_actor_that_share_spilled_arguments_all_run(session):
    @zray.remote
    class Differences:
        def of(self, one, two):
            return int(one[0]) - int(two[0])

    refs = [zray.put(array(number, 4 * MB)) for number in range(100)]
    pairs = np.random.default_rng(1).integers(0, 100, (200, 2)).tolist()
    actor = Differences.remote()
    calls = [actor.of.remote(refs[one], refs[two]) for one, two in pairs]
    assert zray.get(calls, timeout=60) == [one - two for one, two in pairs]


@pytest.mark.parametrize("ways", ["put task", "task task", "items task", "items returns"])
def test_tasks_submitted_while_some_arguments_are_made_and_others_have_left(session, ways):
    @zray.remote
    def items(number):
        yield from (array(number, 5 * MB) for _ in range(8))

    @zray.remote
    def firsts(*blocks):
        return [int(block[0]) for block in blocks]

    def row(number, way):
        if way == "items":
            return list(items.remote(number))
        if way == "returns":
            return items.options(num_returns=8).remote(number)
        return [zray.put(array(number, 5 * MB)) if way == "put" else make.remote(number, 5 * MB) for _ in range(8)]

    one, two = ways.split()
    rows = [row(number, two if number % 2 else one) for number in range(12)]
    reads = [firsts.remote(*refs) for refs in zip(*rows, strict=True)]
    assert zray.get(reads, timeout=60) == [list(range(12))] * 8


def test_slow_get_says_that_an_argument_lies_on_disk(session, tmp_path_factory):
    gate = Gate(tmp_path_factory.mktemp("gate") / "gate")

    @zray.remote
    def wait():
        gate.wait()

    @zray.remote
    def first(value, nothing):
        return int(value[0])

    refs = [zray.put(array(number)) for number in range(20)]
    read = first.remote(refs[0], wait.remote())
    with pytest.raises(zray.exceptions.GetTimeoutError, match="10,002,048 bytes lie on the disk of node"):
        zray.get(read, timeout=0.2)
    gate.open()
    assert zray.get(read, timeout=30) == 0


def test_queued_tasks_that_take_the_same_spilled_values_read_their_bytes(session):
    @zray.remote
    def firsts(*values):
        return [int(value[0]) if (value == value[0]).all() else None for value in values]

    refs = [zray.put(array(number, MB // 2)) for number in range(1_000)]
    for _ in range(3):
        tasks = [firsts.remote(*refs[start::20]) for start in [*range(20), *range(20)]]
        assert zray.get(tasks, timeout=60) == [list(range(start, 1_000, 20)) for start in [*range(20), *range(20)]]
