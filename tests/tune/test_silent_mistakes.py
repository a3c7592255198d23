"""Mistakes of programs that would change what an experiment does without a word."""

import threading
import warnings

import pytest

from zray import tune
from zray.tune import schedulers
from zray.tune.search import BasicVariantGenerator, ConcurrencyLimiter
from zray.tune.search.points import PointWarning
from zray.tune.trial_results import missing_time

SPACE = {
    "lr": tune.loguniform(1e-4, 1e-1),
    "net": {"width": tune.randint(8, 65), "act": tune.choice(["relu", "tanh"])},
    "steps": 5,
}


def by_optuna(points):
    pytest.importorskip("optuna", reason="optuna is not installed here")
    from zray.tune.search.optuna import OptunaSearch

    return OptunaSearch(points_to_evaluate=points)


def by_hyperopt(points):
    pytest.importorskip("hyperopt", reason="hyperopt is not installed here")
    from zray.tune.search.hyperopt import HyperOptSearch

    return HyperOptSearch(points_to_evaluate=points)


def limited(points):
    return ConcurrencyLimiter(by_optuna(points), 2)


SEARCHERS = [BasicVariantGenerator, by_optuna, by_hyperopt, limited]


def first(searcher, points, space=SPACE):
    """The first configuration of a search."""
    made = searcher(points)
    made.set_search_properties("loss", "min", dict(space), num_samples=3, seed=1)
    return made.suggest("a")


@pytest.mark.parametrize("searcher", SEARCHERS)
@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"rate": 0.1}, r"\[1\] of \w+ has the parameter 'rate', which is not in .*It has: lr, net, steps"),
        ({"lrr": 0.1}, "the parameter 'lrr', .*Did you mean 'lr'"),
        ({"net": {"widht": 8}}, "the parameter 'net/widht', .*Did you mean 'net/width'"),
        ({"net/depth": 8}, "the parameter 'net/depth', which is not in the search space"),
        ({"lr/x": 8}, "the parameter 'lr/x', which is not in the search space"),
    ],
)
def test_point_with_an_unknown_parameter_is_an_error(searcher, point, message):
    with pytest.raises(ValueError, match=message):
        searcher([{"lr": 0.01}, point]).set_search_properties("loss", "min", SPACE, num_samples=3)


@pytest.mark.parametrize("searcher", SEARCHERS)
@pytest.mark.parametrize("points", [[0.1], {"lr": 0.1}, ["lr"]])
def test_point_that_is_no_dict_is_an_error(searcher, points):
    with pytest.raises(TypeError, match=r"points_to_evaluate\[0\] of \w+ is a dict of parameters, not"):
        searcher(points).set_search_properties("loss", "min", SPACE, num_samples=3)


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_value_outside_of_its_range_is_one_warning(searcher):
    with pytest.warns(PointWarning) as caught:
        found = first(searcher, [{"lr": 5.0, "net": {"width": 100}}])
    (text,) = [str(each.message) for each in caught]
    assert "points_to_evaluate[0] of" in text and "has 'lr' = 5.0, which is not in the range 0.0001 to 0.1" in text
    assert "'net/width' = 100, which is not in the range 8 to 64" in text
    if searcher is BasicVariantGenerator:
        assert text.endswith("It is tried as it is.") and found["lr"] == 5.0
    else:
        assert "The value nearest in the search space is tried" in text and found["lr"] == pytest.approx(0.1)
        assert found["net"]["width"] == 64


def test_value_that_is_no_choice_is_an_error_where_it_cannot_be_tried():
    point = {"net": {"act": "gelu"}}
    for searcher in (by_optuna, by_hyperopt):
        with pytest.raises(ValueError, match="has 'net/act' = 'gelu', which is not in the choice .'relu', 'tanh'."):
            first(searcher, [point])
    with pytest.warns(PointWarning, match="'net/act' = 'gelu', which is not in the choice"):
        assert first(BasicVariantGenerator, [point])["net"]["act"] == "gelu"
    with pytest.warns(PointWarning, match="'a' = 4, which is not in the grid .1, 2."):
        first(BasicVariantGenerator, [{"a": 4}], {"a": tune.grid_search([1, 2])})


def test_constant_that_a_point_cannot_change_is_named():
    with pytest.warns(PointWarning, match="'steps' = 7, which param_space fixes at 5"):
        assert first(by_optuna, [{"steps": 7}])["steps"] == 5


@pytest.mark.parametrize("searcher", SEARCHERS)
@pytest.mark.parametrize(
    "point",
    [{}, {"lr": 0.1, "steps": 5}, {"net/width": 8}, {"net": {"width": 64.0, "act": "tanh"}}, {"net": {}}],
)
def test_points_in_the_space_are_taken_without_a_word(searcher, point):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PointWarning)
        first(searcher, [point])


def test_points_may_hold_distributions_and_choices_of_dicts():
    space = {
        "a": tune.choice([{"kind": "tree", "depth": tune.randint(1, 5)}, "none"]),
        "b": tune.sample_from(lambda spec: 3),
        "c": [tune.uniform(0, 1), 2],
        "d": tune.uniform(0, 1),
    }
    point = {"a": {"kind": "tree", "depth": 2}, "b": 4, "c": [0.5, 2], "d": tune.uniform(0, 0.1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PointWarning)
        first(BasicVariantGenerator, [point], space)


# --- the time of schedulers ---


KINDS = ["ASHAScheduler", "HyperBandScheduler", "MedianStoppingRule"]


@pytest.mark.parametrize("kind", KINDS)
def test_scheduler_without_its_time_is_named_with_the_keys_of_the_result(kind):
    scheduler = getattr(schedulers, kind)(time_attr="epoch")
    text = missing_time({"loss": 1.0, "training_iteration": 1}, scheduler)
    assert text.startswith(
        f"The first result has no 'epoch', by which {type(scheduler).__name__} measures time (time_attr)"
    )
    assert "The result has loss, training_iteration.  Report 'epoch', or pass another time_attr" in text
    assert "has 'one' as 'epoch', which is no number" in missing_time({"epoch": "one"}, scheduler)
    assert missing_time({"epoch": 1}, scheduler) == ""
    nested = getattr(schedulers, kind)(time_attr="deep/epoch")
    assert missing_time({"deep": {"epoch": 1}}, nested) == "" and missing_time({"epoch": 1}, nested)
    assert missing_time({}, schedulers.FIFOScheduler()) == ""


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("value", [None, "one"])
def test_time_that_nobody_reports_is_one_warning(tmp_path, value):
    def train(config):
        for _ in range(3):
            tune.report({"loss": 1.0, **({"epoch": value} if value else {})})

    with pytest.warns(UserWarning) as caught:
        results = tune.Tuner(
            train,
            tune_config=tune.TuneConfig(
                metric="loss", mode="min", num_samples=2, scheduler=schedulers.ASHAScheduler(time_attr="epoch")
            ),
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        ).fit()
    texts = [str(each.message) for each in caught if "time_attr" in str(each.message)]
    assert len(texts) == 1 and "'epoch', " in texts[0]
    assert [result.metrics["training_iteration"] for result in results] == [3, 3]  # the experiment went on


# --- results without a pickle ---


@pytest.mark.usefixtures("session")
def test_metric_without_a_pickle_is_the_error_of_its_trial(tmp_path):
    def train(config):
        tune.report({"loss": 1.0})
        tune.report({"loss": 0.5, "state": {"inner": threading.Lock() if config["fails"] else 0}})

    results = tune.Tuner(
        train,
        param_space={"fails": tune.grid_search([True, False])},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert results[1].error is None and results[1].metrics["training_iteration"] == 2
    error = results[0].error
    assert "The metric 'state' cannot be recorded: its value at 'inner' <unlocked _thread.lock object" in str(error)
    assert "(lock) cannot be pickled." in str(error) and "TrialActor" not in str(error)
    assert results[0].metrics["training_iteration"] == 1


@pytest.mark.usefixtures("session")
def test_result_of_a_class_without_a_pickle_names_the_metric(tmp_path):
    class Steps(tune.Trainable):
        def step(self):
            return {"items": (each for each in ()), "done": True}

    (result,) = tune.Tuner(Steps, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0)).fit()
    assert "The metric 'items' cannot be recorded" in str(result.error)
    assert "(generator) cannot be pickled." in str(result.error)
