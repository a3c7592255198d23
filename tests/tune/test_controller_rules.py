"""The controller under random curves, failures, kills and schedulers: rules that hold in every order of events."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zray import tune
from zray.tune import events as ev
from zray.tune.controller import Controller
from zray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.settings import Settings
from zray.tune.stoppers import stopper_of
from zray.tune.trial import TrialState

STEPS = 9
SCHEDULERS = {
    "fifo": FIFOScheduler,
    "asha": lambda: ASHAScheduler(max_t=STEPS, reduction_factor=3),
    "asha promotion": lambda: ASHAScheduler(max_t=STEPS, reduction_factor=3, type="promotion"),
    "asha of two brackets": lambda: ASHAScheduler(max_t=STEPS, reduction_factor=3, brackets=2),
    "hyperband": lambda: HyperBandScheduler(max_t=STEPS, reduction_factor=3),
    "median": lambda: MedianStoppingRule("training_iteration", grace_period=2, min_samples_required=2),
    "median pausing": lambda: MedianStoppingRule(
        "training_iteration", grace_period=2, min_samples_required=2, hard_stop=False
    ),
    "pbt": lambda: PopulationBasedTraining("training_iteration", perturbation_interval=2, hyperparam_mutations=MUTATED),
    "pbt synch": lambda: PopulationBasedTraining(
        "training_iteration", perturbation_interval=2, hyperparam_mutations=MUTATED, synch=True
    ),
}
MUTATED = {"x": tune.uniform(0, 1)}


class Process:
    """A trial's process: what it does next is drawn by the test."""

    def __init__(self, iteration):
        self.iteration = iteration
        self.is_called = True  # a call is under way, so that an answer may come
        self.halts = None  # whether it saves first


class World:
    """Processes around a controller; the journal is kept, as the runner does."""

    def __init__(self, scheduler, samples, max_failures, keep, fail_fast, saves_when_paused=False):
        self.arguments = scheduler, samples, max_failures, keep, fail_fast
        self.saves_when_paused = saves_when_paused
        self.controller = self.fresh()
        self.keeps_states = False
        self.journal, self.states = [], []
        self.processes = {}
        self.finished = {}  # trial -> its iterations at its end
        self.saved = set()  # folders of checkpoints
        self.now = 1.0
        self.count = 0

    def fresh(self):
        name, samples, max_failures, keep, fail_fast = self.arguments
        searcher = BasicVariantGenerator(random_state=3)
        searcher.set_search_properties("score", "max", {"x": tune.uniform(0, 1)}, num_samples=samples)
        scheduler = SCHEDULERS[name]()
        scheduler.set_search_properties("score", "max")
        options = {"max_failures": max_failures, "keep": keep, "fail_fast": fail_fast}
        options["saves_when_paused"] = self.saves_when_paused
        return Controller(
            Settings(path="/e", metric="score", mode="max", num_samples=samples, **options),
            searcher,
            scheduler,
            stopper_of({"training_iteration": STEPS}),
        )

    def tell(self, *found):
        """Hand events over as `Runner.apply` does."""
        controller = self.controller
        for event in found:
            controller.handle(event)
        suggested, controller.events = controller.events, []
        self.journal += [*suggested, *found]
        if self.keeps_states:
            self.states.append((len(self.journal), state_of(controller)))
        while controller.actions:
            actions, controller.actions = controller.actions, []
            for action in actions:
                self.act(action)

    def act(self, action):
        trial_id = getattr(action, "trial_id", None)
        if isinstance(action, ev.Start):
            assert trial_id not in self.finished, "a finished trial runs again"
            assert trial_id not in self.processes, "a trial has two processes"
            trial = self.controller.trials[trial_id]
            if trial.checkpoint is not None:
                assert trial.checkpoint.path in self.saved, "its checkpoint is not there"
            self.processes[trial_id] = Process(trial.started_iteration)
        elif isinstance(action, ev.Proceed):
            if trial_id in self.processes:
                self.processes[trial_id].is_called = True
        elif isinstance(action, ev.Halt):
            if trial_id in self.processes:
                self.processes[trial_id].halts = action.save
            else:
                self.tell(ev.Halted(self.now, trial_id, 0))
        elif isinstance(action, ev.Copy):
            assert action.source in self.saved, "a copy of what is not there"
            self.saved.add(action.target)
        elif isinstance(action, ev.Delete):
            self.saved.discard(action.path)
        elif isinstance(action, ev.Ended):
            trial = self.controller.trials[trial_id]
            assert trial_id not in self.finished, "a trial ends twice"
            self.finished[trial_id] = trial.iteration

    def path(self, trial_id):
        self.count += 1
        path = f"/c/{trial_id}/{self.count}"
        self.saved.add(path)
        return path

    def choices(self):
        """Trials whose processes may answer."""
        return [key for key, process in self.processes.items() if process.is_called or process.halts is not None]

    def answer(self, trial_id, kind, saves):
        self.now += 1.0
        process = self.processes[trial_id]
        if kind == "die":
            del self.processes[trial_id]
            if process.halts is not None:
                self.tell(ev.Halted(self.now, trial_id, 0))
            else:
                self.tell(ev.Failed(self.now, trial_id, "it died"))
        elif process.halts is not None:
            del self.processes[trial_id]
            path = self.path(trial_id) if process.halts else ""
            self.tell(ev.Halted(self.now, trial_id, process.iteration, path))
        elif kind == "raise":
            del self.processes[trial_id]
            self.tell(ev.Failed(self.now, trial_id, "ValueError", b"pickle"))
        elif kind == "finish" and process.iteration:
            del self.processes[trial_id]
            self.tell(ev.Finished(self.now, trial_id))
        else:
            process.is_called = False
            process.iteration += 1
            trial = self.controller.trials[trial_id]
            metrics = {"score": trial.config["x"] * process.iteration}
            path = self.path(trial_id) if saves else ""
            self.tell(ev.Report(self.now, trial_id, process.iteration, metrics, 1.0, process.iteration, path))

    def resume(self):
        """The program was killed: another one replays the journal."""
        self.now += 1.0
        self.processes.clear()
        controller = replayed(self.fresh(), self.journal)
        assert state_of(controller) == state_of(self.controller)
        self.controller = controller
        for trial in controller.get_trials():
            trial.checkpoints = [saved for saved in trial.checkpoints if saved.path in self.saved]
        self.tell(ev.Resumed(self.now), ev.Capacity(self.now, controller.capacity))


def replayed(controller, journal):
    """The controller after the events of a journal, as `Experiment.replay` does."""
    controller.replayed = {event.trial_id: event for event in journal if isinstance(event, ev.Suggested)}
    for event in journal:
        controller.handle(event)
        controller.actions.clear()
    controller.events.clear()
    controller.replayed = None
    return controller


def state_of(controller):
    """All that a trial has, and what the scheduler says of itself."""
    trials = [
        {name: getattr(trial, name) for name in trial.__struct_fields__ if name != "checkpoints"}
        | {"checkpoints": [saved.path for saved in trial.checkpoints], "last_result": dict(trial.last_result)}
        for trial in controller.get_trials()
    ]
    places = [list(place) for place in (controller.running, controller.waiting, controller.paused, controller.halting)]
    places.append(sorted(controller.repeating))
    return trials, places, controller.scheduler.debug_string(), controller.is_exhausted, controller.is_ending


WORLDS = st.builds(
    World,
    st.sampled_from(sorted(SCHEDULERS)),
    st.integers(1, 12),
    st.sampled_from([0, 2]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([False, False, True]),
    st.booleans(),
)
ANSWERS = st.sampled_from(["report"] * 12 + ["finish", "raise", "die"])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(WORLDS, st.sampled_from([1, 2, 8]), st.data())
def test_experiment_ends_and_no_finished_trial_runs_again(world, capacity, data):
    world.tell(ev.Capacity(world.now, capacity))
    kills = 0
    for _ in range(12 * STEPS * 12):
        if world.controller.is_done:
            break
        choices = world.choices()
        assert choices, "nothing runs, and the experiment has not ended"
        assert len(world.processes) <= capacity
        if kills < 3 and data.draw(st.integers(0, 30), label="kill") == 30:
            kills += 1
            world.resume()
            continue
        trial_id = data.draw(st.sampled_from(choices), label="trial")
        world.answer(trial_id, data.draw(ANSWERS, label="answer"), data.draw(st.booleans(), label="saves"))
    assert world.controller.is_done
    trials = world.controller.get_trials()
    assert {trial.trial_id for trial in trials} == set(world.finished)
    assert not world.processes
    assert all(trial.num_failures <= world.arguments[2] + 1 for trial in trials)
    assert all(trial.error for trial in trials if trial.state is TrialState.ERROR)
    if world.arguments[3]:
        assert all(len(trial.checkpoints) <= world.arguments[3] for trial in trials)


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_replay_gives_the_same_state_at_every_prefix(name, data):
    world = World(name, 6, 1, 2, False, True)
    world.keeps_states = True
    world.tell(ev.Capacity(world.now, 3))
    while not world.controller.is_done:
        trial_id = data.draw(st.sampled_from(world.choices()))
        world.answer(trial_id, data.draw(ANSWERS), data.draw(st.booleans()))
    controller = world.fresh()
    controller.replayed = {event.trial_id: event for event in world.journal if isinstance(event, ev.Suggested)}
    place = 0
    for length, state in world.states:
        for event in world.journal[place:length]:
            controller.handle(event)
            controller.actions.clear()
        place = length
        assert state_of(controller) == state
