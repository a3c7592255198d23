"""A reader's key looks at a cluster, and does nothing else (docs/security.md, S5 and B11)."""

import json

import pytest
import zmq

from tests.cli.commands import zray
from tests.host.wires import Stranger, pump
from zray.cluster_utils import Cluster
from zray.exceptions import AuthenticationError, ZrayError
from zray.host.client import control
from zray.host.cluster.read_only import Readers, read_cluster
from zray.host.links.compatibility import python_version
from zray.host.security.keyring import Key, KeyPair, Token
from zray.version import __version__
from zray.wire.codec import Letter, Mail, decode_mail, encode
from zray.wire.hosts import GetNodes, HostHello, HostRefused, JoinCluster, NodesReply
from zray.wire.link import open_unnumbered, unnumbered
from zray.wire.message import PROTOCOL_VERSION
from zray.wire.objects import PullObject
from zray.wire.orders import DrawToken, RevokeKey, TokenReply
from zray.wire.scheduling import SpillTask
from zray.wire.task_spec import TaskSpec


@pytest.fixture(scope="module")
def cluster(nothing_left):
    with Cluster(True, head_node_args={"num_cpus": 1}) as cluster:
        cluster.add_node(num_cpus=2, resources={"disk": 1})
        cluster.wait_for_nodes()
        yield cluster


def order(cluster, message, *answers):
    with control.find_head(cluster.head_node.session.name) as head:
        return head.order(message, *answers)


def draw(cluster, seconds=60.0):
    return order(cluster, DrawToken(1, seconds, 1, "reader"), TokenReply).token


def test_it_sees_the_nodes_as_often_as_it_likes(cluster):
    token = draw(cluster)
    for _ in range(3):
        nodes = read_cluster(cluster.address, token).nodes
        assert {node.node.partition("/")[0] for node in nodes} == {
            cluster.head_node.node_id,
            cluster.worker_nodes[0].node_id,
        }
        assert sorted(node.total.get("disk", 0) for node in nodes) == [0, 10_000]


def test_it_cannot_join(cluster):
    token = draw(cluster)
    before = cluster.token
    cluster.token = token
    try:
        refusal = "PermissionDenied: a reader may not send JoinCluster.*  Joining needs .*`zray keys token`"
        with pytest.raises(AuthenticationError, match=refusal):
            cluster.add_node(num_cpus=1)
    finally:
        cluster.token = before


def test_one_that_is_revoked_or_a_joiners_is_refused(cluster):
    token = draw(cluster)
    name = f"reader-{Token.decode(token).pair.public.hex()[:8]}"
    assert order(cluster, RevokeKey(1, name)).done == [f"reader {name}"]
    with pytest.raises(ZrayError, match="does not know this token"):
        read_cluster(cluster.address, token)
    with pytest.raises(ZrayError, match="may send JoinCluster.*zray keys reader"):
        read_cluster(cluster.address, cluster.token)
    with pytest.raises(ZrayError, match="not a token for readers: .*`zray keys reader` printed on the head's machine"):
        read_cluster(cluster.address, "rubbish")


def test_by_the_command_line(cluster, monkeypatch):
    drawn = zray("keys", "reader", "--session", cluster.head_node.session.name)
    assert drawn.returncode == 0, drawn.stderr
    variable, *command = drawn.stdout.split()
    assert command == ["zray", "status", "--address", cluster.address]
    token = variable.removeprefix("ZRAY_TOKEN=")
    monkeypatch.setenv("ZRAY_TOKEN", token)
    shown = zray("status", "--address", cluster.address, "--format", "json")
    assert shown.returncode == 0, shown.stderr
    assert len(json.loads(shown.stdout)["nodes"]) == 2 and token not in shown.stdout
    monkeypatch.delenv("ZRAY_TOKEN")
    refused = zray("status", "--address", cluster.address)
    assert refused.returncode == 2 and "ZRAY_TOKEN" in refused.stderr


# --- on a bare host ---


@pytest.fixture
def reader(pair):
    """A head that answers readers, and the keys of one."""
    head, node = pair
    head.asked = []

    def ask(message, answer):
        head.asked.append(message)
        answer(NodesReply(message.request, []))

    head.links.on_read = Readers(head.links, ask).hear
    keys = KeyPair.draw()
    head.ring.add(Key(keys.public, "reader", "reader-1"))
    return keys


def spill(head):
    return encode(Mail(1, 1, 0, [Letter("a" * 16 + "/local", head.role("global"), [SPILL])]))


SPILL = SpillTask(TaskSpec(b"t" * 16, b"f" * 16), "a" * 16 + "/local", b"j")
SAID = {
    "a task": spill,
    "a greeting": lambda head: unnumbered(HostHello(PROTOCOL_VERSION, __version__, "a" * 16)),
    "the head's greeting": lambda head: unnumbered(HostHello(PROTOCOL_VERSION, __version__, head.name)),
    "a wish to join": lambda head: unnumbered(
        JoinCluster(PROTOCOL_VERSION, __version__, python_version(), "a" * 16, "node", b"k" * 32)
    ),
    "a wish for an object": lambda head: encode(
        Mail(1, 1, 0, [Letter("a" * 16 + "/objects", head.role("objects"), [PullObject(b"o" * 20, 1, 0, 1)])])
    ),
    "a question for a role": lambda head: encode(
        Mail(1, 1, 0, [Letter("a" * 16 + "/host", head.role("global"), [GetNodes(1)])])
    ),
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_whatever_else_it_says_is_refused_and_counted(pair, reader, said):
    """docs/security.md, B11 and B23."""
    head, node = pair
    before = head.links.dropped_frames
    with Stranger(head, reader) as stranger:
        stranger.socket.send(said(head))
        pump(pair, lambda: stranger.socket.poll(0))
        refused = open_unnumbered(decode_mail(stranger.socket.recv()))
        assert type(refused) is HostRefused and refused.reason.startswith("PermissionDenied: a reader may not send")
        stranger.socket.send(unnumbered(GetNodes(7)))
        pump(pair, lambda: stranger.socket.poll(0))
        assert open_unnumbered(decode_mail(stranger.socket.recv())) == NodesReply(7, [])
    assert head.links.dropped_frames == before + 1 and not head.heard and head.asked == [GetNodes(7)]
    assert not set(head.links.by_host) - {node.name}


def test_one_that_does_it_again_and_again_is_cut(pair, reader):
    """docs/security.md, S11."""
    head, _ = pair
    with Stranger(head, reader) as stranger:
        monitor = stranger.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        for _ in range(11):
            stranger.socket.send(spill(head))
        pump(pair, lambda: monitor.poll(0))
        stranger.socket.disable_monitor()
        monitor.close()
