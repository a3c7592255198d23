"""The seed of hash() is one number per cluster: equal strings have equal hashes in all its tasks."""

import os
import signal

import pytest

import zray
from tests.scripts import run_script, start_script
from zray.cluster_utils import Cluster
from zray.host import context
from zray.host.process.interpreter import SEED_MAX, chosen_hash_seed, is_hash_seed

DEADLINE_S = 40


def look(node):
    """The seed in the environment, and a hash, of a task on that node."""

    @zray.remote(resources={node: 1}, num_cpus=0)
    def seen():
        return os.environ["PYTHONHASHSEED"], hash("a")

    return zray.get(seen.remote(), timeout=DEADLINE_S)


def kill_fork_server(node):
    pidfd = node.open_fork_server()
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


def test_hashes_are_equal_on_all_nodes_of_a_cluster():
    """The head, and a node that joins later than the program."""
    with Cluster(True, head_node_args={"num_cpus": 0, "resources": {"a": 1}}) as cluster:
        with zray.init(address=cluster.address):
            cluster.add_node(num_cpus=0, resources={"b": 1})
            seen = {look("a"), look("b")}
    ((seed, _),) = seen
    assert is_hash_seed(seed) and seed != "0"


def test_hashes_are_equal_after_a_fork_server_was_replaced(start):
    start(num_cpus=0, resources={"a": 1})
    before = look("a")
    kill_fork_server(context.runtime.paths)
    assert look("a") == before


@pytest.mark.parametrize("seed", ["0", "7"])
def test_seed_of_the_program_is_that_of_its_tasks(tmp_path, seed):
    code = """
    import zray
    zray.init(num_cpus=1)
    print(hash("a") == zray.get(zray.remote(lambda: hash("a")).remote()))
    """
    with start_script(tmp_path, code, {"PYTHONHASHSEED": seed}) as script:
        said, errors = script.communicate(timeout=DEADLINE_S)
    assert said == "True\n", errors


def test_program_without_a_seed_starts_tasks_with_one_of_their_own(tmp_path):
    """The program's own seed is not to be had; the tasks share one."""
    code = """
    import os, zray
    os.environ.pop("PYTHONHASHSEED", None)
    zray.init(num_cpus=2)
    class Actor:
        def seen(self):
            return hash("a")
    actor = zray.remote(Actor).remote()
    print(len({zray.get(actor.seen.remote()), zray.get(zray.remote(lambda: hash("a")).remote())}))
    """
    done = run_script(tmp_path, code)
    assert done.stdout == "1\n", done.stderr


@pytest.mark.slow
def test_seed_outlives_the_head_that_chose_it(tmp_path):
    """The nodes that still run have it."""
    arguments = {"num_cpus": 0, "resources": {"a": 1}, "state_dir": str(tmp_path / "state")}
    seen = set()
    for _ in range(2):
        with Cluster(True, head_node_args=arguments) as cluster, zray.init(address=cluster.address):
            seen.add(look("a"))
    assert len(seen) == 1


def test_seed_is_a_number_that_python_takes(monkeypatch):
    assert all(map(is_hash_seed, ("0", "1", str(SEED_MAX))))
    assert not any(map(is_hash_seed, ("", "random", "-1", str(SEED_MAX + 1), "1 ", "٣", "9" * 5_000)))
    for named in ("random", "", "1x"):
        monkeypatch.setenv("PYTHONHASHSEED", named)
        assert is_hash_seed(chosen_hash_seed()) and chosen_hash_seed() != chosen_hash_seed()
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert chosen_hash_seed() == "7"
