"""Environments of the extras: the message where one is missing."""

import importlib.util
import subprocess
import sys

import gymnasium
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.environments import EnvContext, InvalidEnvironmentError, make_environment  # noqa: E402


def test_game_without_ale_py_names_the_extra(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ale_py" else found(name))
    with pytest.raises(InvalidEnvironmentError, match=r"ALE/Unknown-v5 needs ale-py.*pip install 'zray\[atari\]'"):
        PPOConfig().environment("ALE/Unknown-v5").build_algo()


@pytest.mark.parametrize(
    ("error", "extra"),
    [
        (
            gymnasium.error.DependencyNotInstalled('MuJoCo is not installed, run `pip install "gymnasium[mujoco]"`'),
            "mujoco",
        ),
        (gymnasium.error.DependencyNotInstalled("opencv-python package not installed"), "atari"),
        (ModuleNotFoundError("No module named 'ale_py'"), "atari"),
    ],
)
def test_environment_without_its_packages_names_the_extra(error, extra):
    def create(config):
        raise error

    with pytest.raises(InvalidEnvironmentError, match=rf"pip install 'zray\[{extra}\]'"):
        make_environment(create, EnvContext())


def test_other_faults_name_no_extra():
    def create(config):
        raise ImportError("cannot import name 'Scale'")

    with pytest.raises(InvalidEnvironmentError, match=r"'Scale'$"):
        make_environment(create, EnvContext())


HIDE = """
from importlib.machinery import PathFinder
own = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.split(".")[0] == {package!r} else own(name, path, target)
PathFinder.find_spec = find_spec
{program}
"""
SENTENCE = "zray.rllib needs {}: install zray[rllib], or `pip install torch gymnasium`."
COMMAND = "from zray.cli.main import main; main(['rllib', 'train', '--run', 'PPO', '--env', 'CartPole-v1'])"


@pytest.mark.parametrize(
    ("package", "program"),
    [
        ("torch", "from zray.rllib.algorithms.ppo import PPOConfig"),
        ("gymnasium", "from zray.rllib.env.multi_agent_env import MultiAgentEnv"),
        ("gymnasium", COMMAND),
        ("torch", "from zray import tune; from zray.tune.registry import trainable_of; trainable_of('PPO')"),
    ],
)
def test_missing_package_is_named_with_the_extra_in_one_sentence(package, program):
    done = subprocess.run(
        [sys.executable, "-c", HIDE.format(package=package, program=program)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].endswith(SENTENCE.format(package))
    assert program != COMMAND or "Traceback" not in done.stderr
