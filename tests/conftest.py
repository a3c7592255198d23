"""Fixtures for tests with real processes: a session per module, and the check that nothing outlives it."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

from tests.leftovers import Leftovers

# Every process that descends from this run carries this in its environment, also when its parent is gone.
RUN_MARK = f"ZRAY_TEST_RUN={os.getpid()}-{os.urandom(4).hex()}"
LEFTOVER_DEADLINE_S = 20.0
MOUNTED = "zray-tests-"  # the source of a mount, before the pid of its run


# The same examples in every run, on every machine; --hypothesis-profile=random looks for new ones.
# How long the making of an example takes is the machine's business.
PROFILE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("fixed", derandomize=True, **PROFILE)
hypothesis.settings.register_profile("random", **PROFILE)
hypothesis.settings.load_profile("fixed")


def short_folder():
    """Make a folder with a short path: sockets lie below it."""
    return tempfile.mkdtemp(prefix="zt", dir="/tmp" if os.path.isdir("/tmp") else None)


def mount_memory(folder):
    """Let a folder lie in memory where this user may mount a file system, and return whether it does.

    The file system of a disk looks long for a free inode among thousands that were removed a moment ago: 170 us a file,
    which took a tenth of a run.
    """
    if os.geteuid() != 0:
        return False
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, place, *_ = line.split()
        if source.startswith(MOUNTED) and not os.path.exists(f"/proc/{source.removeprefix(MOUNTED)}"):
            subprocess.run(["umount", "--lazy", place], capture_output=True)  # of a run that was killed
    command = ["mount", "-t", "tmpfs", "-o", "mode=0700,size=4g", f"{MOUNTED}{os.getpid()}", folder]
    return subprocess.run(command, capture_output=True).returncode == 0


def pytest_configure(config):
    """Sessions of this run keep their folders in one of its own, with a short path: sockets lie there."""
    # A run in the background of a shell is told to ignore Ctrl-C, and so would be the programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup: this process goes on as it says, and they do not
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    name, value = RUN_MARK.split("=")
    os.environ[name] = value
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # tmp_path stays where it was
    os.environ.pop("XDG_RUNTIME_DIR", None)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # tests declare GPUs where they want some
    # Threads of numpy's library wait without a core: each program that imports numpy would lose 65 ms of one.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    if hasattr(config, "workerinput"):
        config.option.basetemp = None  # the folder of a run of xdist has too long a path for sockets below it
    folder = short_folder()
    config.zray_folder, config.zray_is_mounted = Path(folder), mount_memory(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    logs = os.path.join(folder, "logs")  # not the user's own; gone with the run
    os.environ["ZRAY_LOG_DIR"] = config.zray_logs = logs


def pytest_collection_finish(session):
    """Thousands of collected tests stay until the end: the garbage collector need not look at them each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config):
    """The run's folder goes when it is empty; what stays in it can be looked at."""
    tempfile.tempdir = None
    os.environ.pop("TMPDIR", None)
    os.environ.pop("ZRAY_LOG_DIR", None)
    shutil.rmtree(config.zray_logs, ignore_errors=True)
    remove_caches_of_torch(config.zray_folder)
    if config.zray_folder.is_dir() and not any(config.zray_folder.iterdir()):
        if config.zray_is_mounted:
            subprocess.run(["umount", "--lazy", config.zray_folder], check=True)
        config.zray_folder.rmdir()


def remove_caches_of_torch(folder):
    """Remove what torch leaves in a folder for temporary files."""
    for path in folder.glob("torchinductor_*"):
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def leftovers(request):
    """What is here and was not when the test began: processes, segments, session folders."""
    return Leftovers(RUN_MARK, request.config.zray_folder)


@pytest.fixture
def on_disk(monkeypatch):
    """Sessions of this test keep their folders on a disk, where a full store spills to."""
    folder = short_folder()
    monkeypatch.setenv("TMPDIR", folder)
    yield folder
    remove_caches_of_torch(Path(folder))
    os.rmdir(folder)


@pytest.fixture(scope="session", autouse=True)
def warm_starts():
    """Sessions of this process start from a process that has their modules; not with ZRAY_WARM=0."""
    from tests.warm_commands import commands
    from tests.warm_starts import WarmStarts, is_on

    if not is_on():
        yield
        return
    starts = WarmStarts()
    yield
    starts.end()
    commands.end()


@pytest.fixture
def cold_starts(monkeypatch):
    """Sessions of the test start as those of programs."""
    monkeypatch.setenv("ZRAY_WARM", "0")


@pytest.fixture(scope="module", autouse=True)
def nothing_left(request, warm_starts):
    """After the last test of a module, whatever it did: no process, no segment, no session folder."""
    leftovers = Leftovers(RUN_MARK, request.config.zray_folder)
    yield
    if "zray" in sys.modules and hasattr(sys.modules["zray"], "shutdown"):
        sys.modules["zray"].shutdown()
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


@pytest.fixture(scope="module")
def session(nothing_left):
    """A running zray with two CPUs, shared by the tests of a module."""
    import zray

    with zray.init(num_cpus=2) as context:
        yield context


@pytest.fixture(scope="module", params=["session", "local"])
def mode(request, nothing_left):
    """The tests of a module run twice: in a session, and in local mode."""
    import zray

    with zray.init(num_cpus=2, resources={"disk": 4}, local_mode=request.param == "local", namespace="home"):
        yield request.param


@pytest.fixture
def start(nothing_left):
    """`start(num_cpus=1, ...)` begins a session of the test's own; it ends with the test."""
    import zray

    yield zray.init
    zray.shutdown()


@pytest.fixture
def cluster(nothing_left):
    """A head without CPUs, and two nodes of one each; `cluster.connect()` makes this process its driver."""
    import zray
    from zray.cluster_utils import Cluster

    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster
        zray.shutdown()


@pytest.fixture
def gate(tmp_path):
    """A door that a test opens and that tasks wait at: order without sleeping."""
    from tests.gates import Gate

    return Gate(tmp_path / "gate")
