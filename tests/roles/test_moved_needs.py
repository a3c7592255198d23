"""Needs of records of other shards, while a table moves their slots: no word is lost, and none is done twice.

Shard 2 gains slots of shard 0, as shards 0 and 2 know from the beginning.  Shard 1 has the former table.
"""

import random

import pytest

from zray.ids import return_id
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard, keeping
from zray.wire import gcs
from zray.wire.shards import SlotsChanged, SlotTable
from zray.wire.task_spec import TaskSpec

N1, N2 = "n1/local", "n2/local"
BIRTH = SlotTable.at_birth(2)
SPLIT = BIRTH.split(0, BIRTH.slots_of(0)[::2])  # shard 2 has slots 0, 4, 8 ...


def task(slot, number=0):
    return b"t" * 6 + (slot + 256 * number).to_bytes(10, "big")


KEPT, MOVED, ALSO, CHILD, SECOND = task(2), task(4), task(8), task(1), task(3)


def say(shard, message, sender=N1):
    effects = shard.handle(sender, message, 1.0) + shard.end_turn(1.0)
    shard.check_everything()
    return [effect.message for effect in effects if type(effect) is Send]


def record(shard, task_id, *takes, request=0, node=N1):
    deps = [return_id(it, 1) for it in takes]
    return say(shard, gcs.RecordTasks(node, [TaskSpec(task_id, b"f" * 16, deps=deps)], request, 2), node)


def drop(shard, task_id):
    return say(shard, gcs.ReleaseAtNode(N1, [return_id(task_id, 1)]))


def words(target, number, needed=(), freed=(), shards=2):
    return gcs.LineageNeeded(1, target, shards, number, list(needed), list(freed))


@pytest.fixture
def shards():
    """All have the table of the birth, and those whose slots move have the next one."""
    shards = [GcsShard(f"gcs-{number}") for number in range(3)]
    for shard, table in zip(shards, (SPLIT, BIRTH, SPLIT), strict=True):
        assert say(shard, SlotsChanged(table), "counts") == [] and shard.tasks.slots == table
    return shards


def moved(number, *task_ids):
    return gcs.LineageMoved(1, 0, number, SPLIT, list(task_ids))


def test_a_word_to_the_former_owner_comes_back_and_goes_to_the_new_one(shards):
    loser, needing, gainer = shards
    (word,) = record(needing, CHILD, MOVED, KEPT, request=7)
    assert word == words(0, 1, [MOVED, KEPT])
    (back,) = say(loser, word)
    assert back == moved(1, MOVED)
    assert loser.tasks.keeping.kept_for == {KEPT: {1: None}} and list(loser.tasks.records) == [KEPT]
    (word,) = say(needing, back)
    assert needing.tasks.slots == SPLIT and word == words(2, 1, [MOVED], shards=3)
    (heard,) = say(gainer, word)
    assert gainer.tasks.keeping.kept_for == {MOVED: {1: None}}
    # Only now have all heard what the record needs.
    assert say(needing, heard) == [gcs.RecordTasksReply(7)]
    both = drop(needing, CHILD)
    assert both == [words(0, 2, freed=[KEPT], shards=3), words(2, 2, freed=[MOVED], shards=3)]
    for shard, word in zip((loser, gainer), both, strict=True):
        assert say(shard, word) == [gcs.LineageNeededReply(1, word.target, 2)] and not shard.tasks.records


def test_the_opposite_that_was_to_be_said_is_dropped_with_what_comes_back(shards):
    loser, needing, _ = shards
    (word,) = record(needing, CHILD, MOVED)
    assert drop(needing, CHILD) == []
    assert say(needing, *say(loser, word)) == []
    assert not any(peer.coming for peer in needing.tasks.keeping.peers.values())


@pytest.mark.parametrize("is_known", [False, True], ids=["came back", "was done"])
def test_words_about_a_task_stay_in_order(shards, is_known):
    """The table comes while a word is under way; nobody knows yet whether that was done before the move."""
    loser, needing, gainer = shards
    (word,) = record(needing, CHILD, MOVED)
    assert say(needing, SlotsChanged(SPLIT), "counts") == []
    assert drop(needing, CHILD) == []  # the new owner may not have heard of the need
    assert record(needing, SECOND, ALSO, request=7) == []
    (back,) = [gcs.LineageNeededReply(1, 0, 1)] if is_known else say(loser, word)
    (word,) = say(needing, back)
    assert word == words(2, 1, [ALSO], [MOVED] if is_known else [], shards=3)
    assert say(needing, *say(gainer, word)) == [gcs.RecordTasksReply(7)]


def test_words_not_sent_yet_go_to_the_new_owner(shards):
    _, needing, gainer = shards
    record(needing, CHILD, KEPT)
    assert record(needing, SECOND, MOVED, request=7) == []
    (word,) = say(needing, SlotsChanged(SPLIT), "counts")
    assert word == words(2, 1, [MOVED], shards=3)
    assert say(needing, gcs.LineageNeededReply(1, 0, 1)) == []
    assert say(needing, *say(gainer, word)) == [gcs.RecordTasksReply(7)]


def test_a_batch_that_comes_twice_comes_back_twice(shards):
    loser, needing, _ = shards
    (word,) = record(needing, CHILD, MOVED)
    (again,) = record(needing, SECOND, request=7, node=N2)
    assert again == word
    assert say(loser, word) == say(loser, again, N2) == [moved(1, MOVED)]
    say(needing, moved(1, MOVED))
    say(needing, moved(1, MOVED), N2)
    assert needing.rejected == {"a batch that was known to be heard": 1}


def test_a_table_by_which_slots_of_ours_move_is_not_taken_from_another_shard(shards):
    _, needing, _ = shards
    record(needing, CHILD, MOVED)
    table = SPLIT.merge(1, 0)
    assert say(needing, gcs.LineageMoved(1, 0, 1, table, [MOVED])) == []
    assert needing.tasks.slots == BIRTH and needing.rejected == {"a table of slots by which records would move": 1}
    say(needing, SlotsChanged(BIRTH.merge(0, 1)), "counts")
    assert needing.tasks.slots == BIRTH  # it would gain a task of which it has only needs


def copy_of(shard):
    copy = GcsShard(shard.address)
    copy.load(shard.dump())
    assert list(copy.dump()) == list(shard.dump())
    return copy


@pytest.mark.parametrize("seed", range(40))
def test_in_any_order_the_owners_keep_what_is_needed(seed, shards, monkeypatch):
    """Records come and go, batches are small and come twice, the table comes at any time, and replicas take over."""
    monkeypatch.setattr(keeping, "WORDS_MAX", 3)
    chance, mail = random.Random(seed), []
    takeable = [task(slot, number) for number in range(3) for slot in (2, 4, 6, 8)]
    living, waiting = {}, {}  # request -> what its task takes

    def perform(messages):
        for message in messages:
            if type(message) is not gcs.RecordTasksReply:
                mail.append(message)
                continue
            waiting.pop(message.request)
            for it in living.get(message.request, ()):
                assert 1 in shards[SPLIT.owner(it)].tasks.keeping.kept_for[it], "acknowledged, and not all have heard"

    def deliver():
        message = mail.pop(chance.randrange(len(mail)))
        number = message.target if type(message) is gcs.LineageNeeded else message.source
        perform(say(shards[number], message, chance.choice((N1, N2))))

    for step in range(1, 400):
        what = chance.random()
        if what < 0.3:
            living[step] = waiting[step] = chance.sample(takeable, 2)
            perform(record(shards[1], task(1, step), *living[step], request=step, node=chance.choice((N1, N2))))
        elif what < 0.55 and living:
            request = chance.choice(list(living))
            del living[request]
            ids = [return_id(task(1, request), 1)]
            for node in (N1, N2):
                perform(say(shards[1], gcs.ReleaseAtNode(node, ids)))
        elif what < 0.9 and mail:
            deliver()
        elif step > 100 and shards[1].tasks.slots == BIRTH and what < 0.91:
            perform(say(shards[1], SlotsChanged(SPLIT), "counts"))
        elif what > 0.97:
            number = chance.randrange(3)
            shards[number] = copy_of(shards[number])
    while mail:
        deliver()
    assert not waiting
    for number in (0, 2):
        kept = {it for takes in living.values() for it in takes if SPLIT.owner(it) == number}
        assert shards[number].tasks.keeping.kept_for == {it: {1: None} for it in kept}
