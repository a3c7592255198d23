"""What a look at a port tells: an end from a cut, and a process that stands still from one that runs."""

import heapq
import os
import signal
import socket
import time

import pytest

from tests.host.wires import Host, Loop, pump
from zray.host.links.probe import Probes, why_unreached
from zray.roles.effects import Finding


@pytest.fixture
def look():
    """`look(endpoint)`: what is found there."""
    loop = Loop()
    probes = Probes("here")
    probes.attach(loop)

    class Turns:
        def turn(self):
            for descriptor, _ in loop.epoll.poll(0.0):
                loop.actions[descriptor]()
            while loop.timers and loop.timers[0][0] <= time.monotonic():
                probes.handle("", heapq.heappop(loop.timers)[-1], 0.0)

    def begin(endpoint, *others):
        found = []
        probes.look(endpoint, found.append)
        pump((Turns(), *others), lambda: found)
        assert len(found) == 1 and not probes.looks and not probes.busy and not loop.actions
        return found[0]

    yield begin
    loop.epoll.close()


def test_a_host_that_runs_greets(look):
    with Host() as host:
        assert look(host.endpoint) is Finding.ANSWERS


def test_a_host_that_is_busy_greets_too(look):
    """Its turns may take long; libzmq's thread takes the call."""
    with Host() as host:
        for _ in range(3):
            assert look(host.endpoint) is Finding.ANSWERS  # nobody turns its loop


def test_where_nobody_listens_the_process_has_ended(look):
    with Host() as host:
        endpoint = host.endpoint
    assert look(endpoint) is Finding.ENDED


def test_who_is_looked_at_does_not_mind(look):
    with Host("head") as host:
        for _ in range(50):
            look(host.endpoint, host)
        assert not host.links.dropped_frames and not host.lines and not host.links.by_identity


def test_a_process_that_stands_still_takes_the_call_and_says_nothing(look):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert look(f"127.0.0.1:{listening.getsockname()[1]}") is Finding.STANDS_STILL


def test_a_process_that_is_stopped_stands_still(look):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with Host() as host:
                os.write(writer, host.endpoint.encode())
                signal.pause()
        finally:
            os._exit(0)
    try:
        endpoint = os.read(reader, 100).decode()
        assert look(endpoint) is Finding.ANSWERS
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        assert look(endpoint) is Finding.STANDS_STILL
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert look(endpoint) is Finding.ENDED
    finally:
        os.close(reader)
        os.close(writer)


@pytest.fixture
def unheard():
    """An endpoint whose backlog is full: the kernel lets a call pass unheard, as a cut would."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        callers = []
        try:
            for _ in range(8):
                caller = socket.socket()
                caller.setblocking(False)
                caller.connect_ex(listening.getsockname())
                callers.append(caller)
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for caller in callers:
                caller.close()


def test_where_no_answer_comes_it_is_out_of_reach(look, unheard):
    assert look(unheard) is Finding.OUT_OF_REACH


def test_who_could_not_connect_is_told_whether_it_is_the_port_or_the_machine(unheard):
    assert "cannot be reached from here (no answer)" in why_unreached(unheard)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
        assert "does now" in why_unreached(endpoint)
    assert "that machine answers, and nothing listens there" in why_unreached(endpoint)


def test_a_look_under_way_is_not_begun_twice(look):
    probes = Probes("here")
    loop = Loop()
    probes.attach(loop)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
        for _ in range(3):
            probes.look(endpoint, lambda finding: None)
        assert len(probes.looks) == 1
        probes.close()
    loop.epoll.close()
