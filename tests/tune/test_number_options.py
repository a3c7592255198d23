"""Options that are numbers: a value of another sign, a fraction, NaN or text is an error that names the option."""

import datetime

import numpy as np
import pytest

from zray import tune
from zray.tune import schedulers, search, stoppers
from zray.tune.resources import resources_of

NAN = float("nan")
MUTATED = {"hyperparam_mutations": {"lr": [1, 2]}}


def optuna(**options):
    from zray.tune.search.optuna import OptunaSearch

    return OptunaSearch(**options)


def hyperopt(**options):
    from zray.tune.search.hyperopt import HyperOptSearch

    return HyperOptSearch(**options)


def repeater(**options):
    return search.Repeater(search.BasicVariantGenerator(), **options)


def limiter(**options):
    return search.ConcurrencyLimiter(search.BasicVariantGenerator(), **options)


def pbt(**options):
    return schedulers.PopulationBasedTraining(**{**MUTATED, **options})


def plateau(**options):
    return stoppers.TrialPlateauStopper("loss", **options)


def run(**options):
    return tune.run(lambda config: {"loss": 1.0}, verbose=0, **options)


WHOLE = (-5, 0.5, NAN, "1", [1])
WITHOUT_NUMBER = (NAN, "1", [1])
BAD = [
    (tune.TuneConfig, "max_concurrent_trials", (*WHOLE, True)),
    (tune.TuneConfig, "num_samples", (*WHOLE, True)),
    (tune.TuneConfig, "time_budget_s", (-1, "1h", NAN, datetime.timedelta(-1), True)),
    (tune.TuneConfig, "seed", WHOLE),
    (tune.RunConfig, "verbose", (4, "x")),
    (tune.FailureConfig, "max_failures", WHOLE),
    (tune.CheckpointConfig, "num_to_keep", (0, *WHOLE)),
    (tune.CheckpointConfig, "checkpoint_frequency", WHOLE),
    (tune.ScalingConfig, "num_workers", WHOLE),
    (run, "max_concurrent_trials", WHOLE),
    (run, "max_failures", WHOLE),
    (run, "time_budget_s", (-1, "1h", NAN)),
    (run, "checkpoint_freq", WHOLE),
    (run, "keep_checkpoints_num", WHOLE),
    (run, "num_samples", WHOLE),
    (search.BasicVariantGenerator, "max_concurrent", WHOLE),
    (search.BasicVariantGenerator, "random_state", WHOLE),
    (limiter, "max_concurrent", (0, *WHOLE)),
    (repeater, "repeat", (0, *WHOLE)),
    (optuna, "seed", WHOLE),
    (hyperopt, "random_state_seed", WHOLE),
    (hyperopt, "n_initial_points", WHOLE),
    (hyperopt, "gamma", (0, -1, 1.5, *WITHOUT_NUMBER)),
    (hyperopt, "max_concurrent", WHOLE),
    (schedulers.ASHAScheduler, "max_t", (-1, float("inf"), *WITHOUT_NUMBER)),
    (schedulers.ASHAScheduler, "grace_period", (-1, 0, *WITHOUT_NUMBER)),
    (schedulers.ASHAScheduler, "reduction_factor", (1, -1, *WITHOUT_NUMBER)),
    (schedulers.ASHAScheduler, "brackets", (0, *WHOLE)),
    (schedulers.HyperBandScheduler, "max_t", (-1, float("inf"), *WITHOUT_NUMBER)),
    (schedulers.HyperBandScheduler, "reduction_factor", (1, *WITHOUT_NUMBER)),
    (schedulers.MedianStoppingRule, "grace_period", (-1, *WITHOUT_NUMBER)),
    (schedulers.MedianStoppingRule, "min_samples_required", (0, *WHOLE)),
    (schedulers.MedianStoppingRule, "min_time_slice", (-1, *WITHOUT_NUMBER)),
    (pbt, "perturbation_interval", (0, -1, *WITHOUT_NUMBER)),
    (pbt, "burn_in_period", (-1, *WITHOUT_NUMBER)),
    (pbt, "quantile_fraction", (-0.1, 0.6, *WITHOUT_NUMBER)),
    (pbt, "resample_probability", (-0.1, 1.1, *WITHOUT_NUMBER)),
    (pbt, "perturbation_factors", ((1.2,), (1.2, "x"), (0, 1), 1.2)),
    (pbt, "seed", WHOLE),
    (stoppers.MaximumIterationStopper, "max_iter", (0, *WHOLE)),
    (stoppers.TimeoutStopper, "timeout", (-1, *WITHOUT_NUMBER)),
    (plateau, "std", (-1, *WITHOUT_NUMBER)),
    (plateau, "num_results", (0, *WHOLE)),
    (plateau, "grace_period", WHOLE),
    (stoppers.ExperimentPlateauStopper, "std", ()),
    (tune.CLIReporter, "max_report_frequency", (-1, *WITHOUT_NUMBER)),
    (tune.CLIReporter, "max_progress_rows", WHOLE),
]


@pytest.mark.parametrize("made, name, value", [(made, name, value) for made, name, values in BAD for value in values])
def test_number_out_of_its_range_is_an_error_that_names_the_option(made, name, value):
    former = {"checkpoint_freq": "checkpoint_frequency", "keep_checkpoints_num": "num_to_keep"}
    with pytest.raises((TypeError, ValueError), match=rf"{former.get(name, name)}\b.* (is|are|lies) "):
        made(**{name: value})


GOOD = [
    (tune.TuneConfig, {"max_concurrent_trials": 0}),
    (tune.TuneConfig, {"max_concurrent_trials": None, "num_samples": -1, "seed": 0, "time_budget_s": 0}),
    (tune.TuneConfig, {"time_budget_s": datetime.timedelta(hours=1)}),
    (tune.TuneConfig, {"time_budget_s": float("inf")}),
    (tune.FailureConfig, {"max_failures": -1}),
    (tune.CheckpointConfig, {"num_to_keep": None, "checkpoint_frequency": None}),
    (search.BasicVariantGenerator, {"max_concurrent": 0}),
    (schedulers.ASHAScheduler, {"max_t": 2.5, "grace_period": 0.5, "reduction_factor": 1.5}),
    (schedulers.MedianStoppingRule, {"grace_period": 0, "min_samples_required": 1}),
    (stoppers.TimeoutStopper, {"timeout": datetime.timedelta(seconds=1)}),
]


@pytest.mark.parametrize("made, options", GOOD)
def test_number_in_its_range_is_taken(made, options):
    made(**options)


def test_threshold_that_is_nan_is_an_error():
    with pytest.raises(ValueError, match="'loss' .*nan"):
        stoppers.stopper_of({"loss": NAN})


@pytest.mark.parametrize(
    "options",
    [
        {"tune_config": {"num_samples": 3}},
        {"run_config": {"name": "a"}},
        {"run_config": tune.RunConfig(failure_config={"max_failures": 3})},
        {"run_config": tune.RunConfig(checkpoint_config=tune.CheckpointConfig)},
    ],
)
def test_options_of_another_kind_are_an_error(options):
    with pytest.raises(TypeError, match=r"(tune|run|failure|checkpoint)_config is a tune\.\w+Config, not"):
        tune.Tuner(lambda config: {"loss": 1.0}, **options)


def test_number_that_is_set_later_is_looked_at_too():
    saving = tune.CheckpointConfig()
    saving.num_to_keep = 0
    with pytest.raises(ValueError, match="num_to_keep is at least 1"):
        tune.Tuner(lambda config: {"loss": 1.0}, run_config=tune.RunConfig(checkpoint_config=saving))


def test_limit_of_a_searcher_of_the_program_is_looked_at_too():
    class Own(search.Searcher):
        max_concurrent = -1

    with pytest.raises(ValueError, match="max_concurrent of Own is at least 0"):
        tune.Tuner(lambda config: {"loss": 1.0}, tune_config=tune.TuneConfig(search_alg=Own()))


HUGE = 10**5000  # Python refuses its decimals


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: tune.TuneConfig(num_samples=-HUGE), "num_samples"),
        (lambda: tune.TuneConfig(time_budget_s=HUGE), "time_budget_s"),
        (lambda: schedulers.ASHAScheduler(max_t=HUGE), "max_t"),
        (lambda: pbt(perturbation_factors=(HUGE, 1)), "perturbation_factors"),
        (lambda: tune.uniform(0, HUGE), "interval of floats"),
        (lambda: tune.quniform(0, 1, HUGE), "interval of floats"),
        (lambda: tune.randn(HUGE), "interval of floats"),
        (lambda: tune.randint(0, HUGE), "range of integers"),
        (lambda: tune.lograndint(1, HUGE), "range of integers"),
        (lambda: tune.choice(HUGE), "choice"),
        (lambda: stoppers.stopper_of({"loss": HUGE}), "'loss'"),
        (lambda: resources_of(run, {"cpu": HUGE}, {}), "'cpu'"),
    ],
)
def test_integer_that_no_float_can_hold_is_a_short_error_that_names_its_place(made, name):
    with pytest.raises((TypeError, ValueError, tune.TuneError), match=f"{name}.* an integer of 16,610 bits") as caught:
        made()
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: tune.randint(0, 2**63 + 1), "64 bits"),
        (lambda: tune.randint(-(2**64), 0), "64 bits"),
        (lambda: tune.randint(0, float("inf")), "integers, not inf"),
        (lambda: tune.randint(NAN, 3), "integers, not nan"),
    ],
)
def test_range_of_integers_that_cannot_be_drawn_from_is_an_error(made, words):
    with pytest.raises(ValueError, match=words):
        made()


def test_ranges_of_integers_up_to_64_bits_are_drawn_from():
    rng = np.random.default_rng(1)
    assert tune.randint(2**63 - 1, 2**63).draw(rng) == 2**63 - 1
    assert 1 <= tune.lograndint(1, 10**30).draw(rng) < 10**30
