"""A session that `zray start --head` has started outlives its drivers, and they leave nothing in it."""

import os
import re
import signal
import subprocess

import pytest

from tests.cli.commands import command_line, statuses, zray
from tests.gates import Gate, until
from tests.scripts import ROOT, environment, run_script, start_script


@pytest.fixture
def head(nothing_left):
    """A lasting session of two CPUs; its name."""
    before = set(statuses())
    started = zray("start", "--head", "--num-cpus", "2", "--resources", '{"disk": 1.5}')
    assert started.returncode == 0, started.stderr
    (name,) = set(statuses()) - before
    assert f"session {name}" in started.stdout and 'zray.init(address="auto")' in started.stdout
    yield name
    stopped = zray("stop", name)
    assert (stopped.returncode, stopped.stdout) == (0, f"Session {name} has ended.\n"), stopped.stderr
    assert name not in statuses()


def test_one_that_stands_still_is_killed_at_once(nothing_left):
    before = set(statuses())
    assert zray("start", "--head", "--num-cpus", "1").returncode == 0
    found = statuses()
    (name,) = set(found) - before
    os.kill(found[name]["node_pid"], signal.SIGSTOP)
    stopped = zray("stop", "--force", name)
    assert (stopped.returncode, stopped.stdout) == (0, f"Session {name} was killed.\n"), stopped.stderr
    assert name not in statuses()


def is_empty(fact, cpus=2.0):
    """Whether no driver has left anything: all is free, nothing is stored, nobody works."""
    counts = fact["counts"]
    left = [counts[name] for name in ("jobs", "tasks", "store_used_bytes", "store_objects")]
    if cpus == 2.0:
        left += [counts["actors"], counts["objects"]]
    return fact["resources"]["CPU"]["free"] == cpus and not any(left)


def wait_until_empty(name, cpus=2.0):
    try:
        until(lambda: is_empty(statuses()[name], cpus))
    except AssertionError:
        raise AssertionError(f"left in the session: {statuses()[name]}") from None


FIRST = """
    import numpy as np
    import zray
    zray.init(address="auto", namespace="shop")

    @zray.remote
    class Till:
        def __init__(self):
            self.total = 0
        def add(self, amount):
            self.total += amount
            return self.total

    @zray.remote
    def double(array):
        return 2 * array

    lasting = Till.options(name="lasting", lifetime="detached", num_cpus=1).remote()
    passing = Till.options(name="passing").remote()
    large = zray.put(np.ones(1_000_000))
    small = [zray.put(i) for i in range(10)]
    result = double.remote(large)
    print(zray.get([lasting.add.remote(3), passing.add.remote(1)]), zray.get(result).sum())
    unread = [double.remote(large) for _ in range(5)]
"""

SECOND = """
    import zray
    zray.init(address="auto", namespace="shop")
    till = zray.get_actor("lasting")
    print(zray.get(till.add.remote(4)))
    try:
        zray.get_actor("passing")
    except ValueError:
        print("passing has passed")
    zray.kill(till)
"""


def test_drivers_come_and_go_and_a_detached_actor_stays(head, tmp_path):
    first = run_script(tmp_path, FIRST)
    assert (first.returncode, first.stdout) == (0, "[3, 1] 2000000.0\n"), first.stderr
    wait_until_empty(head, cpus=1.0)
    assert statuses()[head]["counts"]["actors"] == 1

    second = run_script(tmp_path, SECOND)
    assert (second.returncode, second.stdout) == (0, "7\npassing has passed\n"), second.stderr
    wait_until_empty(head)


def test_a_driver_that_becomes_another_program_has_left(head, tmp_path):
    first = (
        FIRST
        + """
    import os
    os.execvp("sleep", ["sleep", "1000"])
    """
    )
    with start_script(tmp_path, first) as program:
        try:
            assert program.stdout.readline() == "[3, 1] 2000000.0\n"
            wait_until_empty(head, cpus=1.0)
            assert program.poll() is None
        finally:
            program.kill()
    second = run_script(tmp_path, SECOND)
    assert (second.returncode, second.stdout) == (0, "7\npassing has passed\n"), second.stderr
    wait_until_empty(head)


BUSY = """
    import sys
    sys.path.insert(0, {root!r})
    import numpy as np
    import zray
    from tests.gates import Gate, forever
    zray.init(address="auto")

    @zray.remote
    def work(gate, array):
        Gate(gate).open()
        forever()

    @zray.remote(num_cpus=1)
    class Worker:
        def work(self, gate):
            Gate(gate).open()
            forever()

    array = zray.put(np.ones(1_000_000))
    actor = Worker.remote()
    refs = [actor.work.remote({actor!r}), work.remote({task!r}, array)]
    refs += [work.remote("never", array) for _ in range(100)]
    zray.get(refs)
"""


def test_a_killed_driver_leaves_nothing_in_the_session(head, tmp_path):
    gates = [Gate(tmp_path / "actor"), Gate(tmp_path / "task")]
    driver = start_script(tmp_path, BUSY.format(root=str(ROOT), actor=gates[0].path, task=gates[1].path))
    with driver:
        for gate in gates:
            until(lambda gate=gate: gate.is_open() or driver.poll() is not None)
            assert driver.poll() is None, driver.stderr.read()
        busy = statuses()[head]
        assert busy["resources"]["CPU"]["free"] == 0.0
        assert busy["counts"]["store_used_bytes"] >= 8_000_000
        driver.kill()

    wait_until_empty(head)
    code = "total = zray.cluster_resources(); print(total['CPU'], total['disk'])"
    again = run_script(tmp_path, SECOND.partition("till =")[0] + code)
    assert (again.returncode, again.stdout) == (0, "2.0 1.5\n"), again.stderr


def own_line(script, spoken):
    """The next line that the script prints itself; its workers' lines go to `spoken`."""
    for line in script.stdout:
        if "speaks" not in line:
            return line.strip()
        spoken.append(line)
    raise AssertionError("the script has ended")


def test_two_drivers_at_once_do_not_see_each_other(head, tmp_path):
    """Each has its names, its refs and its workers; the end of one is nothing to the other."""
    code = """
        import os, sys, zray
        zray.init(address="auto")
        @zray.remote
        class Named:
            def pid(self):
                print("speaks")
                return os.getpid()
        named = Named.options(name="same").remote()
        # In one piece: what workers print comes in between otherwise.
        sys.stdout.write(f"{zray.get(named.pid.remote())}\\n")
        sys.stdin.readline()
        sys.stdout.write(f"{zray.get(zray.get_actor('same').pid.remote())}\\n")
    """
    scripts = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        script = tmp_path / str(number) / "script.py"
        script.write_text("\n".join(line[8:] for line in code.splitlines()))
        scripts.append(
            subprocess.Popen(
                [command_line()[0], str(script)],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    with scripts[0], scripts[1]:
        spoken = [[], []]
        pids = [own_line(script, lines) for script, lines in zip(scripts, spoken, strict=True)]
        assert pids[0] != pids[1]
        for script, pid, lines in zip(scripts, pids, spoken, strict=True):
            script.stdin.write("\n")
            script.stdin.flush()
            assert own_line(script, lines) == pid
            lines += script.stdout
            assert len(lines) == 2 and all(f"pid={pid})" in line for line in lines), lines
    wait_until_empty(head)


def test_two_sessions_are_told_apart(head):
    other = zray("start", "--head", "--num-cpus", "1")
    assert other.returncode == 0, other.stderr
    (name,) = set(statuses()) - {head}
    unclear = zray("stop")
    assert unclear.returncode == 2
    assert head in unclear.stderr and name in unclear.stderr
    assert zray("stop", name).returncode == 0
    assert list(statuses()) == [head]


def test_a_further_start_says_what_runs_already_and_what_auto_will_join(head, tmp_path):
    """Standard output stays what it is with the first; the note is on standard error, and as true as init."""
    first = statuses()[head]["node_pid"]
    other = zray("start", "--head", "--num-cpus", "1")
    assert other.returncode == 0, other.stderr
    (name,) = set(statuses()) - {head}
    try:
        assert other.stdout.startswith(f"zray runs: session {name}, head of ") and head not in other.stdout
        assert re.search(rf"^  {head}  started \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d, node pid {first}$", other.stderr, re.M)
        assert f'init(address="auto") joins the newest, {name}' in other.stderr
        assert f"zray stop {head}" in other.stderr
        joined = run_script(tmp_path, 'import zray; print(zray.init(address="auto")["session_name"])')
        assert joined.stdout == f"{name}\n", joined.stderr
    finally:
        assert zray("stop", name).returncode == 0


def test_a_first_start_has_nothing_to_note(start):
    """A session that belongs to a running program is none that anybody could join or stop."""
    start(num_cpus=1)
    started = zray("start", "--head", "--num-cpus", "1")
    try:
        assert (started.returncode, started.stderr) == (0, "")
    finally:
        assert zray("stop").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_blocking_start_ends_its_session(number, nothing_left):
    """A hang-up is what a terminal that is closed sends."""
    with subprocess.Popen(
        command_line("start", "--head", "--num-cpus", "1", "--block"),
        env=environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline().startswith("zray runs: session ")
        assert len(statuses()) == 1
        process.send_signal(number)
        assert process.wait(20) == (-number if number == signal.SIGKILL else 0)
    until(lambda: not statuses())


def test_a_blocking_start_that_is_to_outlive_its_terminal_does():
    """nohup."""
    with subprocess.Popen(
        ["nohup", *command_line("start", "--head", "--num-cpus", "1", "--block")],
        env=environment(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        assert len(statuses()) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_blocking_start_says_that_its_node_has_died():
    with subprocess.Popen(
        command_line("start", "--head", "--num-cpus", "1", "--block"),
        env=environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        (fact,) = statuses().values()
        signal.pidfd_send_signal(os.pidfd_open(fact["node_pid"]), signal.SIGKILL)
        assert process.wait(20) == 1
        assert process.stderr.read() == "Error: The session has ended.\n"


@pytest.mark.slow
def test_a_node_that_does_not_answer_is_killed(nothing_left):
    """A stopped node is not dead, so both the question and the farewell take their time."""
    zray("start", "--head", "--num-cpus", "1")
    (fact,) = statuses().values()
    os.kill(fact["node_pid"], signal.SIGSTOP)
    stopped = zray("stop")
    assert stopped.returncode == 0
    assert "did not answer and was killed" in stopped.stdout


@pytest.mark.parametrize("command", [("status",), ("status", "--format", "json")], ids=" ".join)
def test_a_reader_that_has_enough_is_no_error(command):
    """zray status | head: what is written then finds nobody."""
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        command_line(*command), env=environment(), cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writer)
        assert process.communicate(timeout=30)[1] == ""
