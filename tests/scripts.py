"""Programs of their own: a script in a folder, run by this Python as a user would."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def environment():
    """Ours, with the project's folder importable.  More threads of torch would spin beside the other tests."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}


def write_script(folder, code):
    path = Path(folder) / "script.py"
    path.write_text(textwrap.dedent(code))
    return path


def run_script(folder, code, timeout_s=40):
    """Run `code` as a script to its end; the result has stdout, stderr and returncode."""
    return subprocess.run(
        [sys.executable, str(write_script(folder, code))],
        env={**environment(), "TUNE_RESULT_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def from_outside(cluster, folder):
    """The variables of a program that is on no machine of the cluster; its session is in a folder of its own."""
    outside = Path(folder) / "outside"
    outside.mkdir(exist_ok=True)
    return {"ZRAY_TOKEN": cluster.token, "ZRAY_TMPDIR": str(outside)}


class Script(subprocess.Popen):
    """In a process group of its own.  A test that fails does not wait for it."""

    def __exit__(self, kind, value, traceback):
        if kind is not None and self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        super().__exit__(kind, value, traceback)


def start_script(folder, code, variables=(), **options):
    """Start `code` as a script in a process group of its own, its output in pipes.

    variables: more of its environment; options as of Popen.
    """
    return Script(
        [sys.executable, str(write_script(folder, code))],
        env=environment() | dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
