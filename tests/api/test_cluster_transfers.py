"""Objects on their way from node to node, and what ends that: wires let so many bytes through, and no more."""

import contextlib
import os
import signal
import socket

import numpy as np
import pytest

import zray
from tests.gates import Tally, until
from tests.host.wires import Wire
from tests.scripts import start_script
from zray.cluster_utils import Cluster, Node
from zray.exceptions import GetTimeoutError, ObjectStoreFullError
from zray.host.client import control
from zray.host.process import node_processes
from zray.roles.object_manager.sources import WINDOW_BYTES_MAX
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

pytestmark = pytest.mark.slow

SIZE = 64_000_000
# Of it, so many get through; then the wire is blocked.
LIMIT = 40_000_000


def there(node, *, soft=False):
    return NodeAffinitySchedulingStrategy(node.node_id, soft=soft)


def pattern(tally=None, size=SIZE):
    """What is made, and how often."""
    if tally is not None:
        tally.visit()
    return np.arange(size // 8)


def is_occupied(node):
    """Whether it is there, or has its room.  (The program's own code may be.)"""
    with control.Control(node.session, node.pid) as link:
        return link.status().counts["store_used_bytes"] > SIZE // 2


class Wires(contextlib.ExitStack):
    """A cluster whose nodes are reached, by those that join later, over wires."""

    def __init__(self):
        super().__init__()
        self.cluster = self.enter_context(Cluster(True, head_node_args={"num_cpus": 0}))

    def add(self):
        """(node, its wire)."""
        wire = self.enter_context(Wire(0, socket.create_server(("127.0.0.1", 0))))
        at = self.cluster
        total = node_processes.declared_resources(2, None, None)
        node = Node(*node_processes.start_member(total, None, at.address, at.token, advertise=wire.endpoint))
        wire.port_behind = int(node.address.rpartition(":")[2])
        at.worker_nodes.append(node)
        return node, wire


@pytest.fixture
def wires(nothing_left):
    with Wires() as wires:
        yield wires
        zray.shutdown()


def test_a_holder_that_is_killed_in_the_middle_costs_nothing(wires, tmp_path):
    """The other one gives what is missing, not all of it."""
    tally = Tally(tmp_path / "made")
    holders = [wires.add(), wires.add()]
    wires.cluster.connect()
    made = zray.remote(pattern).options(scheduling_strategy=there(holders[0][0])).remote(tally)
    length = zray.remote(len)
    zray.get(length.options(scheduling_strategy=there(holders[1][0])).remote(made), timeout=60)
    puller = wires.cluster.add_node(num_cpus=1)
    wires.cluster.wait_for_nodes()
    for _, wire in holders:
        wire.brought, wire.limit = 0, LIMIT
    right = zray.remote(lambda array: bool((array == np.arange(SIZE // 8)).all()))
    ref = right.options(scheduling_strategy=there(puller)).remote(made)
    (killed, blocked), (_, other) = until(
        lambda: (
            sorted(holders, key=lambda holder: -holder[1].brought)
            if max(wire.brought for _, wire in holders) >= LIMIT
            else None
        )
    )
    wires.cluster.remove_node(killed)
    blocked.cut()
    other.limit = None
    assert zray.get(ref, timeout=60)
    # What was asked for and was still under way is asked for again.
    assert other.brought < SIZE - LIMIT + WINDOW_BYTES_MAX + 1_000_000
    assert tally.count() == 1


def test_the_only_holder_is_killed_in_the_middle_and_the_value_is_made_again(wires, tmp_path):
    """The record of a value survives the process that made the value, and its node."""
    tally = Tally(tmp_path / "made")
    holder, wire = wires.add()
    wires.cluster.connect()
    made = zray.remote(pattern).options(scheduling_strategy=there(holder, soft=True)).remote(tally)
    zray.wait([made], timeout=60, fetch_local=False)
    puller = wires.cluster.add_node(num_cpus=1)
    wires.cluster.wait_for_nodes()
    wire.brought, wire.limit = 0, LIMIT
    right = zray.remote(lambda array: bool((array == np.arange(SIZE // 8)).all()))
    ref = right.options(scheduling_strategy=there(puller)).remote(made)
    until(lambda: wire.brought >= LIMIT)
    assert tally.count() == 1 and is_occupied(puller)  # it has begun to arrive
    wires.cluster.remove_node(holder)
    wire.cut()
    assert zray.get(ref, timeout=60)
    assert tally.count() == 2


def test_what_a_program_has_let_go_of_is_not_pulled_to_its_end(wires, gate):
    """The task that has waited for it goes, and what it held."""
    holder, wire = wires.add()
    wires.cluster.connect()
    made = zray.remote(pattern).options(scheduling_strategy=there(holder)).remote()
    zray.wait([made], timeout=60)
    puller = wires.cluster.add_node(num_cpus=1)
    wires.cluster.wait_for_nodes()

    def try_it(refs, at):
        while not at.is_open():
            try:
                zray.get(refs, timeout=0.2)
            except GetTimeoutError:
                continue
            return "had it"
        return "in vain"

    wire.brought, wire.limit = 0, LIMIT
    ref = zray.remote(try_it).options(scheduling_strategy=there(puller)).remote([made], gate)
    until(lambda: is_occupied(puller))
    gate.open()
    assert zray.get(ref, timeout=60) == "in vain"
    until(lambda: not is_occupied(puller))
    wire.limit = None
    assert is_occupied(holder)  # we still hold it
    length = zray.remote(len).options(scheduling_strategy=there(puller))
    assert zray.get(length.remote(made), timeout=60) == SIZE // 8


PROGRAM = """
    import numpy as np
    import zray
    from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def on(node):
        return {{"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}}

    zray.init(address={address!r})
    made = zray.remote(lambda: np.arange({size} // 8)).options(**on({holder!r})).remote()
    zray.wait([made])
    ref = zray.remote(len).options(**on({puller!r})).remote(made)
    print("under way", flush=True)
    zray.get(ref)
"""


def test_nor_is_that_of_a_program_that_was_killed(wires, tmp_path):
    holder, wire = wires.add()
    puller = wires.cluster.add_node(num_cpus=1)
    wires.cluster.wait_for_nodes()
    wire.brought, wire.limit = 0, LIMIT
    facts = {"address": wires.cluster.address, "holder": holder.node_id, "puller": puller.node_id, "size": SIZE}
    with start_script(tmp_path, PROGRAM.format(**facts)) as driver:
        assert driver.stdout.readline() == "under way\n", driver.stderr.read()
        until(lambda: is_occupied(puller) and wire.brought >= LIMIT)
        os.kill(driver.pid, signal.SIGKILL)
    until(lambda: not is_occupied(puller))
    wire.limit = None
    until(lambda: not is_occupied(holder))
    assert wire.brought < SIZE


@pytest.fixture
def small(nothing_left):
    """A head without CPUs, a node, and one with a store that has room for one object."""
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        other = cluster.add_node(num_cpus=1)
        small = cluster.add_node(num_cpus=1, object_store_memory=SIZE + SIZE // 2, object_spilling_directory="")
        cluster.wait_for_nodes()
        cluster.connect()
        yield other, small
        zray.shutdown()


def test_where_there_is_no_room_and_will_be_none_it_is_an_error_that_says_what_fills_the_store(small):
    other, puller = small

    class Keeper:
        def keep(self):
            self.kept = zray.put(pattern())
            return self.kept.hex()

        def let_go(self):
            del self.kept

    keeper = zray.remote(num_cpus=0)(Keeper).options(scheduling_strategy=there(puller)).remote()
    kept = zray.get(keeper.keep.remote(), timeout=60)
    make = zray.remote(pattern).options(scheduling_strategy=there(other))
    length = zray.remote(len).options(scheduling_strategy=there(puller))
    with pytest.raises(ObjectStoreFullError, match=kept):
        zray.get(length.remote(make.remote()), timeout=60)
    zray.get(keeper.let_go.remote(), timeout=60)
    assert zray.get(length.remote(make.remote()), timeout=60) == SIZE // 8


def test_where_there_will_be_room_it_is_waited_for(small, gate):
    """For longer than a full store is an error: the task that runs there may take its time."""
    other, puller = small
    make = zray.remote(pattern).options(scheduling_strategy=there(other))
    read = zray.remote(lambda array, at: at.wait(50) or len(array)).options(scheduling_strategy=there(puller))
    first = read.remote(make.remote(), gate)
    until(lambda: is_occupied(puller))
    second = read.remote(make.remote(), gate)
    _, waiting = zray.wait([second, first], num_returns=1, timeout=12)
    assert len(waiting) == 2
    gate.open()
    assert zray.get([first, second], timeout=60) == [SIZE // 8] * 2


def test_what_a_task_takes_comes_to_its_own_node_alone(nothing_left, gate):
    """It came to the program's, too, where it could never run, and left no room for what ran there."""
    with Cluster(True, head_node_args={"num_cpus": 1, "object_store_memory": SIZE + SIZE // 2}) as cluster:
        other, large = (cluster.add_node(num_cpus=1) for _ in range(2))
        cluster.wait_for_nodes()
        cluster.connect()
        late = zray.remote(lambda: gate.wait(50) or pattern()).options(scheduling_strategy=there(cluster.head_node))
        make = zray.remote(pattern).options(scheduling_strategy=there(other))
        both = zray.remote(lambda one, two: len(one) + len(two)).options(scheduling_strategy=there(large))
        early = make.remote()
        result = both.remote(late.remote(), early)
        zray.wait([early], fetch_local=False)
        assert not is_occupied(cluster.head_node)
        gate.open()
        assert zray.get(result, timeout=60) == SIZE // 8 * 2
        zray.shutdown()


def test_a_chain_of_large_results_is_made_again_from_its_first_task_on(nothing_left, tmp_path):
    """All of them lay on the node that is killed; their records are spread over two shards."""
    length, tally = 24, Tally(tmp_path / "made")

    def link(before, number):
        tally.visit()
        return before + number

    with Cluster(True, head_node_args={"num_cpus": 0, "gcs_shards": 2}) as cluster:
        doomed = cluster.add_node(num_cpus=2)
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            task = zray.remote(link).options(scheduling_strategy=there(doomed, soft=True), max_retries=-1)
            refs = [zray.remote(np.zeros).options(scheduling_strategy=there(doomed, soft=True)).remote(200_000)]
            for number in range(length):
                refs.append(task.remote(refs[-1], number))
            last = refs[-1]
            del refs  # what is between lives in nobody's hands but the lineage's
            zray.wait([last], timeout=60, fetch_local=False)
            assert tally.count() == length
            cluster.remove_node(doomed)
            array = zray.get(last, timeout=60)
            assert array.shape == (200_000,) and set(array) == {sum(range(length))}
            assert tally.count() == 2 * length
