"""GPUs by number: who is told of which, and what is left."""

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import JOB, Desk
from zray.roles.local_scheduler.gpus import GPU, Gpus
from zray.wire.gcs import NodeJoined
from zray.wire.groups import (
    CREATED,
    BundlesPrepared,
    CommitBundles,
    GroupFact,
    GroupLocated,
    GroupSpec,
    PrepareBundles,
    ReturnBundles,
)
from zray.wire.scheduling import LoadReport
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, encode_options
from zray.wire.tasks import StartTasks, WaitObjects
from zray.wire.where import Where

ONE, HALF = RESOURCE_UNIT, RESOURCE_UNIT // 2
GROUP = b"g" * 16


def numbers(shares):
    return [number for _, number, _ in shares]


def task(desk, amount, where=None, cpus=0):
    """A spec of one that asks for so much; that it has a name of its own gives it a lease of its own."""
    resources = {"CPU": cpus, GPU: amount}
    options = TaskOptions({name: n for name, n in resources.items() if n}, name=f"{desk.count}", where=where)
    return replace(desk.new_spec(), options=encode_options(options))


def told(desk):
    """What workers were told that tasks have, in order: (worker, names)."""
    return [(worker, message.gpus) for worker, message in desk.take_sent(StartTasks)]


def submitted(desk, *specs):
    """Each is with a worker, or waits.  Returns what was told."""
    desk.submit(*specs)
    while desk.starting:
        desk.give_birth()
    return told(desk)


# --- which ones ---


def test_a_part_comes_of_the_one_with_least_room_for_it():
    gpus = Gpus(3 * ONE)
    first, second = gpus.take({GPU: 6_000}), gpus.take({GPU: 5_000})
    assert (numbers(first), numbers(second)) == ([0], [1])
    assert numbers(gpus.take({GPU: 4_000})) == [0]
    assert numbers(gpus.take({GPU: HALF})) == [1]
    assert numbers(gpus.take({GPU: ONE})) == [2]
    assert not gpus.fits({GPU: 1})
    gpus.give(second)
    assert numbers(gpus.take({GPU: 1_000})) == [1]


def test_two_halves_of_two_are_not_one():
    gpus = Gpus(2 * ONE)
    shares = [gpus.take({GPU: HALF}) for _ in range(4)]
    gpus.give(shares[0])
    gpus.give(shares[2])
    assert gpus.usable() == HALF
    assert gpus.fits({GPU: HALF})
    assert not gpus.fits({GPU: ONE})
    assert not gpus.fits({GPU: HALF + 1})
    assert gpus.count_that_fits({GPU: HALF}, 10) == 2
    assert gpus.count_that_fits({GPU: ONE}, 10) == 0
    gpus.give(shares[1])
    assert gpus.usable() == ONE + HALF
    assert gpus.count_that_fits({GPU: ONE}, 10) == 1
    assert numbers(gpus.take({GPU: ONE})) == [0]


def test_several_are_whole_and_in_order():
    gpus = Gpus(4 * ONE, ["2", "5", "GPU-a", "GPU-b"])
    part = gpus.take({GPU: HALF})
    shares = gpus.take({"CPU": ONE, GPU: 2 * ONE})
    assert (gpus.names_of(part), gpus.names_of(shares)) == (["2"], ["5", "GPU-a"])
    assert not gpus.fits({GPU: 2 * ONE})


def test_what_does_not_add_up_is_found():
    gpus = Gpus(2 * ONE)
    request = {GPU: HALF}
    first = gpus.take(request)
    gpus.check_everything({GPU: ONE + HALF}, [(request, first)])
    for free, held in (
        (2 * ONE, [(request, first)]),  # the counts say something else
        (ONE + HALF, []),  # nobody has it
        (ONE + HALF, [(request, ())]),  # who asked for it has none
        (ONE + HALF, [(request, first)] * 3),  # three halves of one
    ):
        with pytest.raises(AssertionError):
            gpus.check_everything({GPU: free}, held)


# --- tasks ---


def test_tasks_have_as_many_as_they_ask_for_and_give_them_back():
    desk = Desk(cpus=4, gpus=2)
    ((pair, names),) = submitted(desk, task(desk, 2 * ONE))
    assert names == ["0", "1"]
    assert submitted(desk, task(desk, HALF), task(desk, HALF), task(desk, ONE)) == []
    desk.finish_one(pair)
    shared, other = sorted(Counter(name for _, (name,) in told(desk)).items(), key=lambda found: -found[1])
    assert (shared[1], other[1]) == (2, 1)


def test_without_any_a_task_is_told_of_none_and_on_a_node_without_of_nothing():
    desk = Desk(gpus=1)
    assert [names for _, names in submitted(desk, desk.new_spec())] == [[]]
    desk = Desk()
    assert [names for _, names in submitted(desk, desk.new_spec())] == [None]


def test_they_are_called_what_the_node_calls_them():
    desk = Desk(gpus=2, gpu_names=["GPU-7f", "5", "6"])
    assert [names for _, names in submitted(desk, task(desk, 2 * ONE))] == [["GPU-7f", "5"]]


def test_what_a_worker_had_that_died_is_there_for_the_next_run():
    desk = Desk(gpus=1)
    ((worker, names),) = submitted(desk, task(desk, ONE))
    desk.kill(worker)
    while desk.starting:
        desk.give_birth()
    ((other, again),) = told(desk)
    assert other != worker
    assert again == names == ["0"]


def test_a_task_inside_a_wait_has_its_own():
    """At the pool's cap of 2 x CPUs + 4 workers, all of which wait for children, one of them runs its child itself."""
    desk = Desk(cpus=1, gpus=2)
    cap = 2 * 1 + 4
    parents = [task(desk, 0, cpus=100) for _ in range(cap)]
    workers = [worker for worker, _ in submitted(desk, *parents)]
    assert len(set(workers)) == cap
    child = task(desk, HALF)
    (wanted,) = desk.submit(child)
    for number, worker in enumerate(workers):
        desk.windows[worker] -= 1
        desk.tell(worker, WaitObjects(number + 1, [wanted], 1, block=True))
    (message,) = [message for _, message in desk.take_sent(StartTasks)]
    assert (message.nested, message.gpus) == (True, ["0"])


def test_halves_of_two_keep_a_whole_one_waiting_and_others_are_told():
    desk = Desk(cpus=4, gpus=2)
    desk.tell("monitor", NodeJoined("n2/local", {"CPU": ONE}))
    sent = dict(submitted(desk, task(desk, 6_000), task(desk, 6_000), task(desk, 4_000), task(desk, 4_000)))
    assert sorted(sent.values()) == [["0"], ["0"], ["1"], ["1"]]
    desk.take_sent()
    resources = desk.scheduler.resources
    large = [worker for worker in sent if desk.scheduler.pool.workers[worker].frames[0].resources[GPU] == 6_000]
    for worker in large:
        desk.finish_one(worker)
    assert resources.free[GPU] == 12_000
    assert not resources.fits({GPU: ONE})
    assert resources.lacking({GPU: ONE}) == [GPU]
    desk.scheduler.load.report()
    desk.tell("monitor", NodeJoined("n3/local", {"CPU": ONE}))
    *_, report = [message for _, message in desk.take_sent(LoadReport)]
    assert report.free[GPU] == 6_000


# --- actors ---


def test_an_actor_keeps_its_own_for_life_and_the_next_process_has_some():
    desk = ActorDesk(gpus=1)
    actor_id = b"actor".ljust(16, b"\0")
    desk.create(actor_id, ActorOptions({GPU: ONE}, max_restarts=1))
    desk.settle()
    (worker,) = desk.actors
    assert desk.actors[worker].order.gpus == ["0"]
    desk.submit(desk.new_call(b"driver", actor_id))
    desk.settle()
    assert told(desk) == [(worker, None)]  # its call: it has what it has
    assert submitted(desk, task(desk, HALF)) == []
    desk.scheduler.dispatch.cancel_job(desk.scheduler.jobs[JOB])
    desk.kill(worker)
    desk.settle()
    assert [process.order.gpus for process in desk.actors.values()] == [["0"]]


def test_actors_of_halves_leave_no_room_for_what_asks_for_a_whole_one():
    """A task that was placed beside them goes back to whoever has other nodes."""
    desk = ActorDesk(cpus=4, gpus=2)
    for number in range(4):
        desk.create(bytes([number + 1]) * 16, ActorOptions({GPU: HALF}))
    desk.settle()
    gone = [worker for worker, process in desk.actors.items() if process.actor_id[0] in (1, 3)]
    for worker in gone:
        desk.exit(worker)
    desk.settle()
    resources, pool = desk.scheduler.resources, desk.scheduler.pool
    assert resources.free[GPU] == ONE
    assert resources.fits_beside_actors({GPU: HALF}, pool.gpus_of_actors())
    assert not resources.fits_beside_actors({GPU: ONE}, pool.gpus_of_actors())
    assert resources.held_by(resources.held, pool.gpus_of_actors())[GPU] == ONE + HALF


# --- bundles ---


def prepare(desk, *amounts):
    desk.tell("gcs-0", PrepareBundles(GROUP, 1, [(index, {GPU: amount}) for index, amount in enumerate(amounts)]))
    return [message.is_done for _, message in desk.take_sent(BundlesPrepared)]


def test_what_runs_in_a_bundle_has_of_those_of_the_bundle():
    desk = Desk(cpus=4, gpus=2)
    assert prepare(desk, HALF, ONE) == [True]
    desk.tell("gcs-0", CommitBundles(GROUP, 1))
    gpus = desk.scheduler.resources.gpus
    assert (gpus.free[GPU], gpus.usable()) == ({0: 0, 1: HALF}, HALF)
    assert submitted(desk, task(desk, ONE)) == []
    (beside,) = submitted(desk, task(desk, HALF))
    desk.submit(task(desk, HALF, Where(group=GROUP, bundle=0)), task(desk, ONE, Where(group=GROUP)))
    spec = GroupSpec([{GPU: HALF}, {GPU: ONE}], "PACK")
    desk.tell("gcs-0", GroupLocated(GroupFact(GROUP, spec, CREATED, ["local", "local"])))
    inside = told(desk)
    assert (beside[1], [names for _, names in inside]) == (["1"], [["1"], ["0"]])
    desk.finish_one(beside[0])
    assert told(desk) == []
    desk.tell("gcs-0", ReturnBundles(GROUP, 0, "removed"))
    assert sorted(desk.killed) == sorted(worker for worker, _ in inside)
    for worker, _ in inside:
        desk.kill(worker)
    assert list(gpus.free) == [GPU]
    while desk.starting:
        desk.give_birth()
    assert [names for _, names in told(desk)] == [["1"]]  # the half comes back first


def test_a_bundle_is_refused_where_there_is_no_such_gpu():
    desk = Desk(cpus=4, gpus=2)
    assert prepare(desk, 6_000, 6_000, 6_000) == [False]
    assert prepare(desk, 6_000, 4_000, 6_000, 4_000) == [True]
    desk.tell("gcs-0", ReturnBundles(GROUP, 1))
    assert desk.scheduler.resources.gpus.usable() == 2 * ONE
