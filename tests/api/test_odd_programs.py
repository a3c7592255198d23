"""Programs that do what one would rather not: fork in tasks, raise anything, press Ctrl-C, keep old refs."""

import builtins
import os
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import zray
from tests.gates import until
from tests.scripts import environment, run_script

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
def identity(value):
    return value


@zray.remote(num_cpus=0)
def fail():
    raise KeyError("soon")


class EndsWhenRead:
    def __reduce__(self):
        return sys.exit, (3,)


def store_used():
    from zray.host import context
    from zray.wire.session import GetStatus

    return context.runtime.ask(GetStatus).counts["store_used_bytes"]


def test_a_task_may_fork():
    @zray.remote
    def exits():
        pid = os.fork()
        if pid == 0:
            sys.exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @zray.remote
    def both_return():
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return "child" if pid == 0 else "parent"

    @zray.remote
    def pool():
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(2) as workers:
            return workers.map(abs, [-1, -2])

    refs = [exits.remote(), both_return.remote(), pool.remote()]
    assert zray.get(refs, timeout=20) == [7, "parent", [1, 2]]
    assert zray.get([identity.remote(i) for i in range(20)], timeout=20) == list(range(20))


def test_a_task_runs_in_an_interpreter_like_its_programs():
    """With `site`: exit() is there, the environment is the same, and what tasks start (as loky does) finds packages."""

    @zray.remote
    def seen():
        return sys.prefix, sys.flags.no_site, hasattr(builtins, "exit")

    assert zray.get(seen.remote()) == seen.local()


def test_a_forked_driver_is_told_that_it_is_in_no_session():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            zray.get(identity.remote(1))
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert b"forked" in os.read(read, 1000)
    os.close(read)
    os.close(write)
    assert zray.get(identity.remote(1)) == 1


def test_a_failure_at_the_end_of_a_long_list_is_raised_at_once(gate):
    @zray.remote
    def wait_at():
        gate.wait()

    slow = wait_at.remote()
    with pytest.raises(KeyError):
        zray.get([slow, *[identity.remote(i) for i in range(200)], fail.remote()], timeout=20)
    gate.open()


def test_a_failure_that_is_here_is_raised_before_the_wait(gate):
    @zray.remote
    def wait_at():
        gate.wait()

    failed = fail.remote()
    zray.wait([failed])
    with pytest.raises(KeyError):
        zray.get([wait_at.remote(), failed], timeout=20)
    gate.open()


def test_a_value_that_ends_the_program_when_read():
    @zray.remote
    def make():
        return EndsWhenRead()

    with pytest.raises(zray.exceptions.DeserializationError, match="SystemExit"):
        zray.get(make.remote())


def test_of_several_returns_that_fail_halfway_nothing_stays():
    @zray.remote(num_returns=2)
    def two():
        return np.zeros(1_000_000), threading.Lock()

    for _ in range(3):
        with pytest.raises(TypeError):
            zray.get(two.remote())
    assert until(lambda: store_used() == 0) is True


def test_a_repeated_attempt_may_store_what_the_first_one_stored(tmp_path):
    @zray.remote(num_returns=2, retry_exceptions=True)
    def two(path):
        if not os.path.exists(path):
            open(path, "w").close()
            return np.zeros(1_000_000), threading.Lock()
        return np.zeros(1_000_000), 1

    assert zray.get(two.remote(str(tmp_path / "seen"))[1], timeout=20) == 1


def test_large_code_is_warned_of_once_and_says_what_makes_it_large():
    table = np.zeros(1_000_000)

    @zray.remote
    def look_up():
        return table[0]

    with pytest.warns(UserWarning, match="closure 'table'") as told:
        look_up.remote()
    assert told[0].filename == __file__  # the program's line, not one of ours
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert zray.get(look_up.remote()) == 0.0


def test_functions_that_are_defined_in_a_loop_are_so_many(monkeypatch):
    count = len(zray.api.sessions.require_runtime().published.ids)
    monkeypatch.setattr("zray.host.client.published_code.FUNCTIONS_COUNT_MAX", count + 2)
    functions = [zray.remote(lambda number=number: number) for number in range(3)]
    assert zray.get([function.remote() for function in functions[:2]]) == [0, 1]
    for _ in range(2):
        with pytest.raises(ValueError, match="is not submitted: this process .* defined in a loop"):
            functions[2].remote()
    assert zray.get(functions[1].remote()) == 1


def test_threads_that_write_and_read_large_values():
    failures = []

    def work(number):
        for _ in range(5):
            ref = zray.put(np.full(500_000, number))
            if not (zray.get(identity.remote(ref)) == number).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_buffer_leaves_while_the_driver_computes(tmp_path):
    @zray.remote
    def touch(path):
        open(path, "w").close()

    zray.get(touch.remote(str(tmp_path / "warm")))
    ref = touch.remote(str(tmp_path / "seen"))
    end = time.monotonic() + 20
    while not (tmp_path / "seen").exists():
        assert time.monotonic() < end
        sum(range(10_000))
    assert zray.get(ref) is None


def test_a_reference_of_a_session_that_has_ended(tmp_path):
    result = run_script(
        tmp_path,
        """
        import zray as ray
        ray.init(num_cpus=1)
        old = ray.put(1)
        ray.shutdown()
        ray.init(num_cpus=1)
        for use in (lambda: ray.get(old), lambda: ray.wait([old]), lambda: ray.get(ray.remote(abs).remote(old))):
            try:
                use()
            except ray.exceptions.ObjectLostError as error:
                print("lost")
        """,
    )
    assert result.stdout.split() == ["lost"] * 3, result.stderr


PROGRAM = """
import zray as ray
@ray.remote
def double(value):
    return 2 * value
print(ray.get(double.remote(1)))
"""


@pytest.mark.parametrize("name", ["random", "json", "numpy", "msgspec"])
def test_a_program_that_hides_a_module_is_told_so(tmp_path, name):
    """It has that module's name, and zray imports it: the program must not begin again and again, in new sessions."""
    program = tmp_path / f"{name}.py"
    program.write_text(PROGRAM)
    variables = environment() | {"ZRAY_TMPDIR": str(tmp_path / "sessions")}
    result = subprocess.run(
        [sys.executable, str(program)], env=variables, capture_output=True, text=True, timeout=40, check=False
    )
    assert result.returncode == 1 and result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert f"{program} hides the " in last and f" {name}" in last and "Rename" in last


def test_a_package_that_cannot_be_imported_is_named(tmp_path):
    """By the fork server, which imports it before there are any workers, and is started again in vain."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("raise ImportError('numpy is broken')")
    result = run_script(tmp_path, PROGRAM)
    assert "ClusterLostError" in result.stderr and "numpy is broken" in result.stderr


@pytest.mark.parametrize(
    "setting, words",
    [
        ("export ZRAY_TMPDIR=/proc", "cannot make the folder of its sessions; ZRAY_TMPDIR says where it may: '/proc/"),
        ("ulimit -n 30", "may open 30 files (ulimit -n), and a session of zray needs"),
        ("export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0", "start it with PYTHONUTF8=1."),
    ],
    ids=["folder", "files", "names"],
)
def test_what_is_in_the_way_of_a_session_is_said_at_once(tmp_path, setting, words):
    folder = tmp_path / "ü"
    folder.mkdir()
    (folder / "main.py").write_text("import zray\nzray.init(num_cpus=1)")
    result = subprocess.run(
        ["sh", "-c", f"{setting}; exec {sys.executable} {folder}/main.py"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert result.returncode == 1 and words in result.stderr.splitlines()[-1], result.stderr


def test_a_module_of_the_program_may_have_a_standard_modules_name(tmp_path):
    """What zray does not import in the program it does not find there in its own processes either; tasks do."""
    (tmp_path / "fileinput.py").write_text("mine = 5")
    code = """
        import fileinput
        import zray as ray

        @ray.remote
        def look():
            import fileinput
            return fileinput.mine

        print(fileinput.mine, ray.get(look.remote()))
    """
    assert run_script(tmp_path, code).stdout == "5 5\n"


def test_a_program_may_run_in_a_folder_that_is_gone(tmp_path):
    result = run_script(
        tmp_path,
        "import os\nfolder = os.path.join(os.path.dirname(__file__), 'gone')\nos.mkdir(folder)\nos.chdir(folder)\n"
        "os.rmdir(folder)" + PROGRAM,
    )
    assert result.stdout == "2\n", result.stderr


def test_a_task_that_begins_a_session_is_told_that_it_is_in_one():
    @zray.remote
    def begins():
        zray.init()

    with pytest.raises(RuntimeError, match="in a task or an actor, which has a session already"):
        zray.get(begins.remote())


# Catches each interrupt, and goes on: at the end nothing must be left of what was under way.
INTERRUPTED = """
import gc, os, random, signal, threading, time
import numpy as np
import zray as ray
from zray.host import context
from zray.wire.session import GetStatus

is_caught = False

def interrupt(number, frame):
    # As the default, but once for each `try`: what is pressed outside of one is nobody's.
    global is_caught
    if is_caught:
        is_caught = False
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
ray.init(num_cpus=2)
identity = ray.remote(lambda value: value)
array = np.ones(100_000)
ray.get(identity.remote(0))

def one():
    assert ray.get(identity.remote(7), timeout=20) == 7

def many():
    rest = [identity.remote(i) for i in range(20)]
    while rest:
        ready, rest = ray.wait(rest, timeout=20)
        assert ready

def large():
    assert ray.get(identity.remote(ray.put(array)), timeout=20)[0] == 1

def press():
    while not over.wait(random.random() * 0.01):
        os.kill(os.getpid(), signal.SIGINT)

def goes_on():
    return time.monotonic() < end or interrupts <= 20

for work in (one, many, large):
    interrupts, over = 0, threading.Event()
    thread = threading.Thread(target=press)
    thread.start()
    end = time.monotonic() + 1.5
    while goes_on():
        try:
            is_caught = True
            while goes_on():
                work()
            is_caught = False
        except KeyboardInterrupt:
            interrupts += 1
    over.set()
    thread.join()
    assert ray.get([identity.remote(i) for i in range(100)], timeout=20) == list(range(100))
deadline = time.monotonic() + 20
while True:
    gc.collect()
    counts = context.runtime.ask(GetStatus).counts
    if not counts["objects"] and not counts["tasks"] and not counts["store_used_bytes"]:
        break
    assert time.monotonic() < deadline, counts
    time.sleep(0.1)
print("whole")
"""


def test_interrupts_at_any_moment_leave_the_client_whole(tmp_path):
    """KeyboardInterrupt inside a client's turn is deferred to its end."""
    result = run_script(tmp_path, INTERRUPTED)
    assert result.stdout.split() == ["whole"], result.stderr
