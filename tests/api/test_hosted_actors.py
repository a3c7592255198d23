"""Hosted actors: many in one process, each with calls, handles and an end of its own."""

import asyncio
import os
import signal
import sys
import threading

import pytest

import zray
from tests.gates import until
from zray.exceptions import ActorDiedError, TaskCancelledError
from zray.util.state import list_actors


@zray.remote(hosted=True)
class Counter:
    def __init__(self, value=0):
        self.value = value

    def add(self, n=1):
        self.value += n
        return self.value

    def pid(self):
        return os.getpid()

    def fail(self):
        raise ValueError("no")

    def leave(self):
        zray.actor.exit_actor()

    def call(self, function, *args):
        return function(*args)

    def hold(self, box):
        self.held = box[0]

    def sum_of(self, refs):
        return sum(zray.get(refs))

    def submit(self, actor):
        return zray.get(actor[0].add.remote())


def living():
    return {actor.actor_id for actor in list_actors(limit=10_000) if actor.state == "ALIVE"}


def id_of(actor):
    return actor._actor_id.hex()


def test_actors_share_a_process_of_their_own_and_have_state_and_ids(session):
    counters = [Counter.remote(number) for number in range(20)]
    assert zray.get([counter.add.remote() for counter in counters]) == list(range(1, 21))
    pids = set(zray.get([counter.pid.remote() for counter in counters]))
    assert len(pids) == 1 and os.getpid() not in pids
    ids = zray.get([counter.call.remote(lambda: zray.get_runtime_context().get_actor_id()) for counter in counters])
    assert ids == [id_of(counter) for counter in counters]
    assert {actor.pid for actor in list_actors() if actor.actor_id in ids} == pids


def test_an_ordinary_actor_and_tasks_have_other_processes(session):
    hosted = Counter.remote()
    plain = Counter.options(hosted=False).remote()
    task = zray.remote(os.getpid)
    pids = zray.get([hosted.pid.remote(), plain.pid.remote(), *(task.remote() for _ in range(10))])
    assert pids[0] not in pids[1:] and pids[1] not in pids[2:]


def test_calls_of_a_caller_run_in_order_and_one_at_a_time(session):
    @zray.remote(hosted=True)
    class Log:
        def __init__(self):
            self.seen, self.running = [], 0

        def note(self, number):
            self.running += 1
            assert self.running == 1
            self.seen.append(number)
            self.running -= 1

        def all(self):
            return self.seen

    logs = [Log.remote() for _ in range(3)]
    for number in range(300):
        for log in logs:
            log.note.remote(number)
    assert zray.get([log.all.remote() for log in logs]) == [list(range(300))] * 3


def test_an_error_is_that_of_its_call(session):
    counter = Counter.remote(5)
    with pytest.raises(ValueError, match="no"):
        zray.get(counter.fail.remote())
    assert zray.get(counter.add.remote()) == 6


def test_a_failed_constructor_ends_its_actor_alone(session):
    @zray.remote(hosted=True)
    class Bad:
        def __init__(self):
            raise ValueError("not today")

        def ask(self):
            return 1

    good, bad = Counter.remote(), Bad.remote()
    with pytest.raises(ActorDiedError, match="not today"):
        zray.get(bad.ask.remote())
    assert zray.get(good.add.remote()) == 1


def test_an_actor_ends_with_its_last_handle_and_gives_back_what_it_holds(session):
    counter, other = Counter.remote(), Counter.remote()
    big = zray.put(bytes(1 << 20))
    zray.get(counter.hold.remote([big]))
    zray.get(other.add.remote())
    held, actor_id = big.hex(), id_of(counter)
    del big, counter
    until(lambda: actor_id not in living())
    until(lambda: held not in {each.object_id for each in zray.util.state.list_objects()})
    assert zray.get(other.add.remote()) == 2


def test_handles_are_counted_in_tasks_and_in_other_hosted_actors(session):
    @zray.remote
    def add(counter):
        return zray.get(counter.add.remote())

    counter, holder = Counter.remote(), Counter.remote()
    actor_id = id_of(counter)
    assert zray.get(add.remote(counter)) == 1
    zray.get(holder.hold.remote([counter]))
    assert zray.get(holder.submit.remote([counter])) == 2
    del counter
    assert zray.get(holder.add.remote()) == 1
    assert actor_id in living()
    del holder
    until(lambda: actor_id not in living())


def test_names_and_get_if_exists(session):
    named = Counter.options(name="hosted", get_if_exists=True).remote(3)
    assert zray.get(named.add.remote()) == 4
    same = Counter.options(name="hosted", get_if_exists=True).remote()
    assert zray.get(same.add.remote()) == 5
    assert zray.get(zray.get_actor("hosted").add.remote()) == 6
    zray.kill(named)
    with pytest.raises(ValueError, match="hosted"):
        zray.get_actor("hosted")
    again = Counter.options(name="hosted").remote()
    assert zray.get(again.add.remote()) == 1


@pytest.mark.parametrize("how", ["kill", "exit_actor", "terminate", "sys.exit"])
def test_an_end_of_one_actor_leaves_the_others(session, how):
    counter, other = Counter.remote(), Counter.remote()
    pid = zray.get(counter.pid.remote())
    if how == "kill":
        zray.kill(counter)
    else:
        ends = {"exit_actor": counter.leave.remote, "terminate": counter.__ray_terminate__.remote}
        ends["sys.exit"] = lambda: counter.call.remote(sys.exit, 0)
        with pytest.raises(ActorDiedError):
            zray.get(ends[how]())
    with pytest.raises(ActorDiedError):
        zray.get(counter.add.remote())
    assert zray.get([other.add.remote(), other.pid.remote()]) == [1, pid]
    assert id_of(counter) not in living()


def test_an_exit_with_a_code_is_a_crash_of_its_actor_alone(session):
    counter, other = Counter.remote(), Counter.remote()
    pid = zray.get(other.pid.remote())
    with pytest.raises(ActorDiedError, match=r"sys.exit\(3\)"):
        zray.get(counter.call.remote(sys.exit, 3))
    assert zray.get(other.pid.remote()) == pid
    again = Counter.options(max_restarts=1, max_task_retries=1).remote(7)
    assert zray.get(again.add.remote()) == 8
    with pytest.raises(ActorDiedError):
        zray.get(again.call.remote(sys.exit, 3))


@pytest.mark.parametrize("how", ["kill -9", "os._exit"])
def test_the_death_of_the_process_ends_all_its_actors_and_names_the_cause(session, how):
    counters = [Counter.remote() for _ in range(3)]
    pid = zray.get(counters[0].pid.remote())
    zray.get([counter.add.remote() for counter in counters])
    if how == "kill -9":
        os.kill(pid, signal.SIGKILL)
    else:
        counters[0].call.remote(os._exit, 3)
    for counter in counters:
        with pytest.raises(ActorDiedError, match=f"{pid}.*(SIGKILL|code 3)"):
            zray.get(counter.add.remote())
    assert zray.get(Counter.remote().pid.remote()) != pid


def test_with_max_restarts_actors_start_again_in_another_process(session):
    counters = [Counter.options(max_restarts=1, max_task_retries=-1).remote(number) for number in range(3)]
    plain = Counter.remote()
    pid = zray.get(plain.pid.remote())
    zray.get([counter.add.remote() for counter in counters])
    os.kill(pid, signal.SIGKILL)
    assert zray.get([counter.add.remote() for counter in counters]) == [1, 2, 3]
    others = set(zray.get([counter.pid.remote() for counter in counters]))
    assert len(others) == 1 and others != {pid}
    assert all(
        zray.get([c.call.remote(lambda: zray.get_runtime_context().was_current_actor_reconstructed) for c in counters])
    )
    with pytest.raises(ActorDiedError):
        zray.get(plain.add.remote())


def test_a_killed_actor_may_restart_in_the_same_process(session):
    counter = Counter.options(max_restarts=-1, max_task_retries=-1).remote(10)
    pid = zray.get(counter.pid.remote())
    assert zray.get(counter.add.remote()) == 11
    zray.kill(counter, no_restart=False)
    until(lambda: zray.get(counter.add.remote(0)) == 10)
    assert zray.get(counter.pid.remote()) == pid


def test_calls_that_block_do_not_stop_other_actors(session, gate):
    @zray.remote(hosted=True)
    class Waiter:
        def wait(self, number):
            gate.wait()
            return zray.get(same.remote(number))

    @zray.remote
    def same(number):
        return number

    waiters = [Waiter.remote() for _ in range(40)]
    refs = [waiter.wait.remote(number) for number, waiter in enumerate(waiters)]
    counters = [Counter.remote() for _ in range(5)]
    assert zray.get([counter.add.remote() for counter in counters], timeout=30) == [1] * 5
    gate.open()
    assert zray.get(refs, timeout=30) == list(range(40))


def test_actors_call_each_other_in_one_process(session):
    class Link:
        def __init__(self, after):
            self.after = after

        def walk(self):
            return 1 + (zray.get(self.after.walk.remote()) if self.after is not None else 0)

    Link = zray.remote(hosted=True)(Link)
    last = None
    for _ in range(12):
        last = Link.remote(last)
    assert zray.get(last.walk.remote(), timeout=30) == 12


def test_async_actors_share_a_loop(session):
    @zray.remote(hosted=True)
    class Gate:
        async def __init__(self):
            self.opened = asyncio.Event()

        async def enter(self):
            await self.opened.wait()
            return "in"

        def open(self):
            self.opened.set()

        async def both(self, other):
            return await other.enter.remote()

        async def fail(self):
            raise ValueError("async")

        async def thread(self):
            return threading.current_thread().name

    gates = [Gate.remote() for _ in range(5)]
    guests = [gate.enter.remote() for gate in gates]
    through = gates[0].both.remote(gates[1])
    assert len(set(zray.get([gate.thread.remote() for gate in gates]))) == 1
    zray.get([gate.open.remote() for gate in gates])
    assert zray.get([*guests, through]) == ["in"] * 6
    with pytest.raises(ValueError, match="async"):
        zray.get(gates[0].fail.remote())


def test_cancelled_calls(session):
    @zray.remote(hosted=True)
    class Sleeper:
        async def sleep(self):
            await asyncio.sleep(60)

    @zray.remote(hosted=True)
    class Patient:
        def look(self):
            until(zray.get_runtime_context().is_canceled)

        def ask(self):
            return 1

    sleeper, patient = Sleeper.remote(), Patient.remote()
    asleep, looking, behind = sleeper.sleep.remote(), patient.look.remote(), patient.ask.remote()
    zray.cancel(behind)
    with pytest.raises(TaskCancelledError):
        zray.get(behind, timeout=10)
    zray.cancel(asleep)
    zray.cancel(looking)
    for ref in (asleep, looking):
        with pytest.raises(TaskCancelledError):
            zray.get(ref, timeout=10)
    assert zray.get(patient.ask.remote()) == 1


def test_max_concurrency_lets_calls_run_side_by_side(session):
    @zray.remote(hosted=True, max_concurrency=3)
    class Meeting:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def meet(self):
            return self.barrier.wait(timeout=20) >= 0

    meeting = Meeting.remote()
    assert zray.get([meeting.meet.remote() for _ in range(6)]) == [True] * 6


def test_arguments_and_results_with_refs_and_large_values(session):
    counter, other = Counter.remote(), Counter.remote()
    big = zray.put(bytes(range(256)) * 4096)

    @zray.remote(hosted=True)
    class Reader:
        def __init__(self, data):
            self.size = len(data)

        def give(self):
            return [zray.put(self.size), bytes(self.size)]

        def size_of(self, data):
            return len(data)

        def items(self, count):
            yield from range(count)

    readers = [Reader.remote(big) for _ in range(5)]
    for ref, data in zray.get([reader.give.remote() for reader in readers]):
        assert zray.get(ref) == len(data) == 1 << 20
    assert zray.get([reader.size_of.remote(big) for reader in readers]) == [1 << 20] * 5
    assert [zray.get(ref) for ref in readers[0].items.remote(5)] == list(range(5))
    refs = [other.add.remote() for _ in range(3)]
    assert zray.get(counter.sum_of.remote(refs)) == 6


def test_shutdown_code_runs_when_the_last_handle_goes(session, tmp_path):
    @zray.remote(hosted=True)
    class Last:
        def __init__(self, path):
            self.path = path

        def ready(self):
            return True

        def __ray_shutdown__(self):
            self.path.write_text("done")

    actors = [Last.remote(tmp_path / str(number)) for number in range(3)]
    zray.get([actor.ready.remote() for actor in actors])
    del actors
    until(lambda: all((tmp_path / str(number)).exists() for number in range(3)))


@pytest.mark.parametrize(
    "options",
    [
        {"num_cpus": 1},
        {"num_gpus": 1},
        {"memory": 1 << 20},
        {"resources": {"disk": 1}},
        {"runtime_env": {"env_vars": {"A": "1"}}},
        {"checkpoint_interval": 0},
        {"concurrency_groups": {"io": 1}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_a_shared_process_cannot_give_are_refused(options):
    with pytest.raises(ValueError, match="hosted=True"):
        Counter.options(**options)
    assert Counter.options(num_cpus=0, num_gpus=0, memory=0, resources={})


def test_a_placement_group_is_refused(session):
    group = zray.util.placement_group([{"CPU": 1}])
    with pytest.raises(ValueError, match="placement group"):
        Counter.options(placement_group=group)


def test_the_process_ends_some_seconds_after_its_last_actor(session):
    counter = Counter.remote()
    pid = zray.get(counter.pid.remote())
    del counter
    until(lambda: not os.path.exists(f"/proc/{pid}"), deadline_s=30)


def test_many_actors(session):
    counters = [Counter.remote(number) for number in range(500)]
    assert zray.get([counter.add.remote() for counter in counters]) == list(range(1, 501))
    assert {id_of(counter) for counter in counters} <= living()
    del counters
    until(lambda: not living())


@zray.remote(hosted=True)
class Asker:
    def value(self):
        return 1

    async def ask(self, other):
        return zray.get(other.value.remote())

    async def look(self, other):
        ref = other.value.remote()
        zray.wait([ref], timeout=0)
        return await ref


def test_blocking_get_in_the_event_loop_is_an_error_and_no_deadlock(session):
    first, second = Asker.remote(), Asker.remote()
    with pytest.raises(RuntimeError, match="Await the ref"):
        zray.get(first.ask.remote(second), timeout=20)
    assert zray.get(first.look.remote(second), timeout=20) == 1
