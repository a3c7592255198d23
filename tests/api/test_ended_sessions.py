"""Refs and handles of a session that has ended, and sessions whose node is gone: said plainly, whatever is done."""

import gc
import os
import signal
import threading
from functools import partial

import numpy
import pytest

import zray
from tests.gates import forever, until
from zray.exceptions import ActorDiedError, ClusterLostError, ObjectLostError
from zray.host import context
from zray.host.client.connection import Connection
from zray.host.client.runtime import Runtime
from zray.roles.client import Client


@zray.remote
class Counter:
    def add(self, *values):
        return len(values)


@zray.remote
class Keeper:
    def __init__(self, value):
        self.value = value


@zray.remote
class Sleeper:
    def sleep(self):
        forever()


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
    yield lambda: Keeper.remote({"x": ref})
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
            with pytest.raises(ObjectLostError, match=f"{ref.hex()}.* belongs to a session that has ended"):
                use()
        for use in use_a_ref_in_a_value(ref):
            with pytest.raises(ObjectLostError, match=f"{ref.hex()}.* belongs to a session that has ended"):
                use()
        with pytest.raises(ObjectLostError, match="belongs to a session that has ended"):
            pass_through.remote(value=[counter])
        for use in use_a_handle(counter, method):
            with pytest.raises(ActorDiedError, match="handle of actor Counter belongs to a session that has ended"):
                use()
        assert zray.is_initialized() is has_another, "none of it begins a session"
    with pytest.raises(ObjectLostError, match=f"{ref.hex()}.* belongs to a session that has ended"):
        Counter.remote().add.remote({"x": ref})
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


@pytest.mark.parametrize("kind", ["own", "joined"])
def test_nothing_of_an_ended_session_stays(kind, request):
    """Neither its descriptors nor what its driver knew, at once; functions and handles outlive it."""
    if kind == "own":
        start = partial(request.getfixturevalue("start"), num_cpus=1)
    else:
        start = request.getfixturevalue("cluster").connect
    counts = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            start()
            counter = Counter.remote()
            refs = [zray.put(bytes(1000)), pass_through.remote(1), counter.add.remote()]
            assert zray.get(refs) == [bytes(1000), 1, 0]
            assert refs[1].future().result(20) == 1
            zray.shutdown()
            # By the type: `__class__` of an object of another library may warn.
            runtimes = [thing for thing in gc.get_objects() if issubclass(type(thing), (Client, Runtime, Connection))]
            assert not runtimes
            counts.append((len(os.listdir("/proc/self/fd")), threading.active_count()))
    finally:
        gc.enable()
    assert len(set(counts[1:])) == 1


def test_threads_that_wait_when_their_session_ends(start):
    """Each hears it, whatever it waits for."""
    start(num_cpus=1)
    never = Sleeper.remote().sleep.remote()
    outcomes = []

    def note(wait):
        try:
            outcomes.append(wait())
        except Exception as error:
            outcomes.append(type(error))

    waits = [
        lambda: zray.get(never),
        lambda: zray.get([never, never]),
        lambda: zray.wait([never]),
        lambda: never.future().result(),
        lambda: next(iter(zray.as_completed([never]))),
    ]
    threads = [threading.Thread(target=note, args=(wait,)) for wait in waits]
    for thread in threads:
        thread.start()
    # One receives for them; that of futures has its own thread.
    until(lambda: context.runtime.followers == len(waits) - 1)
    zray.shutdown()
    for thread in threads:
        thread.join(20)
    assert outcomes == [ClusterLostError] * len(waits)
