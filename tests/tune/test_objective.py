"""The comparison of all parts that look for the best: NaN and infinite values last, of equal values the earlier."""

import math
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest

from zray import tune
from zray.tune import plots
from zray.tune.controller import Controller
from zray.tune.dry_run import Facts, compared
from zray.tune.events import Capacity, Report
from zray.tune.listing import listed
from zray.tune.metrics import recordable
from zray.tune.objective import LAST, Objective, number_of
from zray.tune.outcomes import best_trial_of, value_in_scope
from zray.tune.recorded import Recorded
from zray.tune.reporters import rows, view
from zray.tune.schedulers import ASHAScheduler, FIFOScheduler, HyperBandScheduler, MedianStoppingRule
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.settings import Settings
from zray.tune.simulation import Point
from zray.tune.trial import SavedCheckpoint, Trial
from zray.tune.trial_results import superfluous

NAN, INF = math.nan, math.inf
ODD = [NAN, 3.0, INF, 1.0, -INF, 1.0, 9.0, 9.0, NAN]


class Tensor:
    """A tensor of one element, as of torch."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


def trials_with(values):
    return [
        Trial(f"t{place}", "f", {}, {}, index=place, name=f"f_{place}", last_result={"m": value})
        for place, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.longdouble(2), 2.0),
        (np.array([4.0]), 4.0),
        (Decimal("0.25"), 0.25),
        (Tensor(7.0), 7.0),
        (10**30, 1e30),
        (10**400, INF),
        (True, 1.0),
        ("3", None),
        (None, None),
        ([1.0], None),
        (np.array([1.0, 2.0]), None),
        (1j, None),
    ],
)
def test_numbers_are_what_can_be_compared(value, number):
    assert number_of(value) == number


class Measured:
    """A number of the user's."""

    def __float__(self):
        return 2.5


@pytest.mark.parametrize("value", [Measured(), np.float16(2.5), Decimal("2.5"), Tensor(2.5), np.array([2.5])])
def test_value_is_the_number_by_which_it_is_recorded(value):
    assert number_of(value) == 2.5 and recordable({"m": value}) == {"m": 2.5}


@pytest.mark.parametrize(("mode", "place"), [("min", 3), ("max", 6)])
def test_nan_and_infinite_values_come_last_in_both_modes(mode, place):
    objective = Objective("m", mode)
    items = [(value, place) for place, value in enumerate(ODD)]
    assert objective.best(items) == place
    ranked = objective.ranked([*items, ("text", "no number")])
    assert ranked[:2] == [place, place + (2 if mode == "min" else 1)]
    assert ranked[-5:] == [0, 2, 4, 8, "no number"]
    assert objective.score({"m": NAN}) == objective.score({"m": INF}) == LAST and objective.score({}) is None


def test_infinite_values_count_where_they_are_asked_for():
    items = [(NAN, "nan"), (INF, "inf"), (1.0, "one")]
    assert Objective("m", "max").best(items, filter_nan_and_inf=False) == "inf"
    assert Objective("m", "min").best(items, filter_nan_and_inf=False) == "one"
    assert Objective("m", "min").best(items[:1], filter_nan_and_inf=False) == "nan"
    assert Objective("m", "min").best(items[:2]) is None


@pytest.mark.parametrize(("mode", "place"), [("min", 3), ("max", 6)])
def test_tables_and_lists_have_the_same_best_trial(mode, place):
    trials = trials_with(ODD)
    assert rows.best_of(trials, "m", mode) is trials[place]
    assert rows.picked(trials, None, "m", mode, by_metric=True)[0] is trials[place]
    recorded = Recorded("/e", trials, "m", mode, None, "")
    assert listed(recorded)[0]["trial"] == f"f_{place}"


@pytest.mark.parametrize(("mode", "kept"), [("min", [3, 8]), ("max", [6, 8])])
def test_kept_checkpoints_are_the_newest_and_the_best_by_the_same_comparison(mode, kept):
    trial = trials_with([0.0])[0]
    settings = Settings(keep=1, score_key="m", score_order=mode)
    for place, value in enumerate(ODD):
        trial.checkpoints.append(SavedCheckpoint(str(place), place, score=number_of(value)))
        for dropped in superfluous(trial, settings):
            trial.checkpoints.remove(dropped)
    assert [each.iteration for each in trial.checkpoints] == kept


def experiment_of(curves, metric="m", mode="min"):
    settings = Settings(path="/e", metric=metric, mode=mode, num_samples=len(curves))
    searcher = BasicVariantGenerator(random_state=1)
    searcher.set_search_properties(metric, mode, {"x": tune.uniform(0, 1)}, num_samples=len(curves))
    controller = Controller(settings, searcher, FIFOScheduler())
    controller.handle(Capacity(1.0, len(curves)))
    for trial, curve in zip(controller.get_trials(), curves, strict=True):
        for place, value in enumerate(curve):
            controller.handle(Report(2.0, trial.trial_id, place + 1, {"m": value}, 1.0, 1.0))
    return controller


def test_best_is_by_the_last_result_and_the_best_ever_is_named_beside_it():
    controller = experiment_of([[5.0, 1.0, 4.0], [3.0, 3.0, 3.0]])
    first, second = controller.get_trials()
    assert controller.best is second and controller.best_ever is first and first.best == 1.0
    words = view.view_of(controller, "").best_in_words()
    assert words.startswith(f"best m = 3 of {second}") and words.endswith(f"; best ever 1 of {first}")
    assert "ever" not in view.view_of(experiment_of([[5.0, 4.0]]), "").best_in_words()


def test_best_of_the_running_experiment_leaves_out_what_is_not_finite():
    controller = experiment_of([[-INF], [NAN], [np.float32(2.0)], [2.0]])
    assert controller.best is controller.best_ever is controller.get_trials()[2]


def test_scopes_leave_out_what_is_not_finite_unless_asked(monkeypatch):
    results = [{"m": value} for value in (4.0, NAN, 2.0, INF)]
    monkeypatch.setattr("zray.tune.outcomes.history", lambda trial: results)
    trial = Trial("t", "f", {}, {}, last_result=results[-1])
    objective = Objective("m", "max")
    found = [value_in_scope(trial, objective, scope) for scope in ("last", "all", "avg", "last-5-avg")]
    assert found == [None, 4.0, 3.0, 3.0]
    assert value_in_scope(trial, objective, "last", filter_nan_and_inf=False) == INF
    assert value_in_scope(trial, objective, "all", filter_nan_and_inf=False) == INF
    with pytest.raises(ValueError, match=r"scope is one of 'last', 'all'.*not 'best'"):
        value_in_scope(trial, objective, "best")


def outcome_with(beyond, **counts):
    return SimpleNamespace(
        beyond=beyond, counts=lambda: counts, scheduler="HyperBandScheduler", trials=1, trials_at_once=1, results=2,
        seconds=1.0, training_seconds=1.0, best=1.0, best_trial="f_0", best_ever=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("saves", "words"), [([True, True], None), ([True, False], "from the last one"), ([False] * 2, "at its beginning")]
)
def test_note_about_checkpoints_is_for_reports_without_them(saves, words, tmp_path):
    recorded = Recorded(str(tmp_path), [], None, None, None, "")
    curve = [Point({"m": 1.0}, 1.0, is_saved) for is_saved in saves]
    facts = Facts([curve], [True], [""], [[]], 0.0, 1, 1.0, False)
    notes = [note for note in compared(recorded, facts, outcome_with([], PAUSE=1))[1] if "checkpoints" in note]
    assert (words in notes[0]) if words else notes == []


def test_note_about_trials_that_would_have_gone_on_counts_in_words(tmp_path):
    recorded = Recorded(str(tmp_path), [], None, None, None, "")
    facts = Facts([[]], [True], [""], [[]], 0.0, 1, 1.0, True)
    assert compared(recorded, facts, outcome_with(["a"]))[1][0].startswith("1 trial was stopped early")
    assert compared(recorded, facts, outcome_with(["a", "b"]))[1][0].startswith("2 trials were stopped early")


@pytest.mark.parametrize(
    "wrong",
    [{"top": 1}, {"top": "5"}, {"top": 2.5}, {"std": 0}, {"std": "1"}, {"std": NAN}, {"patience": -1},
     {"patience": "0"}, {"patience": 0.5}, {"mode": "best"}, {"mode": 0}],
)  # fmt: skip
def test_plateau_of_an_experiment_refuses_wrong_options(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
        tune.stopper.ExperimentPlateauStopper("m", **wrong)


def test_plateaus_do_not_count_what_is_not_finite():
    stopper = tune.stopper.ExperimentPlateauStopper("m", top=2, mode="min", std=0.1)
    assert not any(stopper("t", {"m": value}) for value in (-INF, NAN, 1.0, -INF, 5.0))
    assert stopper("t", {"m": np.float32(1.0)})
    trial = tune.stopper.TrialPlateauStopper("m", num_results=2, grace_period=2)
    assert [trial("t", {"m": value}) for value in (NAN, NAN, INF, INF, 1.0, 1.0)] == [False] * 5 + [True]


@pytest.mark.parametrize("make", [ASHAScheduler, lambda **given: MedianStoppingRule(grace_period=1, **given)])
def test_result_with_which_a_trial_ended_counts_for_the_others(make):
    scheduler = make(time_attr="t", metric="m", mode="max")
    trial = trials_with([0.0])[0]
    scheduler.on_trial_add(None, trial)
    scheduler.on_trial_result(None, trial, {"t": 1, "m": 5.0})
    scheduler.on_trial_complete(None, trial, {"t": 4, "m": 7.0})
    scheduler.on_trial_complete(None, trial, {"t": 4, "m": 7.0})
    if isinstance(scheduler, MedianStoppingRule):
        assert scheduler.sums["t0"] == [(1, 5.0), (4, 12.0)]
    else:
        assert {rung.resource: rung.scores for rung in scheduler.brackets[0].rungs}[4] == {"t0": 7.0}


def test_decisions_about_no_number_are_sentences():
    for scheduler in (
        ASHAScheduler(metric="m", mode="min", grace_period=1, max_t=9),
        MedianStoppingRule("training_iteration", "m", "min", grace_period=0, min_samples_required=1),
        HyperBandScheduler(metric="m", mode="min"),
    ):
        scheduler.require_metric()
        assert scheduler.value_in_words(-0.5, {"m": 0.5}) == "m = 0.5"
        for value, text in ((math.nan, "nan"), (-math.inf, "-inf"), ("x" * 99, "x" * 40)):
            said = scheduler.value_in_words(-math.inf, {"m": value})
            assert said == f"m = {text}, which is no finite number,"
    scheduler = ASHAScheduler(metric="m", mode="min", grace_period=1, max_t=9, reduction_factor=2)
    said = []
    for index, value in enumerate([math.nan, math.inf, 0.5, 0.25, math.nan, 0.75]):
        trial = Trial(f"t{index}", "f", {}, {}, index=index)
        scheduler.on_trial_add(None, trial)
        said.append(scheduler.on_trial_result(None, trial, {"m": value, "training_iteration": 1}).reason)
    assert said[0].endswith("passes the rung of 1 with 1 trials: it is the first")
    assert said[1] == (
        "m = inf, which is no finite number, passes the rung of 1 with 2 trials: no trial before it has a finite number"
    )
    assert said[4].startswith("stopped at training_iteration 1: m = nan, which is no finite number, is behind 0.")
    assert said[5].startswith("stopped at training_iteration 1: m = 0.75 is above 0.")


def test_reason_of_the_median_rule_about_no_number_is_true():
    rule = MedianStoppingRule("training_iteration", "m", "min", grace_period=0, min_samples_required=1)
    for index, value in enumerate([0.5, math.nan]):
        trial = Trial(f"t{index}", "f", {}, {}, index=index)
        said = rule.on_trial_result(None, trial, {"m": value, "training_iteration": 1})
    assert said == "STOP"
    assert said.reason == (
        "at training_iteration 1 no m of it so far is a finite number, and 0.5 is the median of the averages of "
        "1 trials"
    )


MIXED = [
    10.5,
    9.25,
    "diverged",
    100.0,
    None,
    1 + 2j,
    True,
    NAN,
    [1.0],
    -INF,
    np.array([7.0]),
    {"a": 1},
    "3",
    Decimal(8),
]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("value", MIXED, ids=repr)
def test_first_rows_are_those_of_the_best_result_for_any_mix_of_values(mode, value):
    for values in (MIXED, MIXED[::-1], [10.5, value, 9.25, 100.0], [value, 100.0, 9.25]):
        trials = trials_with(values)
        expected = []
        while trials:
            try:
                expected.append(best_trial_of(trials, "m", mode) if len(trials) > 1 else trials[0])
            except RuntimeError:
                break
            trials.remove(expected[-1])
        listing = [row["trial"] for row in listed(Recorded("/e", trials_with(values), "m", mode, None, ""))]
        assert listing[: len(expected)] == [each.name for each in expected]
        table = rows.picked(trials_with(values), None, "m", mode, by_metric=True)
        assert [each.name for each in table] == listing


def test_parameter_of_the_name_of_the_metric_does_not_order_the_rows():
    trials = trials_with([3.0, 1.0])
    for trial, own in zip(trials, (0, 9), strict=True):
        trial.chosen = {"m": own}
        trial.config = {"m": own}
    assert listed(Recorded("/e", trials, "m", "min", None, ""))[0]["trial"] == "f_1"


@pytest.mark.parametrize(
    ("descending", "order"),
    [(False, [True, 9.25, 10.5, NAN, -INF, "a", "b"]), (True, [10.5, 9.25, True, NAN, -INF, "b", "a"])],
)
def test_column_of_numbers_and_texts_has_the_numbers_first(descending, order):
    trials = trials_with(["b", 10.5, NAN, "a", 9.25, -INF, True])
    found = listed(Recorded("/e", trials, None, None, None, ""), sort="m", descending=descending)
    assert repr([row["m"] for row in found]) == repr(order)


def test_best_ever_is_left_out_where_it_is_the_best_last_value():
    tied = experiment_of([[1.0, 3.0], [5.0, 1.0]])
    assert tied.best_ever is not tied.best
    assert "ever" not in view.view_of(tied, "").best_in_words()
    assert "best ever 0.5" in view.view_of(experiment_of([[5.0, 1.0], [0.5, 3.0]]), "").best_in_words()


@pytest.mark.parametrize("value", [True, 3, 2.5, NAN, -INF, "3", "0x10", "a", None, [1.0]], ids=repr)
def test_cells_of_the_plot_say_which_values_are_ordered_as_numbers(value):
    number = number_of(value)
    words = f'data-number="{number!r}"' if number is not None and math.isfinite(number) else ">"
    assert words in plots._cell(value) and ("data-number" in words) == ("data-number" in plots._cell(value))
