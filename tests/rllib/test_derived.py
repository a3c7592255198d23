"""Algorithms that a program derives: their checkpoints give the derived class again."""

import importlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPO, PPOConfig  # noqa: E402
from zray.rllib.runs import algorithm_of_checkpoint  # noqa: E402


class Mine(PPO):
    def training_step(self):
        return {**super().training_step(), "mine": True}


def small(config=PPOConfig):
    found = config().environment("CartPole-v1").training(model={"fcnet_hiddens": [4]})
    return found.env_runners(num_groups=1, rollout_fragment_length=32)


def saved(kind, folder, config=None):
    algo = kind(config=config or small())
    algo.train()
    algo.stop()
    return algo.save(str(folder))


@pytest.mark.parametrize("door", [Algorithm, PPO, Mine])
def test_derived_class_is_restored(tmp_path, door):
    restored = door.from_checkpoint(saved(Mine, tmp_path))
    assert type(restored) is Mine and restored.iteration == 1
    assert restored.train()["info"]["learner"]["mine"]
    restored.stop()


def test_derived_class_that_is_called_counts(tmp_path):
    restored = Mine.from_checkpoint(saved(PPO, tmp_path))
    assert type(restored) is Mine
    restored.stop()
    with pytest.raises(ValueError, match="The checkpoint is of DQN, and this algorithm is Mine"):
        Mine.from_checkpoint(small(DQNConfig).build_algo().save(str(tmp_path / "other")))


def test_commands_have_the_derived_class(tmp_path):
    path = saved(Mine, tmp_path)
    restored = algorithm_of_checkpoint(path, seed=1)
    assert type(restored) is Mine
    restored.stop()


PROGRAM = """
import sys
import torch
from zray.rllib.algorithms.algorithm import Algorithm
from zray.rllib.algorithms.ppo import PPO, PPOConfig
if sys.argv[2] == "save":
    class Own(PPO):
        def training_step(self):
            return {**super().training_step(), "own": True}
    Own(config=PPOConfig().environment("CartPole-v1").training(model={"fcnet_hiddens": [4]})).save(sys.argv[1])
else:
    algo = Algorithm.from_checkpoint(sys.argv[1])
    print(type(algo).__name__, algo.train()["info"]["learner"]["own"])
"""


def test_class_of_a_program_is_had_in_another_program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    for step in ("save", "read"):
        command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "saved"), step]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert printed.split() == ["Own", "True"]


def test_class_that_cannot_be_had_is_named(tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text("from zray.rllib.algorithms.ppo import PPO\nclass Own(PPO): pass\n")
    with monkeypatch.context() as there:
        there.syspath_prepend(str(tmp_path))
        own = importlib.import_module("my_module").Own
        path = saved(own, tmp_path / "saved")
    monkeypatch.delitem(sys.modules, "my_module")
    for door in (Algorithm, PPO):
        with pytest.raises(ValueError, match=r"of the class my_module.Own, which cannot be had: ModuleNotFoundError"):
            door.from_checkpoint(path)
    restored = own.from_checkpoint(path)
    assert type(restored) is own
    restored.stop()
