"""`max_buffered`: a generator makes no more items than that ahead of those that were drawn."""

import asyncio
import gc
import os
import subprocess

import pytest

import zray
from tests.gates import until
from tests.scripts import start_script

pytestmark = pytest.mark.timeout(60)
NAMES = ("max_buffered", "_generator_backpressure_num_objects")


@pytest.fixture
def session(nothing_left):
    with zray.init(num_cpus=1, log_to_driver=False):
        yield


def made(path):
    """How many items the function has begun to make."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def mark(path):
    with open(path, "a") as file:
        file.write("x")


@zray.remote
def items(path, count, dies_at=None):
    for number in range(count):
        if number == dies_at and not os.path.exists(f"{path}.died"):
            open(f"{path}.died", "w").close()
            os._exit(1)
        mark(path)
        yield number


class Items:
    def items(self, path, count):
        for number in range(count):
            mark(path)
            yield number


class AsyncItems:
    async def items(self, path, count):
        for number in range(count):
            await asyncio.sleep(0)
            mark(path)
            yield number


def check(generator, path, limit, count):
    """No more than `limit` items are made ahead, and all come."""
    until(lambda: made(path) == limit)
    for number in range(count):
        assert zray.get(next(generator)) == number
        assert made(path) <= number + 1 + limit
        until(lambda: made(path) == min(count, number + 1 + limit))  # noqa: B023
    assert list(generator) == []


def test_rays_name_with_minus_one_is_no_limit(session, tmp_path):
    path = str(tmp_path / "made")
    generator = items.options(_generator_backpressure_num_objects=-1).remote(path, 8)
    zray.get(generator.completed())
    assert made(path) == 8 and [zray.get(ref) for ref in generator] == list(range(8))
    for name, limit in ((NAMES[0], -1), (NAMES[1], -2), (NAMES[1], 0)):
        with pytest.raises(ValueError, match="must be from 1"):
            items.options(**{name: limit})


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_task_makes_so_many_items_ahead(session, tmp_path, limit, name):
    path = str(tmp_path / "made")
    check(items.options(**{name: limit}).remote(path, 8), path, limit, 8)


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
def test_method_makes_so_many_items_ahead(session, tmp_path, kind):
    path = str(tmp_path / "made")
    cls = zray.remote(AsyncItems if kind == "async" else Items)
    actor = (cls.options(max_concurrency=2) if kind == "threaded" else cls).remote()
    check(actor.items.options(max_buffered=2).remote(path, 6), path, 2, 6)


def test_function_that_waits_for_draws_lends_its_cpu(session, tmp_path):
    path = str(tmp_path / "made")
    generator = items.options(max_buffered=1).remote(path, 3)
    until(lambda: made(path) == 1)
    assert zray.get(items.remote(str(tmp_path / "other"), 2).completed(), timeout=30) == 2  # there is one CPU
    assert [zray.get(ref) for ref in generator] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["task", "method"])
def test_slow_get_says_that_items_wait_to_be_drawn(session, tmp_path, kind):
    path = str(tmp_path / "made")
    actor = zray.remote(Items).remote()
    generator = (items if kind == "task" else actor.items).options(max_buffered=1).remote(path, 3)
    until(lambda: made(path) == 1)
    last = actor.items.remote(path, 1) if kind == "method" else generator  # behind the first call
    with pytest.raises(zray.exceptions.GetTimeoutError, match="waits until more of its items are drawn"):
        until(lambda: zray.get(last.completed(), timeout=0.1))
    assert len(list(generator)) == 3


def test_worker_that_is_replaced_hears_what_was_drawn(session, tmp_path):
    path = str(tmp_path / "made")
    generator = items.options(max_buffered=2, max_retries=1).remote(path, 8, 4)
    assert [zray.get(ref) for ref in generator] == list(range(8))


def test_function_that_waits_for_draws_ends_with_its_generator(session, tmp_path):
    path = str(tmp_path / "made")
    generator = items.options(max_buffered=1).remote(path, 1_000)
    zray.get(next(generator))
    until(lambda: made(path) == 2)
    del generator
    gc.collect()
    other = str(tmp_path / "other")
    assert [zray.get(ref) for ref in items.options(max_buffered=5).remote(other, 10)] == list(range(10))
    assert made(path) <= 3


def test_no_room_is_refused():
    with pytest.raises(ValueError, match="max_buffered"):
        items.options(max_buffered=0)


@zray.remote
def endless():
    number = 0
    while True:
        yield number
        number += 1


@zray.remote
def up_to(last):
    """The sum of the items of an endless generator, drawn by a task."""
    total = 0
    for ref in endless.remote():
        total += zray.get(ref)
        if total >= last:
            return total
    return None


def test_task_that_draws_from_an_endless_generator_goes_on_without_a_cpu_of_its_own(session):
    assert zray.get([up_to.remote(45) for _ in range(3)], timeout=30) == [45] * 3


@zray.remote
def leaves(depth, limit):
    if depth == 0:
        yield from range(5)
    else:
        for generator in [leaves.options(max_buffered=limit).remote(depth - 1, limit) for _ in range(2)]:
            for ref in generator:
                yield zray.get(ref)


@pytest.mark.parametrize("limit", [1, 2])
def test_generators_that_draw_from_generators_do_not_run_inside_their_consumers(session, limit):
    """More levels and branches than the pool has workers."""
    generator = leaves.options(max_buffered=limit).remote(4, limit)
    assert [zray.get(ref) for ref in generator] == [*range(5)] * 16


DRAWER = """
    import sys, zray
    zray.init(address={address!r}, namespace="team")
    generator = zray.get_actor("keeper").items.options({limit}).remote({path!r}, 10 ** 9)
    for ref in generator:
        if zray.get(ref) == 3:
            break
    print("drawn", flush=True)
    {end}
"""
ENDS = {"killed": "sys.stdin.read()", "exits": "sys.exit(1)", "shuts down": "zray.shutdown()", "breaks": "pass"}


@pytest.mark.parametrize(
    "kind, limit, end",
    [("serial", "max_buffered=1", end) for end in ENDS]
    + [("serial", "", "killed"), ("threaded", "max_buffered=1", "killed"), ("async", "max_buffered=1", "killed")],
)
def test_generator_of_a_lasting_actor_ends_with_the_program_that_draws(nothing_left, tmp_path, kind, limit, end):
    path = str(tmp_path / "made")
    with zray.init(num_cpus=1, namespace="team", log_to_driver=False) as info:
        options = {"max_concurrency": 1} if kind == "async" else {"max_concurrency": 2} if kind == "threaded" else {}
        cls = zray.remote(AsyncItems if kind == "async" else Items)
        actor = cls.options(name="keeper", lifetime="detached", **options).remote()
        zray.get(actor.items.remote(str(tmp_path / "own"), 1).completed())
        for _ in range(options.get("max_concurrency", 1)):
            code = DRAWER.format(address=info["address"], path=path, limit=limit, end=ENDS[end])
            with start_script(tmp_path, code, stdin=subprocess.PIPE) as drawer:
                assert drawer.stdout.readline() == "drawn\n"
                if end == "killed":
                    drawer.kill()
                drawer.wait()
        assert zray.get(actor.items.remote(str(tmp_path / "own"), 1).completed(), timeout=20) == 1
        zray.kill(actor)
