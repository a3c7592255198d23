"""Results of an experiment whose folder has moved, with values that are not finite among them."""

import math
import os

import pytest

from zray import tune

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture
def folder(tmp_path):
    """Folder of an experiment of three trials, of which one has an infinite loss and each has two checkpoints."""

    class Saver(tune.Trainable):
        def setup(self, config):
            self.x = config["x"]

        def step(self):
            loss = math.inf if self.x == 1 else self.x - self.iteration
            return {"loss": loss, "done": self.iteration == 1}

        def save_checkpoint(self, folder):
            return {"x": self.x}

        def load_checkpoint(self, state):
            self.x = state["x"]

    config = tune.RunConfig(
        storage_path=str(tmp_path),
        name="first",
        verbose=0,
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
    )
    tuner = tune.Tuner(
        Saver,
        param_space={"x": tune.grid_search([0, 1, 2])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", reuse_actors=True),
        run_config=config,
    )
    tuner.fit()
    os.rename(tmp_path / "first", tmp_path / "moved")
    return str(tmp_path / "moved")


def test_grid_of_a_moved_analysis_has_the_results_of_its_folder(folder):
    grid = tune.ResultGrid(tune.ExperimentAnalysis(folder))
    assert len(grid) == 3 and all(result.path.startswith(folder) for result in grid)
    assert grid.get_best_result("loss", "min").config["x"] == 0


def test_ray_s_present_name_of_the_folder_takes_a_file_in_it_too(folder):
    for place in (folder, os.path.join(folder, "experiment.pkl")):
        assert len(tune.ExperimentAnalysis(experiment_checkpoint_path=place).trials) == 3
    with pytest.raises(TypeError, match="takes the folder of an experiment, once"):
        tune.ExperimentAnalysis(folder, experiment_checkpoint_path=folder)


def test_mode_that_is_none_is_refused(folder):
    with pytest.raises(ValueError, match='mode is "min" or "max", not \'bad\''):
        tune.ExperimentAnalysis(folder).dataframe(metric="loss", mode="bad")


def test_best_checkpoint_is_the_trials_own_and_none_without_a_finite_value(folder):
    analysis = tune.ExperimentAnalysis(folder, default_metric="loss", default_mode="min")
    for trial in analysis.trials:
        best = analysis.get_best_checkpoint(trial, "loss", "min")
        if trial.config["x"] == 1:
            assert best is None
        else:
            assert os.path.isdir(best.path) and os.path.dirname(best.path) == trial.path
