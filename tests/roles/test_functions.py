"""Code on a node: a job publishes so much of it, and what no task needs is a cache."""

from tests.roles.desk import DRIVER, FUNCTION, Desk
from zray.exceptions import ActorUnschedulableError, TaskUnschedulableError, decode_system_error
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler.tasks import code
from zray.wire.actors import ActorExited, ActorStarted, CreateActor
from zray.wire.gcs import FetchFunction, FetchFunctionReply, ReleaseFunctions
from zray.wire.task_spec import ActorOptions, TaskSpec
from zray.wire.tasks import Function, ObjectsReady, PublishFunction, StartTasks, SubmitTasks


def function(number, size=4):
    return Function(bytes([number]) * 16, f"f{number}", b"c" * size)


def task(desk, number):
    spec = desk.new_spec()
    spec.function_id = function(number).function_id
    return spec


def errors(desk):
    values = [value for _, message in desk.take_sent(ObjectsReady) for _, value in message.objects]
    return [decode_system_error(value) for value in values]


def test_a_job_that_publishes_too_much_gets_errors_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(code, "FUNCTIONS_COUNT_MAX", 2)
    desk = Desk()
    desk.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002"))
    for number in (1, 2, 2, 1):
        desk.tell(DRIVER, PublishFunction(function(number)))
    desk.take_sent()
    desk.submit(task(desk, 1))
    assert errors(desk) == []
    desk.submit(task(desk, 2))
    (error,) = errors(desk)
    assert isinstance(error, TaskUnschedulableError) and "defined in a loop" in str(error)
    assert not desk.scheduler.functions.waiters
    spec = TaskSpec(b"actor" + bytes(11), function(2).function_id)
    desk.tell(DRIVER, CreateActor(spec, ActorOptions(class_name="A")))
    assert isinstance(errors(desk)[0], ActorUnschedulableError)
    # It is the other job's, which may.
    desk.tell("driver-2", PublishFunction(function(2)))
    desk.submit(task(desk, 2))
    assert errors(desk) == []
    assert desk.scheduler.jobs[b"job-0002"].functions.keys() == {function(2).function_id}


def test_a_job_publishes_so_many_bytes(monkeypatch):
    monkeypatch.setattr(code, "FUNCTIONS_BYTES_MAX", 10)
    desk = Desk()
    desk.tell(DRIVER, PublishFunction(function(1, 7)))
    desk.tell(DRIVER, PublishFunction(function(2, 6)))
    assert desk.scheduler.jobs[b"job-0001"].refused.keys() == {function(1, 7).function_id}
    assert (f"LocalScheduler.jobs[{b'job-0001'.hex()}].code_bytes", 10, 10) in list(desk.scheduler.bounds())


def test_code_that_no_task_needs_is_had_again_from_its_shard(monkeypatch):
    monkeypatch.setattr(code, "IDLE_COUNT_MAX", 2)
    desk = Desk(cpus=1)
    desk.scheduler.functions.count_max = 2
    desk.tell(DRIVER, PublishFunction(function(1)))
    desk.submit(task(desk, 1))
    desk.tell(DRIVER, PublishFunction(function(2)))
    # The first is as old as can be; the second is about to run; the third has just come.
    assert list(desk.scheduler.functions.by_id) == [function(1).function_id, function(2).function_id]
    desk.take_sent()
    spec = desk.new_spec()
    desk.submit(spec)
    assert desk.take_sent(FetchFunction) == [("gcs-0", FetchFunction("local", FUNCTION))]
    desk.tell("gcs-0", FetchFunctionReply(Function(FUNCTION, "f", b"code")))
    assert desk.scheduler.tasks[spec.task_id].missing == 0
    # What it has published it need not publish again.
    desk.tell(DRIVER, PublishFunction(Function(FUNCTION, "f", b"code")))
    assert desk.take_sent(PublishFunction) == []


def test_a_worker_is_sent_again_what_it_may_have_forgotten(monkeypatch):
    monkeypatch.setattr("zray.roles.local_scheduler.worker.LEARNED_COUNT_MAX", 1)
    desk = Desk(cpus=1)
    desk.tell(DRIVER, PublishFunction(function(1)))
    worker = desk.give_birth()
    sent = []
    for spec in (desk.new_spec(), desk.new_spec(), task(desk, 1), desk.new_spec()):
        desk.tell(DRIVER, SubmitTasks([spec]))
        sent += [[it.function_id for it in message.functions] for _, message in desk.take_sent(StartTasks)]
        desk.finish_one(worker)
    assert sent == [[FUNCTION], [], [function(1).function_id], [FUNCTION]]
    assert (f"LocalScheduler.pool.workers[{worker}].functions", 1, 1) in list(desk.scheduler.bounds())
    assert return_id(spec.task_id, 1) in desk.scheduler.objects.entries


def test_the_end_of_a_job_is_said_where_its_code_is_and_a_detached_actor_puts_that_off():
    desk = Desk()
    worker = desk.give_birth()
    spec = TaskSpec(b"actor" + bytes(11), FUNCTION)
    desk.tell(DRIVER, CreateActor(spec, ActorOptions(class_name="A", detached=True)))
    desk.tell(worker, ActorStarted(spec.task_id))
    desk.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002"))
    desk.take_sent()
    desk.tell("host", e.ProcessLeft("driver-2", "it has ended"))
    assert desk.take_sent(ReleaseFunctions) == [("gcs-0", ReleaseFunctions("local", b"job-0002"))]
    desk.tell("host", e.ProcessLeft(DRIVER, "it has ended"))
    assert desk.take_sent(ReleaseFunctions) == []
    # What it publishes now is its node's to release.
    desk.tell(worker, PublishFunction(function(1)))
    assert desk.take_sent(PublishFunction) == [("gcs-0", PublishFunction(function(1), "local", b"job-0001"))]
    assert desk.scheduler.functions.needed() == {FUNCTION, function(1).function_id}
    desk.tell(worker, ActorExited(spec.task_id, "exit_actor() was called."))
    assert desk.take_sent(ReleaseFunctions) == [("gcs-0", ReleaseFunctions("local", b"job-0001"))]
