"""Failures that nobody fetches: one line each on the program's terminal, none for those that it knows of."""

from tests.scripts import run_script
from zray.exceptions import decode_system_error
from zray.roles.unfetched import unheard
from zray.store.errors import serialize_cancellation, serialize_error
from zray.store.values import to_bytes

PROGRAM = """
import time
import zray

zray.init(num_cpus=1)

@zray.remote
def bad(what, *after):
    raise ValueError(what)

@zray.remote
class Actor:
    def bad(self):
        raise KeyError("call")

    def end(self):
        pass

try:
    zray.get([bad.remote("fetched") for _ in range(3)])
except ValueError:
    pass
try:
    zray.get(bad.remote("passed on", bad.remote("first")))
except ValueError:
    pass
bad.remote("dropped before its end")
actor = Actor.remote()
actor.bad.remote()
zray.get(actor.end.remote())
ref = bad.remote("dropped after its end")
zray.wait([ref])
del ref
ref = bad.remote("left")
zray.wait([ref])
"""


def test_failures_that_nobody_fetches_are_told_in_a_line(tmp_path):
    lines = run_script(tmp_path, PROGRAM).stderr.splitlines()
    said = sorted(line.partition(" (")[0] for line in lines)
    assert said == [
        f"zray: task {name} failed, and nobody has fetched its result: {error}"
        for name, error in (
            ("Actor.bad", "KeyError: 'call'"),
            ("bad", "ValueError: dropped after its end"),
            ("bad", "ValueError: dropped before its end"),
            ("bad", "ValueError: left"),
        )
    ]
    assert all("script.py:9, pid=" in line for line in lines if "task bad" in line)


CONSTRUCTORS = """
import time
import zray

zray.init(num_cpus=2)

@zray.remote
class Bad:
    def __init__(self, word):
        raise RuntimeError(word)

    def call(self):
        pass

@zray.remote
def call(actor):
    try:
        zray.get(actor.call.remote())
    except zray.exceptions.RayActorError:
        pass

def ended(actor):
    zray.wait([actor.call.remote()])

held, called = Bad.remote("held"), Bad.remote("called")
refs = [called.call.remote(), called.call.remote()]
Bad.remote("no handle")
dropped = Bad.remote("dropped")
ended(dropped)
dropped.call.remote()
del dropped
Bad.remote("call alone").call.remote()
alone = Bad.remote("call held").call.remote()
fetched, passed = Bad.remote("fetched"), Bad.remote("passed on")
zray.get(call.remote(passed))
try:
    zray.get(fetched.call.remote())
except zray.exceptions.RayActorError:
    pass
for actor in (held, called, fetched):
    ended(actor)
zray.wait([alone])
"""


def test_failed_constructors_that_nobody_hears_of_are_told_once(tmp_path):
    lines = run_script(tmp_path, CONSTRUCTORS).stderr.splitlines()
    said = sorted(line.partition(" (")[0].rpartition("RuntimeError: ")[2] for line in lines)
    assert said == ["call alone", "call held", "called", "dropped", "held", "no handle"]
    assert all(line.startswith("zray: task Bad.__init__ failed, and nobody has fetched its result: ") for line in lines)


MANY = """
import zray

zray.init(num_cpus=1)

@zray.remote
def task(number):
    if number:
        raise ValueError(number)

for number in range(1, 21):
    task.remote(number)
zray.get(task.remote(0))
"""


def test_program_that_ends_soon_is_told_how_many_more_have_failed(tmp_path):
    lines = run_script(tmp_path, MANY).stderr.splitlines()
    assert len(lines) == 6 and lines[-1] == "zray: 15 further notices in 10 s left out here"


def failed(error, name="outer"):
    try:
        raise error
    except Exception as raised:
        return bytes(to_bytes(serialize_error(raised, name)))


def test_task_whose_child_was_cancelled_is_not_told():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        cancelled = decode_system_error(serialize_cancellation(error, "inner"))
    assert unheard(failed(cancelled)) == ""
    follows = ValueError("own")
    follows.__cause__ = cancelled
    assert "failed, and nobody has fetched its result: ValueError: own" in unheard(failed(follows))
    assert "ValueError: own" in unheard(failed(ValueError("own")))
