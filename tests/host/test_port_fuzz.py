"""The port of a running cluster, under fire from peers without a key and from one with a key.

The rows of docs/security.md: S10, S11, B03, B13.
Its memory and descriptors stay what they were, and it goes on with its work.
"""

import os
import random
import socket
import struct
import threading
from pathlib import Path

import psutil
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zray as api
from tests.gates import until
from tests.host.curve import LONG_COMMAND
from tests.host.raw import random_message
from zray.cluster_utils import Cluster
from zray.host.links.compatibility import python_version
from zray.host.links.dialer import FRAME_BYTES_MAX, client
from zray.host.security.keyring import KeyPair, Token
from zray.version import __version__
from zray.wire.codec import MESSAGE_TYPES, Letter, Mail, encode
from zray.wire.hosts import GetNodes, HostHello, JoinCluster
from zray.wire.link import unnumbered
from zray.wire.message import PROTOCOL_VERSION

pytestmark = pytest.mark.slow

# What an allocator keeps of what went through it; a leak of one frame of 64 KiB per example would be twice that.
MEMORY_BYTES_MAX = 24 << 20
# Of megabytes that come by several connections it keeps as much as there ever was at one time, in all its pools:
# 70 MB after some rounds, which more of them do not add to.
POOLS_BYTES_MAX, POOLS_ROUNDS = 128 << 20, 3
# It may open a file of its own meanwhile; of connections there are hundreds.
DESCRIPTORS_MORE = 8
EXAMPLES = 400
STRANGERS = 20

GREETINGS = [b"\xff" + bytes(8) + b"\x7f\x03\x01" + name.ljust(20, b"\0") + bytes(32) for name in (b"NULL", b"CURVE")]
RAW = st.one_of(
    st.binary(max_size=64 << 10),
    st.builds(lambda greeting, rest: greeting + rest, st.sampled_from(GREETINGS), st.binary(max_size=2_000)),
    st.builds(lambda greeting, cut: greeting[:cut], st.sampled_from(GREETINGS), st.integers(0, 64)),
)


@pytest.fixture(scope="module")
def cluster(nothing_left):
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        cluster.connect()
        yield cluster
        api.shutdown()


@pytest.fixture
def unmoved(cluster):
    """The head, before and after."""
    head = psutil.Process(cluster.head_node.pid)
    work = api.remote(lambda x: x)
    assert api.get(work.remote(1), timeout=60) == 1
    yield head.memory_info().rss
    assert api.get([work.remote(number) for number in range(50)], timeout=60) == list(range(50))
    assert head.is_running() and head.status() != psutil.STATUS_ZOMBIE


def stays(cluster, before, descriptors, more=MEMORY_BYTES_MAX):
    """Returns the head's memory."""
    head = psutil.Process(cluster.head_node.pid)
    until(lambda: head.num_fds() <= descriptors + DESCRIPTORS_MORE)
    now = head.memory_info().rss
    assert now - before <= more, f"{now - before:,} bytes more than before"
    return now


def test_bytes_of_strangers(cluster, unmoved):
    host, _, port = cluster.address.rpartition(":")
    head = psutil.Process(cluster.head_node.pid)
    descriptors = head.num_fds()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(RAW)
    def fire(data):
        with socket.create_connection((host, int(port)), timeout=20) as wire:
            try:
                wire.sendall(data)
            except OSError:
                pass  # it has hung up before the end

    fire()
    stays(cluster, unmoved, descriptors)


def test_long_frames_of_strangers(cluster, unmoved):
    """Each is as long as a member's may be, and all come at once."""
    host, _, port = cluster.address.rpartition(":")
    head = psutil.Process(cluster.head_node.pid)
    descriptors = head.num_fds()
    sent = []

    def say():
        with socket.create_connection((host, int(port)), timeout=20) as wire:
            try:
                wire.sendall(GREETINGS[1] + bytes([LONG_COMMAND]) + struct.pack(">Q", FRAME_BYTES_MAX))
                for _ in range(FRAME_BYTES_MAX >> 20):
                    wire.sendall(bytes(1 << 20))
                    sent.append(1 << 20)
            except OSError:
                pass  # it has hung up before the end

    most = peak(head)
    strangers = [threading.Thread(target=say) for _ in range(STRANGERS)]
    for stranger in strangers:
        stranger.start()
    for stranger in strangers:
        stranger.join()
    assert sum(sent) < STRANGERS * FRAME_BYTES_MAX // 2
    assert peak(head) - most < STRANGERS * FRAME_BYTES_MAX // 4
    stays(cluster, unmoved, descriptors, POOLS_BYTES_MAX)


def peak(process):
    """The most memory that it has ever had, in bytes."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) << 10


def frames(token, pick):
    """What one with a token may come up with: words of all kinds, in an order of their own."""
    names = [os.urandom(8).hex(), "", "x" * 300, token.head_public.hex()[:16]]
    kind = pick.choice(list(MESSAGE_TYPES.values()))
    message = random_message(kind, pick)
    join = JoinCluster(
        PROTOCOL_VERSION, __version__, python_version(), pick.choice(names), "node", pick.choice((b"", b"k" * 32))
    )
    letter = Letter(f"{pick.choice(names)}/local", f"{pick.choice(names)}/monitor", [message])
    return pick.choice(
        [
            [unnumbered(message)],
            [encode(Mail(1, pick.randrange(3), 0, [letter]))],
            [unnumbered(HostHello(PROTOCOL_VERSION, __version__, pick.choice(names)))],
            [unnumbered(GetNodes(1))],
            [unnumbered(join)] if join.host != names[0] or join.public_key == b"" else [b""],
            [pick.randbytes(pick.randrange(2_000))],
            [pick.randbytes(1_000)] * pick.choice((2, 17, 1_001)),
            [b"\x91" * 10_000],
            [pick.randbytes(64 << 10)],
        ]
    )


def test_frames_of_one_with_a_token(cluster, unmoved):
    """It is past the handshake, and no member."""
    token = Token.decode(cluster.token)
    head = psutil.Process(cluster.head_node.pid)
    descriptors = head.num_fds()
    context = zmq.Context()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, (1 << 32) - 1))
    def fire(seed):
        pick = random.Random(seed)
        wire = client(context, token.pair, token.head_public)
        wire.linger = 2_000
        wire.connect(f"tcp://{cluster.address}")
        for _ in range(pick.randrange(1, 4)):
            wire.send_multipart(frames(token, pick))
        wire.close()

    try:
        for _ in range(POOLS_ROUNDS):
            fire()
            filled = stays(cluster, unmoved, descriptors, POOLS_BYTES_MAX)
        fire()
    finally:
        context.term()
    stays(cluster, filled, descriptors)


def test_connections_of_strangers_with_keys_that_are_not_let_in(cluster, unmoved):
    token = Token.decode(cluster.token)
    head = psutil.Process(cluster.head_node.pid)
    descriptors = head.num_fds()
    context = zmq.Context()
    for _ in range(100):
        wire = client(context, KeyPair.draw(), token.head_public)
        wire.connect(f"tcp://{cluster.address}")
        wire.send(unnumbered(GetNodes(1)))
        wire.close(linger=1_000)
    context.term()
    stays(cluster, unmoved, descriptors)


def test_all_ports_of_a_cluster_speak_curve_and_nothing_else(nothing_left):
    """The head's processes have no other ports (docs/security.md, S2)."""
    with Cluster(True, head_node_args={"num_cpus": 0, "gcs_shards": 2, "global_schedulers": 2}) as cluster:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        nodes = [psutil.Process(node.pid) for node in cluster.list_all_nodes()]
        ports = until(lambda: len(found := listening(nodes)) == len(nodes) + 4 and found)
        for host, port in ports:
            assert host == "127.0.0.1"
            for mechanism in (b"NULL", b"PLAIN"):
                with socket.create_connection((host, port), timeout=20) as wire:
                    wire.sendall(GREETINGS[0][:12])  # it says its own before it has heard all of ours
                    heard = b""
                    while len(heard) < 64:
                        heard += wire.recv(64) or b"?" * 64
                    wire.sendall(mechanism.ljust(20, b"\0") + bytes(32))
                    assert heard[12:32].rstrip(b"\0") == b"CURVE" and not wire.recv(1)  # and hangs up


def listening(nodes):
    """Where these and what they have started take calls from the network."""
    processes = [process for node in nodes for process in (node, *node.children(recursive=True))]
    calls = [call for process in processes for call in process.net_connections(kind="inet")]
    return sorted({tuple(call.laddr) for call in calls if call.status == psutil.CONN_LISTEN})
