"""`zray replay` of failed calls of actors: the state that they begin with, and what the file lacks of it."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.cli.commands import command_line, zray
from tests.scripts import ROOT, environment, write_script
from zray.api.replays import Replay

SECRET = "a-secret-of-mine"
AFTER = "the state of the actor is the one after the failure"
BEFORE = "the state of the actor is the one before the call, from its "
PROGRAM = """
import os
import signal
import sys
import threading
import numpy as np
import zray as ray

class Money:
    def __init__(self, amount):
        self.amount = amount

@ray.remote
class Account:
    def __init__(self, balance):
        self.balance = Money(balance)
        self.given = ray.put(5)
        self.own = np.zeros(3)

    def deposit(self, amount):
        self.balance.amount += amount
        return ray.get(self.given)

    def withdraw(self, amount, *, fee):
        left = self.balance.amount - amount - fee
        if left < 0:
            raise ValueError(f"{left} left of {ray.get(self.given)}, {ray.util.rng().random()}")

    def add_in_place(self, array):
        self.own += array
        self.taken = array
        self.taken += self.own

    def grow(self):
        self.own += 1
        self.taken += 1

    def items(self):
        yield self.balance.amount
        raise LookupError("behind an item")

    def take(self, refs):
        raise KeyError(sum(ray.get(refs)))

    def twice(self):
        self.balance.amount += 1
        raise OSError(f"had {self.balance.amount}")

    def exchange(self):
        raise RuntimeError("no rate")

@ray.remote
class Locked:
    def __init__(self, count):
        self.lock, self.count = threading.Lock(), count
        self.weights = np.zeros(9_000_000)

    def fail(self):
        raise ValueError(self.count)

    def use(self):
        with self.lock:
            raise ValueError(self.count)

@ray.remote
class Careful:
    def __init__(self, count):
        self.count, self.back, self.lock = count, self.more, threading.Lock()

    def __getstate__(self):
        return {"count": self.count, "back": self.back}

    def __setstate__(self, state):
        self.__dict__.update(state, lock=threading.Lock())

    def more(self):
        self.count += 1

    def fail(self):
        with self.lock:
            before = self.count
            self.back()
            raise ValueError(self.count - before)

@ray.remote
class Slotted:
    __slots__ = ("lock", "size")

    def __init__(self, size):
        self.lock, self.size = threading.Lock(), size

    def grow(self):
        self.size += 1

    def fail(self):
        raise ValueError(self.size)

@ray.remote
class Closed:
    def __init__(self, size):
        self.size = size

    def __reduce__(self):
        raise TypeError("closed for ever")

    def fail(self):
        raise ValueError(self.size)

@ray.remote
class Waiter:
    async def __init__(self, name):
        self.name = name

    async def fail(self, text):
        raise OSError(self.name + text)

    async def items(self):
        yield 1
        raise LookupError(self.name)

@ray.remote(max_concurrency=2)
class Threaded:
    def __init__(self):
        self.count = 0

    def wait(self):
        self.count += 1
        while self.count < 3:
            os.sched_yield()

    def fail(self):
        while self.count < 1:
            os.sched_yield()
        raise ValueError("threaded")

    def end(self):
        self.count += 2

@ray.remote(max_restarts=2, max_task_retries=1, checkpoint_interval=3)
class Saved:
    def __init__(self, values):
        self.values = [int(value) for value in values]

    def add(self, number):
        self.values.append(number + round(ray.util.rng().random()))

    def add_all(self, array, more):
        self.values += [int(array.sum()), more]

    def pop(self):
        raise ValueError(f"{self.values.pop()} of {len(self.values) + 1}")

    def look(self):
        raise KeyError(tuple(self.values))

    def die_once(self, path):
        if not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

    def refuse(self):
        raise OSError(f"{self.values.pop()} of {len(self.values) + 1}")

@ray.remote(max_restarts=1, checkpoint_interval=0)
class Long:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1

    def fail(self):
        raise ValueError(self.count)

@ray.remote
class Caller:
    def __init__(self, other):
        self.other = other

    def ask(self):
        raise KeyError(ray.get(self.other.deposit.remote(1)))

    def fail(self):
        raise KeyError("alone")

@ray.remote
class Retried:
    def __init__(self):
        self.count = 0

    @ray.method(max_task_retries=2, retry_exceptions=True)
    def again(self):
        self.count += 1
        raise ValueError(f"attempt {self.count}")

@ray.remote
class Quiet:
    def fail(self):
        raise ValueError("quiet")

def fails(ref):
    try:
        ray.get(list(ref) if hasattr(ref, "__next__") else ref)
    except Exception as error:
        return error
    raise AssertionError("no error")

ray.init(num_cpus=2, seed=7)
environment = {"env_vars": {"SERVICE_KEY": sys.argv[2]}}
account = Account.options(runtime_env=environment).remote(100)
ray.get(account.deposit.remote(20))
print("said", fails(account.withdraw.remote(150, fee=3)))
fails(account.add_in_place.remote(np.ones(3)))
fails(account.grow.remote())
fails(account.items.remote())
fails(account.take.remote([ray.put(2), ray.put(3)]))
fails(account.twice.remote())
fails(account.__ray_call__.remote(lambda self: self.absent))
locked = Locked.remote(4)
fails(locked.fail.remote())
fails(locked.use.remote())
fails(Careful.remote(4).fail.remote())
slotted = Slotted.remote(4)
ray.get(slotted.grow.remote())
fails(slotted.fail.remote())
fails(Closed.remote(ray.put(1)).fail.remote())
waiter = Waiter.remote("Joe")
fails(waiter.fail.remote("!"))
fails(waiter.items.remote())
fails(Account.options(hosted=True).remote(7).exchange.remote())
threaded = Threaded.remote()
waiting = threaded.wait.remote()
fails(threaded.fail.remote())
ray.get(threaded.end.remote())
ray.get(waiting)
saved = Saved.remote(ray.put(np.arange(3)))
ray.get(saved.add.remote(1))
ray.get(saved.add_all.remote(ray.put(np.ones(50_000)), more=9))
fails(saved.look.remote())
fails(saved.pop.remote())
ray.get(saved.die_once.remote(sys.argv[1] + "-died"))
fails(saved.refuse.remote())
long = Long.remote()
ray.get([long.add.remote() for _ in range(2_100)])
fails(long.fail.remote())
caller = Caller.remote(account)
fails(caller.ask.remote())
fails(caller.fail.remote())
fails(Retried.remote().again.remote())
fails(Quiet.options(runtime_env={"env_vars": {"ZRAY_REPLAY": "0"}}).remote().fail.remote())
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A session that has ended, and whose program is gone."""
    folder = tmp_path_factory.mktemp("replay")
    script = write_script(folder, PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script), str(folder / "text"), SECRET],
        env={**environment(), "ZRAY_LOG_DIR": str(folder / "logs")},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    script.unlink()
    return SimpleNamespace(logs=folder / "logs", output=done.stdout)


@pytest.fixture(autouse=True)
def logs(ended, monkeypatch):
    monkeypatch.setenv("ZRAY_LOG_DIR", str(ended.logs))


def facts(ended):
    """The facts of all files, by name of the method."""
    found = {}
    for path in ended.logs.rglob("replay-*.zray"):
        replay = Replay(str(path))
        replay.close()
        found[replay.facts.name] = replay.facts
    return found


def ends_the_same(name, *words):
    done = zray("replay", name)
    assert done.returncode == 1 and "The call ends the same." in done.stdout, done.stdout + done.stderr
    assert all(each in done.stdout for each in words), done.stdout
    assert "zray/" not in done.stderr
    return done


def test_call_ends_the_same_with_state_arguments_refs_and_random_numbers(ended):
    done = ends_the_same("Account.withdraw", AFTER, "Account.withdraw, call ", "are not set here: SERVICE_KEY")
    assert "-33 left of 5, 0." in ended.output and "ValueError: -33 left of 5, 0." in done.stderr
    assert "raise ValueError(f" in done.stderr
    assert zray("replay", "withdraw").stdout == done.stdout


@pytest.mark.parametrize(
    "name",
    [
        "Account.items",
        "Account.take",
        "Account.__ray_call__",
        "Account.exchange",
        "Careful.fail",
        "Waiter.fail",
        "Waiter.items",
    ],
)
def test_each_kind_of_call_ends_the_same(ended, name):
    ends_the_same(name, AFTER)


def test_arrays_of_the_actor_can_be_written_where_they_could_then(ended):
    done = ends_the_same("Account.add_in_place")
    assert "read-only" in done.stderr and "self.taken += self.own" in done.stderr
    assert "self.taken += 1" in ends_the_same("Account.grow").stderr


def test_change_by_the_failed_call_itself_is_in_the_state(ended):
    done = zray("replay", "Account.twice")
    assert "with what the call had changed by then" in done.stdout
    assert "The call ends with another error: OSError: had 122\nIt failed before: OSError: had 121" in done.stdout


def test_attributes_without_a_pickle_or_room_are_absent_and_named(ended):
    done = ends_the_same(
        "Locked.fail", "attributes of the actor that are not in the file: lock (TypeError: cannot pickle"
    )
    assert "weights (it has more than " in done.stdout
    done = zray("replay", "Locked.use")
    assert "The call ends with another error: AttributeError: 'Locked' object has no attribute 'lock'" in done.stdout


def test_call_of_an_actor_without_a_pickle_runs_on_a_new_one(ended):
    done = zray("replay", "Slotted.fail")
    assert "the state of the actor is not in the file (TypeError: cannot pickle" in done.stdout
    assert "the call runs on a new instance" in done.stdout
    assert "The call ends with another error: ValueError: 4\nIt failed before: ValueError: 5" in done.stdout


def test_call_without_state_and_constructor_is_refused_in_a_sentence(ended):
    done = zray("replay", "Closed.fail")
    assert (
        done.returncode == 1 and "TypeError: closed for ever), nor are the arguments of the constructor" in done.stderr
    )


def test_handle_of_another_actor_leads_nowhere(ended):
    ends_the_same("Caller.fail")
    done = zray("replay", "Caller.ask")
    assert "The call ends with another error: zray.exceptions.ActorDiedError" in done.stdout


def test_calls_at_the_same_time_are_counted(ended):
    ends_the_same("Threaded.fail", "another call of the actor ran at the same time")


def test_recoverable_actor_has_its_state_before_the_call(ended):
    ends_the_same("Saved.look", f"{BEFORE}constructor and 2 calls since")
    ends_the_same("Saved.pop", f"{BEFORE}last checkpoint.")
    done = ends_the_same("Saved.refuse", f"{BEFORE}last checkpoint and 2 calls since")
    assert "calls before it that raise now, and may have raised then: Saved.pop (ValueError: " in done.stdout


def test_recoverable_actor_with_a_long_log_has_its_state_after_the_failure(ended):
    ends_the_same(
        "Long.fail", AFTER, "(that before it is not in the file: the log of its calls since the checkpoint is"
    )


def test_file_is_of_the_last_attempt_and_none_is_left_where_it_is_off(ended):
    found = facts(ended)
    assert found["Retried.again"].error_text == "attempt 3" and "Quiet.fail" not in found


def test_values_of_environment_variables_are_not_in_the_files(ended):
    texts = [path.read_bytes() for path in ended.logs.rglob("replay-*.zray")]
    assert len(texts) > 10 and not any(SECRET.encode() in text for text in texts)
    assert any(b"SERVICE_KEY" in text for text in texts)


def test_debugger_shows_the_actor_at_the_error(ended):
    done = subprocess.run(
        command_line("replay", "Account.withdraw", "--pdb"),
        input="p self.balance.amount, amount, fee, left\nq\n",
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert "-> raise ValueError(f" in done.stdout and "(120, 150, 3, -33)" in done.stdout, done.stderr


def test_failed_calls_are_listed(ended):
    listed = zray("replay").stdout
    assert "Caller.fail" in listed and "KeyError: 'alone'" in listed  # of the newest
