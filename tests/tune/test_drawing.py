"""Charts of the plot pages: what a reader of the picture would see."""

import re

from zray.tune.drawing import AXES_MAX, LETTER, Line, Scale, curves, goes_over_decades, parallel_coordinates, ticks


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
