"""A second `fit` of the same Tuner, and searchers that a second experiment is given."""

import os

import pytest

from tests.gates import Tally
from zray import tune
from zray.tune.search import BasicVariantGenerator, ConcurrencyLimiter

pytestmark = pytest.mark.usefixtures("session")
UNIFORM = {"x": tune.uniform(0, 1)}


def tuner_of(folder, trainable=lambda config: {"loss": config["x"]}, space=None, name=None, **options):
    return tune.Tuner(
        trainable,
        param_space=space or {"x": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", **options),
        run_config=tune.RunConfig(name=name, storage_path=str(folder), verbose=0),
    )


@pytest.mark.parametrize("place", ["local", "file"])
@pytest.mark.parametrize("name", [None, "named"])
def test_second_fit_trains_again_in_a_new_folder(name, place, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "copies"))
    tally = Tally(tmp_path / "tally")

    def train(config):
        tally.visit()
        return {"loss": config["x"]}

    if place == "file":
        pytest.importorskip("fsspec")
    tuner = tuner_of(tmp_path / "results" if place == "local" else "memory://results", train, name=name)
    grids = [tuner.fit() for _ in range(3)]
    assert tally.count() == 6
    assert len({grid.experiment_path for grid in grids}) == 3
    assert len({result.path for grid in grids for result in grid}) == 6
    for grid in grids:
        assert [result.metrics["loss"] for result in grid] == [1, 2]
        assert all(os.path.dirname(result.path) == grid._experiment.path for result in grid)
        assert len(tune.Tuner.restore(grid._experiment.path, train).get_results()) == 2
    assert tuner.get_results().experiment_path == grids[-1].experiment_path


def test_second_fit_of_a_restored_experiment_goes_on_in_its_folder(tmp_path):
    grid = tuner_of(tmp_path, name="first").fit()
    tuner = tune.Tuner.restore(grid.experiment_path, lambda config: {"loss": 7})
    for _ in range(2):
        again = tuner.fit()
        assert again.experiment_path == grid.experiment_path and [each.metrics["loss"] for each in again] == [1, 2]


def test_fit_that_has_not_begun_is_tried_again_with_the_same_name(tmp_path):
    (tmp_path / "results").write_text("a file in place of the folder")
    tuner = tuner_of(tmp_path / "results", name="named")
    with pytest.raises(tune.TuneError, match="cannot be written"):
        tuner.fit()
    (tmp_path / "results").unlink()
    assert os.path.basename(tuner.fit().experiment_path) == "named"


@pytest.mark.parametrize("kind", ["optuna", "hyperopt", "limited"])
def test_searcher_of_another_experiment_is_refused_for_that_reason(kind, tmp_path):
    pytest.importorskip("hyperopt" if kind == "hyperopt" else "optuna")
    from zray.tune.search.hyperopt import HyperOptSearch
    from zray.tune.search.optuna import OptunaSearch

    made = HyperOptSearch() if kind == "hyperopt" else OptunaSearch()
    tuner = tuner_of(tmp_path, space=UNIFORM, search_alg=ConcurrencyLimiter(made, 1) if kind == "limited" else made)
    assert len(tuner.fit()) == 1
    for again in (tuner.fit, lambda: tuner_of(tmp_path, space=UNIFORM, search_alg=made)):
        with pytest.raises(ValueError, match=f"{type(made).__name__} has the search space and the trials of another"):
            again()


def test_random_search_begins_anew_in_another_experiment(tmp_path):
    searcher = BasicVariantGenerator()
    grids = [tuner_of(tmp_path, space=UNIFORM, search_alg=searcher, num_samples=2).fit() for _ in range(2)]
    assert [len(grid) for grid in grids] == [2, 2]
    assert len({result.config["x"] for grid in grids for result in grid}) == 4
    seeded = BasicVariantGenerator(random_state=3)
    first, second = (tuner_of(tmp_path, space=UNIFORM, search_alg=seeded, num_samples=2).fit() for _ in range(2))
    assert [result.config for result in first] == [result.config for result in second]
