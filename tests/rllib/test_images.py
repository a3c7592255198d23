"""Images: which network they go to, that they stay small in a batch, and that a policy learns from them."""

import gymnasium
import numpy as np
import pytest

from .catch import SIDE, Catch

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.convolution import Convolution, is_image  # noqa: E402


def convolutions(model):
    return [layer for layer in model.layers if isinstance(layer, torch.nn.Conv2d)]


def test_image_of_84_cells_goes_to_the_network_of_the_dqn_paper():
    model = Convolution((84, 84, 4), {})
    shapes = [(each.out_channels, each.kernel_size, each.stride) for each in convolutions(model)]
    assert shapes == [(32, (8, 8), (4, 4)), (64, (4, 4), (2, 2)), (64, (3, 3), (1, 1))]
    assert model.size == 512
    assert sum(each.numel() for each in model.parameters()) == 1_684_128  # as published, without the heads


def test_features_are_those_of_torch_on_images_between_0_and_1():
    model = Convolution((5, 6, 2), {"conv_filters": [[3, [1, 3], 1], [4, 2, 2]]})
    images = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 2), dtype=np.uint8)
    found = model(torch.from_numpy(images))
    first, second = convolutions(model)
    hidden = torch.from_numpy(images / 255.0).float().permute(0, 3, 1, 2)
    hidden = torch.relu(torch.nn.functional.conv2d(hidden, first.weight, first.bias, padding=(0, 1)))
    hidden = torch.relu(torch.nn.functional.conv2d(hidden, second.weight, second.bias, stride=2))
    assert model.size == 4 * 2 * 3
    assert torch.allclose(found, hidden.flatten(1), atol=1e-5)


def test_channels_of_stacked_frames_are_on_the_first_axis():
    torch.manual_seed(0)
    first = Convolution((4, 84, 84), {})
    last = Convolution((84, 84, 4), {})
    last.load_state_dict(first.state_dict())
    images = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    assert torch.allclose(first(images), last(images.permute(0, 2, 3, 1)), atol=1e-5)


def test_filters_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"Layer 2 of conv_filters, \[8, 11, 1\], does not fit .* \(8, 8, 1\): 4x4"):
        Convolution((8, 8, 1), {"conv_filters": [[8, 3, 2], [8, 11, 1]]})


def test_boxes_of_three_axes_are_images():
    box = gymnasium.spaces.Box
    assert is_image(box(0, 1, (4, 4, 1)), {})
    assert not is_image(box(0, 1, (4, 4)), {})
    assert is_image(box(0, 1, (4, 4)), {"conv_filters": [[8, 3, 1]]})
    assert not is_image(gymnasium.spaces.Dict({"image": box(0, 1, (4, 4, 1))}), {})


def small(config):
    return config.environment(Catch).training(model={"conv_filters": [[4, 3, 2]]})


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_images_stay_numbers_of_8_bits_in_batches(name):
    config = small(PPOConfig() if name == "ppo" else DQNConfig()).env_runners(rollout_fragment_length=4)
    if name == "dqn":
        config.training(learning_starts=8, updates_per_iteration=2)
    algo = config.build_algo()
    algo.train()
    (batch, *_) = algo.collect(4)
    assert batch.observations.dtype == np.uint8
    assert batch.observations.shape == (4, 4, SIDE, SIDE, 1)
    assert algo.compute_single_action(batch.observations[0, 0]) in (0, 1, 2)
    if name == "dqn":
        assert algo.memory.columns["observations"].dtype == np.uint8
    algo.stop()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_ppo_learns_to_catch_from_pixels():
    torch.set_num_threads(1)
    config = PPOConfig().environment(Catch).training(lr=1e-3, num_epochs=4, minibatch_size=256)
    algo = config.env_runners(rollout_fragment_length=64).build_algo()
    best = -1.0
    while algo.steps_sampled < 40_000 and best < 0.95:
        algo.train()
        if algo.steps_sampled % 2_048 == 0:
            best = algo.evaluate(50)["episode_reward_mean"]
    algo.stop()
    assert best >= 0.95
