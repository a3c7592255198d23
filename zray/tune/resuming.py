"""The resumption of an experiment in a new process: all deciding state is restored, but no trial processes exist.

A trial goes on from its newest checkpoint.  A paused trial needs one of the moment of its pause: the scheduler may let
another trial start from it.  A class writes that checkpoint after the decision to pause, and a kill may come between.
Such a trial is repeated.  It runs from its former checkpoint to its pause, its results are not recorded again, and its
process halts with the checkpoint that was lost.  Until then the trial is one that is still halting: schedulers wait for
it as they would have waited without the kill.  In the same way a trial is repeated that has ended and was to be saved
at its end.

Trials that fail_fast or the time budget has cut off go on; after the budget's end they have a new one.  An experiment
that was interrupted has what is left of its budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import events as ev
from .search.basic_variant import BasicVariantGenerator
from .trial import Trial, TrialState

if TYPE_CHECKING:
    from .controller import Controller

__all__ = ["repeat", "resume"]


def resume(controller: Controller, event: ev.Resumed) -> None:
    """Continue trials without a process; finished trials stay finished, unless the user wants otherwise."""
    lost = [
        trial
        for trial in controller.trials.values()
        if _has_lost_checkpoint(controller, trial) and (trial.is_over or event.resume_unfinished)
    ]
    ran = max(controller.was - controller.began_at, 0.0)
    spent = 0.0 if controller.is_ending else ran
    controller.halting.clear()
    controller.repeating.clear()
    controller.is_ending = ""
    controller.began_at = controller.now - spent
    controller.earlier_s += ran - spent
    if event.num_samples:
        _sample_more(controller, event.num_samples)
    first = [trial_id for trial_id in controller.running if event.resume_unfinished]  # they go on before others start
    for trial in list(controller.trials.values()):
        if not trial.is_over and not event.resume_unfinished:
            controller._end(trial, "the experiment was resumed without unfinished trials")
        elif trial.state is TrialState.RUNNING:
            controller._move(trial, TrialState.PENDING)
        elif trial.state is TrialState.TERMINATED and trial.is_cut_off and event.resume_unfinished:
            trial.is_cut_off, trial.ended_at, trial.reason = False, 0.0, ""
            controller._move(trial, TrialState.PENDING)
        elif trial.state is TrialState.ERROR and (event.resume_errored or event.restart_errored):
            if event.restart_errored:
                _forget(controller, trial)
            trial.num_failures, trial.error, trial.error_pickle, trial.ended_at = 0, "", b"", 0.0
            trial.failures_in_a_row, trial.not_before = 0, 0.0
            controller._move(trial, TrialState.PENDING)
    controller.halting.clear()  # no process is there
    controller.waiting = {**{trial_id: controller.waiting[trial_id] for trial_id in first}, **controller.waiting}
    for trial in lost:
        controller.halting[trial.trial_id] = "pause"
        controller.repeating.add(trial.trial_id)
        controller._start_process(trial)


def _forget(controller: Controller, trial: Trial) -> None:
    """Remove the results and checkpoints of a trial, which begins anew."""
    controller.actions.append(ev.BegunAnew(trial.trial_id))
    controller.actions += [ev.Delete(saved.path) for saved in trial.checkpoints]
    trial.checkpoints, trial.iteration, trial.last_result, trial.earlier, trial.best = [], 0, {}, {}, None
    if controller.objective is not None:
        controller.best_ever = controller.objective.best((each.best, each) for each in controller.trials.values())


def _sample_more(controller: Controller, num_samples: int) -> None:
    """Let the search go on beyond its first number of samples."""
    searcher, settings = controller.searcher, controller.settings
    settings.num_samples = num_samples
    if isinstance(searcher, BasicVariantGenerator):
        searcher.num_samples = num_samples
        settings.num_samples = searcher.total_samples or -1
    controller.is_exhausted = False


def _has_lost_checkpoint(controller: Controller, trial: Trial) -> bool:
    """Whether a trial's process has not written the checkpoint of a pause, or of the end."""
    settings, why = controller.settings, controller.halting.get(trial.trial_id, "")
    wants = trial.state is TrialState.PAUSED or (
        trial.state is TrialState.TERMINATED and why == "stop" and settings.checkpoint_at_end and not trial.is_cut_off
    )
    return wants and settings.saves_when_paused and bool(trial.iteration and why) and not trial.has_newest


def repeat(controller: Controller, trial: Trial, iteration: int) -> bool:
    """Take a result of a repeated trial.

    Returns:
        False: it is at its pause, and halts.
    """
    if iteration < trial.iteration:
        return True
    controller.repeating.discard(trial.trial_id)
    controller._halt(trial, "pause", save=not trial.has_newest)
    return False
