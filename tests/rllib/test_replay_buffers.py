"""Replay buffers under Ray's names, which a program fills and samples itself."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.utils.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer  # noqa: E402

from zray.rllib.policy.sample_batch import SampleBatch  # noqa: E402

KINDS = [ReplayBuffer, PrioritizedReplayBuffer]


def steps(*numbers):
    return SampleBatch(obs=np.array(numbers, np.float32)[:, np.newaxis], rewards=np.array(numbers, np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_rows_are_the_newest_that_fit(kind):
    buffer = kind(capacity=4, storage_unit="timesteps")
    for number in range(6):
        buffer.add(steps(number))
    batch = buffer.sample(200)
    assert isinstance(batch, SampleBatch) and batch.count == 200 and len(buffer) == 4
    assert set(batch["rewards"].tolist()) == {2.0, 3.0, 4.0, 5.0}
    assert np.array_equal(batch["obs"][:, 0], batch["rewards"])
    assert set(batch["batch_indexes"].tolist()) == {0, 1, 2, 3}
    assert buffer.stats() == {"num_entries": 4, "capacity": 4}


def test_priorities_say_what_is_sampled():
    buffer = PrioritizedReplayBuffer(capacity=3, alpha=1.0)
    buffer.add(steps(0, 1, 2))
    buffer.update_priorities([0, 1, 2], [1e-9, 1.0, 3.0])
    found = buffer.sample(4_000, beta=1.0)
    counts = np.bincount(found["rewards"].astype(int), minlength=3)
    assert counts[0] <= 1 and np.isclose(counts[2] / counts[1], 3, atol=0.1)
    rare = found["weights"][found["rewards"] == 1]
    assert np.allclose(rare / found["weights"][found["rewards"] == 2][0], 3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_option_that_a_buffer_lacks_is_named(kind):
    with pytest.raises(ValueError, match="is empty: call add"):
        kind().sample(1)
    with pytest.raises(NotImplementedError, match=f"'storage_unit' of {kind.__name__} yet.  Add and sample steps"):
        kind(storage_unit="episodes")
    with pytest.raises(TypeError, match=f"{kind.__name__} has no keyword 'size'"):
        kind(size=4)
    buffer = kind(capacity=2)
    buffer.add(steps(1))
    with pytest.raises(TypeError, match="sample has no keyword 'batch_size'"):
        buffer.sample(1, batch_size=3)
