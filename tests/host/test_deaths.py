"""The report of a death: signal or exit code, and the last lines of the log."""

import ctypes
import os
import signal
import sys

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


def segfault():
    ctypes.string_at(0)


def leave(code):
    os._exit(code)


def be_killed(number):
    os.kill(os.getpid(), number)


DEATHS = [
    (be_killed, (signal.SIGKILL,), "SIGKILL"),
    (be_killed, (signal.SIGTERM,), "SIGTERM"),
    (be_killed, (signal.SIGABRT,), "SIGABRT"),
    (segfault, (), "SIGSEGV"),
    (leave, (3,), "exited with code 3"),
    (leave, (0,), "exited with code 0"),
]


@pytest.mark.parametrize("how, arguments, words", DEATHS, ids=[words for *_, words in DEATHS])
def test_a_task_that_dies(how, arguments, words):
    @zray.remote(max_retries=0)
    def work():
        print("my last words")
        print("and on the other stream", file=sys.stderr)
        how(*arguments)

    with pytest.raises(zray.exceptions.WorkerCrashedError, match=words) as caught:
        zray.get(work.remote(), timeout=20)
    error = caught.value
    assert error.pid > 0 and words in error.exit_text
    assert "my last words" in error.log_tail and "and on the other stream" in error.log_tail
    assert "my last words" in str(error) and "work" in str(error)


def test_a_crash_in_c_says_where_in_python():
    with pytest.raises(zray.exceptions.WorkerCrashedError) as caught:
        zray.get(zray.remote(max_retries=0)(segfault).remote(), timeout=20)
    assert any("segfault" in line for line in caught.value.log_tail)


@pytest.mark.parametrize("how, arguments, words", DEATHS, ids=[words for *_, words in DEATHS])
def test_an_actor_that_dies(how, arguments, words):
    @zray.remote
    class Mortal:
        def die(self):
            print("my last words")
            how(*arguments)

        def later(self):
            return 1

    mortal = Mortal.remote()
    for call in (mortal.die.remote(), mortal.later.remote()):
        with pytest.raises(zray.exceptions.ActorDiedError, match=words) as caught:
            zray.get(call, timeout=20)
        assert caught.value.pid > 0 and "my last words" in caught.value.log_tail


@pytest.mark.parametrize(
    "restarts, text",
    [(0, "The actor Mortal died."), (1, "The actor Mortal died after 1 restart (max_restarts=1).")],
)
def test_an_actor_that_dies_for_good_says_how_often_it_was_restarted(restarts, text):
    class Mortal:
        def die(self):
            leave(7)

    mortal = zray.remote(Mortal).options(max_restarts=restarts, max_task_retries=-1).remote()
    with pytest.raises(zray.exceptions.ActorDiedError) as caught:
        zray.get(mortal.die.remote(), timeout=20)
    assert caught.value.args[0].replace(Mortal.__qualname__, "Mortal") == text


def test_what_earlier_tasks_have_printed_is_not_in_the_error_of_a_later_one():
    @zray.remote(max_retries=0)
    def speak(text, status=None):
        print(text)
        if status is not None:
            leave(status)

    zray.get([speak.remote("earlier") for _ in range(20)], timeout=20)
    with pytest.raises(zray.exceptions.WorkerCrashedError) as caught:
        zray.get(speak.remote("its own", 3), timeout=20)
    assert caught.value.log_tail == ("its own",)


def test_a_call_lost_in_a_restart_says_how():
    @zray.remote(max_restarts=1)
    class Mortal:
        def die(self):
            leave(7)

    with pytest.raises(zray.exceptions.ActorUnavailableError, match="code 7") as caught:
        zray.get(Mortal.remote().die.remote(), timeout=20)
    assert caught.value.pid > 0


def test_a_constructor_that_raises_or_dies():
    @zray.remote
    class Raises:
        def __init__(self):
            raise KeyError("no such part")

    @zray.remote
    class Dies:
        def __init__(self):
            leave(5)

    with pytest.raises(zray.exceptions.ActorDiedError, match="no such part") as caught:
        zray.get(Raises.remote().__ray_ready__.remote(), timeout=20)
    assert "Raises.__init__" in str(caught.value)
    assert f"(pid={caught.value.pid}, node={caught.value.node}: its constructor raised)" in str(caught.value)
    with pytest.raises(zray.exceptions.ActorDiedError, match="code 5"):
        zray.get(Dies.remote().__ray_ready__.remote(), timeout=20)
