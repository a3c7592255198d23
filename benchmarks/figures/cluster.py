"""What zray promises of a cluster, which is no figure of the paper's: an array from node to node, a task on the other
node, joins, deaths that are noticed, and all answers right while processes are killed.

The scripts beside this folder measure it (transfer.py, cluster.py, chaos.py), and say how.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from .. import chaos, cluster, transfer
from ..timing import Effort
from .results import EMULATED, TIME, Figure, Plot, Series


@dataclass(frozen=True)
class Plan:
    """How much of each."""

    megabytes: int
    rounds: int  # of the transfer
    trips: int
    joins: int
    deaths: int  # of each kind
    tasks: int  # under fire
    task_seconds: float = 0.02
    every_s: float = 5.0
    join_rounds: int = 1


FULL = Plan(
    megabytes=transfer.MEGABYTES_NEEDED,
    rounds=11,
    trips=2_000,
    joins=cluster.JOINS,
    deaths=10,
    tasks=20_000,
    join_rounds=3,
)
QUICK = Plan(megabytes=250, rounds=2, trips=200, joins=10, deaths=2, tasks=6_000, every_s=1.5)
SEED = 0  # of what is killed under fire


def measure(figure: Figure, effort: Effort) -> None:
    """One after the other."""
    plan = QUICK if effort.quick else FULL
    figure.notes.append(
        "No figure of the paper's, but what zray itself promises. All nodes are on this machine, each with processes, "
        "a session and a store of its own, and what goes from one to another is encrypted, over loopback."
    )
    node_to_node(figure, plan)
    on_the_other_node(figure, plan)
    coming_and_going(figure, plan)
    under_fire(figure, plan)


def node_to_node(figure: Figure, plan: Plan) -> None:
    """Beside a bare stream of as many bytes, in turns."""
    with transfer.bare_stream() as stream:
        pairs = transfer.measure(plan.megabytes, plan.rounds, stream)
    bare, ours = zip(*pairs[1:], strict=True)
    what = f"{plan.megabytes} MB from node to node, encrypted"
    figure.add(what, statistics.median(ours), "MB/s", EMULATED)
    needed = transfer.RATIO_NEEDED if plan.megabytes >= transfer.MEGABYTES_NEEDED else None
    label = "the same / a bare CURVE stream, in turns"
    figure.add(label, transfer.ratio_of(pairs), "", EMULATED, at_least=needed)
    for name, rates in (("zray", ours), ("a bare CURVE stream", bare)):
        figure.keep(f"{what}, {name}", rates, "MB/s", EMULATED)
    lines = [
        Series(name, EMULATED, [(float(number), rate) for number, rate in enumerate(rates, 1)])
        for name, rates in (("zray", ours), ("bare CURVE stream", bare))
    ]
    figure.plots.append(Plot(what, "round", "MB/s", lines, is_line=False))


def on_the_other_node(figure: Figure, plan: Plan) -> None:
    """Beside the same on the driver's own."""
    limits = {cluster.TASK: cluster.REMOTE_RATIO_MAX, cluster.CALL: None}
    for what, trips in cluster.remote(plan.trips).items():
        figure.add(f"a {what}, on the driver's node, p50", trips.here_us, "us", EMULATED)
        figure.add("the same on the other node, p50 / p50", trips.ratio, "x", EMULATED, at_most=limits[what])


def coming_and_going(figure: Figure, plan: Plan) -> None:
    """Nodes that join at once, and how soon it is known that one is gone."""
    joins = [cluster.joins(plan.joins) for _ in range(plan.join_rounds)]
    seconds = statistics.median(seconds for _, seconds in joins)
    figure.keep(f"time until the last of {plan.joins} is a member", [took for _, took in joins], "s", EMULATED)
    label = f"{plan.joins} nodes join at once, median of {plan.join_rounds}: until the last is a member"
    most = cluster.joins_seconds_max(plan.joins)
    figure.add(label, seconds, "s", EMULATED, at_most=most, scales=TIME)
    joined = min(joined for joined, _ in joins)
    figure.add_fact("all of them are members", joined == plan.joins, f"{joined} of {plan.joins}", EMULATED)
    each = ", ".join(f"{seconds:.1f}" for _, seconds in joins)
    figure.notes.append(f"{plan.joins} joins at once took {each} s, each time in a new cluster.")
    lines = []
    for what, times in cluster.deaths(plan.deaths).items():
        _, most = cluster.SIGNALS[what]
        figure.keep(f"time until it is known that a node is {what}", times, "s", EMULATED)
        label = f"a node {what}, {plan.deaths} times: the longest time until that is known"
        figure.add(label, max(times), "s", EMULATED, at_most=most)
        points = [(float(number), value) for number, value in enumerate(times, 1)]
        lines.append(Series(f"node {what}", EMULATED, points))
    figure.plots.append(Plot("Time until the head knows that a node is gone", "node", "s", lines, is_line=False))


def under_fire(figure: Figure, plan: Plan) -> None:
    """The same tasks in peace, and while processes are killed."""
    figure.seeds.append(SEED)
    found = chaos.measure(plan.tasks, plan.task_seconds, plan.every_s, SEED)
    killed = ", ".join(f"{count} x {what}" for what, count in found.killed.items())
    what = f"{plan.tasks:,} tasks of {plan.task_seconds * 1e3:g} ms on 3 nodes"
    how = f"a kill -9 of any process every {plan.every_s:g} s"
    ratio = found.ratio
    figure.add(f"{what}, {how}: time / that in peace", ratio, "x", EMULATED, at_most=chaos.RATIO_MAX)
    is_right = not found.wrong and bool(found.killed)
    figure.add_fact("all answers are right", is_right, f"{found.wrong} wrong; killed: {killed or 'nothing'}", EMULATED)
    kinds = f"{len(found.killed)} of {len(chaos.KINDS)} kinds of processes"
    if plan.task_seconds * plan.tasks / (3 * chaos.CPUS) > (len(chaos.KINDS) - 0.5) * plan.every_s:
        figure.add_fact("a process of each kind is killed", len(found.killed) == len(chaos.KINDS), kinds, EMULATED)
    is_free, most = found.free_s >= 0, f"{chaos.FREE_SECONDS:g} s"
    words = f"after {found.free_s:.1f} s" if is_free else f"not within {most}"
    figure.add_fact(f"then all resources are free within {most}", is_free, words, EMULATED)
    strikes = f"{sum(found.killed.values())} kills ({killed or 'of nothing'})"
    figure.notes.append(
        f"{what}: {found.quiet_s:.1f} s in peace, {found.fire_s:.1f} s with {strikes}. A node that was killed is "
        "replaced, and a head is started again on what it has written down. The shard has two replicas, and there are "
        f"two global schedulers; each round kills one of every kind, in an order that the seed {SEED} draws."
    )
