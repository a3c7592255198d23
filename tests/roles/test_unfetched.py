"""Failures that nobody fetches: one line each, by the process that has let go of the ref, or by the node."""

import msgspec
import pytest

from tests.roles.test_client import make_client
from tests.roles.test_notices import DRIVER, Node
from zray.exceptions import TASK_ERROR, encode_system_error
from zray.ids import return_id
from zray.roles.unfetched import KNOWN_MAX, LINES_MAX, TELL_SECONDS, unheard
from zray.wire.objects import ReleaseObjects
from zray.wire.task_spec import TaskSpec
from zray.wire.tasks import ObjectsReady, SubmitTasks, WaitObjects

TRACEBACK = """Traceback (most recent call last):
  File "program.py", line 3, in f
    raise ValueError("no\\n  way")
    ^^^^^
ValueError: no
"""
SAID = "task f failed, and nobody has fetched its result: ValueError: no (program.py:3, pid=7, node=abc)"


def failure(name="f"):
    return bytes((TASK_ERROR,)) + msgspec.msgpack.encode((name, TRACEBACK, 7, "abc", b""))


class Program:
    """A client and the tasks that it has submitted."""

    def __init__(self):
        self.client = make_client()
        self.count = 0

    def submit(self, *, deps=(), num_returns=1):
        self.count += 1
        spec = TaskSpec(self.count.to_bytes(16, "big"), b"f" * 16, deps=tuple(deps))
        return self.client.submit(spec, num_returns)

    def arrive(self, *object_ids, value=None):
        self.client.on_objects_ready(ObjectsReady([(object_id, value or failure()) for object_id in object_ids]))

    def drop(self, *object_ids):
        self.client.released.extend(object_ids)
        self.client.take_messages()

    def said(self, now=0.0, *, is_last=False):
        if is_last:
            self.client.unfetched.end(self.client.values.items())
        return self.client.unfetched.take(now, is_last=is_last)


def test_failure_that_goes_away_is_told():
    program = Program()
    first, second = program.submit(), program.submit()
    program.arrive(first)
    program.arrive(second, value=b"\x01")
    program.drop(first, second)
    assert program.said() == [SAID]


def test_failure_that_crosses_the_end_of_its_last_ref_is_told():
    """The node has sent it before it heard of that end; it tells of those that come later itself."""
    program = Program()
    dropped, passed = program.submit(), program.submit()
    program.submit(deps=[passed])
    program.drop(dropped, passed)
    program.arrive(dropped, passed)
    assert program.said() == [SAID]
    program.arrive(dropped)
    assert program.said(is_last=True) == []


def test_failure_that_is_left_at_the_end_is_told_once():
    program = Program()
    first = program.submit(num_returns=2)
    program.arrive(first, return_id(first[:16], 2))
    assert program.said() == []
    assert program.said(is_last=True) == [SAID]


def test_failure_that_somebody_has_heard_of_or_may_ask_for_is_not_told():
    program = Program()
    fetched, passed, pickled, handles, returns = (program.submit(num_returns=2) for _ in range(5))
    program.submit(deps=[passed])
    program.client.unfetched.handed.add(pickled)
    program.client.expect_actor(handles)
    program.arrive(fetched, passed, pickled, handles, returns, return_id(returns[:16], 2))
    program.client.unfetched.fetched.add(fetched)
    program.drop(return_id(returns[:16], 2))  # the first return may still be asked for
    program.client.unfetched.fetched.add(returns)
    program.drop(fetched, passed, pickled, handles, handles, returns)
    assert program.said(is_last=True) == []
    assert not program.client.unfetched.fetched and not program.client.unfetched.handed


def test_lines_of_a_while_are_bounded():
    program = Program()
    ids = [program.submit() for _ in range(LINES_MAX + 3)]
    program.arrive(*ids)
    program.drop(*ids)
    assert program.said() == [SAID] * LINES_MAX + ["3 further task(s) failed, and nobody has fetched their results"]
    further = program.submit()
    program.arrive(further)
    program.drop(further)
    assert program.said(TELL_SECONDS / 2) == [] and program.said(TELL_SECONDS) == [SAID]
    assert program.client.unfetched.known.count_max == KNOWN_MAX


@pytest.mark.parametrize("how", ["dropped", "recorded", "held", "asked", "taken"])
def test_node_tells_of_failures_that_no_process_has_a_ref_on(how):
    node = Node()
    spec = node.new_spec()
    object_id = return_id(spec.task_id, 1)
    node.tell(DRIVER, SubmitTasks([spec]))
    if how == "asked":
        node.tell(DRIVER, WaitObjects(1, [object_id], 0, False))
    if how == "taken":
        node.tell(DRIVER, SubmitTasks([node.new_spec(deps=[object_id])]))
    if how == "recorded":  # at the shards, and nobody else has a ref
        node.scheduler.lineage.flush()
        assert node.scheduler.objects.entries[object_id].is_recorded
    if how != "held":
        node.tell(DRIVER, ReleaseObjects([object_id]))
    while not any(node.queues.values()):
        node.give_birth()
    node.take_sent()
    node.finish_one(next(worker for worker, queue in node.queues.items() if queue), failure())
    assert node.notices() == ([SAID] if how in ("dropped", "recorded") else [])


DEATH = encode_system_error(
    "ActorDiedError",
    f"The actor C died in its constructor: task C.__init__ (pid=7) raised:\n{TRACEBACK}",
    {"pid": 7, "node": "abc", "exit_text": "its constructor raised"},
)
ENDED = "task C.__init__ failed, and nobody has fetched its result: ValueError: no (program.py:3, pid=7, node=abc)"


class ProgramWithActor(Program):
    """A program with a failed actor and two calls on it."""

    def __init__(self):
        super().__init__()
        self.actor = return_id(b"actor-0123456789"[:16], 1)
        self.client.expect_actor(self.actor)
        self.calls = [self.submit(), self.submit()]
        self.arrive(self.actor, *self.calls, value=DEATH)


@pytest.mark.parametrize("dropped", [(), (0,), (1, 0), (2, 0, 1)], ids=str)
def test_failed_constructor_is_told_once_for_the_actor_and_its_calls(dropped):
    program = ProgramWithActor()
    objects = [program.actor, *program.calls]
    program.drop(*(objects[number] for number in dropped))
    assert program.said() + program.said(TELL_SECONDS, is_last=True) == [ENDED]


@pytest.mark.parametrize("way", ["raised", "in a list", "passed on"])
def test_failed_constructor_that_somebody_has_heard_of_is_not_told(way):
    program = ProgramWithActor()
    unfetched = program.client.unfetched
    if way == "raised":
        unfetched.heard(program.calls[1], DEATH)
        program.drop(program.actor)
    elif way == "in a list":
        unfetched.fetched.update(program.calls[1:])
    else:
        unfetched.handed.add(program.actor)
        program.drop(program.actor)
    program.drop(program.calls[1])
    assert program.said(is_last=True) == []


def test_line_of_a_failure():
    assert unheard(failure()) == SAID
    died = encode_system_error("WorkerCrashedError", "The worker that ran task f died.")
    said = "a task failed, and nobody has fetched its result: WorkerCrashedError: The worker that ran task f died."
    assert unheard(died) == said
    assert unheard(encode_system_error("ActorDiedError", "It was killed.")) == "" and unheard(DEATH) == ENDED
    assert unheard(bytes((TASK_ERROR,)) + b"\xc1") == ""
    long = bytes((TASK_ERROR,)) + msgspec.msgpack.encode(("f", "X: " + "a" * 10_000, 7, "", b""))
    assert len(unheard(long)) < 400
