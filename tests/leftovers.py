"""What a zray that has ended must not leave behind: processes, shared memory, session folders."""

import gc
import os
from pathlib import Path

from tests.gates import is_running, until

SHARED_MEMORY = Path("/dev/shm")
# What a process may open once, for all the links it will have: pyzmq's thread for what is sent without a copy has a
# context of its own (7).
WAITS_KEPT_MAX = 12


def processes_marked(mark):
    """Other processes that were started with `mark` in their environment: {pid: command line}."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            if pid != os.getpid() and mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if is_running(pid):
                    found[pid] = command.strip()
        except OSError:
            continue  # It ended meanwhile, or is not ours to read.
    return found


def segments():
    """The names of zray's segments and semaphores in shared memory."""
    if not SHARED_MEMORY.is_dir():
        return set()
    return {path.name for path in SHARED_MEMORY.iterdir() if "zray" in path.name}


def windows(session):
    """The semaphores whose workers have not opened them yet: the names go when they have."""
    return {name for name in segments() if name.startswith("sem.") and session in name}


def segments_of_strangers(mark):
    """Segments that a process outside this run has mapped: another zray on this machine."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                continue
            for line in (folder / "maps").read_text().splitlines():
                if "/dev/shm/" in line and "zray" in line:
                    found.add(line.partition("/dev/shm/")[2].split()[0])
        except OSError:
            continue
    return found


def wait_descriptors():
    """How many eventfds, epolls and pidfds this process holds: what each link to a node needs."""
    count = 0
    for path in Path("/proc/self/fd").iterdir():
        try:
            count += os.readlink(path).startswith("anon_inode:")
        except FileNotFoundError:
            continue  # of this very listing
    return count


class Leftovers:
    """Compares what is here with what was here when it was made."""

    def __init__(self, mark, folder):
        self.mark = mark
        self.folder = folder
        self.processes_before = set(processes_marked(mark))
        self.folders_before = set(folder.glob("*zray*"))
        self.segments_before = segments()
        self.waits_before = wait_descriptors()

    def found(self):
        """A line for each thing that is left."""
        lines = [
            f"process {pid}: {command}"
            for pid, command in processes_marked(self.mark).items()
            if pid not in self.processes_before
        ]
        new = segments() - self.segments_before
        if new:
            lines += [f"segment {name}" for name in sorted(new - segments_of_strangers(self.mark))]
        for path in sorted(set(self.folder.glob("*zray*")) - self.folders_before):
            # A listing ends where the folder is removed meanwhile.
            names = [os.path.join(folder, name) for folder, _, files in os.walk(path) for name in ("", *files)]
            inside = [os.path.relpath(name, path) for name in names]
            lines.append(f"folder {path} with {sorted(inside)}")
        more = wait_descriptors() - self.waits_before
        if more > WAITS_KEPT_MAX:
            gc.collect()  # what only a cycle holds is not left
            more = wait_descriptors() - self.waits_before
        if more > WAITS_KEPT_MAX:
            lines.append(f"{more} descriptors of events, polls and processes in this process")
        return lines

    def assert_none(self, deadline_s):
        """Wait until nothing is left; AssertionError with a list when something stays."""
        try:
            until(lambda: not self.found(), deadline_s)
        except AssertionError:
            left = self.found()
            assert not left, "left behind: " + "; ".join(left)
