"""Equal lines of several workers: shown once, then counted."""

import pytest

from zray.host.output.log_lines import ERROR, LATEST, PART
from zray.host.output.repeated_lines import FOLD_SECONDS, RECENT_MAX, SWITCH, Folds


@pytest.fixture
def folds(monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    return Folds()


def test_equal_lines_of_other_workers_are_counted(folds):
    lines = [f"(f pid={pid}) not writable\n" for pid in range(24)]
    assert folds.take(lines, 0.0, ()) == lines[:1]
    assert folds.due(FOLD_SECONDS - 1) == []
    (said,) = folds.due(FOLD_SECONDS)
    assert said.startswith("(f pid=23) not writable [repeated 23x across cluster]") and SWITCH in said
    assert folds.due(FOLD_SECONDS) == folds.rest() == []
    folds.take(lines, 10.0, ())
    assert folds.rest() == ["(f pid=23) not writable [repeated 23x across cluster]\n"]


def test_equal_line_of_one_other_worker_is_shown_as_it_is(folds):
    assert folds.take(["(f pid=1) a\n", "(g pid=2) a\n"], 0.0, ()) == ["(f pid=1) a\n"]
    assert folds.rest() == ["(g pid=2) a\n"]


@pytest.mark.parametrize(
    "lines",
    [
        ["(f pid=1) a\n", "(f pid=1) a\n"],  # of one worker
        ["(f pid=1) a\n", "(f pid=2) b\n"],
        ["(f pid=1) \n", "(f pid=2) \n"],
        [f"{PART}(f pid=1) a\n", f"{PART}(f pid=2) a\n"],
        [f"{LATEST}(f pid=1) a\n", f"{LATEST}(f pid=2) a\n"],
        ["(live) a\n", "(f pid=1) a\n", "(live) a\n"],
        ["no label\n", "no label\n"],
        ["(f pid=1) a\n", f"{ERROR}(f pid=2) a\n"],
    ],
    ids=repr,
)
def test_lines_that_are_all_shown(folds, lines):
    assert folds.take(lines, 0.0, {"(live) "}) == lines
    assert folds.rest() == []


def test_equal_line_that_comes_late_is_shown_at_once(folds):
    lines = ["(f pid=1) a\n", "(f pid=2) a\n"]
    folds.take(lines, 0.0, ())
    late = ["(f pid=3) a\n"]
    assert folds.take(late, FOLD_SECONDS, ()) == lines[1:] + late


def test_memory_is_bounded(folds):
    folds.take([f"(f pid={pid}) 0\n" for pid in (1, 2)], 0.0, ())
    shown = folds.take([f"(f pid=1) {number}\n" for number in range(1, RECENT_MAX + 10)], 0.0, ())
    assert "(f pid=2) 0\n" in shown and len(folds.recent) == RECENT_MAX


def test_variable_of_ray_has_all_shown(monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    lines = ["(f pid=1) a\n", "(f pid=2) a\n"]
    assert Folds().take(lines, 0.0, ()) == lines
