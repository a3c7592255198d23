"""The same seed gives the same experiment: for any number of trials at once, and over kills of the program."""

import json
import os
import random
import signal

import pytest

from benchmarks import tune_restarts as searches
from tests.gates import until
from zray import tune
from zray.tune.recorder import Recorder
from zray.tune.runner import Runner
from zray.tune.schedulers import PopulationBasedTraining


class Kill(BaseException):
    """Stands for a kill at this place: nothing behind it is carried out."""


@pytest.mark.parametrize("name", ["random", "hyperband", "pbt"])
def test_same_seed_gives_the_same_table_for_any_number_of_trials_at_once(session, tmp_path, name):
    tables = [
        searches.table(searches.fit(name, tmp_path / str(at_once), at_once=at_once).get_results())
        for at_once in (1, 2, 8)
    ]
    assert tables[0] == tables[1] == tables[2]
    assert len(tables[0]) == searches.SAMPLES[name]


@pytest.fixture(scope="module")
def whole(session, tmp_path_factory):
    """The folder of an experiment that was not killed."""
    folder = tmp_path_factory.mktemp("whole")
    searches.fit("pbt", folder, at_once=1)
    return folder


def decisions(folder, name="search"):
    with open(folder / name / "decisions.jsonl") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("action", ["copy", "delete", "explained", "logged"])
def test_decision_that_a_kill_kept_from_acting_is_carried_out(session, tmp_path, monkeypatch, whole, action):
    act, count = getattr(Recorder, action), 0

    def until_killed(self, found):
        nonlocal count
        count += 1
        if count == 2:
            raise Kill
        act(self, found)

    monkeypatch.setattr(Recorder, action, until_killed)
    with pytest.raises(Kill):
        searches.fit("pbt", tmp_path / "parts", at_once=1)
    monkeypatch.undo()
    parts = searches.fit("pbt", tmp_path / "parts", at_once=1).get_results()
    assert searches.table(parts) == searches.table(searches.load(whole))
    assert decisions(tmp_path / "parts") == decisions(whole)
    assert searches.checkpoints(tmp_path / "parts") == searches.checkpoints(whole)


@pytest.mark.slow
def test_kills_of_the_program_change_no_decision(tmp_path):
    with searches.start(tmp_path / "whole") as process:
        expected = process.communicate(timeout=50)[0]
    total = searches.recorded(tmp_path / "whole")
    rng = random.Random(11)
    for place in sorted(rng.randrange(total) for _ in range(3)):
        with searches.start(tmp_path / "parts") as process:
            until(lambda: searches.recorded(tmp_path / "parts") > place, 40)  # noqa: B023
            process.kill()
    with searches.start(tmp_path / "parts") as process:
        assert process.communicate(timeout=50)[0] == expected
    assert expected.count("\n") > sum(searches.SAMPLES.values())
    assert not searches.run_twice(tmp_path / "parts")


def test_killed_processes_of_trials_change_no_result(session, tmp_path):
    def train(config):
        checkpoint = tune.get_checkpoint()
        state = checkpoint.to_dict() if checkpoint else {"step": 0, "x": config["x"]}
        for step in range(state["step"] + 1, 6):
            state = {"step": step, "x": state["x"] * 0.9}
            tune.report({"loss": state["x"]}, checkpoint=tune.Checkpoint.from_dict(state))
            mark = os.path.join(config["marks"], f"{tune.get_context().get_trial_id()}-{step}")
            if step in (2, 4) and not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)

    def fit(name, max_failures):
        marks = tmp_path / name / "marks"
        marks.mkdir(parents=True)
        if not max_failures:
            for index in range(3):
                for step in (2, 4):
                    (marks / f"00007_{index:05d}-{step}").touch()
        return tune.Tuner(
            train,
            param_space={"x": tune.uniform(0, 1), "marks": str(marks)},
            tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=3, seed=7),
            run_config=tune.RunConfig(
                name="killed",
                storage_path=str(tmp_path / name),
                failure_config=tune.FailureConfig(max_failures=max_failures),
            ),
        ).fit()

    whole, killed = fit("whole", 0), fit("killed", 2)
    assert killed.num_errors == 0
    assert [[row["loss"] for row in result.rows()] for result in killed] == [
        [row["loss"] for row in result.rows()] for result in whole
    ]
    assert all(len(result.rows()) == 5 for result in killed)


class Walker(tune.Trainable):
    """A trainable with its state in checkpoints alone, which are written when it pauses."""

    def setup(self, config):
        self.x = config["start"]

    def step(self):
        self.x += self.config["rate"] / (self.iteration + 1)
        return {"score": self.x}

    def save_checkpoint(self, folder):
        return {"x": self.x}

    def load_checkpoint(self, state):
        self.x = state["x"]

    def reset_config(self, config):
        self.x = config["start"]
        return True


def walk(folder):
    """Run an experiment of walkers, or go on with it."""
    path = folder / "walk"
    walker = tune.with_resources(Walker, {"cpu": 0.5})
    if tune.Tuner.can_restore(path):
        return tune.Tuner.restore(path, walker).fit()
    mutations = {"rate": tune.uniform(0, 1)}
    scheduler = PopulationBasedTraining(
        "training_iteration", perturbation_interval=3, hyperparam_mutations=mutations, synch=True
    )
    return tune.Tuner(
        walker,
        param_space={"start": tune.uniform(0, 1), "rate": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            num_samples=4,
            seed=5,
            scheduler=scheduler,
            max_concurrent_trials=2,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(folder), name="walk", stop={"training_iteration": 9}, verbose=0),
    ).fit()


def test_kill_before_the_checkpoint_of_a_pause_changes_no_decision(session, tmp_path, monkeypatch):
    def outcome(results):
        return [([row["score"] for row in result.rows()], result.config["rate"]) for result in results]

    def until_killed(self, trial_id, answer, now):
        if trial_id.endswith(best):
            raise Kill
        return take(self, trial_id, answer, now)

    whole = walk(tmp_path / "whole")
    # Other trials go on from this one: its checkpoint decides what they do.
    best = next(each["reason"] for each in decisions(tmp_path / "whole", "walk") if each["action"] == "EXPLOIT")
    best = best.partition("goes on from ")[2].split()[0]
    take = Runner._take_halted
    monkeypatch.setattr(Runner, "_take_halted", until_killed)
    with pytest.raises(Kill):
        walk(tmp_path / "parts")
    monkeypatch.undo()
    assert outcome(walk(tmp_path / "parts")) == outcome(whole)
