"""What a local scheduler tells the shard of its tasks' records."""

from msgspec.structs import replace

from tests.roles.desk import DRIVER, JOB, Desk
from zray.roles.local_scheduler.log_batches import BATCH_BYTES_MAX
from zray.roles.local_scheduler.objects import lineage
from zray.roles.local_scheduler.objects.lineage import PORTION_COUNT, YOUNG_MAX, YOUTH_SECONDS
from zray.wire import limits
from zray.wire.gcs import HoldAtNode, HoldAtNodeReply, RecordTasks, RecordTasksReply, ReleaseAtNode
from zray.wire.objects import ReleaseObjects
from zray.wire.scheduling import PlaceTask


def recorded(desk):
    return [spec for _, message in desk.take_sent(RecordTasks) for spec in message.specs]


def let_pass(desk, seconds):
    """Lineage looks at what is fresh now, and then."""
    desk.timer("Lineage.send_portion")
    desk.now += seconds
    desk.timer("Lineage.send_portion")


def a_recorded_result_that_is_dropped():
    """The desk, the task's spec, and its result; the shard knows the task, and does not know yet of the drop."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    spec = desk.new_spec()
    (result,) = desk.submit(spec)
    desk.run_all()
    let_pass(desk, YOUTH_SECONDS)
    assert [target for target, message in desk.take_sent(RecordTasks) if message.specs == [spec]] == ["gcs-0"]
    desk.tell(DRIVER, ReleaseObjects([result]))
    assert desk.take_sent(ReleaseAtNode) == []
    return desk, spec, result


def released(desk):
    return [object_id for _, message in desk.take_sent(ReleaseAtNode) for object_id in message.object_ids]


def test_a_task_that_is_placed_here_anew_does_not_keep_the_hold_of_its_first_run():
    """It is the node that placed it which holds the result now."""
    desk, spec, result = a_recorded_result_that_is_dropped()
    desk.tell("global", PlaceTask(spec, "n2/local", JOB))
    desk.timer("Lineage.send_portion")
    assert released(desk) == [result]


def test_a_task_that_is_submitted_here_anew_does():
    desk, spec, result = a_recorded_result_that_is_dropped()
    desk.submit(spec)
    desk.timer("Lineage.send_portion")
    assert released(desk) == []
    desk.run_all()
    desk.tell(DRIVER, ReleaseObjects([result]))
    desk.timer("Lineage.send_portion")
    assert released(desk) == [result]


def test_tasks_that_take_nothing_wait_before_the_shard_hears_of_them():
    desk = Desk()
    spec = desk.new_spec()
    desk.submit(spec)
    let_pass(desk, YOUTH_SECONDS / 2)
    assert recorded(desk) == []
    desk.now += YOUTH_SECONDS / 2
    desk.timer("Lineage.send_portion")
    assert recorded(desk) == [spec]


def test_a_burst_that_is_dropped_by_then_costs_the_shard_nothing():
    desk = Desk()
    results = desk.submit(*(desk.new_spec() for _ in range(100)))
    desk.run_all()
    desk.timer("Lineage.send_portion")
    desk.tell(DRIVER, ReleaseObjects(results))
    let_pass(desk, YOUTH_SECONDS)
    assert recorded(desk) == [] and released(desk) == []


def test_what_came_later_still_waits_when_the_first_are_told():
    desk = Desk()
    first, second = desk.new_spec(), desk.new_spec()
    desk.submit(first)
    desk.timer("Lineage.send_portion")
    desk.now += YOUTH_SECONDS
    desk.submit(second)
    desk.timer("Lineage.send_portion")
    assert recorded(desk) == [first]
    let_pass(desk, YOUTH_SECONDS)
    assert recorded(desk) == [second]


def test_in_a_flood_that_is_dropped_at_once_what_is_kept_grows_old(monkeypatch):
    monkeypatch.setattr(lineage, "YOUNG_MAX", 20)
    desk = Desk()
    room = desk.scheduler.lineage
    room.sift_young_at = 20
    kept = desk.new_spec()
    desk.submit(kept)
    told = []
    for _ in range(round(YOUTH_SECONDS / 0.02) + 4):
        results = desk.submit(*(desk.new_spec() for _ in range(15)))
        desk.run_all()
        desk.tell(DRIVER, ReleaseObjects(results))
        desk.timer("Lineage.send_portion")
        desk.now += 0.02
        told += recorded(desk)
        assert len(room.fresh) <= 31
    assert told == [kept]


def test_a_task_that_takes_something_has_all_recorded_at_the_next_batch():
    desk = Desk()
    parent = desk.new_spec()
    (result,) = desk.submit(parent)
    desk.timer("Lineage.send_portion")
    child = desk.new_spec(deps=(result,))
    desk.submit(child)
    desk.timer("Lineage.send_portion")
    assert recorded(desk) == [parent, child]


def test_more_than_may_wait_are_told_in_portions():
    desk = Desk()
    specs = [desk.new_spec() for _ in range(YOUNG_MAX + 1)]
    desk.submit(*specs)
    portions = []
    while len(portions) * PORTION_COUNT < len(specs):
        desk.timer("Lineage.send_portion")
        portions.append(recorded(desk))
    assert sum(portions, []) == specs
    assert max(map(len, portions)) == PORTION_COUNT


def test_the_ends_of_many_at_once_are_told_in_portions(monkeypatch):
    """A program dropped all its refs: the others wait for a portion, not for all of them."""
    count = 100
    monkeypatch.setattr(lineage, "PORTION_COUNT", count)
    desk = Desk()
    results = desk.submit(*(desk.new_spec() for _ in range(2 * count + 1)))
    desk.run_all()
    desk.scheduler.lineage.flush()
    desk.tell(DRIVER, ReleaseObjects(results))
    desk.take_sent()
    portions = []
    for _ in range(3):
        desk.timer("Lineage.send_portion")
        portions.append(released(desk))
    assert sum(portions, []) == results
    assert list(map(len, portions)) == [count, count, 1]


def test_while_a_shard_is_behind_it_is_told_no_more_and_what_dies_does_not_wait_for_it(monkeypatch):
    monkeypatch.setattr(lineage, "UNHEARD_MAX", 2)
    monkeypatch.setattr(lineage, "FRESH_COUNT", 10)
    desk = Desk()
    room = desk.scheduler.lineage
    room.sift_at = 10
    requests, kept = [], []
    for _ in range(60):
        spec = desk.new_spec()
        (result,) = desk.submit(spec)
        desk.run_all()
        let_pass(desk, YOUTH_SECONDS)
        requests += [message.request for _, message in desk.take_sent(RecordTasks)]
        assert len(room.fresh) <= 10
        if len(kept) < 5:
            kept.append(spec)
        else:
            desk.tell(DRIVER, ReleaseObjects([result]))
    assert len(requests) == len(room.unheard) == 2 and desk.take_sent(ReleaseAtNode) == []
    assert ("LocalScheduler.lineage.unheard", 2, 3) in list(desk.scheduler.bounds())
    desk.tell("gcs-0", RecordTasksReply(requests[0]))
    let_pass(desk, YOUTH_SECONDS)
    assert recorded(desk) == kept[2:]
    assert not room.fresh


def test_large_arguments_are_recorded_in_messages_that_fit_into_frames():
    """2,000 tasks with 100 KiB each, in one message, would be refused by the socket of the next host for ever."""
    desk = Desk()
    specs = [replace(desk.new_spec(), args=b"x" * (100 << 10)) for _ in range(300)]
    desk.submit(*specs)
    desk.timer("Lineage.send_portion")
    desk.now += YOUTH_SECONDS
    desk.timer("Lineage.send_portion")
    parts = [message.specs for _, message in desk.take_sent(RecordTasks)]
    assert sum(parts, []) == specs
    assert max(sum(len(spec.args) for spec in part) for part in parts) <= BATCH_BYTES_MAX + (100 << 10)


def test_a_portion_in_several_messages_is_heard_of_when_all_are():
    desk = Desk()
    specs = [replace(desk.new_spec(), args=b"x" * (100 << 10)) for _ in range(30)]
    desk.submit(*specs)
    desk.timer("Lineage.send_portion")
    desk.now += YOUTH_SECONDS
    desk.timer("Lineage.send_portion")
    told = [message.request for _, message in desk.take_sent(RecordTasks)]
    assert len(told) > 1 and len(set(told)) == 1
    for request in told:
        assert desk.scheduler.lineage.unheard
        desk.tell("gcs-0", RecordTasksReply(request))
    assert not desk.scheduler.lineage.unheard


def test_more_ids_than_a_message_may_name_are_told_in_several(monkeypatch):
    monkeypatch.setattr(limits, "ITEMS_MAX", 3)
    desk = Desk()
    ids = [bytes([n]) * 20 for n in range(10)]
    assert desk.scheduler.remote._hold_at_shards(ids, 5) == 4  # each is answered
    desk.scheduler.lineage.let_go(ids)
    desk.tell("gcs-0", HoldAtNodeReply(0))  # any turn
    sent = desk.take_sent()
    for kind in (HoldAtNode, ReleaseAtNode):
        parts = [message.object_ids for _, message in sent if type(message) is kind]
        assert [len(part) for part in parts] == [3, 3, 3, 1] and sum(parts, []) == ids
