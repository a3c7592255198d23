"""ActorPool: values given to actors, results in order or as they come, one call or several in flight."""

import itertools

import pytest

import zray
from tests.gates import Gate
from zray.util import ActorPool
from zray.util.pace import DEPTH_MAX, TARGET_SECONDS, Pace

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
class Worker:
    def double(self, value):
        return 2 * value

    def wait(self, gate):
        if gate is not None:
            gate.wait()
        return gate is not None

    @zray.method(num_returns=2)
    def pair(self, value):
        return value, -value

    def fail_on(self, value, bad):
        if value == bad:
            raise KeyError(value)
        return value


@pytest.fixture(scope="module")
def actors(session):
    return [Worker.remote() for _ in range(2)]


def double(actor, value):
    return actor.double.remote(value)


def wait(actor, gate):
    return actor.wait.remote(gate)


def test_name_is_in_both_places():
    assert zray.util.actor_pool.ActorPool is zray.util.ActorPool is ActorPool


def test_map_gives_results_in_the_order_of_values(actors):
    assert list(ActorPool(actors).map(double, range(3_000))) == [2 * value for value in range(3_000)]


def test_map_unordered_gives_all_results(actors):
    assert sorted(ActorPool(actors).map_unordered(double, range(3_000))) == [2 * value for value in range(3_000)]


def test_map_begins_at_once_and_takes_endless_values(actors, gate):
    """Results that nobody has fetched stay few."""
    drawn = []
    results = ActorPool(actors).map(double, (drawn.append(value) or value for value in itertools.count()))
    assert drawn == [0, 1]
    assert [next(results) for _ in range(5_000)] == [2 * value for value in range(5_000)]
    assert len(drawn) <= 5_000 + 2 * 2 * DEPTH_MAX


def test_slow_call_holds_no_other_actor_back(actors, gate):
    results = ActorPool(actors).map_unordered(wait, [gate, None, None, None])
    assert [next(results) for _ in range(3)] == [False] * 3
    gate.open()
    assert list(results) == [True]


def test_error_takes_the_place_of_a_result_and_the_pool_goes_on(actors):
    pool = ActorPool(actors)
    results = pool.map(lambda actor, value: actor.fail_on.remote(value, 2), range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(KeyError):
        next(results)
    assert [pool.get_next(), pool.get_next()] == [3, 4] and not pool.has_next()
    assert list(pool.map(double, [1])) == [2]


def test_error_of_the_values_is_raised(actors):
    def values():
        yield 1
        raise ZeroDivisionError

    pool = ActorPool(actors[:1])
    results = pool.map(double, values())
    with pytest.raises(ZeroDivisionError):
        list(results)
    assert list(pool.map(double, [1, 2])) == [2, 4]


def test_call_with_several_results(actors):
    pool = ActorPool(actors)
    assert list(pool.map(lambda actor, value: actor.pair.remote(value), [1, 2])) == [[1, -1], [2, -2]]
    pool.submit(lambda actor, value: actor.pair.remote(value), 3)
    assert pool.get_next_unordered() == [3, -3]


def test_submitted_values_wait_for_a_free_actor(actors, gate):
    pool = ActorPool(actors)
    assert pool.has_free() and not pool.has_next()
    for _ in range(3):
        pool.submit(wait, gate)
    assert not pool.has_free() and pool.has_next() and pool.pop_idle() is None
    with pytest.raises(TimeoutError, match="0.01 s"):
        pool.get_next(timeout=0.01)
    with pytest.raises(TimeoutError):
        pool.get_next_unordered(timeout=0)
    gate.open()
    assert [pool.get_next(), pool.get_next(), pool.get_next_unordered()] == [True] * 3
    with pytest.raises(StopIteration):
        pool.get_next()
    with pytest.raises(StopIteration):
        pool.get_next_unordered()


def test_late_result_may_be_ignored(actors, gate, tmp_path):
    pool = ActorPool(actors[:1])
    second = Gate(tmp_path / "second")
    second.open()
    pool.submit(wait, gate)
    pool.submit(wait, second)
    with pytest.raises(TimeoutError, match="ignored"):
        pool.get_next(timeout=0, ignore_if_timedout=True)
    gate.open()
    assert pool.get_next() is True and not pool.has_next() and pool.has_free()


def test_results_in_order_go_on_behind_one_out_of_order(actors, gate):
    pool = ActorPool(actors)
    for value in (gate, None, None):
        pool.submit(wait, value)
    assert pool.get_next_unordered() is False
    gate.open()
    assert [pool.get_next(), pool.get_next()] == [True, False]


def test_results_may_be_fetched_in_both_ways_while_many_calls_are_in_flight(actors):
    pool = ActorPool(actors)
    results, found = pool.map(double, range(2_000)), []
    for turn, result in enumerate(results):
        found.append(result)
        if turn % 3 == 0 and pool.has_next():
            found.append(pool.get_next())
        if turn % 100 == 7 and pool.has_next():
            found.append(pool.get_next_unordered())
    assert len(found) == 2_000 and sorted(found) == list(range(0, 4_000, 2))
    assert not pool.has_next() and pool.has_free()


def test_error_among_many_short_calls_takes_the_place_of_one_result(actors):
    pool = ActorPool(actors)
    results, found = pool.map(lambda actor, value: actor.fail_on.remote(value, 900), range(1_500)), []
    with pytest.raises(KeyError):
        found.extend(results)
    assert found == list(range(900))
    assert [pool.get_next() for _ in range(100)] == list(range(901, 1_001))


def test_actors_come_and_go(actors):
    pool = ActorPool(actors[:1])
    with pytest.raises(ValueError, match="already"):
        pool.push(actors[0])
    pool.push(actors[1])
    assert {pool.pop_idle(), pool.pop_idle()} == set(actors) and pool.pop_idle() is None
    pool.submit(double, 1)
    with pytest.raises(ValueError, match="no actors"):
        pool.get_next()
    with pytest.raises(ValueError, match="no actors"):
        pool.map(double, [1])
    pool.push(actors[0])
    assert pool.get_next() == 2


def test_second_map_drops_what_the_first_has_left(actors):
    pool = ActorPool(actors)
    next(pool.map(double, range(100)))
    assert list(pool.map(double, [7, 8])) == [14, 16]


def test_dead_actor_fails_its_calls_only(session):
    actors = [Worker.remote() for _ in range(2)]
    zray.kill(actors[0])
    pool = ActorPool(actors)
    for value in (1, 2):
        pool.submit(double, value)
    with pytest.raises(zray.exceptions.ActorDiedError):
        pool.get_next()
    assert pool.get_next() == 4


def test_depth_grows_while_calls_are_short_and_shrinks_when_they_are_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("zray.util.pace.time.monotonic", lambda: now[0])
    pace = Pace(2)
    for _ in range(20):
        now[0] += 0.0001 * pace.depth
        pace.ended(pace.in_all)
    assert 0.9 * TARGET_SECONDS <= 0.0001 * pace.depth <= 1.1 * TARGET_SECONDS
    now[0] += 1.0 * pace.depth
    assert pace.ended(pace.in_all) and pace.depth == 1


def test_values_are_given_to_idle_actors_though_nobody_draws_results(actors, gate):
    pool = ActorPool(actors)
    for draw in (pool.map, pool.map_unordered):
        results = draw(wait, [gate] * 5)
        assert pool._idle_actors == [] and len(pool._future_to_actor) == 2
        gate.open()
        assert len(list(results)) == 5


def test_names_by_which_libraries_look_into_a_pool(actors, gate):
    pool = ActorPool(actors)
    assert pool._idle_actors == actors and pool._next_task_index == 0
    for _ in range(3):
        pool.submit(wait, gate)
    assert pool._idle_actors == [] and pool._pending_submits == [(wait, gate)]
    assert [(index, actor) for index, actor in pool._future_to_actor.values()] == [(0, actors[0]), (1, actors[1])]
    assert list(pool._index_to_future) == [0, 1] and pool._next_task_index == 2
    gate.open()
    assert pool.get_next() is True
    assert pool._next_task_index == 3 and 0 not in pool._index_to_future
    assert set(pool._future_to_actor) <= set(pool._index_to_future.values())
