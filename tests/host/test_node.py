"""The node process and its fork server: what they are made of, what they share with others, and how they end."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import zray
from tests.gates import is_running, until, until_ended
from tests.leftovers import SHARED_MEMORY, segments, windows
from tests.scripts import environment, run_script, start_script
from zray.host import context
from zray.roles.local_scheduler.tasks.pool import PRESTARTED_MAX
from zray.store.sweeper import sweep

LEFTOVER_DEADLINE_S = 20.0
NOBODY = 65534


def paths():
    return context.runtime.paths


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def fork_server_pid():
    (pid,) = (child.pid for child in psutil.Process(context.runtime.node_pid).children())
    return pid


def mapped(pid):
    return {line.split()[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "/" in line}


def test_the_fork_server_has_one_thread_and_what_workers_need(start):
    start(num_cpus=2)
    zray.get([zray.remote(lambda: 1).remote() for _ in range(10)])
    pid = fork_server_pid()
    assert os.listdir(f"/proc/{pid}/task") == [str(pid)]
    assert any("numpy" in path for path in mapped(pid))


def test_a_driver_with_threads_starts_a_session(start):
    """Nothing is forked from the driver."""
    import threading

    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(10)]
    for thread in threads:
        thread.start()
    try:
        start(num_cpus=1)
        assert zray.get(zray.remote(lambda: 7).remote(), timeout=20) == 7
    finally:
        done.set()


def test_the_node_has_no_numpy(start, cold_starts):
    start(num_cpus=1)
    zray.get(zray.put(bytes(5_000_000)))
    assert not [path for path in mapped(context.runtime.node_pid) if "numpy" in path]


def test_the_control_modules_import_neither_numpy_nor_anything_that_unpickles():
    code = (
        "import sys; before = set(sys.modules); import zmq; zmq_brings = set(sys.modules) - before\n"
        "import zray.host.node.node\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before - zmq_brings}\n"
        "print(sorted(new & {'numpy', 'cloudpickle', 'pickle', 'msgpack', 'dill'}))"
    )
    result = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert result.stdout.split() == ["[]"], result.stderr


def test_a_node_that_unpickles_ends_and_says_so():
    code = (
        "import pickle, collections\n"
        "from zray.host.process.process_utils import forbid_unpickling\n"
        "data = pickle.dumps(collections.OrderedDict())\n"
        "pickle.loads(data); forbid_unpickling(); pickle.loads(pickle.dumps([1])); print('so far', flush=True)\n"
        "pickle.loads(data); print('not reached', flush=True)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (70, "so far\n")
    assert "OrderedDict" in result.stderr


def test_a_node_that_fails_at_its_start_says_why_to_whoever_started_it(start, monkeypatch, nothing_left):
    """Its log goes with its session."""
    monkeypatch.setattr("zray.host.driver.startup.declared_resources", lambda *declared: None)
    with pytest.raises(zray.exceptions.ClusterLostError, match=r"(?s)did not start.*Traceback.*NoneType"):
        start(num_cpus=1)


def test_only_the_owner_can_open_what_a_session_has(start):
    start(num_cpus=2)
    kept = zray.put(bytes(5_000_000))
    zray.get(zray.remote(lambda: 1).remote())
    root = os.path.dirname(paths().folder)
    logs = Path(paths().logs).resolve()  # a link to the user's kept logs
    assert mode(root) == mode(paths().folder) == mode(logs) == mode(logs.parent) == 0o700
    for path in logs.rglob("*"):
        assert path.is_symlink() or mode(path) == (0o700 if path.is_dir() else 0o600), path
    until(lambda: not windows(paths().name))
    names = [name for name in segments() if paths().name in name]
    assert names and all(mode(SHARED_MEMORY / name) == 0o600 for name in names)
    del kept


def test_semaphores_are_the_owners_alone(leftovers):
    import posix_ipc

    from zray.host.node.worker_processes import Workers
    from zray.host.session.session import Session

    class Quiet(Workers):
        def _order(self, *order):
            pass

    session = Session("0123456789abcdef", "/nowhere")
    workers = Quiet(session, (0, None), lambda message: None, print, lambda: None)
    workers.start("worker-1", 1)
    try:
        assert mode(SHARED_MEMORY / f"sem.zray-{session.name}-w1") == 0o600
        with pytest.raises(posix_ipc.ExistentialError):
            posix_ipc.Semaphore(session.window_name(1), posix_ipc.O_CREX)
    finally:
        workers._forget("worker-1")
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_a_folder_for_temporary_files_with_a_long_name(tmp_path):
    """A Unix socket's name has 107 bytes at most: sessions lie elsewhere then."""
    long = tmp_path / ("long" * 30)
    long.mkdir()
    result = run_script(
        tmp_path,
        f"""
        import os
        os.environ["TMPDIR"] = {str(long)!r}
        import zray as ray
        context = ray.init(num_cpus=1)
        folder = context["session_dir"]
        print(ray.get(ray.remote(lambda: 3).remote()), len(folder) < 80, os.path.isdir(folder))
        ray.shutdown()
        print(os.path.isdir(folder))
        """,
    )
    assert result.stdout.split() == ["3", "True", "True", "False"], result.stderr


def test_a_root_that_others_may_enter_is_refused(tmp_path, monkeypatch):
    root = tmp_path / f"zray-{os.getuid()}"
    root.mkdir(mode=0o755)
    os.chmod(root, 0o755)
    monkeypatch.setenv("ZRAY_TMPDIR", str(tmp_path))
    with pytest.raises(zray.exceptions.ZrayError, match="with mode 0700, but it has mode 755"):
        zray.init(num_cpus=1)
    assert not zray.is_initialized()


@pytest.mark.parametrize("is_link", [True, False])
def test_a_root_that_is_a_link_or_another_users_is_refused(is_link, tmp_path, monkeypatch):
    """Nothing is written there, and its mode stays as it was (docs/security.md, B25 and B26)."""
    root, place = tmp_path / f"zray-{os.getuid()}", tmp_path / "place"
    if is_link:
        place.mkdir(mode=0o700)
        root.symlink_to(place)
    elif os.geteuid() == 0:
        root.mkdir(mode=0o700)
        os.chown(root, NOBODY, NOBODY)
    else:
        pytest.skip("only root can make a folder that is another user's")
    monkeypatch.setenv("ZRAY_TMPDIR", str(tmp_path))
    with pytest.raises(zray.exceptions.ZrayError, match="must be a folder of this user"):
        zray.init(num_cpus=1)
    assert not zray.is_initialized() and not os.listdir(place if is_link else root)


def test_the_end_of_one_session_leaves_its_neighbour_alone(start, tmp_path, leftovers):
    start(num_cpus=1)
    kept = zray.put(bytes(3_000_000))
    code = """
    import time
    import zray as ray
    ray.init(num_cpus=1)
    kept = ray.put(bytes(3_000_000))
    print("up", flush=True)
    time.sleep(1000)
    """
    with start_script(tmp_path, code) as other:
        assert other.stdout.readline() == "up\n"
        other.kill()
    run_script(tmp_path, "import zray as ray; ray.init(num_cpus=1); ray.get(ray.put(1))")
    assert len(zray.get(kept)) == 3_000_000
    assert zray.get(zray.remote(lambda: 1).remote()) == 1


def test_sweeping_takes_the_dead_and_spares_the_living(start, tmp_path):
    """The next session cleans up after a session of which all processes were killed at once."""
    start(num_cpus=1)
    code = """
    import os, psutil, signal
    import zray as ray
    from tests.gates import until
    ray.init(num_cpus=1)
    kept = ray.put(bytes(3_000_000))
    print(ray.init(ignore_reinit_error=True)["session_dir"], flush=True)
    everybody = psutil.Process().children(recursive=True)
    print(*[process.pid for process in everybody], flush=True)
    for process in everybody:
        process.suspend()  # so that none of them can clean up for another
    for process in everybody:
        until(lambda: process.status() == psutil.STATUS_STOPPED)
    for process in everybody:
        process.kill()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    result = run_script(tmp_path, code)
    folder, pids = result.stdout.splitlines()
    assert result.returncode == -signal.SIGKILL, result.stderr
    # Whoever is killed is gone a little later, and holds the session's lock until then.
    until_ended(map(int, pids.split()))
    assert os.path.isdir(folder)
    name = os.path.basename(folder)
    assert any(name in segment for segment in segments())
    swept = sweep(os.path.dirname(folder))
    assert name in swept and not os.path.exists(folder)
    assert not any(name in segment for segment in segments())
    assert paths().name not in swept and os.path.isdir(paths().folder)
    assert zray.get(zray.remote(lambda: 1).remote()) == 1


def test_a_killed_fork_server_is_replaced_and_its_workers_children_end(start):
    start(num_cpus=2)

    @zray.remote
    class Parent:
        def start_process(self, new_session):
            return subprocess.Popen(["sleep", "1000"], start_new_session=new_session).pid

    parents = [Parent.remote(), Parent.remote()]
    pids = zray.get([parent.start_process.remote(i == 1) for i, parent in enumerate(parents)])
    old = fork_server_pid()
    os.kill(old, signal.SIGKILL)
    until(lambda: not any(is_running(pid) for pid in pids), LEFTOVER_DEADLINE_S)
    assert zray.get(zray.remote(lambda: 5).remote(), timeout=20) == 5
    assert fork_server_pid() != old
    for parent in parents:
        with pytest.raises(zray.exceptions.ActorDiedError, match="fork server"):
            zray.get(parent.start_process.remote(False), timeout=20)


def test_children_of_tasks_end_with_the_session_also_in_sessions_of_their_own(tmp_path, leftovers):
    code = """
    import subprocess, sys
    import zray as ray

    @ray.remote
    def start():
        # A daemon in the classical way: its parent is gone at once, and it has left group and session.
        subprocess.run([sys.executable, "-c", "import os,time\\nif os.fork()==0:\\n os.setsid(); time.sleep(1000)"])
        return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid

    ray.init(num_cpus=1)
    ray.get(start.remote())
    {end}
    """
    for end in ("ray.shutdown()", "import os; os.kill(os.getpid(), 9)"):
        run_script(tmp_path, code.replace("{end}", end))
        leftovers.assert_none(LEFTOVER_DEADLINE_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.parametrize("victim", ["node", "fork server"])
def test_nothing_is_left_of_a_session_whose_node_or_fork_server_is_killed(victim, number, tmp_path, leftovers):
    code = """
    import os, psutil, subprocess, sys, threading
    import zray as ray

    @ray.remote
    def start_process():
        return subprocess.Popen(["sleep", "1000"]).pid

    ray.init(num_cpus=2)
    kept = [ray.put(bytes(5_000_000)), start_process.remote()]
    ray.get(kept)
    kept.append(ray.remote(lambda: threading.Event().wait()).remote())
    node = psutil.Process().children()[0]
    victim = node if "{victim}" == "node" else node.children()[0]
    victim.send_signal({number})
    psutil.wait_procs([victim], timeout=10)
    print("killed", flush=True)
    sys.stdin.readline()
    os._exit(0)
    """
    code = code.replace("{victim}", victim).replace("{number}", str(int(number)))
    with start_script(tmp_path, code, stdin=subprocess.PIPE) as driver:
        assert driver.stdout.readline() == "killed\n", driver.stderr.read()
        if victim == "node":
            # The driver lives on, and nothing else does.
            until(lambda: [line for line in leftovers.found() if "script.py" not in line] == [], LEFTOVER_DEADLINE_S)
        driver.stdin.write("\n")
        driver.stdin.flush()
        driver.wait(20)
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_a_fork_server_that_dies_too_often_ends_the_session_with_a_reason(start):
    start(num_cpus=1)
    with pytest.raises(zray.exceptions.ClusterLostError):
        for _ in range(100):  # more than enough, also where a value comes back before the death is noticed
            with contextlib.suppress(psutil.NoSuchProcess):  # the node or its child has ended meanwhile
                for child in psutil.Process(context.runtime.node_pid).children():
                    child.kill()
            zray.get(zray.remote(max_retries=-1)(lambda: 1).remote(), timeout=20)


def test_a_driver_that_ignores_the_end_of_its_children(tmp_path):
    """SIGCHLD ignored in the driver is inherited by what it starts: workers' exit codes must still be read."""
    result = run_script(
        tmp_path,
        """
        import os, signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
        import zray as ray
        ray.init(num_cpus=1)
        try:
            ray.get(ray.remote(max_retries=0)(lambda: os._exit(3)).remote(), timeout=20)
        except ray.exceptions.WorkerCrashedError as error:
            print("code 3" in error.exit_text)
        ray.shutdown()
        """,
    )
    assert result.stdout.split() == ["True"], result.stderr


def test_a_fork_server_that_takes_no_more_orders_holds_up_nobody(start):
    """Its end of the socket takes some 280; both would wait for each other."""
    start(num_cpus=1)
    (fork_server,) = psutil.Process(context.runtime.node_pid).children()
    actor = zray.remote(num_cpus=0)(type("Plain", (), {"pid": lambda self: os.getpid()}))
    fork_server.suspend()
    try:
        actors = [actor.remote() for _ in range(400)]
        assert zray.cluster_resources()["CPU"] == 1.0  # the node answers
        kept = actors[-1]
        del actors
    finally:
        fork_server.resume()
    assert zray.get(kept.pid.remote(), timeout=50) > 0


def test_a_session_of_very_many_cpus_begins_at_once(start):
    start(num_cpus=1_000)
    assert zray.get(zray.remote(lambda: 7).remote(), timeout=30) == 7
    (fork_server,) = psutil.Process(context.runtime.node_pid).children()
    assert len(fork_server.children()) <= 2 * PRESTARTED_MAX
