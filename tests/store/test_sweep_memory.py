"""Shared memory of dead sessions goes without their folders; what anyone holds stays."""

from __future__ import annotations

import fcntl
import mmap
import os
import subprocess
import sys

import pytest

from zray.store import sweeper
from zray.store.segment import (
    SHARED_MEMORY_FOLDER,
    Segment,
    create_semaphore,
    segment_name,
    segments_of,
    semaphores_of,
    unlink_session,
)
from zray.store.sweeper import sweep_memory

HOLDER = """
import sys, time
from zray.store.segment import Segment, create_semaphore
segment = Segment.create("/zray-{session}-0", 4096)
create_semaphore("/zray-{session}-w1")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def session():
    name = f"swept{os.getpid()}_{os.urandom(4).hex()}"
    yield name
    unlink_session(name)
    assert segments_of(name) == []


@pytest.fixture
def holder(session):
    """A process that holds a segment and a semaphore of the session."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(session=session)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def swept_of(session):
    return [name for name in sweep_memory() if session in name]


def create_unlocked(session, size, number=0):
    """As an earlier version did."""
    path = SHARED_MEMORY_FOLDER + segment_name(session, number)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.ftruncate(descriptor, size)
    return path, descriptor


def test_memory_is_swept_once_its_holder_is_dead(session, holder):
    assert swept_of(session) == []
    assert segments_of(session) and semaphores_of(session)
    holder.kill()
    holder.wait(timeout=30)
    assert swept_of(session) == [f"sem.zray-{session}-w1", f"zray-{session}-0"]
    assert not segments_of(session) and not semaphores_of(session)


def test_memory_that_an_earlier_version_has_mapped_stays(session):
    path, descriptor = create_unlocked(session, 4096)
    memory = mmap.mmap(descriptor, 4096)
    os.close(descriptor)
    assert swept_of(session) == []
    memory.close()
    assert swept_of(session) == [os.path.basename(path)]


def test_arrays_of_a_dead_session_stay_readable(session, holder):
    """Their process has no lock; its mapping spares the segment until it goes."""
    reader = Segment.open(segment_name(session, 0))
    holder.kill()
    holder.wait(timeout=30)
    assert swept_of(session) == [f"sem.zray-{session}-w1"]
    assert bytes(reader.bytes_of(0, 4)) == bytes(4)
    del reader
    assert swept_of(session) == [f"zray-{session}-0"]


@pytest.mark.parametrize("call", ["flock", "ftruncate"])
def test_segment_that_is_being_made_stays(session, monkeypatch, call):
    """A sweeper comes right ahead of its lock, or of its length."""
    module = fcntl if call == "flock" else os
    real, swept = getattr(module, call), []

    def sweep_first(*arguments):
        monkeypatch.undo()
        swept.extend(swept_of(session))
        return real(*arguments)

    monkeypatch.setattr(module, call, sweep_first)
    segment = Segment.create(segment_name(session, 0), 4096)
    assert swept == [] and segment.has_name()
    segment.reserve(0, 4096)
    assert swept_of(session) == []


def test_semaphore_that_is_being_made_stays(session, monkeypatch):
    real, swept = fcntl.flock, []

    def sweep_first(*arguments):
        monkeypatch.undo()
        swept.extend(swept_of(session))
        return real(*arguments)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    create_semaphore(f"/zray-{session}-w1").close()
    assert swept == [] and swept_of(session) == [] and semaphores_of(session)


def test_file_whose_maker_was_killed_goes_after_a_while(session, monkeypatch):
    _, descriptor = create_unlocked(session, 0)
    os.close(descriptor)
    assert swept_of(session) == []
    monkeypatch.setattr(sweeper, "WITHOUT_LOCK_S_MIN", 0.0)
    assert swept_of(session) == [f"zray-{session}-0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
def test_memory_of_another_user_stays(session):
    """Also from root, who may do as it likes."""
    path, descriptor = create_unlocked(session, 4096)
    os.fchown(descriptor, 65_534, 65_534)
    os.close(descriptor)
    assert swept_of(session) == []
    os.chown(path, 0, 0)
    assert swept_of(session) == [f"zray-{session}-0"]


@pytest.mark.parametrize(
    "name", ["zray-{}", "zray-{}-", "zray-{}-a-b", "other-{}-0", "xzray-{}-0", "sem.sem.zray-{}-0"]
)
def test_files_of_other_names_stay(session, name):
    path = os.path.join(SHARED_MEMORY_FOLDER, name.format(session))
    with open(path, "xb") as file:
        file.write(b"x")
    try:
        assert swept_of(session) == []
    finally:
        os.unlink(path)


def test_links_and_pipes_of_such_names_stay(session, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"x")
    paths = [SHARED_MEMORY_FOLDER + segment_name(session, number) for number in range(2)]
    os.symlink(target, paths[0])
    os.mkfifo(paths[1], 0o600)
    try:
        assert swept_of(session) == []
        assert target.read_bytes() == b"x"
    finally:
        for path in paths:
            os.unlink(path)
