"""Charts of the plot pages: what a reader of the picture would see."""

import math
import re
import warnings

import pytest

from zray.tune.drawing import (
    AXES_MAX,
    LETTER,
    Axis,
    Line,
    Scale,
    colour_bar,
    curves,
    goes_over_decades,
    parallel_coordinates,
    ticks,
)
from zray.tune.importances import importances


def axis_names(drawn):
    """(left end, right end, line) of the name of each axis, in pixels."""
    found = re.findall(r'class="name" x="([\d.]+)" y="(\d+)" text-anchor="middle">([^<]*)<', drawn)
    return [(float(x) - len(text) * LETTER / 2, float(x) + len(text) * LETTER / 2, int(y)) for x, y, text in found]


def test_names_of_many_axes_do_not_overlap():
    columns = {f"layer_{number}_learning_rate_multiplier": [0.1, 0.2] for number in range(AXES_MAX + 1)}
    drawn = parallel_coordinates([Line("t0", "a", 0.0, []), Line("t1", "b", 1.0, [])], columns)
    names = axis_names(drawn)
    assert len(names) == AXES_MAX
    for height in {name[2] for name in names}:
        row = sorted(name for name in names if name[2] == height)
        assert all(left[1] <= right[0] for left, right in zip(row, row[1:], strict=False))
    assert f"The last {AXES_MAX - 1} of {AXES_MAX} parameters are drawn." in drawn


def test_axis_of_iterations_has_whole_numbers_and_lines_know_their_rank():
    drawn = curves([Line("t0", "a", 0.0, [(1.0, 0.5), (2.0, 0.4), (3.0, 0.3)])], "training_iteration", "loss")
    marks = re.findall(r'text-anchor="middle">([\d.]+)<', drawn)
    assert marks == ["1", "2", "3"]
    assert 'class="line t0" style="--rank:0.00"' in drawn
    assert ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]


def test_values_are_drawn_by_their_logarithm_where_most_of_them_are_small():
    assert goes_over_decades([10.0**-power for power in range(6)])
    assert Scale([0.011, 0.1, 0.8], 0, 100, is_log=True).ticks() == [0.02, 0.05, 0.1, 0.2, 0.5]
    assert not goes_over_decades([number / 1000 for number in range(1, 1000)])
    assert not goes_over_decades([0.0, 1.0, 100.0])


def test_axis_of_a_choice_among_numbers_has_these_as_its_marks():
    assert [text for _, text in Axis("batch", [16, 32, 64, 128, 16]).marks] == ["16", "32", "64", "128"]
    drawn = Axis("lr", [place / 7 for place in range(40)])
    assert len(drawn.marks) < 12


def test_values_at_the_end_of_floats_are_drawn():
    lines = [Line("t0", "one", 0.0, [(0.0, 1e308), (1.0, -1e308), (2.0, 1.0)])]
    assert "inf" not in curves(lines, "x", "y") and "nan" not in curves(lines, "x", "y")


def test_scores_whose_squares_are_no_floats_have_importances():
    pytest.importorskip("optuna")
    parameters = {"a": [1, 2, 3, 4, 5, 6], "b": [0.1, 0.5, 0.3, 0.7, 0.2, 0.9]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = importances(parameters, [1.0, 2.0, 3.0, 4.0, math.inf, math.nan], "min")
        large = importances(parameters, [1e307, 2e307, 3e307, 4e307, math.inf, math.nan], "min")
        ends = importances(parameters, [1.7e308, -1.7e308, 5e-324, 1.0, 2.0, math.inf], "min")
    assert large == pytest.approx(found) and set(ends) == {"a", "b"}


def test_texts_of_a_chart_have_no_control_characters():
    drawn = curves([Line("t0", "name\x1b[2J<b>", 0.0, [(1.0, 1.0), (2.0, 2.0)])], "x\x07", "y\x1b]0;")
    assert "\x1b" not in drawn and "\x07" not in drawn and "name\\x1b[2J&lt;b&gt;" in drawn


def test_legend_names_both_ends_of_the_colours():
    assert colour_bar("worst <a>", "best").count("<i ") == 12
    assert "worst &lt;a&gt;" in colour_bar("worst <a>", "best")
