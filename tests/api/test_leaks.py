"""ZRAY_DEBUG=1: lines on values that a program leaves behind, by the place where they were made."""

import os
import re
import subprocess
import sys

import pytest

from tests.scripts import environment, write_script
from zray.host.driver.leaks import PLACES_SHOWN, SMALL, lines_of
from zray.wire.listing import ActorFact, ObjectFact, WorkerFact, WorkListed

PROGRAM = """
    import sys
    import numpy as np
    import zray

    zray.init(num_cpus=1)

    @zray.remote
    class Store:
        def keep(self, refs):
            self.refs = refs

    @zray.remote
    def make():
        return np.ones(50_000)

    def held():
        part = zray.put(np.ones(40_000))
        return lambda: part

    def work():
        kept.extend(make.remote() for _ in range(3))
        zray.get(kept)
        zray.get(store.keep.remote([zray.put(np.ones(30_000))]))
        function = held()
        zray.get(zray.put(np.ones(20_000)))  # nothing refers to it
        return function

    kept = []
    if len(sys.argv) > 1:
        zray.get(zray.get([make.remote(), zray.put([zray.put(np.ones(20_000))])])[1])
    else:
        store = Store.remote()
        function = work()
    """


def said(folder, *arguments, **variables):
    command = [sys.executable, str(write_script(folder, PROGRAM)), *arguments]
    env = environment() | variables
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_values_left_behind_are_told_by_place_with_their_holders(tmp_path):
    title, *lines = said(tmp_path, ZRAY_DEBUG="1")
    assert re.fullmatch(r"zray: at the end of the program, \d+ values \(.* MB\) are still referred to:", title)
    path = re.escape(str(tmp_path))
    for pattern in (
        r"  3 values, 1.2 MB: task make; by the program",
        rf"  1 value, 0.3 MB: put at {path}/\S+:\d+; by the program",
        rf"  1 value, 0.2 MB: put at {path}/\S+:\d+; by actor Store \(pid \d+\)",
    ):
        assert [line for line in lines if re.fullmatch(pattern, line)], lines


def test_program_that_leaves_nothing_behind_says_nothing(tmp_path):
    assert said(tmp_path, "clean", ZRAY_DEBUG="1") == []
    assert said(tmp_path, ZRAY_DEBUG="") == []


def fact(number, made="put at a.py:1", holders=(), readers=(), size=200_000):
    return ObjectFact(number.to_bytes(20, "big"), size, "MEMORY", "n/local", made, [*holders], [*readers])


@pytest.mark.parametrize(("is_all", "count"), [(True, 3), (False, 2)])
def test_values_of_other_programs_count_where_the_session_ends_with_this_one(is_all, count):
    actors = [ActorFact(b"a", "Store", "", "", "ALIVE", b"own", "n/local", 7)]
    workers = [
        WorkerFact("driver", "driver", 5, "n/local", b"own"),
        WorkerFact("worker-1", "worker", 7, "n/local", b"own", b"a"),
        WorkerFact("driver", "driver", 9, "n/local", b"other"),
    ]
    objects = [fact(1, holders=[5]), fact(2, readers=[7]), fact(3, holders=[9])]
    title, line = lines_of(objects, WorkListed(1, actors, [], [], workers), b"own", 5, is_all=is_all)
    assert title.startswith(f"zray: at the end of the program, {count} values (")
    assert line.startswith(f"  {count} values, 0.{2 * count} MB: put at a.py:1; by the program, actor Store (pid 7)")


def test_copies_count_once_and_many_places_are_counted():
    objects = [fact(1, size=300_000), fact(1, made="")] + [fact(number, f"place {number}") for number in range(2, 30)]
    title, *lines = lines_of(objects, WorkListed(1, [], []), b"own", os.getpid(), is_all=True)
    assert "29 values" in title and len(lines) == PLACES_SHOWN + 1
    assert lines[-1] == "  and those of 9 other places"
    assert lines[0].endswith("put at a.py:1; by tasks or other values")
    assert SMALL in lines_of([fact(1, made="")], WorkListed(1, [], []), b"", 1, is_all=True)[1]
