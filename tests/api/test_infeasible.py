"""Requests that no node can ever hold: an error, or a wait for a node that can."""

import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.host.driver import startup

# The error of an infeasible request comes within this time.
SAID_SECONDS = 2.0


@zray.remote
def identity(value):
    return value


@zray.remote
def where():
    return zray.get_runtime_context().get_node_id()


@zray.remote
class Adder:
    def __init__(self, start):
        self.value = start

    def add(self, number):
        self.value += number
        return self.value


def test_what_no_node_can_ever_run_fails_and_says_what_is_lacking(start):
    """No further node can join an embedded session, so the task could never run."""
    start(num_cpus=2)
    ref = identity.options(num_cpus=64).remote(1)
    with pytest.raises(zray.exceptions.TaskUnschedulableError) as raised:
        zray.get(ref, timeout=SAID_SECONDS)
    node = zray.get_runtime_context().get_node_id()[:8]
    assert f"it asks for 64 CPU; the largest node ({node}) has 2 CPU." in str(raised.value)
    assert "Start a session that has it (zray.init(num_cpus=64)), or ask for less." in str(raised.value)
    assert zray.get(identity.remote(2)) == 2


def test_what_no_node_can_ever_run_names_all_that_is_lacking(start):
    start(num_cpus=2)
    ref = identity.options(num_cpus=1, num_gpus=2, resources={"disk": 0.5}).remote(1)
    with pytest.raises(zray.exceptions.TaskUnschedulableError) as raised:
        zray.get(ref, timeout=SAID_SECONDS)
    assert "it asks for 1 CPU, 2 GPU, 0.5 disk; the largest node" in str(raised.value)
    assert "has 2 CPU, 0 GPU, 0 disk." in str(raised.value)
    assert "zray.init(num_gpus=2, resources={'disk': 0.5})" in str(raised.value)


@pytest.mark.parametrize("value", ["", "perhaps", "RAISE"])
def test_what_becomes_of_the_infeasible_is_one_of_two(value, monkeypatch):
    """Refused before anything is started."""
    with pytest.raises(ValueError, match="infeasible must be 'raise' or 'wait'"):
        startup.checked_infeasible(value)
    assert startup.checked_infeasible(None) == ""
    monkeypatch.setenv("ZRAY_INFEASIBLE", "wait")
    assert startup.checked_infeasible(None) == "wait"
    assert startup.checked_infeasible("raise") == "raise"
    monkeypatch.setenv("ZRAY_INFEASIBLE", "perhaps")
    with pytest.raises(ValueError, match="ZRAY_INFEASIBLE must be 'raise' or 'wait', not 'perhaps'"):
        startup.checked_infeasible(None)


def test_what_no_node_has_waits_for_one_that_joins(nothing_left, capsys):
    """And whoever waits so long is told (`zray.get` has something to say then, too)."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        with zray.init(address=cluster.address):
            refs = [where.options(resources={"drum": 1}).remote() for _ in range(3)]
            adder = Adder.options(resources={"drum": 0.5}).remote(40)
            refs.append(adder.add.remote(2))
            told, heard = "zray: task where has waited for 10 s: it asks for 1 CPU, 1 drum; the largest node (", []

            def is_told():
                assert zray.wait(refs, timeout=0.5) == ([], refs)
                heard.append(capsys.readouterr().err)
                return told in "".join(heard)

            until(is_told)
            node = cluster.add_node(num_cpus=1, resources={"drum": 2})
            assert zray.get(refs, timeout=40) == [node.node_id] * 3 + [42]


@pytest.fixture(scope="module")
def cluster(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        cluster.add_node(num_cpus=2, resources={"disk": 2})
        yield cluster


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_what_no_node_has_is_an_error_where_the_program_says_so(how, cluster, monkeypatch):
    if how == "environment":
        monkeypatch.setenv("ZRAY_INFEASIBLE", "raise")
    with zray.init(address=cluster.address, infeasible="raise" if how == "argument" else None):
        disk = cluster.worker_nodes[0].node_id[:8]
        with pytest.raises(zray.exceptions.TaskUnschedulableError) as raised:
            zray.get(where.options(resources={"disk": 7}).remote(), timeout=20)
        assert f"it asks for 1 CPU, 7 disk; the largest node ({disk}) has 2 CPU, 2 disk." in str(raised.value)
        assert "zray start --address" in str(raised.value)
        nested = zray.remote(lambda: zray.get(where.options(resources={"disk": 7}).remote()))
        with pytest.raises(zray.exceptions.TaskUnschedulableError):
            zray.get(nested.options(resources={"disk": 1}).remote(), timeout=20)
        with pytest.raises(zray.exceptions.ActorUnschedulableError, match="it asks for 9 disk"):
            zray.get(Adder.options(resources={"disk": 9}).remote(1).add.remote(1), timeout=20)
