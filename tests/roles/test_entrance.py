"""A chain takes no more than its members keep up with: what it remembers is bounded, and nothing of it is lost."""

import pytest

from tests.roles.chain_desk import ChainDesk
from zray.roles.gcs import chain, entrance, journal
from zray.roles.gcs.chain import ChainMember
from zray.roles.gcs.replica import Replica
from zray.wire.chain import ChainChanged


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    monkeypatch.setattr(entrance, "HISTORY_MAX", 5)


def settled(**asked):
    desk = ChainDesk(**asked)
    desk.settle()
    return desk


def ask_often(desk, count=40):
    """One request after another: each is an update of its own."""
    for _ in range(count):
        desk.ask()
        desk.settle()


def test_a_head_that_hears_nothing_of_the_tail_takes_no_more_than_it_may_remember():
    desk = settled(replicas=2, offers=2)
    head, tail = desk.members()
    desk.stopped.add((tail.address, head.address))
    ask_often(desk)
    assert len(head.history) == 5 and len(head.entrance.held) > 5
    assert all(count <= most for _, count, most in head.bounds())
    desk.stopped.clear()
    desk.check_all_is_well()


def test_a_head_whose_disk_is_slow_takes_no_more_than_it_may_remember():
    desk = settled(replicas=2, offers=2, is_durable=True)
    head, _ = desk.members()
    orders, desk.disks[head.address].orders = desk.disks[head.address].orders, []
    for _ in range(40):
        desk.ask()
        while any(queue for queue in desk.queues.values()):
            desk.step()
            orders += desk.disks[head.address].orders
            desk.disks[head.address].orders.clear()
    assert head.sequence - head.journal.logged == 5 and head.entrance.held
    desk.disks[head.address].orders = orders
    desk.check_all_is_well()


def test_one_that_joins_and_says_nothing_holds_nobody_back():
    desk = settled(replicas=2, offers=1)
    (alone,) = desk.members()
    newcomer = desk.offer()
    desk.stopped |= {(newcomer.address, alone.address)}
    ask_often(desk)
    assert desk.chain.joining == newcomer.address and not alone.entrance.held
    assert len(alone.history) == 5 and alone.sequence >= 40
    desk.stopped.clear()
    desk.check_all_is_well()
    assert len(desk.members()) == 2


@pytest.mark.parametrize("is_successor_hosted", [False, True])
def test_one_in_the_middle_whose_disk_is_full_keeps_no_records_for_it_and_saves_its_state_later(
    monkeypatch, is_successor_hosted
):
    """Its successor, hosted by another node, may have been the tail, which waits for this disk: that is over."""
    monkeypatch.setattr(journal, "GATHERED_MAX", 10)
    monkeypatch.setattr(entrance, "HISTORY_MAX", 1_000)
    desk = settled(replicas=4, offers=3, is_durable=True)
    _, middle, successor = desk.members()
    successor.is_hosted = is_successor_hosted
    desk.offer()
    desk.settle()
    assert len(desk.members()) == 4
    disk = desk.disks[middle.address]
    disk.is_full = True
    for _ in range(40):
        desk.ask()
        for _ in range(30):
            desk.step()
    assert middle.sequence > 40 and len(middle.journal._gathered) <= 10 and middle.is_saving
    disk.is_full = False
    desk.check_all_is_well()
    assert not middle.is_saving
    again, _ = Replica.load("gcs-0", disk.snapshot)
    assert again.sequence > 40


@pytest.mark.parametrize("chunk", range(4))
def test_nothing_is_lost_where_little_is_remembered(chunk, monkeypatch):
    """Members that die, that join, whose disks are full: each request has its answer, once, in order."""
    held = 0
    for seed in range(chunk * 20, chunk * 20 + 20):
        monkeypatch.setattr(entrance, "HISTORY_MAX", 1 + seed % 3)
        monkeypatch.setattr(journal, "GATHERED_MAX", 2 + seed % 5)
        monkeypatch.setattr(chain, "ASIDE_MAX", 3 + seed % 50)
        kinds = {"is_durable": seed % 2 == 0, "lineage_bytes": seed % 4 * 100}
        desk = ChainDesk(replicas=1 + seed % 3, offers=1 + seed % 4, seed=seed, **kinds)
        random = desk.random
        for _ in range(random.randint(40, 150)):
            what = random.random()
            if what < 0.3:
                desk.ask(random.randrange(2))
            elif what < 0.33 and desk.killable():
                desk.kill(random.choice(desk.killable()), is_false=random.random() < 0.4)
            elif what < 0.36:
                desk.offer()
            elif what < 0.4:
                disk = random.choice(list(desk.disks.values()))
                disk.is_full = not disk.is_full
            else:
                desk.step()
            for member in [role for role in desk.roles.values() if type(role) is ChainMember]:
                held += bool(member.entrance.held)
                wrong = [bound for bound in member.bounds() if bound[1] > bound[2]]
                assert not wrong, f"seed {seed}: {wrong}"
        for disk in desk.disks.values():
            disk.is_full = False
        try:
            desk.check_all_is_well()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert held


def test_one_that_hears_of_much_at_once_and_is_a_member_then_remembers_none_of_it():
    """Its line was cut while it joined: what the tail acknowledged alone nobody will ask it for."""
    desk = settled(replicas=2, offers=1)
    (alone,) = desk.members()
    newcomer = desk.offer()
    newcomer.is_hosted = True  # as a tail it acknowledges what its predecessor has on disk
    while newcomer.joining != newcomer.address:
        desk.step()
    desk.stopped.add((newcomer.address, "master"))
    desk.settle()
    desk.stopped.add((alone.address, newcomer.address))
    ask_often(desk)
    messages = [*desk.queues[alone.address, newcomer.address]]
    desk.queues[alone.address, newcomer.address].clear()
    changed = ChainChanged("gcs-0", desk.chain.epoch + 1, [alone.address, newcomer.address], "")
    for sender, message in [*((alone.address, message) for message in messages), ("master", changed)]:
        newcomer.handle(sender, message, desk.now)
    newcomer.end_turn(desk.now)
    assert newcomer.sequence > 30 and not newcomer.history
