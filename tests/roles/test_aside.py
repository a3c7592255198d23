"""What a member of a chain cannot handle yet is bounded, and nothing of it is lost: clients are asked for it again."""

import pytest

from tests.roles.chain_desk import ChainDesk
from zray.roles.gcs import chain
from zray.roles.gcs.chain import ChainMember
from zray.roles.gcs.client import ChainClient
from zray.wire.chain import ChainAgain, ChainChanged, ChainRead, ChainUpdates, ChainWrite
from zray.wire.gcs import HoldAtNode
from zray.wire.scheduling import LocateObjects


def write(epoch, number, count=1):
    return ChainWrite(epoch, number, 0, [("n1/local", HoldAtNode("n1/local", [], 7))] * count)


def said(member, kind):
    return [effect.message for effect in member.end_turn(0.0) if type(getattr(effect, "message", None)) is kind]


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    monkeypatch.setattr(chain, "ASIDE_MAX", 3)


def test_what_a_client_says_of_a_later_epoch_is_bounded_and_asked_for_again():
    member = ChainMember("s1/gcs-0", "gcs-0", "master")
    for number in range(1, 100):
        member.handle("n1/shard-0", write(5, number), 0.0)
    member.handle("n2/shard-0", write(5, 1), 0.0)
    assert member.aside.counts == {"n1/shard-0": 3, "n2/shard-0": 1}  # the other one has its own room
    assert said(member, ChainAgain) == []
    member.handle("master", ChainChanged("gcs-0", 5, ["s1/gcs-0"], ""), 0.0)
    assert said(member, ChainAgain) == [ChainAgain(4)]
    assert member.replica.sessions["n1/shard-0"].received == 3
    assert not member.aside.counts and not member.aside.refused
    for number in range(4, 100):
        member.handle("n1/shard-0", write(5, number), 0.0)
    assert member.replica.sessions["n1/shard-0"].received == 99 and said(member, ChainAgain) == []


def test_one_large_message_is_taken_where_nothing_waits():
    member = ChainMember("s1/gcs-0", "gcs-0", "master")
    member.handle("n1/shard-0", write(5, 1, 50), 0.0)
    assert member.aside.counts == {"n1/shard-0": 50}


def test_questions_to_a_tail_that_has_not_caught_up_are_bounded_and_asked_again():
    member = ChainMember("s2/gcs-0", "gcs-0", "master")
    member.handle("master", ChainChanged("gcs-0", 5, ["s1/gcs-0", "s2/gcs-0"], ""), 0.0)
    for number in range(10):
        member.handle("n1/shard-0", ChainRead(5, number, "n1/local", LocateObjects(1, [])), 0.0)
    assert len(member.aside.waiting) == 3
    for _ in range(10):
        member.handle("s9/gcs-0", ChainUpdates(9, []), 0.0)  # who is no client is not asked
    assert said(member, ChainAgain) == [] and list(member.aside.refused) == ["n1/shard-0"]
    assert member.rejected["more than may wait here: its sender is asked for it again"] == 7 + 7


def test_a_client_says_again_what_there_was_no_room_for():
    client = ChainClient("n1/shard-0", "gcs-0", "master")
    client.handle("master", ChainChanged("gcs-0", 1, ["s1/gcs-0"], ""), 0.0)
    for _ in range(5):
        client.handle("n1/local", HoldAtNode("n1/local", [], 7), 0.0)
    (first,) = said(client, ChainWrite)
    client.handle("s2/gcs-0", ChainAgain(3), 0.0)  # of no head
    assert said(client, ChainWrite) == []
    client.handle("s1/gcs-0", ChainAgain(3), 0.0)
    (again,) = said(client, ChainWrite)
    assert (first.first, len(first.requests), again.first, len(again.requests)) == (1, 5, 3, 3)


@pytest.mark.parametrize("chunk", range(4))
def test_nothing_is_lost_for_want_of_room(chunk, monkeypatch):
    """Disks that are full for a while, members that die and that join: each request has its answer, once, in order."""
    refused = 0
    for seed in range(chunk * 20, chunk * 20 + 20):
        monkeypatch.setattr(chain, "ASIDE_MAX", 1 + seed % 7)
        desk = ChainDesk(replicas=1 + seed % 3, offers=1 + seed % 4, hosts=2, seed=seed, is_durable=True)
        random = desk.random
        for _ in range(random.randint(40, 150)):
            what = random.random()
            if what < 0.3:
                desk.ask(random.randrange(2))
            elif what < 0.35:
                desk.look(random.randrange(2))
            elif what < 0.38 and desk.killable():
                desk.kill(random.choice(desk.killable()), is_false=random.random() < 0.4)
            elif what < 0.41:
                desk.offer()
            elif what < 0.46:
                disk = random.choice(list(desk.disks.values()))
                disk.is_full = not disk.is_full
            else:
                desk.step()
        # The master may not know yet who died last.
        running = [role for role in desk.roles.values() if isinstance(role, ChainMember)]
        refused += sum(sum(member.rejected.values()) for member in running if member.aside.refused)
        for disk in desk.disks.values():
            disk.is_full = False
        try:
            desk.check_all_is_well()
            assert not any(member.aside.refused or member.aside.counts for member in desk.members())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert refused
