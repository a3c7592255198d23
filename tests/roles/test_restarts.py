"""Calls on an actor whose process has died, by hand: which of them wait for the next one."""

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER
from zray.ids import return_id
from zray.roles.local_scheduler.restarts import RESTART_SECONDS, RestartTimeout
from zray.wire.task_spec import ActorOptions
from zray.wire.tasks import SubmitTasks

ACTOR = b"a" * 16


class Mortal(ActorDesk):
    """An actor that dies, and is restarted."""

    def __init__(self, **options):
        super().__init__(cpus=1)
        self.create(ACTOR, ActorOptions(resources={}, max_restarts=-1, class_name="Mortal", **options))
        self.settle()
        self.die()

    def die(self):
        (worker,) = self.actors
        self.actors.pop(worker)
        self.kill(worker)
        while not self.actors:
            self.give_birth()

    def call(self, retries):
        spec = self.new_call(b"driver", ACTOR, retries=retries)
        self.tell(DRIVER, SubmitTasks([spec]))
        return spec.task_id

    def after(self, seconds):
        self.now += seconds
        self.tell("local", RestartTimeout(ACTOR))

    def waiting(self):
        return [task.spec.task_id for task in self.scheduler.calls.actors[ACTOR].queue]

    def has_failed(self, task_id):
        entry = self.scheduler.objects.entries[return_id(task_id, 1)]
        return entry.value is not None and "has not begun" in str(entry.value)


def test_call_without_retries_waits_for_a_restart_only_so_long():
    desk = Mortal()
    early, repeated = desk.call(0), desk.call(1)
    assert desk.waiting() == [early, repeated]
    desk.after(RESTART_SECONDS)
    assert desk.has_failed(early)
    late = desk.call(0)
    assert desk.has_failed(late)
    assert desk.waiting() == [repeated]
    desk.settle()
    assert not desk.waiting() and not desk.has_failed(desk.call(0))


def test_call_is_done_by_an_actor_that_is_restarted_in_time():
    desk = Mortal()
    call = desk.call(0)
    desk.settle()
    desk.after(RESTART_SECONDS)
    assert not desk.has_failed(call) and not desk.waiting()


def test_time_for_a_restart_counts_from_the_first_death_of_several():
    desk = Mortal()
    call = desk.call(0)
    for _ in range(3):
        desk.now += RESTART_SECONDS / 3
        desk.die()
    desk.after(0)
    assert desk.has_failed(call)


def test_calls_wait_for_an_actor_that_recovers():
    desk = Mortal(checkpoint_interval=2)
    call = desk.call(0)
    desk.after(2 * RESTART_SECONDS)
    assert desk.waiting() == [call]


def test_call_whose_argument_is_missing_fails_too():
    desk = Mortal()
    (missing,) = desk.submit(desk.new_spec())
    spec = desk.new_call(b"driver", ACTOR, deps=[missing])
    desk.tell(DRIVER, SubmitTasks([spec]))
    desk.after(RESTART_SECONDS)
    assert desk.has_failed(spec.task_id)
    desk.settle()
    assert not desk.waiting()
