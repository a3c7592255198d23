"""A dry run: the recorded curves of an experiment, decided about by another scheduler, budget or machine.

Configurations, results and times are those that were recorded; the controller and the scheduler are those of a real
experiment.  The time is virtual: hours of training take milliseconds.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import events as ev
from . import naming
from .controller import Controller
from .errors import TuneError
from .journal import read_journal
from .objective import Objective
from .output import printed_aside
from .recorded import Recorded, best_value
from .resources import capacity, resources_of
from .running_experiment import JOURNAL, RunningExperiment
from .schedulers import FIFOScheduler, create_scheduler
from .search.searcher import Searcher
from .settings import Settings
from .simulation import Point, VirtualRun
from .stoppers import stopper_of
from .trial import Trial, TrialState
from .worker import is_class

__all__ = ["DryRun", "Facts", "facts_of", "recorded_best", "simulate"]


class Facts(NamedTuple):
    """The recorded run.

    curves: of each trial.  is_whole: whether a trial came to an end of its own.  errors: of trials that failed for
    good.  starts: of each trial, the times of its processes that were not training, in their order.  start_seconds:
    their mean.  trials_at_once: of the machine.
    """

    curves: list[list[Point]]
    is_whole: list[bool]
    errors: list[str]
    starts: list[list[float]]
    start_seconds: float
    trials_at_once: int
    seconds: float
    can_save: bool

    @property
    def training_seconds(self) -> float:
        """The sum of the times of all results."""
        return sum(point.seconds for curve in self.curves for point in curve)


class DryRun(NamedTuple):
    """The outcome of a simulated experiment.

    beyond: trials that would have gone on where their recorded curve was cut short.  best: the best last value of the
    metric, and best_ever of all results; None: no trial had the metric.
    """

    trials: int
    results: int
    seconds: float
    training_seconds: float
    trials_at_once: int
    best: float | None
    best_trial: str
    decisions: list[ev.Explained]
    beyond: list[str]
    scheduler: str
    best_ever: float | None = None

    def counts(self) -> dict[str, int]:
        """The number of decisions of each kind."""
        return dict(Counter(decision.action for decision in self.decisions))


class _RecordedSearcher(Searcher):
    """Suggests the recorded configurations, in their order."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        super().__init__()
        self.trials = trials
        self.count = 0
        self.chosen: dict[str, Any] = {}

    def suggest(self, trial_id: str) -> dict[str, Any]:
        trial = self.trials[self.count]
        self.count += 1
        self.chosen = trial.chosen
        return copy.deepcopy(trial.config)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        pass


class _RecordedRun(VirtualRun):
    """A virtual run that notes trials beyond the record."""

    def __init__(self, controller: Controller, facts: Facts, trials_at_once: int) -> None:
        super().__init__(
            controller,
            lambda trial: facts.curves[trial.index],
            trials_at_once,
            facts.start_seconds,
            can_save=facts.can_save,
        )
        self.facts = facts
        self.beyond: dict[str, None] = {}
        self.training_seconds = 0.0

    def _act(self, action: Any) -> None:
        if isinstance(action, ev.Start):
            trial = self.controller.trials[action.trial_id]
            starts = self.facts.starts[trial.index]
            is_known = trial.starts <= len(starts)
            self.start_seconds = starts[trial.starts - 1] if is_known else self.facts.start_seconds
        super()._act(action)

    def _step(self, trial_id: str, delay: float) -> None:
        place, curve, facts = self._place[trial_id], self._curves[trial_id], self.facts
        index = self.controller.trials[trial_id].index
        if place < len(curve):
            self.training_seconds += curve[place].seconds
        elif facts.errors[index]:
            self._push(delay, ev.Failed(self.now + delay, trial_id, facts.errors[index], b"-", is_final=True))
            return
        elif not facts.is_whole[index]:
            self.beyond[trial_id] = None
        super()._step(trial_id, delay)


@printed_aside()
def facts_of(recorded: Recorded) -> Facts:
    """The curves of an experiment, and how much time its machine took beside training."""
    if recorded.experiment is None:
        return _facts_of_files(recorded)
    experiment = RunningExperiment.load(recorded.path, replays=False)
    events, _, _ = read_journal(f"{recorded.path}/{JOURNAL}")
    controller = experiment.controller
    controller.replayed = {event.trial_id: event for event in events if isinstance(event, ev.Suggested)}
    curves: dict[str, list[Point]] = {}
    whole: set[str] = set()
    started: dict[str, float] = {}
    trained: Counter[str] = Counter()
    starts: dict[str, list[float]] = {}
    pause, last_at = 0.0, events[0].now if events else 0.0
    trials_at_once, can_save = 0, is_class(experiment.trainable)
    for event in events:
        key = getattr(event, "trial_id", "")
        before = controller.trials[key].iteration if key in controller.trials else 0
        was_running = key in controller.running
        if isinstance(event, ev.Resumed):  # the processes of the former run are gone
            started.clear()
            pause += event.now - last_at
        last_at = event.now
        controller.handle(event)
        for action in controller.actions:
            if isinstance(action, ev.Start):
                started[action.trial_id] = event.now
                trained[action.trial_id] = 0
        controller.actions.clear()
        if isinstance(event, ev.Capacity):
            trials_at_once = max(trials_at_once, event.trials)
        elif isinstance(event, ev.Report):
            trained[key] += event.time_this_iter_s  # type: ignore[assignment]
            if controller.trials[key].iteration > before:
                has_checkpoint = bool(event.checkpoint)
                curves.setdefault(key, []).append(Point(event.metrics, event.time_this_iter_s, has_checkpoint))
        elif isinstance(event, (ev.Halted, ev.Finished, ev.Failed)):
            if isinstance(event, ev.Finished) and was_running:
                whole.add(key)
            can_save = can_save or bool(getattr(event, "checkpoint", ""))
            if key in started:
                starts.setdefault(key, []).append(max(0.0, event.now - started.pop(key) - trained[key]))
    lengths = {len(curves.get(key, ())) for key in whole}
    ids = list(controller.trials)
    overheads = [each for own in starts.values() for each in own]
    return Facts(
        [curves.get(key, []) for key in ids],
        [key in whole or len(curves.get(key, ())) in lengths for key in ids],
        [trial.error if trial.state is TrialState.ERROR else "" for trial in controller.trials.values()],
        [starts.get(key, []) for key in ids],
        sum(overheads) / len(overheads) if overheads else 0.0,
        min(trials_at_once, experiment.settings.max_concurrent or trials_at_once),
        events[-1].now - events[0].now - pause if events else 0.0,
        can_save,
    )


def _facts_of_files(recorded: Recorded) -> Facts:
    curves, begins, ends = [], [], []
    kept = ("timesteps_total", "episodes_total", "timesteps_this_iter", "episodes_this_iter")
    for trial in recorded.trials:
        results = recorded.results(trial)
        curves.append(
            [
                Point(
                    {name: value for name, value in each.items() if name not in naming.AUTO_KEYS or name in kept},
                    float(each.get("time_this_iter_s", 0.0)),
                )
                for each in results
            ]
        )
        stamps = [each["timestamp"] for each in results if "timestamp" in each]
        if stamps:
            begins.append(stamps[0] - results[0].get("time_this_iter_s", 0.0))
            ends.append(stamps[-1])
    longest = max(map(len, curves), default=0)
    seconds = max(ends) - min(begins) if begins else 0.0
    errors = [trial.error for trial in recorded.trials]
    return Facts(
        curves, [len(curve) == longest for curve in curves], errors, [[] for _ in curves], 0.0, 0, seconds, True
    )


@printed_aside()
def simulate(
    recorded: Recorded,
    *,
    scheduler: str | None = None,
    options: dict[str, Any] | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
    concurrent: int | None = None,
    samples: int | None = None,
    time_budget_s: float | None = None,
    facts: Facts | None = None,
) -> DryRun:
    """Run a recorded experiment again, in virtual time.

    Args:
        recorded: the experiment.
        scheduler: the name of another trial scheduler; None: that of the experiment.
        options: of the scheduler, by name.
        cpus, gpus: of the machine; None: as many trials at once as there were.
        concurrent: trials at once, whatever the machine has.
        samples: the first trials alone.
        time_budget_s: seconds after which the experiment ends.
        facts: as `facts_of` returns them; None: they are read.

    Raises:
        TuneError: the machine cannot hold a trial, or more trials are asked for than were recorded.
        ValueError: an unknown scheduler, or it needs a metric.
    """
    facts = facts or facts_of(recorded)
    trials = recorded.trials
    count = len(trials) if samples is None else samples
    if not 0 < count <= len(trials):
        raise TuneError(f"{recorded.path} has the curves of {len(trials)} trials: {count} cannot be simulated.")
    fresh = RunningExperiment.load(recorded.path, replays=False) if recorded.experiment is not None else None
    at_once = concurrent or _trials_at_once(fresh, cpus, gpus) or facts.trials_at_once or 1
    settings = copy.copy(fresh.settings) if fresh is not None else Settings(path=recorded.path)
    settings.metric, settings.mode, settings.num_samples = recorded.metric, recorded.mode, count
    settings.restore, settings.space = "", {}
    if concurrent or cpus is not None or gpus is not None:
        settings.max_concurrent = 0
    if time_budget_s is not None:
        settings.time_budget_s = time_budget_s
    if scheduler is not None or options:
        wanted: Any = create_scheduler(scheduler or "fifo", **(options or {}))
    else:
        wanted = fresh.scheduler if fresh is not None else FIFOScheduler()
    wanted.set_search_properties(recorded.metric, recorded.mode)
    if not isinstance(wanted, FIFOScheduler):
        wanted.require_metric()
    stopper = stopper_of(fresh.stop) if fresh is not None else None
    run = _RecordedRun(Controller(settings, _RecordedSearcher(trials), wanted, stopper), facts, at_once)
    seconds = run.run()
    best, ever = run.controller.best, run.controller.best_ever
    objective = run.controller.objective
    return DryRun(
        len(run.controller.trials),
        run.steps,
        seconds,
        run.training_seconds,
        at_once,
        objective.value(best.latest_result) if best is not None and objective is not None else None,
        str(trials[best.index]) if best is not None else "",
        run.decisions,
        [str(run.controller.trials[key]) for key in run.beyond],
        type(wanted).__name__,
        ever.best if ever is not None else None,
    )


def recorded_best(recorded: Recorded) -> tuple[float | None, str, float | None]:
    """The best last value of the experiment's metric, its trial, and the best value ever."""
    if recorded.metric is None:
        return None, "", None
    objective = Objective(recorded.metric, recorded.mode)
    best = objective.best((objective.value(trial.latest_result), trial) for trial in recorded.trials)
    values = [best_value(recorded.results(trial), recorded.metric, recorded.mode) for trial in recorded.trials]
    ever = objective.best((value, value) for value in values)
    return (objective.value(best.latest_result), str(best), ever) if best is not None else (None, "", ever)


def _trials_at_once(experiment: RunningExperiment | None, cpus: float | None, gpus: float | None) -> int:
    """How many trials a machine holds; 0: it is not said."""
    if cpus is None and gpus is None:
        return 0
    if experiment is None:
        return max(1, int(cpus or 1))
    node = {"CPU": cpus if cpus is not None else float("1e9"), "GPU": gpus or 0.0}
    request = resources_of(experiment.trainable, experiment.run_options.get("resources"), experiment.settings.space)
    found = capacity(request, [node])
    if found == 0:
        asked = ", ".join(f"{amount:g} {name}" for name, amount in request.required_resources.items())
        raise TuneError(
            f"A machine with {cpus or 0:g} CPUs and {gpus or 0:g} GPUs holds no trial: it asks for {asked}."
        )
    return found


def compared(recorded: Recorded, facts: Facts, outcome: DryRun) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    """The recorded and the simulated experiment side by side.

    Returns:
        ((recorded, simulated) by what is measured, notes in sentences).
    """
    best, best_trial, best_ever = recorded_best(recorded)
    before = Counter(record["action"] for record in recorded.decisions() if record["action"] != "WAIT")
    scheduler = type(recorded.experiment.scheduler).__name__ if recorded.experiment is not None else None
    rows: dict[str, tuple[Any, Any]] = {
        "scheduler": (scheduler, outcome.scheduler),
        "trials": (len(recorded.trials), outcome.trials),
        "trials at once": (facts.trials_at_once or None, outcome.trials_at_once),
        "results": (sum(map(len, facts.curves)), outcome.results),
        "time (s)": (round(facts.seconds, 3), round(outcome.seconds, 3)),
        "training (s)": (round(facts.training_seconds, 3), round(outcome.training_seconds, 3)),
    }
    for action in sorted({*before, *outcome.counts()}):
        rows[f"decisions {action}"] = (before.get(action, 0), outcome.counts().get(action, 0))
    if recorded.metric is not None:
        rows[f"best {recorded.metric}"] = (best, outcome.best)
        rows["best trial"] = (best_trial or None, outcome.best_trial or None)
        if best is not None and outcome.best is not None:
            rows["regret"] = (0.0, abs(best - outcome.best))
        rows[f"best {recorded.metric} ever"] = (best_ever, outcome.best_ever)
    notes = []
    if outcome.beyond:
        count = "1 trial was stopped" if len(outcome.beyond) == 1 else f"{len(outcome.beyond)} trials were stopped"
        notes.append(
            f"{count} early when they were recorded, and would have gone on: they end there in the simulation."
        )
    with_checkpoint = [point.has_checkpoint for curve in facts.curves for point in curve]
    if not facts.can_save and outcome.counts().get("PAUSE") and not all(with_checkpoint):
        start = "from the last one that it has reported" if any(with_checkpoint) else "at its beginning"
        notes.append(f"The trials write no checkpoints when they are paused: a paused trial begins again {start}.")
    if recorded.metric is None:
        known = f"  The objectives are {', '.join(recorded.objectives)}." if recorded.objectives else ""
        notes.append(f"No metric is known: name one for the best score and the regret.{known}")
    return rows, notes
