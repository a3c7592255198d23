"""Experiments on the page: result files alone are read, on from where the last look has ended."""

import json
import os
import pickle

import pytest

from tests.dashboard.made import MadeSession
from zray.dashboard import all_views
from zray.dashboard.views import Asked


def write(folder, rows, mode="w"):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "result.json", mode) as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def results(rate, count, start=0):
    return [
        {"loss": rate / (step + 1), "info": {"deep": step}, "training_iteration": step + 1, "config": {"rate": rate}}
        for step in range(start, start + count)
    ]


@pytest.fixture
def session(tmp_path):
    (tmp_path / "rates").mkdir()
    (tmp_path / "rates" / "experiment.json").write_text('{"metric": "loss", "mode": "min", "num_samples": 3}')
    write(tmp_path / "rates" / "trial_0", results(1.0, 5))
    write(tmp_path / "rates" / "trial_1", results(2.0, 3))
    return MadeSession(results=str(tmp_path))


def look(session, **words):
    return all_views.VIEWS["trials"](session, Asked(words))


def test_trials_and_curves_of_the_newest_experiment(session, tmp_path):
    seen = look(session)
    facts, table = seen.facts, seen.tables["trials"]
    assert (facts["experiment"], facts["metric"], facts["mode"], facts["root"]) == (
        "rates",
        "loss",
        "min",
        str(tmp_path),
    )
    assert [row["trial"] for row in table.rows] == ["trial_0", "trial_1"] and table.total == 3  # one has not begun
    assert table.rows[0]["best"] == table.rows[0]["last"] == 0.2 and table.rows[0]["config"] == '{"rate": 1.0}'
    assert facts["curves"][0]["points"] == [(1.0, 1.0), (2.0, 0.5), (3.0, 1 / 3), (4.0, 0.25), (5.0, 0.2)]
    assert "info/deep" in facts["metrics"]
    assert look(session, metric="info/deep").facts["curves"][1]["points"][-1] == (3.0, 2.0)


def test_file_is_read_on(session, tmp_path):
    look(session)
    path = tmp_path / "rates" / "trial_0"
    write(path, results(1.0, 1, start=5), mode="a")
    with open(path / "result.json", "a") as file:
        file.write('{"loss": 0.1, "trai')  # on its way
    assert look(session).tables["trials"].rows[0]["iterations"] == 6
    with open(path / "result.json", "a") as file:
        file.write('ning_iteration": 7}\n')
    assert look(session).tables["trials"].rows[0]["last"] == 0.1
    write(path, results(1.0, 2))  # begun anew
    assert next(r for r in look(session).tables["trials"].rows if r["trial"] == "trial_0")["iterations"] == 2


def test_csv_is_read_where_there_is_no_json(session, tmp_path):
    folder = tmp_path / "rates" / "trial_2"
    folder.mkdir()
    (folder / "progress.csv").write_text("loss,training_iteration,name\n0.5,1,a\n0.125,2,b\n")
    row = look(session).tables["trials"].rows[0]
    assert (row["trial"], row["last"], row["iterations"]) == ("trial_2", 0.125, 2)


def test_no_pickle_is_opened(session, tmp_path):
    (tmp_path / "rates" / "experiment.pkl").write_bytes(pickle.dumps(Trap(str(tmp_path / "opened"))))
    look(session)
    assert not (tmp_path / "opened").exists()


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_folder_without_experiments_is_named(tmp_path):
    seen = look(MadeSession(results=str(tmp_path / "none")))
    assert seen.facts["experiments"] == [] and seen.facts["root"] == str(tmp_path / "none")
    assert not seen.tables["trials"].rows


def test_name_that_is_no_experiment_of_the_folder_leads_nowhere(session, tmp_path):
    for name in ("..", "../rates", "/etc", "rates/trial_0", "nothing"):
        assert look(session, experiment=name).facts["experiment"] == ""


def test_values_that_are_no_numbers_do_not_break_a_curve(tmp_path):
    rows = [{"a": float("nan")}, {"a": 1, "b": True, "c": [1]}, {"a": 10**400}, {"a": "x"}, {"a": 3}]
    write(tmp_path / "odd" / "trial", rows)
    with open(tmp_path / "odd" / "trial" / "result.json", "a") as file:
        file.write("[1]\n\n{\n")
    seen = look(MadeSession(results=str(tmp_path)))
    assert seen.facts["curves"] == [{"trial": "trial", "points": [(2.0, 1.0), (5.0, 3.0)]}]


def test_long_curve_is_thinned_and_keeps_its_end(tmp_path):
    write(tmp_path / "long" / "trial", results(1.0, 5_000))
    (curve,) = look(MadeSession(results=str(tmp_path)), metric="loss").facts["curves"]
    assert len(curve["points"]) <= 401 and curve["points"][-1][0] == 5_000
