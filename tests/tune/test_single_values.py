"""Results that are one number of any kind, and values that are no result: reported, returned and yielded."""

import decimal
import fractions

import numpy as np
import pytest

from zray import tune
from zray.tune.metrics import as_metrics

pytestmark = pytest.mark.usefixtures("session")


def tensor(*values):
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    return torch.tensor(values if len(values) > 1 else values[0])


NUMBERS = {
    "int": 2,
    "float": 2.0,
    "float32": np.float32(2),
    "float64": np.float64(2),
    "int64": np.int64(2),
    "array of one": np.array([2.0]),
    "decimal": decimal.Decimal(2),
    "fraction": fractions.Fraction(2),
}
OTHERS = {
    "list": [1],
    "tuple": (1, 2),
    "text": "high",
    "array": np.array([1, 2]),
    "set": {1},
    "object": object(),
    "class": dict,
    "complex": 2j,
}


def train(config):
    if config["how"] == "report":
        tune.report(config["value"])
    elif config["how"] == "return":
        return config["value"]
    return None


def train_by_yield(config):
    yield config["value"]


def old(config, reporter):
    reporter(config["value"])


def ended(values, tmp_path, way):
    """The trials with values of one way to give a result, in their order."""
    function = {"yield": train_by_yield, "reporter": old}.get(way, train)
    space = {"how": way, "value": tune.grid_search(list(values))}
    options = {"raise_on_failed_trial": False, "reuse_actors": True, "verbose": 0}
    return tune.run(function, config=space, storage_path=str(tmp_path), **options).trials


WAYS = ["report", "return", "yield", "reporter"]


@pytest.mark.parametrize("way", WAYS)
def test_number_of_any_kind_is_the_only_metric(way, tmp_path):
    found = [trial.last_result.get("_metric") for trial in ended(NUMBERS.values(), tmp_path, way)]
    assert dict(zip(NUMBERS, found, strict=True)) == dict.fromkeys(NUMBERS, 2)


@pytest.mark.parametrize("way", WAYS)
def test_value_that_is_no_result_is_an_error_that_names_it(way, tmp_path):
    for name, trial in zip(OTHERS, ended(OTHERS.values(), tmp_path, way), strict=True):
        kind = "the class dict" if name == "class" else type(OTHERS[name]).__name__
        words = f"not {kind}." if way == "report" and name != "class" else f"({kind}), which is no result: return or"
        if way == "report" and name == "class":
            words = "not type."
        assert trial.status == "ERROR" and words in trial.error, (name, trial.error)


def test_tensor_of_one_element_is_a_number():
    assert as_metrics(tensor(2.0)) == {"_metric": 2.0}
    assert as_metrics(tensor(1.0, 2.0)) is None
    assert as_metrics("2") is None and as_metrics(None) is None


def test_value_behind_reported_results_is_a_warning(tmp_path, capfd):
    def both(config):
        tune.report({"loss": 1.0})
        return [1, 2]

    (trial,) = tune.run(both, log_to_file="out.txt", storage_path=str(tmp_path), verbose=0).trials
    assert trial.status == "TERMINATED" and trial.last_result["loss"] == 1.0
    with open(f"{trial.path}/out.txt") as file:
        assert "both returned [1, 2] (list), which is left out: its results are those" in file.read()
