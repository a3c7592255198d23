"""Actors that only hold handles of each other end; actors that a program can reach stay."""

import os

import pytest

import zray
from tests.gates import Tally, is_running, nothing_is_held, until, until_ended

pytestmark = pytest.mark.usefixtures("session")


@zray.remote(num_cpus=0.25)
class Member:
    def __init__(self, *others):
        self.others = list(others)

    def take(self, *others):
        self.others += others
        return os.getpid()

    def take_itself(self):
        self.others.append(zray.get_runtime_context().current_actor)
        return os.getpid()

    def store(self, *others):
        self.others.append(zray.put(others))
        return os.getpid()

    def wait_at(self, gate):
        gate.wait()
        return os.getpid()

    def note_the_end_at(self, tally):
        self.tally = tally
        return os.getpid()

    def __ray_shutdown__(self):
        if hasattr(self, "tally"):
            self.tally.visit()


def test_an_actor_with_its_own_handle_ends(tmp_path):
    tally = Tally(tmp_path)
    actor = Member.remote()
    pids = zray.get([actor.take_itself.remote(), actor.note_the_end_at.remote(tally)])
    del actor
    until_ended(pids[:1])
    assert tally.count() == 1
    until(nothing_is_held)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_ring_of_actors_ends_with_what_it_leads_to(count):
    ring = [Member.options(num_cpus=0).remote() for _ in range(count)]
    tail = Member.options(num_cpus=0).remote()
    pids = zray.get([actor.take.remote(ring[number - 1], tail) for number, actor in enumerate(ring)])
    pids.append(zray.get(tail.take.remote()))
    del ring, tail
    until_ended(pids)


def test_a_ring_through_constructors_ends():
    first = Member.remote()
    second = Member.remote(first)
    third = Member.remote([first, second])
    pids = zray.get([first.take.remote(second, third), second.take.remote(third), third.take.remote()])
    del first, second, third
    until_ended(pids)


def test_a_ring_ends_after_the_calls_of_its_members(gate):
    first, second = Member.remote(), Member.remote()
    pids = zray.get([first.take.remote(second), second.take.remote(first)])
    last = first.wait_at.remote(gate)
    del first, second
    other = Member.remote()  # its end comes behind theirs, if they end
    pid = zray.get(other.take_itself.remote())
    del other
    until_ended([pid])
    assert all(map(is_running, pids))
    gate.open()
    assert zray.get(last) == pids[0]
    until_ended(pids)


@zray.remote
def hold(handles, gate):
    gate.wait()
    return zray.get(handles[0].take.remote())


@pytest.mark.parametrize("holder", ["actor", "task", "value", "name of a detached one", "value in an actor"])
def test_a_ring_that_somebody_can_reach_stays(holder, gate):
    name = "the first" if holder.startswith("name") else None
    options = {"name": name, "lifetime": "detached"} if name else {}
    first, second = Member.options(num_cpus=0, **options).remote(), Member.options(num_cpus=0).remote()
    pids = zray.get([first.take.remote(second), second.take.remote(first)])
    if holder == "actor":
        kept = Member.options(num_cpus=0).remote(first)
        zray.get(kept.take.remote())
    elif holder == "task":
        kept = hold.remote([first], gate)
    elif holder == "value":
        kept = zray.put([first])
    elif holder == "value in an actor":
        kept = Member.options(num_cpus=0).remote()
        zray.get(kept.store.remote(first))
    del first, second
    other = Member.remote()  # the same look that ends it sees the ring
    pid = zray.get(other.take_itself.remote())
    del other
    until_ended([pid])
    assert all(map(is_running, pids))
    gate.open()
    if holder == "task":
        assert zray.get(kept) == pids[0]
    if name:
        zray.kill(zray.get_actor(name))
    else:
        del kept
    until_ended(pids)
