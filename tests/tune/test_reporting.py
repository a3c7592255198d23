"""What experiments show, by each front door."""

import pytest

import zray
from zray import tune


class Recorder(tune.ProgressReporter):
    def __init__(self):
        self.calls = []

    def should_report(self, trials, done=False):
        return done

    def report(self, trials, done, *sys_info):
        self.calls.append(([trial.status for trial in trials], done, sys_info))


def one(config):
    return {"loss": config.get("x", 0)}


@pytest.mark.usefixtures("session")
class TestFrontDoors:
    def test_the_users_reporter_is_always_used(self, tmp_path):
        for place, door in enumerate(("Tuner", "run", "run_experiments")):
            reporter = Recorder()
            where = {"name": door, "verbose": place}
            if door == "Tuner":
                config = tune.RunConfig(storage_path=str(tmp_path), progress_reporter=reporter, **where)
                tune.Tuner(one, param_space={"x": 1}, run_config=config).fit()
            elif door == "run":
                tune.run(one, config={"x": 1}, storage_path=str(tmp_path), progress_reporter=reporter, **where)
                tune.run(tune.Experiment("list", one, local_dir=str(tmp_path)), progress_reporter=(other := Recorder()))
                assert len(other.calls) == 1
            else:
                spec = {"run": one, "config": {"x": 1}, "local_dir": str(tmp_path)}
                tune.run_experiments({door: spec}, progress_reporter=reporter, verbose=2)
            ((states, done, sys_info),) = reporter.calls
            assert states == ["TERMINATED"] and done
            assert sys_info[0] == "Using FIFOScheduler." and sys_info[1].startswith("Resources used: ")

    def test_verbose_0_is_silent_and_2_of_2018_prints_the_block(self, tmp_path, capfd):
        spec = {"run": one, "config": {"x": 1}, "local_dir": str(tmp_path)}
        tune.run_experiments({"silent": spec}, verbose=0)
        assert capfd.readouterr().out == ""
        tune.run_experiments({"block": spec}, verbose=2)
        said = capfd.readouterr().out
        assert "== Status ==\nUsing FIFOScheduler.\nResources used: " in said
        assert f"Result logdir: {tmp_path}/block\n - one_0_x=1:\tTERMINATED" in said

    def test_a_restored_experiment_is_shown(self, tmp_path, capfd):
        config = tune.RunConfig(name="again", storage_path=str(tmp_path))
        tune.Tuner(one, param_space={"x": 1}, run_config=config).fit()
        capfd.readouterr()
        tune.Tuner.restore(str(tmp_path / "again"), one).fit()
        assert "tune again: 1 of 1 trials ended (1 TERMINATED)" in capfd.readouterr().out

    def test_a_trial_without_a_place_says_for_what_it_waits(self, tmp_path, monkeypatch):
        monkeypatch.setattr("zray.tune.runner.WAIT_SECONDS", 0.1)
        monkeypatch.setattr("zray.tune.runner.NODES_SECONDS", 0.1)
        monkeypatch.setattr("zray.tune.runner.TURN_SECONDS", 0.1)

        @zray.remote(num_cpus=2)
        class Holder:
            def ready(self):
                return True

        holder = Holder.remote()
        zray.get(holder.ready.remote())
        waits = []

        class Watcher(tune.ProgressReporter):
            def should_report(self, trials, done=False):
                if not waits and (folder / "decisions.jsonl").read_text():
                    waits.append((folder / "decisions.jsonl").read_text())
                    zray.kill(holder)
                return False

        folder = tmp_path / "waits"
        tune.run(one, name="waits", config={"x": 1}, storage_path=str(tmp_path), progress_reporter=Watcher())
        assert '"action": "WAIT"' in waits[0]
        assert "its process waits for 1 CPU: node" in waits[0] and "Holder, which is idle" in waits[0]
