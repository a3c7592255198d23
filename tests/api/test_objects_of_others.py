"""Two programs of one cluster, and an object of one that was never handed to the other (docs/security.md, B23)."""

import contextlib
import os

import pytest

import zray
from tests.api.test_cluster_drivers import counts_of
from tests.gates import until
from tests.scripts import from_outside, start_script
from zray.cluster_utils import Cluster
from zray.exceptions import GetTimeoutError
from zray.ids import OBJECT_ID_BYTES, put_id, root_task_id
from zray.object_ref import _restore

OWNER = """
    import sys, zray
    zray.init(address={address!r})
    small, large = zray.put("word"), zray.put(b"x" * 3_000_000)
    print(zray.get_runtime_context().get_job_id(), small.hex(), large.hex(), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def cluster(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster
        zray.shutdown()


def named(object_id):
    """A ref that nobody handed to this program: as a pickle that somebody has written by hand would make it."""
    return _restore(object_id)


def is_nobodys(object_id):
    """Whether there is no value to be had."""
    try:
        zray.get(named(object_id), timeout=1)
    except GetTimeoutError:
        return True
    return False


@contextlib.contextmanager
def owner_of(cluster, folder, variables=()):
    """A program that has handed its objects to nobody; yields their ids."""
    with start_script(folder, OWNER.format(address=cluster.address), variables, stdin=-1) as owner:
        line = owner.stdout.readline().split()
        assert line, owner.stderr.read()
        job_id, *ids = map(bytes.fromhex, line)
        # Ids are names, not secrets.
        assert ids == [put_id(root_task_id(job_id), count) for count in range(2)]
        yield ids
        owner.communicate("end", timeout=30)


def test_of_another_job_of_its_node_a_program_has_what_it_can_name(cluster, tmp_path):
    """The limit that docs/security.md speaks of: jobs trust each other.  What is not, or not any more, nobody gets."""
    zray.init(address=cluster.address)
    length = zray.remote(len)
    with owner_of(cluster, tmp_path) as ids:
        for object_id, size in zip(ids, (4, 3_000_000), strict=True):
            ref = named(object_id)
            assert len(zray.get(ref, timeout=30)) == size and zray.get(length.remote(ref), timeout=30) == size
            del ref
    for object_id in (*ids, os.urandom(OBJECT_ID_BYTES)):
        until(lambda object_id=object_id: is_nobodys(object_id))
    assert zray.get(length.remote("others go on"), timeout=30) == 12
    zray.shutdown()
    until(lambda: all(counts_of(node)["objects"] == 0 for node in (cluster.head_node, *cluster.worker_nodes)))


def test_what_its_job_has_handed_to_nobody_is_not_to_be_had_from_another_node(cluster, tmp_path):
    """The shards have not heard of the object."""
    zray.init(address=cluster.address)
    with owner_of(cluster, tmp_path, from_outside(cluster, tmp_path)) as ids:
        assert all(is_nobodys(object_id) for object_id in ids)
        with pytest.raises(GetTimeoutError):
            zray.get(zray.remote(len).remote(named(ids[1])), timeout=0.5)
