"""Programs that use gevent or eventlet: what they patch either does no harm, or init() says why it starts nothing."""

import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import zray

POOL = """
import sys
{patch}
import zray
from gevent.threadpool import ThreadPool

@zray.remote
def double(number):
    return 2 * number

@zray.remote
class Counter:
    def add(self, number):
        return number + 1

zray.init(num_cpus=2)
counter = Counter.remote()
pool = ThreadPool(8)
found = list(pool.map(lambda number: zray.get(counter.add.remote(double.remote(number)), timeout=30), range(200)))
assert found == [2 * number + 1 for number in range(200)], found
zray.shutdown()
print("all are there")
"""


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)


def need(library):
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed here: only fake modules stand for it")


@pytest.mark.parametrize("name", ["threading", "select", "queue"])
def test_init_refuses_a_program_that_gevent_has_patched(name, monkeypatch):
    fake = SimpleNamespace(is_module_patched=lambda module: module == name)
    monkeypatch.setitem(sys.modules, "gevent.monkey", fake)
    with pytest.raises(
        RuntimeError, match=rf"gevent has replaced Python's {name}, .*thread=False, select=False"
    ) as caught:
        zray.init()
    assert not zray.is_initialized() and str(caught.value).count("\n") == 0


def test_first_call_refuses_as_init_does(monkeypatch):
    fake = SimpleNamespace(is_module_patched=lambda module: True)
    monkeypatch.setitem(sys.modules, "gevent.monkey", fake)
    with pytest.raises(RuntimeError, match="gevent has replaced Python's threading, select, queue"):
        zray.put(1)
    assert not zray.is_initialized()


def test_init_refuses_a_program_that_eventlet_has_patched(monkeypatch):
    fake = SimpleNamespace(is_monkey_patched=lambda module: module == "thread")
    monkeypatch.setitem(sys.modules, "eventlet.patcher", fake)
    with pytest.raises(RuntimeError, match="eventlet has replaced Python's thread, "):
        zray.init()
    assert not zray.is_initialized()


def test_patches_that_do_no_harm_are_not_refused(monkeypatch):
    gevent = SimpleNamespace(is_module_patched=lambda module: module in ("socket", "ssl", "time", "subprocess", "os"))
    eventlet = SimpleNamespace(is_monkey_patched=lambda module: module in ("socket", "time", "os"))
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    monkeypatch.setitem(sys.modules, "eventlet.patcher", eventlet)
    with zray.init(num_cpus=1):
        assert zray.get(zray.put(7)) == 7


@pytest.mark.slow
@pytest.mark.parametrize("patch", ["", "patch_all(thread=False, select=False, queue=False)"])
def test_calls_from_gevents_thread_pool_are_answered(patch, leftovers):
    need("gevent")
    done = run(POOL.format(patch=patch and f"from gevent import monkey; monkey.{patch}"))
    assert (done.returncode, done.stdout) == (0, "all are there\n"), done.stderr
    leftovers.assert_none(20.0)


@pytest.mark.parametrize("patch", ["patch_all()", "patch_select()", "patch_thread()", "patch_queue()"])
def test_program_that_gevent_has_patched_hears_why_nothing_starts(patch, leftovers):
    need("gevent")
    done = run(POOL.format(patch=f"from gevent import monkey; monkey.{patch}"))
    assert done.returncode == 1 and "RuntimeError: zray.init() starts nothing here: gevent" in done.stderr
    leftovers.assert_none(20.0)
