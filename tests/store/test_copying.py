"""Copies of many bytes: every byte arrives, on however many cores, also into pages that are new."""

import os
import threading

import numpy
import pytest

from zray.store import copying
from zray.store.copying import copy_bytes
from zray.store.segment import Segment, segment_name, unlink


@pytest.fixture
def target():
    name = segment_name(f"copying{os.getpid()}", 0)
    segment = Segment.create(name, 64 << 20)
    try:
        segment.reserve(0, segment.size)
        yield memoryview(segment.mapping)
    finally:
        unlink(name)


@pytest.mark.parametrize("new_pages", [False, True])
@pytest.mark.parametrize("size", [1, 300_000, 8 << 20, (37 << 20) + 11, 64 << 20])
@pytest.mark.parametrize("lag", [0, 7])
def test_every_byte_arrives(target, size, new_pages, lag):
    size -= lag * (size > lag)
    source = numpy.random.default_rng(size).integers(0, 256, size, dtype=numpy.uint8)
    copy_bytes(target[lag : lag + size], memoryview(source), new_pages=new_pages)
    assert (numpy.frombuffer(target, numpy.uint8, size, lag) == source).all()


def test_a_copy_does_not_wait_for_copiers_that_have_no_time(target, monkeypatch):
    """Whoever asks for a copy takes all of its stripes if nobody else comes."""
    monkeypatch.setattr(copying, "_work", copying.SimpleQueue())  # nobody listens to it
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    source = numpy.arange(3 << 20)
    copy_bytes(target[: source.nbytes], memoryview(source).cast("B"))
    assert (numpy.frombuffer(target, numpy.int64, len(source)) == source).all()


@pytest.fixture
def copies(monkeypatch):
    """Two cores; what is copied in a copier, and what by the thread that asks, does as the test says."""

    class Copies:
        in_copier = in_caller = staticmethod(lambda to, of, new_pages: None)

    def copy(to, of, new_pages):
        is_caller = threading.current_thread() is threading.main_thread()
        (copies.in_caller if is_caller else copies.in_copier)(to, of, new_pages)

    copies = Copies()
    monkeypatch.setattr(copying, "_copy", copy)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(copying, "_work", None)
    yield copies
    copying._work = None


def test_trouble_of_a_copier_is_raised_where_the_copy_was_asked_for(target, copies):
    has_failed = threading.Event()

    def fail(to, of, new_pages):
        has_failed.set()
        raise ValueError("no memory here")

    copies.in_copier = fail
    copies.in_caller = lambda to, of, new_pages: has_failed.wait(20)
    with pytest.raises(ValueError, match="no memory here"):
        copy_bytes(target[: 16 << 20], memoryview(bytes(16 << 20)))


def test_nobody_writes_after_a_copy_was_interrupted(target, copies):
    """The target may be another value's by then."""
    writing, interrupted, wrote = threading.Event(), threading.Event(), []

    def write_late(to, of, new_pages):
        writing.set()
        interrupted.wait(20)
        wrote.append(len(to))

    def interrupt(to, of, new_pages):
        assert writing.wait(20)
        interrupted.set()
        raise KeyboardInterrupt

    copies.in_copier, copies.in_caller = write_late, interrupt
    with pytest.raises(KeyboardInterrupt):
        copy_bytes(target[: 64 << 20], memoryview(bytes(64 << 20)), new_pages=True)
    assert len(wrote) == 1  # the copier was in the middle of it
    has_come = threading.Event()
    copies.in_copier = lambda to, of, new_pages: has_come.set()
    copies.in_caller = lambda to, of, new_pages: has_come.wait(20)
    copy_bytes(target[: 16 << 20], memoryview(bytes(16 << 20)))
    assert has_come.is_set()  # and has nothing of the first left to do
    assert len(wrote) == 1
