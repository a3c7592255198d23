"""`python -m zray.sim.main --seed N --runs M`: simulated runs from seed N on; what fails can be replayed."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ..roles.hosting import REST_SECONDS_MAX
from ..roles.local_scheduler.tasks.memory import HELD_SECONDS_MAX
from ..roles.monitor import WAIT_SECONDS
from .against import compare_with
from .caps import chosen, lowered
from .faults import MEETING_SECONDS
from .options import NOTHING_MORE, Options, Wanted, options_of, turns_between_checks
from .process import Driver
from .sequential import Sequential
from .simulator import Simulator
from .weather import DRAG
from .workloads import program, several

# All work ends within so many virtual seconds after the last fault.
LIVENESS_SECONDS = 30.0
# Time for messages batched by timers to leave.
REST_SECONDS = 1.0
# A last write goes down a chain, and its acknowledgement up, in messages of up to 0.4 s.
FAR_REST_SECONDS = 4.0
# Time for a declaration of death after a node's return.
VERDICT_SECONDS = 1.0
STEPS_MAX = 5_000_000


class Outcome(Struct):
    """The outcome of a run.  error: "" if all checks passed."""

    seed: int
    error: str
    steps: int
    virtual_s: float
    digest: str
    kills: int
    story: str = ""


def run_options(options: Options) -> Outcome:
    """Run a simulation with these options."""
    error = ""
    with lowered(chosen(options.seed) if options.is_tight else {}):
        world = Simulator(options)
        try:
            _run(world)
        except Exception as caught:
            error = str(caught) if isinstance(caught, Stuck) else traceback.format_exc().strip()
    story = "" if not error else world.trace.transcript()
    return Outcome(options.seed, error, world.trace.steps, world.now, world.trace.digest(), world.faults.kills, story)


class Stuck(Exception):
    """Something waits for ever."""


def _run(world: Simulator) -> None:
    options = world.options
    home = world.nodes[world.heads.home]
    expected = []
    if options.nodes > 1:
        world.run(MEETING_SECONDS)  # the nodes get to know each other
        if options.head_kills or options.has_guest:
            world.run(LIVENESS_SECONDS, unless=world.heads.all_have_met)
        options.fault_seconds += MEETING_SECONDS
    for number in range(1, options.drivers + 1):
        parts = [(name, program(name)[1](world.random)) for name in options.programs]
        if number > 1:  # names of actors are shared by all drivers
            once = ("named", "spread", "survivors", "crowd", "groups_of_actors", "hosted_names")
            parts = [part for part in parts if part[0] not in once]
        expected.append(Sequential(has_gpus=options.gpus > 0).run(several, (parts,)))
        world.start_driver(home, number, several, (parts,))
    world.faults.start()
    live = world.drivers
    until = options.fault_seconds + LIVENESS_SECONDS
    # A slow worker is no fault with an end: its time is not counted.
    until *= 100 if options.slow_worker_probability else 1
    # Nor is distance: a message takes up to 0.4 s, and killed tasks are run again, with all their children.
    is_far = options.delay == "far"
    until *= 10 if is_far else 1
    # Nor is a chain with a small limit in flight: over such lines it does some six requests a second.
    until *= 3 if is_far and options.is_tight and world.shards.are_replicated else 1
    # Nor is a full store: each put of a program may wait until it is refused (FULL_SECONDS), one after another, and so
    # may each result that it fetches.
    until *= 30 if options.is_small else 1
    is_done = world.run(until, unless=lambda: _are_done(live))
    if not is_done and world.heads.alone_count:  # it has waited for nodes out of reach for good
        is_done = world.run(until + WAIT_SECONDS * world.heads.alone_count, unless=lambda: _are_done(live))
    if not is_done:
        raise Stuck(why_stuck(world))
    for driver, wanted in zip(live, expected, strict=True):
        if driver.is_done:
            world.checkers.compare(wanted, driver.result, driver.address)
    world.checkers.actor_calls()
    if options.prints:
        _have_all_output(world, until)
    # Tasks without waiting callers may still run; then all refs are dropped.
    patience = 10.0 * (30 if options.slow_worker_probability or options.is_small else 1)
    patience *= DRAG[1] if options.slow_nodes else 1  # work begun on a slow node takes this much longer again
    patience += 3 * HELD_SECONDS_MAX if options.memory_shortages else 0  # retries wait for memory
    world.run(world.now + patience, unless=lambda: _is_quiet(world))
    is_one_way = options.one_way_pairs or options.one_way_nodes or options.head_cuts
    if options.head_kills or options.loses_nodes or options.node_drains or options.has_guest or is_one_way:
        world.run(options.fault_seconds)  # no node is stopped after that, and no head killed
        patience = LIVENESS_SECONDS + WAIT_SECONDS
        world.run(world.now + patience, unless=lambda: _is_settled(world) or not _waits_for_others(world))
        world.run(world.now + LIVENESS_SECONDS, unless=lambda: _is_settled(world))
        # A node back from a suspension may be declared dead a moment later, for earlier silence.
        world.run(world.now + VERDICT_SECONDS)
        world.run(world.now + LIVENESS_SECONDS, unless=lambda: _is_settled(world))
    assert not world.faults.drained & world.nodes.keys(), "a node was told to leave, and stays"
    world.run(max(world.now, options.fault_seconds))
    _come_to_rest(world)
    world.checkers.at_rest()
    for driver in live:
        world.end_driver(driver)
    _come_to_rest(world)
    world.checkers.at_rest()
    world.checkers.jobs_are_gone()


def _are_done(drivers: list[Driver]) -> bool:
    return all(driver.is_done or not driver.is_alive for driver in drivers)


def _have_all_output(world: Simulator, seconds: float) -> None:
    """Have drivers ask for all output, as before their end; it arrives, however nodes die meanwhile."""
    before = world.output.printed()
    live = [driver for driver in world.drivers if driver.is_alive]
    for driver in live:
        driver.ask_for_output()

    def are_told() -> bool:
        return all(driver.has_all_output or not driver.is_alive for driver in live)

    is_there = world.run(world.now + seconds, unless=are_told)
    if not is_there and world.heads.alone_count:  # as for results: nodes are out of reach, and not declared dead
        is_there = world.run(world.now + WAIT_SECONDS * world.heads.alone_count, unless=are_told)
    assert is_there, "the output of workers does not come to its end"
    if all(driver.is_alive for driver in world.drivers):
        world.output.check(before)


def _come_to_rest(world: Simulator) -> None:
    is_far = world.options.delay == "far"
    # A node where a replica after the other has ended may rest.
    world.run(world.now + LIVENESS_SECONDS + REST_SECONDS_MAX, unless=world.shards.are_spread)
    rest = FAR_REST_SECONDS if is_far and world.shards.are_replicated else REST_SECONDS
    world.run(world.now + rest)
    # A line of records is released from shard to shard, link by link; and a chain with a small limit in flight takes
    # one request after the other.
    end = world.now + (10 if is_far else 1) * LIVENESS_SECONDS
    while not world.shards.are_done() and world.now < end:
        world.run(end, unless=world.shards.are_done)
        world.run(world.now + rest)


def _is_settled(world: Simulator) -> bool:
    """Return whether the members are known to all, and drained nodes have left."""
    return not world.faults.drained & world.nodes.keys() and world.heads.is_found_by_all() and world.faults.are_fenced()


def _waits_for_others(world: Simulator) -> bool:
    """Return whether the head gets no heartbeats, or still misses some of its awaited nodes."""
    return world.heads.is_alive and world.heads.monitor.isolation.ticks > 0


def _is_quiet(world: Simulator) -> bool:
    return not any(node.scheduler.tasks or node.scheduler.calls.actors for node in world.nodes.values())


def why_stuck(world: Simulator) -> str:
    """Return a text about pending waits."""
    lines = [f"not done after {world.now:.1f} virtual seconds:"]
    for node in world.nodes.values():
        scheduler = node.scheduler
        states: dict[str, int] = {}
        for task in scheduler.tasks.values():
            name = str(task.state)
            states[name] = states.get(name, 0) + 1
        lines.append(
            f"{node.name}: tasks by state {states}, ready {scheduler.dispatch.ready_count}, free "
            f"{scheduler.resources.free}, starting {scheduler.pool.starting.total()}, "
            f"wanting {len(scheduler.calls.wanting)}, resuming {len(scheduler.dispatch.lending.resuming)}"
        )
        for worker in scheduler.pool.workers.values():
            lines.append(
                f"  {worker.address} {worker.state!r} inflight {len(worker.inflight)} stale {worker.stale} "
                f"window {node.windows.get(worker.address)} frames "
                + str([(frame.resources, frame.state) for frame in worker.frames])
            )
        for process in node.processes.values():
            for level in process.stack:
                lines.append(
                    f"  {process.address} runs {level.task_id.hex()[-8:]} blocked={level.is_over is not None} "
                    f"busy={process.is_busy}"
                )
    lines += world.shards.why_stuck()
    return "\n".join(lines)


def run_seed(seed: int, wanted: Wanted = NOTHING_MORE, *, check_every: int = 1) -> Outcome:
    """Run a seed.

    A failed run is repeated with checks after each turn, which name the first wrong turn.
    """
    options = options_of(seed, wanted)
    options.check_every = check_every
    outcome = run_options(options)
    if outcome.error and check_every > 1:
        exact = run_seed(seed, wanted)
        return exact if exact.error else outcome
    return outcome


def sweep_seed(seed: int, wanted: Wanted = NOTHING_MORE) -> Outcome:
    """Run a seed of many: most have fewer checks on the way, and all at the end."""
    return run_seed(seed, wanted, check_every=turns_between_checks(seed))


def run_seeds(seed: int, runs: int, wanted: Wanted = NOTHING_MORE, *, processes: int = 0) -> list[Outcome]:
    """Seeds seed .. seed + runs - 1, on all cores."""
    seeds = range(seed, seed + runs)
    run = partial(sweep_seed if runs > 1 else run_seed, wanted=wanted)
    processes = processes or min(runs, os.cpu_count() or 1)
    if processes == 1:
        return [run(number) for number in seeds]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return list(pool.imap(run, seeds, chunksize=max(1, min(8, runs // processes))))


def main(argv: list[str] | None = None) -> int:
    """Exit code 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=0, help="0: the seed says how many")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=0, help="of each shard, on hosts of their own; 0: none")
    parser.add_argument("--deaths", action="store_true", help="nodes die")
    parser.add_argument("--curious", action="store_true", help="who waits asks why")
    parser.add_argument("--heads", action="store_true", help="the head is killed and started again")
    parser.add_argument("--drains", action="store_true", help="nodes leave in order")
    parser.add_argument("--groups", action="store_true", help="all have placement groups")
    parser.add_argument("--crashes", action="store_true", help="drivers and fork servers are killed at any message")
    parser.add_argument("--cuts", action="store_true", help="programs are outside, and cut off or asleep")
    parser.add_argument("--disks", action="store_true", help="fsyncs of replicas fail, or take long")
    parser.add_argument("--alone", action="store_true", help="the head is cut off from all others")
    parser.add_argument("--oneway", action="store_true", help="nodes hear others, and are not heard by them")
    parser.add_argument("--schedulers", action="store_true", help="global schedulers are killed beside the head")
    parser.add_argument("--counts", action="store_true", help="the number of global schedulers changes")
    parser.add_argument("--gpus", action="store_true", help="nodes have GPUs, for which programs ask")
    parser.add_argument("--tight", action="store_true", help="caps are lowered, so that they are reached")
    parser.add_argument("--weather", action="store_true", help="lines clog, clocks jump, memory is full")
    parser.add_argument("--verbose", action="store_true", help="a line per run, and longer stories")
    parser.add_argument("--against", metavar="COMMIT", default="", help="compare each run with the same in a commit")
    given = parser.parse_args(argv)
    if given.heads and (given.nodes < 4 or given.replicas > 2):
        parser.error("--heads needs three other nodes: say --nodes, at least 4 (and --replicas 2 or less)")
    for name in ("schedulers", "counts"):
        if given.heads and getattr(given, name):
            parser.error(f"--{name} has global schedulers beside a head that lives: say it without --heads")
    if given.alone and (given.nodes < 3 or given.cuts):
        parser.error("--alone needs two other nodes, and no programs outside: say --nodes, at least 3, without --cuts")
    for name in ("drains", "oneway", "cuts", "schedulers", "counts"):
        if getattr(given, name) and given.nodes < 2:
            parser.error(f"--{name} needs other nodes: say --nodes, at least 2")
    if given.disks and not given.replicas:
        parser.error("--disks is of those of replicas: say --replicas, at least 1")
    began = time.perf_counter()
    wanted = Wanted(**{name: getattr(given, name) for name in Wanted.__struct_fields__})
    if given.against:
        return tell_difference(given.against, range(given.seed, given.seed + given.runs), wanted)
    outcomes = run_seeds(given.seed, given.runs, wanted)
    seconds = time.perf_counter() - began
    if given.verbose:
        for outcome in outcomes:
            print(
                f"seed {outcome.seed}: {outcome.steps} messages, {outcome.virtual_s:.3f} virtual s, "
                f"{outcome.kills} kills, digest {outcome.digest}{', FAILED' if outcome.error else ''}"
            )
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed[: None if given.verbose else 3]:
        tell(outcome, wanted, is_long=given.verbose)
    steps = sum(outcome.steps for outcome in outcomes)
    print(
        f"{len(outcomes)} runs, {len(failed)} failed, {steps} messages, {seconds:.1f} s "
        f"({steps / seconds:,.0f} messages/s, {len(outcomes) / seconds:.1f} runs/s)"
    )
    if failed:
        print("failed:", " ".join(str(outcome.seed) for outcome in failed))
    return 1 if failed else 0


def tell_difference(commit: str, seeds: range, wanted: Wanted) -> int:
    """Compare all runs with a commit; return exit code 1 if one differs."""
    asked = {name: value for name, value in asdict(wanted).items() if value != getattr(NOTHING_MORE, name)}
    difference = compare_with(commit, list(seeds), asked)
    print(difference or f"{len(seeds)} runs, each the same as at {commit}")
    return 1 if difference else 0


def tell(outcome: Outcome, wanted: Wanted, *, is_long: bool) -> None:
    """Print the error, its story, and the line that replays it."""
    story = outcome.story.splitlines()
    print("\n".join(story[-200 if is_long else -25 :]))
    print(outcome.error)
    print("with", {key: value for key, value in asdict(options_of(outcome.seed, wanted)).items()})
    print(f"replay: scripts/simulate --seed {outcome.seed} --runs 1{wanted.flags()}\n")


def run_program(name: str, args: tuple[Any, ...] = (), **options: Any) -> Outcome:
    """Run a program without faults, except those in `options`: for tests."""
    given = Options(seed=options.pop("seed", 1), programs=(name,), **options)
    return run_options(given)


def sweep_program(name: str, *, seed: int, **options: Any) -> Outcome:
    """Run a program with a seed of many: most have fewer checks on the way, and all at the end."""
    return run_program(name, seed=seed, check_every=turns_between_checks(seed), **options)


if __name__ == "__main__":
    sys.exit(main())
