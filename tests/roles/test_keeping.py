"""Several shards: what the records of one need of another is kept there, and what words that takes."""

import pytest

from tests.roles.desk import DRIVER, Desk
from zray.ids import put_id, return_id
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard, keeping
from zray.wire.gcs import (
    HoldAtNode,
    HoldAtNodeReply,
    LineageNeeded,
    LineageNeededReply,
    NodeLost,
    RecordTasks,
    RecordTasksReply,
    ReleaseAtNode,
)
from zray.wire.groups import AttendShard
from zray.wire.objects import ReleaseObjects
from zray.wire.shards import SlotTable
from zray.wire.task_spec import TaskSpec

N1, N2, N3 = "n1/local", "n2/local", "n3/local"


def task(shard, number):
    """The id of a task of that shard, of two."""
    return b"t" * 10 + (2 * number + shard).to_bytes(6, "big")


def spec(task_id, *takes):
    return TaskSpec(task_id, b"f" * 16, deps=takes)


PARENT, OTHER = task(1, 1), task(1, 2)
RESULT = return_id(PARENT, 1)
CHILD, SECOND = task(0, 3), task(0, 4)


def say(shard, sender, message):
    """A turn with one message.  What the shard says, and to whom."""
    effects = shard.handle(sender, message, 1.0) + shard.end_turn(1.0)
    shard.check_everything()
    return [(effect.destination, effect.message) for effect in effects if type(effect) is Send]


def record(shard, node, *specs, request=0):
    return say(shard, node, RecordTasks(node, list(specs), request, 2))


@pytest.fixture
def shards():
    return GcsShard("gcs-0"), GcsShard("gcs-1")


def words(number, needed=(), freed=()):
    return LineageNeeded(0, 1, 2, number, list(needed), list(freed))


def test_a_record_is_kept_while_another_shards_record_needs_it(shards):
    first, second = shards
    record(second, N1, spec(PARENT))
    ((carrier, word),) = record(first, N1, spec(CHILD, RESULT), request=7)
    assert (carrier, word) == (N1, words(1, [PARENT]))
    ((carrier, heard),) = say(second, N1, word)
    assert (carrier, heard) == (N1, LineageNeededReply(0, 1, 1))
    # Only now is it acknowledged that the task is recorded.
    assert say(first, N1, heard) == [(N1, RecordTasksReply(7))]
    say(second, N1, ReleaseAtNode(N1, [RESULT]))
    assert second.tasks.records[PARENT].spec == spec(PARENT)
    ((_, word),) = say(first, N1, ReleaseAtNode(N1, [return_id(CHILD, 1)]))
    assert word == words(2, freed=[PARENT]) and not first.tasks.records
    say(second, N1, word)
    assert not second.tasks.records and not second.tasks.keeping.kept_for


def test_it_is_said_once_for_all_that_need_it_and_never_where_it_is_taken_back(shards):
    first, _ = shards
    both = [spec(CHILD, RESULT), spec(SECOND, RESULT, return_id(OTHER, 1))]
    assert record(first, N1, *both) == [(N1, words(1, [PARENT, OTHER]))]
    # While that is under way: one comes and goes, and one is let go of.
    third = task(0, 5)
    assert record(first, N1, spec(third, return_id(task(1, 9), 1))) == []
    assert say(first, N1, ReleaseAtNode(N1, [return_id(third, 1), return_id(SECOND, 1)])) == []
    assert say(first, N1, LineageNeededReply(0, 1, 1)) == [(N1, words(2, freed=[OTHER]))]


def test_nothing_is_said_of_what_was_put(shards):
    assert record(shards[0], N1, spec(CHILD, put_id(PARENT, 0)), request=7) == [(N1, RecordTasksReply(7))]


def test_all_that_is_acknowledged_meanwhile_waits_for_the_words_before_it(shards):
    first, _ = shards
    record(first, N1, spec(CHILD, RESULT))
    hold = HoldAtNode(N2, [return_id(CHILD, 1)], 5)
    # Who waits carries them too, but not everybody.
    assert say(first, N2, hold) == [(N2, words(1, [PARENT]))]
    assert say(first, N3, HoldAtNode(N3, [return_id(CHILD, 1)], 6)) == []
    said = say(first, N2, LineageNeededReply(0, 1, 1))
    assert said == [(N2, HoldAtNodeReply(5)), (N3, HoldAtNodeReply(6))]
    assert say(first, N1, LineageNeededReply(0, 1, 1)) == []
    assert first.rejected == {"a batch that was known to be heard": 1}


def test_words_go_another_way_when_who_carries_them_is_lost(shards):
    first, _ = shards
    record(first, N2, spec(SECOND))
    record(first, N1, spec(CHILD, RESULT), request=7)
    say(first, N2, HoldAtNode(N2, [return_id(CHILD, 1)], 0))
    assert say(first, "monitor", NodeLost(N1, "killed")) == [(N2, words(1, [PARENT]))]
    # Nobody is left: the next that says anything has them, and what is no longer needed now comes after them.
    assert say(first, "monitor", NodeLost(N2, "killed")) == []
    assert record(first, N3, spec(task(0, 8))) == [(N3, words(1, [PARENT]))]
    assert say(first, N3, LineageNeededReply(0, 1, 1)) == [(N3, words(2, freed=[PARENT]))]


def test_one_that_has_only_joined_can_carry(shards):
    """Who has said all else is lost; the others have nothing to say, and may not have for long."""
    first, _ = shards
    say(first, N2, AttendShard(N2, True))
    assert record(first, N1, spec(CHILD, RESULT)) == [(N1, words(1, [PARENT]))]
    assert say(first, "monitor", NodeLost(N1, "gone")) == [(N2, words(1, [PARENT]))]
    assert not say(first, "monitor", NodeLost(N2, "gone"))
    assert say(first, N3, AttendShard(N3, True)) == [(N3, words(1, [PARENT]))]


def test_words_that_come_twice_change_nothing(shards):
    _, second = shards
    record(second, N1, spec(PARENT))
    say(second, N1, words(1, [PARENT]))
    say(second, N1, words(2, freed=[PARENT]))
    assert say(second, N2, words(1, [PARENT])) == [(N2, LineageNeededReply(0, 1, 1))]
    assert not second.tasks.keeping.kept_for


def test_words_for_another_shard_are_refused(shards):
    first, second = shards
    record(second, N1, spec(PARENT))
    assert say(second, N1, LineageNeeded(0, 0, 2, 1, [PARENT], [])) == []
    assert say(second, N1, LineageNeeded(9, 1, 2, 1, [PARENT], [])) == []
    assert say(first, N1, LineageNeeded(1, 0, 1, 1, [PARENT], [])) == []
    say(second, "monitor", NodeLost(N2, "killed"))
    assert say(second, N2, words(1, [PARENT])) == []
    assert not second.tasks.keeping.kept_for


def test_many_words_go_in_several_batches(shards, monkeypatch):
    monkeypatch.setattr(keeping, "WORDS_MAX", 2)
    first, _ = shards
    takes = [return_id(task(1, number), 1) for number in range(5)]
    ((_, word),) = record(first, N1, spec(CHILD, *takes), request=7)
    for number in (1, 2):
        assert len(word.needed) == 2 and word.number == number
        ((_, word),) = say(first, N1, LineageNeededReply(0, 1, number))
    assert len(word.needed) == 1
    assert say(first, N1, LineageNeededReply(0, 1, 3)) == [(N1, RecordTasksReply(7))]


def test_one_shard_has_none_of_this():
    alone = GcsShard("gcs-0")
    say(alone, N1, RecordTasks(N1, [spec(CHILD, RESULT)], 7))
    assert alone.tasks.keeping is None


# --- the node ---


@pytest.fixture
def desk():
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.scheduler.addresses.shards, desk.scheduler.addresses.slots = ["gcs-0", "gcs-1"], SlotTable.at_birth(2)
    return desk


def recorded_and_dropped(desk):
    """One task that takes what another one returned; all is done, and the second one's result is still held."""
    parent = desk.new_spec()
    (result,) = desk.submit(parent)
    child = desk.new_spec(deps=(result,))
    desk.submit(child)
    desk.run_all()
    desk.tell(DRIVER, ReleaseObjects([result]))
    desk.timer("Lineage.send_portion")
    return result, desk.take_sent()


def requests(sent):
    """Those whose replies let go."""
    return [(target, message.request) for target, message in sent if type(message) is RecordTasks]


def test_a_node_holds_what_a_task_takes_until_its_record_is_acknowledged(desk):
    """And that of the task that makes it: the two are with different shards."""
    result, sent = recorded_and_dropped(desk)
    (first, request), (last, other) = requests(sent)
    assert first != last and request == other
    assert not [message for _, message in sent if type(message) is ReleaseAtNode]
    desk.tell(first, RecordTasksReply(request))
    assert desk.take_sent(ReleaseAtNode) == []
    desk.tell(last, RecordTasksReply(request))
    ((shard, message),) = desk.take_sent(ReleaseAtNode)
    assert shard == desk.scheduler.addresses.shard_of(result) and message.object_ids == [result]
    assert not desk.scheduler.lineage.owed and not desk.scheduler.lineage.owed_by_object


def test_what_is_held_again_meanwhile_is_not_let_go_of(desk):
    result, sent = recorded_and_dropped(desk)
    desk.scheduler.lineage.held_again([result])
    for shard, request in requests(sent):
        desk.tell(shard, RecordTasksReply(request))
    assert desk.take_sent(ReleaseAtNode) == []


def test_a_node_carries_words_from_shard_to_shard(desk):
    word, heard = words(1, [PARENT]), LineageNeededReply(0, 1, 1)
    desk.take_sent()
    desk.tell("gcs-0", word)
    desk.tell("gcs-1", heard)
    assert desk.take_sent() == [("gcs-1", word), ("gcs-0", heard)]
    desk.tell("gcs-0", LineageNeeded(0, 2, 3, 1, [PARENT], []))
    assert desk.take_sent() == []
