"""Errors of classes that derive from BaseException only, and KeyboardInterrupt, in tasks and actors."""

import asyncio
import sys

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")

TaskCancelledError, TaskError = zray.exceptions.TaskCancelledError, zray.exceptions.RayTaskError


class Alarm(BaseException):
    """Of a program that does not want `except Exception` to catch it."""


class Interrupted(KeyboardInterrupt):
    pass


class Plain:
    def fail(self, make):
        raise make()

    def answer(self):
        return 42


class Async(Plain):
    async def fail(self, make):
        await asyncio.sleep(0)
        raise make()

    async def fail_in_task(self, make):
        async def part():
            raise make()

        await asyncio.gather(part())


@zray.remote(max_retries=0)
def fail(make):
    raise make()


def actor_of(kind):
    options = {"max_concurrency": 4} if kind == "threaded" else {}
    return zray.remote(num_cpus=0, **options)(Async if kind == "async" else Plain).remote()


def call_that_fails(kind, make):
    """A ref, and the actor that has to live on; None for a task."""
    if kind == "task":
        return fail.remote(make), None
    actor = actor_of(kind)
    return actor.fail.remote(make), actor


KINDS = ["task", "serial", "threaded", "async"]


@pytest.mark.parametrize("kind", KINDS)
def test_error_of_a_base_exception_class_is_raised_as_that_class(kind):
    ref, actor = call_that_fails(kind, lambda: Alarm("fire", 3))
    with pytest.raises(Alarm) as caught:
        zray.get(ref, timeout=30)
    assert isinstance(caught.value, TaskError) and caught.value.args == ("fire", 3)
    assert actor is None or zray.get(actor.answer.remote(), timeout=30) == 42


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
@pytest.mark.parametrize("kind", KINDS)
def test_group_of_base_exceptions_is_raised_as_that_group(kind):
    members = [Alarm("fire"), KeyboardInterrupt(), ValueError(1)]
    ref, actor = call_that_fails(kind, lambda: BaseExceptionGroup("several", members))  # noqa: F821
    with pytest.raises(BaseExceptionGroup, match="several") as caught:  # noqa: F821
        zray.get(ref, timeout=30)
    assert isinstance(caught.value, TaskError)
    assert [type(member) for member in caught.value.exceptions] == [Alarm, TaskCancelledError, ValueError]
    assert actor is None or zray.get(actor.answer.remote(), timeout=30) == 42


def test_error_of_a_base_exception_class_in_a_nested_coroutine_is_raised_as_that_class():
    actor = actor_of("async")
    with pytest.raises(Alarm):
        zray.get(actor.fail_in_task.remote(lambda: Alarm("fire")), timeout=30)
    assert zray.get(actor.answer.remote(), timeout=30) == 42


def test_error_of_a_base_exception_class_can_be_awaited_and_passed_on():
    @zray.remote(max_retries=0)
    def pass_on(refs):
        return zray.get(refs[0])

    async def wait(ref):
        return await ref

    ref = fail.remote(lambda: Alarm("fire"))
    with pytest.raises(Alarm):
        asyncio.run(wait(ref))
    with pytest.raises(Alarm):
        zray.get(pass_on.remote([ref]), timeout=30)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, Interrupted])
def test_keyboard_interrupt_counts_as_cancellation(error, kind):
    ref, actor = call_that_fails(kind, lambda: error("\ud800"))
    with pytest.raises(TaskCancelledError, match=f"raised {error.__name__}") as caught:
        zray.get(ref, timeout=30)
    assert "raise make()" in str(caught.value)
    assert actor is None or zray.get(actor.answer.remote(), timeout=30) == 42


@pytest.mark.parametrize("retry", [True, [Alarm]])
def test_error_of_a_base_exception_class_is_retried_where_asked_for(retry, tmp_path):
    marker = tmp_path / "tried"

    @zray.remote(retry_exceptions=retry, max_retries=1)
    def fail_once():
        if not marker.exists():
            marker.touch()
            raise Alarm
        return 42

    assert zray.get(fail_once.remote()) == 42
