"""The head's processes beside it: what a start waits for, and what ends it."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from msgspec import msgpack

from tests.gates import until
from tests.host.wires import Loop
from zray.host.cluster import head_processes
from zray.host.security.keyring import KeyPair
from zray.roles.replica_effects import ServiceEnded

CHILD = """
import os, sys
ready, said = int(sys.argv[1]), bytes.fromhex(sys.argv[2])
for line in sys.stdin:
    if line == "ready\\n":
        os.write(ready, said)
    else:
        sys.exit(0)
"""


class Head(Loop):
    """A head that has two such processes started; each does what it is told."""

    def __init__(self, folder, monkeypatch):
        super().__init__()
        self.ended = ""
        self.children = {}  # by name, the last one
        self.all = []
        self.news, self.said, self.log, self.rests = [], [], [], []
        self.folder = folder
        monkeypatch.setattr(head_processes, "start_service", self._start)
        monkeypatch.setattr(head_processes, "reap", self._reap)
        links = SimpleNamespace(keys=KeyPair.draw(), meet=lambda *it: None, forget=lambda host: None)
        member = SimpleNamespace(host="head", endpoint="127.0.0.1:7", neighbours=links)
        session = SimpleNamespace(name="s", folder=str(folder), log_path=lambda name: str(folder / name))
        names = {"services": "services", "chains": "chains", "shards": ["gcs-0"]}
        self.processes = head_processes.ServiceProcesses(session, member, names, self.log.append)
        self.now = 0.0
        self.processes.clock = lambda: self.now
        self.processes.attach(self)
        self.processes.tell(lambda: self.said.append("ready"), lambda reason: self.said.append(reason))
        for number in range(2):
            self.processes.start({"kind": "replica", "name": f"gcs-0-{number}", "shard": "gcs-0", "log": ""})

    def _start(self, session, name, keys, options, password):
        (self.folder / name).write_text("its last words")
        there, ready = os.pipe()
        said = msgpack.encode(["127.0.0.1:8", ""]).hex()
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(ready), said], stdin=subprocess.PIPE, text=True, pass_fds=[ready]
        )
        os.close(ready)
        self.children[name] = child
        self.all.append(child)
        return child.pid, there

    def _reap(self, pid):
        return f"exited with code {next(child for child in self.all if child.pid == pid).wait()}"

    def set_timer(self, delay, address, message):
        self.rests.append(delay)
        super().set_timer(delay, address, message)

    def deliver(self, role, message):
        self.news.append(message)

    def tell(self, name, word):
        child = self.children[name]
        child.stdin.write(f"{word}\n")
        child.stdin.flush()

    def poll_once(self):
        for descriptor, _ in self.epoll.poll(0.0):
            if action := self.actions.get(descriptor):
                action()

    def turn(self):
        self.poll_once()
        while self.timers:
            self.processes.handle("", self.timers.pop()[3], 0.0)

    def until(self, condition):
        def is_there():
            self.turn()
            return condition()

        until(is_there)

    def close(self):
        for child in self.all:
            child.kill()
            child.wait()
            child.stdin.close()
        for service in self.processes.running.values():
            os.close(service.pidfd)
            if service.ready >= 0:
                os.close(service.ready)
        self.epoll.close()


@pytest.fixture
def head(tmp_path, monkeypatch):
    made = Head(tmp_path, monkeypatch)
    yield made
    made.close()


def running(head, name):
    return [it for it in head.processes.running.values() if it.order["name"] == name]


def test_a_head_is_up_when_all_are_ready(head):
    head.tell("gcs-0-0", "ready")
    head.until(lambda: running(head, "gcs-0-0")[0].is_ready)
    assert not head.said
    head.tell("gcs-0-1", "ready")
    head.until(lambda: head.said)
    assert head.said == ["ready"]


def test_one_that_is_never_ready_ends_the_start_with_its_last_words(head):
    head.tell("gcs-0-0", "end")
    head.until(lambda: head.said)
    ((reason),) = head.said
    assert "gcs-0-0 exited with code 0" in reason and "its last words" in reason


def test_one_that_was_ready_and_ends_before_the_others_are_is_replaced(head):
    """A replica that another node's makes redundant is out of its chain while the head still starts."""
    head.tell("gcs-0-0", "ready")
    head.until(lambda: running(head, "gcs-0-0")[0].is_ready)
    (first,) = running(head, "gcs-0-0")
    head.tell("gcs-0-0", "end")
    head.until(lambda: running(head, "gcs-0-0") not in ([], [first]))
    assert not head.said and any(type(it) is ServiceEnded and it.host == first.host for it in head.news)
    head.tell("gcs-0-1", "ready")
    head.tell("gcs-0-0", "ready")
    head.until(lambda: head.said)
    assert head.said == ["ready"]


def test_one_that_soon_ends_again_rests_longer_each_time_until_it_has_run_well(head):
    """It was started ten times a second, for as long as it ended after it was ready."""
    for name in ("gcs-0-0", "gcs-0-1"):
        head.tell(name, "ready")
    head.until(lambda: head.said)
    for number in range(9):
        ends_again(head, "gcs-0-0", seconds=head_processes.RAN_WELL_SECONDS + 1 if number == 7 else 1.0)
    ends_again(head, "gcs-0-1", seconds=1.0)
    assert head.rests == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 0.1, 0.2, 0.1]
    told = [line for line in head.log if "it is started again" in line]
    assert len(told) == 10
    assert told[1].startswith("gcs-0-0 (host ") and told[1].endswith(
        ") exited with code 0; it is started again in 0.2 s"
    )


def ends_again(head, name, seconds):
    """It is ready, and ends after so many seconds; it is ready again when this returns."""
    (before,) = running(head, name)
    head.now += seconds
    head.tell(name, "end")
    head.until(lambda: running(head, name) not in ([], [before]))
    head.tell(name, "ready")
    head.until(lambda: running(head, name)[0].is_ready)


def scheduler(head, name="global-0"):
    head.processes.start({"kind": "scheduler", "name": name})
    return running(head, name)[0]


@pytest.fixture
def begun(head):
    for name in ("gcs-0-0", "gcs-0-1"):
        head.tell(name, "ready")
    head.until(lambda: head.said)
    return head


def test_superfluous_service_is_ended_for_good(begun):
    service = scheduler(begun)
    begun.tell("global-0", "ready")
    begun.until(lambda: service.is_ready)
    assert begun.processes.names() == {"gcs-0-0", "gcs-0-1", "global-0"}
    begun.processes.end(service.host)
    begun.until(lambda: not running(begun, "global-0"))
    (ended,) = [it for it in begun.news if type(it) is ServiceEnded]
    assert ended == ServiceEnded(service.host, "fewer global schedulers are needed")
    assert not begun.rests and begun.processes.names() == {"gcs-0-0", "gcs-0-1"}
    begun.processes.end(service.host)  # once more: it is gone


def test_services_that_have_not_come_up_are_ended_while_they_run_and_while_they_rest(begun):
    ready = scheduler(begun)
    begun.tell("global-0", "ready")
    begun.until(lambda: ready.is_ready)
    scheduler(begun, "global-1")
    begun.processes.end_unready("scheduler")
    begun.until(lambda: not running(begun, "global-1"))
    scheduler(begun, "global-2")
    timers, begun.timers = begun.timers, []
    begun.tell("global-2", "end")
    until(lambda: (begun.poll_once(), begun.processes.resting)[1])
    begun.processes.end_unready("scheduler")
    begun.turn()
    assert begun.processes.names() == {"gcs-0-0", "gcs-0-1", "global-0"} and not timers
