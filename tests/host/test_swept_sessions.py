"""What is left of sessions whose processes were all killed, and whose folders are gone too."""

import os
import shutil
import signal
import subprocess
import sys

from tests.gates import until
from tests.leftovers import processes_marked
from zray.store.segment import segments_of

LASTING = """
import numpy, sys, zray
from zray.host import context
zray.init(num_cpus=1)
ref = zray.put(numpy.ones(1_000_000))
print(context.runtime.session, flush=True)
sys.stdin.read()
"""
BRIEF = "import zray; zray.init(num_cpus=1); zray.shutdown()"


def kill_all(mark):
    """At once, so that none removes anything for another."""
    pids = list(processes_marked(mark))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert len(pids) >= 3  # driver, node, fork server
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not processes_marked(mark))


def test_next_init_sweeps_the_memory_of_a_session_that_was_killed_with_its_folder(request):
    """The next program has another TMPDIR, too."""
    folders = [request.config.zray_folder / f"s{number}" for number in range(2)]
    for folder in folders:
        folder.mkdir()
    mark = f"ZRAY_TEST_SWEPT={os.urandom(4).hex()}"
    name, value = mark.split("=")
    environment = {**os.environ, "TMPDIR": str(folders[0]), name: value}
    killed = subprocess.Popen(
        [sys.executable, "-c", LASTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    with killed:
        try:
            session = killed.stdout.readline().decode().strip()
            kill_all(mark)
        finally:
            killed.kill()
    shutil.rmtree(folders[0])
    assert len(segments_of(session)) == 1
    environment = {**os.environ, "TMPDIR": str(folders[1])}
    subprocess.run([sys.executable, "-c", BRIEF], check=True, timeout=60, env=environment)
    assert segments_of(session) == []
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
