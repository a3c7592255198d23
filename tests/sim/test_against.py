"""`scripts/simulate --against`: a change of names leaves each run as it was, and a change of behaviour is found."""

import re
import shutil

import pytest

from tests.scripts import ROOT
from zray.sim.against import Tree, compare, compare_with

pytestmark = pytest.mark.sim

SEEDS, ASKED = [1, 2], {"nodes": 3}


@pytest.fixture
def other(tmp_path):
    """A copy of this tree, to be changed."""
    shutil.copytree(ROOT / "zray", tmp_path / "zray", ignore=shutil.ignore_patterns("__pycache__"))
    return Tree(tmp_path, "the other tree")


def change(tree, pattern, replacement, *paths):
    """Replace a pattern in files of a tree."""
    for path in paths or tree.folder.rglob("*.py"):
        text = (tree.folder / path).read_text()
        (tree.folder / path).write_text(re.sub(pattern, replacement, text))


def test_runs_are_equal_where_only_a_message_has_another_name(other):
    change(other, r"\bTasksFinished\b", "TasksDone")
    assert compare(Tree(ROOT, "this tree"), other, SEEDS, ASKED) == ""


def test_first_line_that_differs_is_named_with_the_lines_before_it(other):
    change(other, "LOAD_SECONDS = 0.1", "LOAD_SECONDS = 0.11", "zray/roles/local_scheduler/membership/members.py")
    told = compare(Tree(ROOT, "this tree"), other, SEEDS, ASKED).splitlines()
    place = next(number for number, line in enumerate(told) if line.startswith("--- line "))
    assert 0 < place <= 40 and told[place].endswith(" of seed 1")
    assert told[place + 1].startswith("this tree: ") and told[place + 2].startswith("the other tree: ")
    assert told[place + 1].partition(": ")[2] != told[place + 2].partition(": ")[2]


def test_tree_that_cannot_run_is_an_error(other):
    change(other, r"(?m)^class Outcome", "raise SystemExit(3)\nclass Outcome", "zray/sim/main.py")
    with pytest.raises(RuntimeError, match="the other tree could not run these seeds: its process ended with 3"):
        compare(Tree(ROOT, "this tree"), other, SEEDS, ASKED)


def test_commit_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match="git archive no-such-commit: "):
        compare_with("no-such-commit", SEEDS, ASKED)
