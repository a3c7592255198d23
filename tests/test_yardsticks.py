"""`python -m benchmarks.yardsticks`: figures of a tree, and what is worse than in another one."""

import json
import re
import shutil

import pytest

from benchmarks.yardsticks.__main__ import main
from benchmarks.yardsticks.bench import least
from benchmarks.yardsticks.compare import Samples, rows_of, table
from benchmarks.yardsticks.figures import FIGURES, GROUPS, chosen
from benchmarks.yardsticks.measure import MODULES
from benchmarks.yardsticks.names import Names, NotThere
from benchmarks.yardsticks.trees import measure_all, measure_in
from tests.scripts import ROOT
from zray.sim.against import Tree, this_tree

SCALE = 0.01
WITH_PROCESSES = ("tasks", "spilled", "actors", "life")
HERE = this_tree()


def marks(before, now, *, is_paired=True):
    """The mark of each figure of two trees."""
    samples = [
        {name: Samples(values) if values else Samples(why="no such name") for name, values in tree.items()}
        for tree in (before, now)
    ]
    return {row.figure.name: row.mark() for row in rows_of(*samples, is_paired=is_paired)}


def test_figure_that_is_worse_by_more_than_five_percent_is_marked():
    before = {"task.node": [100.0], "call.node": [100.0], "worker.memory": [100.0], "simulation.seeds": [100.0]}
    now = {"task.node": [105.1], "call.node": [104.9], "worker.memory": [50.0], "simulation.seeds": [95.0]}
    found = marks(before, now)
    assert found == {"task.node": "worse", "call.node": "", "worker.memory": "", "simulation.seeds": "worse"}


def test_more_seeds_a_second_are_better():
    assert marks({"simulation.seeds": [100.0]}, {"simulation.seeds": [200.0]}) == {"simulation.seeds": ""}


def test_ratio_is_of_one_turn_and_the_median_of_all():
    """The machine may be twice as fast a minute later."""
    before, now = {"task.node": [10.0, 20.0, 40.0]}, {"task.node": [10.2, 20.4, 20.0]}
    assert marks(before, now) == {"task.node": ""}
    before, now = {"task.node": [10.0, 20.0, 40.0]}, {"task.node": [11.0, 22.0, 20.0]}
    assert marks(before, now) == {"task.node": "worse"}
    assert marks(before, now, is_paired=False) == {"task.node": ""}


def test_figure_is_not_worse_where_its_best_turn_is_as_good():
    """Other programs of the machine make turns worse, and never better."""
    assert marks({"task.node": [10.0, 10.0, 10.0]}, {"task.node": [10.0, 15.0, 12.0]}) == {"task.node": ""}
    found = marks({"simulation.seeds": [10.0, 10.0, 10.0]}, {"simulation.seeds": [10.0, 5.0, 6.0]})
    assert found == {"simulation.seeds": ""}


def test_figure_that_is_not_there_any_more_is_marked_and_a_new_one_is_not():
    assert marks({"task.node": [1.0]}, {"task.node": []}) == {"task.node": "gone"}
    assert marks({"task.node": []}, {"task.node": [1.0]}) == {"task.node": ""}
    assert marks({"task.node": []}, {"task.node": []}) == {"task.node": ""}
    assert marks({"task.node": [1.0]}, {}) == {"task.node": "gone"}


def test_nothing_is_worse_than_nothing():
    assert marks({"ended.memory": [0.0]}, {"ended.memory": [0.0]}) == {"ended.memory": ""}
    assert marks({"ended.memory": [0.0]}, {"ended.memory": [1.0]}) == {"ended.memory": "worse"}


def test_table_has_medians_the_ratio_and_why_a_figure_is_not_there():
    before = {"task.node": Samples([1.0, 3.0, 2.0]), "ready.cpu": Samples(why="Addresses is defined in nowhere")}
    rows = rows_of(before, {"task.node": Samples([4.0, 6.0, 4.0]), "ready.cpu": Samples([2.0])}, is_paired=True)
    text = table(rows, ("HEAD~1", "this tree"))
    assert re.search(
        r"^task.node +2 us +4 us +2\.000 +4\.000 +2\.00 to 4\.00 +worse +CPU of the node", text, re.MULTILINE
    )
    assert re.search(r"^ready.cpu +not there +2 us +CPU of the local", text, re.MULTILINE)
    assert "ready.cpu is not there in HEAD~1: Addresses is defined in nowhere" in text


def test_figures_and_groups_are_chosen_by_name():
    assert chosen([]) == GROUPS
    assert {name: [one.name for one in group] for name, group in chosen(["waiting", "call.node"]).items()} == {
        "tasks": ["call.node"],
        "waiting": ["waiting.memory"],
    }
    with pytest.raises(ValueError, match="no such figure or group: nothing; there are tasks, .*worker.memory"):
        chosen(["nothing", "tasks"])


def test_each_group_has_a_module_that_measures_it():
    assert MODULES.keys() == GROUPS.keys()


def test_name_that_is_not_there_is_said_to_be_so():
    assert Names().LocalScheduler.__name__ == "LocalScheduler"
    with pytest.raises(NotThere, match="NoSuchRole is defined in nowhere"):
        _ = Names().NoSuchRole


def test_turn_takes_what_it_took_in_the_course_that_was_disturbed_least():
    assert least([[1.0, 5.0], [2.0, 3.0]]) == [1.0, 3.0]
    with pytest.raises(NotThere, match="different numbers of turns"):
        least([[1.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    "group", [pytest.param(name, marks=[pytest.mark.slow] if name in WITH_PROCESSES else []) for name in GROUPS]
)
def test_group_is_measured(group, nothing_left):
    found = measure_in(HERE, group, SCALE)
    assert found.keys() == {figure.name for figure in GROUPS[group]}, found
    # At this size, what a few tasks take is less than what malloc has at hand.
    assert all(value > 0 or name == "ended.memory" for name, value in found.items()), found


@pytest.fixture
def other(tmp_path):
    """A copy of this tree with another name for a class that figures need, and more modules."""
    shutil.copytree(ROOT / "zray", tmp_path / "zray", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "zray").rglob("*.py"):
        path.write_text(re.sub(r"\bAddresses\b", "Whereabouts", path.read_text()))
    (tmp_path / "zray" / "more.py").write_text("")
    init = tmp_path / "zray" / "__init__.py"
    init.write_text(init.read_text() + "\nfrom . import more\n")
    return Tree(tmp_path, "the other tree")


def test_two_trees_are_measured_each_with_its_own_modules(other, monkeypatch):
    monkeypatch.setattr("benchmarks.yardsticks.trees.measure_in", only_imports)
    monkeypatch.setattr("compileall.compile_dir", lambda *given, **options: True)
    ours, theirs = measure_all([HERE, other], chosen(["import.modules", "waiting"]), 1, SCALE)
    assert theirs["import.modules"].median() > ours["import.modules"].median()
    assert ours["waiting.memory"].is_there()
    assert theirs["waiting.memory"].why == "Addresses is defined in nowhere"
    found = {row.figure.name: row.mark() for row in rows_of(ours, theirs, is_paired=True)}
    assert found == {"waiting.memory": "gone", "import.modules": "worse"}


def only_imports(tree, group, scale):
    """The number of modules in place of all that `life` measures."""
    if group != "life":
        return measure_in(tree, group, scale)
    import subprocess
    import sys

    code = "import sys; before = len(sys.modules); import zray; print(len(sys.modules) - before)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tree.folder, env=tree.environment(), capture_output=True, text=True, check=True)
    return {"import.modules": int(done.stdout)}


def test_file_of_figures_is_compared_with_another(tmp_path, capsys):
    one, two = str(tmp_path / "one.json"), str(tmp_path / "two.json")
    assert main(["--only", "waiting", "--turns", "1", "--scale", "0.01", "--out", one]) == 0
    found = json.loads((tmp_path / "one.json").read_text())
    assert found["circumstances"]["machine"]["cores"] > 0 and re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    figure = found["figures"]["waiting.memory"]
    assert figure["unit"] == FIGURES["waiting.memory"].unit and figure["values"] == [figure["median"]]
    figure["values"] = [2 * figure["median"]]
    (tmp_path / "two.json").write_text(json.dumps(found))
    assert main(["--against", one, "--of", one]) == 0
    assert main(["--against", two, "--of", one]) == 0
    capsys.readouterr()
    assert main(["--against", one, "--of", two]) == 1
    assert re.search(r"^waiting.memory .* 2\.000 .* worse ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("arguments", [["--turns", "0"], ["--scale", "2"], ["--only", "nothing"]])
def test_wrong_argument_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and "error: " in capsys.readouterr().err


def test_commit_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match="git archive no-such-commit: "):
        main(["--against", "no-such-commit", "--only", "waiting"])
