"""SampleBatch: columns of equal length, their rows, parts and order."""

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed here")
pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.policy.sample_batch import SampleBatch, concat_samples  # noqa: E402


def batch(begin=0, count=5):
    numbers = np.arange(begin, begin + count)
    return SampleBatch({"obs": numbers[:, None] * 1.0, "actions": numbers, "eps_id": numbers // 3})


def test_rows_and_columns_hold_the_same_numbers():
    found = batch()
    assert len(found) == found.count == 5
    assert [row["actions"] for row in found.rows()] == found.columns(["actions"])[0].tolist() == [0, 1, 2, 3, 4]


def test_parts_are_in_order():
    assert [each["actions"].tolist() for each in batch().minibatches(2)] == [[0, 1], [2, 3], [4]]
    assert [each["actions"].tolist() for each in batch().split_by_episode()] == [[0, 1, 2], [3, 4]]
    assert batch().slice(1, 3)["obs"].tolist() == [[1.0], [2.0]]


def test_shuffled_rows_stay_whole():
    found = batch(count=20).shuffle(np.random.default_rng(0))
    assert sorted(found["actions"]) == list(range(20)) and found["actions"].tolist() != list(range(20))
    assert (found["obs"][:, 0] == found["actions"]).all()


def test_batches_are_joined():
    joined = batch(0, 2).concat(batch(2, 1))
    assert joined["actions"].tolist() == [0, 1, 2]
    assert concat_samples([SampleBatch(), batch(0, 1)]).count == 1
    with pytest.raises(ValueError, match="differ in their columns"):
        concat_samples([batch(), SampleBatch(obs=[1.0])])
    with pytest.raises(ValueError, match="of one length"):
        SampleBatch(obs=[1.0], actions=[1, 2])
