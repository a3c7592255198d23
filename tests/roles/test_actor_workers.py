"""Processes for actors, one message at a time."""

import pytest

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER
from zray.ids import return_id
from zray.roles import effects as e
from zray.wire.actors import CallResult, CallsFinished, ForwardCalls
from zray.wire.gcs import FreeCopies, HoldAtNode, HoldAtNodeReply, NodeJoined, NodeLost
from zray.wire.objects import UnpinObjects
from zray.wire.task_spec import ActorOptions, StoredValue
from zray.wire.tasks import SubmitTasks, TaskResult, TasksFinished


def test_a_process_that_another_actor_takes_is_ordered_again():
    """The one that takes it lacked something until that turn, and has ordered none itself."""
    desk = ActorDesk(cpus=1)
    maker, late, early = (bytes([number]) * 16 for number in (1, 2, 3))
    options = ActorOptions(resources={})
    desk.create(maker, options)
    desk.settle()
    (worker,) = desk.actors
    call = desk.new_call(b"driver", maker)
    desk.tell(DRIVER, SubmitTasks([call]))
    desk.create(late, options, deps=[return_id(call.task_id, 1)])
    desk.create(early, options)
    (order,) = desk.starting
    desk.starting.clear()
    desk.tell("host", e.WorkerStarted(order.worker, 100))
    desk.queues[order.worker], desk.windows[order.worker] = [], 0
    desk.queues[worker].clear()
    # Both in one turn.
    done = TasksFinished([TaskResult(call.task_id, [b"\1"])])
    desk._perform(desk.scheduler.handle(worker, done, desk.now))
    desk.tell("host", e.ProcessJoined(order.worker, "worker", 100, b"", order.worker_id))
    desk.settle()
    assert {process.actor_id for process in desk.actors.values()} == {maker, late, early}
    assert not desk.scheduler.calls.wanting


def desk_with_a_call_from_another_node():
    """Its actor's worker has begun it, and submitted a task."""
    desk = ActorDesk(cpus=1)
    desk.scheduler.is_embedded = False
    desk.tell("monitor", NodeJoined("other/local", {}))
    desk.create(actor := b"a" * 16, ActorOptions(resources={}))
    desk.settle()
    (worker,) = desk.actors
    call, child = desk.new_call(b"driver", actor), desk.new_spec()
    desk.tell("other/local", ForwardCalls([call]))
    assert desk.begin_call(worker) is call
    desk.tell(worker, SubmitTasks([child]))
    return desk, worker, call, child


def test_a_caller_on_another_node_hears_of_refs_inside_when_the_shards_know_who_makes_these():
    desk, worker, call, child = desk_with_a_call_from_another_node()
    desk.take_sent()
    desk.tell(worker, TasksFinished([TaskResult(call.task_id, [b"\1"], [(return_id(child.task_id, 1),)])]))
    sent = desk.take_sent()
    assert CallsFinished not in {type(message) for _, message in sent}
    (hold,) = [message for _, message in sent if type(message) is HoldAtNode and message.request]
    assert hold.object_ids == [return_id(child.task_id, 1)]
    desk.tell("gcs-0", HoldAtNodeReply(hold.request))
    assert desk.take_sent(CallsFinished) == [("other/local", CallsFinished([CallResult(call.task_id, [1])]))]


@pytest.mark.parametrize("is_large", [True, False])
def test_what_a_call_returns_whose_callers_node_is_lost_is_kept_for_nobody(is_large):
    """It was kept until that node would hold it: for ever."""
    desk, worker, call, child = desk_with_a_call_from_another_node()
    desk.tell("monitor", NodeLost("other/local", "it was unplugged"))
    answer = return_id(call.task_id, 1)
    done = TaskResult(call.task_id, [StoredValue(0, 0, 5_000)])
    if not is_large:
        done = TaskResult(call.task_id, [b"\1"], [(return_id(child.task_id, 1),)])
    desk.take_sent()
    desk.tell(worker, TasksFinished([done]))
    sent = [message for _, message in desk.take_sent()]
    for message in sent:
        if type(message) is HoldAtNode and message.request:
            desk.tell("gcs-0", HoldAtNodeReply(message.request))
    assert not desk.scheduler.results.unheld
    assert not [message for message in sent + desk.take_sent(CallsFinished) if type(message) is CallsFinished]
    if is_large:
        desk.tell(worker, UnpinObjects([(answer, 1)]))
    desk.tell("gcs-0", FreeCopies([answer]))
    assert answer not in desk.scheduler.objects.entries
