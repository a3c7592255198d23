"""Trials that fail again and again: later and later starts, and an error when the experiment ends meanwhile."""

from tests.tune.test_reporters import experiment, report
from zray.tune import backoff
from zray.tune import events as ev
from zray.tune.trial import TrialState


def fail(controller, now):
    (trial,) = controller.get_trials()
    controller.actions.clear()
    controller.handle(ev.Failed(now, trial.trial_id, "Traceback\nValueError: no", b"pickle"))
    return trial


def starts(controller):
    return sum(isinstance(action, ev.Start) for action in controller.actions)


def test_each_further_start_waits_longer():
    controller = experiment(1, 1, max_failures=-1)
    for count in range(backoff.AT_ONCE):
        fail(controller, 1000.0 + count)
        assert starts(controller) == 1
    trial = fail(controller, 1010.0)
    assert starts(controller) == 0 and trial.reason.endswith("it starts again from the beginning in 1 s")
    controller.handle(ev.Capacity(1010.9, 1))
    assert starts(controller) == 0
    controller.handle(ev.Capacity(1011.0, 1))
    assert starts(controller) == 1
    now, waits = 1011.0, []
    for _ in range(12):
        fail(controller, now)
        waits.append(trial.not_before - now)
        now = trial.not_before
        controller.handle(ev.Capacity(now, 1))
        assert starts(controller) == 1
    assert waits[:6] == [2, 4, 8, 16, 32, 60] and waits[-1] == backoff.SECONDS_MAX
    report(controller, 0, 1, 0.5, now)
    fail(controller, now + 1)
    assert starts(controller) == 1  # it has got on


def test_end_of_the_experiment_keeps_the_error_of_a_trial_that_keeps_failing():
    for count, is_running, state in ((4, False, "ERROR"), (2, True, "ERROR"), (1, True, "TERMINATED")):
        controller = experiment(1, 1, max_failures=-1, time_budget_s=100.0)
        for place in range(count):
            trial = fail(controller, 1000.0 + place)
        assert (trial.state is TrialState.RUNNING) is is_running
        controller.handle(ev.TimedOut(1101.0))
        assert trial.state.name == state and (trial.error_pickle == b"pickle") is (state == "ERROR")
        halts = sum(isinstance(action, ev.Halt) for action in controller.actions)
        assert halts == is_running and trial.num_failures == count
