"""What a local scheduler tells the shard of its tasks' records."""

from tests.roles.desk import DRIVER, JOB, Desk
from zray.roles.local_scheduler.lineage import LineageTimeout
from zray.wire.gcs import RecordTasks, ReleaseAtNode
from zray.wire.objects import ReleaseObjects
from zray.wire.scheduling import PlaceTask


def a_recorded_result_that_is_dropped():
    """The desk, the task's spec, and its result; the shard knows the task, and does not know yet of the drop."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    spec = desk.new_spec()
    (result,) = desk.submit(spec)
    desk.run_all()
    desk.tell("timer", LineageTimeout())
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
    desk.tell("timer", LineageTimeout())
    assert released(desk) == [result]


def test_a_task_that_is_submitted_here_anew_does():
    desk, spec, result = a_recorded_result_that_is_dropped()
    desk.submit(spec)
    desk.tell("timer", LineageTimeout())
    assert released(desk) == []
    desk.run_all()
    desk.tell(DRIVER, ReleaseObjects([result]))
    desk.tell("timer", LineageTimeout())
    assert released(desk) == [result]
