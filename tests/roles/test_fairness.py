"""Jobs share a node: a driver with a million tasks does not shut another one out (docs/security.md, B20)."""

from tests.roles.desk import DRIVER, FUNCTION, Desk
from zray.roles import effects as e
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import Function, PublishFunction, SubmitTasks

OTHER, OTHER_JOB, OTHER_FUNCTION = "driver-2", b"job-0002", b"other" + bytes(11)
FLOOD, TASKS = 20_000, 2_000
SHARE = 0.3


def test_a_flood_of_one_driver_leaves_another_its_share():
    desk = Desk(cpus=2)
    desk.tell("host", e.ProcessJoined(OTHER, "driver", 2, OTHER_JOB))
    desk.tell(OTHER, PublishFunction(Function(OTHER_FUNCTION, "g", b"code")))
    desk.scheduler.check_everything = lambda: None  # of so many, after each message, it takes minutes
    desk.submit(*[desk.new_spec() for _ in range(FLOOD)])
    for _ in range(100):
        work(desk)
    others = [TaskSpec(b"other" + number.to_bytes(11, "big"), OTHER_FUNCTION) for number in range(TASKS)]
    desk.tell(OTHER, SubmitTasks(others))
    done = {FUNCTION: 0, OTHER_FUNCTION: 0}
    while done[OTHER_FUNCTION] < TASKS:
        for spec in work(desk):
            done[spec.function_id] += 1
        assert done[FUNCTION] < FLOOD - 200, f"{DRIVER} was served first: {done}"
    assert TASKS / sum(done.values()) >= SHARE, done


def work(desk):
    """All workers that are there finish a task; those that were ordered come."""
    while desk.starting:
        desk.give_birth()
    finished = []
    for worker in [worker for worker, queue in desk.queues.items() if queue]:
        spec = desk.finish_one(worker)
        if spec is not None:
            finished.append(spec)
    while desk.killed:
        worker = desk.killed.pop()
        desk.queues.pop(worker, None)
        desk.tell("host", e.WorkerExited(worker, "killed", 0))
    desk.take_sent()
    return finished
