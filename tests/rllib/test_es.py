"""Evolution strategies: the update against plain recomputations, and the same curve for any number of processes."""

import os
import signal

import gymnasium
import numpy as np
import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.es import ESConfig, centred_ranks, pair_weights  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402
from zray.rllib.evolution import BLOCK, draw, make_noise, sum_in_order  # noqa: E402
from zray.rllib.vector_policy import VectorPolicy  # noqa: E402

NOISE = 20_000
ITERATIONS = 3


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=4, log_to_driver=False) as found:
        yield found


def config(workers=0, **options):
    made = ESConfig().environment("CartPole-v1").debugging(seed=3).env_runners(num_env_runners=workers)
    defaults = {"noise_size": NOISE, "episodes_per_batch": 22, "eval_prob": 0.2, "model": {"fcnet_hiddens": [8]}}
    return made.training(**{**defaults, **options})


def curve(algo, iterations=ITERATIONS, between=lambda: None):
    found = []
    for _ in range(iterations):
        result = algo.train()
        found.append((result["episode_reward_mean"], result["timesteps_this_iter"], result["info"]["learner"]))
        between()
    theta = algo.get_policy().get_weights()["theta"].tobytes()
    algo.stop()
    return found, theta


@pytest.fixture(scope="module")
def expected():
    return curve(config().build_algo())


# --- the parts ---


def test_centred_ranks_go_from_minus_a_half_to_a_half():
    returns = np.array([[3.0, 10.0], [-1.0, 7.0], [8.0, 0.0]])
    assert centred_ranks(returns) == pytest.approx(np.array([[2, 5], [0, 3], [4, 1]]) / 5 - 0.5)


def test_equal_returns_share_the_mean_of_their_ranks():
    assert centred_ranks(np.array([[500.0, 500.0], [9.0, 500.0]])) == pytest.approx(
        np.array([[2, 2], [0, 2]]) / 3 - 0.5
    )
    assert centred_ranks(np.full((3, 2), 9.0)) == pytest.approx(np.zeros((3, 2)), abs=1e-7)


def test_top_directions_are_those_with_the_largest_return_of_the_two():
    returns = np.array([[1.0, 2.0], [9.0, 0.0], [4.0, 8.0], [3.0, 3.0]])
    weights = pair_weights(returns, "reward_std", 2)
    assert weights == pytest.approx(np.array([0, 9.0, -4.0, 0]) / np.array([9.0, 0.0, 4.0, 8.0]).std() / 4)
    assert pair_weights(returns, "sign", None) == pytest.approx(np.array([0, 1, 0, 0]) / 8)


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 27, 30])
def test_sum_in_order_is_that_of_a_tree_level_by_level(count):
    leaves = [np.random.default_rng(leaf).standard_normal(50, np.float32) for leaf in range(count)]
    parts = leaves
    while len(parts) > 1:
        groups = [parts[begin : begin + 3] for begin in range(0, len(parts), 3)]
        parts = []
        for group in groups:
            total = group[0].copy()
            for part in group[1:]:
                total += part
            parts.append(total)
    found = sum_in_order(count, 3, lambda leaf: leaves[leaf].copy())
    assert found.tobytes() == parts[0].tobytes()


@pytest.mark.parametrize("hidden", [[], [16], [16, 8]])
def test_policy_computes_what_torch_computes(hidden):
    spaces = gymnasium.spaces.Box(-1, 1, (5,)), gymnasium.spaces.Discrete(3, start=2)
    policy = VectorPolicy(*spaces, {"fcnet_hiddens": hidden, "fcnet_activation": "tanh"})
    policy.use(policy.initial(np.random.default_rng(0)))
    layers = []
    for weights, biases in policy.layers:
        layer = torch.nn.Linear(*weights.shape)
        layer.weight.data, layer.bias.data = torch.from_numpy(weights.T.copy()), torch.from_numpy(biases.copy())
        layers += [layer, torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers[:-1])
    for row in np.random.default_rng(1).standard_normal((10, 5)).astype(np.float32):
        outputs = model(torch.from_numpy(row)).detach().numpy()
        assert policy.forward(row) == pytest.approx(outputs, abs=1e-6)
        assert policy.act(row, explore=False, rng=None) == outputs.argmax() + 2


def test_box_actions_have_noise_only_when_they_explore():
    spaces = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Box(-0.5, 0.5, (1, 1))
    model = {"fcnet_hiddens": [], "fcnet_activation": "tanh"}
    policy = VectorPolicy(*spaces, model, action_noise_std=0.1, normalize_actions=False)
    policy.use(np.array([1, 2, 0.05], np.float32))
    rng = np.random.default_rng(0)
    assert policy.act(np.array([0.1, 0.1]), explore=False, rng=rng) == pytest.approx(np.full((1, 1), 0.35))
    noisy = [policy.act(np.array([0.1, 0.1]), explore=True, rng=rng)[0, 0] for _ in range(1000)]
    assert max(noisy) == 0.5 and np.std(noisy) == pytest.approx(0.095, abs=0.01)


def test_update_is_that_of_a_plain_loop():
    algo = config(eval_prob=0.0, optimizer="sgd", l2_coeff=0.1, stepsize=0.5, momentum=0.0).build_algo()
    theta = algo.get_policy().get_weights()["theta"]
    noise, env, policy = make_noise(3, NOISE), gymnasium.make("CartPole-v1"), algo.rollouts.local.policy
    slices, returns = [], []
    for pair in range(11):
        offset, seed, _ = draw(3, 0, pair, NOISE - len(theta))
        slices.append(noise[offset : offset + len(theta)])
        pairs = []
        for sign in (1, -1):
            policy.use(theta + np.float32(sign * 0.02) * slices[-1])
            observation, _ = env.reset(seed=seed)
            total, is_over = 0.0, False
            while not is_over:
                observation, reward, terminated, truncated, _ = env.step(policy.forward(observation).argmax())
                total, is_over = total + reward, terminated or truncated
            pairs.append(total)
        returns.append(pairs)
    ranks = centred_ranks(np.array(returns))
    gradient = sum(np.outer(ranks[:, 0] - ranks[:, 1], np.ones(len(theta))) * slices) / 22
    algo.train()
    assert algo.get_policy().get_weights()["theta"] == pytest.approx(theta + 0.5 * (gradient - 0.1 * theta), abs=1e-6)
    algo.stop()


def test_batch_of_steps_is_filled_by_further_rounds():
    algo = config(train_batch_size=1000).build_algo()
    result = algo.train()
    rounds, rest = divmod(len(algo.episodes), 22)
    assert rest == 0 and rounds > 1 and result["timesteps_this_iter"] >= 1000
    algo.stop()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"noise_size": 10}, "noise_size is 10, and the policy has 58 parameters"),
        ({"aggregation": "star"}, 'aggregation is "tree" or "flat"'),
        ({"optimizer": "rmsprop"}, 'optimizer is "adam" or "sgd"'),
        ({"fan_in": 1}, "an integer, at least 2, not 1"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        config(**options).build_algo()


class Faulty(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, context):
        self.fault, self.steps = context["fault"], 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        is_faulty = self.steps == 3
        if is_faulty and self.fault == "raise":
            raise ZeroDivisionError("by nought")
        reward = np.nan if is_faulty and self.fault == "reward" else 1.0
        value = np.inf if is_faulty and self.fault in ("observation", "last") else 0.0
        return np.full(2, value, np.float32), reward, self.steps == 9, is_faulty and self.fault == "last", {}


@pytest.mark.parametrize(
    "fault, message",
    [
        ("raise", r"ZeroDivisionError: by nought, in environment Faulty of process 0, the episode with seed \d+"),
        ("reward", r"The reward is nan, in step 3 of environment Faulty"),
        ("observation", r"The observation holds NaN or infinity, in step 3 of environment Faulty"),
        ("last", r"The observation holds NaN or infinity, in step 3 of environment Faulty"),
    ],
)
def test_faults_of_environments_are_named(fault, message):
    algo = config().environment(Faulty, env_config={"fault": fault}).build_algo()
    with pytest.raises(InvalidEnvironmentError, match=message):
        algo.train()


# --- processes ---


@pytest.mark.parametrize("workers, aggregation", [(1, "tree"), (2, "tree"), (2, "flat"), (4, "tree")])
def test_curve_is_the_same_for_any_number_of_workers(expected, workers, aggregation):
    algo = config(workers, aggregation=aggregation, fan_in=2 if workers == 4 else 4).build_algo()
    if workers == 4:  # the fan-in is part of the order
        assert curve(algo) == curve(config(fan_in=2).build_algo())
    else:
        assert curve(algo) == expected


def test_sum_of_noise_of_whole_subtrees_has_the_bits_of_a_single_process():
    algos = [config(workers, fan_in=2).build_algo() for workers in (0, 1, 2)]
    weights = np.random.default_rng(4).standard_normal(43 * BLOCK + 1, np.float32)
    alone, *others = (algo.rollouts.weighted_noise(5, weights).tobytes() for algo in algos)
    assert others == [alone, alone]
    for algo in algos:
        algo.stop()


def killing(mark):
    """A function that makes CartPole, which kills its process in one episode, once."""

    def make(context):
        class Killing(gymnasium.Wrapper):
            episodes = 0

            def reset(self, **options):
                self.episodes += 1
                return self.env.reset(**options)

            def step(self, action):
                if self.episodes == 15 and os.path.exists(mark):
                    os.unlink(mark)
                    os.kill(os.getpid(), signal.SIGKILL)
                return self.env.step(action)

        return Killing(gymnasium.make("CartPole-v1"))

    return make


def test_curve_is_the_same_though_a_worker_is_killed_in_an_episode(expected, tmp_path):
    mark = tmp_path / "mark"
    mark.touch()
    made = config(2).environment(killing(str(mark)))
    assert curve(made.build_algo()) == expected
    assert not mark.exists()


def test_processes_read_one_table_in_place():
    algo = config(2).build_algo()
    for actor in algo.rollouts.actors:
        table = zray.get(actor.__ray_call__.remote(lambda host: (host.noise.flags.writeable, host.noise.flags.owndata)))
        assert table == (False, False)
    assert not algo.rollouts.local.noise.flags.owndata
    algo.stop()


def test_rollouts_do_without_torch():
    algo = config(1).build_algo()
    algo.train()
    assert not zray.get(algo.rollouts.actors[0].__ray_call__.remote(lambda host: "torch" in __import__("sys").modules))
    algo.stop()


def test_restored_algorithm_goes_on_bit_for_bit(tmp_path):
    algo = config().build_algo()
    algo.train()
    restored = Algorithm.from_checkpoint(algo.save(str(tmp_path / "saved")))
    assert curve(restored) == curve(algo)


def test_es_learns_cartpole_with_a_linear_policy():
    made = ESConfig().environment("CartPole-v1").debugging(seed=1)
    options = {"episodes_per_batch": 20, "noise_stdev": 0.05, "stepsize": 0.02, "l2_coeff": 0.0, "noise_size": 100_000}
    algo = made.training(model={"fcnet_hiddens": []}, **options).build_algo()
    while algo.steps_sampled < 60_000 and algo.train()["episode_reward_mean"] < 400:
        pass
    assert algo.evaluate(20)["episode_reward_mean"] >= 475
    algo.stop()


def test_blocks_are_several_in_these_tests():
    assert 2 * BLOCK < 11  # so that trees have leaves to add


def test_an_action_is_computed_for_one_observation():
    algo = ESConfig().environment("CartPole-v1").training(noise_size=10_000).build_algo()
    assert algo.compute_single_action(np.zeros(4, np.float32), explore=False) in (0, 1)
    algo.stop()
