"""Programs that end by Ctrl-C: their tasks are cancelled, and clean up."""

import signal
import subprocess
import sys
import time

import pytest

from tests.scripts import environment

pytestmark = pytest.mark.timeout(90)

PROGRAM = """
import os, select, sys
import zray as ray

HOW = sys.argv[2]

@ray.remote
def clean(folder, name):
    open(os.path.join(folder, name + ".began"), "w").close()
    try:
        select.select([], [], [], 60)
    finally:
        open(os.path.join(folder, name + ".ended"), "w").close()

@ray.remote
def parent(folder):
    return ray.get(clean.remote(folder, "child"))

def main():
    refs = [clean.remote(sys.argv[1], "one"), parent.remote(sys.argv[1])]
    refs += [clean.remote(sys.argv[1], f"queued-{number}") for number in range(20)]
    ray.get(refs)

if HOW == "exit":
    ray.init(num_cpus=2)
    main()
elif HOW == "with":
    with ray.init(num_cpus=2):
        main()
else:
    ray.init(num_cpus=2)
    try:
        main()
    finally:
        ray.shutdown()
"""


def wait_for(paths, seconds=30):
    deadline = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, [path.name for path in paths if not path.exists()]


@pytest.mark.parametrize("how", ["exit", "with", "finally"])
def test_tasks_of_a_program_that_is_interrupted_clean_up(tmp_path, how):
    program, folder = tmp_path / "program.py", tmp_path / "marks"
    program.write_text(PROGRAM)
    folder.mkdir()
    command = [sys.executable, str(program), str(folder), how]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as running:
        wait_for([folder / "one.began", folder / "child.began"])
        running.send_signal(signal.SIGINT)
        began = time.monotonic()
        text = running.communicate(timeout=30)[1]
    assert time.monotonic() - began < 10
    assert running.returncode == -signal.SIGINT or running.returncode == 130, text
    assert text.rstrip().endswith("KeyboardInterrupt"), text
    names = {path.name for path in folder.iterdir()}
    assert names == {"one.began", "one.ended", "child.began", "child.ended"}
