"""Replay in actors, as in Ape-X: shards in turn, priorities to the owner, the same training again."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from tests.gates import until  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.replay import PrioritizedReplay, Replay  # noqa: E402
from zray.rllib.replay_actors import ReplayActors  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def rows(first, count=4):
    return {"value": np.arange(first, first + count)}


def test_transitions_and_batches_go_to_the_shards_in_turn():
    memory = ReplayActors(lambda shard: Replay(8, shard), 2, 16)
    assert memory.draw(3) == {}
    memory.add(rows(0))
    memory.add(rows(100))
    batches = [memory.draw(16)["value"] for _ in range(8)]
    assert memory.size == 8
    kinds = {tuple(sorted({int(value) // 100 for value in batch})) for batch in batches if len(batch)}
    assert kinds == {(0,), (1,)}  # a batch is of one shard, and each shard has its turn
    memory.close()


def test_errors_reach_the_shard_of_their_batch():
    memory = ReplayActors(lambda shard: PrioritizedReplay(4, shard), 1, 4)
    memory.add(rows(0))
    first = memory.draw(4)
    memory.update(first["places"], np.where(first["value"] == 2, 1e6, 0.0))
    memory.draw(4)  # it was under way before the errors were known
    assert (memory.draw(64)["value"] == 2).mean() > 0.9
    memory.close()


def small(**options):
    config = DQNConfig().environment("CartPole-v1").debugging(seed=3).env_runners(**options)
    config.training(learning_starts=64, updates_per_iteration=4, train_batch_size=16, num_replay_buffer_shards=2)
    return config.training(model={"fcnet_hiddens": [8]}).build_algo()


def weights(algo):
    return {name: value.tobytes() for name, value in algo.get_policy().get_weights().items()}


def test_training_is_the_same_for_any_number_of_workers_and_behind_a_checkpoint(tmp_path):
    algo = small()
    for _ in range(3):
        algo.train()
    path = algo.save(str(tmp_path))
    for _ in range(2):
        algo.train()
    expected = weights(algo)
    algo.stop()
    other = small(num_env_runners=1)
    other.restore(path)
    for _ in range(2):
        other.train()
    assert weights(other) == expected
    other.stop()


def test_training_goes_on_when_shards_die():
    algo = small()
    for _ in range(2):
        algo.train()
    for shard in algo.memory.shards:
        zray.kill(shard, no_restart=False)
    until(lambda: [zray.get(shard.state.remote())["size"] for shard in algo.memory.shards] == [0, 0])
    before = weights(algo)
    for _ in range(4):
        algo.train()
    assert weights(algo) != before
    algo.stop()
