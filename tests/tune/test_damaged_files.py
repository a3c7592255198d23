"""`zray tune ls` and `plot` of experiments whose text files hold JSON of another form, or no JSON at all."""

import os
import shutil

import pytest
from click.testing import CliRunner

from cli.tune import tune as command
from zray import tune

FORMS = {
    "nothing": b"",
    "null": b"null\n",
    "text": b'"x"\n',
    "list": b"[1, 2]\n",
    "empty": b"{}\n",
    "no numbers": b'{"training_iteration": null, "loss": "a"}\n',
    "lists in it": b'{"training_iteration": [1], "config": [1], "loss": [2]}\n',
    "infinite": b'{"loss": 1e999, "training_iteration": 1e999}\n',
    "wide": b'{"loss": 1e308}\n{"loss": -1e308}\n',
    "other types": b'{"trial_id": {"a": 1}, "config": "x"}\n',
    "deep": b"[" * 100_000,
    "no text": b"\xff\xfe{}\n",
    "cut": b'{"loss": 1',
}


def train(config):
    for step in range(3):
        tune.report({"loss": config["x"] / (step + 1)})


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    tune.Tuner(
        train,
        param_space={"x": tune.grid_search([2, 2])},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(name="exp", storage_path=str(folder), verbose=0),
    ).fit()
    return folder / "exp"


@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["result.json", "params.json"])
def test_file_of_another_form_is_no_traceback(experiment, name, form, has_state, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(experiment, copy)
    if not has_state:
        os.remove(copy / "experiment.pkl")
    trials = sorted(path for path in copy.iterdir() if (path / name).exists())
    (trials[0] / name).write_bytes(FORMS[form])
    for words in (["ls", str(copy)], ["plot", str(copy), "--metric", "loss", "--mode", "min"]):
        done = CliRunner(env={"COLUMNS": "300"}).invoke(command, words)
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.output)
        assert done.exit_code == 0 and "Traceback" not in done.output, (words, done.output)
        # The trial whose files are whole is shown, whatever the other one holds.
        assert words[0] == "plot" or "_00001" in done.output, done.output
