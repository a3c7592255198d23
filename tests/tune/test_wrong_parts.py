"""Parts of an experiment that are classes, or of another kind: errors that name the part, and what to pass."""

import pytest

from zray import tune
from zray.tune import schedulers, search
from zray.tune.logger import JsonLogger


def train(config):
    tune.report({"loss": 1.0})


class Own(tune.Callback):
    pass


class Duck:
    """No subclass, with a method of callbacks."""

    def on_trial_result(self, **info):
        pass


class AskTell:
    def ask(self):
        return {}

    def tell(self, *_):
        pass


def tuner(**run):
    return tune.Tuner(train, run_config=tune.RunConfig(**run))


def searched(**options):
    return tune.Tuner(train, tune_config=tune.TuneConfig(metric="loss", mode="min", **options))


def run(**options):
    return tune.run(train, verbose=0, metric="loss", mode="min", **options)


CALLBACKS = [
    ([Own], r"callbacks\[0\] is the class Own: pass an object, as Own\(\)"),
    ([Own(), Own], r"callbacks\[1\] is the class Own"),
    ([object()], r"callbacks\[0\] is a tune.Callback, .*, not object"),
    (["tensorboard"], r"callbacks\[0\] is a tune.Callback, .*, not 'tensorboard'"),
    ([None], r"callbacks\[0\] is a tune.Callback, .*, not None"),
    ([lambda: None], r"callbacks\[0\] is a tune.Callback, .*, not "),
    (Own(), "callbacks is a list of tune.Callback, not Own"),
    ("x", "callbacks is a list of tune.Callback, not str"),
]


@pytest.mark.parametrize("front", [tuner, run])
@pytest.mark.parametrize(("callbacks", "message"), CALLBACKS)
def test_callback_that_is_none_is_an_error(front, callbacks, message):
    with pytest.raises(TypeError, match=message):
        front(callbacks=callbacks)


def test_object_with_methods_of_callbacks_is_one():
    tuner(callbacks=[Own(), Duck()])
    tuner(callbacks=(Own(),))


OTHERS = [
    ({"stop": tune.stopper.MaximumIterationStopper}, "stop is the class MaximumIterationStopper: make an instance"),
    ({"stop": object()}, "stop is a dict, a function .* or a Stopper, not object"),
    ({"stop": "loss"}, "stop is .*, not str"),
    ({"scheduler": schedulers.ASHAScheduler}, "The scheduler is .*, not the class AsyncHyperBandScheduler"),
    ({"scheduler": object()}, "The scheduler is .*, not object"),
    ({"search_alg": search.BasicVariantGenerator}, "search_alg is .*, not the class BasicVariantGenerator"),
    ({"search_alg": AskTell}, "search_alg is .*, not the class AskTell"),
    ({"search_alg": object()}, "search_alg is .*, not object"),
    ({"progress_reporter": tune.CLIReporter}, r"progress_reporter is the class CLIReporter: .*CLIReporter\(\)"),
    ({"progress_reporter": object()}, "progress_reporter has should_report.*object lacks should_report and report"),
    ({"progress_reporter": "x"}, "progress_reporter has should_report"),
    ({"loggers": [JsonLogger, "tensorboard"]}, r"loggers\[1\] is a class of tune.logger.Logger, not 'tensorboard'"),
    ({"loggers": [Own()]}, r"loggers\[0\] is a class of tune.logger.Logger, not Own.  .*callbacks"),
    ({"loggers": [Own]}, r"loggers\[0\] is a class of tune.logger.Logger, not the class Own.  .*callbacks"),
    ({"loggers": JsonLogger}, "loggers is a list of classes, not the class JsonLogger"),
    ({"trial_name_creator": "x"}, "trial_name_creator is a function of a trial, not 'x'"),
    ({"trial_dirname_creator": 5}, "trial_dirname_creator is a function of a trial, not 5"),
]
OF_RUN = ("stop", "progress_reporter")


@pytest.mark.parametrize(("options", "message"), OTHERS)
def test_part_of_another_kind_is_an_error(options, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        run(storage_path=str(tmp_path), **options)
    (name,) = options
    if name != "loggers":
        with pytest.raises(TypeError, match=message):
            (tuner if name in OF_RUN else searched)(**options)
