"""Tables of Tune against the code: options with their defaults, and tests that rows name."""

import dataclasses
import inspect

import pytest

from tests.docs.pages import DOCS, rows
from tests.scripts import ROOT
from zray import tune

PAGE = DOCS / "tune-options.md"


def table(heading):
    return [(cells[0].strip("`"), cells[1]) for cells in rows(PAGE, heading)]


def shown(default):
    return f"`{default!r}`".replace("'", '"')


@pytest.mark.parametrize("name", ["TuneConfig", "RunConfig", "CheckpointConfig", "FailureConfig"])
def test_options_of_a_part_are_in_its_table_with_their_defaults(name):
    fields = dataclasses.fields(getattr(tune, name))
    assert table(name) == [(field.name, shown(field.default)) for field in fields]


def test_arguments_of_run_are_in_its_table_with_their_defaults():
    parameters = [each for each in inspect.signature(tune.run).parameters.values() if each.kind is not each.VAR_KEYWORD]
    assert table("tune.run") == [
        (each.name, "required" if each.default is each.empty else shown(each.default)) for each in parameters
    ]


@pytest.mark.parametrize("place", [cells[2].strip("`") for cells in rows(DOCS / "compatibility.md", "Tune")])
def test_test_of_a_compatibility_row_is_there(place):
    file, _, name = place.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / "tune" / file).read_text()
