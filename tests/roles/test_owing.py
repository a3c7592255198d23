"""Who asks a chain and confirms nothing is done no more for: what is kept for it is bounded, and nothing is lost."""

import pytest

from tests.roles.chain_desk import ChainDesk
from zray.roles.effects import Send
from zray.roles.gcs import client, entrance
from zray.roles.gcs.chain import ChainMember
from zray.wire.chain import ChainAgain, ChainChanged, ChainWrite
from zray.wire.gcs import HoldAtNode

MOST, EACH = 200, 10
HELD = b"t" * 16 + b"\1\0\0\0"


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    monkeypatch.setattr(entrance, "RESULTS_MAX", MOST)


def member_with(node):
    """A chain of one, and who asks it."""
    member = ChainMember("s1/gcs-0", "gcs-0", "master")
    member.handle("master", ChainChanged("gcs-0", 5, ["s1/gcs-0"], ""), 0.0)
    member.handle(f"{node}/shard-0", write(node, 1, 0, 1), 0.0)
    return member


def write(node, first, taken, count=EACH):
    """So many questions, with one answer each."""
    asked = HoldAtNode(f"{node}/local", [HELD], 7)
    return ChainWrite(5, first, taken, [(f"{node}/local", asked)] * count)


def told(member, kind):
    effects = member.end_turn(0.0)
    member.check_everything()
    assert all(count <= most for _, count, most in member.bounds())
    return [effect.message for effect in effects if type(effect) is Send and type(effect.message) is kind]


def test_what_is_kept_for_who_confirms_nothing_is_bounded_and_others_go_on():
    member = member_with("n1")
    session = member.replica.sessions["n1/shard-0"]
    for first in range(2, 5_000, EACH):
        member.handle("n1/shard-0", write("n1", first, 0), 0.0)
        assert told(member, ChainAgain) == []
    assert MOST <= len(session.results) < MOST + EACH
    done = session.received
    member.handle("n2/shard-0", write("n2", 1, 0), 0.0)
    assert member.replica.sessions["n2/shard-0"].received == EACH
    # A gap is none of its faults: what was between was not taken.
    member.handle("n1/shard-0", write("n1", 5_002, MOST // 4), 0.0)
    assert told(member, ChainAgain) == [] and len(session.results) == done - MOST // 4
    member.handle("n1/shard-0", ChainWrite(5, 5_012, done, []), 0.0)
    assert told(member, ChainAgain) == [ChainAgain(done + 1)]
    assert not session.results and session.received == done and not member.entrance.owing
    member.handle("n1/shard-0", write("n1", done + 1, done), 0.0)
    assert session.received == done + EACH


def test_who_is_lost_or_asks_another_head_owes_nothing():
    member = member_with("n1")
    for first in range(2, 2 * MOST, EACH):
        member.handle("n1/shard-0", write("n1", first, 0), 0.0)
    assert member.entrance.owing
    member.handle("master", ChainChanged("gcs-0", 6, ["s2/gcs-0", "s1/gcs-0"], ""), 0.0)
    assert told(member, ChainAgain) == [] and not member.entrance.owing


@pytest.mark.parametrize("chunk", range(4))
def test_nothing_is_lost_where_little_may_be_unconfirmed(chunk, monkeypatch):
    """Members that die and that join: each request has its answer, once, in order."""
    owing = 0
    for seed in range(chunk * 20, chunk * 20 + 20):
        monkeypatch.setattr(entrance, "RESULTS_MAX", 1 + seed % 5)
        monkeypatch.setattr(client, "CONFIRM_AFTER", 1 + seed % 3)
        monkeypatch.setattr(client, "REQUESTS_MAX", 1 + seed % 4)
        desk = ChainDesk(replicas=1 + seed % 3, offers=1 + seed % 4, seed=seed, is_durable=seed % 2 == 0)
        random = desk.random
        for _ in range(random.randint(40, 150)):
            what = random.random()
            if what < 0.4:
                desk.ask(random.randrange(2))
            elif what < 0.43 and desk.killable():
                desk.kill(random.choice(desk.killable()), is_false=random.random() < 0.4)
            elif what < 0.46:
                desk.offer()
            else:
                desk.step()
            owing += sum(len(role.entrance.owing) for role in desk.roles.values() if type(role) is ChainMember)
        desk.check_all_is_well()
        assert not any(member.entrance.owing for member in desk.members()), f"seed {seed}"
    assert owing
