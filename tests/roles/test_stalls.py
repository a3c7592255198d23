"""Disks that take nothing: who waits for one is told which, and when it goes on; nothing else follows from it."""

import pytest

from tests.roles.chain_desk import ChainDesk
from zray.roles.gcs.client import ChainClient
from zray.roles.gcs.master import GOES_ON, LOST_FOR_GOOD, ChainMaster
from zray.roles.replica_effects import NoteChain
from zray.wire.chain import ChainFollow, ChainOffer, ChainStalled
from zray.wire.claims import CLAIMS
from zray.wire.gcs import NodeLost

WHY = f"cannot write its log: no space left on device, on the head's machine; {GOES_ON}"


def desk_of(members):
    desk = ChainDesk(replicas=members, offers=members, is_durable=True)
    desk.settle()
    assert len(desk.members()) == members
    return desk


def steps(desk, count=400):
    """It never settles while a disk is full: its order is given again and again."""
    for _ in range(count):
        desk.step()


def stalls(desk):
    return [asker.stalls for asker in desk.askers]


@pytest.mark.parametrize(
    "members, full, is_said", [(1, 0, True), (2, 0, True), (2, 1, True), (3, 2, True), (3, 1, False)]
)
def test_all_clients_are_told_once_and_when_it_goes_on(members, full, is_said):
    """Of the disks that a chain waits for: its head's and its tail's.  One in the middle holds up nobody."""
    desk = desk_of(members)
    disk = desk.disks[desk.members()[full].address]
    disk.is_full = True
    desk.ask()
    desk.ask(1)
    steps(desk)
    assert stalls(desk) == ([[[WHY]], [[WHY]]] if is_said else [[], []])
    before = [len(asker.answers) for asker in desk.askers]
    desk.ask()
    desk.ask(1)
    steps(desk)
    assert ([len(asker.answers) for asker in desk.askers] == before) is is_said
    disk.is_full = False
    desk.check_all_is_well()
    assert stalls(desk) == ([[[WHY], []], [[WHY], []]] if is_said else [[], []])
    assert not desk.master.rejected


def test_two_disks_are_told_of_and_one_of_a_member_that_is_out_no_more():
    desk = desk_of(2)
    head, tail = (member.address for member in desk.members())
    desk.disks[head].is_full = desk.disks[tail].is_full = True
    desk.ask()
    while len(desk.chain.stalled) < 2:
        steps(desk, 10)
    desk.kill(tail)
    while tail in desk.chain.members:
        steps(desk, 10)
    steps(desk)
    assert desk.askers[0].stalls[-1] == [WHY] and [WHY, WHY] in desk.askers[0].stalls
    desk.disks[head].is_full = False
    desk.check_all_is_well()
    assert desk.askers[0].stalls[-1] == []


def test_a_client_that_comes_later_is_told_and_it_is_said_where_the_member_runs():
    desk = desk_of(1)
    (member,) = desk.members()
    desk.master.spread.machines[member.address] = "far4567890abcdef"
    desk.disks[member.address].is_full = True
    desk.ask()
    steps(desk)
    told = desk.master.handle("n9/shard-0", ChainFollow("gcs-0"), desk.now)[-1].message
    assert told == ChainStalled("gcs-0", [WHY.replace("the head's machine", "node far45678").replace("on on", "on")])


def test_pages_that_are_not_taken_count_when_memory_is_full_of_specs():
    """Its log goes on, as long as the specs have room."""
    desk = ChainDesk(replicas=1, offers=1, is_durable=True, lineage_bytes=1_500)
    desk.settle()
    (member,) = desk.members()
    member.flushing.trouble = "no space left on device"
    desk.ask()
    desk.settle()
    assert not member.flushing.is_over and stalls(desk) == [[], []]
    member.flushing.limit = 1
    desk.ask()
    steps(desk)
    assert desk.askers[0].stalls[:1] == [[WHY]]


def test_a_new_master_is_told_anew_and_knows_nothing_before():
    desk = desk_of(1)
    (member,) = desk.members()
    desk.disks[member.address].is_full = True
    desk.ask()
    steps(desk)
    assert member.stalls.told
    member.stalls.forget()
    steps(desk)
    assert member.stalls.told and desk.askers[0].stalls[-1] == [WHY]


def test_a_host_without_a_local_scheduler_tells_nobody():
    client = ChainClient("n1/shard-0", "gcs-0", "master")
    assert not client.handle("master", ChainStalled("gcs-0", [WHY]), 0.0)


def test_of_who_is_no_member_nothing_is_told():
    desk = desk_of(1)
    assert not desk.master.handle("s9/gcs-0", ChainStalled("gcs-0", ["lies"]), 0.0)
    assert desk.master.rejected
    assert CLAIMS[ChainStalled](ChainStalled("gcs-1", []), "s1/gcs-0", "replica", b"")
    assert not CLAIMS[ChainStalled](ChainStalled("gcs-0", []), "s1/gcs-0", "replica", b"")
    assert not CLAIMS[ChainStalled](ChainStalled("gcs-0", []), "head/chains", "head", b"")


FAR, FARTHER = "far4567890abcdef", "off4567890abcdef"


def master_of_noted():
    """One that was started on what another has noted: two replicas on other nodes alone have everything."""
    members = {"r1/gcs-0": FAR, "r2/gcs-0": FARTHER}
    master = ChainMaster("chains", replicas=2, former=[NoteChain("gcs-0", members, list(members))])
    master.handle("n1/shard-0", ChainFollow("gcs-0"), 0.0)
    return master


def said(master, sender, message):
    """To the client, of why it waits."""
    told = [effect.message for effect in master.handle(sender, message, 0.0) if hasattr(effect, "message")]
    return [message.reasons for message in told if type(message) is ChainStalled]


def test_whom_a_new_master_waits_for_is_said_and_that_it_waits_no_more():
    master = master_of_noted()
    first = "waits for its replicas on node far45678, off45678, which alone have all acknowledged updates"
    assert said(master, "n2/shard-0", ChainFollow("gcs-0")) == [[first]]
    assert said(master, "r1/gcs-0", ChainOffer("gcs-0", 3, 10)) == []
    assert said(master, "head/gcs-0", ChainOffer("gcs-0", 2, 8)) == []
    assert said(master, "monitor", NodeLost(f"{FARTHER}/local", "killed"))[-2:] == [[], []]  # both are told
    assert master.chains["gcs-0"].members == ["r1/gcs-0"]


def test_a_shard_whose_replicas_are_all_lost_is_lost_and_whoever_waits_for_it_is_told_so():
    master = master_of_noted()
    (one,) = said(master, "monitor", NodeLost(f"{FAR}/local", "killed"))
    assert "on node off45678, which alone" in one[0]
    assert said(master, "monitor", NodeLost(f"{FARTHER}/local", "killed")) == [[LOST_FOR_GOOD]]
    assert said(master, "n2/shard-0", ChainFollow("gcs-0")) == [[LOST_FOR_GOOD]]
    assert said(master, "head/gcs-0", ChainOffer("gcs-0", 2, 8)) == []  # its log lacks what was acknowledged last
    assert not master.chains["gcs-0"].members
