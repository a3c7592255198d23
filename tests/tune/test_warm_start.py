"""Searches that start with results of an earlier experiment, or with given points; HyperOpt's search."""

import json

import pytest

from tests.tune.test_search import SPACE, loss, search
from zray import tune
from zray.tune.search import BasicVariantGenerator
from zray.tune.search.optuna import OptunaSearch
from zray.tune.simulation import Point

optuna = pytest.importorskip("optuna", reason="optuna is not installed here")


def earlier(folder, count=12):
    """The folder of an experiment, in the layout of zray and of Ray."""
    configs = []
    searcher = BasicVariantGenerator(random_state=4)
    searcher.set_search_properties("loss", "min", SPACE, num_samples=count)
    for number in range(count):
        config = searcher.suggest(str(number))
        trial = folder / f"train_{number:05d}"
        trial.mkdir(parents=True)
        results = [
            {"loss": loss(config) + 1 / step, "training_iteration": step, "config": config} for step in (1, 2, 10**6)
        ]
        (trial / "result.json").write_text("".join(json.dumps(result) + "\n" for result in results))
        configs.append(config)
    return configs


def test_results_of_an_earlier_experiment_are_known_to_the_search(tmp_path):
    configs = earlier(tmp_path)
    (tmp_path / "train_00003" / "error.txt").write_text("It failed.")
    with open(tmp_path / "train_00004" / "result.json", "a") as file:
        file.write('{"loss": 3')  # a program that was killed
    searcher = OptunaSearch(points_from=str(tmp_path), seed=1)
    run = search(searcher, 10)
    trials = searcher.study.trials
    known = [config["x"] for number, config in enumerate(configs) if number != 3]
    assert [trial.params["x"] for trial in trials[:11]] == known
    assert len(trials) == 11 + 10 and set(trials[0].intermediate_values) == {1, 2, 10**6}
    best_known = min(loss(config) for number, config in enumerate(configs) if number != 3)
    assert min(loss(trial.config) for trial in run.controller.get_trials()) < best_known


def test_earlier_results_serve_a_define_by_run_space(tmp_path):
    earlier(tmp_path)

    def define(trial):
        trial.suggest_float("x", -5, 5)
        return {"net": {"width": 8, "act": "relu"}}

    searcher = OptunaSearch(define, metric="loss", mode="min", points_from=str(tmp_path), seed=1)
    search(searcher, 2, space={})
    assert len(searcher.study.trials) == 12 + 2


def test_earlier_results_that_are_of_no_use_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="holds no trial with results: name the folder of an experiment"):
        OptunaSearch(points_from=str(tmp_path))
    earlier(tmp_path)
    searcher = OptunaSearch(points_from=str(tmp_path))
    searcher.set_search_properties("loss", "min", {"y": tune.uniform(0, 1)})
    with pytest.raises(ValueError, match="None of the 12 trials of points_from has parameters in this search space"):
        searcher.suggest("1")


def test_given_points_come_first_in_a_random_search():
    points = [{"x": 1.0, "net": {"width": 8}}, {"net/act": "tanh"}]
    run = search(BasicVariantGenerator(points_to_evaluate=points, random_state=0), 5)
    configs = [trial.config for trial in run.controller.get_trials()]
    assert len(configs) == 5
    assert configs[0]["x"] == 1.0 and configs[0]["net"]["width"] == 8 and configs[0]["net"]["act"] in ("relu", "tanh")
    assert configs[1]["net"]["act"] == "tanh" and -5 <= configs[1]["x"] <= 5


# --- HyperOpt ---


@pytest.fixture(scope="module")
def hyperopt():
    return pytest.importorskip("hyperopt", reason="hyperopt is not installed here")


def test_hyperopt_finds_better_points_than_chance(hyperopt):
    from zray.tune.search.hyperopt import HyperOptSearch

    points = [{"x": 4.0, "net": {"width": 64, "act": "tanh"}}]
    searcher = HyperOptSearch(points_to_evaluate=points, n_initial_points=10, random_state_seed=1)
    run = search(searcher, 50)
    configs = [trial.config for trial in run.controller.get_trials()]
    assert configs[0] == points[0]
    assert all(-5 <= config["x"] <= 5 and config["net"]["width"] % 8 == 0 for config in configs)
    late = sorted(loss(config) for config in configs[25:])
    early = sorted(loss(config) for config in configs[:11])
    assert late[len(late) // 2] < early[len(early) // 2]


def test_hyperopt_is_the_same_with_the_same_seed(hyperopt):
    from zray.tune.search.hyperopt import HyperOptSearch

    runs = [search(HyperOptSearch(random_state_seed=5, n_initial_points=5), 15) for _ in range(2)]
    configs = [[trial.config for trial in run.controller.get_trials()] for run in runs]
    assert configs[0] == configs[1]


def test_hyperopt_takes_a_space_of_its_own(hyperopt):
    from zray.tune.search.hyperopt import HyperOptSearch

    space = {"x": hyperopt.hp.uniform("x", -5, 5), "net": {"width": 8, "act": "relu"}}
    run = search(HyperOptSearch(space, metric="loss", mode="min", random_state_seed=1), 5, space={})
    assert len({trial.config["x"] for trial in run.controller.get_trials()}) == 5


def test_hyperopt_draws_from_every_kind_of_space(hyperopt):
    from zray.tune.search.hyperopt import HyperOptSearch

    space = {
        "a": tune.loguniform(1e-4, 1e-1),
        "b": tune.qloguniform(5, 100, 5),
        "c": tune.randint(0, 5),
        "d": tune.lograndint(1, 100),
        "e": tune.randn(1, 2),
        "f": tune.qrandn(0, 3, 0.5),
        "g": tune.quniform(0, 1, 0.25),
    }

    def curve(trial):
        return [Point({"loss": trial.config["a"]}, 1.0)]

    run = search(HyperOptSearch(random_state_seed=1), 30, space=space, curve=curve)
    for trial in run.controller.get_trials():
        config = trial.config
        for name in ("a", "b", "c", "d", "g"):
            assert space[name].is_valid(config[name]), (name, config[name])
        assert isinstance(config["c"], int) and isinstance(config["d"], int)
        assert config["g"] % 0.25 == 0
