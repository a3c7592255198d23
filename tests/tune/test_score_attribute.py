"""The key by which checkpoints are kept: one warning where results lack it, and keys that are filled in count too."""

import warnings

import pytest

from zray import tune

pytestmark = pytest.mark.usefixtures("session")


def by_function(config):
    for step in range(4):
        tune.report(
            {"mean_loss": [3.0, 1.0, 2.0, 4.0][step], "nested": {"acc": step}},
            checkpoint=tune.Checkpoint.from_dict({"step": step}),
        )


class ByClass(tune.Trainable):
    def step(self):
        return {"mean_loss": float(self.iteration), "nested": {"acc": 1}, "done": self.iteration == 3}

    def save_checkpoint(self, folder):
        return {"step": self.iteration}

    def load_checkpoint(self, state):
        pass


def kept(trainable, tmp_path, key, order="min", keep=1):
    """The iterations of the checkpoints that are kept, and the warnings."""
    frequency = 1 if isinstance(trainable, type) else 0
    saving = tune.CheckpointConfig(
        num_to_keep=keep,
        checkpoint_score_attribute=key,
        checkpoint_score_order=order,
        checkpoint_frequency=frequency,
    )
    run = tune.RunConfig(storage_path=str(tmp_path), checkpoint_config=saving, verbose=0)
    space = {"x": tune.grid_search([1, 2])}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = tune.Tuner(trainable, param_space=space, run_config=run).fit()
    assert results.num_errors == 0
    found = [[metrics["training_iteration"] for _, metrics in each.best_checkpoints] for each in results]
    return found[0], [str(each.message) for each in caught if "checkpoint_score_attribute" in str(each.message)]


@pytest.mark.parametrize("trainable", [by_function, ByClass])
@pytest.mark.parametrize(
    ("key", "near"),
    [("mean_los", "mean_loss"), ("nested/ac", "nested/acc"), ("training_iteraton", "training_iteration"), ("zz", "")],
)
def test_key_that_results_lack_is_one_warning(trainable, key, near, tmp_path):
    _, said = kept(trainable, tmp_path, key)
    assert len(said) == 1 and f"has no {key!r}, by which the best checkpoints are kept" in said[0]
    assert (f"Did you mean {near!r}?" in said[0]) == bool(near)


def test_value_that_is_no_number_is_a_warning(tmp_path):
    def train(config):
        tune.report({"mean_loss": "high"}, checkpoint=tune.Checkpoint.from_dict({}))

    _, (said,) = kept(train, tmp_path, "mean_loss")
    assert "has 'high' as 'mean_loss', by which the best checkpoints are kept" in said


@pytest.mark.parametrize("key", ["mean_loss", "nested/acc", "training_iteration", "time_total_s"])
@pytest.mark.parametrize("trainable", [by_function, ByClass])
def test_key_that_results_have_is_no_warning(trainable, key, tmp_path):
    _, said = kept(trainable, tmp_path, key)
    assert said == []


@pytest.mark.parametrize("trainable", [by_function, ByClass])
def test_keys_that_are_filled_in_keep_the_best(trainable, tmp_path):
    found, _ = kept(trainable, tmp_path, "training_iteration", "min", keep=2)
    assert found == [1, 2, 4]  # the best ones, and the newest
