"""Recorded experiments, simulated: what was run comes out again, and other machines and schedulers can be tried."""

import json
import threading

import pytest

from zray import tune
from zray.tune import events as ev
from zray.tune.dry_run import facts_of, simulate
from zray.tune.journal import Journal, read_journal
from zray.tune.recorded import read_experiment
from zray.tune.running_experiment import JOURNAL
from zray.tune.schedulers import ASHAScheduler, HyperBandScheduler

pytestmark = pytest.mark.usefixtures("session")


class Descent(tune.Trainable):
    """Each step takes a while, so that the time of an experiment is that of its training."""

    def setup(self, config):
        self.quality, self.pause = config["quality"], config.get("pause", 0.005)

    def step(self):
        threading.Event().wait(self.pause)
        return {"score": self.quality * self.iteration}

    def save_checkpoint(self, folder):
        return {}

    def load_checkpoint(self, state):
        pass


def run(folder, scheduler, at_once, samples=9, name="run", **options):
    tune.Tuner(
        Descent,
        param_space={"quality": tune.uniform(0, 1), **options},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            num_samples=samples,
            seed=3,
            scheduler=scheduler,
            max_concurrent_trials=at_once,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name=name, storage_path=str(folder), stop={"training_iteration": 9}, verbose=0),
    ).fit()
    return read_experiment(str(folder / name))


def recorded_decisions(recorded, *keys):
    return [tuple(record[key] for key in keys) for record in recorded.decisions() if record["action"] != "WAIT"]


def simulated_decisions(outcome, *keys):
    return [tuple(getattr(decision, key) for key in keys) for decision in outcome.decisions]


SCHEDULERS = {
    "stopping": lambda: ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3),
    "promotion": lambda: ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3, type="promotion"),
    "hyperband": lambda: HyperBandScheduler(max_t=9, reduction_factor=3),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_simulating_what_was_run_one_trial_at_a_time_gives_the_same_decisions_and_time(name, tmp_path):
    recorded = run(tmp_path, SCHEDULERS[name](), at_once=1)
    outcome = simulate(recorded)
    keys = ("trial_id", "iteration", "action", "reason")
    assert recorded_decisions(recorded, *keys)
    assert simulated_decisions(outcome, *keys) == recorded_decisions(recorded, *keys)
    assert outcome.seconds == pytest.approx(facts_of(recorded).seconds, rel=0.1)
    assert outcome.best == max(trial.best for trial in recorded.trials)
    assert not outcome.beyond


def test_simulating_a_synchronous_scheduler_gives_the_same_decisions_for_two_trials_at_once(tmp_path):
    recorded = run(tmp_path, HyperBandScheduler(max_t=9, reduction_factor=3), at_once=2, samples=17, pause=0.03)
    outcome = simulate(recorded)
    keys = ("trial_id", "iteration", "action")
    # Where a rung is decided, the trial that came last goes on or stops at once; the others have paused before.
    pauses = ("PAUSE", "UNPAUSE", "CONTINUE")
    simulated, real = (
        sorted(found for found in decisions if found[2] not in pauses)
        for decisions in (simulated_decisions(outcome, *keys), recorded_decisions(recorded, *keys))
    )
    assert simulated == real and len(real) == 17
    assert outcome.trials_at_once == 2
    assert outcome.seconds == pytest.approx(facts_of(recorded).seconds, rel=0.1)


@pytest.fixture(scope="module")
def whole(session, tmp_path_factory):
    """An experiment of 12 trials that all ran to their end, two at once."""
    return run(tmp_path_factory.mktemp("whole"), None, at_once=2, samples=12, pause=0.01)


def test_more_places_take_less_time_and_the_same_training(whole):
    here, larger = simulate(whole), simulate(whole, concurrent=12)
    assert larger.seconds < here.seconds
    assert larger.training_seconds == pytest.approx(here.training_seconds)
    assert simulate(whole, cpus=3).trials_at_once == 3


def test_the_time_between_a_kill_and_the_restart_does_not_count(tmp_path):
    recorded = run(tmp_path, None, at_once=2, samples=2, pause=0.0)
    before = facts_of(recorded)
    path = f"{recorded.path}/{JOURNAL}"
    events, _, _ = read_journal(path)
    journal = Journal(path)
    journal.append([ev.Resumed(events[-1].now + 1000)])
    journal.close()
    after = facts_of(recorded)
    assert after.seconds == pytest.approx(before.seconds)
    assert after.starts == before.starts


def test_a_machine_that_holds_no_trial_is_refused(whole):
    with pytest.raises(tune.TuneError, match="holds no trial: it asks for 1 CPU"):
        simulate(whole, cpus=0.5)


def test_another_scheduler_saves_training_and_says_what_it_costs(whole):
    full = simulate(whole)
    outcome = simulate(whole, scheduler="asha", options={"max_t": 9, "reduction_factor": 3})
    assert outcome.results < full.results and outcome.training_seconds < full.training_seconds
    assert outcome.counts()["STOP"] == 12
    assert outcome.best <= full.best
    assert not outcome.beyond  # the recorded curves are whole


def test_fewer_samples_and_a_time_budget_end_an_experiment_early(whole):
    assert simulate(whole, samples=3).trials == 3
    with pytest.raises(tune.TuneError, match="has the curves of 12 trials: 13 cannot be simulated"):
        simulate(whole, samples=13)
    full = simulate(whole)
    short = simulate(whole, time_budget_s=full.seconds / 2)
    assert short.results < full.results
    assert any("time budget" in decision.reason for decision in short.decisions)


def test_decisions_beyond_what_is_recorded_are_counted(tmp_path):
    recorded = run(tmp_path, ASHAScheduler(max_t=9, reduction_factor=3), at_once=2, samples=6, pause=0.0)
    cut = [str(trial) for trial in recorded.trials if trial.iteration < 9]
    assert cut
    assert sorted(simulate(recorded, scheduler="fifo").beyond) == sorted(cut)


def test_functions_without_checkpoints_begin_again_after_a_pause(tmp_path):
    def train(config):
        for step in range(9):
            tune.report({"score": config["quality"] * step})

    tune.run(
        train,
        name="function",
        config={"quality": tune.grid_search([0.1 * place for place in range(9)])},
        storage_path=str(tmp_path),
        metric="score",
        mode="max",
        verbose=0,
    )
    recorded = read_experiment(str(tmp_path / "function"))
    facts = facts_of(recorded)
    assert not facts.can_save and all(facts.is_whole)
    outcome = simulate(recorded, scheduler="hyperband", options={"max_t": 9})
    once = simulate(recorded, scheduler="hyperband", options={"max_t": 9}, facts=facts._replace(can_save=True))
    assert outcome.counts() == once.counts()
    assert outcome.results > once.results


def test_a_trial_that_failed_fails_in_the_simulation(tmp_path):
    def train(config):
        tune.report({"score": 1.0})
        raise ValueError("no more")

    tune.run(
        train,
        name="failing",
        config={},
        num_samples=2,
        storage_path=str(tmp_path),
        metric="score",
        mode="max",
        verbose=0,
        raise_on_failed_trial=False,
    )
    recorded = read_experiment(str(tmp_path / "failing"))
    outcome = simulate(recorded)
    assert simulated_decisions(outcome, "action", "reason") == [("ERROR", "ValueError: no more")] * 2
    assert not outcome.beyond


def test_files_alone_are_enough(whole, tmp_path):
    for trial in whole.trials:
        folder = tmp_path / str(trial)
        folder.mkdir()
        (folder / "params.json").write_text(json.dumps(trial.config))
        (folder / "result.json").write_text("".join(json.dumps(row) + "\n" for row in whole.results(trial)))
    recorded = read_experiment(str(tmp_path), "score", "max")
    assert recorded.experiment is None and "there is no experiment.pkl" in recorded.note
    assert list(recorded.parameters()) == ["quality"]
    outcome = simulate(recorded, scheduler="asha", options={"max_t": 9}, concurrent=2)
    assert outcome.trials == 12 and outcome.best == simulate(whole).best
