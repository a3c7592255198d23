"""SAC: losses, targets and densities against plain recomputations; what its memory holds; checkpoints; spaces."""

import copy

import gymnasium
import numpy as np
import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig, Squashed  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    torch.set_num_threads(1)
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def sac(workers=0, **options):
    config = SACConfig().environment("Pendulum-v1").debugging(seed=3)
    config.env_runners(num_env_runners=workers, num_envs_per_env_runner=2, num_groups=2)
    model = {"fcnet_hiddens": [16], "fcnet_activation": "tanh"}
    given = {"learning_starts": 64, "train_batch_size": 32, "updates_per_iteration": 3, "capacity": 500}
    return config.training(**{"model": model, **given, **options})


def digest(algo):
    return {name: value.tobytes() for name, value in algo.get_policy().get_weights().items()}


def curve(algo, iterations):
    found = [algo.train()["info"]["learner"] for _ in range(iterations)]
    weights = digest(algo)
    algo.stop()
    return found, weights


def network(module, rows):
    """The outputs of a network of one hidden layer, in float64."""
    w = {name: value.double().numpy() for name, value in module.state_dict().items()}
    return np.tanh(rows @ w["0.weight"].T + w["0.bias"]) @ w["2.weight"].T + w["2.bias"]


def plain_sample(actor, rows, noise):
    means, logs = np.split(network(actor.body, rows), 2, -1)
    u = means + np.exp(logs) * noise
    log_normal = -0.5 * noise**2 - logs - 0.5 * np.log(2 * np.pi)
    return np.tanh(u), (log_normal - np.log(1 - np.tanh(u) ** 2)).sum(-1)


def smaller(q, rows, actions):
    joined = np.concatenate([rows, actions], -1)
    return np.minimum(network(q.first, joined), network(q.second, joined))[:, 0]


def test_losses_are_those_of_a_plain_recomputation():
    algo = sac(updates_per_iteration=1, gamma=0.9, tau=0.1, lr=0.01).build_algo()
    for _ in range(6):
        algo.train()
    before = copy.deepcopy((algo.policy.model, algo.q, algo.target_q))
    alpha, rng, seen = float(algo.log_alpha.detach().exp()), copy.deepcopy(algo.rng), []
    draw = algo.memory.draw
    algo.memory.draw = lambda count: seen.append(draw(count)) or seen[0]
    metrics = algo.train()["info"]["learner"]
    algo.stop()
    rows = {name: np.asarray(value, np.float64) for name, value in seen[0].items()}
    noise = [rng.standard_normal((32, 1), dtype=np.float32) for _ in range(2)]
    actor, q, target = before
    observations, following = rows["observations"], rows["next_observations"]

    next_actions, next_log_p = plain_sample(actor, following, noise[0])
    y = rows["rewards"] + 0.9 * rows["alive"] * (smaller(target, following, next_actions) - alpha * next_log_p)
    joined = np.concatenate([observations, rows["actions"]], -1)
    errors = [network(part, joined)[:, 0] - y for part in (q.first, q.second)]
    assert metrics["q_loss"] == pytest.approx(sum(0.5 * np.mean(error**2) for error in errors), rel=1e-3)

    actions, log_p = plain_sample(actor, observations, noise[1])
    loss = np.mean(alpha * log_p - smaller(algo.q, observations, actions))  # Q has taken its step before
    assert metrics["actor_loss"] == pytest.approx(loss, rel=1e-3)
    assert metrics["entropy"] == pytest.approx(-log_p.mean(), rel=1e-3)
    assert (float(algo.log_alpha.detach().exp()) < alpha) == (-log_p.mean() > -1.0)  # the target is -1 action
    for old, new, now in zip(target.parameters(), algo.q.parameters(), algo.target_q.parameters(), strict=True):
        assert torch.allclose(now, 0.9 * old + 0.1 * new, atol=1e-6)


def test_gradient_of_the_actor_goes_through_the_squashed_action():
    """The slope of alpha log pi - Q, with Q a known function, against central differences."""
    generator = np.random.default_rng(0)
    parameters = torch.tensor(generator.standard_normal((5, 4)), requires_grad=True)
    noise = torch.tensor(generator.standard_normal((5, 2)))

    def loss(given):
        actions, log_p = Squashed.sample(given, noise)
        return (0.2 * log_p + ((actions - 0.3) ** 2).sum(-1)).mean()

    assert torch.autograd.gradcheck(loss, (parameters,))


def test_density_of_squashed_actions_is_one_in_all():
    u = torch.linspace(-12, 12, 200_001, dtype=torch.float64).unsqueeze(-1)
    mean, log_std = 0.7, -0.4
    noise = (u - mean) / np.exp(log_std)
    actions, log_p = Squashed.sample(torch.tensor([[mean, log_std]], dtype=torch.float64).expand(len(u), 2), noise)
    assert float(torch.trapezoid(log_p.exp(), actions.squeeze(-1))) == pytest.approx(1.0, abs=1e-4)
    far = Squashed.sample(torch.tensor([[30.0, 0.0]]), torch.zeros(1, 1))[1]
    assert torch.isfinite(far).all()


def test_first_actions_are_uniform_and_within_the_bounds():
    algo = sac(learning_starts=10_000).build_algo()
    for _ in range(15):
        algo.train()
    algo.stop()
    actions = algo.memory.columns["actions"][: algo.memory.size]
    assert actions.min() < -0.9 and actions.max() > 0.9 and abs(actions.mean()) < 0.15
    assert actions.std() == pytest.approx(1 / np.sqrt(3), abs=0.05)
    squashed = Squashed(gymnasium.spaces.Box(np.array([0.0, -2.0]), np.array([1.0, 6.0]), dtype=np.float64))
    assert squashed.to_environment(np.array([-1.0, 1.0])).tolist() == [0.0, 6.0]
    assert squashed.to_environment(np.array([0.0, 0.0])).tolist() == [0.5, 2.0]


class Counts(gymnasium.Env):
    """An environment whose observation is the step; the first one is cut off at step 5, the second one ends there."""

    observation_space = gymnasium.spaces.Box(0, 10, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, config):
        self.is_cut = config.vector_index == 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        is_over = self.steps == 5
        return np.full(1, self.steps, np.float32), 1.0, is_over and not self.is_cut, is_over and self.is_cut, {}


def test_truncated_episode_keeps_its_last_state_and_the_value_of_it():
    algo = sac(learning_starts=1_000).environment(Counts).env_runners(num_groups=1).build_algo()
    algo.train()
    algo.train()
    algo.stop()
    rows = {name: value[: algo.memory.size].reshape(16, 2) for name, value in algo.memory.columns.items()}
    assert (rows["observations"] == (np.arange(16) % 5)[:, None]).all()
    assert (rows["next_observations"][:, 0] == np.arange(16) % 5 + 1).all()
    assert (rows["alive"][:, 0] == 1).all()
    assert (rows["alive"][:, 1] == (np.arange(16) % 5 != 4)).all()


@pytest.fixture(scope="module")
def expected():
    return curve(sac().build_algo(), 6)


def test_curve_is_the_same_for_workers(expected):
    assert curve(sac(2).build_algo(), 6) == expected


def test_restored_algorithm_goes_on_bit_for_bit(expected, tmp_path):
    algo = sac().build_algo()
    for _ in range(4):
        algo.train()
    restored = Algorithm.from_checkpoint(algo.save(str(tmp_path / "saved")))
    algo.stop()
    found, weights = curve(restored, 2)
    assert (expected[0][:4] + found, weights) == expected


def test_fixed_alpha_stays():
    algo = sac(alpha=0.2, target_entropy=-3.0).build_algo()
    for _ in range(3):
        metrics = algo.train()["info"]["learner"]
    algo.stop()
    assert metrics["alpha"] == pytest.approx(0.2)


def test_spaces_that_sac_cannot_have_are_named():
    with pytest.raises(NotImplementedError, match="not of Discrete: use DQN"):
        SACConfig().environment("CartPole-v1").build_algo()
    with pytest.raises(ValueError, match="SAC needs bounded actions"):
        Squashed(gymnasium.spaces.Box(-np.inf, np.inf, (1,)))


class Whole(gymnasium.Env):
    """The reward is higher, the nearer two integers are to (5, 2)."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(0, 7, (2,), np.int64)

    def __init__(self, config=None):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        return np.zeros(2, np.float32), -float(np.abs(action - [5, 2]).sum()), False, self.steps == 10, {}


def test_actions_of_integers_are_learnt():
    algo = (
        SACConfig()
        .environment(Whole)
        .debugging(seed=1)
        .training(learning_starts=64, model={"fcnet_hiddens": [32]}, lr=1e-2)
        .build_algo()
    )
    for _ in range(30):
        algo.train()
    assert algo.evaluate(5)["episode_reward_mean"] > -15  # of random actions: about -40
    assert algo.compute_single_action(np.zeros(2, np.float32), explore=False).dtype == np.int64
    algo.stop()


def test_images_are_refused_in_words():
    class Pictures(Whole):
        observation_space = gymnasium.spaces.Box(0, 255, (24, 24, 3), np.uint8)

    with pytest.raises(NotImplementedError, match="SAC has no convolutions"):
        SACConfig().environment(Pictures).build_algo()
