"""Numbers in the tags of trials, which are a part of the names of their folders."""

import pytest

from zray.tune.naming import tag_of


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1e-9, "1e-09"),
        (-2.5e-7, "-2.5e-07"),
        (0.00006, "6e-05"),
        (0.0001, "0.0001"),
        (0.25, "0.25"),
        (0.0, "0"),
        (-0.0, "-0"),
        (3.0, "3"),
        (100.0, "100"),
        (1, "1"),
    ],
)
def test_number_in_the_name_of_a_folder_is_not_shown_as_zero(value, shown):
    assert tag_of(3, {"model/lr": value}) == f"3_lr={shown}"
