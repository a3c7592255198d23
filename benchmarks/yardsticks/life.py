"""Cost of a session's life: modules, the import, start and end, memory at rest."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..processes import Program, anonymous_bytes, parent_of, run_program
from .names import NotThere

IMPORTS, SESSIONS = 21, 6
# A process at rest gives back what it has freed within so long.
REST_SECONDS = 4.0
END_SECONDS = 20.0
PR_SET_CHILD_SUBREAPER = 36

IMPORT = """
before, begun = len(sys.modules), time.process_time()
importlib.import_module(MODULE)
report([time.process_time() - begun, len(sys.modules) - before])
"""

LIFE = """
import zray
zray.init(num_cpus=1, log_to_driver=False)
def one():
    return 1
assert zray.get(zray.remote(one).remote()) == 1
zray.shutdown()
report("done")
"""

# A node writes down how many modules it has when a signal comes: it is given a handler with its program.
COUNT = """
import os
folder = OPTIONS.get("folder")
LISTEN = '''
import signal, sys
def write_count(number, frame, path={folder!r} + "/"):
    import os
    path += str(os.getpid())
    with open(path + ".new", "w") as file:
        file.write(str(len(sys.modules)))
    os.rename(path + ".new", path)
signal.signal(signal.SIGUSR2, write_count)
'''
spawn = os.posix_spawn
def spawn_listener(path, argv, *others, **options):
    argv = list(argv)
    if "-c" in argv:
        place = argv.index("-c") + 1
        argv[place] = LISTEN.format(folder=folder) + argv[place]
    return spawn(path, argv, *others, **options)
if folder:
    os.posix_spawn = spawn_listener
import zray
zray.init(num_cpus=1, log_to_driver=False)
def look():
    import os, sys
    return os.getpid(), os.getppid(), len(sys.modules)
report([*zray.get(zray.remote(look).remote()), len(sys.modules)])
input()
zray.shutdown()
"""


def life(scale: float) -> dict[str, float]:
    """All of them."""
    times, counts = zip(*(run_program("zray", IMPORT) for _ in range(max(3, int(IMPORTS * scale)))), strict=True)
    found = {"import.cpu": statistics.median(times) * 1e3, "import.modules": counts[0]}
    found["session.cpu"] = session_seconds(max(1, int(SESSIONS * scale))) * 1e3
    return found | modules() | memory(REST_SECONDS * min(1.0, scale))


def session_seconds(count: int) -> float:
    """CPU seconds of all processes of a program with one task: those that outlive their parents come to this one."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(count):
        run_program("zray", LIFE)
        wait_until(are_reaped, "processes of a session have not ended")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / count


def are_reaped() -> bool:
    """Whether this process has no child any more; those that have ended are taken note of."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    """Wait for it.

    Raises:
        NotThere: it takes too long.
    """
    deadline = time.monotonic() + END_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise NotThere(f"{otherwise} after {END_SECONDS:g} s")
        time.sleep(0.01)


def modules() -> dict[str, float]:
    """Modules of each process of a session."""
    with tempfile.TemporaryDirectory(prefix="yardsticks-") as folder, Program("zray", COUNT, folder=folder) as program:
        _, fork_server, of_worker, of_driver = program.next_report()
        node = parent_of(fork_server)
        os.kill(node, signal.SIGUSR2)
        file = Path(folder, str(node))
        wait_until(file.exists, "the node has not counted its modules")
        of_node = int(file.read_text())
        program.go_on()
    return {"driver.modules": of_driver, "worker.modules": of_worker, "node.modules": of_node}


def memory(rest_seconds: float) -> dict[str, float]:
    """Memory of each process of a session after a task and a rest."""
    with Program("zray", COUNT) as program:
        worker, fork_server, *_ = program.next_report()
        time.sleep(rest_seconds)
        named = {"node": parent_of(fork_server), "fork_server": fork_server, "worker": worker}
        found = {f"{name}.memory": anonymous_bytes(process) / 1e6 for name, process in named.items()}
        program.go_on()
    return found
