"""The loop of an experiment: carries out the controller's actions by actors and files, and reports events."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from typing import Any, NamedTuple

import zray
from zray.exceptions import ActorUnschedulableError, GetTimeoutError, TaskError, ZrayError

from . import clock, output, storage
from . import events as ev
from .beginning import ExperimentWarning
from .callback import CallbackList
from .capacity import addresses, capacity_event, request_of
from .child_waits import REMEDY, is_of_task, waits_of_children
from .controller import Controller
from .durability import size_of
from .errors import CheckpointError, TuneError, warn_program
from .interrupts import Interrupts
from .journal import Journal
from .parameters import placed
from .processes import IdleProcesses, Process
from .recorder import Recorder
from .registry import names_for_processes
from .resources import PlacementGroupFactory, varies_by_config
from .result import SHOULD_CHECKPOINT
from .trial import Trial
from .trial_results import overwritten_keys
from .waits import reason_of
from .worker import actor_class_of, is_class

__all__ = ["Runner"]

# The loop looks at the clock, and at nodes that have come or gone, at least so often.
TURN_SECONDS = 1.0
NODES_SECONDS = 2.0
# A trial whose process has not begun after this time is asked about: what it waits for is shown and recorded.
WAIT_SECONDS = 2.0
ASK_SECONDS = 0.05
# A trial without a result for this time is asked about: its own tasks may wait for what trials hold.
CHILD_SECONDS = 10.0
# A process that does not stop is killed after this time: at the end of an experiment, and while it goes on.
END_SECONDS = 10.0
HALT_SECONDS = float(os.environ.get("TUNE_FORCE_TRIAL_CLEANUP_S") or 600)


class Call(NamedTuple):
    """A call that has not come back."""

    trial_id: str
    method: str
    at: float = 0.0  # of the monotonic clock


class Runner:
    """Runs one experiment.

    Args:
        controller: what decides.
        journal: what is written before it acts.
        trainable: the function or class.
        resources: of each trial, as the user gave them.
        reuses: whether processes go on with other trials.
        frequency: class trainables save after so many steps.
        callbacks: called with what happens.
        reporter: shows the state; None: nothing is shown.
        outputs: names of the files for standard output and error of a trial; None: there are none.
        changes_folder: whether the working directory of a trial is its folder; None: RAY_CHDIR_TO_TRIAL_DIR says it.
    """

    def __init__(
        self,
        controller: Controller,
        journal: Journal,
        trainable: Any,
        *,
        name: str,
        identity: str,
        resources: Any = None,
        reuses: bool = False,
        frequency: int = 0,
        callbacks: list[Any] | None = None,
        reporter: Any = None,
        outputs: tuple[str, str] | None = None,
        changes_folder: bool | None = None,
    ) -> None:
        self.controller, self.journal, self.trainable = controller, journal, trainable
        self.name, self.identity, self.resources, self.reuses = name, identity, resources, reuses
        self.frequency, self.reporter = frequency, reporter
        self._outputs = outputs
        if changes_folder is None:
            changes_folder = os.environ.get("RAY_CHDIR_TO_TRIAL_DIR", "1") not in ("0", "")
        self._changes_folder = changes_folder
        self.callbacks = CallbackList(list(callbacks or ()))
        self.path = controller.settings.path
        self._trainable_ref: Any = None
        self._names_ref: Any = None
        self._processes: dict[str, Process] = {}  # trial -> its actor
        self._idle = IdleProcesses()
        self._calls: dict[Any, Call] = {}
        self._proceeding: dict[str, bool] = {}  # trial -> whether it saves first; the calls of this turn
        self._halted_at: dict[str, float] = {}  # trial -> when its process was told to stop
        self._late: list[Any] = []  # events that an action has found
        self.interrupts = Interrupts()
        self._looked_at = self._asked_at = 0.0
        self._begun: dict[str, str] = {}  # trial -> the id of the call with which its process began with it
        self._heard_at: dict[str, float] = {}  # trial -> when its process began or had a result
        self._has_warned = False  # of keys of results that are filled in
        self._has_warned_of_tasks = False
        self._classes: dict[str, Any] = {}  # the actor's class with the options of a bundle
        self._addresses: dict[str, str] = {}  # host name -> address, where it is the only one
        self.records = Recorder(controller, self.callbacks, self.path, journal)
        self._handlers: dict[type, Any] = {
            ev.Start: self._start,
            ev.Proceed: self._proceed,
            ev.Halt: self._halt,
            **self.records.handlers(),
        }
        self._actor_class = zray.remote(actor_class_of(trainable))

    # --- the loop ---

    def run(self, first: list[Any], **info: Any) -> None:
        """Run the experiment to its end.

        Args:
            first: events that come first: `Resumed`, where it goes on.
            info: for the callbacks' `setup`.

        Raises:
            TuneError: no node can hold a trial.
            StorageError: the experiment's folder cannot be written.
        """
        with storage.writing(self.path, is_begun=True):
            try:
                self._trainable_ref = zray.put(placed(self.trainable))
                names = names_for_processes()
                self._names_ref = [zray.put(names)] if names is not None else None  # a list: read when needed
                self.callbacks.begin(self.path, bool(first), **info)
                self.apply([*first, self._capacity_event(raises_at_none=True)])
                if self.controller.trials and varies_by_config(self.trainable, self.resources):
                    # How many trials fit is known when there is the configuration of one.
                    self.apply([self._capacity_event()])
                with self.interrupts:
                    while not self.controller.is_done and not self.interrupts.is_set:
                        self._turn()
            finally:
                problem = self.close()
            if problem is not None:
                raise problem

    def _turn(self) -> None:
        self.records.iteration += 1
        self.records.notify_step("on_step_begin")
        found: list[Any] = []
        if self._calls:
            timeout = max(min(TURN_SECONDS, self.controller.budget_left(clock.now())), 0.0)
            ready, _ = zray.wait(list(self._calls), num_returns=1, timeout=timeout)
            if ready and len(self._calls) > 1:
                ready, _ = zray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
            for ref in ready:
                found += self._take(ref, self._calls.pop(ref))
        else:
            time.sleep(0.01)  # the searcher has nothing now
        now = clock.now()
        if self.controller.budget_left(now) <= 0:
            found.append(ev.TimedOut(now))  # the controller decides
        if now - self._looked_at >= NODES_SECONDS:
            self.callbacks.save(self.path)
            self._ask_why()
            self._ask_about_tasks()
            if self._has_late_process():
                self._idle.end()  # it may wait for their resources
            event = self._capacity_event()
            if event.trials != self.controller.capacity:
                found.append(event)
            elif not found:
                self.apply([event], is_clock=True)
            found += self._overdue(now)
        self.apply(found + self.records.sealed(now))
        if self.reporter is not None:
            self.reporter.update(self.controller, is_final=False)
        self.records.notify_step("on_step_end")

    def apply(self, found: list[Any], *, is_clock: bool = False) -> None:
        """Hand events to the controller, record them, and carry out the resulting actions.

        is_clock: the event brings the time alone, and is recorded only if something follows from it.
        """
        controller = self.controller
        for event in found:
            controller.handle(event)
        suggested, controller.events = controller.events, []
        if is_clock and not controller.actions:
            found = []
        if suggested or found:
            self.journal.append([*suggested, *found])
        while controller.actions:
            actions, controller.actions = controller.actions, []
            for action in actions:
                self._handlers[type(action)](action)
            self.records.notify_kept()
        proceeding, self._proceeding = self._proceeding, {}
        for trial_id, saves in proceeding.items():
            process = self._processes.get(trial_id)
            if process is not None:
                self._call(process.handle.next.remote(saves), trial_id, "next")
        self.records.flush()
        if self._late:
            late, self._late = self._late, []
            self.apply(late)

    def _capacity_event(self, *, raises_at_none: bool = False) -> ev.Capacity:
        self._looked_at = clock.now()
        for is_last in (not raises_at_none, False, False, True):  # the first capacity is asked for again
            try:
                self._addresses = addresses()
                return capacity_event(self.controller, self.trainable, self.resources, raises_at_none=raises_at_none)
            except GetTimeoutError:
                # The node stands still, as a machine that swaps or is paused: what was known of it counts meanwhile.
                if is_last:
                    break
        return ev.Capacity(clock.now(), self.controller.capacity)

    def _overdue(self, now: float) -> list[Any]:
        """End processes that do not stop: a step of a class may never come back."""
        limit = END_SECONDS if self.controller.is_ending else HALT_SECONDS
        late = [trial_id for trial_id, since in self._halted_at.items() if now - since > limit]
        for trial_id in late:
            self._halted_at.pop(trial_id)
            self._calls = {ref: call for ref, call in self._calls.items() if call.trial_id != trial_id}
            self._drop(trial_id)
        return [ev.Halted(now, trial_id, 0) for trial_id in late]

    def _call(self, ref: Any, trial_id: str, method: str) -> None:
        self._calls[ref] = Call(trial_id, method, time.monotonic())

    def _has_late_process(self) -> bool:
        """Whether a process has not begun for long, for whatever reason."""
        late = time.monotonic() - WAIT_SECONDS
        return any(call.method == "begin" and call.at < late for call in self._calls.values())

    def _ask_why(self) -> None:
        """Ask zray about the first process that has not begun for long, until the reason is known."""
        waits, late = self.controller.waits, time.monotonic() - WAIT_SECONDS
        for ref, call in self._calls.items():
            if call.method == "begin" and call.at < late and not waits.get(call.trial_id):
                try:
                    zray.get(ref, timeout=ASK_SECONDS)
                except GetTimeoutError as error:
                    waits[call.trial_id] = reason = reason_of(str(error))
                    if reason:
                        self.records.explained(ev.Explained(call.trial_id, 0, "WAIT", reason))
                    if is_of_task(reason):  # of the first step of a class
                        self._warn_of_tasks(f"{self.controller.trials[call.trial_id]} waits: {reason}")
                except Exception:
                    pass  # the loop takes the answer
                return

    def _ask_about_tasks(self) -> None:
        """Ask zray whether own tasks of trials without a result for long wait for what trials hold."""
        waits, late = self.controller.waits, time.monotonic() - CHILD_SECONDS
        running = self.controller.running.keys() - self.controller.halting.keys()
        stuck = {trial_id for trial_id in running if self._heard_at.get(trial_id, late) < late}
        if not stuck or self._asked_at > late:
            return
        self._asked_at = time.monotonic()
        calls = {self._begun.get(trial_id, ""): trial_id for trial_id in stuck}
        calls.update((ref.task_id().hex(), call.trial_id) for ref, call in self._calls.items())
        found = waits_of_children(calls)
        for trial_id in stuck - found.keys():
            waits.pop(trial_id, None)
        for trial_id in found.keys() - waits.keys():
            trial = self.controller.trials[trial_id]
            self.records.explained(ev.Explained(trial_id, trial.iteration, "WAIT", found[trial_id]))
            self._warn_of_tasks(f"{trial} waits, since {found[trial_id]}")
        waits.update(found)

    def _warn_of_tasks(self, words: str) -> None:
        """Warn once that trials hold what their own tasks need."""
        if not self._has_warned_of_tasks:
            self._has_warned_of_tasks = True
            warn_program(f"{words}.  {REMEDY}", ExperimentWarning)

    # --- answers ---

    def _take(self, ref: Any, call: Call) -> list[Any]:
        """The events that an answer stands for."""
        now, trial_id = clock.now(), call.trial_id
        if call.method == "begin":
            self.controller.waits.pop(trial_id, None)
        if call.method == "halt":
            self._halted_at.pop(trial_id, None)
        try:
            answer = zray.get(ref)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self._drop(trial_id)
            if call.method == "halt":
                return [ev.Halted(now, trial_id, 0)]
            text = str(error) if not isinstance(error, TaskError) else traceback.format_exc()
            return [ev.Failed(now, trial_id, text, is_final=isinstance(error, ActorUnschedulableError))]
        if answer.get("output"):
            output.append(self.controller.trials[trial_id].path, answer["output"])
        if call.method == "halt":
            return self._take_halted(trial_id, answer, now)
        if answer.get("needs_checkpoint"):
            self._begin(self.controller.trials[trial_id], packs=True)
            return []
        return self._events_of(trial_id, answer, now)

    def _events_of(self, trial_id: str, answer: dict[str, Any], now: float) -> list[Any]:
        found: list[Any] = []
        if "facts" in answer or answer["results"] or answer["is_over"]:
            self._heard_at[trial_id] = time.monotonic()
            self.controller.waits.pop(trial_id, None)
        if "facts" in answer:
            facts = answer["facts"]
            facts.setdefault("node_ip", self._addresses.get(facts["hostname"], ""))
            found.append(ev.Began(now, trial_id, facts))
        if (overwritten := answer.get("overwritten")) and not self._has_warned:
            self._has_warned = True
            warn_program(overwritten_keys(overwritten))
        try:
            if "saved" in answer:
                iteration, path, packed = answer["saved"]
                found.append(ev.Saved(now, trial_id, iteration, path, self._received(path, packed)))
            for iteration, metrics, elapsed, total, path, packed in answer["results"]:
                size = self._received(path, packed)
                fails = answer.get("fails", False)
                found.append(ev.Report(now, trial_id, iteration, metrics, elapsed, total, path, size, fails))
        except CheckpointError as error:
            self._drop(trial_id)
            return [*found, ev.Failed(now, trial_id, str(error))]
        if answer["is_over"]:
            if "error" in answer:
                found.append(ev.Failed(now, trial_id, answer["error"], answer["pickle"]))
            else:
                found.append(ev.Finished(now, trial_id))
            if not any(other.trial_id == trial_id for other in self._calls.values()):
                self._release(trial_id, is_usable="error" not in answer)
        elif not answer["results"]:
            self._proceeding[trial_id] = False
        return found

    def _take_halted(self, trial_id: str, answer: dict[str, Any], now: float) -> list[Any]:
        path, packed = answer["checkpoint"] or ("", None)
        self._release(trial_id, is_usable=answer["is_stopped"] and "error" not in answer)
        try:
            size = self._received(path, packed)
        except CheckpointError as error:
            return [ev.Halted(now, trial_id, 0, reason=str(error))]
        if "error" in answer:
            return [ev.Halted(now, trial_id, 0, reason=f"its checkpoint could not be saved: {answer['error']}")]
        return [ev.Halted(now, trial_id, answer["iteration"], path, size)]

    def _received(self, path: str, packed: Any) -> int:
        """Write the files of a checkpoint that has arrived as bytes.  Returns the size; -1 without a checkpoint.

        Raises:
            CheckpointError: it cannot be written, which ends the trial and not the experiment.
        """
        if path and packed is not None:
            storage.receive(bytes(packed), path)
        return size_of(path) if path else -1

    # --- processes ---

    def _start(self, action: ev.Start) -> None:
        trial = self.controller.trials[action.trial_id]
        try:
            request = request_of(trial, self.trainable, self.resources)
            process = self._idle.take(request) or self._new_process(request)
        except (TuneError, ZrayError) as error:
            self._late.append(ev.Failed(clock.now(), trial.trial_id, str(error), is_final=True))
            return
        self._processes[trial.trial_id] = process
        self._proceeding.pop(trial.trial_id, None)  # it was for the process before, which has ended since
        if trial.starts > 1:
            self.records.write_parameters(trial)
        self._begin(trial)
        self.records.notify("on_trial_start", trial)
        if trial.has_checkpoint():
            self.records.notify("on_trial_restore", trial)

    def _new_process(self, request: PlacementGroupFactory) -> Process:
        return Process(self._actor_class, request, self._classes, has_object=is_class(self.trainable))

    def _begin(self, trial: Trial, *, packs: bool = False) -> None:
        kept = trial.saved
        process = self._processes[trial.trial_id]
        assignment = {
            "config": trial.config,
            "facts": {
                "experiment_name": self.name,
                "trial_id": trial.trial_id,
                "trial_name": trial.name,
                "trial_dir": trial.path,
                "trial_resources": process.request,
            },
            "experiment_dir": self.path,
            "identity": self.identity,
            "checkpoint": kept.path if kept is not None else "",
            "packed": storage.pack(kept.path) if packs and kept is not None else None,
            "iteration": trial.started_iteration,
            "time_total_s": trial.started_time_s,
            "saves": trial.saves,
            "frequency": self.frequency,
            "reuses": self.reuses,
            "outputs": self._outputs,
            "changes_folder": self._changes_folder,
            "program": (os.uname().nodename, os.getpid()),
            "restore_retries": int(os.environ.get("TUNE_RESTORE_RETRY_NUM") or 0),
            "asks_address": not self._addresses,
        }
        ref = process.handle.begin.remote(assignment, self._trainable_ref, self._names_ref)
        self._begun[trial.trial_id] = ref.task_id().hex()
        self._heard_at.pop(trial.trial_id, None)
        self._call(ref, trial.trial_id, "begin")

    def _proceed(self, action: ev.Proceed) -> None:
        asks = self.controller.trials[action.trial_id].last_result.get(SHOULD_CHECKPOINT)  # the class, or a callback
        self._proceeding[action.trial_id] = self._proceeding.get(action.trial_id, False) or action.save or bool(asks)

    def _halt(self, action: ev.Halt) -> None:
        self._proceeding.pop(action.trial_id, None)
        process = self._processes.get(action.trial_id)
        if process is None:  # its last answer said that it is over, or its process has died
            self._late.append(ev.Halted(clock.now(), action.trial_id, 0))
            return
        self._halted_at[action.trial_id] = clock.now()
        self._call(process.handle.halt.remote(action.save), action.trial_id, "halt")

    def _release(self, trial_id: str, *, is_usable: bool) -> None:
        """The trial's process has nothing to do any more."""
        process = self._processes.pop(trial_id, None)
        if process is None:
            return
        beginning = [each.trial_id for each in self._calls.values() if each.method == "begin"]
        waiting = [self._processes[each].request for each in beginning if each in self._processes]
        if not is_usable or not self.reuses or not self._idle.keep(process, waiting):
            process.end(kills=not is_usable)

    def _drop(self, trial_id: str) -> None:
        process = self._processes.pop(trial_id, None)
        if process is not None:
            process.end(kills=True)

    # --- end ---

    def close(self) -> Exception | None:
        """End all processes, and close the files.

        Returns:
            The error of a file that could not be written to its end, or of a callback.
        """
        for process in self._processes.values():
            with contextlib.suppress(Exception):
                process.end(kills=True)
        self._processes.clear()
        self._idle.end()
        failed: Exception | None = None
        try:
            self.callbacks.save(self.path)
        except TuneError as error:
            failed = error
        except OSError:
            pass
        problem = self.records.close() or failed
        try:
            for event in (sealed := self.records.sealed(self.controller.now)):
                self.controller.handle(event)
            self.journal.append(sealed)
        except OSError as error:
            problem = problem or error
        try:
            self.journal.close()
        except OSError as error:
            problem = problem or error
        if self.reporter is not None:
            self.reporter.update(self.controller, is_final=True)
        return problem or self.callbacks.end(self.controller.get_trials())
