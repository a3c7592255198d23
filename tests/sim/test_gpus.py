"""GPUs by number: who has which is never more than there is, by what nodes know and by what workers were told."""

import pytest

from tests.sim.sweeps import CHUNK, assert_all_is_well, sweep
from zray.roles.local_scheduler.gpus import GPU, Gpus
from zray.roles.task_executor import TaskExecutor
from zray.sim.main import run_seed
from zray.sim.options import Wanted

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("nodes, asked", [(1, ()), (3, ("deaths",)), (3, ("drains", "groups"))])
def test_programs_that_ask_for_some(nodes, asked):
    sweep(range(1, 1 + CHUNK), nodes=nodes, gpus=True, **dict.fromkeys(asked, True))


def give_nothing(gpus, shares):
    """They are forgotten."""


def call_all_the_first(gpus, shares):
    return [gpus.names[0]] * len(shares) if GPU in gpus.free else None


def those_of_the_outer_one(executor, spec):
    return executor.gpus


@pytest.mark.parametrize(
    "owner, name, slip, word",
    [
        (Gpus, "give", give_nothing, "do not add up"),
        (Gpus, "names_of", call_all_the_first, "to do"),
        (TaskExecutor, "gpus_inside", those_of_the_outer_one, "for what asked for"),
    ],
)
def test_a_slip_is_found(monkeypatch, owner, name, slip, word):
    """The checkers would see it."""
    monkeypatch.setattr(owner, name, slip)
    found = [run_seed(seed, Wanted(nodes=1, gpus=True)).error for seed in range(1, 11)]
    assert any(word in error for error in found), found


def test_a_new_heads_node_takes_an_actor_in_before_others_have_been_told_of_it():
    """The actor's origin had not, and heard no more of it: its calls waited for ever."""
    asked = ("heads", "deaths", "drains", "cuts")
    assert_all_is_well([3100001059], nodes=5, shards=4, replicas=1, gpus=True, **dict.fromkeys(asked, True))
