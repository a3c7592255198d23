"""Programs with known results: each also runs in one thread, in order (sequential.py), for comparison.

A program is a script for a driver: its result does not depend on time or order.  Results that may fail under faults are
taken through `outcome`, so that a lost task does not hide the rest. setup = `draw_*` (how large, from the seed), step =
the script, check = Checkers.compare.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any

from ..wire.groups import STRATEGIES
from .actor_programs import (
    run_actor_ends,
    run_actor_refs,
    run_counter,
    run_named,
    run_own_actors,
    run_patient,
    run_spread,
    run_survivors,
)
from .cancel_programs import run_cancels, run_futures, run_time_limits
from .generator_programs import run_generators, run_held_backs, run_lost_squares
from .giver_programs import run_giver
from .gpus import run_gpus
from .group_programs import run_groups, run_groups_of_actors, run_groups_without_places
from .hosted_programs import run_hosted, run_hosted_names
from .maker_programs import run_maker
from .object_programs import run_big, run_borrowed, run_grove, run_put_again, run_refs_inside, run_shared, run_views
from .recovery_programs import run_hoard, run_ledger, run_relay
from .ring_programs import run_far_rings, run_named_rings, run_rings
from .spill_programs import run_shared_arguments, run_shuffle, run_spills
from .spring_programs import run_beck, run_brook, run_spring
from .task_programs import (
    run_backlog,
    run_chain,
    run_code,
    run_deep,
    run_environments,
    run_failing,
    run_fan_in,
    run_flood,
    run_infeasible,
    run_mixed_lengths,
    run_polls,
    run_priorities,
    run_resources,
    run_returns,
    run_timeouts,
    run_tree,
    run_wait,
)
from .values import RemoteError
from .where_programs import run_ancestry, run_choosy, run_late_answers, run_residents

Script = Generator[Any, Any, Any]
Draw = Callable[[Random], tuple[Any, ...]]

# name -> the script, and its arguments from the seed
PROGRAMS: dict[str, tuple[Callable[..., Script], Draw]] = {
    "tree": (run_tree, lambda random: random.choice(((1, 2), (2, 3), (3, 2), (4, 2), (2, 8)))),
    "deep": (run_deep, lambda random: (random.choice((3, 10, 25, 50)),)),
    "chain": (run_chain, lambda random: (random.randint(1, 60), random.randint(1, 3), random.random() < 0.7)),
    "fan_in": (run_fan_in, lambda random: (random.randint(3, 40), random.choice((0.0, 1e-4, 1e-2)))),
    "flood": (run_flood, lambda random: (random.choice((10, 100, 400)),)),
    "mixed_lengths": (run_mixed_lengths, lambda random: (random.randint(5, 60),)),
    "returns": (run_returns, lambda random: (random.randint(1, 10),)),
    "refs_inside": (run_refs_inside, lambda random: (random.randint(1, 12), random.choice((0, 500, 50_000)))),
    "borrowed": (run_borrowed, lambda random: (random.randint(1, 20),)),
    "big": (run_big, lambda random: (random.randint(2, 8), random.choice((400, 5_000, 100_000)))),
    "put_again": (run_put_again, lambda random: (random.randint(1, 5), random.choice((50, 1_500, 20_000)))),
    "views": (run_views, lambda random: (random.randint(1, 5), random.choice((50, 1_500, 60_000)))),
    "wait": (run_wait, lambda random: (random.randint(1, 20), random.randint(1, 4))),
    "timeouts": (run_timeouts, lambda random: (random.randint(1, 4),)),
    "failing": (run_failing, lambda random: (random.randint(1, 4),)),
    "infeasible": (run_infeasible, lambda random: ()),
    "resources": (run_resources, lambda random: (random.randint(4, 40),)),
    "counter": (
        run_counter,
        lambda random: (
            random.randint(0, 3),
            random.choice((5, 30, 200)),
            random.choice((0, 1, -1)),
            random.choice((10, 2_000)),
        ),
    ),
    "actor_refs": (run_actor_refs, lambda random: (random.randint(1, 8),)),
    "actor_ends": (run_actor_ends, lambda random: (random.randint(1, 3),)),
    "own_actors": (run_own_actors, lambda random: (random.randint(1, 4),)),
    "named": (run_named, lambda random: ("the one",)),
    "spread": (
        run_spread,
        lambda random: (
            random.randint(1, 2),
            random.randint(0, 3),
            random.choice((1, 5, 30)),
            random.choice((10, 150, 2_000)),
        ),
    ),
    "choosy": (run_choosy, lambda random: (random.randint(1, 6),)),
    "residents": (run_residents, lambda random: (random.randint(1, 2),)),
    "survivors": (
        run_survivors,
        lambda random: (
            random.randint(1, 2),
            random.randint(0, 2),
            random.choice((1, 5, 20)),
            random.choice((10, 2_000)),
            random.choice((0.0, 0.02, 0.2)),
        ),
    ),
    "crowd": (
        run_spread,
        lambda random: (random.randint(1, 2), random.randint(0, 3), random.choice((1, 5)), 10, "CPU"),
    ),
}
# Added to the programs of some seeds (options.py).
GROUP_PROGRAMS: dict[str, tuple[Callable[..., Script], Draw]] = {
    "groups": (run_groups, lambda random: (random.randint(1, 5), random.choice(("PACK", "SPREAD", "STRICT_PACK")))),
    "groups_of_actors": (
        run_groups_of_actors,
        lambda random: (random.randint(1, 5), random.choice(("PACK", "SPREAD", "STRICT_PACK"))),
    ),
    "groups_without_places": (run_groups_without_places, lambda random: (random.choice(STRATEGIES),)),
}
# As above.
BACKLOG_PROGRAMS: dict[str, tuple[Callable[..., Script], Draw]] = {
    # Idle nodes take tasks that wait at others.
    "backlog": (
        run_backlog,
        lambda random: (*random.choice(((10, 0.3), (30, 0.1), (60, 0.05))), random.choice((50, 5_000, 100_000))),
    ),
}
# As above.
GROVE_PROGRAMS: dict[str, tuple[Callable[..., Script], Draw]] = {
    "grove": (
        run_grove,
        lambda random: (
            *random.choice(((2, 2), (3, 3), (4, 2), (3, 2))),
            random.choice((100, 5_000, 20_000)),
            random.random() < 0.5,
        ),
    ),
}
# As above.
GPU_PROGRAMS: dict[str, tuple[Callable[..., Script], Draw]] = {
    "gpus": (run_gpus, lambda random: (random.randint(1, 9), random.choice(("PACK", "SPREAD", "STRICT_PACK")))),
}
# As above.
RECOVERY_PROGRAMS: dict[str, tuple[Callable[..., Script], Draw]] = {
    "ledger": (
        run_ledger,
        lambda random: (
            random.choice((0, 1, 3, 10)),
            random.randint(0, 2),
            random.choice((3, 10, 40)),
            random.choice((10, 150, 2_000)),
            random.choice(("", "room")),
        ),
    ),
}


def draw_recovery(random: Random) -> tuple[Any, ...]:
    """Draw for actors that recover: calls between checkpoints, number of calls, start of their count, requested
    resource.
    """
    return (
        random.choice((0, 0, 1, 3, 10)),
        random.choice((3, 10, 40)),
        random.randint(1, 100),
        random.choice(("", "room")),
    )


# Run by name only.
SPECIAL_PROGRAMS: dict[str, tuple[Callable[..., Script], Draw]] = {
    # Its tasks take the driver's published values, wherever they run.
    "code": (
        run_code,
        lambda random: (random.randint(1, 4), random.randint(0, 4), random.choice((10, 500, 60_000))),
    ),
    # Some of its tasks and calls are cancelled, wherever they are.
    "cancels": (
        run_cancels,
        lambda random: (random.randint(1, 8), random.randint(1, 3), random.choice((0.0, 0.001, 0.02)), random.random()),
    ),
    # Its actors have each other's handles.
    "rings": (run_rings, lambda random: (random.randint(1, 2), random.randint(1, 4), random.choice((0.1, 0.7, 3.0)))),
    # So have these, on several nodes.
    "far_rings": (
        run_far_rings,
        lambda random: (
            random.randint(1, 9),
            random.randint(1, 5),
            random.choice((2, 3)),
            random.choice((0.1, 0.7, 1.5, 3.0)),
            random.getrandbits(32),  # names of actors are shared by all drivers
        ),
    ),
    # These are found by the names of some of them.
    "named_rings": (
        run_named_rings,
        lambda random: (
            random.randint(1, 4),
            random.randint(1, 4),
            random.choice((2, 3)),
            random.choice((0.7, 1.5, 3.0)),
            random.choice((1, 5, 20)),
            random.random() < 0.3,
            random.getrandbits(32),
        ),
    ),
    # Its actors share a process.
    "hosted": (
        run_hosted,
        lambda random: (
            random.choice((1, 3, 8)),
            random.randint(0, 3),
            random.choice((10, 1_500, 9_000)),
            random.choice((0.0004, 0.02, 0.5)),
        ),
    ),
    "hosted_names": (
        run_hosted_names,
        lambda random: (random.choice((1, 3, 6)), random.choice((1, 5, 20)), random.choice((0.0, 0.02, 0.3))),
    ),
    # Its tasks have many priorities.
    "priorities": (
        run_priorities,
        lambda random: (random.randint(1, 3), random.randint(1, 3), random.randint(1, 12)),
    ),
    # Some of its tasks are cancelled, if they have not begun.
    "futures": (run_futures, lambda random: (random.randint(1, 60), random.choice((0.0, 0.0005, 0.01)))),
    # Some of its tasks run longer than they may.
    "time_limits": (run_time_limits, lambda random: (random.randint(1, 10), random.choice((0.01, 0.05, 0.2)))),
    # Its generators are drawn to the end or in part.
    "generators": (
        run_generators,
        lambda random: (
            random.randint(1, 4),
            random.choice((2, 5, 20)),
            random.choice((0, 0, 1_500, 8_000)),
            random.choice((0.0, 0.001, 0.01)),
        ),
    ),
    # Its results are computed from items that are freed, and lost with their nodes.
    "lost_squares": (
        run_lost_squares,
        lambda random: (
            random.choice((2, 6, 20)),
            random.choice((0, 1_500, 8_000)),
            -1,
            random.choice((0, 0, 1, 3)),
            random.choice(("one by one", "fetched at once", "submitted at once")),
            random.choice((0.0, 0.001, 0.02)),
            random.choice((0.0, 0.3, 1.5)),
        ),
    ),
    # Its generators are held back, while results are lost.
    "held_back": (
        run_held_backs,
        lambda random: (
            random.choice(("task", "actor", "recoverable")),
            random.random() < 0.5,
            random.choice((4, 10)),
            random.choice((0, 1_500, 8_000)),
            -1,
            random.choice((0, 1, 2, 3)),
            random.choice((1, 3)),
            random.choice((0.0, 0.3, 1.5)),
        ),
    ),
    # Its generators are of an actor that recovers.
    "spring": (
        run_spring,
        lambda random: (
            random.choice((0, 0, 1, 3, 10)),
            random.randint(1, 9),
            random.choice((2, 5, 20)),
            random.choice((0, 0, 1_500, 8_000)),
            random.choice((0.0, 0.001, 0.01)),
            random.choice(("", "room")),
        ),
    ),
    # Its actor recovers, and draws from generators of another one, which recovers or not.
    "brook": (
        run_brook,
        lambda random: (
            random.choice((0, 0, 1, 3, 10)),
            random.randint(1, 9),
            random.choice((2, 5, 20)),
            random.choice((0, 0, 1_500, 8_000)),
            random.choice(("", "room")),
            random.random() < 0.6,
        ),
    ),
    # The same, where one node may be lost, and both actors recover.
    "beck": (
        run_beck,
        lambda random: (
            random.choice((0, 0, 1, 3, 10)),
            random.randint(1, 5),
            random.choice((2, 5, 20)),
            random.choice((0, 0, 0, 1_500)),
        ),
    ),
    # Its values are larger than the store.
    "spills": (
        run_spills,
        lambda random: (
            random.choice((3, 8, 20)),
            random.choice((1_500, 9_000, 30_000)),
            random.choice((0.0, 0.01, 0.4)),
        ),
    ),
    # So are the arguments of an actor's calls, which they share.
    "shared_arguments": (run_shared_arguments, lambda random: (60, 8_000, random.randint(1, 99))),
    # So are the arguments of its tasks, which are submitted while others are made; each task's fit into the store.
    "shuffle": (
        run_shuffle,
        lambda random: (
            random.randint(2, 9),
            random.randint(2, 9),
            random.choice((1_500, 9_000)),
            random.randint(1, 99),
        ),
    ),
    # The requested resource comes with a node that joins late.
    "patient": (run_patient, lambda random: (random.randint(1, 6), random.randint(0, 2))),
    # Its results are lost with the second node, from the last back to the first.
    "ancestry": (run_ancestry, lambda random: (random.randint(1, 8), random.randint(1, 5), 5_000, 2.0)),
    # So are results of its actors on that node.
    "late_answers": (run_late_answers, lambda random: (random.randint(1, 3), random.randint(1, 6), 5_000, 2.0)),
    # With limited bandwidth, its values are in transit for a while, when faults occur.
    "shared": (
        run_shared,
        lambda random: (random.randint(1, 6), random.randint(1, 6), random.choice((1_500, 40_000, 200_000))),
    ),
    # Its actors recover, and call each other and themselves.
    "relay": (run_relay, draw_recovery),
    # Its actor recovers, and creates others.
    "maker": (run_maker, draw_recovery),
    # The actor with large answers is on a node of that kind, too: perhaps the same.
    "couple": (
        run_maker,
        lambda random: (random.choice((0, 0, 1, 3, 10)), random.choice((3, 10, 40)), 1, "room", True),
    ),
    # Its actor recovers, creates others, and passes them to a third actor.
    "giver": (
        run_giver,
        lambda random: (
            random.choice((0, 1, 1, 2, 3, 10)),
            random.choice((6, 20, 40)),
            *(random.choice(("", "room")) for _ in range(3)),
        ),
    ),
    # Its driver pulls the large answers of a recovering actor only in the end.
    "hoard": (
        run_hoard,
        lambda random: (random.choice((0, 1, 3, 10)), random.choice((3, 10, 40)), 5_000, "room"),
    ),
    # Its tasks wait for short times, inside each other.
    "polls": (run_polls, lambda random: (random.choice((2, 6, 12)), random.choice((1e-4, 0.003, 0.02)))),
    # It takes more workers than other programs.
    "environments": (
        run_environments,
        lambda random: (random.randint(1, 12), random.randint(0, 5), random.choice((1, 2, 5, 20))),
    ),
}
PROGRAMS_WITH_ACTORS = frozenset(
    {"counter", "actor_refs", "actor_ends", "own_actors", "named", "spread", "survivors", "crowd", "residents"}
)
# Their actors take CPUs: a single node has none left for the calling tasks.
PROGRAMS_OF_CLUSTERS = frozenset({"crowd"})
# Their actors need two nodes beside the driver's, for their whole life.
PROGRAMS_THAT_NEED_NODES = frozenset({"crowd", "spread", "survivors"})
# Three of their actors hold "room" at once, for long.
PROGRAMS_THAT_NEED_ROOM = frozenset({"couple", "brook", "beck"})
PROGRAMS_THAT_NAME_NODES = frozenset({"choosy", "residents"})


def program(name: str) -> tuple[Callable[..., Script], Draw]:
    """Return the script of that name, and its arguments from a seed."""
    for programs in (PROGRAMS, GROUP_PROGRAMS, BACKLOG_PROGRAMS, GROVE_PROGRAMS, GPU_PROGRAMS, RECOVERY_PROGRAMS):
        if name in programs:
            return programs[name]
    return SPECIAL_PROGRAMS[name]


def several(parts: list[tuple[str, tuple[Any, ...]]]) -> Script:
    """Run programs in sequence, as a driver's program."""
    results = []
    for name, args in parts:
        try:
            results.append((yield from program(name)[0](*args)))
        except RemoteError as error:  # an error without which the program could not continue
            results.append(error.failed)
    return results
