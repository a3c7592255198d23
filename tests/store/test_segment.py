"""Shared memory, a process's view of it, and the sweeper."""

from __future__ import annotations

import errno
import fcntl
import gc
import mmap
import os
import resource
import signal
import subprocess
import sys

import numpy
import posix_ipc
import pytest

from zray.exceptions import ObjectLostError
from zray.store.arena import ArenaView
from zray.store.segment import (
    Segment,
    SegmentCutError,
    SegmentFullError,
    create_semaphore,
    map_pages,
    segment_name,
    segments_of,
    semaphores_of,
    unlink,
    unlink_semaphore,
    unlink_session,
)
from zray.store.sweeper import lock_session, sweep
from zray.store.values import deserialize, serialize, write_into


@pytest.fixture
def session():
    name = f"test{os.getpid()}_{os.urandom(4).hex()}"
    yield name
    unlink_session(name)
    assert segments_of(name) == []


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir(mode=0o700)
    return folder


def test_what_one_process_writes_another_reads(session):
    segment = Segment.create(segment_name(session, 0), 1 << 20)
    segment.reserve(0, 1 << 20)
    segment.view(4096, 5, writable=True)[:] = [1, 2, 3, 4, 5]
    script = (
        "import sys; from zray.store.arena import ArenaView\n"
        f"assert ArenaView({session!r}).read(0, 4096, 5).tolist() == [1, 2, 3, 4, 5]"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)
    assert segments_of(session) == [segment.name]  # A reader's end took nothing with it.
    assert os.stat("/dev/shm" + segment.name).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [0, 4096])
def test_what_was_cut_off_by_hand_is_an_error_and_no_signal(session, size):
    """The error comes to processes that have it mapped and to later ones; no process gives the file its size again."""
    segment = Segment.create(segment_name(session, 0), 1 << 20)
    segment.reserve(0, 1 << 20)
    before, after = ArenaView(session), ArenaView(session)
    kept = before.read(0, 0, 16)
    path = "/dev/shm" + segment.name
    os.truncate(path, size)
    for use in (before.read, after.read, before.writable, after.writable):
        with pytest.raises(ObjectLostError, match=f"shared memory .*{segment.name}"):
            use(0, 1 << 19, 100_000)
    for use in (lambda: segment.reserve(0, 4096), lambda: segment.write(8192, b"x"), lambda: segment.bytes_of(8192, 1)):
        with pytest.raises(SegmentCutError, match=f"its shared memory {path} was truncated to {size:,} bytes"):
            use()
    assert os.stat(path).st_size == size
    if size:
        assert kept.sum() == 0 and before.read(0, 0, 4096).sum() == 0  # what is there is there


def test_a_segment_without_a_name_says_so(session):
    segment = Segment.create(segment_name(session, 0), 1 << 20)
    assert segment.has_name()
    unlink(segment.name)
    assert not segment.has_name()
    with pytest.raises(ObjectLostError, match=f"shared memory {segment.name} of this session is gone"):
        ArenaView(session).read(0, 0, 1)


def test_names_are_taken_once_and_gone_once(session):
    name = segment_name(session, 3)
    Segment.create(name, 4096)
    with pytest.raises(FileExistsError):
        Segment.create(name, 4096)
    assert unlink(name)
    assert not unlink(name)
    with pytest.raises(FileNotFoundError):
        Segment.open(name)


@pytest.mark.parametrize("name", ["a-b", "", "a/b", "..-", "../a", "a\0b", "a\n", "\u202ea"], ids=ascii)
def test_sessions_whose_names_could_be_confused_are_refused(name):
    with pytest.raises(ValueError):
        segment_name(name, 0)


def test_a_name_that_no_system_has_makes_nothing(session):
    """A name of 300 characters (docs/security.md, B25)."""
    before = os.listdir("/dev/shm")
    with pytest.raises((OSError, ValueError)):
        Segment.create(segment_name(f"{session}{'x' * 300}", 0), 4096)
    assert not [name for name in os.listdir("/dev/shm") if name not in before and session in name]


def test_reserve_says_that_memory_is_full(session, monkeypatch):
    segment = Segment.create(segment_name(session, 0), 1 << 40)
    steps = []

    def fallocate(descriptor, offset, length):
        steps.append((offset, length))
        if len(steps) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    with pytest.raises(SegmentFullError, match="no free space"):
        segment.reserve(0, 1 << 30)
    assert steps == [(i * (64 << 20), 64 << 20) for i in range(3)]


def test_a_segment_larger_than_a_process_may_be_names_the_limit(session, monkeypatch):
    def refuse(descriptor, size, **how):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (3 << 30, resource.RLIM_INFINITY))
    with pytest.raises(OSError, match=r"3,221,225,472 bytes .*RLIMIT_AS"):
        Segment.create(segment_name(session, 0), 1 << 30)


def test_limit_of_address_space_leaves_each_value_its_own_mapping(session):
    """A process that may map a segment once, and not twice, still writes and reads; arrays keep what they need."""
    segment = Segment.create(segment_name(session, 0), 1 << 30)
    segment.reserve(0, 64 << 20)
    code = f"""
import numpy, resource
from zray.store.arena import ArenaView
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (3 << 29), resource.RLIM_INFINITY))
view = ArenaView({session!r})
arrays = []
for number in range(1, 9):
    offset = number * 5_000_000 + number
    view.writable(0, offset, 4)[:] = bytes((number,)) * 4
    arrays.append(view.read(0, offset, 4))
assert [array.tolist() for array in arrays] == [[number] * 4 for number in range(1, 9)]
with open("/proc/self/maps") as file:
    parts = [line for line in file if {segment.name!r} in line]
assert 2 <= len(parts) <= 10, parts
view.leave()
arrays.clear()
with open("/proc/self/maps") as file:
    assert {segment.name!r} not in file.read()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


def test_reader_maps_no_page_writable(session):
    """Whatever else this process does with the segment."""
    segment = Segment.create(segment_name(session, 0), 1 << 20)
    segment.reserve(0, 1 << 20)
    view = ArenaView(session)
    view.writable(0, 0, 3)[:] = b"abc"
    array = view.read(0, 0, 3)
    assert array.tobytes() == b"abc" and not array.flags.writeable
    address = array.ctypes.data
    with open("/proc/self/maps") as file:
        parts = [line.split() for line in file if segment.name in line]
    mode = next(part[1] for part in parts if int(part[0].split("-")[0], 16) <= address < int(part[0].split("-")[1], 16))
    assert mode == "r--s"
    view.writable(0, 0, 3)[:] = b"xyz"  # both mappings are of the same memory
    assert array.tobytes() == b"xyz"


def test_segment_beyond_the_limit_of_files_names_the_limit(session):
    """RLIMIT_FSIZE holds for shared memory too.  Nothing is left of the attempt."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_024_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"1,024,000 bytes at most \(RLIMIT_FSIZE, `ulimit -f`\)"):
            Segment.create(segment_name(session, 0), 1 << 30)
        assert segments_of(session) == []
        Segment.create(segment_name(session, 0), 1_000_000).reserve(0, 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_pages_given_back_leave_the_machine(session):
    segment = Segment.create(segment_name(session, 0), 1 << 20)
    segment.reserve(0, 1 << 20)
    blocks = lambda: os.stat("/dev/shm" + segment.name).st_blocks * 512  # noqa: E731
    assert blocks() == 1 << 20
    segment.view(0, 1, writable=True)[0] = 7
    segment.give_back(4096, (1 << 20) - 4096 - 5)
    assert blocks() == 2 * 4096
    assert segment.view(0, 1)[0] == 7


@pytest.mark.parametrize("is_known", [True, False])
def test_pages_that_are_mapped_ahead_keep_what_they_hold(session, monkeypatch, is_known):
    """Also where the kernel does not know of that; nothing but the range is touched."""
    if not is_known:
        monkeypatch.setattr("zray.store.segment._MADV_POPULATE_WRITE", 9_999)
    segment = Segment.create(segment_name(session, 0), 16 << 20)
    segment.reserve(0, 12 << 20)
    segment.write(5_000_000, b"here")
    before = os.fstat(segment._descriptor).st_blocks
    map_pages(segment.view(4_999_999, 1).ctypes.data, 6_000_000)
    assert bytes(segment.bytes_of(5_000_000, 4)) == b"here"
    assert os.fstat(segment._descriptor).st_blocks == before
    is_mapped = mapped_bytes(segment.name) >= 6_000_000
    assert is_mapped or not is_known


def mapped_bytes(name):
    """Of a segment, what this process has touched or mapped ahead."""
    with open("/proc/self/smaps") as file:
        rest = file.read().split(f"{name}\n", 1)[1]
    return int(rest.split("Rss:", 1)[1].split()[0]) * 1024


def test_a_pin_lasts_as_long_as_the_last_array(session):
    """A process pins a value that it reads until the arrays made from it are gone."""
    value = {"a": numpy.arange(100_000), "b": numpy.arange(5)}
    serialized = serialize(value)
    segment = Segment.create(segment_name(session, 0), 4 << 20)
    segment.reserve(0, 4 << 20)
    view = ArenaView(session)
    write_into(serialized, view.writable(0, 8192, serialized.size))
    released = []
    back = deserialize(view.read(0, 8192, serialized.size, lambda: released.append(1)))
    numpy.testing.assert_array_equal(back["a"], value["a"])
    part = back["b"][2:].view(numpy.uint8)
    del back
    gc.collect()
    assert released == []
    with pytest.raises(ValueError):
        part.flags.writeable = True
    del part
    assert released == [1]
    del view
    gc.collect()
    assert released == [1]


def test_slices_of_the_read_array_itself_pin_too(session):
    Segment.create(segment_name(session, 0), 1 << 20).reserve(0, 4096)
    released = []
    part = ArenaView(session).read(0, 0, 100, lambda: released.append(1))[5:][::2]
    gc.collect()
    assert not released and not part.flags.writeable
    with pytest.raises(ValueError):
        part.flags.writeable = True
    del part
    assert released


def test_a_forked_child_releases_nothing(session):
    Segment.create(segment_name(session, 0), 1 << 20).reserve(0, 4096)
    reader, writer = os.pipe()
    array = ArenaView(session).read(0, 0, 100, lambda: os.write(writer, b"x"))
    child = os.fork()
    if child == 0:
        del array
        os._exit(0)
    os.waitpid(child, 0)
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    del array
    assert os.read(reader, 1) == b"x"


def test_a_kill_while_a_semaphore_is_made_leaves_what_the_sweeper_knows(session):
    """sem_open's own first file has a random name, by which nobody could tell whose it was."""
    code = f"""
import resource, signal
from zray.host.session.session import Session
from zray.host.node.worker_processes import Workers
workers = Workers(Session({session!r}, "/nowhere"), None, print, print, print)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # the first byte that it writes into a file ends this process
workers.start("worker-1", 1)
"""
    before = empty_semaphores()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGXFSZ, done.stderr
    assert unlink_session(session) == [f"/zray-{session}-w1"]
    assert not empty_semaphores() - before


def empty_semaphores():
    """Those in the middle of being made."""
    names = set()
    for entry in os.scandir("/dev/shm"):
        try:
            if entry.name.startswith("sem.") and entry.stat().st_size == 0:
                names.add(entry.name)
        except FileNotFoundError:
            continue  # another session's
    return names


@pytest.mark.parametrize("is_glibc", [True, False])
def test_a_semaphore_counts_between_processes(session, is_glibc, monkeypatch):
    """Also where the C library is another one."""
    monkeypatch.setattr("zray.store.segment.IS_GLIBC", is_glibc)
    # A sweeper of another run takes away a semaphore of zray that nobody has locked.
    name = f"/{'zray' if is_glibc else 'other'}-{session}-s"
    semaphore = create_semaphore(name)
    try:
        with pytest.raises((FileExistsError, posix_ipc.ExistentialError)):
            create_semaphore(name)
        with pytest.raises(posix_ipc.BusyError):
            semaphore.acquire(0)
        code = f"import posix_ipc; posix_ipc.Semaphore({name!r}).release()"
        with subprocess.Popen([sys.executable, "-c", code]) as other:
            semaphore.acquire(30)
        assert other.returncode == 0
        assert semaphore.value == 0
    finally:
        assert unlink_semaphore(name)
        semaphore.close()
    assert not unlink_semaphore(name)
    assert not [entry for entry in os.listdir("/dev/shm") if session in entry]


def make_session(root, session):
    folder = root / session
    folder.mkdir(mode=0o700)
    Segment.create(segment_name(session, 0), 4096)
    create_semaphore(f"/zray-{session}-s").close()
    return folder


def test_the_sweeper_takes_dead_sessions_only(root, session):
    """Sessions that are dead are swept; others are left alone."""
    folder = make_session(root, session)
    lock = lock_session(str(folder))
    assert sweep(str(root)) == []
    assert segments_of(session) and semaphores_of(session)
    with pytest.raises(BlockingIOError):
        lock_session(str(folder))
    os.close(lock)
    assert sweep(str(root)) == [session]
    assert not folder.exists() and not segments_of(session) and not semaphores_of(session)
    assert sweep(str(root)) == []


def test_a_session_just_being_made_is_left_alone(root, session):
    folder = make_session(root, session)
    assert sweep(str(root)) == []
    os.utime(folder, (0, 0))
    assert sweep(str(root)) == [session]


def test_a_sweeper_that_comes_while_a_session_takes_its_lock_leaves_it_alone(root, session, monkeypatch):
    folder = make_session(root, session)
    flock, swept = fcntl.flock, []

    def sweep_first(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", flock)
        swept.extend(sweep(str(root)))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    lock = lock_session(str(folder))
    assert swept == [] and os.listdir(folder) == ["lock"]
    assert sweep(str(root)) == []
    os.close(lock)
    assert sweep(str(root)) == [session]


def test_a_killed_session_is_dead(root, session):
    folder = make_session(root, session)
    script = f"from zray.store.sweeper import lock_session as l; l({str(folder)!r}); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    assert sweep(str(root)) == []
    process.kill()
    process.wait(timeout=30)
    process.stdin.close()
    process.stdout.close()
    assert sweep(str(root)) == [session]


def test_roots_open_to_others_and_links_are_refused(root, tmp_path, session):
    link = tmp_path / "link"
    link.symlink_to(root)
    with pytest.raises(PermissionError):
        sweep(str(link))
    (root / session).symlink_to(tmp_path)
    assert sweep(str(root)) == []
    assert tmp_path.exists()
    root.chmod(0o755)
    with pytest.raises(PermissionError, match="chmod"):
        sweep(str(root))
    assert sweep(str(tmp_path / "nowhere")) == []


def test_a_lock_that_is_a_link_is_not_followed(root, tmp_path, session):
    folder = make_session(root, session)
    target = tmp_path / "precious"
    target.touch()
    (folder / "lock").symlink_to(target)
    with pytest.raises(OSError):
        lock_session(str(folder))
    with open(target) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
