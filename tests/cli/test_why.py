"""`zray why`: what tasks, objects, actors and nodes wait for, or how they ended."""

import os
import re
import time

import pytest

import zray
from tests.cli.commands import zray as command
from tests.gates import until
from zray.util import state
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from zray.util.why import why


@zray.remote
def wait(gate):
    gate.wait()


@zray.remote
def add(number):
    return number + 1


@zray.remote
def fail():
    raise OSError("no such file")


@zray.remote
def after(value):
    return value


@zray.remote
def both(one, other):
    pass


@zray.remote
class Keeper:
    def keep(self):
        return 1

    def wait(self, gate):
        gate.wait()


def lines_of(*arguments):
    done = command("why", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_waiting_tasks_are_explained_with_the_chain_behind(start, gate):
    start(num_cpus=1)
    first = wait.remote(gate)
    second, third = add.remote(first), add.remote(1)
    until(lambda: any(task.state == "RUNNING" for task in state.list_tasks()))
    lines = lines_of()
    assert lines[0].startswith("3 tasks have not ended: ")
    text = "\n".join(lines)
    assert "waits for an argument" in text and "task wait runs on node" in text and "held by task wait" in text
    chain = lines_of(second.hex())
    assert "waits for an argument" in chain[0] and "task wait runs" in chain[1] and len(chain) == 2
    (title, reason, holder) = lines_of(third.task_id().hex())
    assert "PENDING_NODE_ASSIGNMENT" in title and "0 of 1 CPU free" in reason and "held by task wait" in holder
    gate.open()


def test_ended_tasks_are_told_with_their_times(start):
    start(num_cpus=1)
    ref = add.remote(1)
    zray.get(ref)
    ended, phases, *_ = lines_of(ref.task_id().hex())
    assert "task add" in ended and " finished on node " in ended and ", in process " in ended
    assert phases.strip().startswith("wait ") and "run " in phases
    assert "is here" in lines_of(ref.hex())[0]
    with pytest.raises(OSError):
        zray.get(fail.remote())
    (failed,) = state.list_tasks(filters=[("state", "=", "FAILED")])
    title, error, *_ = lines_of(failed.task_id)
    assert " failed with TASK_EXECUTION_EXCEPTION on node " in title
    assert re.fullmatch(rf"  OSError: no such file \({re.escape(__file__)}:\d+\)", error)
    assert failed.error_message == error.strip()
    assert lines_of() == ["No task waits or runs."]


@zray.remote(retry_exceptions=True)
def fail_again():
    raise OSError("no such file")


@pytest.mark.parametrize(("retries", "said"), [(0, ""), (1, " after 1 retry"), (2, " after 2 retries")])
def test_retries_of_a_task_that_has_failed_are_counted(start, retries, said):
    start(num_cpus=1)
    ref = fail_again.options(max_retries=retries).remote()
    zray.wait([ref])
    assert re.search(r"in process \d+(.*)$", why(ref.task_id().hex())[0]).group(1) == said


@zray.remote(max_retries=0)
def perhaps_die(is_dying):
    if is_dying:
        os._exit(7)


def test_task_whose_process_died_is_explained_by_the_name_of_its_function(start):
    start(num_cpus=1)
    died, after = perhaps_die.remote(True), perhaps_die.remote(False)
    zray.wait([died, after], num_returns=2)
    assert why("perhaps_die")[0].startswith(f"task perhaps_die ({died.task_id().hex()}) failed with WORKER_DIED")


def test_waits_of_ended_tasks_are_told_with_what_they_were_for(start, gate):
    start(num_cpus=1)
    first = wait.remote(gate)
    second, third = add.remote(1), after.remote(first)
    until(lambda: any(task.state == "RUNNING" for task in state.list_tasks()))
    wait_for(second)
    gate.open()
    zray.get([second, third])
    queued = next(line for line in lines_of(second.hex()) if "waited" in line)
    assert re.fullmatch(r"  waited [\d,.]+ ms for resources or a worker", queued) and milliseconds_in(queued) > 100
    for_argument = next(line for line in lines_of(third.hex()) if "waited" in line)
    told = rf"  waited [\d,.]+ ms for its arguments; task wait \({first.task_id().hex()}\) made the last one"
    assert re.fullmatch(told, for_argument) and milliseconds_in(for_argument) > 100


def wait_for(ref, seconds=0.1):
    """Let a task wait at its node for so long."""
    until(lambda: ref.task_id().hex() in [task.task_id for task in state.list_tasks(limit=1_000)])
    began = time.monotonic()
    until(lambda: time.monotonic() - began > seconds)


def milliseconds_in(line):
    return float(re.search(r"waited ([\d,.]+) ms", line)[1].replace(",", ""))


def test_waits_of_calls_are_for_earlier_ones(start, gate):
    start(num_cpus=1)
    keeper = Keeper.remote()
    zray.get(keeper.keep.remote())
    calls = [keeper.wait.remote(gate), *(keeper.keep.remote() for _ in range(600))]  # more than are sent ahead
    wait_for(calls[-1])
    gate.open()
    zray.get(calls)
    waited = next(line for line in lines_of(calls[-1].hex()) if "waited" in line)
    assert waited.endswith("ms for earlier calls of its actor, or for the actor to start")
    waited = [line for line in lines_of(calls[1].hex()) if "waited" in line][-1]
    assert waited.endswith("ms for earlier calls in the process of its actor") and milliseconds_in(waited) > 100


def test_task_that_was_cancelled_before_it_ran_tells_its_wait(start, gate):
    start(num_cpus=1)
    running, waiting = wait.remote(gate), add.remote(1)
    wait_for(waiting)
    zray.cancel(waiting)
    with pytest.raises(zray.exceptions.TaskCancelledError):
        zray.get(waiting)
    assert any("ms for resources or a worker" in line for line in lines_of(waiting.hex()))
    gate.open()
    zray.get(running)


def test_actors_and_nodes_are_explained(start):
    start(num_cpus=1)
    keeper = Keeper.options(name="keeper").remote()
    zray.get(keeper.keep.remote())
    line, constructor, *_ = why(keeper._actor_id.hex())
    assert line.startswith("actor Keeper named 'keeper' (") and "is ALIVE on node" in line and "in process" in line
    assert re.fullmatch(r"  constructor: read arguments [\d,.]+ ms, run [\d,.]+ ms", constructor)
    holder = Keeper.options(num_cpus=1).remote()
    zray.get(holder.keep.remote())
    waiting = Keeper.options(num_cpus=1).remote()
    until(lambda: waiting._actor_id.hex() in [row.actor_id for row in state.list_actors()])
    assert "is PENDING_CREATION" in why(waiting._actor_id.hex())[0]
    assert lines_of()[0] == why(waiting._actor_id.hex())[0]
    assert any("0 of 1 CPU free" in text for text in why(waiting._actor_id.hex()))
    node = state.list_nodes()[0].node_id
    line, states = why(node[:6])
    assert line == f"node 127.0.0.1 ({node}) is ALIVE" and states.startswith("  states: ALIVE ")
    done = command("why", "zz")
    assert done.returncode == 1 and "No task, actor or node has the id 'zz'" in done.stderr


@zray.remote(num_cpus=1)
class Part:
    def __init__(self, value=0):
        if value == "fails":
            raise ValueError("no such part")

    def get(self):
        return 1


def waits_in(lines):
    return {line.partition(" ms for ")[2]: milliseconds_in(line) for line in lines if line.startswith("  waited ")}


def test_waits_of_a_constructor_are_told_now_and_after_the_end(start, gate):
    start(num_cpus=1)
    first = wait.remote(gate)
    part = Part.remote(after.remote(first))
    place = part._actor_id.hex()
    until(lambda: [row for row in state.list_actors() if row.actor_id == place])
    assert "waits for an argument" in why(place)[1]
    wait_for(first)
    gate.open()
    zray.get(part.get.remote())
    alive = why(place)
    (argument,) = [line for line in alive if "for its arguments" in line]
    assert "; task after (" in argument and milliseconds_in(argument) > 100
    other = Part.remote()
    held = other._actor_id.hex()
    until(lambda: [row for row in state.list_actors() if row.actor_id == held])
    assert "waits for 1 CPU" in why(held)[1]
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.1)
    zray.kill(part)
    zray.get(other.get.remote())
    assert waits_in(why(held))["resources"] > 100
    line, *others, states = until(lambda: [lines for lines in [why(place)] if "is DEAD" in lines[0]])[0]
    assert line.endswith(": The actor Part was killed by kill().") and others == alive[1:-1]
    assert states.startswith(f"{alive[-1]}, DEAD ")


def test_constructor_that_raised_is_told_with_its_error(start):
    start(num_cpus=1)
    part = Part.remote("fails")
    with pytest.raises(zray.exceptions.RayActorError):
        zray.get(part.get.remote())
    line, constructor, *_ = why(part._actor_id.hex())
    assert "is DEAD on node" in line and ": the constructor raised ValueError: no such part (" in line
    assert f"{__file__}:" in line and constructor.startswith("  constructor: ")
    (row,) = state.list_actors()
    assert row.death_cause.startswith("the constructor raised ValueError: no such part")


def test_actor_of_a_lost_node_is_explained_by_its_calls(cluster):
    cluster.connect()
    node = cluster.worker_nodes[0]
    place = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    keeper = Keeper.options(scheduling_strategy=place).remote()
    zray.get(keeper.keep.remote())
    cluster.remove_node(node, allow_graceful=False)
    with pytest.raises(zray.exceptions.RayActorError):
        zray.get(keeper.keep.remote())
    title, call, reason, *_ = until(lambda: lost_lines(keeper._actor_id.hex()))
    assert title.endswith("is on no node of the session: it has ended, or its node is lost")
    assert "task Keeper.keep" in call and " failed with ACTOR_DIED" in call
    assert f"its node {node.node_id} is lost" in reason


def lost_lines(actor_id):
    lines = why(actor_id)
    return lines if "is on no node" in lines[0] else None


@zray.remote
class Partner:
    def meet(self, other):
        self.other = other

    def ask(self, depth):
        return zray.get(self.other.ask.remote(depth - 1)) if depth else 0


def test_actors_that_wait_for_each_other_are_said_to_do_so(start):
    start(num_cpus=1)
    first, second = Partner.remote(), Partner.remote()
    zray.get([first.meet.remote(second), second.meet.remote(first)])
    stuck = first.ask.remote(3)
    lines = until(lambda: [found for found in [why(stuck.hex())] if "see above" in found[-1]])[0]
    assert lines[-1].endswith(": see above, and so these wait for each other")
    zray.kill(first)


def test_value_that_is_waited_for_twice_is_no_cycle(start, gate):
    start(num_cpus=2)
    first = wait.remote(gate)
    last = both.remote(after.remote(first), after.remote(first))
    until(lambda: any(task.state == "RUNNING" for task in state.list_tasks()))
    assert why(last.hex())[-1].endswith(": see above")
    gate.open()
    zray.get(last)


@pytest.mark.parametrize("address", ["localhost", "foo:bar", "ipc:///nothing/here"])
def test_text_that_is_no_address_is_refused_in_words(address):
    done = command("why", "--address", address)
    assert done.returncode == 2 and "ddress" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_functions_and_actors_are_explained_by_name(start, gate):
    start(num_cpus=1)
    zray.get(add.remote(0))
    last = add.remote(1)
    zray.get(last)
    ended, *_ = lines_of("add")
    assert last.task_id().hex() in ended and " finished on node " in ended
    keeper = Keeper.options(name="keeper").remote()
    zray.get(keeper.keep.remote())
    line, *_ = lines_of("keeper")
    assert line.startswith("actor Keeper named 'keeper' (") and "is ALIVE" in line
    running = wait.remote(gate)
    until(lambda: any(task.state == "RUNNING" for task in state.list_tasks()))
    several = [add.remote(number) for number in range(5)]
    lines = lines_of("add")
    assert sum("PENDING_NODE_ASSIGNMENT" in line for line in lines) == 3
    assert lines[-1] == "and 2 more; `zray why ID` explains each of them"
    assert "is RUNNING" in lines_of("wait")[0]
    gate.open()
    zray.get([running, *several])
