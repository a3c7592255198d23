"""Workers at rest: which of them are remembered, under which names."""

from tests.roles.desk import DRIVER, Desk
from zray.wire.environment import Environment
from zray.wire.task_spec import TaskOptions, encode_options
from zray.wire.tasks import SubmitTasks


def test_kinds_of_workers_that_are_gone_are_forgotten():
    """Environment variables may be others for each task; their workers make room for each other."""
    desk = Desk(cpus=1)
    for number in range(20):
        spec = desk.new_spec()
        spec.options = encode_options(TaskOptions(environment=Environment((("NUMBER", str(number)),))))
        desk.tell(DRIVER, SubmitTasks([spec]))
        desk.run_all()
        for worker in dict.fromkeys(desk.killed):
            desk.kill(worker)
        desk.killed.clear()
        desk.run_all()
    pool = desk.scheduler.pool
    assert len(pool.workers) < 20
    assert len(pool.idle) <= len(pool.workers) + 1
