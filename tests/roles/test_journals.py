"""Actors that recover, one message at a time: what their next process is given, and when there is none."""

import pytest

from tests.roles.desk import DRIVER, FUNCTION, Desk
from zray.exceptions import decode_system_error
from zray.ids import FIRST_RETURN, children_prefix, put_id, return_id, stray_task_id
from zray.roles.local_scheduler.actor_logs import journals, nested
from zray.wire.actors import ActorSaved, ActorStarted, CreateActor, StartActor
from zray.wire.objects import PutObject, PutObjects, ReleaseObjects
from zray.wire.task_spec import ActorOptions, StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import ObjectsReady, StopWorker, SubmitTasks

ACTOR = b"an actor, so it is"[:16]


class ActorDesk(Desk):
    """With one actor that recovers, and the worker that is it."""

    def __init__(self, **options):
        super().__init__()
        given = {"max_restarts": -1, "checkpoint_interval": 2} | options
        self.tell(DRIVER, CreateActor(TaskSpec(ACTOR, FUNCTION), ActorOptions(class_name="C", **given)))
        self.worker = self.start()[0]

    def start(self):
        """The next process becomes the actor.  Which one, and what it is given."""
        while True:
            found = self.take_sent(StartActor)
            if found:
                break
            self.give_birth()
        self.worker, order = found[-1]
        self.tell(self.worker, ActorStarted(ACTOR))
        return self.worker, order

    def call(self, *, readonly=False, deps=(), holds=()):
        options = TaskOptions(resources={}, max_retries=-1, actor_id=ACTOR, method="m", is_readonly=readonly)
        self.count += 1
        spec = TaskSpec(self.count.to_bytes(16, "big"), b"", b"args", tuple(deps), tuple(holds))
        spec.options = encode_options(options)
        self.submit(spec)
        return spec

    def run_calls(self, count):
        return [self.finish_one(self.worker).task_id for _ in range(count)]

    def save(self, count):
        """As the worker does: it puts its state, and says so."""
        object_id = put_id(ACTOR, 1000 + count)
        self.tell(self.worker, PutObjects([PutObject(object_id, b"\x01state")]))
        self.tell(self.worker, ActorSaved(ACTOR, object_id, count))
        return object_id

    def die(self):
        self.take_sent()
        self.kill(self.worker)

    def entries(self):
        return self.scheduler.objects.entries

    def end(self):
        """The driver lets go of all; the actor leaves."""
        held = list(self.entries())
        self.tell(DRIVER, ReleaseObjects(held))
        if self.take_sent(StopWorker):
            self.kill(self.worker)


def test_the_next_process_runs_the_calls_again_that_were_answered_in_their_order():
    desk = ActorDesk()
    calls = [desk.call().task_id for _ in range(4)]
    assert desk.run_calls(3) == calls[:3]
    desk.die()
    _, order = desk.start()
    assert [spec.task_id for spec in order.calls] == calls[:3]
    assert (order.checkpoint, order.call_count, order.restart_count) == (b"", 0, 1)
    assert desk.run_calls(1) == calls[3:]  # which nobody has answered
    desk.end()
    assert not desk.entries()


def test_the_call_that_it_had_begun_runs_first_whoever_else_has_called():
    """What that has called itself has had its effect: with what it passed then, not with what it would pass later."""
    desk = ActorDesk()
    last, options = desk.call(), encode_options(TaskOptions(resources={}, max_retries=-1, actor_id=ACTOR, method="m"))
    others = [TaskSpec(bytes([caller]) * 16, b"", b"args", options=options) for caller in (1, 2)]
    desk.submit(*others)
    begun = desk.queues[desk.worker][0].task_id
    desk.windows[desk.worker] -= 1
    desk.die()
    desk.start()
    ran = desk.run_calls(3)
    assert ran[0] == begun
    assert sorted(ran) == sorted(spec.task_id for spec in (last, *others))


def test_it_goes_on_from_its_last_checkpoint():
    desk = ActorDesk()
    for _ in range(5):
        desk.call()
    desk.run_calls(2)
    first = desk.save(2)
    desk.run_calls(2)
    second = desk.save(4)
    (last,) = desk.run_calls(1)
    desk.tell(desk.worker, ReleaseObjects([first]))
    assert first not in desk.entries()
    desk.die()
    _, order = desk.start()
    assert (order.checkpoint, order.call_count, [spec.task_id for spec in order.calls]) == (second, 4, [last])
    desk.end()
    assert not desk.entries()


def test_what_calls_take_is_kept_until_a_checkpoint_has_them():
    desk = ActorDesk()
    dep, hold = put_id(b"somebody" * 2, 0), put_id(b"somebody" * 2, 1)
    desk.tell(DRIVER, PutObjects([PutObject(dep, b"\x01dep"), PutObject(hold, b"\x01hold")]))
    desk.call(deps=[dep], holds=[hold])
    desk.run_calls(1)
    desk.tell(DRIVER, ReleaseObjects([dep, hold]))
    assert {dep, hold} <= desk.entries().keys()
    desk.die()
    _, order = desk.start()
    assert [argument.object_id for argument in order.arguments] == [dep]
    desk.save(1)
    assert not {dep, hold} & desk.entries().keys()
    desk.end()
    assert not desk.entries()


def test_a_readonly_call_is_not_run_again():
    desk = ActorDesk()
    desk.call(readonly=True)
    writes = desk.call()
    desk.run_calls(2)
    desk.die()
    assert [spec.task_id for spec in desk.start()[1].calls] == [writes.task_id]


def test_a_checkpoint_of_other_calls_than_it_has_run_is_refused():
    desk = ActorDesk()
    desk.call()
    desk.run_calls(1)
    desk.save(2)
    desk.tell(DRIVER, ActorSaved(ACTOR, put_id(ACTOR, 1), 1))
    desk.die()
    _, order = desk.start()
    assert (order.checkpoint, len(order.calls)) == (b"", 1)


def error_of(desk, spec):
    object_id = return_id(spec.task_id, 1)
    for _, message in desk.take_sent(ObjectsReady):
        for ready_id, value in message.objects:
            if ready_id == object_id:
                return str(decode_system_error(value))
    raise AssertionError("no answer")


@pytest.mark.parametrize("is_replay", [False, True])
def test_who_is_killed_by_what_it_runs_dies_in_the_end(is_replay):
    desk = ActorDesk()
    calls = [desk.call() for _ in range(2)]
    if is_replay:
        desk.run_calls(1)
        desk.die()
    last = calls[-1]
    for _ in range(journals.DEATHS_MAX):
        if is_replay:  # it never says that it has started
            while not (found := desk.take_sent(StartActor)):
                desk.give_birth()
            desk.worker = found[-1][0]
        else:
            desk.windows[desk.worker] -= 1  # it begins the first call
        desk.kill(desk.worker)
        if not is_replay and desk.scheduler.calls.actors:
            desk.start()
    assert ACTOR not in desk.scheduler.calls.actors
    assert "times in a row before it finished a call: one of the" in error_of(desk, last)
    desk.end()
    assert not desk.entries()


def test_deaths_between_which_calls_end_are_no_end():
    desk = ActorDesk()
    for _ in range(3 * journals.DEATHS_MAX):
        desk.call()
        desk.run_calls(1)
        desk.call()
        desk.windows[desk.worker] -= 1
        desk.die()
        desk.start()
    assert ACTOR in desk.scheduler.calls.actors


def test_a_journal_that_is_full_costs_recovery_until_the_next_checkpoint(monkeypatch):
    for limit, value in (("JOURNAL_CALLS_MAX", 2), ("JOURNAL_BYTES_MAX", 11)):
        with monkeypatch.context() as patched:
            patched.setattr(journals, limit, value)
            desk = ActorDesk()
            for _ in range(4):
                desk.call()
            desk.run_calls(3)
            desk.save(3)
            desk.die()
            assert desk.start()[1].call_count == 3
            more = [desk.call() for _ in range(4)]
            desk.run_calls(3)
            desk.die()
            assert "it cannot recover" in error_of(desk, more[-1])
            desk.end()
            assert not desk.entries()


def test_actors_without_an_interval_have_no_journal():
    desk = ActorDesk(checkpoint_interval=-1)
    desk.call()
    desk.run_calls(1)
    assert desk.scheduler.calls.actors[ACTOR].journal is None
    desk.die()
    _, order = desk.start()
    assert (order.checkpoint, order.calls) == (b"", [])


def test_handles_are_refs_on_its_first_return():
    assert ACTOR + FIRST_RETURN in ActorDesk().entries()


CHILD = b"one that it makes"[:16]


def make_child(desk, child_id=CHILD):
    desk.tell(desk.worker, CreateActor(TaskSpec(child_id, FUNCTION), ActorOptions(class_name="Child")))


def start_child(desk, child_id=CHILD):
    while not (found := desk.take_sent(StartActor)):
        desk.give_birth()
    desk.tell(found[-1][0], ActorStarted(child_id))
    return found[-1][0]


def test_an_actor_that_a_call_has_made_is_found_again():
    desk = ActorDesk()
    desk.call()
    make_child(desk)
    child = start_child(desk)
    desk.run_calls(1)
    desk.die()
    assert CHILD in desk.scheduler.calls.actors
    desk.start()
    make_child(desk)
    assert (CHILD + FIRST_RETURN, b"\xc0") in [
        pair for _, message in desk.take_sent(ObjectsReady) for pair in message.objects
    ]
    assert not desk.take_sent(StartActor)
    desk.tell(desk.worker, ReleaseObjects([CHILD + FIRST_RETURN]))
    assert [address for address, _ in desk.take_sent(StopWorker)] == [child]
    desk.kill(child)
    desk.die()
    desk.start()
    make_child(desk)  # that one has ended
    assert not desk.take_sent(StartActor)
    assert CHILD not in desk.scheduler.calls.actors
    desk.tell(desk.worker, ReleaseObjects([CHILD + FIRST_RETURN]))
    desk.end()
    assert not desk.entries()


def test_an_actor_that_its_process_has_no_handle_on_ends_though_it_could_be_made_again():
    desk = ActorDesk()
    desk.call()
    make_child(desk)
    child = start_child(desk)
    desk.run_calls(1)
    desk.tell(desk.worker, ReleaseObjects([CHILD + FIRST_RETURN]))
    assert [address for address, _ in desk.take_sent(StopWorker)] == [child]
    desk.kill(child)
    desk.end()
    assert not desk.entries()


def test_a_checkpoint_lets_go_of_actors_that_are_in_it():
    desk = ActorDesk()
    spec = desk.call()
    child_id = children_prefix(spec.task_id) + (1).to_bytes(6, "big")
    make_child(desk, child_id)
    child = start_child(desk, child_id)
    desk.run_calls(1)
    desk.save(1)
    desk.take_sent()
    desk.kill(desk.worker)
    assert desk.killed == [child]  # the process has died with its last handle


def make_call(desk, task_id):
    options = TaskOptions(resources={}, max_retries=-1, actor_id=CHILD, method="m")
    spec = TaskSpec(task_id, b"", b"args", options=encode_options(options), caller=ACTOR)
    desk.tell(desk.worker, SubmitTasks([spec]))


@pytest.mark.parametrize("parent, is_known", [("constructor", True), ("thread", False)])
def test_what_the_constructor_calls_is_known_and_what_threads_call_is_new(parent, is_known):
    desk = ActorDesk()
    desk.tell(DRIVER, CreateActor(TaskSpec(CHILD, FUNCTION), ActorOptions(class_name="Child")))
    child = start_child(desk)
    worker_id = desk.scheduler.calls.actors[ACTOR].worker.worker_id
    made_by = ACTOR if parent == "constructor" else stray_task_id(desk.scheduler.node_id, worker_id)
    task_id = children_prefix(made_by) + (1).to_bytes(6, "big")
    make_call(desk, task_id)
    assert desk.finish_one(child).task_id == task_id
    assert bool(desk.scheduler.calls.actors[ACTOR].journal.nested.count) == is_known
    desk.tell(desk.worker, ReleaseObjects([return_id(task_id, 1)]))
    assert (return_id(task_id, 1) in desk.entries()) == is_known
    desk.die()
    desk.start()
    if is_known:
        make_call(desk, task_id)
        assert return_id(task_id, 1) in [
            pair[0] for _, message in desk.take_sent(ObjectsReady) for pair in message.objects
        ]
    desk.call()
    desk.run_calls(1)
    desk.save(1)
    assert not desk.scheduler.calls.actors[ACTOR].journal.nested.count


def test_of_what_calls_have_called_so_much_is_kept_that_is_large_and_one_in_any_case(monkeypatch):
    monkeypatch.setattr(nested, "NESTED_STORED_MAX", 100)
    desk = ActorDesk()
    desk.tell(DRIVER, CreateActor(TaskSpec(CHILD, FUNCTION), ActorOptions(class_name="Child")))
    child = start_child(desk)
    kept = desk.scheduler.calls.actors[ACTOR].journal.nested
    for number, size, count in ((1, 200, 1), (2, 10, 1), (3, b"\x01small", 2)):
        make_call(desk, children_prefix(ACTOR) + number.to_bytes(6, "big"))
        desk.finish_one(child, StoredValue(0, 4096 * number, size) if type(size) is int else size)
        assert (kept.count, kept.stored) == (count, 200)
    desk.call()
    desk.run_calls(1)
    desk.save(1)
    assert (kept.count, kept.stored, kept.size) == (0, 0, 0)
