"""Actors on other nodes: real processes, loopback TCP, encrypted."""

import asyncio
import contextlib
import threading

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.exceptions import ActorDiedError


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head with one CPU, a node with a disk, a node with a tape; a program on the head."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        cluster.add_node(num_cpus=1, resources={"disk": 1})
        cluster.add_node(num_cpus=1, resources={"tape": 1})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address, namespace="tests"):
            yield cluster


@zray.remote(resources={"disk": 1})
class Log:
    def __init__(self, start=0):
        self.seen = []
        self.kept = None
        self.start = start

    def add(self, number):
        self.seen.append(number)
        return number

    def everything(self):
        return self.seen

    def where(self):
        return zray.get_runtime_context().get_node_id()

    def keep(self, box):
        self.kept = box

    def kept_sum(self):
        return float(zray.get(self.kept[0]).sum()) + self.start

    def large(self, count):
        return np.arange(float(count))

    def fail(self):
        raise KeyError("far away")


def is_disk_free():
    return zray.available_resources().get("disk") == 1.0


def test_calls_run_in_order_where_the_actor_is(cluster):
    log = Log.remote()
    assert zray.get(log.where.remote(), timeout=20) == cluster.worker_nodes[0].node_id
    assert zray.get([log.add.remote(number) for number in range(1000)], timeout=30) == list(range(1000))
    assert zray.get(log.everything.remote(), timeout=20) == list(range(1000))
    with pytest.raises(KeyError, match="far away"):
        zray.get(log.fail.remote(), timeout=20)
    del log
    until(is_disk_free)


def test_values_of_all_sizes_go_there_and_come_back(cluster):
    start = zray.put(5)
    log = Log.remote(start)
    del start
    array = zray.put(np.ones(200_000))
    zray.get(log.keep.remote([array]), timeout=20)
    del array
    assert zray.get(log.kept_sum.remote(), timeout=20) == 200_005.0
    np.testing.assert_array_equal(zray.get(log.large.remote(300_000), timeout=20), np.arange(300_000.0))
    number = log.add.remote(7)
    assert zray.get(log.add.remote(number), timeout=20) == 7
    del log
    until(is_disk_free)


def test_handles_travel_and_names_are_found_everywhere(cluster):
    def call(box, count):
        here = zray.get_runtime_context().get_node_id()
        return here, zray.get([box[0].add.remote(number) for number in range(count)])

    def by_name():
        return zray.get(zray.get_actor("the log").where.remote())

    log = Log.options(name="the log").remote()
    far = zray.remote(call).options(resources={"tape": 1})
    assert zray.get(far.remote([log], 100), timeout=30) == (cluster.worker_nodes[1].node_id, list(range(100)))
    box = zray.put([log])
    inside = zray.remote(lambda box: zray.get(zray.get(box[0])[0].add.remote(-1))).options(resources={"tape": 1})
    assert zray.get(inside.remote([box]), timeout=30) == -1
    named = zray.remote(by_name).options(resources={"tape": 1})
    assert zray.get(named.remote(), timeout=30) == cluster.worker_nodes[0].node_id
    assert zray.get(zray.get_actor("the log").add.remote(1), timeout=20) == 1
    zray.kill(log)
    with pytest.raises(ActorDiedError, match="kill"):
        zray.get(log.add.remote(2), timeout=20)
    with pytest.raises(ActorDiedError, match="kill"):
        zray.get(far.remote([log], 1), timeout=20)
    with pytest.raises(ValueError, match="the log"):
        zray.get_actor("the log")
    until(is_disk_free)


def test_whoever_kills_an_actor_finds_its_name_free(cluster):
    """Its own node says so to the shard, and that takes a moment."""
    for number in range(10):
        log = Log.options(name="again", get_if_exists=True).remote(number)
        assert zray.get(log.add.remote(number), timeout=20) == number
        assert zray.get(log.everything.remote(), timeout=20) == [number]
        zray.kill(log)
        with pytest.raises(ValueError, match="again"):
            zray.get_actor("again")


def test_actors_of_all_kinds(cluster):
    @zray.remote(resources={"disk": 1})
    class Meeting:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "met"

        async def arrive(self):
            self.event.set()

    @zray.remote(resources={"tape": 1}, max_concurrency=2)
    class Pair:
        def __init__(self):
            self.barrier = threading.Barrier(2)

        def meet(self):
            self.barrier.wait(20)
            return True

    meeting, pair = Meeting.remote(), Pair.remote()
    waiting = meeting.wait.remote()
    meeting.arrive.remote()
    assert zray.get(waiting, timeout=20) == "met"
    assert zray.get([pair.meet.remote(), pair.meet.remote()], timeout=20) == [True, True]
    del meeting, pair
    until(is_disk_free)


def test_an_actor_waits_for_room(cluster):
    first = Log.remote()
    zray.get(first.where.remote(), timeout=20)
    second = Log.remote()
    answer = second.add.remote(3)
    assert zray.wait([answer], timeout=0.5) == ([], [answer])
    del first
    assert zray.get(answer, timeout=20) == 3


def test_a_dead_worker_is_replaced_where_it_was(cluster):
    @zray.remote(resources={"tape": 1}, max_restarts=1)
    class Fragile:
        def die(self):
            import os

            os._exit(3)

        def fine(self):
            return zray.get_runtime_context().get_node_id()

    fragile = Fragile.remote()
    home = zray.get(fragile.fine.remote(), timeout=20)

    def where():
        with contextlib.suppress(zray.exceptions.ActorUnavailableError):  # its restart takes a moment
            return zray.get(fragile.fine.remote(), timeout=20)

    for _ in range(2):
        with pytest.raises(zray.exceptions.RayActorError):
            zray.get(fragile.die.remote(), timeout=20)
        if _ == 0:
            assert until(where) == home
    with pytest.raises(ActorDiedError):
        zray.get(fragile.fine.remote(), timeout=20)
