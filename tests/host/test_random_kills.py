"""kill -9 of anything at any moment: every get has a value or an error with a cause, and nothing is left (issue 2).

ZRAY_KILL_ROUNDS says how many rounds (20), ZRAY_KILL_SEED where to begin (0): a failing round names its seed, and
ZRAY_KILL_SEED=<seed> ZRAY_KILL_ROUNDS=1 plays it again, as far as the machine's scheduling lets it.
"""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.scripts import environment

ROUNDS = int(os.environ.get("ZRAY_KILL_ROUNDS", "20"))
FIRST_SEED = int(os.environ.get("ZRAY_KILL_SEED", "0"))
VICTIMS = ("worker", "worker", "fork server", "node", "driver")
MOMENTS = ("starting", "idle", "busy", "busy", "busy")
LEFTOVER_DEADLINE_S = 20.0
DRIVER_END_S = 50.0


def family(driver):
    """The session's processes by what they are; empty lists while they do not exist."""
    found = {"driver": [driver], "node": [], "fork server": [], "worker": []}
    try:
        found["node"] = driver.children()
        found["fork server"] = [child for node in found["node"] for child in node.children()]
        found["worker"] = [child for server in found["fork server"] for child in server.children()]
    except psutil.NoSuchProcess:
        pass
    return found


def pause(seconds):
    """Not to synchronise: to strike at another moment each time."""
    threading.Event().wait(seconds)


def expect(driver, word):
    """Read up to a line; False: the output is over."""
    for line in driver.stdout:
        if line.strip() == word:
            return True
    return False


def tell(driver, word):
    try:
        driver.stdin.write(f"{word}\n")
        driver.stdin.flush()
    except BrokenPipeError:
        pass  # it was the one to die


def strike(process, victim, pick):
    """kill -9; whether there was one to kill."""
    candidates = family(process)[victim]
    if not candidates:
        return False
    try:
        os.kill(pick.choice(candidates).pid, signal.SIGKILL)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
    return True


def play(seed, log):
    """One round; the driver's exit code and what it wrote to stderr."""
    pick = random.Random(seed)
    victim, moment = pick.choice(VICTIMS), pick.choice(MOMENTS)
    script = Path(__file__).with_name("kill_workload.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(seed)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    ) as driver:
        process = psutil.Process(driver.pid)
        if moment == "starting":
            pause(pick.uniform(0.0, 0.6))
            strike(process, victim, pick)
            expect(driver, "ready")
        else:
            expect(driver, "ready")
            if moment == "idle":
                strike(process, victim, pick)
        tell(driver, "work")
        if moment == "busy":
            expect(driver, "begun")
            for _ in range(pick.choice((1, 1, 1, 3))):
                pause(pick.uniform(0.0, 0.1))
                strike(process, victim, pick)
        tell(driver, "stop")
        try:
            driver.communicate(timeout=DRIVER_END_S)
        except subprocess.TimeoutExpired:
            driver.kill()
            driver.communicate()
            return victim, moment, "hangs"
    return victim, moment, driver.returncode


@pytest.mark.slow
@pytest.mark.timeout(60 + 10 * ROUNDS)
def test_kill_anything_at_any_moment(tmp_path, leftovers):
    for seed in range(FIRST_SEED, FIRST_SEED + ROUNDS):
        path = tmp_path / f"{seed}.err"
        with path.open("w") as log:
            victim, moment, code = play(seed, log)
        where = f"seed {seed}: {victim} killed, {moment}"
        fine = (0, -signal.SIGKILL) if victim == "driver" else (0,)
        assert code in fine, f"{where}: exit {code}\n{path.read_text()}"
        try:
            leftovers.assert_none(LEFTOVER_DEADLINE_S)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from None
