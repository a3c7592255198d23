"""Search spaces at any depth: distributions in choices, lists, tuples and functions, by each searcher."""

import random
from collections import Counter, namedtuple

import numpy as np
import pytest

from zray import tune
from zray.tune.errors import TuneError
from zray.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Repeater, Searcher
from zray.tune.variants import generate_variants, grid_count

Pair = namedtuple("Pair", "low high")


def draws(space, count=20, seed=3, **options):
    searcher = BasicVariantGenerator(random_state=seed, **options)
    searcher.set_search_properties("loss", "min", space, num_samples=count)
    found = []
    while (config := searcher.suggest(str(len(found)))) != Searcher.FINISHED:
        found.append(config)
    return found


def by_optuna(space, count=20, **options):
    optuna = pytest.importorskip("optuna")
    searcher = tune.search.OptunaSearch(space, metric="loss", mode="min", **options)
    assert optuna
    found = []
    for number in range(count):
        found.append(searcher.suggest(str(number)))
        searcher.on_trial_complete(str(number), result={"loss": float(number)})
    return found


CONDITIONAL = {
    "model": tune.choice([{"kind": "svm", "c": tune.uniform(0, 1)}, {"kind": "tree", "depth": tune.randint(1, 5)}]),
    "units": [tune.randint(1, 5), tune.randint(1, 5), 7],
    "pair": Pair(tune.uniform(0, 1), 3),
    "nested": {"a": tune.choice([tune.uniform(0, 1), tune.choice([tune.uniform(10, 11), "none"])])},
    "constant": {"of": [1, 2]},
}


@pytest.mark.parametrize("draw", [draws, by_optuna])
def test_distributions_in_choices_lists_and_tuples_are_drawn(draw):
    found = draw(CONDITIONAL)
    kinds = {config["model"]["kind"] for config in found}
    assert kinds == {"svm", "tree"}
    for config in found:
        assert config["model"].keys() == ({"kind", "c"} if config["model"]["kind"] == "svm" else {"kind", "depth"})
        assert isinstance(config["model"].get("c", 0.5), float) and isinstance(config["model"].get("depth", 1), int)
        assert type(config["units"]) is list and type(config["pair"]) is Pair and config["pair"].high == 3
        assert config["nested"]["a"] == "none" or 0 <= config["nested"]["a"] <= 11
        assert config["constant"] == {"of": [1, 2]}
    assert len({str(config["units"]) for config in found}) > 5
    assert len({config["pair"].low for config in found}) == len(found)


def test_distributions_that_a_function_returns_are_drawn():
    space = {
        "depth": tune.randint(2, 4),
        "channels": tune.sample_from(lambda spec: [tune.choice([10, 20, 30])] * spec.config.depth),
        "then": tune.sample_from(lambda c: tune.sample_from(lambda d: d["depth"] + 1)),
    }
    found = draws(space)
    assert all(len(each["channels"]) == each["depth"] for each in found)
    assert any(len(set(each["channels"])) > 1 for each in found)
    assert all(each["then"] == each["depth"] + 1 for each in found)


def test_grids_in_grids_are_counted_and_tried_whole():
    space = {
        "model": tune.grid_search(
            [{"kind": "a", "lr": tune.grid_search([1, 2])}, {"kind": "b", "w": tune.uniform(0, 1)}]
        ),
        "z": tune.grid_search([0, 1]),
    }
    assert grid_count(space) == 6
    found = [config for _, config in generate_variants(space, random_state=1)]
    assert Counter((each["model"]["kind"], each["model"].get("lr"), each["z"]) for each in found) == Counter(
        [("a", 1, 0), ("a", 2, 0), ("b", None, 0), ("a", 1, 1), ("a", 2, 1), ("b", None, 1)]
    )


def test_grid_in_a_choice_is_refused_before_the_first_trial():
    with pytest.raises(ValueError, match="^net/a is a choice with a grid inside: .* Write tune.choice in place"):
        draws({"net": {"a": tune.choice([tune.grid_search([1, 2]), 3])}})


def test_functions_in_choices_are_values():
    found = draws({"activation": tune.choice([lambda x: x])}, 2)
    assert all(callable(config["activation"]) for config in found)


def test_value_of_a_grid_may_be_a_function_of_the_whole_space():
    space = {"a": tune.grid_search([1, tune.sample_from(lambda spec: spec.config.b * 10)]), "b": tune.choice([5])}
    assert [config["a"] for _, config in generate_variants(space)] == [1, 50]


@pytest.mark.parametrize(
    "function",
    [
        lambda c: c["a"] + c["net"]["w"],
        lambda c: c.a + c.net.w,
        lambda spec: spec.config.a + spec.config.net.w,
        lambda spec: spec.config["a"] + spec["config"]["net"].w,
    ],
)
def test_function_gets_the_configuration_and_its_frame_in_one(function):
    space = {"a": tune.choice([2]), "net": {"w": tune.choice([3])}, "b": tune.sample_from(function)}
    assert next(iter(generate_variants(space)))[1]["b"] == 5
    assert next(iter(generate_variants({"config": space})))[1]["config"]["b"] == 5


def test_function_of_two_arguments_is_refused_at_once():
    with pytest.raises(ValueError, match="takes the configuration or nothing"):
        tune.sample_from(lambda a, b: 1)
    assert tune.sample_from(lambda: 1).sample() == 1


def test_expression_in_a_configuration_is_evaluated():
    space = {"x": {"eval": "2 + 2"}, "y": {"eval": "tune.uniform(5, 6)"}, "z": {"eval": "spec.config.x * 3"}}
    (config,) = draws(space, 1)
    assert (config["x"], config["z"]) == (4, 12) and 5 <= config["y"] <= 6
    with pytest.raises(TuneError, match="^net/y cannot be evaluated: 'nope': NameError: .* random, np, tune and spec"):
        draws({"net": {"y": {"eval": "nope"}}}, 1)


@pytest.mark.parametrize(
    "domain, values",
    [
        (tune.qrandint(1, 10, 3), {3, 6, 9}),
        (tune.qrandint(1, 4, 3), {3}),
        (tune.qrandint(0, 10, 2), {0, 2, 4, 6, 8, 10}),
        (tune.quniform(0.1, 1.0, 0.3), {0.3, 0.6, 0.9}),
        (tune.qlograndint(1, 10, 3), {3, 6, 9}),
        (tune.qloguniform(0.1, 1.0, 0.3), {0.3, 0.6, 0.9}),
    ],
)
def test_quantized_values_are_multiples_each_equally_often(domain, values):
    rng = np.random.default_rng(0)
    found = Counter(round(domain.sample(random_state=rng), 6) for _ in range(2000))
    assert set(found) == values
    assert domain.is_log or max(found.values()) < 1.5 * min(found.values())
    assert {round(each["x"], 6) for each in by_optuna({"x": domain})} <= values


def test_interval_that_is_no_whole_number_of_steps_is_refused():
    with pytest.raises(ValueError, match=r"\[0, 32\] is not a whole number of steps of 3: let it end at 30 or 33"):
        tune.quniform(0, 32, 3)
    with pytest.raises(ValueError, match="No multiple of 10 lies between 11 and 19"):
        tune.qrandint(11, 19, 10)


@pytest.mark.parametrize(
    "call, advice",
    [
        (lambda: tune.quniform(1, 1000, 10), "begin at 0 or 10."),
        (lambda: tune.qloguniform(1, 1000, 10), "begin at 10."),
        (lambda: tune.qloguniform(12, 1005, 10), "begin at 10 or 20 and end at 1000 or 1010."),
        (lambda: tune.quniform(-0.25, 1, 0.3), "begin at -0.3 or 0 and end at 0.9 or 1.2."),
        (lambda: tune.quniform(0.3, 1, 0.3), "end at 0.9 or 1.2."),
        (lambda: tune.quniform(11, 19, 10), "begin at 10 or end at 20."),
        (lambda: tune.quniform(-9, -1, 10), "begin at -10 or end at 0."),
        (lambda: tune.qloguniform(1, 9, 10), "end at 10."),
        (lambda: tune.qrandint(11, 19, 10), "begin at 10 or end at 20."),
        (lambda: tune.qlograndint(1, 9, 10), "end at 10."),
    ],
)
def test_interval_that_is_refused_is_given_bounds_that_are_multiples_of_the_step(call, advice):
    with pytest.raises(ValueError) as raised:
        call()
    assert str(raised.value).endswith(f": let it {advice}")


def test_global_seed_makes_searches_the_same():
    space = {"a": tune.uniform(0, 1), "b": tune.randint(0, 1000), "c": tune.sample_from(lambda: random.random())}

    def run():
        np.random.seed(5)
        random.seed(5)
        return draws(space, 4, seed=None), [config for _, config in generate_variants(space)], tune.randn().sample()

    first = run()
    assert run() == first
    assert draws(space, 4, seed=None) != first[0]


def test_points_may_be_nested_and_leave_grids_out():
    space = {"net": {"w": tune.uniform(0, 1), "d": tune.grid_search([1, 2])}, "lr": tune.uniform(0, 1)}
    found = draws(space, 3, points_to_evaluate=[{"net": {"w": 0.5}}, {"net/d": 2, "lr": 0.25}])
    assert [config["net"]["d"] for config in found] == [1, 2, 2, 1, 2]
    assert [config["net"]["w"] == 0.5 for config in found] == [True, True, False, False, False]
    assert found[2]["lr"] == 0.25


# --- OptunaSearch ---


def test_points_of_optuna_may_be_nested_and_conditional():
    points = [
        {"model": {"kind": "tree", "depth": 3}, "units": [1, 2, 7], "pair": Pair(0.5, 3), "nested": {"a": "none"}},
        {"nested": {"a": 10.5}},
    ]
    first, second = by_optuna(CONDITIONAL, 2, points_to_evaluate=points)
    assert first == {**points[0], "constant": {"of": [1, 2]}}
    assert second["nested"]["a"] == 10.5


def test_distributions_of_optuna_are_drawn_from_at_any_depth():
    distributions = pytest.importorskip("optuna").distributions
    space = {"a": distributions.FloatDistribution(0, 1), "b": {"x": distributions.IntDistribution(3, 4), "y": 9}}
    for config in by_optuna(space, 5):
        assert 0 <= config["a"] <= 1 and config["b"]["x"] in (3, 4) and config["b"]["y"] == 9


def test_names_of_a_define_by_run_function_are_paths():
    def define(trial):
        trial.suggest_float("b/x", 0, 1)
        trial.suggest_int("a", 1, 3)
        return {"b/c": 5}

    (config,) = by_optuna(define, 1)
    assert config["a"] in (1, 2, 3) and 0 <= config["b"]["x"] <= 1 and config["b"]["c"] == 5


def returns_a_list(trial):
    return [trial.suggest_float("x", 0, 1)]


def names_a_value_and_its_parent(trial):
    trial.suggest_float("b/x", 0, 1)
    return {"b": 5}


def names_a_parent_first(trial):
    trial.suggest_float("b", 0, 1)
    trial.suggest_float("b/x", 0, 1)


def returns_another_value(trial):
    trial.suggest_float("b", 0, 1)
    return {"b": 7}


def returns_a_dict_for_a_value(trial):
    trial.suggest_float("b", 0, 1)
    return {"b": {"x": 1}}


WRONG = [
    returns_a_list,
    names_a_value_and_its_parent,
    names_a_parent_first,
    returns_another_value,
    returns_a_dict_for_a_value,
]


def test_define_by_run_function_may_return_a_value_that_it_was_given():
    (config,) = by_optuna(lambda trial: {"b": trial.suggest_float("b", 0, 1), "c": 5}, 1)
    assert 0 <= config["b"] <= 1 and config["c"] == 5


@pytest.mark.parametrize("define", WRONG)
def test_wrong_define_by_run_function_is_a_type_error(define):
    with pytest.raises(TypeError, match=f"^The function {define.__name__}"):
        by_optuna(define, 1)


def test_late_results_of_a_trial_of_optuna_are_ignored():
    searcher = tune.search.OptunaSearch({"x": tune.uniform(0, 1)}, metric="loss", mode="min")
    searcher.suggest("a")
    searcher.on_trial_complete("a", result={"loss": 1.0})
    searcher.on_trial_result("a", {"loss": 2.0, "training_iteration": 4})
    searcher.on_trial_complete("a", result={"loss": 2.0})
    assert searcher.study.best_value == 1.0


@pytest.mark.parametrize("value", [[tune.uniform(0, 1)], tune.choice([{"x": tune.uniform(0, 1)}, 2])])
def test_space_that_hyperopt_does_not_have_is_refused_before_the_first_trial(value, monkeypatch):
    from zray.tune.search import hyperopt

    monkeypatch.setattr(hyperopt, "_hyperopt", lambda: type("Module", (), {"hp": None, "Domain": None}))
    searcher = hyperopt.HyperOptSearch({"net": {"w": value}}, metric="loss", mode="min")
    with pytest.raises(ValueError, match="net/w holds distributions: pass a space of HyperOpt, or use OptunaSearch"):
        searcher.suggest("a")


# --- searchers of the program ---


class Own(Searcher):
    def __init__(self):
        super().__init__("loss", "min")
        self.ended = []

    def suggest(self, trial_id):
        return {"x": 1}

    def on_trial_complete(self, trial_id, result=None, **rest):
        self.ended.append((trial_id, result, rest))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda own: ConcurrencyLimiter(own, 1),
        lambda own: ConcurrencyLimiter(own, 1, batch=True),
        lambda own: Repeater(own, 1),
    ],
)
def test_end_of_a_trial_is_told_by_keyword(wrap):
    own = Own()
    searcher = wrap(own)
    searcher.suggest("a")
    searcher.on_trial_complete("a", result={"loss": 2.0})
    assert own.ended == [("a", {"loss": 2.0}, {"error": False})]


def test_state_of_a_searcher_is_kept_in_a_folder(tmp_path):
    first, second = Own(), Own()
    first.ended.append("b")
    first.save_to_dir(str(tmp_path / "new"), session_str="one")
    second.restore_from_dir(str(tmp_path / "new"))
    assert second.ended == ["b"]
    with pytest.raises(FileNotFoundError, match="holds no state of a searcher"):
        second.restore_from_dir(str(tmp_path))
