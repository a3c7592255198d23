"""Searchers: Optuna's own sequence, limits, repetitions, any object that is asked and told."""

from types import SimpleNamespace

import numpy as np
import pytest

from zray import tune
from zray.tune.controller import Controller
from zray.tune.evaluated import Evaluated
from zray.tune.schedulers import FIFOScheduler
from zray.tune.search import (
    AskTellSearch,
    BasicVariantGenerator,
    ConcurrencyLimiter,
    Repeater,
    Searcher,
    as_searcher,
    hyperopt,
)
from zray.tune.search.searcher import set_search_properties
from zray.tune.settings import Settings
from zray.tune.simulation import Point, VirtualRun

optuna = pytest.importorskip("optuna", reason="optuna is not installed here")

SPACE = {"x": tune.uniform(-5, 5), "net": {"width": tune.qrandint(8, 64, 8), "act": tune.choice(["relu", "tanh"])}}


def loss(config):
    return (config["x"] - 1) ** 2 + config["net"]["width"] / 64 + (config["net"]["act"] == "tanh")


def search(searcher, samples, capacity=1, space=SPACE, curve=None):
    took = searcher.set_search_properties("loss", "min", space, num_samples=samples)
    settings = Settings(metric="loss", mode="min", num_samples=samples, space={} if took else space)
    controller = Controller(settings, searcher, FIFOScheduler())
    run = VirtualRun(controller, curve or (lambda trial: [Point({"loss": loss(trial.config)}, 1.0)]), capacity)
    run.run()
    return run


def test_sequence_of_optuna_is_its_own():
    from zray.tune.search.optuna import OptunaSearch

    run = search(OptunaSearch(seed=3), 30)
    ours = [trial.config for trial in run.controller.get_trials()]

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=3))
    distributions = {
        "x": optuna.distributions.FloatDistribution(-5, 5),
        "net/width": optuna.distributions.IntDistribution(8, 64, step=8),
        "net/act": optuna.distributions.CategoricalDistribution(["relu", "tanh"]),
    }
    theirs = []
    for _ in range(30):
        trial = study.ask(fixed_distributions=distributions)
        params = trial.params
        config = {"x": params["x"], "net": {"width": params["net/width"], "act": params["net/act"]}}
        theirs.append(config)
        study.tell(trial, loss(config))
    assert ours == theirs


def optuna_searcher(**options):
    from zray.tune.search.optuna import OptunaSearch

    return OptunaSearch(**options)


def wrapped(searcher):
    return ConcurrencyLimiter(Repeater(searcher, 2), 2)


@pytest.mark.parametrize("wrap", [lambda searcher: searcher, wrapped])
@pytest.mark.parametrize("is_made_before", [False, True])
def test_search_without_a_seed_follows_the_global_seed_of_numpy(wrap, is_made_before):
    def draws(seed):
        searcher = wrap(optuna_searcher()) if is_made_before else None
        np.random.seed(seed)
        run = search(searcher or wrap(optuna_searcher()), 6)
        return [trial.config for trial in run.controller.get_trials()]

    assert draws(3) == draws(3) != draws(4)


def test_search_without_a_seed_takes_that_of_the_experiment():
    from zray.tune.search.hyperopt import HyperOptSearch

    def draws(searcher, **spec):
        searcher.set_search_properties("loss", "min", SPACE, num_samples=3, **spec)
        return [searcher.suggest(str(number)) for number in range(3)]

    for own in (
        lambda seed=None: optuna_searcher(seed=seed),
        lambda seed=None: BasicVariantGenerator(random_state=seed),
    ):
        assert draws(own(), seed=8) == draws(own(8)) == draws(own(8), seed=9) != draws(own(), seed=9)
    hyperopt = HyperOptSearch()
    hyperopt.set_search_properties("loss", "min", SPACE, seed=8)
    assert hyperopt._seed == 8


def test_define_by_run_function_is_a_space():
    from zray.tune.search.optuna import OptunaSearch

    def define(trial):
        trial.suggest_float("x", -5, 5)
        return {"net": {"width": 8, "act": "relu"}}

    run = search(OptunaSearch(define, metric="loss", mode="min", seed=1), 5, space={"fixed": 1})
    configs = [trial.config for trial in run.controller.get_trials()]
    assert all(config["fixed"] == 1 and config["net"]["width"] == 8 for config in configs)
    assert len({config["x"] for config in configs}) == 5


def test_points_come_first_and_results_can_be_given():
    from zray.tune.search.optuna import OptunaSearch

    points = [{"x": 1.0, "net/width": 8, "net/act": "relu"}, {"x": 2.0, "net/width": 16, "net/act": "tanh"}]
    run = search(OptunaSearch(points_to_evaluate=points, seed=1), 3)
    assert [trial.config["x"] for trial in run.controller.get_trials()][:2] == [1.0, 2.0]
    searcher = OptunaSearch(points_to_evaluate=points, evaluated_rewards=[0.1, 2.3], seed=1)
    search(searcher, 3)
    assert len(searcher.study.trials) == 5 and searcher.study.best_value == pytest.approx(0.1)


def test_several_metrics_are_optimised_together():
    from zray.tune.search.optuna import OptunaSearch

    searcher = OptunaSearch(SPACE, metric=["loss", "cost"], mode=["min", "max"], seed=1)
    settings = Settings(num_samples=6)
    controller = Controller(settings, searcher, FIFOScheduler())
    VirtualRun(controller, lambda trial: [Point({"loss": loss(trial.config), "cost": trial.config["x"]}, 1.0)], 2).run()
    assert len(searcher.study.best_trials) >= 1


def test_study_is_kept_in_a_journal_file(tmp_path):
    from zray.tune.search.optuna import OptunaSearch

    path = str(tmp_path / "study.log")
    search(OptunaSearch(storage=path, seed=1), 4)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
    assert len(optuna.load_study(study_name="optuna", storage=storage).trials) == 4


@pytest.mark.parametrize(
    "space, message",
    [({"x": tune.grid_search([1])}, "tune.choice"), ({"x": tune.sample_from(lambda spec: 1)}, "define-by-run")],
)
def test_spaces_that_optuna_does_not_have_are_an_error(space, message):
    from zray.tune.search.optuna import distributions_of

    with pytest.raises(ValueError, match=message):
        distributions_of(space)


@pytest.mark.parametrize("batch", [False, True])
def test_limit_holds(batch):
    running, most = set(), []

    class Watching(BasicVariantGenerator):
        def suggest(self, trial_id):
            found = super().suggest(trial_id)
            if isinstance(found, dict):
                running.add(trial_id)
                most.append(len(running))
            return found

        def on_trial_complete(self, trial_id, result=None, error=False):
            running.discard(trial_id)

    search(ConcurrencyLimiter(Watching(random_state=0), 3, batch=batch), 10, capacity=8)
    assert max(most) == 3 and len(most) == 10


def test_repeated_trials_are_told_as_their_mean():
    told = []

    class Teller(BasicVariantGenerator):
        def on_trial_complete(self, trial_id, result=None, error=False):
            told.append(result["loss"])

    def curve(trial):
        return [Point({"loss": float(trial.config["__trial_index__"])}, 1.0)]

    run = search(Repeater(Teller(random_state=0), repeat=3), 9, capacity=2, curve=curve)
    assert told == [1.0, 1.0, 1.0]
    xs = [trial.config["x"] for trial in run.controller.get_trials()]
    assert len(set(xs)) == 3 and xs[0] == xs[1] == xs[2]


def test_objects_with_ask_and_tell_are_searchers():
    class Halving:
        def __init__(self):
            self.points, self.values = [8.0, 4.0, 2.0, 1.0], []

        def ask(self):
            if not self.points:
                raise StopIteration
            return {"x": self.points.pop(0), "net": {"width": 8, "act": "relu"}}

        def tell(self, point, value):
            self.values.append((point["x"], value))

    optimizer = Halving()
    searcher = as_searcher(optimizer)
    assert isinstance(searcher, AskTellSearch)
    run = search(searcher, -1, space={})
    assert len(run.controller.trials) == 4
    assert optimizer.values == [(x, (x - 1) ** 2 + 0.125) for x in (8.0, 4.0, 2.0, 1.0)]


def test_random_search_is_the_same_for_any_number_of_workers():
    runs = [search(BasicVariantGenerator(random_state=4), 9, capacity=capacity) for capacity in (1, 2, 8)]
    configs = [[trial.config for trial in run.controller.get_trials()] for run in runs]
    assert configs[0] == configs[1] == configs[2]


# --- expressions of files and of configurations ---

EXPRESSIONS = {
    "x": {"eval": "tune.uniform(-5, 5)"},
    "net": {
        "width": tune.sample_from(Evaluated("tune.qrandint(8, 64, 8)")),  # as a file gives it
        "act": {"eval": "tune.choice(['relu', 'tanh'])"},
    },
}


def optuna_search(**options):
    from zray.tune.search.optuna import OptunaSearch

    return OptunaSearch(seed=3, **options)


@pytest.mark.parametrize(
    ("made", "space"),
    [
        (optuna_search, EXPRESSIONS),
        (lambda: ConcurrencyLimiter(optuna_search(), 2), EXPRESSIONS),
        (lambda: Repeater(ConcurrencyLimiter(optuna_search(), 2), 1, set_index=False), EXPRESSIONS),
        (lambda: optuna_search(space=EXPRESSIONS), {}),
    ],
    ids=["searcher", "in a limiter", "in a repeater", "space of the searcher"],
)
def test_expression_that_is_a_distribution_is_drawn_as_that(made, space):
    found = []
    for searcher, own in ((optuna_search(), SPACE), (made(), space)):
        set_search_properties(searcher, "loss", "min", own)
        found.append([searcher.suggest(str(number)) for number in range(2)])
    assert found[0] == found[1]


def test_searcher_of_a_program_is_given_distributions():
    class Mine(Searcher):
        def set_search_properties(self, metric, mode, config):
            self.config = config
            return True

    mine = Mine()
    choice = tune.choice([{"eval": "tune.randint(0, 3)"}, 7])
    given = {"each": [{"eval": "tune.randint(0, 3)"}, 5], "one": choice, "sum": {"eval": "spec.config.one + 1"}}
    set_search_properties(mine, "loss", "min", given)
    assert mine.config["each"][0].is_valid(2) and mine.config["each"][1] == 5
    assert mine.config["one"].categories[0].is_valid(2) and mine.config["sum"] == given["sum"]
    assert given["each"][0] == {"eval": "tune.randint(0, 3)"} and given["one"] is choice


def test_expressions_of_random_search_are_drawn_as_before():
    plain = BasicVariantGenerator(random_state=4)
    set_search_properties(plain, "loss", "min", EXPRESSIONS)
    assert plain.space is EXPRESSIONS


@pytest.mark.parametrize(
    ("expression", "error", "said"),
    [
        (
            "random.uniform(0, 1)",
            ValueError,
            "Functions do not go with OptunaSearch, and x is one: write a distribution, as",
        ),
        ("tune.uniform(0, 1).sample() + random.random()", ValueError, "Functions do not go with OptunaSearch"),
        ("tune.uniform(0, spec.config.y)", ValueError, "Functions do not go with OptunaSearch"),
        ("tune.sample_from(lambda: 3)", ValueError, "Functions do not go with OptunaSearch"),
        ("lambda spec: tune.uniform(0, 1)", ValueError, "Functions do not go with OptunaSearch"),
        ("tune.grid_search([1, 2])", ValueError, "Grids do not go with OptunaSearch, and x is one: use tune.choice"),
        ("tune.unifrm(0, 1)", tune.TuneError, "x cannot be evaluated: 'tune.unifrm.0, 1.': AttributeError"),
    ],
)
def test_expression_that_is_no_distribution_is_an_error(expression, error, said):
    searcher = optuna_search()
    with pytest.raises(error, match=said):
        set_search_properties(searcher, "loss", "min", {"x": {"eval": expression}, "y": 3})
        searcher.suggest("a")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"eval": "random.random()"}, "Functions do not go with HyperOptSearch, and net/x is one: write"),
        ({"grid_search": [1, 2]}, "Grids do not go with HyperOptSearch, and net/x is one: use tune.choice"),
        (tune.sample_from(Evaluated("random.random()")), "HyperOpt has no Function"),
    ],
)
def test_hyperopt_refuses_functions_and_grids(monkeypatch, value, said):
    monkeypatch.setattr(hyperopt, "_hyperopt", lambda: SimpleNamespace(hp=None))
    with pytest.raises(ValueError, match=said):
        hyperopt._converted({"net": {"x": value}})
