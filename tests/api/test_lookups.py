"""What programs look up: names of living actors, and the address of the node that they are on."""

import subprocess
import sys

import pytest

import zray
from tests.gates import until
from tests.scripts import ROOT, environment
from zray.cluster_utils import Cluster
from zray.exceptions import ClusterLostError, DeserializationError, RayError, RaySystemError, RayTaskError
from zray.util import get_node_ip_address, list_named_actors


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head with two shards, and a node; a program on the head."""
    with Cluster(True, head_node_args={"num_cpus": 1, "gcs_shards": 2}) as cluster:
        cluster.add_node(num_cpus=1, resources={"disk": 1})
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address, namespace="tests"):
            yield cluster


@zray.remote
class Named:
    def names(self, all_namespaces=False):
        return list_named_actors(all_namespaces)

    def address(self):
        return get_node_ip_address()


def test_living_actors_are_listed_by_name(cluster):
    assert list_named_actors() == []
    names = [f"actor {number}" for number in range(6)]
    actors = [Named.options(name=name, resources={"disk": 0.1}).remote() for name in names]
    unnamed = Named.remote()
    other = Named.options(name="other", namespace="elsewhere").remote()
    assert zray.get(unnamed.names.remote()) == list_named_actors() == names
    everything = [{"name": "other", "namespace": "elsewhere"}] + [{"name": it, "namespace": "tests"} for it in names]
    assert zray.get(actors[0].names.remote(True)) == list_named_actors(all_namespaces=True) == everything
    zray.get([actor.names.remote() for actor in (*actors, other)])
    zray.kill(actors[0])
    with pytest.raises(zray.exceptions.ActorDiedError):
        zray.get(actors[0].names.remote())
    until(
        lambda: list_named_actors() == names[1:]
    )  # its node tells the shard, and we ask that, each on a way of its own
    assert zray.get(unnamed.names.remote()) == names[1:]
    with pytest.raises(TypeError, match="all_namespaces must be a bool"):
        list_named_actors("tests")


def test_error_of_a_missing_name_names_namespaces_that_have_it(cluster):
    with pytest.raises(ValueError, match=r"named 'lonely' in namespace 'tests'\.$"):
        zray.get_actor("lonely")
    elsewhere = [Named.options(name="lonely", namespace=f"space {number}").remote() for number in range(7)]
    zray.get([actor.names.remote() for actor in elsewhere])
    said = r"in namespace '%s'\.  Namespaces that have one: %s and 2 more\.  Pass namespace=\.\.\. to get_actor"
    some = ", ".join(f"'space {number}'" for number in range(5))
    with pytest.raises(ValueError, match=said % ("tests", some)):
        zray.get_actor("lonely")
    with pytest.raises(ValueError, match=r"in namespace 'none'\.  .* and 2 more"):
        zray.get_actor("lonely", namespace="none")
    assert zray.get_actor("lonely", namespace="space 3") == elsewhere[3]


def test_a_node_says_at_which_address_others_reach_it(cluster):
    (address,) = {node["NodeManagerAddress"] for node in zray.nodes()}
    there = Named.options(resources={"disk": 0.1}).remote()
    assert get_node_ip_address() == zray.get(there.address.remote()) == address == "127.0.0.1"


def test_without_a_session_no_session_begins():
    script = "import zray, zray.util as u; print(u.get_node_ip_address('127.0.0.1:1'), zray.is_initialized())"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), cwd=ROOT, capture_output=True, timeout=40)
    assert done.stdout == b"127.0.0.1 False\n", done.stderr


def test_what_the_system_itself_has_failed_at_goes_by_rays_name():
    assert issubclass(ClusterLostError, RaySystemError) and issubclass(DeserializationError, RaySystemError)
    assert issubclass(RaySystemError, RayError) and not issubclass(RayTaskError, RaySystemError)
