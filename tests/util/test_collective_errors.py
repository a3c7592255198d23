"""Collective groups whose members die, leave, stay away, or call different things."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy
import pytest

import zray
from tests.gates import until
from tests.util.members import Member, all_do, join, members_of, outcome, outcomes
from zray.util import collective
from zray.util.collective import CollectiveGroupError, ReduceOp, meeting

pytestmark = pytest.mark.usefixtures("session")

# From a kill to the errors of all others, in seconds: the promise.
SECONDS_AFTER_A_KILL = 1.0
NOBODY = 65534


@pytest.fixture(scope="module")
def actors(session):
    yield members_of(3)


def changing(rank, call):
    """The error of a call with an array of ones, and whether the array has changed."""
    array = numpy.ones(100_000, "f4")
    return outcome(lambda: call(array)), bool((array != 1).any())


MISMATCHES = {
    "shape": (
        lambda array: collective.allreduce(array),
        lambda array: collective.allreduce(array[:-1]),
        r"ranks 0, 1: allreduce SUM of float32 \(100000,\); rank 2: allreduce SUM of float32 \(99999,\)",
    ),
    "shape, same length": (
        lambda array: collective.allreduce(array),
        lambda array: collective.allreduce(array.reshape(-1, 1)),
        r"ranks 0, 1: .* \(100000,\); rank 2: .* \(100000, 1\)",
    ),
    "short and long": (
        lambda array: collective.allreduce(array[:3]),
        lambda array: collective.allreduce(array),
        r"ranks 0, 1: .* \(3,\); rank 2: .* \(100000,\)",
    ),
    "dtype": (
        lambda array: collective.allreduce(array),
        lambda array: collective.allreduce(array.view("i4")),
        r"ranks 0, 1: allreduce SUM of float32 .*; rank 2: allreduce SUM of int32",
    ),
    "operation": (
        lambda array: collective.allreduce(array),
        lambda array: collective.allreduce(array, op=ReduceOp.MAX),
        r"ranks 0, 1: allreduce SUM .*; rank 2: allreduce MAX",
    ),
    "root": (
        lambda array: collective.broadcast(array, 0),
        lambda array: collective.broadcast(array, 1),
        r"ranks 0, 1: broadcast from rank 0 .*; rank 2: broadcast from rank 1",
    ),
    "order": (
        lambda array: collective.allreduce(array),
        lambda array: collective.barrier(),
        r"ranks 0, 1: allreduce SUM .*; rank 2: barrier",
    ),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_calls_that_differ_are_one_error_on_all_ranks_and_change_nothing(actors, case):
    first, last, text = MISMATCHES[case]
    found = all_do(actors, lambda rank: changing(rank, last if rank == 2 else first))
    errors = {error for error, _ in found}
    assert len(errors) == 1 and not any(is_changed for _, is_changed in found)
    ((kind, words),) = errors
    assert kind == "CollectiveMismatchError"
    assert re.search(text, words), words
    # The group goes on.
    assert all_do(actors, lambda rank: changing(rank, collective.allreduce)) == [(None, True)] * 3


def test_a_send_and_a_recv_that_differ_are_one_error(actors):
    def run(rank):
        array = numpy.ones(4)
        if rank == 0:
            return outcome(lambda: collective.send(array, 1))
        if rank == 1:
            return outcome(lambda: collective.recv(array[:3], 0))

    first, second, _ = all_do(actors, run)
    assert first == second
    assert "rank 0: send to rank 1 of float64 (4,); rank 1: recv from rank 0 of float64 (3,)" in first[1]


def test_a_send_against_a_call_of_all_ends_the_group():
    actors = members_of(3, "mixed")

    def run(rank):
        array = numpy.ones(4)
        if rank == 0:
            collective.send(array, 1, "mixed")
        else:
            collective.allreduce(array, "mixed")

    for kind, words in outcomes(actors, run):
        assert kind in ("CollectiveMismatchError", "CollectiveGroupError")
        assert "rank 0: send to rank 1" in words and ": allreduce SUM" in words


@pytest.mark.parametrize("count", [10, 3_000_000])
@pytest.mark.parametrize("size", [2, 3])
def test_a_killed_member_is_named_within_a_second_by_all_others(size, count):
    actors = members_of(size)
    *others, victim = actors

    def run(rank):
        array = numpy.ones(count)
        while True:
            try:
                collective.allreduce(array)
            except CollectiveGroupError as error:
                return str(error), time.time(), collective.is_group_initialized("default")

    pending = [actor.do.remote(run, rank) for rank, actor in enumerate(others)]
    pid = zray.get(victim.pid.remote())
    victim.do.remote(run, size - 1)
    os.kill(pid, signal.SIGKILL)
    killed_at = time.time()
    for text, noticed_at, is_initialized in zray.get(pending):
        assert f"rank {size - 1} (actor Member {victim._actor_id.hex()}, process {pid}) has ended" in text
        assert noticed_at - killed_at < SECONDS_AFTER_A_KILL and not is_initialized
    # All others, and another actor in the place of the dead one, make the group again.
    again = [*others, Member.remote()]
    join(again)
    assert all_do(again, lambda rank: changing(rank, collective.allreduce)) == [(None, True)] * size


@pytest.mark.parametrize("count", [10, 3_000_000])
def test_a_member_may_die_as_soon_as_its_call_has_ended(count):
    actors = members_of(2, "last")

    def run(rank):
        array = numpy.ones(count, "f4")
        collective.allreduce(array, "last")
        if rank == 1:
            os._exit(1)
        return array.min()

    refs = [actor.do.remote(run, rank) for rank, actor in enumerate(actors)]
    assert zray.get(refs[0]) == 2.0
    with pytest.raises(zray.exceptions.ActorDiedError):
        zray.get(refs[1])


def test_the_third_member_learns_of_a_death_while_it_waits_for_a_slow_one():
    actors = members_of(3, "slow")
    waiting = actors[0].do.remote(lambda rank: outcome(lambda: collective.barrier("slow")), 0)
    zray.kill(actors[2])
    kind, text = zray.get(waiting)  # actor 1 has never called
    assert kind == "CollectiveGroupError" and "rank 2" in text


def test_a_member_that_leaves_is_named():
    actors = members_of(2, "left")
    zray.get(actors[1].do.remote(lambda rank: collective.destroy_collective_group("left"), 1))
    kind, text = zray.get(actors[0].do.remote(lambda rank: outcome(lambda: collective.barrier("left")), 0))
    assert kind == "CollectiveGroupError" and "rank 1" in text and "has left it" in text
    kind, again = zray.get(actors[0].do.remote(lambda rank: outcome(lambda: collective.barrier("left")), 0))
    assert (kind, again) == ("CollectiveGroupError", text)


def test_a_pair_goes_on_when_a_third_member_leaves():
    actors = members_of(3, "third")

    def receive(rank):
        array = numpy.zeros(4)
        collective.recv(array, 1, "third")
        return array.tolist()

    waiting = actors[0].do.remote(receive, 0)
    zray.get(actors[2].do.remote(lambda rank: collective.destroy_collective_group("third"), 2))
    zray.get(actors[1].do.remote(lambda rank: collective.send(numpy.ones(4), 0, "third"), 1))
    assert zray.get(waiting) == [1.0] * 4


def test_a_task_that_ends_has_left_its_group():
    @zray.remote(num_cpus=0)
    def member(rank, stays):
        collective.init_collective_group(2, rank, group_name="ended")
        return outcome(lambda: collective.barrier("ended")) if stays else None

    _, (kind, text) = zray.get([member.remote(0, False), member.remote(1, True)])
    assert kind == "CollectiveGroupError" and "rank 0 (task " in text
    assert "has left it" in text or "has ended" in text  # its process may end with it


def test_hosted_actors_are_members_and_leave_when_they_end():
    actors = members_of(2, "hosted", hosted=True)
    pids = zray.get([actor.pid.remote() for actor in actors])
    assert pids[0] == pids[1]
    assert all_do(actors, lambda rank: outcome(lambda: collective.barrier("hosted"))) == [None, None]
    waiting = actors[0].do.remote(lambda rank: outcome(lambda: collective.barrier("hosted")), 0)
    zray.kill(actors[1])
    kind, text = zray.get(waiting)
    assert kind == "CollectiveGroupError" and "rank 1" in text


def test_missing_ranks_are_named_after_the_timeout():
    actors = [Member.remote() for _ in range(2)]

    def run(rank):
        return outcome(lambda: collective.init_collective_group(4, 2 * rank, group_name="few", gloo_timeout=300))

    for kind, text in all_do(actors, run):
        assert kind == "CollectiveGroupError" and "ranks 1, 3 of 4 did not call" in text
    # Those of the first try are in nobody's way.
    join(actors, "few")


def test_a_rank_that_comes_twice_and_another_size_are_refused():
    actors = [Member.remote() for _ in range(3)]
    first = actors[0].init.remote(2, 0, "twice")
    text = zray.get(actors[1].do.remote(refused_for, "twice", 2, 0))
    assert "Rank 0 of group 'twice' is there twice: rank 0 (actor Member" in text
    text = zray.get(actors[1].do.remote(refused_for, "twice", 3, 1))
    assert "differ in world_size: rank 1 says 3, and rank 0 (actor Member" in text
    zray.get([first, actors[2].init.remote(2, 1, "twice")])


def refused_for(name, size, rank):
    """The text of the refusal of a member, as soon as another one is there."""

    def refusal():
        kind, text = outcome(lambda: collective.init_collective_group(size, rank, group_name=name, gloo_timeout=20))
        return text if kind == "RuntimeError" else None

    return until(refusal)


def test_a_host_that_is_killed_while_others_wait_is_replaced():
    actors = [Member.remote() for _ in range(3)]
    pids = zray.get([actor.pid.remote() for actor in actors])
    hosts = [actors[0].init.remote(3, 0, "host"), actors[1].init.remote(3, 1, "host")]
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(zray.exceptions.ActorDiedError):
        zray.get(hosts[0])
    last = Member.remote()
    zray.get([hosts[1], last.init.remote(3, 0, "host"), actors[2].init.remote(3, 2, "host")])


STRANGER = """
import os, socket, sys
os.setuid(int(sys.argv[3]))
address = chr(0) + sys.argv[1]
found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if sys.argv[2] == "listens":
    found.bind(address)
    found.listen()
    print("ready", flush=True)
    sys.stdin.read()
else:
    found.connect(address)
    print(len(found.recv(100)), flush=True)
"""


def address_of_group(rank, name):
    context = zray.get_runtime_context()
    scope = f"{context.get_session_name()}/{context.get_node_id()}/{context.get_job_id()}"
    return meeting.address_of(name, scope)[1:]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("act", ["listens", "connects"])
def test_another_user_takes_no_part_in_a_meeting(act):
    actors = [Member.remote() for _ in range(2)]
    address = zray.get(actors[0].do.remote(address_of_group, 0, "strange"))
    command = [sys.executable, "-c", STRANGER, address, act, str(NOBODY)]

    def start():
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    if act == "connects":
        first = actors[0].init.remote(2, 0, "strange")
        with open("/proc/net/unix") as sockets:
            until(lambda: sockets.seek(0) or f"@{address}" in sockets.read())
        with start() as stranger:
            assert stranger.stdout.readline() == "0\n"  # it is hung up on
        zray.get([first, actors[1].init.remote(2, 1, "strange")])
    else:
        with start() as stranger:
            assert stranger.stdout.readline() == "ready\n"
            kind, text = zray.get(
                actors[0].do.remote(
                    lambda: outcome(lambda: collective.init_collective_group(2, 0, group_name="strange"))
                )
            )
            stranger.stdin.close()
        assert kind == "RuntimeError" and "Another user listens" in text


def test_an_interrupted_call_ends_the_group():
    actors = members_of(2, "interrupted")

    def stop(rank):
        timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
        before = signal.signal(signal.SIGUSR1, lambda number, frame: (_ for _ in ()).throw(TimeoutError("enough")))
        timer.start()
        try:
            return outcome(lambda: collective.allreduce(numpy.ones(100_000), "interrupted"))
        finally:
            signal.signal(signal.SIGUSR1, before)

    kind, _ = zray.get(actors[0].do.remote(stop, 0))
    assert kind == "TimeoutError"
    kind, text = zray.get(
        actors[1].do.remote(lambda rank: outcome(lambda: collective.allreduce(numpy.ones(100_000), "interrupted")), 1)
    )
    assert kind == "CollectiveGroupError" and "a call of rank 0" in text and "enough" in text


def test_nothing_is_left_of_groups_that_end_in_any_way():
    actors = members_of(2, "gone")
    pids = zray.get([actor.pid.remote() for actor in actors])

    def open_files(rank=0):
        names = []
        for name in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # that of the list itself
                names.append(os.readlink(f"/proc/self/fd/{name}"))
        return sorted(name for name in names if "collective" in name)

    def use(rank, name):
        collective.allreduce(numpy.ones(100_000), name)

    all_do(actors, use, "gone")
    assert any("zray-collective" in name for name in zray.get(actors[0].do.remote(open_files)))
    all_do(actors, lambda rank: collective.destroy_collective_group("gone"))
    assert zray.get([actor.do.remote(open_files) for actor in actors]) == [[], []]
    join(actors, "gone")
    all_do(actors, use, "gone")
    os.kill(pids[1], signal.SIGKILL)
    assert zray.get(actors[0].do.remote(lambda rank: outcome(lambda: collective.barrier("gone")), 0))
    assert zray.get(actors[0].do.remote(open_files)) == []
    with open("/proc/net/unix") as sockets:
        assert "zray-collective" not in sockets.read()
    assert not [name for name in os.listdir("/dev/shm") if "collective" in name]


def test_a_group_whose_member_died_between_calls_is_made_again():
    actors = members_of(2, "again")
    zray.kill(actors.pop())
    actors.append(Member.remote())

    def is_over(rank):
        return rank == 1 or not collective.is_group_initialized("again")

    until(lambda: all(all_do(actors, is_over)))
    collective.create_collective_group(actors, 2, [0, 1], group_name="again")
    assert outcomes(actors, lambda rank: collective.barrier("again")) == [None] * 2
