"""Titles of processes, as `ps` and `top` show them."""

import os

import pytest

import zray
from tests.gates import Gate, until
from zray.cluster_utils import Cluster
from zray.host import context
from zray.host.process.process_utils import children_of


def title(pid):
    """The title of a process; "" of one that has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().rstrip(b"\0").decode()
    except OSError:
        return ""


def comm(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().rstrip("\n")


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2):
        yield


class Serial:
    def __init__(self):
        self.pid = os.getpid()

    def identity(self):
        return self.pid

    def step(self, gate):
        gate.wait()


class Async(Serial):
    async def identity(self):
        return self.pid

    async def step(self, gate):
        import asyncio

        while not gate.is_open():
            await asyncio.sleep(0.02)


def test_processes_of_a_session_are_named_for_their_work():
    node = context.runtime.node_pid
    assert title(node) == "zray: node" and comm(node) == "zray: node"
    (fork_server,) = children_of(node)
    until(lambda: title(fork_server) == "zray: fork server")
    until(lambda: "zray: idle worker" in map(title, children_of(fork_server)))


def test_worker_is_named_for_its_task_and_idle_behind_it(tmp_path):
    gate, begun = Gate(tmp_path / "gate"), Gate(tmp_path / "begun")

    @zray.remote
    def train():
        (tmp_path / "pid").write_text(str(os.getpid()))
        begun.open()
        gate.wait()

    ref = train.remote()
    begun.wait()
    pid = int((tmp_path / "pid").read_text())
    until(lambda: (title(pid), comm(pid)) == ("zray::train", "zray::train"))
    gate.open()
    zray.get(ref, timeout=30)
    until(lambda: (title(pid), comm(pid)) == ("zray: idle worker", "zray: idle work"))


@pytest.mark.parametrize(
    ("cls", "options"),
    [(Serial, {}), (Serial, {"max_concurrency": 2}), (Async, {})],
    ids=["serial", "threads", "async"],
)
def test_actor_is_named_for_its_class_and_the_call_that_it_runs(cls, options, tmp_path):
    gate = Gate(tmp_path / "gate")
    actor = zray.remote(num_cpus=0, **options)(cls).remote()
    pid = zray.get(actor.identity.remote(), timeout=30)
    until(lambda: title(pid) == f"zray::{cls.__name__}")
    ref = actor.step.remote(gate)
    until(lambda: title(pid) == f"zray::{cls.__name__}.step")
    gate.open()
    zray.get(ref, timeout=30)
    until(lambda: title(pid) == f"zray::{cls.__name__}")


def test_environment_stays_to_be_seen_and_title_is_one_line(tmp_path):
    gate = Gate(tmp_path / "gate")

    @zray.remote(name="a\nname " + "of no end" * 40)
    def named():
        until(lambda: "name" in title(os.getpid()) or gate.is_open(), 20)
        with open("/proc/self/environ", "rb") as file:
            return title(os.getpid()), b"PATH=" in file.read()

    shown, has_path = zray.get(named.remote(), timeout=30)
    assert shown.startswith("zray::a?name of no end") and len(shown) <= 66
    assert has_path


def test_title_that_a_task_gives_its_process_is_shown():
    @zray.remote
    def own():
        import setproctitle

        setproctitle.setproctitle("mine")
        return title(os.getpid())

    assert zray.get(own.remote(), timeout=30) == "mine"


def test_services_of_a_head_are_named_for_their_work():
    with Cluster(True, head_node_args={"num_cpus": 1, "gcs_shards": 2, "global_schedulers": 2}) as cluster:
        names = {"zray: GCS shard 0", "zray: GCS shard 1", "zray: global scheduler"}
        until(lambda: names <= set(map(title, children_of(cluster.head_node.pid))))
