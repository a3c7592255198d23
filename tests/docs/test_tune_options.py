"""Tables of Tune against the code: options with their defaults and meanings, and tests that rows name."""

import dataclasses
import inspect

import pytest

from tests.docs.pages import DOCS, arguments, rows, shown
from tests.scripts import ROOT
from zray import tune
from zray.tune import schedulers, search, stoppers
from zray.tune.search.hyperopt import HyperOptSearch
from zray.tune.search.optuna import OptunaSearch

CLASSES = [
    *(schedulers.ASHAScheduler, schedulers.HyperBandScheduler, schedulers.MedianStoppingRule),
    schedulers.PopulationBasedTraining,
    *(search.BasicVariantGenerator, OptunaSearch, HyperOptSearch, search.ConcurrencyLimiter, search.Repeater),
    *(search.AskTellSearch, stoppers.MaximumIterationStopper, stoppers.TimeoutStopper, stoppers.TrialPlateauStopper),
    *(stoppers.ExperimentPlateauStopper, stoppers.FunctionStopper, tune.CLIReporter),
]
PAGE = DOCS / "tune-options.md"


def table(heading):
    return [(cells[0].strip("`"), cells[1]) for cells in rows(PAGE, heading)]


@pytest.mark.parametrize("name", ["TuneConfig", "RunConfig", "CheckpointConfig", "FailureConfig"])
def test_options_of_a_part_are_in_its_table_with_their_defaults(name):
    fields = dataclasses.fields(getattr(tune, name))
    assert table(name) == [(field.name, shown(field.default)) for field in fields]


def test_arguments_of_run_are_in_its_table_with_their_defaults():
    parameters = [each for each in inspect.signature(tune.run).parameters.values() if each.kind is not each.VAR_KEYWORD]
    assert table("tune.run") == [(each.name, shown(each.default)) for each in parameters]


def heading_of(kind):
    return "ASHAScheduler" if kind is schedulers.ASHAScheduler else kind.__name__


@pytest.mark.parametrize("kind", CLASSES, ids=heading_of)
def test_options_of_a_class_are_in_its_table_with_defaults_and_the_words_of_its_docstring(kind):
    meanings = arguments(kind.__doc__)
    assert [cells[:3] for cells in rows(PAGE, heading_of(kind))] == [
        [f"`{each.name}`", shown(each.default), meanings[each.name]]
        for each in inspect.signature(kind).parameters.values()
    ]


def test_each_scheduler_and_searcher_has_a_table():
    kinds = {getattr(module, name) for module in (schedulers, search) for name in module.__all__}
    bases = {schedulers.TrialScheduler, schedulers.FIFOScheduler, search.Searcher}
    assert {kind for kind in kinds if inspect.isclass(kind)} - bases <= set(CLASSES)


@pytest.mark.parametrize("place", [cells[2].strip("`") for cells in rows(DOCS / "compatibility.md", "Tune")])
def test_test_of_a_compatibility_row_is_there(place):
    file, _, name = place.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / "tune" / file).read_text()
