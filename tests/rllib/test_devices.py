"""The learner on a GPU, or on the CPU where torch finds none."""

import logging

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from zray.rllib import devices  # noqa: E402
from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.registry import get_algorithm_class  # noqa: E402
from zray.rllib.devices import on_cpu  # noqa: E402

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="torch finds no GPU here; tests/conftest.py hides them where CUDA_VISIBLE_DEVICES is not set",
)
OPTIONS = {
    "PPO": {"num_epochs": 2, "rollout_fragment_length": 32},
    "A2C": {},
    "DQN": {"learning_starts": 16, "rollout_fragment_length": 16},
    "SAC": {"learning_starts": 4, "rollout_fragment_length": 8},
}


def built(name, **options):
    env = "Pendulum-v1" if name == "SAC" else "CartPole-v1"
    return get_algorithm_class(name)(config={**OPTIONS[name], "seed": 3, **options}, env=env)


def test_state_on_the_cpu_keeps_its_form():
    state = {"a": torch.ones(2), "b": [(torch.zeros(1), 5)], "c": np.ones(3), "d": None}
    found = on_cpu(state)
    assert found["a"].device.type == "cpu"
    assert type(found["b"][0]) is tuple and found["b"][0][1] == 5
    assert found["c"] is state["c"] and found["d"] is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch finds a GPU here")
def test_learner_without_a_gpu_uses_the_cpu_and_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        asked = built("PPO", num_gpus=1)
    assert "torch finds no GPU" in caplog.text
    plain = built("PPO")
    first, second = asked.train(), plain.train()
    assert first["info"]["learner"] == second["info"]["learner"]
    asked.stop(), plain.stop()


@needs_gpu
@pytest.mark.parametrize("name", OPTIONS)
def test_learner_is_on_the_gpu_and_its_workers_are_not(name, tmp_path, nothing_left):
    with zray.init(num_cpus=2, num_gpus=1, log_to_driver=False):
        algo = built(name, num_gpus=1, num_env_runners=1)
        algo.train()
        assert {parameter.device.type for parameter in algo.policy.model.parameters()} == {"cuda"}
        of_worker = zray.get(
            [
                actor.__ray_call__.remote(
                    lambda host: ({each.device.type for each in host.policy.model.parameters()}, zray.get_gpu_ids())
                )
                for actor in algo.rollouts.actors
            ]
        )
        assert of_worker == [({"cpu"}, [])]
        path = algo.save(str(tmp_path / "saved"))
        restored = Algorithm.from_checkpoint(path)
        action = algo.compute_single_action(algo.policy.observation_space.sample() * 0, explore=False)
        assert np.allclose(
            restored.compute_single_action(algo.policy.observation_space.sample() * 0, explore=False), action
        )
        restored.train()
        algo.stop(), restored.stop()


@needs_gpu
def test_recurrent_model_is_trained_on_the_gpu():
    algo = built("PPO", num_gpus=1, model={"use_lstm": True, "lstm_cell_size": 16, "max_seq_len": 8})
    result = algo.train()
    assert np.isfinite(result["info"]["learner"]["policy_loss"])
    algo.stop()


def test_torch_has_the_threads_of_the_session_and_says_so_once(monkeypatch, caplog):
    threads = [16]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(devices.os, "cpu_count", lambda: 16)
    monkeypatch.setattr(devices.zray, "is_initialized", lambda: True)
    monkeypatch.setattr(devices.torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(devices.torch, "set_num_threads", threads.append)
    for cpus in (64, 3, 3):
        monkeypatch.setattr(devices.zray, "cluster_resources", lambda cpus=cpus: {"CPU": cpus})
        devices.fit_threads()
    assert threads == [16, 3]
    assert [each.getMessage()[:47] for each in caplog.records] == ["torch uses 3 threads, the CPUs of the session, "]
    threads.append(5)  # the program's own number
    devices.fit_threads()
    assert threads == [16, 3, 5]
