"""Replicas on other nodes: who is asked, who is let in, what a chain becomes, and what the next head waits for."""

import pytest

from tests.roles.timers import Timers
from zray.host.links.host_link import Neighbour
from zray.host.security.keyring import Key
from zray.roles.effects import Send, SetTimer
from zray.roles.gcs.master import ChainMaster
from zray.roles.hosting import LASTED_SECONDS, REST_SECONDS_MAX, REST_SECONDS_MIN, Hosting
from zray.roles.replica_effects import (
    LetInReplica,
    MachineIsFree,
    MachineLeaves,
    MemberPlaced,
    NoteChain,
    ReplicaLetIn,
    ServiceAdded,
    ServiceListens,
)
from zray.wire.chain import ChainChanged, ChainJoined, ChainMemberLost, ChainOffer
from zray.wire.codec import Letter
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.hosting import (
    HostedReplica,
    MayHost,
    ReplicaEnded,
    ReplicaRefused,
    ReplicaRuns,
    ReplicaStuck,
    StartReplica,
    StopReplica,
)
from zray.wire.hosts import RELAYED


def sent(effects, kind):
    return [(e.destination, e.message) for e in effects if type(e) is Send and type(e.message) is kind]


class Desk:
    """A head that wants two replicas of each shard."""

    def __init__(self, shards=("gcs-0", "gcs-1")):
        self.hosting = Hosting(
            "h/hosting", shards, replicas=2, master="h/chains", services="h/services", monitor="h/monitor"
        )
        self.now = 0.0
        self.timers = Timers()
        for node in ("a", "b"):
            self.say("h/monitor", NodeJoined(f"{node}/local", {}, "node", f"{node}:6", b"n"))

    def say(self, sender, message):
        effects = self.hosting.handle(sender, message, self.now)
        self.timers.note(effects)
        return effects

    def timer(self, name):
        """Fire a timer that is set, as in Timers."""
        return self.say("timer", self.timers.take(name))

    def run(self, node, order):
        """What that order leads to, until it is let in."""
        replica = HostedReplica(f"{node}-{order.number}", order.shard, b"k")
        self.say(f"{node}/replicas", ReplicaRuns(order.number, replica))
        return replica, self.say("host", ReplicaLetIn(replica.host))


def test_each_shard_gets_one_on_the_nodes_that_have_the_fewest():
    desk = Desk()
    first = sent(desk.say("a/replicas", MayHost(True, [])), StartReplica)
    assert [(to, order.shard) for to, order in first] == [("a/replicas", "gcs-0"), ("a/replicas", "gcs-1")]
    assert not sent(desk.say("b/replicas", MayHost(True, [])), StartReplica)
    again = sent(desk.say("h/monitor", NodeLost("a/local", "killed")), StartReplica)
    assert [(to, order.shard) for to, order in again] == [("b/replicas", "gcs-0"), ("b/replicas", "gcs-1")]


def test_a_node_whose_end_nobody_would_tell_of_is_not_asked():
    desk = Desk()
    assert not sent(desk.say("c/replicas", MayHost(True, [])), StartReplica), "it has not registered"
    desk.say("h/monitor", NodeLost("a/local", "killed"))
    assert not sent(desk.say("a/replicas", MayHost(True, [])), StartReplica), "it had said so before"


def test_a_node_that_must_not_host_is_not_asked():
    assert not sent(Desk().say("a/replicas", MayHost(False, [])), StartReplica)


def test_it_is_let_in_as_what_was_ordered_and_others_are_told_not_to_call_it():
    desk = Desk(["gcs-0"])
    ((_, order),) = sent(desk.say("a/replicas", MayHost(True, [])), StartReplica)
    other = HostedReplica("x", "gcs-1", b"k")
    assert sent(desk.say("a/replicas", ReplicaRuns(order.number, other)), StopReplica)
    replica = HostedReplica("y", "gcs-0", b"k")
    effects = desk.say("a/replicas", ReplicaRuns(order.number, replica))
    assert not sent(effects, ServiceAdded)
    placed = effects.index(next(e for e in effects if type(e) is Send and type(e.message) is MemberPlaced))
    assert placed < effects.index(LetInReplica(replica, "a")), "the chain master knows where it is, first"
    effects = desk.say("host", ReplicaLetIn("y"))
    ((_, added),), ((_, listens),) = sent(effects, ServiceAdded), sent(effects, ServiceListens)
    assert added.roles == ["y/gcs-0"] and added.node == "a" and listens.endpoint == RELAYED


def test_a_node_ends_replicas_of_its_own_only():
    desk = Desk(["gcs-0"])
    ((_, order),) = sent(desk.say("a/replicas", MayHost(True, [])), StartReplica)
    replica, _ = desk.run("a", order)
    desk.say("b/replicas", MayHost(True, []))
    assert not desk.say("b/replicas", ReplicaEnded(replica.host, "says b"))
    ((_, lost),) = sent(desk.say("a/replicas", ReplicaEnded(replica.host, "killed")), ChainMemberLost)
    assert lost.member == f"{replica.host}/gcs-0"


def test_one_that_takes_nothing_of_what_somebody_has_for_it_is_moved():
    desk = Desk(["gcs-0"])
    ((_, order),) = sent(desk.say("a/replicas", MayHost(True, [])), StartReplica)
    replica, _ = desk.run("a", order)
    desk.say("b/replicas", MayHost(True, []))
    assert not desk.say("c/host", ReplicaStuck("another one"))
    ((to, _),) = sent(desk.say("c/host", ReplicaStuck(replica.host)), StopReplica)
    again = sent(desk.say("a/replicas", ReplicaEnded(replica.host, "killed")), StartReplica)
    assert to == "a/replicas" and [it for it, _ in again] == ["b/replicas"]


SHARDS = [f"gcs-{number}" for number in range(5)]


def orders(effects):
    return [order for _, order in sent(effects, StartReplica)]


def test_a_node_where_all_end_in_one_moment_is_asked_again():
    """An unlucky moment of the machine's, and no chain would ever be two again."""
    desk = Desk(SHARDS)
    running = [desk.run("a", order)[0] for order in orders(desk.say("a/replicas", MayHost(True, [])))]
    for replica in running:
        assert not orders(desk.say("a/replicas", ReplicaEnded(replica.host, "killed"))), "not at once"
    assert [order.shard for order in orders(desk.timer("Hosting.spread_again"))] == SHARDS


def test_a_node_where_none_may_start_for_a_moment_is_asked_again():
    desk = Desk(SHARDS)
    for order in orders(desk.say("a/replicas", MayHost(True, []))):
        assert not orders(desk.say("a/replicas", ReplicaRefused(order.number, "fork: try again"))), "not at once"
    assert len(orders(desk.timer("Hosting.spread_again"))) == len(SHARDS)


def test_the_ends_of_what_ran_do_not_add_up():
    """Each is replaced elsewhere: the node is asked no more until it is the only one."""
    desk = Desk(SHARDS)
    running = [desk.run("a", order)[0] for order in orders(desk.say("a/replicas", MayHost(True, [])))]
    desk.say("b/replicas", MayHost(True, []))
    for replica in running:
        assert len(orders(desk.say("a/replicas", ReplicaEnded(replica.host, "killed")))) == 1
        desk.timer("Hosting.spread_again")
    assert len(orders(desk.say("h/monitor", NodeLost("b/local", "killed")))) == len(SHARDS)


class OneNode(Desk):
    """Where one shard has its replica on node a, whose rests pass."""

    def __init__(self):
        super().__init__(["gcs-0"])
        (self.order,) = orders(self.say("a/replicas", MayHost(True, [])))

    def rest_after(self, message):
        """How long the node rests when it has said that, in s; then it is asked again."""
        effects = self.say("a/replicas", message)
        assert not orders(effects), "at once"
        ((delay, again),) = [(effect.delay, effect.message) for effect in effects if type(effect) is SetTimer]
        self.now += delay
        (self.order,) = orders(self.say("timer", again))
        return delay

    def end_after(self, seconds):
        """One that is let in ends so much later."""
        replica, _ = self.run("a", self.order)
        self.now += seconds
        return self.rest_after(ReplicaEnded(replica.host, "killed"))


RESTS = [min(REST_SECONDS_MAX, REST_SECONDS_MIN * 2**number) for number in range(12)]


def test_a_node_where_one_try_after_the_other_fails_rests_ever_longer_and_is_asked_again():
    """It was left alone for good after five, however long ago that was."""
    desk = OneNode()
    assert [desk.rest_after(ReplicaRefused(desk.order.number, "fork: try again")) for _ in RESTS] == RESTS


def test_a_node_whose_replicas_end_soon_rests_ever_longer_until_one_lasts():
    """It was given another one every 0.1 s without end."""
    desk = OneNode()
    assert [desk.end_after(1.0) for _ in RESTS] == RESTS
    assert [desk.end_after(seconds) for seconds in (LASTED_SECONDS, 1.0)] == RESTS[:2]


def test_a_node_that_leaves_is_free_when_its_replicas_are_gone():
    desk = Desk(["gcs-0"])
    ((_, order),) = sent(desk.say("a/replicas", MayHost(True, [])), StartReplica)
    replica, _ = desk.run("a", order)
    effects = desk.say("h/monitor", MachineLeaves("a/local"))
    assert sent(effects, MachineLeaves) == [("h/chains", MachineLeaves("a"))] and not sent(effects, MachineIsFree)
    effects = desk.say("a/replicas", ReplicaEnded(replica.host, "it was taken out of its chain"))
    assert sent(effects, MachineIsFree) == [("h/monitor", MachineIsFree("a/local"))]
    assert sent(desk.say("h/monitor", MachineLeaves("c/local")), MachineIsFree)


@pytest.mark.parametrize("source", ["r/gcs-0", "r/gcs-1", "r/local", "other/gcs-0"])
def test_a_replicas_key_is_good_for_the_shard_that_it_was_given(source):
    neighbour = Neighbour("r", Key(b"k", "replica", "r", roles=["r/gcs-0"], node="a"), "", 0.0)
    letter = Letter(source, "me/gcs-0", [])
    assert bool(neighbour.may_say(letter, {"me/gcs-0"})) == (source == "r/gcs-0")


class Master:
    """A chain master, its chain in epochs."""

    def __init__(self, **options):
        self.master = ChainMaster("h/chains", replicas=2, **options)
        self.effects = []

    def say(self, sender, message):
        self.effects = self.master.handle(sender, message, 0.0)
        return self

    def offer(self, member, sequence=-1, epoch=0):
        return self.say(member, ChainOffer("gcs-0", sequence, epoch))

    def catch_up(self):
        """All that are asked to."""
        chain = self.master.chains["gcs-0"]
        for _ in range(8):
            for member in [*chain.members, *([chain.joining] if chain.joining else [])]:
                self.say(member, ChainJoined("gcs-0", chain.epoch))
        return chain


def spread_over_two():
    desk = Master(first_offers={"gcs-0": 2})
    desk.offer("one/gcs-0").offer("two/gcs-0")
    assert desk.catch_up().members == ["one/gcs-0", "two/gcs-0"]
    desk.say("h/hosting", MemberPlaced("far/gcs-0", "a")).offer("far/gcs-0")
    return desk


def test_a_chain_on_one_machine_takes_one_in_from_another():
    desk = spread_over_two()
    chain = desk.master.chains["gcs-0"]
    assert chain.joining == "far/gcs-0" and chain.members == ["one/gcs-0", "two/gcs-0"], "two until it has caught up"
    assert desk.catch_up().members == ["one/gcs-0", "far/gcs-0"]


def test_a_member_that_is_lost_never_comes_back():
    desk = spread_over_two()
    desk.say("h/services", ChainMemberLost("far/gcs-0", "killed")).offer("far/gcs-0")
    assert desk.catch_up().members == ["one/gcs-0", "two/gcs-0"] and not desk.master.chains["gcs-0"].spares


def test_when_its_node_is_lost_the_chain_closes_and_a_spare_of_the_heads_joins():
    desk = spread_over_two()
    desk.catch_up()
    desk.offer("two-again/gcs-0").say("h/monitor", NodeLost("a/local", "killed"))
    assert desk.catch_up().members == ["one/gcs-0", "two-again/gcs-0"]


def test_a_machine_that_leaves_is_replaced_before_it_goes():
    desk = spread_over_two()
    desk.catch_up()
    desk.offer("two-again/gcs-0").say("h/hosting", MachineLeaves("a"))
    assert desk.master.chains["gcs-0"].members == ["one/gcs-0", "far/gcs-0"]
    assert desk.catch_up().members == ["one/gcs-0", "two-again/gcs-0"]


def test_it_is_noted_who_is_alone_before_anybody_hears_of_it():
    desk = spread_over_two()
    desk.catch_up()
    desk.say("h/services", ChainMemberLost("one/gcs-0", "killed"))
    kinds = [type(e.message) if type(e) is Send else type(e) for e in desk.effects]
    assert desk.effects[0] == NoteChain("gcs-0", {"far/gcs-0": "a"}, ["far/gcs-0"])
    assert ChainChanged in kinds[1:]


def test_the_next_head_waits_for_the_only_one_that_had_everything():
    note = NoteChain("gcs-0", {"far/gcs-0": "a"}, ["far/gcs-0"])
    desk = Master(first_offers={"gcs-0": 2}, former=[note])
    desk.offer("one/gcs-0", 10, 3).offer("two/gcs-0", 8, 2)
    assert not desk.master.chains["gcs-0"].members, "their logs are older"
    desk.offer("far/gcs-0", 12, 4)
    assert desk.master.chains["gcs-0"].members == ["far/gcs-0"] and desk.master.chains["gcs-0"].epoch > 1 << 20


def test_the_next_head_makes_no_chain_of_older_logs_when_that_one_is_lost():
    note = NoteChain("gcs-0", {"far/gcs-0": "a"}, ["far/gcs-0"])
    desk = Master(first_offers={"gcs-0": 2}, former=[note])
    desk.offer("one/gcs-0", 10, 3).offer("two/gcs-0", 8, 2).say("h/monitor", NodeLost("a/local", "killed"))
    assert not desk.master.chains["gcs-0"].members


def test_the_next_head_waits_for_nobody_where_its_own_logs_hold_everything():
    note = NoteChain("gcs-0", {"one/gcs-0": "", "far/gcs-0": "a"}, ["one/gcs-0", "far/gcs-0"])
    desk = Master(first_offers={"gcs-0": 2}, former=[note])
    desk.offer("new-one/gcs-0", 10, 3).offer("new-two/gcs-0", 8, 2)
    assert desk.master.chains["gcs-0"].members == ["new-one/gcs-0"]
