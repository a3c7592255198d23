"""Additions to the last line of an experiment, for RLlib's trials, and for trials whose processes start slowly."""

import io

from rich.console import Console

from tests.tune.test_reporters import experiment, finish
from zray.tune import events as ev
from zray.tune.reporters.endings import hint_on_starts, last_returns
from zray.tune.reporters.live import LiveTable
from zray.tune.reporters.updates import QuietLines


def ended(samples, *, pids, first=7.0, later=0.1, results=3, capacity=2, **metrics):
    """An experiment whose trials had processes with these pids, and results after these seconds."""
    controller = experiment(samples, capacity)
    now = 1000.0
    for place in range(samples):
        trial = controller.get_trials()[place]
        now += 1.0
        controller.handle(ev.Began(now, trial.trial_id, {"pid": pids[place % len(pids)], "node_ip": "127.0.0.1"}))
        for count in range(1, results + 1):
            seconds = first if count == 1 else later
            total = first + later * (count - 1)
            found = {"loss": 0.5, **{name: value + place for name, value in metrics.items()}}
            controller.handle(ev.Report(now, trial.trial_id, count, found, seconds, total))
        finish(controller, place)
    return controller


def last_lines(controller):
    lines = []
    quiet = QuietLines()
    quiet.write = lines.append
    quiet.update(controller, is_final=True)
    return lines


def test_pipe_hears_of_the_last_returns():
    controller = ended(2, pids=[1, 2], first=0.1, episode_reward_mean=20.0, timesteps_total=4000)
    assert last_returns(controller) == ""  # the metric has said it
    controller.settings.metric = None
    (line,) = last_lines(controller)
    assert "; last returns 20, 21 after 4,001 steps; results in" in line
    many = ended(6, pids=range(6), first=0.1, episode_reward_mean=20.0)
    many.settings.metric = None
    assert last_returns(many) == "last returns 20 to 25"
    none = ended(1, pids=[1], first=0.1)
    none.settings.metric = None
    assert last_returns(none) == ""


def test_hint_names_reuse_actors_where_starts_take_longer_than_the_work():
    slow = ended(6, pids=range(6))
    (_, line) = last_lines(slow)
    assert line.startswith("The first result of a trial took some 7 s more than a later one") and "reuse_actors" in line
    console = Console(file=io.StringIO(), width=200)
    LiveTable(console=console, usage=lambda: "").update(slow, is_final=True)
    assert line in console.file.getvalue()
    for controller in (
        ended(6, pids=[1, 2]),  # the processes were used again
        ended(6, pids=range(6), capacity=6),
        ended(3, pids=range(3)),
        ended(6, pids=range(6), first=1.0),
        ended(6, pids=range(6), later=7.0),
        ended(6, pids=range(6), results=2),
    ):
        assert hint_on_starts(controller) == ""
