"""A joined node with a key of its own that means ill: pickles and noise in all it says (docs/security.md, S8, B16)."""

import os
import pickle
import random
import re

import msgspec
import psutil
import pytest

import zray
from tests.gates import until
from tests.host.raw import random_message
from tests.host.test_payloads import Canary, is_valid, opened_by, with_a_canary
from tests.host.wires import Host, pump
from zray.exceptions import ZrayError
from zray.host.cluster.membership import ask_head
from zray.host.links.compatibility import python_version
from zray.host.links.violations import OFFENCES_MAX
from zray.host.security.keyring import Key, Token
from zray.ids import function_id
from zray.version import __version__
from zray.wire.actors import PlaceActor, RegisterActor
from zray.wire.allowed import ALLOWED, ROLES_OF_KEY
from zray.wire.chain import ChainChanged, ChainFollow, ChainResults, ChainWrite
from zray.wire.claims import OWN_NAME
from zray.wire.codec import Letter, Mail, encode_mail
from zray.wire.gcs import NodeJoined, RecordTasks, RegisterNode
from zray.wire.hosts import JoinCluster
from zray.wire.link import Parts
from zray.wire.message import PROTOCOL_VERSION
from zray.wire.objects import ObjectChunk, ObjectInline
from zray.wire.reasons import Explain, ExplainReply
from zray.wire.relay import TunnelBytes
from zray.wire.scheduling import PlaceTask, SpillTask, TaskDone
from zray.wire.tasks import PublishFunction

pytestmark = pytest.mark.slow

SEEDS = 6
# What an allocator keeps, as in test_port_fuzz.py; and files that a process may open of its own meanwhile.
MEMORY_BYTES_MAX, DESCRIPTORS_MORE = 24 << 20, 8
# Kinds of roles -> what they are called on a host.
NAMES = {"gcs": "gcs-0", "shard": "shard-0"}
OF_HEAD = ("local", "objects", "global", "gcs", "chains", "monitor", "relay", "hosting", "host")
OF_NODE = ("local", "objects", "host")


class Member(Host):
    """It has joined, and the others know it; without CPUs, so that it is given nothing to do."""

    def __init__(self, cluster):
        super().__init__()
        self.links.roles.update(self.role(NAMES.get(kind, kind)) for kind in ROLES_OF_KEY["node"])
        self.asked = self.written = 0
        token = Token.decode(cluster.token)
        self.head = ask_head(cluster.address, token, wish_to_join(self.name, self.keys.public)).head
        self.links.meet(self.head, Key(token.head_public, "head", self.head), cluster.address)
        registration = RegisterNode(self.role("local"), {}, "node", self.endpoint, self.keys.public)
        self.say("local", f"{self.head}/monitor", registration)
        self.say("shard-0", f"{self.head}/chains", ChainFollow("gcs-0"))
        (changed,) = pump((self,), lambda: self.messages_of(ChainChanged))
        self.epoch, self.node = changed.epoch, cluster.worker_nodes[0].node_id
        pump((self,), lambda: self.node in self.links.by_host)

    def __exit__(self, *error):
        self.links.close("it has said it all")
        self.loop.epoll.close()

    def messages_of(self, kind):
        return [message for message in self.messages() if type(message) is kind]

    def turn(self):
        count = len(self.heard)
        super().turn()
        for message in self.messages()[count:]:
            if type(message) is NodeJoined:
                host = message.node.partition("/")[0]
                self.links.meet(host, Key(message.public_key, "node", host), message.endpoint * message.is_earlier)

    def refusals(self, host):
        return sum(f"host {host} refused a message of this host" in line for line in self.lines)

    def until_heard_by(self, host):
        """It has handled all that it was told: it answers what came last."""
        self.asked += 1
        self.say("local", f"{host}/local", Explain(self.asked, []))
        pump((self,), lambda: self.asked in [reply.request for reply in self.messages_of(ExplainReply)])

    def tell(self, host, source, target, message):
        """The way that such messages go."""
        role, kind = f"{host}/{NAMES.get(target, target)}", type(message)
        if not is_valid(message):
            # Outside of the link, which would say it again until it is taken.
            head, bulk = encode_mail(Mail(1, 1 << 40, 0, [Letter(self.role(source), role, [message])]))
            self.links._put(self.links.by_host[host], Parts(head, bulk) if bulk else head)
        elif (source, target) == ("local", "gcs"):
            self.written += 1
            self.say("shard-0", role, ChainWrite(self.epoch, self.written, 0, [(self.role("local"), message)]))
        elif kind is not ChainWrite:
            self.say(NAMES.get(source, source), role, message)

    def in_own_name(self, message, role):
        """The same, with the names in it as they have to be."""
        kind, changed = type(message), {}
        if kind in OWN_NAME:
            changed = {OWN_NAME[kind]: self.role(role)}
        elif kind in (PlaceTask, PlaceActor):
            changed = {"origin": self.role(role)}
        elif kind is RegisterNode:
            changed = {"kind": "node"}
        elif kind is PublishFunction:
            function = message.function
            changed = {"function": msgspec.structs.replace(function, function_id=function_id(function.code))}
        return msgspec.structs.replace(message, **changed)


def wish_to_join(host, public_key):
    return JoinCluster(PROTOCOL_VERSION, __version__, python_version(), host, "node", public_key)


def all_that_a_node_may_say(targets, data):
    """(kind of role, kind of role, message): each type, with that in each of its fields of bytes."""
    for (source, target), kinds in sorted(ALLOWED.items()):
        if source in ROLES_OF_KEY["node"] and target in targets:
            for kind in sorted(kinds, key=lambda kind: kind.__name__):
                refused = 0
                for seed in range(SEEDS):
                    for message in with_a_canary(random_message(kind, random.Random(seed)), data):
                        refused += not is_valid(message)
                        if is_valid(message) or refused <= 2:  # where an id would be too long: the codec refuses all
                            yield source, target, message


@pytest.fixture
def cluster(nothing_left):
    from zray.cluster_utils import Cluster

    with Cluster(True, head_node_args={"num_cpus": 1}) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 1})
        cluster.wait_for_nodes()
        cluster.connect()
        yield cluster
        zray.shutdown()


def work():
    """On both nodes."""
    double = zray.remote(lambda number: 2 * number)
    here, there = (
        [options.remote(n) for n in range(20)] for options in (double, double.options(resources={"there": 1}))
    )
    assert zray.get(here + there, timeout=30) == [2 * n for n in range(20)] * 2


def test_nothing_that_a_node_says_is_opened_or_does_harm(cluster, tmp_path):
    work()
    processes = [psutil.Process(node.pid) for node in cluster.list_all_nodes()]
    before = [(process.memory_info().rss, process.num_fds()) for process in processes]
    canary, said, results = Canary(tmp_path), set(), 0
    for data in (pickle.dumps(canary, 0), pickle.dumps(canary), random.Random(1).randbytes(200)):
        with pytest.raises(ZrayError, match="a new host id and a new key are needed"):
            ask_head(cluster.address, Token.decode(cluster.token), wish_to_join(os.urandom(8).hex(), data))
        for is_head in (True, False):
            left = list(all_that_a_node_may_say(OF_HEAD if is_head else OF_NODE, data))
            while left:
                with Member(cluster) as member:
                    host = member.head if is_head else member.node
                    # One that is dropped would not be heard to the end: another one goes on.
                    while left and (allowed := OFFENCES_MAX - member.refusals(host)) > 0:
                        for source, target, message in left[:allowed]:
                            message = member.in_own_name(message, source)
                            member.tell(host, source, target, message)
                            said |= {type(message)} if is_valid(message) else set()
                        member.until_heard_by(host)
                        del left[:allowed]
                    # The answer is short, and no bug of ours (S11).
                    told = [line.partition("refused a message of this host: ")[2] for line in member.lines]
                    assert all(re.search("PermissionDenied|ProtocolError|not a frame", line) for line in told if line)
                    assert not any("Traceback" in line or len(line) > 2_000 for line in told)
                    results += sum(reply.applied for reply in member.messages_of(ChainResults)[-1:])
            work()
    assert {PlaceTask, PlaceActor, SpillTask, TaskDone, ObjectChunk, ObjectInline} <= said
    assert {RecordTasks, RegisterActor, PublishFunction, TunnelBytes} <= said and results
    assert not opened_by(tmp_path)
    pickle.loads(pickle.dumps(canary))
    assert opened_by(tmp_path) == {os.getpid()}

    cluster.wait_for_nodes()  # none of those members is one any more
    for process, (memory, descriptors) in zip(processes, before, strict=True):
        assert process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        until(lambda process=process, most=descriptors + DESCRIPTORS_MORE: process.num_fds() <= most)
        assert process.memory_info().rss - memory <= MEMORY_BYTES_MAX
    work()
