"""A restore says what to do instead of folders and arguments that are not for it."""

import warnings

import pytest

from zray import tune
from zray.tune.beginning import ExperimentWarning
from zray.tune.errors import NoExperimentError
from zray.tune.schedulers import ASHAScheduler, MedianStoppingRule
from zray.tune.search.searcher import Searcher
from zray.tune.state_file import STATE


def train(config):
    tune.report({"x": 1})


class Drawing(Searcher):
    def suggest(self, trial_id):
        return {"x": 1}


def test_folder_that_does_not_exist_is_named_beside_near_ones(tmp_path):
    with pytest.raises(NoExperimentError, match=r"search_2 does not exist\.  There is no experiment in .* either\."):
        tune.Tuner.restore(str(tmp_path / "search_2"), train)
    for name in ("search_1", "other", "no_experiment"):
        (tmp_path / name).mkdir()
        if name != "no_experiment":
            (tmp_path / name / STATE).touch()
    with pytest.raises(NoExperimentError, match=r"search_2 does not exist\.  Experiments in .*: search_1\."):
        tune.Tuner.restore(str(tmp_path / "search_2"), train)
    with pytest.raises(NoExperimentError, match=r"x does not exist\.  Experiments in .*: other, search_1\."):
        tune.Tuner.restore(str(tmp_path / "x"), train)
    with pytest.raises(NoExperimentError, match="does not exist, nor can"):
        tune.Tuner.restore(str(tmp_path / "absent" / "x"), train)


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        ("num_samples", r"tune\.run\(.*num_samples=n, resume=True\)"),
        ("tune_config", "another experiment"),
        ("metric", "get_best_result"),
        ("sample_count", "restart_errored, param_space and storage_filesystem"),
    ],
)
def test_argument_of_a_first_run_says_at_a_restore_what_to_do_instead(tmp_path, argument, advice):
    with pytest.raises(TypeError, match=f"Tuner.restore takes no .*{argument}.*{advice}"):
        tune.Tuner.restore(str(tmp_path), train, **{argument: 3})


@pytest.mark.usefixtures("session")
def test_argument_that_a_run_which_goes_on_ignores_is_named(tmp_path):
    options = {"config": {"x": 1}, "metric": "x", "mode": "min", "name": "e", "storage_path": str(tmp_path)}
    first = {"scheduler": ASHAScheduler(max_t=9), "max_failures": 1, "time_budget_s": 600}
    tune.run(train, **options, **first)
    for same in ({}, first, {"scheduler": ASHAScheduler(max_t=9)}):  # what is not given is as it was
        with warnings.catch_warnings():
            warnings.simplefilter("error", ExperimentWarning)
            tune.run(train, resume=True, **options, **same)
    for argument, value, words in [
        (
            "scheduler",
            MedianStoppingRule(),
            "scheduler of MedianStoppingRule .* for the former AsyncHyperBandScheduler",
        ),
        ("scheduler", ASHAScheduler(max_t=8), "scheduler of other arguments"),
        ("search_alg", Drawing(), "search_alg of Drawing .*BasicVariantGenerator"),
        ("max_failures", 3, "max_failures=3 is ignored, for 1"),
        ("time_budget_s", 30, "time_budget_s=30.0 is ignored, for 600.0"),
    ]:
        with pytest.warns(ExperimentWarning, match=f"{words}.*first run of .*another experiment"):
            tune.run(train, resume=True, **options, **{argument: value})
