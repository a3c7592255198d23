"""A restore says what to do instead of folders and arguments that are not for it."""

import pytest

from zray import tune
from zray.tune.errors import NoExperimentError
from zray.tune.state_file import STATE


def train(config):
    tune.report({"x": 1})


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
