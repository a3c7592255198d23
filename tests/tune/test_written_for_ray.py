"""Schedulers and searchers that programs have written for Ray, in its signatures."""

from zray import tune
from zray.tune.controller import Controller
from zray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from zray.tune.search import BasicVariantGenerator, Searcher
from zray.tune.search.searcher import set_search_properties
from zray.tune.settings import Settings
from zray.tune.simulation import Point, VirtualRun
from zray.tune.trial import Trial

LENGTH = 8


class Alternating(TrialScheduler):
    """Trials run in turns of two steps, and end after six."""

    def __init__(self, metric="score"):
        self._metric = metric
        self.seen = []

    def on_trial_add(self, tune_controller, trial):
        self.seen.append(trial.trial_id)

    def on_trial_error(self, tune_controller, trial):
        pass

    def on_trial_result(self, tune_controller, trial, result):
        assert trial.status == Trial.RUNNING and trial in tune_controller.get_live_trials()
        if result["training_iteration"] >= 6:
            return TrialScheduler.STOP
        return TrialScheduler.PAUSE if result["training_iteration"] % 2 == 0 else TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller, trial, result):
        pass

    def on_trial_remove(self, tune_controller, trial):
        pass

    def choose_trial_to_run(self, tune_controller):
        for status in (Trial.PENDING, Trial.PAUSED):
            for trial in tune_controller.get_trials():
                if trial.status == status and tune_controller.has_resources_for_trial(trial):
                    return trial
        return None

    def debug_string(self):
        return "Alternating"


class Winner(FIFOScheduler):
    """The first trial that reaches a score ends all others, as a program of 2019 does it."""

    def on_trial_result(self, trial_runner, trial, result):
        if result["score"] >= 0.5:
            for other in trial_runner.get_trials():
                if other is not trial and not other.is_finished():
                    trial_runner.stop_trial(other)
            return TrialScheduler.STOP
        return TrialScheduler.CONTINUE


class Watched(ASHAScheduler):
    """A subclass that looks at what its base decides."""

    stopped = 0

    def on_trial_result(self, tune_controller, trial, result):
        decision = super().on_trial_result(tune_controller, trial, result)
        if decision == TrialScheduler.STOP:
            self.stopped += 1
        return decision


class Listed(Searcher):
    """A searcher with the signature of 2020."""

    def __init__(self, values, metric="score", mode="max"):
        super().__init__(metric=metric, mode=mode)
        self.values, self.results = list(values), {}

    def set_search_properties(self, metric, mode, config):
        self.space = config
        return True

    def suggest(self, trial_id):
        return {"net": {"quality": self.values.pop(0)}} if self.values else Searcher.FINISHED

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.results[trial_id] = result["score"]


def experiment(scheduler, searcher=None, samples=4, capacity=2):
    searcher = searcher or BasicVariantGenerator(random_state=1)
    space = {"net": {"quality": tune.uniform(0, 1)}}
    set_search_properties(searcher, "score", "max", space, num_samples=samples)
    scheduler.set_search_properties("score", "max")
    controller = Controller(Settings(metric="score", mode="max", num_samples=samples), searcher, scheduler)

    def curve(trial):
        quality = trial.config["net"]["quality"]
        return [Point({"score": quality * (step + 1) / LENGTH}, 1.0) for step in range(LENGTH)]

    run = VirtualRun(controller, curve, capacity)
    run.run()
    return controller.get_trials()


def test_paused_trials_that_a_scheduler_chooses_go_on():
    scheduler = Alternating()
    assert scheduler.metric == "score"
    trials = experiment(scheduler)
    assert [trial.iteration for trial in trials] == [6] * 4
    assert [trial.starts for trial in trials] == [3] * 4
    assert scheduler.seen == [trial.trial_id for trial in trials]


def test_scheduler_stops_other_trials():
    trials = experiment(Winner(), Listed([0.1, 0.9, 0.2, 0.3]), capacity=4)
    assert all(trial.status == Trial.TERMINATED for trial in trials)
    assert [trial.iteration for trial in trials] == [5, 5, 4, 4]


def test_subclass_compares_the_decision_of_its_base():
    scheduler = Watched(max_t=LENGTH, grace_period=1, reduction_factor=2)
    trials = experiment(scheduler, samples=12, capacity=1)
    assert scheduler.stopped == len(trials) > sum(trial.iteration == LENGTH for trial in trials)


def test_searcher_of_2020_is_asked_and_told():
    searcher = Listed([0.5, 0.25])
    trials = experiment(FIFOScheduler(), searcher, samples=-1)
    assert [trial.config["net"]["quality"] for trial in trials] == [0.5, 0.25]
    assert searcher.results == {trial.trial_id: trial.config["net"]["quality"] for trial in trials}


def test_paused_by_name_is_chosen_again():
    class Pausing(FIFOScheduler):
        def on_trial_result(self, tune_controller, trial, result):
            if result["training_iteration"] == 2:
                for other in tune_controller.get_live_trials():
                    if other is not trial:
                        tune_controller.pause_trial(other)
            return TrialScheduler.CONTINUE

        def choose_trial_to_run(self, tune_controller):
            paused = [trial for trial in tune_controller.get_trials() if trial.status == Trial.PAUSED]
            return super().choose_trial_to_run(tune_controller) or (paused[0] if paused else None)

    trials = experiment(Pausing(), samples=3, capacity=2)
    assert [trial.iteration for trial in trials] == [LENGTH] * 3
