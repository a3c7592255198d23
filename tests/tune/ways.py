"""Ways to report a result, and to save checkpoints, since 2017: trainables for tests, without imports of pytest."""

import os

from zray import train, tune
from zray.air import session as air_session
from zray.tune import track

STEPS = 3
STYLES = ("checkpoint_dir", "directory", "dict", "none")


def begin(path=None):
    """The step to begin with: behind the one in the checkpoint."""
    found = tune.get_checkpoint()
    if found is None:
        return 0
    if os.path.exists(os.path.join(found.path, "step")):
        with open(os.path.join(path or found.path, "step")) as file:
            return int(file.read()) + 1
    return found.to_dict()["step"] + 1


def saved(style, step):
    """Save a step.  Returns: what the report is told of it, beside the metrics."""
    if style == "checkpoint_dir":
        with tune.checkpoint_dir(step) as folder:
            write(folder, step)
    elif style == "directory":
        folder = os.path.join(tune.get_trial_dir(), f"made_{step}")
        os.makedirs(folder, exist_ok=True)
        write(folder, step)
        return {"checkpoint": tune.Checkpoint.from_directory(folder)}
    elif style == "dict":
        return {"checkpoint": tune.Checkpoint.from_dict({"step": step})}
    return {}


def write(folder, step):
    with open(os.path.join(folder, "step"), "w") as file:
        file.write(str(step))


def fail_once(step):
    """Fail in the middle, the first time."""
    path = os.path.join(tune.get_trial_dir(), "failed")
    if step == 1 and not os.path.exists(path):
        write(os.path.dirname(path), step)
        os.rename(os.path.join(os.path.dirname(path), "step"), path)
        raise ValueError("The first try fails.")


def steps(config, path=None):
    start = begin(path)
    for step in range(start, STEPS):
        yield step, {"loss": STEPS - step, "began": start}
        if config["fails"]:
            fail_once(step)


def by_reporter(config, reporter):
    for step, metrics in steps(config):
        reporter(**metrics, **saved(config["style"], step))


def by_track(config):
    for step, metrics in steps(config):
        track.log(**metrics, **saved(config["style"], step))


def by_keywords(config):
    for step, metrics in steps(config):
        tune.report(**metrics, **saved(config["style"], step))


def by_checkpoint_dir(config, checkpoint_dir=None):
    for step, metrics in steps(config, checkpoint_dir):
        tune.report(**metrics, **saved(config["style"], step))


def by_dict(config):
    for step, metrics in steps(config):
        tune.report(metrics, **saved(config["style"], step))


def by_session(config):
    for step, metrics in steps(config):
        air_session.report(metrics, **saved(config["style"], step))


def by_train(config):
    for step, metrics in steps(config):
        train.report(metrics, **saved(config["style"], step))


def by_keyword_of_today(config):
    for step, metrics in steps(config):
        train.report(metrics=metrics, **saved(config["style"], step))


def by_position(config):
    for step, metrics in steps(config):
        train.report(metrics, saved(config["style"], step).get("checkpoint"))


def by_yield(config):
    for step, metrics in steps(config):
        yield {**metrics, **saved(config["style"], step)}


def by_return(config):
    return {"loss": 1, "began": 0, **saved(config["style"], STEPS - 1)}


WAYS = (
    by_reporter,
    by_track,
    by_keywords,
    by_checkpoint_dir,
    by_dict,
    by_session,
    by_train,
    by_keyword_of_today,
    by_position,
    by_yield,
    by_return,
)
SPACE = {"style": tune.grid_search(list(STYLES)), "fails": False}
