"""`zray determinism`: runs of a program beside each other, and the first task that differs."""

import json
import os
import signal
import subprocess
import threading

import numpy as np
import pytest

from tests.cli.commands import command_line, zray
from tests.gates import until
from tests.scripts import ROOT, environment
from zray.ids import children_prefix
from zray.object_ref import ObjectRef
from zray.testing.determinism.comparison import compare
from zray.testing.determinism.digests import INCOMPARABLE, digest, unordered
from zray.testing.determinism.records import Ending, Kill, Program, Session, Submission, TooManyTasks, Writer, lines_of
from zray.testing.determinism.runs import Run, Verdict
from zray.testing.determinism.trees import tree_of
from zray.testing.determinism.words import words_of
from zray.testing.determinism.wrapping import mentions_of

# Values of all kinds that are the same in each run: with ids, in the order of hashes, of calls and items.
SAME = """
import os
import sys
import numpy as np
import zray as ray

ray.init(num_cpus=3, seed=7)

@ray.remote
def noise(x, scale=1.0):
    return x + scale * ray.util.rng().random()

@ray.remote
def parent(count):
    ref = ray.put(np.ones(30_000))
    return sum(ray.get([noise.remote(x, scale=count) for x in range(count)])), ref, {"a", "b"}, float("nan"), lambda: 1

@ray.remote
def items(count):
    yield from (x * np.ones(20_000) for x in range(count))

@ray.remote
def of_items():
    return [ray.get(ref).sum() for ref in items.remote(3)]

@ray.remote(checkpoint_interval=2, max_restarts=-1, max_task_retries=-1)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        return self._add()

    def _add(self):
        self.count += 1
        return self.count

    @staticmethod
    def twice(x):
        return 2 * x

@ray.remote(max_restarts=-1, max_task_retries=-1)
class Async:
    async def echo(self, value):
        return value

    async def items(self):
        yield 1

if __name__ == "__main__":
    assert os.path.isabs(__file__) and sys.argv[1:] == ["--name", "a b"]
    counter, echo = Counter.remote(), Async.remote()
    print(ray.get(parent.remote(3))[0], ray.get(of_items.remote()), ray.get(counter.twice.remote(2)))
    print(ray.get([counter.add.remote() for _ in range(4)]), ray.get(echo.echo.remote(counter)) == counter)
    print(len(list(echo.items.remote())))
"""
# A task that draws, one behind it, and a program that fails in a session of its own.
DRAWS = """
import random
import sys
import ray

@ray.remote
def same(x):
    return x

@ray.remote(max_retries=0)
def draw(x):
    return random.random() + x

@ray.remote
def use(x):
    return x + 1

ray.init()
ray.get([same.remote(x) for x in range(2)])
print(ray.get(use.remote(draw.remote(1))))
"""
SPINS = """
import os
import zray as ray

@ray.remote
def spin(path):
    open(path, "w").write(str(os.getppid()))
    while True:
        pass

ray.get(spin.remote(os.environ["STARTED"]))
"""


def write(folder, text):
    folder.mkdir(exist_ok=True)
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


def test_runs_with_workers_and_deaths_are_the_same(tmp_path):
    path = write(tmp_path / "a folder", SAME)
    result = zray("determinism", "--workers", "1,2", "--kills", "2", "--json", path, "--name", "a b")
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert [(run["workers"], run["tasks"], run["result"]) for run in found["runs"]] == [
        (1, 15, "first"),
        (2, 15, "same"),
        (2, 15, "same"),
    ]
    assert found["runs"][2]["happened"]  # the second death is due at the last begin, which may be of the same task
    assert found["is_same"] and "num_cpus=3" in found["notes"][0]


def test_first_task_that_draws_is_named_with_the_reason(tmp_path):
    path = write(tmp_path, DRAWS)
    result = zray("determinism", "--workers", "1,2", "--kills", "0", "--as-ray", path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"The first task that differs: draw, at {path}:20" in result.stdout
    assert "Its arguments are the same, and its value differs in run 2." in result.stdout
    assert "The task draws from random" in result.stdout and "Output: line 1 is" in result.stdout
    assert "use" not in result.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import zray\nzray.init(address='auto')", "joins a session at 'auto'"),
        ("import zray\nzray.init(local_mode=True)", "local mode, which has no workers"),
        ("raise ValueError('of mine')", "fails in each run: it ends with exit status 1"),
    ],
)
def test_program_that_cannot_be_compared_is_refused_in_words(text, words, tmp_path):
    result = zray("determinism", "--workers", "1,1", "--kills", "0", write(tmp_path, text))
    assert result.returncode == 2 and words in result.stderr
    assert "determinism/" not in result.stderr or "of mine" in result.stderr


def test_bad_numbers_and_absent_files_are_errors_of_usage(tmp_path):
    path = write(tmp_path, "")
    for words in (
        ["absent.py"],
        ["--workers", "1,x", path],
        ["--workers", "0", path],
        ["--workers", "1", "--kills=0", path],
    ):
        result = zray("determinism", *words)
        assert result.returncode == 2 and "Usage:" in result.stderr


def test_interrupt_ends_the_program_and_removes_its_files(tmp_path):
    started = tmp_path / "started"
    with subprocess.Popen(
        command_line("determinism", write(tmp_path, SPINS)),
        env={**environment(), "STARTED": str(started), "TMPDIR": str(tmp_path)},
        cwd=ROOT,
        stderr=subprocess.PIPE,
    ) as command:
        until(lambda: started.exists() and started.read_text())
        assert [path for path in tmp_path.iterdir() if path.name.startswith("zray-determinism-")]
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 1
        command.stderr.read()
    until(lambda: not os.path.exists(f"/proc/{started.read_text()}"))  # the fork server, which ends with its session
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("zray-determinism-")]


# --- digests ---


class Pair:
    def __init__(self, other=None):
        self.other = other


def ring():
    first = Pair()
    first.other = Pair(first)
    return first


def closure(number):
    return lambda: number


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a", "b", "c"}, {"c", "b", "a"}),
        ((ObjectRef(bytes(20)), 1), (ObjectRef(bytes(19) + b"1"), 1)),
        (["ab" * 2, "ab" * 2], ["".join(["a", "bab"])] * 2),
        (float("nan"), float("nan")),
        (np.arange(9.0), np.arange(9.0)),
        (ring(), ring()),
        (closure(1), closure(1)),
        (threading.Lock(), threading.Lock()),
    ],
)
def test_digest_is_the_same_for_equal_values(one, two):
    assert digest(one) == digest(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [(1, 1.0), ({1}, frozenset({1})), ([1, 2], [2, 1]), (closure(1), closure(2)), (np.ones(3), np.ones(3, "f4"))],
)
def test_digest_differs_for_other_values(one, two):
    assert digest(one) != digest(two)


def test_digest_of_a_tensor_has_no_address():
    torch = pytest.importorskip("torch")
    assert digest([torch.ones(2, dtype=torch.bfloat16)]) == digest([torch.ones(2, dtype=torch.bfloat16)])
    assert digest(torch.ones(2)) != digest(torch.ones(1, 2))


def test_value_that_cannot_be_pickled_has_no_digest():
    assert digest([threading.Lock()]) == INCOMPARABLE
    assert unordered([1, 2]) == unordered([2, 1]) != unordered([1, 3])


def test_names_in_code_are_found_in_inner_functions():
    def outer():
        return [lambda: os.urandom(1)]

    assert mentions_of(outer) == ["urandom"]


# --- comparison of runs that are made up ---


class Made:
    """Lines of a run."""

    def __init__(self, root=b"r"):
        self.root = root * 16
        self.lines = [Session(self.root.hex())]
        self.counts = {}

    def task(self, name, value, arguments="", parent=None, **facts):
        """Add a task.  value: None for one without an end; a list has several attempts.  Returns its id."""
        parent = parent or self.root
        number = self.counts[parent] = self.counts.get(parent, 0) + 1
        task = children_prefix(parent) + number.to_bytes(6, "big")
        self.lines.append(Submission(task.hex(), name, facts.get("actor", ""), "program.py:1"))
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                values = [digest(part) for part in each] if facts.get("is_generator") else [digest(each)]
                self.lines.append(Ending(task.hex(), name, arguments, values, [repr(each)], **facts))
        return task

    def kill(self, task, name, at="begin", actor=""):
        self.lines.append(Kill(task.hex(), name, at, 1, actor))


def both(make):
    """The comparison of two runs with ids of their own.  make: is called with each run and its number."""
    runs = Made(b"a"), Made(b"b")
    for number, run in enumerate(runs):
        make(run, number)
    return compare(*(tree_of(run.lines) for run in runs), ["wait"])


def first_of(make):
    first = both(make).first
    return first.kind, first.name, first.index, first.path


def test_task_behind_one_that_differs_is_not_named():
    def make(run, number):
        run.task("f", 1, "x")
        run.task("f", number, "y")
        run.task("g", number, f"of {number}")

    assert first_of(make) == ("value", "f", 2, [])


def test_task_inside_of_another_is_named_before_it():
    def make(run, number):
        outer = run.task("outer", number)
        run.task("inner", number, parent=outer)

    assert first_of(make) == ("value", "inner", 1, ["outer"])


def test_submitter_of_other_arguments_is_named():
    def make(run, number):
        outer = run.task("outer", 1, drew=["random"])
        run.task("inner", number, f"of {number}", parent=outer)

    assert first_of(make) == ("arguments", "inner", 1, ["outer"])
    assert "draws from random" in both(make).first.hints[0]


def test_program_that_submits_by_arrival_is_named_with_wait():
    def make(run, number):
        run.task("step", number, f"of {number}")
        run.lines.append(Program([]))

    assert first_of(make) == ("arguments", "step", 1, [])
    assert both(make).first.hints == ["The program mentions wait, whose order depends on timing."]


def test_other_order_of_the_same_tasks_is_a_note():
    def make(run, number):
        for x in (1, 2, 3)[:: 1 - 2 * number]:
            run.task("f", x, str(x))

    found = both(make)
    assert found.first is None and found.reordered == 2


def test_task_that_one_run_lacks_is_named():
    def make(run, number):
        run.task("f", 1)
        if number:
            run.task("g", 1)

    assert first_of(make) == ("submissions", "g", 1, [])


def test_task_without_an_end_is_a_note():
    assert both(lambda run, number: run.task("f", [None, 1][number])).unfinished == 1


def test_attempts_of_one_run_are_compared():
    def make(run, number):
        run.task("f", [2, 1] if number else [1])

    assert first_of(make) == ("attempts", "f", 1, [])


def test_task_that_was_killed_for_good_is_named_with_its_options():
    def make(run, number):
        task = run.task("f", [None, 1][1 - number])
        if number:
            run.kill(task, "f")

    first = both(make).first
    assert first.kind == "killed" and "killed before the function ran" in first.there
    assert first.hints == ["The task has no retry left: max_retries= allows retries."]
    assert both(lambda run, number: run.kill(run.task("f", [1, 1]), "f", "end")).first is None


def test_items_are_compared_one_by_one_and_a_closed_generator_as_far_as_it_came():
    def make(run, number, **facts):
        run.task("f", (1, 2) if number else (1, 2, 3), is_generator=True, **facts)

    assert first_of(make)[0] == "items"
    assert both(lambda run, number: make(run, number, is_closed=bool(number))).first is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ([{"number": 0.1 + 0.2}, {"number": 0.3}], "differ by rounding"),
        ([{"unordered": "1"}, {"unordered": "1"}], "same elements in another order"),
        ([{"drew": ["zray.rng"]}, {}], "the session has no seed"),
        ([{"mentions": ["uuid4", "time"]}, {}], "mentions uuid4"),
        ([{}, {}], ""),
    ],
)
def test_reason_is_given_where_there_is_evidence(facts, words):
    hints = both(lambda run, number: run.task("f", number, **facts[number])).first.hints
    assert words in " ".join(hints) and bool(words) == bool(hints)


def test_calls_of_several_tasks_are_the_reason_for_an_actor():
    def make(run, number):
        actor = run.task("A.__init__", 0, actor="a").hex()
        for x in range(2):
            run.task("A.add", x + number, parent=run.task("f", 1, str(x)), actor=actor)

    assert "Several tasks call the actor" in both(make).first.hints[0]


def test_salt_of_a_generator_in_a_task_is_no_part_of_its_place():
    def make(run, number):
        outer = run.task("outer", 1)
        run.counts[outer] = (number + 1) << 24
        run.task("inner", (1,), parent=outer, is_generator=True)

    assert both(make).first is None


def test_words_name_the_runs_and_their_values():
    first = both(lambda run, number: run.task("f", number, "x")).first
    verdict = Verdict([Run(1, 1), Run(2, 2)], first, {1: "0", 2: "1"})
    assert words_of(verdict)[0] == "The first task that differs: f, at program.py:1"
    assert words_of(verdict)[-2:] == ["  run 1: 0", "  run 2: 1"]
    assert words_of(Verdict([Run(1, 1)])) == ["Same: no tasks."]


def test_torn_line_is_left_out_and_too_many_tasks_are_an_error(tmp_path, monkeypatch):
    writer = Writer(str(tmp_path))
    for name in "fg":
        writer.write(Ending("00", name, ""))
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-9])
    assert [line.name for line in lines_of(str(tmp_path))] == ["f"]
    monkeypatch.setattr("zray.testing.determinism.records.TASKS_MAX", 0)
    with pytest.raises(TooManyTasks, match="more than 0 tasks"):
        list(lines_of(str(tmp_path)))
