"""wait and as_completed: what is ready, in which order, and what is refused."""

import pytest

import zray
from tests.gates import Gate, until

pytestmark = pytest.mark.usefixtures("session")


@zray.remote(num_cpus=0)
def wait_at(gate, value=None):
    gate.wait()
    return value


@zray.remote
def identity(value):
    return value


@zray.remote
def fail():
    raise ValueError("on purpose")


@pytest.fixture
def gates(tmp_path):
    return [Gate(tmp_path / f"gate{i}") for i in range(3)]


def test_wait_returns_what_is_ready_and_what_is_not(gates):
    refs = [wait_at.remote(gate, i) for i, gate in enumerate(gates)]
    gates[1].open()
    ready, rest = zray.wait(refs)
    assert ready == [refs[1]] and rest == [refs[0], refs[2]]
    gates[2].open()
    gates[0].open()
    assert zray.wait(refs, num_returns=3) == (refs, [])


def test_no_more_than_asked_for_are_ready_and_the_order_is_kept():
    refs = [zray.put(i) for i in range(5)]
    ready, rest = zray.wait(refs, num_returns=2)
    assert len(ready) == 2
    assert sorted(ready + rest, key=refs.index) == refs
    assert ready == [ref for ref in refs if ref in ready]
    assert rest == [ref for ref in refs if ref in rest]


def test_a_timeout_returns_what_there_is(gates):
    done, pending = zray.put(1), wait_at.remote(gates[0])
    assert zray.wait([pending, done], num_returns=2, timeout=0.05) == ([done], [pending])
    assert zray.wait([pending], timeout=0) == ([], [pending])
    gates[0].open()
    assert zray.wait([pending], timeout=20) == ([pending], [])


def test_a_finished_task_is_ready_without_waiting():
    ref = identity.remote(1)
    zray.get(ref)
    assert zray.wait([ref], timeout=0) == ([ref], [])


def test_failed_tasks_count_as_ready():
    ref = fail.remote()
    assert zray.wait([ref], timeout=20) == ([ref], [])
    with pytest.raises(ValueError):
        zray.get(ref)


def test_fetch_local_can_be_off():
    ref = identity.remote(b"x" * 1_000_000)
    assert zray.wait([ref], fetch_local=False) == ([ref], [])


def test_nothing_to_wait_for():
    assert zray.wait([]) == ([], [])


@zray.remote
def numbers(count):
    yield from range(count)


def test_wait_refuses_what_makes_no_sense():
    ref, other = zray.put(1), zray.put(2)
    with pytest.raises(TypeError):
        zray.wait(ref)
    with pytest.raises(TypeError):
        zray.wait([1])
    for wrong in (0, -1, 3):
        with pytest.raises(ValueError):
            zray.wait([ref, other], num_returns=wrong)
    with pytest.raises(ValueError):
        zray.wait([ref, ref])
    with pytest.raises(ValueError):
        zray.wait([ref], timeout=-1)
    with pytest.raises(ValueError):
        zray.wait([], timeout=-1)


@pytest.mark.parametrize("timeout, kind", [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError)])
def test_wait_for_generators_takes_the_same_timeouts_as_for_refs(timeout, kind):
    generator = numbers.remote(2)
    for things in ([generator], [generator, zray.put(1)]):
        with pytest.raises(kind):
            zray.wait(things, timeout=timeout)
    with pytest.raises(TypeError):
        zray.wait([generator], num_returns=1.0)
    assert zray.wait([generator], timeout=10) == ([generator], [])


def test_one_at_a_time_until_all_are_done():
    rest, values = [identity.remote(i) for i in range(200)], []
    while rest:
        (ready,), rest = zray.wait(rest)
        values.append(zray.get(ready))
    assert sorted(values) == list(range(200))


def test_wait_inside_a_task_and_an_actor(gates):
    @zray.remote
    def first_of(refs):
        (ready,), _ = zray.wait(refs)
        return refs.index(ready)

    @zray.remote
    class Waiter:
        def first_of(self, refs):
            return refs.index(zray.wait(refs)[0][0])

    waiter = Waiter.remote()
    refs = [wait_at.remote(gate) for gate in gates]
    answers = [first_of.remote(refs), waiter.first_of.remote(refs)]
    gates[2].open()
    assert zray.get(answers) == [2, 2]
    gates[0].open()
    gates[1].open()


def test_as_completed_yields_in_the_order_of_completion(gates):
    refs = [wait_at.remote(gate, i) for i, gate in enumerate(gates)]
    completed = zray.as_completed(refs)
    for number in (2, 0, 1):
        gates[number].open()
        assert next(completed) == refs[number]
    with pytest.raises(StopIteration):
        next(completed)


def test_as_completed_with_results():
    refs = [identity.remote(i) for i in range(50)]
    pairs = list(zray.as_completed(refs, with_results=True))
    assert {ref: value for ref, value in pairs} == {ref: i for i, ref in enumerate(refs)}


def test_as_completed_with_a_timeout(gates):
    done, pending = zray.put(1), wait_at.remote(gates[0])
    completed = zray.as_completed([pending, done], timeout=0.2)
    assert next(completed) == done
    with pytest.raises(TimeoutError):
        next(completed)
    gates[0].open()


def test_rays_as_completed_yields_values(gates):
    """ray.util.as_completed: values by default, in the order of completion, whatever the size of Ray's batches."""
    refs = [wait_at.remote(gate, i) for i, gate in enumerate(gates)]
    completed = zray.util.as_completed(refs, chunk_size=2, timeout=0)
    for number in (2, 0, 1):
        gates[number].open()
        assert next(completed) == number
    with pytest.raises(StopIteration):
        next(completed)
    assert set(zray.util.as_completed(refs, yield_obj_refs=True)) == set(refs)
    assert list(zray.util.as_completed([])) == []


@pytest.mark.parametrize("arguments", [{"chunk_size": 0}, {"chunk_size": 1.5}, {"timeout": -1}])
def test_rays_as_completed_refuses(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        list(zray.util.as_completed([zray.put(1)], **arguments))


def test_waiting_holds_no_cpu(gates):
    """While both CPUs' tasks wait, others run."""

    @zray.remote
    def wait_for(refs):
        zray.wait(refs)
        return zray.get(refs[0])

    outer = [wait_for.remote([wait_at.remote(gates[0], 1)]) for _ in range(2)]
    assert zray.get([identity.remote(i) for i in range(10)], timeout=20) == list(range(10))
    gates[0].open()
    assert zray.get(outer) == [1, 1]
    until(lambda: zray.available_resources().get("CPU") == 2.0)


def test_threads_that_wait_at_the_same_time_all_see_their_refs(session):
    """The one that receives may have brought what the others wait for."""
    import threading

    def wait_in_a_loop():
        rest = [slow_or_not.remote(index) for index in range(50)]
        while rest:
            _, rest = zray.wait(rest)

    threads = [threading.Thread(target=wait_in_a_loop, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=40)
    assert not any(thread.is_alive() for thread in threads)


@zray.remote
def slow_or_not(index):
    return index


def test_ray_s_present_names_of_refs_are_taken_once():
    ref = identity.remote(1)
    assert zray.wait(ray_waitables=[ref], timeout=20) == ([ref], [])
    with pytest.raises(TypeError, match="takes its refs once"):
        zray.wait([ref], ray_waitables=[ref])
    zray.cancel(ray_waitable=ref)
    assert zray.get(ref) == 1
    with pytest.raises(TypeError, match="takes its ref once"):
        zray.cancel(ref, ray_waitable=ref)
