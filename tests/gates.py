"""Order between processes without sleeping: doors, counters, and conditions with a deadline."""

import os
import select
import threading
import time
from pathlib import Path

STEP_S = 0.002
# A look may ask a node: after so many looks, further ones come at a distance that leaves others the machine.
EARLY_LOOKS, LATE_STEP_S = 25, 0.01
# A look and a step that take longer than this: the machine stood still, or had no time for us.
STALL_S = 0.1
DEADLINE_S = 20.0


def until(condition, deadline_s=DEADLINE_S):
    """Wait for a condition to become true and return its value; AssertionError when it does not.

    Stalls of the machine do not count towards the deadline, up to as much time again.
    """
    left, now = deadline_s, time.monotonic()
    end, looks = now + 2 * deadline_s, 0
    while not (value := condition()):
        assert left > 0 and now < end, f"not true after {deadline_s} s: {condition}"
        looks += 1
        threading.Event().wait(STEP_S if looks < EARLY_LOOKS else LATE_STEP_S)
        before, now = now, time.monotonic()
        left -= min(now - before, STALL_S)
    return value


def nothing_is_held():
    """Whether all resources of the session are free; values in the store are not asked for."""
    import zray

    free, total = zray.available_resources(), zray.cluster_resources()
    return {**free, "object_store_memory": 0} == {**total, "object_store_memory": 0}


def forever():
    """What a task does that is there to be killed."""
    threading.Event().wait()


class Gate:
    """A door in the file system: it can be waited at from any process, and pickled."""

    def __init__(self, path):
        self.path = str(path)

    def open(self):
        Path(self.path).touch()

    def is_open(self):
        return os.path.exists(self.path)

    def wait(self, deadline_s=DEADLINE_S):
        until(self.is_open, deadline_s)


class Tally:
    """Counts visits by processes that may be killed: each visit is a file that names its process."""

    def __init__(self, folder):
        self.folder = str(folder)
        os.makedirs(self.folder, exist_ok=True)

    def visit(self):
        """Note a visit; returns its number, from 1 on."""
        number = len(os.listdir(self.folder)) + 1
        while True:
            try:
                handle = os.open(f"{self.folder}/{number:06}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                number += 1
                continue
            os.write(handle, str(os.getpid()).encode())
            os.close(handle)
            return number

    def count(self):
        return len(os.listdir(self.folder))

    def pids(self):
        """The processes that came by, in order; a visitor that has not written yet is left out."""
        texts = [Path(self.folder, name).read_text() for name in sorted(os.listdir(self.folder))]
        return [int(text) for text in texts if text]


def is_running(pid):
    """Whether a process lives; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def until_ended(pids, deadline_s=DEADLINE_S):
    """Wait until processes, whoever's children they are, have ended with all their threads and let go of their files.

    A process whose main thread is a zombie may still hold what another of its threads has in use: a pidfd tells.
    """
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            assert poll.poll(deadline_s * 1000), f"process {pid} has not ended after {deadline_s} s"
        finally:
            os.close(pidfd)
