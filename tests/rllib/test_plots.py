"""The page of `zray rllib plot`: groups of runs, their bands, their names."""

import re

import pytest

from zray.rllib import plots
from zray.rllib.runs import Run


def run(number, rate, lengths=(40, 60, 80), **config):
    """A run whose returns grow, with a learning rate."""
    results = [
        {
            "timesteps_total": 100 * (index + 1),
            "episode_reward_mean": 10.0 * index + number,
            "episode_reward_min": 10.0 * index + number - 3,
            "episode_reward_max": 10.0 * index + number + 3,
            "episode_len_mean": length,
        }
        for index, length in enumerate(lengths)
    ]
    return Run(f"/results/run_{number}", f"run_{number}", "PPO", {"lr": rate, **config}, results, [])


@pytest.mark.parametrize(("count", "bands"), [(1, 1), (2, 2), (3, 0), (4, 0), (8, 0)])
def test_bands_are_drawn_for_at_most_two_groups(count, bands):
    drawn = plots.page([run(number, 10.0 ** -(number + 1)) for number in range(count)], "four rates")
    assert drawn.count('<polygon class="band"') == bands
    assert len(re.findall(r'class="mean"', drawn)) >= count  # each has its line


def test_legend_shows_four_digits_and_counts_runs():
    page = plots.page([run(0, 0.0001187546805288791, seed=1), run(1, 0.01, seed=1), run(2, 0.01, seed=2)], "rates")
    assert "lr=0.0001188 (1 run)" in page and "lr=0.01 (2 runs)" in page and "0.00011875" not in page


def test_rates_that_four_digits_do_not_tell_apart_are_shown_whole():
    page = plots.page([run(0, 0.00011875468), run(1, 0.00011875469)], "near rates")
    assert "lr=0.00011875468 (1 run)" in page and "lr=0.00011875469 (1 run)" in page


def test_length_that_never_changes_is_a_line_of_text():
    page = plots.page([run(0, 0.1, lengths=(40, 40, 40)), run(1, 0.2, lengths=(40, 40, 40))], "constant")
    part = page.split("<h2>episode_len_mean</h2>")[1].split("<h2>")[0]
    assert "40 in all results." in part and "<svg" not in part
