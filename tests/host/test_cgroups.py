"""Limits of cgroups on the CPUs, the memory and the default object store of a session."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.scripts import ROOT, environment
from zray.host.process import machine_resources
from zray.host.process.machine_resources import Cgroups

MB = 1_000_000
UNLIMITED_OLD = 9_223_372_036_854_771_712  # of version 1
MOUNT = "31 23 0:28 {root} {point} rw,relatime - {kind} {kind} rw,{options}"


class Tree:
    """Files of cgroups in a folder that stands for `/`."""

    def __init__(self, folder):
        self.root = folder
        (folder / "proc/self").mkdir(parents=True)
        self.mounts = ["30 1 0:1 / / rw - ext4 /dev/sda rw", "not a mount"]
        self.paths = ["nonsense"]

    def mount(self, point, options="", kind="cgroup2", root="/"):
        self.mounts.append(MOUNT.format(point=point, root=root, kind=kind, options=options))
        (self.root / "proc/self/mountinfo").write_text("\n".join(self.mounts))

    def join(self, line):
        self.paths.append(line)
        (self.root / "proc/self/cgroup").write_text("\n".join(self.paths))

    def write(self, folder, **limits):
        """limits: names of files with _ for each dot."""
        path = self.root / folder.lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        for name, text in limits.items():
            (path / name.replace("_", ".", 1)).write_text(f"{text}\n")

    @property
    def cgroups(self):
        return Cgroups(str(self.root))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def unified(tree):
    """Version 2, three levels deep, without limits."""
    tree.mount("/sys/fs/cgroup")
    tree.join("0::/slurm/job_1/step_0")
    for folder in ("slurm", "slurm/job_1", "slurm/job_1/step_0"):
        tree.write(f"/sys/fs/cgroup/{folder}", cpu_max="max 100000", memory_max="max", memory_high="max")
    return tree


@pytest.fixture
def legacy(tree):
    """Version 1, with the tree of version 2 beside it that has no controllers."""
    tree.mount("/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct", "cgroup")
    tree.mount("/sys/fs/cgroup/memory", "memory", "cgroup")
    tree.mount("/sys/fs/cgroup/unified")
    for line in ("4:memory:/slurm/job_1", "2:cpu,cpuacct:/slurm/job_1", "1:name=systemd:/user", "0::/slurm"):
        tree.join(line)
    for folder in ("", "slurm", "slurm/job_1"):
        tree.write(f"/sys/fs/cgroup/memory/{folder}", memory_limit_in_bytes=UNLIMITED_OLD)
        tree.write(f"/sys/fs/cgroup/cpu,cpuacct/{folder}", cpu_cfs_quota_us=-1, cpu_cfs_period_us=100_000)
    return tree


LEVELS = ["slurm", "slurm/job_1", "slurm/job_1/step_0"]


@pytest.mark.parametrize("level", LEVELS)
def test_quota_of_each_level_of_version_2_counts(unified, level):
    unified.write(f"/sys/fs/cgroup/{level}", cpu_max="150000 100000")
    assert unified.cgroups.cpus() == 1.5


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["memory_max", "memory_high"])
def test_memory_limit_of_each_level_of_version_2_counts(unified, level, name):
    unified.write(f"/sys/fs/cgroup/{level}", **{name: 700 * MB})
    assert unified.cgroups.memory_bytes() == 700 * MB


def test_tightest_limit_counts_wherever_it_lies(unified):
    for cpus, memory, level in ((4, 900, LEVELS[0]), (2, 800, LEVELS[1]), (3, 850, LEVELS[2])):
        unified.write(f"/sys/fs/cgroup/{level}", cpu_max=f"{cpus * 1000} 1000", memory_max=memory * MB)
    unified.write("/sys/fs/cgroup/other", cpu_max="1 1000", memory_max=MB)  # no cgroup of ours
    assert unified.cgroups.cpus() == 2.0
    assert unified.cgroups.memory_bytes() == 800 * MB


@pytest.mark.parametrize("level", ["", "slurm", "slurm/job_1"])
def test_limits_of_each_level_of_version_1_count(legacy, level):
    legacy.write(f"/sys/fs/cgroup/cpu,cpuacct/{level}", cpu_cfs_quota_us=50_000)
    legacy.write(f"/sys/fs/cgroup/memory/{level}", memory_limit_in_bytes=700 * MB)
    assert legacy.cgroups.cpus() == 0.5
    assert legacy.cgroups.memory_bytes() == 700 * MB


def test_absent_limits_are_none(unified, tmp_path):
    for found in (unified.cgroups, Cgroups(str(tmp_path / "no such folder"))):
        assert (found.cpus(), found.memory_bytes()) == (0.0, None)


def test_unlimited_cgroups_of_version_1_leave_all_of_the_machine(legacy):
    assert machine_resources.cpu_count(str(legacy.root)) == len(os.sched_getaffinity(0))
    assert machine_resources.memory_bytes(str(legacy.root)) == machine_resources.memory_bytes(
        str(legacy.root / "no such folder")
    )


@pytest.mark.parametrize("path", ["/docker/abc", "/docker/abc/inner", "/elsewhere", "/../../host"])
def test_container_that_sees_its_own_part_of_the_tree_has_its_limit(tree, path):
    """The mount's root is the container's cgroup, or the path is the host's name for it."""
    tree.mount("/sys/fs/cgroup", root="/docker/abc")
    tree.join(f"0::{path}")
    tree.write("/sys/fs/cgroup", memory_max=500 * MB)
    tree.write("/sys/fs/cgroup/inner", memory_max=400 * MB)
    assert tree.cgroups.memory_bytes() == (400 if path.endswith("inner") else 500) * MB


def test_mount_point_with_a_space_is_found(tree):
    tree.mount("/my\\040cgroups")
    tree.join("0::/a")
    tree.write("/my cgroups/a", cpu_max="100000 100000")
    assert tree.cgroups.cpus() == 1.0


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "\xff", "100000"])
def test_files_that_say_something_else_are_no_limits(unified, text):
    unified.write("/sys/fs/cgroup/slurm", cpu_max=text)
    unified.write("/sys/fs/cgroup/slurm", memory_max="" if text == "100000" else text)
    assert (unified.cgroups.cpus(), unified.cgroups.memory_bytes()) == (0.0, None)


def test_defaults_of_a_node_follow_the_limits(unified):
    """A CPU and a half is two CPUs; the store and the memory for tasks share what there is."""
    unified.write("/sys/fs/cgroup/slurm", cpu_max="50000 100000", memory_max=100 * MB)
    root = str(unified.root)
    assert machine_resources.cpu_count(root) == 1
    assert machine_resources.store_bytes(root) <= 30 * MB < machine_resources.store_bytes(root) + 4096
    assert machine_resources.work_bytes(root) <= 70 * MB < machine_resources.work_bytes(root) + (1 << 20)


def test_store_larger_than_the_memory_limit_is_warned_of(unified):
    unified.write("/sys/fs/cgroup/slurm", memory_max=4 * MB)
    root = str(unified.root)
    assert machine_resources.why_store_is_too_large(4 * MB, root) == ""
    assert "this process may use 4,000,000 bytes of memory" in machine_resources.why_store_is_too_large(5 * MB, root)


# By controller: limits of one CPU and 700 MB.
REAL_LIMITS = {
    "": {"cpu.max": "100000 100000", "memory.max": 700 * MB},
    "cpu": {"cpu.cfs_quota_us": 100_000},
    "memory": {"memory.limit_in_bytes": 700 * MB},
}


@pytest.fixture
def nested():
    """(files that take processes of real inner cgroups, names of the limits of the outer ones)."""
    folders, made, joins, limited = Cgroups().folders, [], [], []
    try:
        for controller, limits in REAL_LIMITS.items():
            if not folders.get(controller):
                continue
            outer = Path(folders[controller][0], f"zray-test-{uuid.uuid4().hex}")
            os.mkdir(outer)
            made.append(outer)
            if not all((outer / name).exists() for name in limits):
                continue  # this tree has not these controllers
            for name, limit in limits.items():
                (outer / name).write_text(str(limit))
            os.mkdir(outer / "inner")
            made.append(outer / "inner")
            joins.append(outer / "inner" / "cgroup.procs")
            limited += [name.partition(".")[0] for name in limits]
        if not joins:
            pytest.skip("no cgroup controller for CPUs and memory can be limited here")
        yield joins, limited
    except OSError as error:
        pytest.skip(f"no nested cgroup can be made here: {error}")
    finally:
        for folder in reversed(made):
            os.rmdir(folder)


def test_process_in_a_nested_cgroup_sees_the_limits_above_it(nested):
    joins, limited = nested
    code = """
import os, sys
for path in sys.argv[1:]:
    try:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
    except OSError as error:
        print(error)
        sys.exit()
from zray.host.process import machine_resources
print(machine_resources.cpu_count(), machine_resources.memory_bytes())
"""
    command = [sys.executable, "-c", code, *map(str, joins)]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=40)
    if "Errno" in done.stdout:
        pytest.skip(f"no process can join a nested cgroup here: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr
    cpus, memory = map(int, done.stdout.split())
    assert cpus == 1 or "cpu" not in limited
    assert memory <= 700 * MB or "memory" not in limited
