"""`zray debug`: tasks at a breakpoint wait for a debugger, here and on other nodes."""

import os
import subprocess

import pytest

import zray
from cli.breakpoints import LocalLine, here
from tests.cli.commands import command_line
from tests.cli.commands import zray as command
from tests.cli.debuggers import said, the_breakpoint
from tests.gates import until
from tests.scripts import ROOT, environment
from zray.util import pdb


@zray.remote
def double(number):
    result = 2 * number
    breakpoint()
    result = result + 0
    return result


@zray.remote
def with_name_of_ray(number):
    pdb.set_trace()
    return number


@zray.remote
def fails(number):
    divisor = number - number
    return number / divisor


@zray.remote
def loop(count):
    breakpoint()
    total = 0
    for number in range(count):
        total += number
    return total


@zray.remote(max_concurrency=2)
class Actor:
    def method(self, number):
        breakpoint()
        return number

    def pid(self):
        return os.getpid()


def attached(name, *commands):
    return said(LocalLine(the_breakpoint(name)), *commands)


def test_command_attaches_to_the_only_breakpoint(session):
    ref = double.remote(4)
    place = the_breakpoint("double")
    listed = command("debug", "--list").stdout
    assert f"double stands at the breakpoint {__file__}:{place.line}" in listed
    assert place.task_id[:16] in listed
    result = subprocess.run(
        command_line("debug"),
        input="p result\n!result = 50\nc\n",
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert result.returncode == 0, result.stderr
    assert "-> result = result + 0" in result.stdout
    assert "(zray-pdb) 8\n" in result.stdout
    assert "The task goes on." in result.stdout
    assert zray.get(ref) == 50
    assert command("debug", "--list").stdout == "No task stands at a breakpoint.\n"


def test_command_says_that_no_task_stands_at_a_breakpoint(session):
    result = command("debug", "nobody")
    assert result.returncode == 1
    assert "No task called 'nobody' stands at a breakpoint.  Call breakpoint() in the task." in result.stderr


def test_several_breakpoints_need_an_id_where_nobody_can_choose(session):
    refs = [double.remote(1), with_name_of_ray.remote(2)]
    the_breakpoint("double"), the_breakpoint("with_name_of_ray")
    result = command("debug")
    assert result.returncode == 1
    assert "name one by its ID" in result.stderr
    assert [line[0] for line in result.stdout.splitlines()] == ["1", "2"]
    for name in ("double", "with_name_of_ray"):
        attached(name, "c")
    assert zray.get(refs) == [2, 2]


def test_a_client_that_leaves_lets_the_next_one_attach(session):
    ref = double.remote(4)
    assert "8" in attached("double", "p result", "!result = 60")
    output = attached("double", "p result", "c")
    assert "-> result = result + 0" in output  # the place is shown again
    assert "60" in output
    assert zray.get(ref) == 60


def test_quit_ends_the_task_with_an_error(session):
    ref = double.remote(4)
    assert "The task ends with bdb.BdbQuit." in attached("double", "q")
    with pytest.raises(zray.exceptions.RayTaskError, match="BdbQuit"):
        zray.get(ref)
    assert zray.get(with_name_of_ray.options(runtime_env={"env_vars": {"PYTHONBREAKPOINT": "0"}}).remote(1)) == 1


def test_steps_end_with_the_function_and_show_no_frame_of_the_worker(session):
    ref = double.remote(4)
    output = attached("double", "w", "n", "n", "n", "n", "n")
    assert output.count("test_debug.py") >= 3
    assert "/zray/" not in output
    assert zray.get(ref) == 8
    assert not here()


def test_breakpoints_of_the_debugger_are_met_and_gone_with_the_task(session):
    ref = loop.remote(3)
    place = the_breakpoint("loop")
    output = said(LocalLine(place), f"b {place.line + 3}", "c", "p number", "c", "p number", "cl 1", "c")
    assert "(zray-pdb) 0\n" in output and "(zray-pdb) 1\n" in output
    assert zray.get(ref) == 3
    ref = loop.remote(3)
    assert attached("loop", f"b {place.line + 4}", "c", "c")  # met once, at the end; then the task ends
    assert zray.get(ref) == 3
    assert zray.get(zray.remote(lambda: 5).remote()) == 5


def test_method_of_an_actor_waits_while_another_runs(session):
    actor = Actor.remote()
    ref = actor.method.remote(7)
    place = the_breakpoint("method")
    assert place.actor_id
    assert zray.get(actor.pid.remote()) == place.pid
    attached("Actor.method", "c")
    assert zray.get(ref) == 7


def test_task_goes_on_where_nobody_attaches_in_time(session):
    short = {"env_vars": {"ZRAY_BREAKPOINT_SECONDS": "0.2"}}
    assert zray.get(double.options(runtime_env=short).remote(4)) == 8
    assert not here()


def test_cancelled_task_leaves_its_breakpoint(session):
    ref = double.remote(4)
    the_breakpoint("double")
    zray.cancel(ref)
    with pytest.raises(zray.exceptions.TaskCancelledError):
        zray.get(ref)
    assert not here()


def test_remains_of_a_killed_worker_are_not_listed(session):
    ref = double.options(max_retries=0).remote(4)
    place = the_breakpoint("double")
    zray.cancel(ref, force=True)
    with pytest.raises((zray.exceptions.TaskCancelledError, zray.exceptions.WorkerCrashedError)):
        zray.get(ref)
    until(lambda: not os.path.exists(f"/proc/{place.pid}"))
    assert not here()
    assert not os.path.exists(place.path)


def test_failed_task_waits_for_a_debugger_where_it_is_told_to(session):
    ref = fails.options(runtime_env={"env_vars": {"ZRAY_DEBUG_POST_MORTEM": "1"}}).remote(3)
    output = attached("fails", "p divisor", "w", "c")
    assert "-> return number / divisor" in output
    assert "(zray-pdb) 0\n" in output
    assert "/zray/" not in output
    with pytest.raises(ZeroDivisionError):
        zray.get(ref)
    assert not here()
