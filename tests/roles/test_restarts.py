"""Calls on an actor whose process or node has died, by hand: which of them wait for the next one."""

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, Acknowledged
from zray.ids import return_id
from zray.roles.local_scheduler.actors.ends import RESTART_SECONDS
from zray.wire.gcs import NodeLost
from zray.wire.homes import ActorLocated
from zray.wire.objects import HoldObjects
from zray.wire.task_spec import ActorOptions, TaskOptions, TaskSpec, encode_options
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
        self.timer("Restarts.refuse_waiting")

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
    desk.now += 2 * RESTART_SECONDS
    late = desk.call(0)
    assert desk.waiting() == [call, late] and not desk.timers.named("Restarts.refuse_waiting")


def test_call_whose_argument_is_missing_fails_too():
    desk = Mortal()
    (missing,) = desk.submit(desk.new_spec())
    spec = desk.new_call(b"driver", ACTOR, deps=[missing])
    desk.tell(DRIVER, SubmitTasks([spec]))
    desk.after(RESTART_SECONDS)
    assert desk.has_failed(spec.task_id)
    desk.settle()
    assert not desk.waiting()


N2, N3 = "n2/local", "n3/local"


class Elsewhere(Acknowledged, ActorDesk):
    """An actor that lived on a node that is lost."""

    def __init__(self, *, is_drained=False):
        super().__init__()
        self.join(N2, N3)
        self.tell(DRIVER, HoldObjects([return_id(ACTOR, 1)]))
        self.call(1)
        self.tell("gcs-0", ActorLocated(ACTOR, N2))
        self.heard()
        self.tell("monitor", NodeLost(N2, "killed", is_drained))

    def call(self, retries, **options):
        options = encode_options(TaskOptions({}, actor_id=ACTOR, method="m", max_retries=retries, **options))
        self.count += 1
        spec = TaskSpec(b"driver".ljust(10, b"\0") + self.count.to_bytes(6, "big"), b"", options=options)
        self.tell(DRIVER, SubmitTasks([spec]))
        return spec.task_id

    def after(self, seconds, *, is_early=False):
        """is_early: the timer is that of an earlier loss."""
        self.now += seconds
        self.timer("Restarts.give_up_home", stays=is_early)

    def waiting(self):
        return [item.task.spec.task_id for item in self.scheduler.routes.by_actor[ACTOR].queue]

    def failed(self, task_id):
        entry = self.scheduler.objects.entries.get(return_id(task_id, 1))
        return b"" if entry is None or entry.value is None else entry.value


def test_call_without_retries_waits_for_a_new_home_only_so_long():
    desk = Elsewhere()
    early, repeated, logged = desk.call(0), desk.call(1), desk.call(0, is_logged=True)
    desk.after(RESTART_SECONDS / 2, is_early=True)
    assert desk.waiting() == [early, repeated, logged]
    desk.after(RESTART_SECONDS / 2)
    assert b"ActorUnavailableError" in desk.failed(early) and b"has not begun" in desk.failed(early)
    late = desk.call(0)
    assert b"has not begun" in desk.failed(late) and desk.waiting() == [repeated, logged]
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    again = desk.call(0)
    assert not desk.failed(again) and not desk.waiting()


def test_call_that_may_have_begun_fails_with_those_that_have_not():
    desk = Elsewhere()
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    begun, other = desk.call(0), desk.call(1)
    desk.tell("monitor", NodeLost(N3, "killed"))
    desk.after(RESTART_SECONDS)
    assert b"may have begun" in desk.failed(begun) and not desk.failed(other)


def test_new_home_in_time_takes_the_calls():
    desk = Elsewhere()
    call = desk.call(0)
    desk.tell("gcs-0", ActorLocated(ACTOR, N3))
    desk.after(RESTART_SECONDS)
    assert not desk.failed(call) and not desk.waiting()


def test_calls_wait_for_the_new_home_of_an_actor_whose_node_was_drained():
    desk = Elsewhere(is_drained=True)
    call = desk.call(0)
    desk.now += 2 * RESTART_SECONDS
    late = desk.call(0)
    assert desk.waiting() == [call, late] and not desk.timers.named("Restarts.give_up_home")
