"""The figure of locality over a link of a set rate."""

import statistics

import pytest

from benchmarks.figures import e9, shaped_link
from benchmarks.figures.results import ABSENT, MISSED, REACHED, Figure
from benchmarks.timing import FULL

BITS_PER_S = 1e9
SMALL, LARGE = 100_000, 20_000_000


def times(large):
    return {SMALL: [0.01, 0.01], LARGE: [large, large]}


@pytest.fixture
def figure(monkeypatch):
    """Over loopback all is well."""
    monkeypatch.setattr(e9, "latencies", lambda policy, count: times(1.0 if policy == "no_locality" else 0.02))
    return Figure("E9", "locality")


@pytest.mark.parametrize(("with_locality", "verdict"), [(0.01, REACHED), (0.2, MISSED)])
def test_it_is_held_against_the_same_limits_in_rows_of_its_own(with_locality, verdict, figure, monkeypatch):
    monkeypatch.setattr(
        e9, "latencies_over_it", lambda policy, count: times(1.0 if policy == "no_locality" else with_locality)
    )
    e9.measure(figure, FULL)
    shaped = [row for row in figure.rows if row.label.endswith(f"over a link of {shaped_link.RATE}")]
    assert [row.verdict for row in shaped] == [verdict, verdict]
    assert len(figure.rows) == 4
    assert len({samples.name for samples in figure.samples}) == 8


def test_where_no_link_can_be_shaped_the_report_says_why(figure, monkeypatch):
    monkeypatch.setattr(shaped_link.shutil, "which", lambda tool: None if tool == "tc" else tool)
    e9.measure(figure, FULL)
    assert [row.verdict for row in figure.rows] == [REACHED, REACHED, ABSENT]
    assert "needs tc" in figure.rows[-1].ours


@pytest.mark.slow
def test_what_crosses_it_takes_as_long_as_its_rate_says(nothing_left):
    try:
        # Half of the tasks go to where their argument is not: one in a billion that none does.
        found = shaped_link.latencies_over_it("no_locality", 30, sizes=(SMALL, LARGE))
    except NotImplementedError as error:
        pytest.skip(str(error))
    seconds = 8 * LARGE / BITS_PER_S
    assert statistics.median(found[SMALL]) < seconds <= max(found[LARGE])
