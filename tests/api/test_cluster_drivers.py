"""Programs that end, in order or not: what they had on other nodes goes, detached actors live on (real processes)."""

import os

import pytest

import zray
from tests.gates import Gate, is_running, nothing_is_held, until, until_ended
from tests.scripts import ROOT, from_outside, start_script
from zray.cluster_utils import Cluster
from zray.host.client import control


@pytest.fixture
def cluster(nothing_left):
    """A head without CPUs, and two nodes: one has a disk, the other a tape."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=2, resources={"disk": 1})
        cluster.add_node(num_cpus=2, resources={"tape": 1})
        cluster.wait_for_nodes()
        yield cluster
        zray.shutdown()


PROGRAM = """
    import os, sys
    sys.path.insert(0, {root!r})
    import numpy as np
    import zray
    from tests.gates import Gate, forever
    zray.init(address={address!r}, namespace="shop")

    class Till:
        def __init__(self):
            self.sum = 0
        def add(self, amount):
            self.sum += amount
            return self.sum, os.getpid()

    @zray.remote(num_cpus=0)
    class Busy:
        def work(self, gate):
            Gate(gate).open()
            forever()

    @zray.remote
    def work(gate, array):
        child = zray.remote(forever).options(num_cpus=1).remote()
        Gate(gate).open()
        forever()

    lasting = zray.remote(Till).options(name="lasting", lifetime="detached", resources={{"disk": 1}}).remote()
    passing = zray.remote(Till).options(name="passing", num_cpus=0).remote()
    array = zray.put(np.ones(100_000))
    large = [zray.remote(np.ones).remote(100_000) for _ in range(4)]
    zray.wait(large, num_returns=4)
    print(*zray.get(lasting.add.remote(3)), zray.get(passing.add.remote(1))[1], flush=True)
    busy = Busy.remote()
    refs = [busy.work.remote({gates!r} + "actor"), work.remote({gates!r} + "task", array)]
    refs += [work.remote({gates!r} + "never", array) for _ in range(50)]
    zray.get(refs)
"""


def counts_of(node):
    with control.Control(node.session, node.pid) as link:
        return link.status().counts


def is_empty(node, actors, *, code=0):
    """But for detached actors, and what belongs to them; code: the bundles of code that they hold, of which there may
    be copies everywhere.
    """
    counts = counts_of(node)
    if actors:
        return counts["actors"] == actors and counts["tasks"] == 0 and counts["store_objects"] <= code
    return counts["actors"] == counts["tasks"] == counts["jobs"] == 0 and counts["objects"] <= code


@pytest.mark.slow
@pytest.mark.parametrize("end", ["on the head", "from outside", "its node too"])
def test_a_killed_driver_leaves_its_detached_actors_and_nothing_else(cluster, tmp_path, end):
    disk, tape = cluster.worker_nodes
    home = cluster.add_node(num_cpus=0) if end == "its node too" else None
    variables = from_outside(cluster, tmp_path) if end == "from outside" else {}
    address = "auto" if home else cluster.address  # auto: the newest of this machine
    code = PROGRAM.format(root=str(ROOT), address=address, gates=str(tmp_path / "gate-"))
    with start_script(tmp_path, code, variables) as driver:
        line = driver.stdout.readline()
        assert line, driver.stderr.read()
        total, lasting, passing = map(int, line.split())
        for name in ("actor", "task"):
            gate = Gate(tmp_path / f"gate-{name}")
            until(lambda gate=gate: gate.is_open() or driver.poll() is not None)
            assert driver.poll() is None, driver.stderr.read()
        if home:
            cluster.remove_node(home)
        driver.kill()
    until_ended([passing])
    if end == "from outside":
        until(lambda: not os.listdir(tmp_path / "outside"))
    until(lambda: is_empty(tape, 0, code=1))
    until(lambda: is_empty(disk, 1, code=1))
    until(lambda: is_empty(cluster.head_node, 0, code=1))
    assert is_running(lasting)
    with zray.init(address=cluster.address, namespace="shop"):
        till = zray.get_actor("lasting")
        assert zray.get(till.add.remote(4), timeout=30) == (total + 4, lasting)
        with pytest.raises(ValueError, match="passing"):
            zray.get_actor("passing")
        zray.kill(till)
        until_ended([lasting])
        until(nothing_is_held)
    for node in cluster.list_all_nodes():
        until(lambda node=node: is_empty(node, 0))


GUEST = """
    import zray
    zray.init(address={address!r}, namespace="shop")
    home = zray.get_runtime_context().get_node_id()

    @zray.remote(num_cpus=0)
    def where():
        return zray.get_runtime_context().get_node_id()

    @zray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count, zray.get_runtime_context().get_node_id()

    counter = Counter.options(name="counter", lifetime="detached", get_if_exists=True).remote()
    count, place = zray.get(counter.add.remote())
    others = [Counter.remote() for _ in range(3)]
    places = zray.get([where.remote() for _ in range(5)]) + [zray.get(other.add.remote())[1] for other in others]
    print(count, home in [place, *places], flush=True)
"""


def test_nothing_runs_on_the_machine_of_a_program_outside_of_the_cluster(cluster, tmp_path):
    """What asks for no CPU neither: a detached actor lives on when the program has ended."""
    variables = from_outside(cluster, tmp_path)
    for run in (1, 2):
        with start_script(tmp_path, GUEST.format(address=cluster.address), variables) as program:
            printed, errors = program.communicate(timeout=60)
        assert printed.split() == [str(run), "False"], errors
    zray.init(address=cluster.address, namespace="shop")
    zray.kill(zray.get_actor("counter"))


@pytest.mark.parametrize("number", [0, 1])
def test_a_program_that_names_the_address_of_a_node_on_its_machine_sits_on_that_node(cluster, number):
    """Ray's documents give any node's."""
    node = cluster.worker_nodes[number]
    zray.init(address=node.address)
    assert zray.get_runtime_context().get_node_id() == node.node_id
    zray.shutdown()
