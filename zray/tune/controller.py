"""The controller of an experiment: a state machine without I/O.  Events go in, actions come out.

    searcher -> trial PENDING -> Start -> RUNNING -> Report -> the scheduler's decision
        CONTINUE: Proceed        PAUSE: Halt, PAUSED        STOP: Halt, TERMINATED        failure: PENDING or ERROR

The same events give the same actions: a journal of the events is the whole state of an experiment, and replaying the
journal restores searcher, scheduler and trials.  The clock is the events' `now`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import backoff, naming
from . import events as ev
from .controller_names import ControllerNames
from .decisions import NOOP, PAUSE, STOP, UNEXPLAINED, Decision
from .new_trials import made_trial, suggested
from .objective import number_of
from .resuming import repeat, resume
from .schedulers.trial_scheduler import TrialScheduler
from .search.searcher import Searcher
from .settings import Settings
from .stoppers import Stopper, criterion
from .trial import SavedCheckpoint, Trial, TrialState, headline, value_of
from .trial_results import filled_result, missing_metric, result_for, superfluous, with_times

__all__ = ["Controller"]


class Controller(ControllerNames):
    """The state of an experiment."""

    def __init__(
        self, settings: Settings, searcher: Searcher, scheduler: TrialScheduler, stopper: Stopper | None = None
    ) -> None:
        self.settings, self.searcher, self.scheduler, self.stopper = settings, searcher, scheduler, stopper
        self.trials: dict[str, Trial] = {}
        self.actions: list[ev.Action] = []
        self.events: list[ev.Suggested] = []  # made here; the journal takes them before the actions are carried out
        self.replayed: dict[str, ev.Suggested] | None = None  # trial -> its record, while a journal is replayed
        self.refs: list[Any] = []  # of the search space, for the pickles of configurations
        self.folders: set[str] = set()  # of all trials
        self.former_folders: set[str] = set()  # of runs before this one
        self.request_of: Callable[[dict[str, Any]], Any] | None = None  # the resources for a configuration
        self.facts: dict[str, dict[str, Any]] = {}  # trial -> what its results are marked with
        self.waits: dict[str, str] = {}  # trial -> what its process waits for, by the loop; nothing decides by it
        self.waiting: dict[str, Trial] = {}  # PENDING, in the order in which they start
        self.running: dict[str, Trial] = {}
        self.paused: dict[str, Trial] = {}
        self.halting: dict[str, str] = {}  # trial -> why; its process has not stopped yet
        self.repeating: set[str] = set()  # those of them that run to their pause again, see `resuming`
        self.capacity = 0
        self.is_exhausted = False  # the searcher has no more
        self.has_no_new = False  # the scheduler is asked again, since no new trial can begin
        self.is_ending = ""  # why nothing new starts
        self.began_at = 0.0  # of the present time budget
        self.earlier_s = 0.0  # running time of runs before it
        self.now = self.was = 0.0  # the time of the newest event, and of the one before
        self.told: set[str] = set()  # trials of whose end the searcher knows: it may not hear of them again
        self.best_ever: Trial | None = None  # had the best value in any of its results

    # --- what schedulers may ask and do ---

    def pending(self) -> Iterator[Trial]:
        """Return the trials that may start, in order: not trials still stopping, or just failed."""
        waiting = self.waiting.values()
        return (each for each in waiting if each.trial_id not in self.halting and each.not_before <= self.now)

    def stop_trial(self, trial: Trial, reason: str = "") -> None:
        """End a trial other than the trial of the current result."""
        if trial.is_over:
            return
        self._explain(trial, STOP, reason)
        was_running = trial.state is TrialState.RUNNING
        self._end(trial, reason)
        if not was_running:
            self.scheduler.on_trial_remove(self, trial)

    def unpause(self, trial: Trial, reason: str = "") -> None:
        """Let a paused trial start again when there are resources."""
        if trial.state is TrialState.PAUSED:
            self._explain(trial, "UNPAUSE", reason)
            self._move(trial, TrialState.PENDING)

    def exploit(self, trial: Trial, source: Trial, config: dict[str, Any], reason: str = "") -> bool:
        """Let a trial go on from another one's newest checkpoint with a new configuration.

        Returns:
            False: the other one has no checkpoint, and nothing changes.
        """
        donor = source.saved
        if donor is None or trial.is_over:
            return False
        target = naming.checkpoint_folder(trial.path, trial.saves, source.trial_id)
        trial.saves += 1
        self.actions.append(ev.Copy(donor.path, target))
        total = _total_time(trial)  # its own, as its iteration is
        saved = SavedCheckpoint(target, trial.iteration, total, None, donor.metrics, donor.size, donor.digest)
        self._keep(trial, saved)
        trial.config = config
        self._explain(trial, "EXPLOIT", reason)
        if trial.state is TrialState.RUNNING:
            self._halt(trial, "exploit", save=False)
            self._move(trial, TrialState.PENDING)
        elif trial.state is TrialState.PAUSED:
            self._move(trial, TrialState.PENDING)
        return True

    # --- events ---

    def handle(self, event: ev.Event) -> None:
        """Take one event; the actions are appended to `self.actions`."""
        self.was, self.now = self.now, max(self.now, event.now)
        if not self.began_at:
            self.began_at = self.now
        self._HANDLERS[type(event)](self, event)
        if isinstance(event, ev.Sealed):
            return  # nothing is decided by it
        if self.budget_left(self.now) <= 0:
            self._end_all(f"the time budget of {self.settings.time_budget_s:g} s is over", cuts_off=True)
        elif self.stopper is not None and not self.is_ending and self.stopper.stop_all():
            self._end_all(f"{type(self.stopper).__name__} has stopped the experiment")
        self._fill()

    def budget_left(self, now: float) -> float:
        """Return the seconds to the end of the time budget; infinite without a budget, or after its end."""
        budget = self.settings.time_budget_s
        return self.began_at + budget - now if budget and not self.is_ending else float("inf")

    @property
    def is_done(self) -> bool:
        """Whether all trials have ended and no more come."""
        is_over = self.is_exhausted or bool(self.is_ending)
        return is_over and not (self.running or self.waiting or self.paused or self.halting)

    def _on_capacity(self, event: ev.Capacity) -> None:
        self.capacity = event.trials

    def _on_suggested(self, event: ev.Suggested) -> None:
        """Only the replay of a journal reads it, beforehand."""

    def _on_began(self, event: ev.Began) -> None:
        self.facts[event.trial_id] = event.facts

    def _on_report(self, event: ev.Report) -> None:
        trial = self.trials[event.trial_id]
        is_repeated = trial.trial_id in self.repeating
        if not is_repeated and (trial.trial_id not in self.running or trial.trial_id in self.halting):
            if event.checkpoint:
                self.actions.append(ev.Delete(event.checkpoint))
            return
        is_again = event.iteration <= trial.iteration
        if event.checkpoint:
            trial.saves += 1
            if not is_again or trial.saved is None or trial.saved.iteration < event.iteration:
                metrics = with_times(event)
                score = number_of(value_of(metrics, self.settings.score_key)) if self.settings.score_key else None
                times = event.iteration, event.time_total_s
                self._keep(trial, SavedCheckpoint(event.checkpoint, *times, score, metrics, event.size))
            elif all(saved.path != event.checkpoint for saved in trial.checkpoints):
                self.actions.append(ev.Delete(event.checkpoint))
        if is_again:  # recorded before the trial was restarted
            if not is_repeated or repeat(self, trial, event.iteration):
                self.actions.append(ev.Proceed(trial.trial_id))
            return
        if event.fails and not 0 <= self.settings.max_failures <= trial.num_failures:
            return  # the step is repeated
        result = filled_result(trial, event, self.settings.experiment_id, self.facts.get(trial.trial_id, {}))
        trial.iteration = event.iteration
        trial.take(result)
        backoff.progressed(trial)
        stop_reason, failure = criterion(self.stopper, trial.trial_id, result)
        if failure:
            self._fail_for_good(trial, failure)
            return
        is_first = event.iteration == trial.first_iteration
        if is_first and self.settings.is_strict_metric and (missing := self._missing_metric(result)):
            self._fail_for_good(trial, missing)
            return
        self.note_best(trial, result)
        if trial.trial_id not in self.told:
            self.searcher.on_trial_result(trial.trial_id, result_for(self.searcher, result))
        if stop_reason and not event.fails:
            result["done"] = True
            self.actions.append(ev.Logged(trial.trial_id, result))
            self._explain(trial, STOP, stop_reason)
            self._complete(trial, halts=True)
            return
        self.actions.append(ev.Logged(trial.trial_id, result))
        if event.fails:
            return  # the failure follows
        decided = self.scheduler.on_trial_result(self, trial, result_for(self.scheduler, result))
        decision = decided if isinstance(decided, Decision) else Decision(decided)
        if trial.state is not TrialState.RUNNING:  # the scheduler has acted on it already
            return
        if decision.reason or decision.action in (STOP, PAUSE):
            self._explain(trial, decision.action, decision.reason)
        if decision.action == STOP:
            result["done"] = True
            self._complete(trial, halts=True, notifies_scheduler=False)
        elif decision.action == PAUSE:
            self._halt(trial, "pause", save=not trial.has_newest)
            self._move(trial, TrialState.PAUSED)
        elif decision.action != NOOP:
            self.actions.append(ev.Proceed(trial.trial_id, decision.save))

    def _on_saved(self, event: ev.Saved) -> None:
        trial = self.trials[event.trial_id]
        if trial.is_over:
            self.actions.append(ev.Delete(event.checkpoint))
            return
        self._take_checkpoint(trial, event)

    def _on_sealed(self, event: ev.Sealed) -> None:
        for saved in self.trials[event.trial_id].checkpoints:
            if saved.path == event.checkpoint:
                saved.digest = event.digest

    def _on_halted(self, event: ev.Halted) -> None:
        trial = self.trials[event.trial_id]
        self._has_halted(trial)
        if event.reason:
            trial.reason = event.reason
        if event.checkpoint:
            self._take_checkpoint(trial, event)

    def _take_checkpoint(self, trial: Trial, event: ev.Saved | ev.Halted) -> None:
        trial.saves += 1
        score = number_of(value_of(trial.last_result, self.settings.score_key)) if self.settings.score_key else None
        saved = SavedCheckpoint(
            event.checkpoint, event.iteration, _total_time(trial), score, trial.last_result, event.size
        )
        self._keep(trial, saved)
        self.scheduler.on_trial_saved(self, trial)

    def _on_finished(self, event: ev.Finished) -> None:
        trial = self.trials[event.trial_id]
        self._has_halted(trial)
        if trial.state is not TrialState.RUNNING:
            return
        trial.reason = ""  # no decision has ended it
        self._complete(trial, halts=False)
        if not trial.last_result:  # it has reported nothing
            trial.last_result = {"done": True, "trial_id": trial.trial_id, "experiment_tag": trial.experiment_tag}

    def _on_failed(self, event: ev.Failed) -> None:
        trial = self.trials[event.trial_id]
        was_halting = self._has_halted(trial)
        if trial.is_over or (was_halting and trial.state is not TrialState.RUNNING):
            return  # the process died while it was stopping: the decision stands
        trial.num_failures += 1
        limit = self.settings.max_failures
        if not event.is_final and not self.is_ending and (limit < 0 or trial.num_failures <= limit):
            trial.error, trial.error_pickle = event.error, event.pickle
            kept = trial.saved
            start = f"its checkpoint of iteration {kept.iteration}" if kept is not None else "the beginning"
            later = f" in {seconds:g} s" if (seconds := backoff.failed(trial, self.now)) else ""
            self._explain(trial, "RESTART", f"failure {trial.num_failures}: it starts again from {start}{later}")
            self._move(trial, TrialState.PENDING)
            self.waiting = {trial.trial_id: trial, **self.waiting}
        else:
            self._fail_for_good(trial, event.error, event.pickle)

    def _on_timed_out(self, event: ev.TimedOut) -> None:
        if event.reason:
            self._end_all(event.reason, cuts_off=True)

    _HANDLERS: dict[type, Callable[[Controller, Any], None]] = {
        ev.Capacity: _on_capacity,
        ev.Suggested: _on_suggested,
        ev.Began: _on_began,
        ev.Report: _on_report,
        ev.Saved: _on_saved,
        ev.Sealed: _on_sealed,
        ev.Halted: _on_halted,
        ev.Finished: _on_finished,
        ev.Failed: _on_failed,
        ev.TimedOut: _on_timed_out,
        ev.Resumed: resume,
    }

    # --- results ---

    def _missing_metric(self, result: dict[str, Any]) -> str:
        users = ("TuneConfig", self.settings), ("the scheduler", self.scheduler), ("the searcher", self.searcher)
        return missing_metric(result, {name: getattr(user, "metric", None) for name, user in users})

    # --- checkpoints ---

    def _keep(self, trial: Trial, saved: SavedCheckpoint) -> None:
        """Add a checkpoint, and drop surplus ones: the newest and the best stay."""
        trial.checkpoints = [each for each in trial.checkpoints if each.path != saved.path]
        trial.checkpoints.append(saved)
        self.actions.append(ev.Kept(trial.trial_id, saved.path))
        for dropped in superfluous(trial, self.settings):
            trial.checkpoints.remove(dropped)
            self.actions.append(ev.Delete(dropped.path))

    # --- transitions ---

    def _move(self, trial: Trial, state: TrialState) -> None:
        self._place(trial).pop(trial.trial_id, None)
        trial.move(state)
        if not trial.is_over:
            self._place(trial)[trial.trial_id] = trial

    def _place(self, trial: Trial) -> dict[str, Trial]:
        if trial.state is TrialState.RUNNING:
            return self.running
        return self.waiting if trial.state is TrialState.PENDING else self.paused

    def _halt(self, trial: Trial, why: str, *, save: bool) -> None:
        self.halting[trial.trial_id] = why
        self.actions.append(ev.Halt(trial.trial_id, save))

    def _has_halted(self, trial: Trial) -> str:
        """The trial's process has stopped; why it was to stop, or empty."""
        self.repeating.discard(trial.trial_id)
        return self.halting.pop(trial.trial_id, "")

    def _complete(self, trial: Trial, *, halts: bool, notifies_scheduler: bool = True) -> None:
        """A running trial has ended in order."""
        if halts:
            self._halt(trial, "stop", save=self.settings.checkpoint_at_end and not trial.has_newest)
        self._terminate(trial)
        if notifies_scheduler:
            self.scheduler.on_trial_complete(self, trial, result_for(self.scheduler, trial.last_result))
        self._tell_searcher(trial, is_error=False)
        if self.stopper is not None:
            self.stopper.on_trial_complete(trial.trial_id, result_for(self.stopper, trial.last_result))

    def _tell_searcher(self, trial: Trial, *, is_error: bool) -> None:
        """A trial has ended; it may run again later, after a restore, and is over for the searcher all the same."""
        if trial.trial_id not in self.told:
            self.told.add(trial.trial_id)
            last = result_for(self.searcher, trial.latest_result) or None
            self.searcher.on_trial_complete(trial.trial_id, result=last, error=is_error)

    def _terminate(self, trial: Trial) -> None:
        self._move(trial, TrialState.TERMINATED)
        trial.ended_at = self.now
        if trial.last_result:
            trial.last_result["done"] = True
        trial.error, trial.error_pickle = "", b""
        self.actions.append(ev.Ended(trial.trial_id))

    def _end(self, trial: Trial, reason: str) -> None:
        """End a trial in any state, without a result of its own."""
        if trial.state is TrialState.RUNNING:
            self._complete(trial, halts=True, notifies_scheduler=False)
        else:
            if trial.trial_id in self.repeating:
                self.repeating.discard(trial.trial_id)
                self._halt(trial, "stop", save=False)
            self._terminate(trial)
            self._tell_searcher(trial, is_error=False)
        trial.reason = reason or trial.reason

    def _fail_for_good(self, trial: Trial, error: str, error_pickle: bytes = b"") -> None:
        was_running = trial.state is TrialState.RUNNING
        if was_running and (self.is_ending or not error_pickle):  # else its process has ended
            self._halt(trial, "error", save=False)
        self._move(trial, TrialState.ERROR)
        if trial.last_result:  # a copy: the result is recorded as it was
            trial.last_result = {**trial.last_result, "done": True}
        trial.error, trial.error_pickle, trial.ended_at = error, error_pickle, self.now
        self._explain(trial, "ERROR", headline(error))
        self.actions.append(ev.Ended(trial.trial_id))
        self.scheduler.on_trial_error(self, trial)
        self._tell_searcher(trial, is_error=True)
        if self.settings.fail_fast and not self.is_ending:
            self._end_all(f"trial {trial} failed, and fail_fast is set", cuts_off=True)

    def _end_all(self, reason: str, *, cuts_off: bool = False) -> None:
        """End all trials.  cuts_off: they go on when the experiment is restored."""
        self.is_ending = reason
        for trial_id in [each for each in self.repeating if self.trials[each].is_over]:
            self.repeating.discard(trial_id)
            self._halt(self.trials[trial_id], "stop", save=False)
        for trial in [*self.running.values(), *self.waiting.values(), *self.paused.values()]:
            if backoff.has_failed_last(trial):
                self._fail_for_good(trial, trial.error, trial.error_pickle)
                continue
            self._explain(trial, STOP, reason)
            self._end(trial, reason)
            trial.is_cut_off = cuts_off

    def _explain(self, trial: Trial, action: str, reason: str) -> None:
        """Record a decision; a scheduler that gives no reason is named."""
        if not reason and action in UNEXPLAINED:
            reason = f"{type(self.scheduler).__name__} {UNEXPLAINED[action]}"
        trial.reason = reason
        self.actions.append(ev.Explained(trial.trial_id, trial.iteration, action, reason))

    # --- starts ---

    def _fill(self) -> None:
        """Start trials while there is capacity."""
        while not self.is_ending and len(self.running) + len(self.halting) < self._limit():
            trial = self.chosen_trial() or self._new_trial()
            if trial is None and (self.paused or self.waiting):
                self.has_no_new = True
                trial = self.chosen_trial()
                self.has_no_new = False
            if trial is None:
                break
            self._move(trial, TrialState.RUNNING)
            self._start_process(trial)
        if self._is_idle():
            self.scheduler.on_idle(self)
            if self.waiting:
                self._fill()
            elif self.is_exhausted:
                for trial in list(self.paused.values()):
                    self.stop_trial(trial, "no trial runs any more, and the scheduler has no use for it")

    def _is_idle(self) -> bool:
        """Whether all live trials are paused, and no other could begin: a searcher may be waiting for their results."""
        return bool(self.paused) and not (self.running or self.waiting or self.halting) and self._limit() > 0

    def _limit(self) -> int:
        return min(self.capacity, self.settings.max_concurrent or self.capacity)

    def _start_process(self, trial: Trial) -> None:
        trial.starts += 1
        trial.started_at = trial.started_at or self.now
        kept = trial.saved
        trial.started_iteration = kept.iteration if kept is not None else 0
        trial.started_time_s = kept.time_total_s if kept is not None else 0.0
        self.actions.append(ev.Start(trial.trial_id))

    def _new_trial(self) -> Trial | None:
        """A trial of the searcher; None: none now."""
        count = len(self.trials)
        if self.is_exhausted or (0 <= self.settings.num_samples <= count):
            self.is_exhausted = True
            return None
        if not self.scheduler.takes_new(self):
            return None
        trial_id = naming.trial_id(self.settings.experiment_id, count)
        suggestion = suggested(self.searcher, trial_id)
        if suggestion is None:
            return None
        if isinstance(suggestion, str):
            self.is_exhausted = True
            return None
        trial = made_trial(self, trial_id, suggestion)
        self.folders.add(trial.path)
        self.trials[trial_id] = trial
        self.waiting[trial_id] = trial
        self.actions.append(ev.Added(trial_id))
        self.scheduler.on_trial_add(self, trial)
        return trial


def _total_time(trial: Trial) -> float:
    """Return the seconds of training up to the last result."""
    return float(trial.last_result.get("time_total_s", 0.0))
