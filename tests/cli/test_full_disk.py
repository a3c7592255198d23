"""The disk under a head's state is full: who waits, `zray status` and the head's log say so, and it goes on by itself.

No disk is filled: the head may write no file any longer than its shard's log is (RLIMIT_FSIZE), and later may.
"""

import json
import os
import re
import resource
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.commands import command_line, statuses, zray
from tests.cli.test_cluster import start
from tests.gates import until
from tests.scripts import environment, from_outside, start_script

PROGRAM = """
    import sys, threading
    import zray
    from zray.host.client import slow_wait_report

    slow_wait_report.SAID_AFTER = (1.0,)
    zray.init(address=sys.argv[1], namespace="it")
    code = "of some length" * 5_000

    @zray.remote
    def length(value):
        return len(code) and len(value)

    value = zray.put(b"v" * 200_000)
    assert zray.get(length.remote(value)) == 200_000
    print("ready", flush=True)
    sys.stdin.readline()
    group = []
    asking = threading.Thread(target=lambda: group.append(zray.util.placement_group([{"CPU": 1}])))
    asking.start()
    print(zray.get(length.remote(value)), flush=True)
    asking.join()
    zray.get(group[0].ready(), timeout=20)
    print("and a group", flush=True)
"""


def limit_files(pid, size):
    """Of that process, in bytes."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture
def head(nothing_left, tmp_path):
    """Its state folder, and how it is reached: (folder, address, token)."""
    folder = tmp_path / "state"
    printed = start("--head", "--port", "0", "--num-cpus", "2", "--state-dir", str(folder))
    address, token = re.search(r"ZRAY_TOKEN=(\S+) zray start --address (\S+)", printed).group(2, 1)
    yield folder, address, token
    assert zray("stop", "--all").returncode == 0


@pytest.mark.timeout(120)
def test_it_is_said_wherever_one_looks_and_goes_on_when_there_is_room(head, tmp_path):
    folder, address, token = head
    reader = re.search(r"[\w-]{40,}", zray("keys", "reader").stdout).group()
    (fact,) = statuses().values()
    pid, log = fact["node_pid"], Path(fact["logs"], "node.log")
    variables = from_outside(SimpleNamespace(token=token), tmp_path)
    program = start_script(tmp_path, PROGRAM.replace("sys.argv[1]", repr(address)), variables, stdin=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "ready\n"
        shard_log = next((folder / "gcs-0" / "0").glob("log-*"))
        assert os.path.getsize(shard_log) > 2 * os.path.getsize(log) + 10_000  # that one is written on
        limit_files(pid, os.path.getsize(shard_log))
        program.stdin.write("\n")
        program.stdin.flush()
        stall = (
            f"GCS shard 0 cannot write its log: File too large ({folder}/gcs-0/0), on the head's machine; requests "
            "to it wait until it can, and continue by themselves"
        )
        noted = "task length moves to another node when the GCS has recorded the task and its arguments"
        waits = ""
        while not ("a question to the node has waited" in waits and noted in waits and waits.count(stall) == 2):
            line = program.stderr.readline()
            assert line, waits
            waits += line
        assert stall in zray("status").stdout.splitlines()
        assert [fact["stalls"] for fact in statuses().values()] == [[stall]]
        seen = subprocess.run(
            command_line("status", "--address", address, "--format", "json"),
            env={**environment(), "ZRAY_TOKEN": reader},
            capture_output=True,
            text=True,
            timeout=40,
        )
        assert json.loads(seen.stdout)["stalls"] == [stall], seen.stderr
        refused = f"GCS shard 0 cannot write its log in {folder}/gcs-0/0: File too large; tasks and actors wait"
        assert log.read_text().count(refused) == 1 and "again" not in log.read_text()
        limit_files(pid, resource.RLIM_INFINITY)
        printed, errors = program.communicate(timeout=40)
        assert (printed, program.returncode) == ("200000\nand a group\n", 0), errors
    finally:
        program.kill()
        program.communicate()
    again = rf"GCS shard 0 can write its log in {re.escape(str(folder))}/gcs-0/0 again, after \d+ s"
    assert re.search(again, log.read_text()) and log.read_text().count(refused) == 1
    until(lambda: all(not fact["stalls"] for fact in statuses().values()))
