"""The log under kill -9, and on a disk that is really full."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import ROOT
from tests.store.log_writer import record
from zray.store.log import Log

WRITER = [sys.executable, "-m", "tests.store.log_writer"]


def start(folder, snapshot_every, *prefix):
    return subprocess.Popen(
        [*prefix, *WRITER, folder, str(snapshot_every)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def end(writer):
    """kill -9.  Returns the last thing that it has said."""
    writer.kill()
    said = writer.stdout.read().split("\n")[:-1]  # a line that is cut off says nothing
    writer.wait()
    writer.stdin.close()
    writer.stdout.close()
    return said[-1] if said else ""


def check(folder):
    """Returns the last sequence; every record is what it was."""
    log = Log(folder)
    known = int(next((entry.payload for entry in log.snapshot()), b"0"))
    for entry in log.records():
        assert entry.payload == record(entry.sequence), entry.place
        known += 1
        assert entry.sequence == known
    assert known == log.last
    log.close()
    return known


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path):
    folder = str(tmp_path / "gcs")
    acknowledged = 0
    for round_number in range(12):
        writer = start(folder, 100 if round_number % 2 else 1 << 40)
        assert int(writer.stdout.readline()) >= acknowledged
        for _ in range(1 + round_number * 9 % 60):
            acknowledged = int(writer.stdout.readline())
        acknowledged = int(end(writer) or acknowledged)
        assert check(folder) >= acknowledged
    assert acknowledged > 500


def mounts():
    """Whether this user may mount in a namespace of their own."""
    words = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]
    try:
        return subprocess.run(words, capture_output=True, timeout=20).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not mounts(), reason="this user may not mount a small disk")
def test_a_disk_that_is_full_and_then_is_not(tmp_path):
    mount = tmp_path / "disk"
    mount.mkdir()
    fill = f"head -c 200k /dev/zero > {mount}/filler"
    words = f'mount -t tmpfs -o size=256k none {mount} && {fill} && exec "$@"'
    writer = start(f"{mount}/gcs", 1 << 40, "unshare", "--mount", "sh", "-c", words, "sh")
    try:
        inside = Path(f"/proc/{writer.pid}/root{mount}")  # the disk as the writer sees it
        before = [line.strip() for line in iter(writer.stdout.readline, "full\n")][-1]
        shutil.copytree(inside / "gcs", tmp_path / "full")
        assert check(str(tmp_path / "full")) == int(before) > 100
        (inside / "filler").unlink()
        writer.stdin.write("go on\n")
        writer.stdin.flush()
        after = [line.strip() for line in iter(writer.stdout.readline, "full\n")][-1]
        assert int(after) > 3 * int(before)
        shutil.copytree(inside / "gcs", tmp_path / "again")
        assert check(str(tmp_path / "again")) == int(after)
    finally:
        end(writer)
