"""Copies of many bytes: every byte arrives, on however many cores, also into pages that are new."""

import os

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


def test_trouble_of_a_stripe_is_raised_where_the_copy_was_asked_for(target, monkeypatch):
    def fail_beyond_the_first(to, of, new_pages):
        if len(to) == 0 or to[0] == 0:
            raise ValueError("no memory here")

    target[0] = 1
    monkeypatch.setattr(copying, "_copy", fail_beyond_the_first)
    with pytest.raises(ValueError, match="no memory here"):
        copy_bytes(target[: 16 << 20], memoryview(bytes(16 << 20)))
