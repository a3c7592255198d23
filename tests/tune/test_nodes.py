"""Trials on the nodes of a cluster that do not share the experiment's folder."""

from types import SimpleNamespace

import pytest

import zray
from tests.gates import forever
from zray import tune
from zray.exceptions import GetTimeoutError
from zray.tune import events as ev
from zray.tune import runner, storage


def moving(config):
    start = tune.get_checkpoint().to_dict()["step"] if tune.get_checkpoint() else 0
    node = zray.get_runtime_context().get_node_id()
    for step in range(start, 3):
        tune.report({"step": step, "node": node}, checkpoint=tune.Checkpoint.from_dict({"step": step + 1}))
        if step == 1 and start == 0:
            forever()


class EndNode(tune.Callback):
    """Ends the node of the first trial when its second checkpoint has arrived."""

    def __init__(self, cluster):
        self.cluster = cluster

    def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
        if checkpoint.to_dict()["step"] == 2:
            (node,) = (each for each in self.cluster.worker_nodes if each.node_id == trial.last_result["node"])
            self.cluster.remove_node(node)


@pytest.mark.slow
def test_trial_of_a_lost_node_goes_on_on_another_one_without_a_shared_folder(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "mark", lambda path, identity: None)  # workers take the folder for another machine's
    cluster.connect()
    (trial,) = tune.run(moving, max_failures=1, callbacks=[EndNode(cluster)], local_dir=str(tmp_path)).trials
    rows = tune.Result.from_path(trial.path).rows()
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert rows[0]["node"] == rows[1]["node"] != rows[2]["node"]
    assert tune.Checkpoint(trial.checkpoint.path).to_dict() == {"step": 3}
    storage.sweep()


@pytest.mark.parametrize(("is_first", "silent"), [(False, 1), (True, 3)])
def test_node_that_stands_still_ends_no_experiment(monkeypatch, is_first, silent):
    answers = [GetTimeoutError("The node did not answer in time.")] * silent

    def addresses():
        if answers:
            raise answers.pop()
        return {"host": "127.0.0.1"}

    monkeypatch.setattr(runner, "addresses", addresses)
    monkeypatch.setattr(runner, "capacity_event", lambda *args, **options: ev.Capacity(1.0, 2))
    loop = runner.Runner.__new__(runner.Runner)
    loop.controller, loop.trainable, loop.resources = SimpleNamespace(capacity=5), None, None
    assert loop._capacity_event(raises_at_none=is_first).trials == (2 if is_first else 5)
    assert not answers
