"""Memory of workers: which one is ended in a shortage, and when its task runs again."""

from msgspec.structs import replace

from tests.roles.desk import DRIVER, Desk
from zray.exceptions import OutOfMemoryError, decode_system_error
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler.tasks.memory import HELD_SECONDS_MAX, LIMIT_MIN, PAUSE_SECONDS
from zray.roles.work_effects import MemoryUse, WatchMemory
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, encode_options
from zray.wire.tasks import ObjectsReady, SubmitTasks, WaitObjects

GB = 1 << 30
LIMIT, TOTAL = 95 * GB, 100 * GB


class MemoryDesk(Desk):
    """A desk that keeps the orders to watch memory."""

    def __init__(self, cpus=2):
        self.watched = []
        super().__init__(cpus)

    def _perform(self, effects):
        super()._perform(effects)
        self.watched += [effect for effect in effects if type(effect) is WatchMemory]

    def run_tasks(self, count=1, memory=0, **options):
        """Submit so many tasks, one after the other, and have each begin.  Returns the workers in this order."""
        resources = {"CPU": RESOURCE_UNIT} | ({"memory": memory * RESOURCE_UNIT} if memory else {})
        begun = []
        for _ in range(count):
            spec = replace(self.new_spec(), options=encode_options(TaskOptions(resources=resources, **options)))
            self.tell(DRIVER, SubmitTasks([spec]))
            while self.starting:
                self.give_birth()
            begun.append(next(worker for worker, queue in self.queues.items() if queue and worker not in begun))
            self.windows[begun[-1]] -= 1  # it has claimed the task
        return begun

    def lacks(self, sizes):
        """The machine is short of memory; sizes in GB by worker."""
        by_worker = {worker: size * GB for worker, size in sizes.items()}
        self.tell("host", MemoryUse(99 * GB, LIMIT, TOTAL, by_worker=by_worker, largest="hog (pid 7) 50.00 GB"))

    def eases(self, used=0):
        """The host tells of its memory."""
        self.tell("host", MemoryUse(used, LIMIT, TOTAL))

    def error_of(self, number):
        """The error of a task, by its number."""
        self.tell(DRIVER, WaitObjects(1, [return_id(number.to_bytes(16, "big"), 1)], 1, True, True))
        values = [value for _, message in self.take_sent(ObjectsReady) for _, value in message.objects]
        return decode_system_error(values[-1])


def test_latest_task_is_ended_and_its_retry_waits_for_as_much_memory():
    desk = MemoryDesk()
    first, second = desk.run_tasks(2, max_retries=3)
    desk.lacks({first: 40, second: 41})
    assert desk.killed == [second]
    desk.lacks({first: 40, second: 41})
    assert desk.killed == [second], "another was ended before the first has exited"
    desk.kill(second)
    assert desk.watched[-1].is_followed
    desk.now += PAUSE_SECONDS
    desk.eases(used=60 * GB)
    assert not any(desk.queues[worker] for worker in desk.queues if worker != first), "35 GB are too few"
    desk.eases(used=50 * GB)
    assert not desk.watched[-1].is_followed
    assert any(desk.queues[worker] for worker in desk.queues if worker != first) or desk.starting


def test_retry_that_finds_no_free_memory_runs_after_a_time():
    desk = MemoryDesk(cpus=1)
    (worker,) = desk.run_tasks(max_retries=3)
    desk.lacks({worker: 90})
    desk.kill(worker)
    desk.now += HELD_SECONDS_MAX
    desk.eases(used=94 * GB)
    desk.run_all()
    assert not desk.scheduler.tasks


def test_task_that_may_be_retried_is_ended_before_a_later_one_that_may_not():
    desk = MemoryDesk()
    (first,) = desk.run_tasks(max_retries=1)
    (second,) = desk.run_tasks(max_retries=0)
    desk.lacks({first: 40, second: 40})
    assert desk.killed == [first]


def test_small_worker_is_spared():
    desk = MemoryDesk()
    first, second = desk.run_tasks(2, max_retries=1)
    desk.lacks({first: 40, second: 1})
    assert desk.killed == [first]


def test_no_worker_is_ended_for_the_memory_of_others():
    desk = MemoryDesk()
    first, second = desk.run_tasks(2, max_retries=1)
    desk.lacks({first: 4, second: 5})
    assert not desk.killed


def test_error_of_a_task_that_may_not_run_again_says_how_much_was_used():
    desk = MemoryDesk(cpus=1)
    (worker,) = desk.run_tasks(max_retries=0)
    desk.lacks({worker: 50})
    desk.kill(worker)
    error = desk.error_of(1)
    assert type(error) is OutOfMemoryError
    text = str(error)
    for words in ("task f", "106.30 GB of 107.37 GB", "53.69 GB by its worker", "hog (pid 7)", "memory="):
        assert words in text, text


def test_worker_above_its_own_limit_is_ended_while_memory_is_plentiful():
    desk = MemoryDesk(cpus=1)
    desk.scheduler.resources.total["memory"] = desk.scheduler.resources.free["memory"] = GB * RESOURCE_UNIT
    (worker,) = desk.run_tasks(memory=LIMIT_MIN, max_retries=0)
    assert desk.watched[-1].limits == {worker: LIMIT_MIN}
    desk.tell("host", MemoryUse(GB, LIMIT, TOTAL, over={worker: 2 * LIMIT_MIN}))
    assert desk.killed == [worker]
    desk.kill(worker)
    assert "memory=67108864 allows 67.1 MB" in str(desk.error_of(1))


def test_amount_below_the_needs_of_a_process_is_no_limit():
    desk = MemoryDesk(cpus=1)
    desk.scheduler.resources.total["memory"] = desk.scheduler.resources.free["memory"] = GB * RESOURCE_UNIT
    desk.run_tasks(memory=600)
    assert not desk.watched


def test_large_idle_worker_is_ended_first():
    desk = MemoryDesk()
    idle, busy = desk.run_tasks(2, max_retries=1)
    desk.windows[idle] += 1
    desk.finish_one(idle)
    desk.lacks({idle: 40, busy: 40})
    assert desk.killed == [idle]
    desk.tell("host", e.WorkerExited(idle, "killed by signal 9", 0))
    assert desk.inflight(busy) == 1
