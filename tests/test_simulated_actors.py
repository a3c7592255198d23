"""E5 in the simulator: exact, and nothing of it where the simulator is not trusted."""

from types import SimpleNamespace

import pytest

from benchmarks.figures import actors_simulated
from benchmarks.figures.results import ABSENT, MISSED, REACHED, SIMULATED, Figure
from benchmarks.timing import QUICK


def measured(monkeypatch, passes=True):
    """The figure of a few actors."""
    model = SimpleNamespace(passes=passes, error=0.3 - 0.2 * passes, predicted=1.0, measured=1.0, costs=None)
    monkeypatch.setattr(actors_simulated, "calibrated", lambda effort: model)
    monkeypatch.setattr(actors_simulated, "QUICK", actors_simulated.Plan(20))
    figure = Figure("E5", "a title")
    actors_simulated.measure(figure, QUICK)
    return figure


def test_simulated_actors_that_are_lost_run_again_and_far_less_with_checkpoints(monkeypatch):
    figure = measured(monkeypatch)
    gate, exact, early, without, saved, times = figure.rows
    assert {row.kind for row in figure.rows} == {SIMULATED}
    assert [row.verdict for row in (gate, exact, early, saved, times)] == [REACHED] * 5, figure.rows
    assert without.value >= 4 * 80 and 0 < saved.value <= 4 * 10 and figure.seeds == [actors_simulated.SEED]


def test_no_simulated_actor_is_shown_where_the_simulator_does_not_predict_one_node(monkeypatch):
    gate, left_out = measured(monkeypatch, passes=False).rows
    assert gate.verdict == MISSED and left_out.verdict == ABSENT and "no simulated point" in left_out.ours


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"wrong": 1}, "no caller notices"),
        ({"early": 1}, "only after the kill"),
        ({"runs": {}}, "fewer calls run again"),
    ],
)
def test_what_is_not_exact_is_said(change, missed):
    without, saved = (actors_simulated.Course(frozenset("a"), {1: "a"}, {(1, 1): again}, {1: 1}) for again in (100, 2))
    for name, value in change.items():
        setattr(saved, name, value)
    figure = Figure("E5", "a title")
    actors_simulated.judge(figure, "actors", without, saved)
    (row,) = [row for row in figure.rows if row.verdict == MISSED]
    assert row.label.endswith(missed)
