"""Replicas with logs: what was acknowledged outlives all of them; a full disk refuses, a broken one is final."""

import pytest

from tests.roles.chain_desk import ChainDesk
from zray.roles.effects import EndSession
from zray.roles.gcs import journal, state
from zray.roles.gcs.chain import ChainMember


@pytest.fixture
def desk():
    desk = ChainDesk(replicas=1, offers=1, is_durable=True)
    desk.settle()
    return desk


def one(desk):
    """The only member, and its disk."""
    (member,) = desk.members()
    return member, desk.disks[member.address]


def test_nothing_is_said_before_it_is_there_for_good(desk):
    member, disk = one(desk)
    desk.ask()
    while not disk.orders:
        desk.step()
    desk.random.random = lambda: 1.0  # the disk takes its time
    orders, disk.orders = disk.orders, type(disk.orders)()
    desk.settle()
    assert member.sequence > 0 and desk.askers[0].answers == []
    disk.orders = orders
    desk.check_all_is_well()
    assert len(desk.askers[0].answers) == 3


def test_many_requests_share_one_append(desk):
    member, disk = one(desk)
    desk.random.random = lambda: 1.0  # the disk is slow: it is the last to do anything
    orders = member.journal._token
    for _ in range(30):
        desk.ask()
        desk.deliver(desk.askers[0].address, desk.askers[0].shard)
    desk.check_all_is_well()
    assert member.sequence >= 30 and member.journal._token - orders < 10


@pytest.mark.parametrize("chunk", range(8))
def test_all_die_at_once_and_one_starts_again_on_its_log(chunk, monkeypatch):
    """At any moment, several times; nothing acknowledged is lost, nothing is done twice, and it goes on."""
    starts = 0
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 2)
    for seed in range(chunk * 25, chunk * 25 + 25):
        monkeypatch.setattr(journal, "SNAPSHOT_BYTES", seed % 3 * 1_000)
        limit = (0, 1, 1_500)[seed // 3 % 3]
        desk = ChainDesk(replicas=1, offers=1, hosts=3, seed=seed, is_durable=True, lineage_bytes=limit)
        random = desk.random
        for _ in range(random.randint(20, 150)):
            what = random.random()
            if what < 0.3:
                desk.ask(random.randrange(3))
            elif what < 0.33 and desk.chain.epoch:
                _, disk = one(desk)
                desk.start_anew(disk)
                starts += 1
            else:
                desk.step()
        try:
            desk.check_all_is_well()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert starts > 20


@pytest.mark.parametrize("chunk", range(4))
def test_chains_with_logs(chunk, monkeypatch):
    """Deaths of members, as without logs; whoever is left has it all in its log too."""
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 2)
    for seed in range(chunk * 40, chunk * 40 + 40):
        monkeypatch.setattr(journal, "SNAPSHOT_BYTES", seed % 2 * 3_000)
        plan = {"replicas": 1 + seed % 3, "offers": 1 + seed % 5, "lineage_bytes": (0, 1, 1_500)[seed // 2 % 3]}
        desk = ChainDesk(hosts=2, seed=seed, is_durable=True, **plan)
        random = desk.random
        for _ in range(random.randint(20, 120)):
            what = random.random()
            if what < 0.25:
                desk.ask(random.randrange(2))
            elif what < 0.31 and desk.killable():
                desk.kill(random.choice(desk.killable()), is_false=random.random() < 0.4)
            elif what < 0.35:
                desk.offer()
            else:
                desk.step()
        try:
            desk.check_all_is_well()
            for member in desk.members():
                disk = desk.disks[member.address]
                again = ChainMember("again/gcs-0", "gcs-0", "master", is_durable=True)
                again.recover(disk.snapshot, disk.records)
                desk.disks[again.address] = disk
                assert desk.whole(again) == desk.whole(member), member.address
                assert again.epoch == member.epoch
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_lives_that_each_write_little_do_not_leave_a_log_that_grows_for_ever(monkeypatch):
    """A snapshot is taken for what is found at the start, too."""
    monkeypatch.setattr(journal, "SNAPSHOT_BYTES", 1_000)
    desk = ChainDesk(replicas=1, offers=1, is_durable=True)
    lengths = []
    for _ in range(20):
        desk.ask()
        desk.settle()
        member, disk = one(desk)
        lengths.append(sum(map(len, disk.records)))
        before = desk.whole(member)
        desk.start_anew(disk)
        desk.settle()
        member, disk = one(desk)
        assert desk.whole(member)[1:] == before[1:]  # the first part has the epoch
    assert max(lengths) < 1_000 + 2 * sum(map(len, disk.snapshot)) + lengths[0], lengths
    assert lengths[0] < 1_000
    desk.check_all_is_well()


def test_a_full_disk_refuses_says_so_stays_readable_and_recovers(desk):
    member, disk = one(desk)
    desk.ask()
    desk.settle()
    disk.is_full = True
    desk.ask()
    for _ in range(300):
        desk.step()
    desk.ask(1)
    for _ in range(300):
        desk.step()
    assert member.statistics()["refuses"] == "no space left on device"
    assert len(desk.askers[0].answers) == 3 and desk.askers[1].answers == []
    assert member.entrance.held
    disk.is_full = False
    desk.check_all_is_well()
    assert "refuses" not in member.statistics() and not member.entrance.held


def test_a_broken_disk_is_final(desk):
    member, disk = one(desk)
    disk.is_broken = True
    ended = []
    perform = member.perform
    member.perform = lambda effect: ended.append(effect) if type(effect) is EndSession else perform(effect)
    desk.ask()
    desk.settle()
    assert ended == [EndSession("input/output error")]
    assert member.is_out and desk.chain.is_lost
    assert desk.askers[0].answers == []


def test_records_that_make_no_sense_are_refused(desk):
    member, disk = one(desk)
    for _ in range(3):
        desk.ask()
        desk.settle()
    assert len(disk.records) > 3
    for records in ([b"\xc1"], [b"\x93\x01\x02\x03"], [disk.records[0], *disk.records[2:]]):
        with pytest.raises(ValueError, match="no record|comes after"):
            ChainMember("again/gcs-0", "gcs-0", "master", is_durable=True).recover([], records)
    with pytest.raises(ValueError, match="no state"):
        ChainMember("again/gcs-0", "gcs-0", "master", is_durable=True).recover([b"\xc1"], [])


def test_what_a_joining_member_remembers_of_another_life_is_thrown_away():
    """Its last updates may never have been acknowledged, and others have taken their numbers."""
    desk = ChainDesk(replicas=2, offers=1, is_durable=True)
    desk.ask(0)
    desk.settle()
    other = ChainDesk(replicas=1, offers=1, is_durable=True, seed=2)
    for _ in range(5):
        other.ask(1)
        other.settle()
    _, stale = one(other)
    sequence = desk.members()[0].sequence
    del stale.records[1 + sequence :]  # the first one is the epoch
    member = desk.offer(stale)
    assert member.sequence == sequence
    desk.check_all_is_well()
    assert member.is_tail


def test_a_recovered_member_that_is_a_spare_waits():
    """It has a state of another life, and no chain."""
    from zray.roles.gcs.chain import ChainMember
    from zray.roles.gcs.journal import Entry, _encode

    member = ChainMember("s9/gcs-0", "gcs-0", "master", is_durable=True)
    member.recover((), [_encode(Entry(7, None))])
    member.start()
    (offer,) = member.end_turn(0.0)
    assert (offer.message.sequence, offer.message.epoch) == (0, 7)
    assert not member.end_turn(1.0)


def test_the_chain_begins_with_the_log_of_the_latest_epoch_and_of_those_the_longest():
    from zray.roles.gcs.master import ChainMaster
    from zray.wire.chain import ChainChanged, ChainJoined, ChainOffer

    master = ChainMaster("master", replicas=2, first_offers={"gcs-0": 3})
    assert not master.handle("a/gcs-0", ChainOffer("gcs-0", 90, 4), 0.0)
    assert not master.handle("b/gcs-0", ChainOffer("gcs-0", 50, 5), 0.0)
    told = master.handle("c/gcs-0", ChainOffer("gcs-0", 60, 5), 0.0)
    (change,) = {effect.message.members[0]: effect.message for effect in told}.values()
    assert type(change) is ChainChanged and change.members == ["c/gcs-0"] and not change.joining
    # Not before it has an epoch for good: a head that is killed meanwhile leaves a log that tells nothing.
    told = master.handle("c/gcs-0", ChainJoined("gcs-0", change.epoch), 0.0)
    assert {effect.message.joining for effect in told if effect.message.members} == {"a/gcs-0"}


def test_a_chain_whose_last_full_member_is_lost_waits_for_all_logs():
    from zray.roles.gcs.master import ChainMaster
    from zray.wire.chain import ChainJoined, ChainMemberLost, ChainOffer

    master = ChainMaster("master", replicas=2, first_offers={"gcs-0": 2})
    for member in ("a/gcs-0", "b/gcs-0"):
        master.handle(member, ChainOffer("gcs-0"), 0.0)
    chain = master.chains["gcs-0"]
    master.handle("a/gcs-0", ChainJoined("gcs-0", chain.epoch), 0.0)
    told = master.handle("host", ChainMemberLost("a/gcs-0", "killed"), 0.0)
    assert chain.is_lost and [effect.destination for effect in told] == ["a/gcs-0", "b/gcs-0"]
    epoch = chain.epoch
    assert not master.handle("b2/gcs-0", ChainOffer("gcs-0", 7, epoch - 1), 0.0)
    master.handle("a2/gcs-0", ChainOffer("gcs-0", 9, epoch - 1), 0.0)
    assert chain.members == ["a2/gcs-0"] and chain.epoch > epoch and not chain.is_lost
