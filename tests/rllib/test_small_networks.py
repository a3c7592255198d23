"""The forward pass of small networks in numpy is that of torch."""

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.networks import ActorCritic  # noqa: E402
from zray.rllib.small_networks import SmallNetwork  # noqa: E402


def model(hidden, activation="tanh"):
    torch.manual_seed(1)
    return ActorCritic(4, 3, False, {"fcnet_hiddens": hidden, "fcnet_activation": activation})


def rows(count=16):
    return np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32)


def agrees(network, made):
    given = rows()
    before = given.copy()
    found = network(given)
    with torch.no_grad():
        expected = made(torch.from_numpy(given))
    assert (given == before).all()
    return all(np.allclose(left, right.numpy(), atol=1e-6) for left, right in zip(found, expected, strict=True))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [[], [8], [64, 32]])
def test_parameters_and_values_are_those_of_torch(hidden, activation):
    made = model(hidden, activation)
    assert SmallNetwork.fits(made) and agrees(SmallNetwork(made), made)


def test_weights_are_those_of_now():
    made = model([8])
    network = SmallNetwork(made)
    assert agrees(network, made)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(1.0)  # in place, as optimisers do it
    assert agrees(network, made)
    for parameter in made.parameters():
        parameter.data = parameter.data * 0.5  # in another place
    assert agrees(network, made)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copy_reads_the_weights_of_the_copied_model(copied):
    made = model([8])
    network = SmallNetwork(made)
    network(rows())
    other_network, other = copied((network, made))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    assert agrees(other_network, other) and agrees(network, made)


def test_large_batches_hooks_and_other_layers_are_left_to_torch():
    made = model([64, 64])
    network = SmallNetwork(made)
    assert network.takes(rows(64)) and not network.takes(rows(65))
    hook = made.policy[0].register_forward_hook(lambda module, given, result: result)
    assert not network.takes(rows())
    hook.remove()
    assert network.takes(rows())
    assert not SmallNetwork.fits(model([8], "silu")) and not SmallNetwork.fits(torch.nn.Linear(4, 3))
