"""Refs and handles of a session that has ended, and sessions whose node is gone: said plainly, whatever is done."""

import gc
import os
import signal

import numpy
import pytest

import zray
from zray.exceptions import ActorDiedError, ClusterLostError, ObjectLostError
from zray.host import context


@zray.remote
class Counter:
    def add(self, *values):
        return len(values)


@zray.remote
def pass_through(value):
    return value


def use_a_ref(ref):
    """All ways to use one."""
    yield lambda: zray.get(ref)
    yield lambda: zray.get([ref])
    yield lambda: zray.wait([ref])
    yield lambda: list(zray.as_completed([ref]))
    yield lambda: ref.future().result(20)
    yield lambda: pass_through.remote(ref)


def use_a_ref_in_a_value(ref):
    yield lambda: pass_through.remote([ref])
    yield lambda: zray.put([ref])
    yield lambda: Counter.remote().add.remote({"x": ref})
    yield lambda: zray.remote(lambda: ref).remote()


def use_a_handle(counter, method):
    yield lambda: counter.add.remote()
    yield lambda: method.remote()
    yield lambda: zray.kill(counter)


def test_refs_and_handles_of_an_ended_session(start):
    start(num_cpus=1)
    ref, counter = pass_through.remote(1), Counter.remote()
    method = counter.add
    assert zray.get([ref, method.remote(1)], timeout=20) == [1, 1]
    zray.shutdown()
    for has_another in (False, True):
        if has_another:
            start(num_cpus=1)
        for use in use_a_ref(ref):
            with pytest.raises(ObjectLostError, match=f"{ref.hex()}.* is of a session that has ended"):
                use()
        for use in use_a_handle(counter, method):
            with pytest.raises(ActorDiedError, match="handle on an actor Counter is of a session that has ended"):
                use()
        assert zray.is_initialized() is has_another, "none of it begins a session"
    for use in use_a_ref_in_a_value(ref):
        with pytest.raises(ObjectLostError, match=f"{ref.hex()}.* is of a session that has ended"):
            use()
    assert zray.get(pass_through.remote(zray.put([1])), timeout=20) == [1]


def test_nothing_can_be_said_in_a_session_that_is_lost(start):
    start(num_cpus=1)
    ref = pass_through.remote(1)
    assert zray.get(ref, timeout=20) == 1
    os.kill(context.runtime.node_pid, signal.SIGKILL)
    with pytest.raises(ClusterLostError):
        while True:  # until the death is noticed
            zray.get(pass_through.remote(1), timeout=20)
    for say in (lambda: zray.put(1), lambda: pass_through.remote(1), Counter.remote):
        with pytest.raises(ClusterLostError, match="SIGKILL"):
            say()
    assert zray.get(ref) == 1, "what is here stays"


def mapped_segments():
    with open("/proc/self/maps") as file:
        return [line for line in file if "/dev/shm/zray-" in line]


def test_the_memory_of_an_ended_session_goes_with_it(start):
    """At once, and not when the collector happens to come by; but for what an array still reads."""
    gc.collect()
    assert not mapped_segments()
    gc.disable()
    try:
        for _ in range(2):
            start(num_cpus=1)
            array = zray.get(zray.put(numpy.arange(1_000_000)))
            zray.shutdown()
            assert len(mapped_segments()) == 1
            assert array.sum() == 499_999_500_000
            del array
            assert not mapped_segments()
    finally:
        gc.enable()
