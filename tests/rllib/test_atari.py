"""Games of ale-py: preprocessed as in the DQN paper, learnt from, and played again."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")
pytest.importorskip("ale_py", reason="ale-py is not installed here: pip install 'zray[atari]'")
pytest.importorskip("cv2", reason="OpenCV is not installed here: pip install 'zray[atari]'")

import gymnasium  # noqa: E402
from click.testing import CliRunner  # noqa: E402

from cli.rllib import rllib as command  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.atari import Game, environment_of  # noqa: E402
from zray.rllib.env.wrappers.atari_wrappers import (  # noqa: E402
    is_atari,
    wrap_atari_for_new_api_stack,
    wrap_deepmind,
)
from zray.rllib.environments import EnvContext, make_environment  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("config_class", [PPOConfig, DQNConfig])
def test_batches_of_pong_are_stacked_images(config_class):
    config = config_class().environment("ALE/Pong-v5")
    config.env_runners(num_groups=1, num_envs_per_env_runner=1, rollout_fragment_length=8)
    if config_class is PPOConfig:
        config.training(num_epochs=1)
    else:
        config.training(learning_starts=8, train_batch_size=8, updates_per_iteration=1)
    algo = config.build_algo()
    before = algo.get_policy().get_weights()
    for _ in range(2):
        algo.train()
    (batch,) = algo.collect(2)
    assert batch.observations.shape == (2, 1, 84, 84, 4)
    assert batch.observations.dtype == np.uint8
    assert any((value != before[name]).any() for name, value in algo.get_policy().get_weights().items())
    assert algo.config["clip_rewards"] is True
    algo.stop()


def test_model_says_how_large_images_are_and_how_many():
    config = PPOConfig().environment("PongNoFrameskip-v4").training(model={"dim": 42, "framestack": False})
    env = make_environment(environment_of(config.to_dict()), EnvContext())
    assert env.reset(seed=1)[0].shape == env.observation_space.shape == (42, 42, 1)
    env.close()


def test_preprocessing_can_be_left_out():
    config = PPOConfig().environment("ALE/Pong-v5").env_runners(preprocessor_pref=None)
    assert environment_of(config.to_dict()) == "ALE/Pong-v5"
    of_memory = PPOConfig().environment("ALE/Pong-v5", env_config={"obs_type": "ram"})
    assert environment_of(of_memory.to_dict()) == "ALE/Pong-v5"


def test_action_lasts_as_many_frames_as_the_env_config_says():
    frames = []
    for skip in (None, 2):
        env = make_environment(Game("ALE/Pong-v5"), EnvContext({"frameskip": skip} if skip else {}))
        env.reset(seed=1)
        before = env.unwrapped.ale.getFrameNumber()
        env.step(0)
        frames.append(env.unwrapped.ale.getFrameNumber() - before)
        env.close()
    assert frames == [4, 2]


def test_game_begins_behind_its_first_action():
    env = make_environment(Game("ALE/Breakout-v5"), EnvContext({"repeat_action_probability": 0.0}))
    env.reset(seed=1)
    frames = [env.step(0)[0][..., -1] for _ in range(4)]
    assert any((frames[0] != each).any() for each in frames)  # the ball moves
    env.close()


def test_wrappers_in_the_spellings_of_ray():
    env = wrap_deepmind(gymnasium.make("ALE/Pong-v5", frameskip=1), framestack=True)
    assert is_atari(env) and not is_atari(gymnasium.make("CartPole-v1"))
    assert env.reset(seed=1)[0].shape == (84, 84, 4)
    env.close()
    env = wrap_atari_for_new_api_stack(gymnasium.make("ale_py:ALE/Pong-v5", frameskip=1), framestack=4)
    assert env.reset(seed=1)[0].shape == (64, 64, 4)
    env.close()


def test_game_is_played_again_as_a_gif(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed here")
    config = PPOConfig().environment("ALE/Pong-v5", horizon=6).training(num_epochs=1)
    algo = config.env_runners(num_groups=1, num_envs_per_env_runner=1, rollout_fragment_length=8).build_algo()
    algo.train()
    path = algo.save(str(tmp_path / "saved"))
    algo.stop()
    out = tmp_path / "episode.gif"
    words = ["replay", path, "--episode", "0", "--render", "gif", "--out", str(out)]
    found = CliRunner().invoke(command, words)
    assert found.exit_code == 0, (found.output, found.exception)
    with image.open(out) as picture:
        assert picture.size == (160, 210) and picture.n_frames > 1
