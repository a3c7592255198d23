"""Replicas of a shard: each row of the table of their states is taken by messages."""

import pytest

from tests.roles.rows_taken import record_rows
from zray.roles.effects import HeadChanged, LogBroken
from zray.roles.gcs.chain import CATCHING_UP, CAUGHT_UP, FULL, OFFERED, OUT, TRANSITIONS, ChainMember, MemberState
from zray.wire.chain import ChainChanged, ChainUpdates

OWN, OTHER, SHARD = "n2/gcs-0", "n3/gcs-0", "gcs-0"
STATES = (OFFERED, CATCHING_UP, CAUGHT_UP, FULL)


def tell(member, sender, message):
    member.handle(sender, message, 0.0)
    member.end_turn(0.0)


def changed(member, *members):
    tell(member, member.master, ChainChanged(SHARD, member.epoch + 1, list(members), ""))


def member_in(state):
    """A member in this state.  One whose log has not confirmed its epoch has caught up, and says so to nobody."""
    member = ChainMember(OWN, SHARD, "n1/chains", is_durable=state is CAUGHT_UP)
    if state is CATCHING_UP:
        changed(member, OTHER, OWN)
    elif state is not OFFERED:
        changed(member, OWN)
    assert member.state is state
    return member


def test_each_row_is_taken(monkeypatch):
    taken = record_rows(monkeypatch, ChainMember, "happened")
    for state in STATES:
        changed(member_in(state), OTHER, OWN)
        tell(member_in(state), "host", HeadChanged("n1", "n9", []))
        tell(member_in(state), "host", LogBroken("fsync failed"))
    assert taken >= set(TRANSITIONS)


def test_member_that_is_out_stays_out():
    member = member_in(FULL)
    changed(member, OTHER)
    for message in (ChainChanged(SHARD, 9, [OWN], ""), HeadChanged("n1", "n9", []), LogBroken("fsync failed")):
        tell(member, "host", message)
    assert member.state is OUT and member.replica is None


@pytest.mark.parametrize(("members", "is_kept"), [((OWN, OTHER), True), ((OTHER, OWN), False)])
def test_state_of_another_life_is_kept_by_a_first_member_alone(members, is_kept):
    member = member_in(FULL)
    tell(member, "host", HeadChanged("n1", "n9", []))
    assert member.state is MemberState.OFFERED and member.replica is not None
    changed(member, *members)
    assert (member.replica is not None) == is_kept


def test_updates_of_the_predecessor_make_a_member_full():
    member = ChainMember(OWN, SHARD, "n1/chains")
    changed(member, OWN)
    changed(member, OTHER, OWN)
    tell(member, OTHER, ChainUpdates(member.epoch, []))
    assert member.state is FULL
