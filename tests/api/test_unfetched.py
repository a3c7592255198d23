"""Failures that nobody fetches: one line each on the program's terminal, none for those that it knows of."""

from tests.scripts import run_script

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
