"""The memory of a machine as a node reads it."""

import os

import pytest

from tests.host.test_cgroups import Tree
from zray.host.node.memory_watch import LOOK_SECONDS, SELDOM_SECONDS, MemoryWatch, anonymous_bytes
from zray.host.process.machine_resources import memory_threshold
from zray.roles.work_effects import WatchMemory

MB = 1_000_000


@pytest.fixture
def tree(tmp_path):
    """A machine of 1,024 MB with 512 MB free, and a worker of 40,000 KB."""
    tree = Tree(tmp_path)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: 500000 kB\n")
    (tmp_path / "proc/7").mkdir()
    (tmp_path / "proc/7/status").write_text("Name:\tx\nVmRSS:\t 90000 kB\nRssAnon:\t 40000 kB\n")
    return tree


def watch_of(tree, threshold=0.95):
    return MemoryWatch(threshold, lambda: {"worker-1": 7}, str(tree.root))


def test_machine_without_limits_is_measured_by_what_is_available(tree):
    watch = watch_of(tree)
    assert watch.usage() == (500_000 * 1024, 1_000_000 * 1024)
    assert watch.look() is None and watch.pause == SELDOM_SECONDS


def test_cgroup_of_version_2_counts_without_files_that_the_kernel_can_drop(tree):
    tree.mount("/sys/fs/cgroup")
    tree.join("0::/job")
    tree.write("/sys/fs/cgroup/job", memory_max=400 * MB, memory_current=395 * MB)
    tree.write("/sys/fs/cgroup/job", memory_stat=f"anon 1\ninactive_file {9 * MB}\nactive_file {6 * MB}")
    watch = watch_of(tree)
    assert watch.usage() == (380 * MB, 400 * MB)
    assert watch.look() is None and watch.pause == LOOK_SECONDS


def test_cgroup_of_version_1_is_read_too(tree):
    tree.mount("/sys/fs/cgroup/memory", "memory", kind="cgroup")
    tree.join("5:memory:/job")
    tree.write("/sys/fs/cgroup/memory/job", memory_limit_in_bytes=400 * MB, memory_usage_in_bytes=399 * MB)
    tree.write("/sys/fs/cgroup/memory/job", memory_stat=f"total_inactive_file {4 * MB}\ntotal_active_file 0")
    assert watch_of(tree).usage() == (395 * MB, 400 * MB)


def test_shortage_names_what_workers_and_the_largest_processes_have(tree):
    message = watch_of(tree, threshold=0.25).look()
    assert (message.used, message.limit) == (500_000 * 1024, 250_000 * 1024)
    assert list(message.by_worker) == ["worker-1"]
    assert message.largest.count("GB") == 3


def test_worker_is_over_its_limit_by_what_it_has_grown(tree):
    watch = watch_of(tree)
    watch.watch(WatchMemory({"worker-1": 10 * MB}, False))
    assert watch.look() is None and watch.pause == LOOK_SECONDS
    (tree.root / "proc/7/status").write_text("RssAnon:\t 60000 kB\n")
    assert watch.look().over == {"worker-1": 20_000 * 1024}
    watch.watch(WatchMemory({"worker-1": 30 * MB}, False))
    assert watch.look() is None


def test_threshold_of_one_ends_no_worker(tree):
    assert watch_of(tree, threshold=1.0).look() is None


def test_processes_that_are_gone_have_no_memory():
    assert anonymous_bytes(0) == anonymous_bytes(2**22 + 1) == 0 < anonymous_bytes(os.getpid())


@pytest.mark.parametrize("text", ["0", "1.5", "nan", "much"])
def test_threshold_that_is_no_part_is_refused(monkeypatch, text):
    monkeypatch.setenv("ZRAY_MEMORY_USAGE_THRESHOLD", text)
    with pytest.raises(ValueError, match="ZRAY_MEMORY_USAGE_THRESHOLD must be a number above 0"):
        memory_threshold()
