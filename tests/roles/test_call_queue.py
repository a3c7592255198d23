"""Calls on one actor, per caller."""

from zray.ids import TASK_ID_BYTES
from zray.roles.local_scheduler.call_queue import CallQueue
from zray.roles.local_scheduler.task import Task
from zray.wire.task_spec import DEFAULT_OPTIONS, TaskSpec


def call(parent, number, *, missing=0, caller=b""):
    """Call `number` of a task."""
    spec = TaskSpec(parent * 10 + number.to_bytes(TASK_ID_BYTES - 10, "big"), b"", caller=caller)
    return Task(spec, DEFAULT_OPTIONS, None, None, missing=missing)


def never(task, taken):
    return False


def queue_of(*tasks):
    queue = CallQueue()
    for task in tasks:
        queue.put(task)
    return queue


def take(queue, count=100, may_go=never):
    return list(queue.take(count, may_go).values())


def test_calls_of_one_caller_leave_in_order_and_wait_for_the_first():
    first, second = call(b"a", 1, missing=1), call(b"a", 2)
    queue = queue_of(first, second)
    assert take(queue) == []
    assert not queue.has_ready()
    first.missing = 0
    queue.arguments_are_here(first)
    assert queue.has_ready()
    assert take(queue) == [first, second]
    assert not queue


def test_no_caller_waits_for_the_arguments_of_another():
    held, free = call(b"a", 1, missing=1), call(b"b", 1)
    queue = queue_of(held, free)
    assert take(queue) == [free]
    behind, later = call(b"a", 2), call(b"b", 2)
    queue.put(behind)
    queue.put(later)
    assert take(queue) == [later]
    assert list(queue) == [held, behind]


def test_an_actor_is_one_caller():
    first, second = call(b"a", 1, missing=1, caller=b"actor"), call(b"b", 1, caller=b"actor")
    assert take(queue_of(first, second)) == []


def test_an_argument_of_a_later_call_does_not_let_an_earlier_one_go():
    first, second = call(b"a", 1, missing=1), call(b"a", 2, missing=1)
    queue = queue_of(first, second)
    assert take(queue) == []
    second.missing = 0
    queue.arguments_are_here(second)
    assert not queue.has_ready()
    assert take(queue) == []


def test_what_makes_the_argument_may_go_ahead_of_it_in_one_batch():
    maker, taker = call(b"a", 1), call(b"a", 2, missing=1)
    assert take(queue_of(maker, taker), may_go=lambda task, taken: maker.spec.task_id in taken) == [maker, taker]


def test_what_comes_back_goes_first_again_also_when_its_line_is_held():
    sent, held = call(b"a", 1), call(b"a", 2, missing=1)
    queue = queue_of(sent, held)
    assert take(queue) == [sent]
    queue.put_first(sent)
    assert take(queue) == [sent]
    assert list(queue) == [held]


def test_what_had_begun_comes_back_ahead_of_other_callers_unless_what_it_takes_is_lost():
    begun, sent, other = call(b"a", 1), call(b"b", 1), call(b"c", 1)
    queue = queue_of(begun, sent, other)
    assert take(queue, 2) == [begun, sent]
    queue.put_first(sent)
    queue.put_first(begun, has_begun=True)
    assert queue.has_ready() and list(queue) == [begun, other, sent]
    begun.missing = 1
    assert take(queue) == [other, sent]
    assert list(queue) == [begun] and not queue.has_ready()
    begun.missing = 0
    queue.arguments_are_here(begun)
    assert take(queue) == [begun] and not queue


def test_callers_take_turns_where_there_is_not_room_for_all():
    many = [call(b"a", number) for number in range(1, 6)]
    one = call(b"b", 1)
    queue = queue_of(*many, one)
    assert take(queue, 3) == many[:3]
    assert take(queue, 3) == [one, *many[3:]]


def test_what_comes_back_does_not_overtake_an_earlier_call_that_has_come_back():
    """A call that raised is to run again; one behind it, which takes its result, comes back later, or with it."""
    maker, taker, last = call(b"a", 1), call(b"a", 2, missing=1), call(b"a", 3)
    queue = queue_of(maker, taker, last)
    assert take(queue, may_go=lambda task, taken: True) == [maker, taker, last]
    for task in (maker, taker):
        queue.put_first(task)
    assert list(queue) == [maker, taker]
    assert take(queue, 1) == [maker]


def test_all_callers_calls_as_they_came():
    """What was sent to a former home comes first, and stays ahead of what was not, whoever called (seed 981001643)."""
    sent = [call(b"a", 1), call(b"b", 1), call(b"a", 2), call(b"b", 2)]
    later = [call(b"a", 3), call(b"b", 3)]
    begun = call(b"c", 1)
    queue = queue_of(*sent, *later)
    queue.put_first(begun, has_begun=True)
    assert queue.take_all() == [begun, *sent, *later]
