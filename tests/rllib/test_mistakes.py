"""Calls of an algorithm that cannot be, and places of results where programs for Ray look."""

import gymnasium
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray import tune  # noqa: E402
from zray.rllib.algorithms.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPO, PPOConfig  # noqa: E402
from zray.rllib.algorithms.registry import get_algorithm_class  # noqa: E402
from zray.rllib.environments import creator_of  # noqa: E402

from .agents import Roles  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

spaces = gymnasium.spaces


class Sampled(gymnasium.Env):
    """Observations are drawn from a space of the env_config."""

    def __init__(self, config):
        self.observation_space, self.action_space = config["space"], spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, True, {}


def small(config=None, env="CartPole-v1", **env_config):
    made = (config or PPOConfig()).environment(env, env_config=env_config).training(model={"fcnet_hiddens": [4]})
    return made.env_runners(num_groups=1, num_envs_per_env_runner=1, rollout_fragment_length=8)


# --- after the end ---


@pytest.mark.parametrize("call", ["train", "evaluate"])
@pytest.mark.parametrize("name", ["PPO", "ES"])
def test_algorithm_that_has_been_stopped_says_so(name, call):
    config = small(get_algorithm_class(name).get_default_config())
    if name == "ES":
        config.training(noise_size=1_000)
    algo = config.build_algo()
    algo.stop()
    with pytest.raises(RuntimeError, match=f"{name} has been stopped, and its environments are closed: call stop"):
        getattr(algo, call)()
    assert algo.compute_single_action([0.0] * 4) in (0, 1)
    algo.stop()


@pytest.mark.usefixtures("session")
def test_stopped_algorithm_saves_no_checkpoint_without_its_environments(tmp_path):
    algo = small().env_runners(num_env_runners=1).build_algo()
    algo.stop()
    with pytest.raises(RuntimeError, match="has been stopped"):
        algo.save(str(tmp_path / "saved"))


# --- checkpoints that are not there ---


@pytest.mark.parametrize("form", [str, lambda path: tune.Checkpoint(str(path))])
def test_checkpoint_that_does_not_exist_is_named(tmp_path, form):
    absent = form(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="^The path .*nowhere does not exist: there is no algorithm to restore"):
        Algorithm.from_checkpoint(absent)
    algo = small().build_algo()
    for call in (algo.restore, algo.restore_from_path):
        with pytest.raises(FileNotFoundError, match="^The path .*nowhere does not exist.*Pass the path that"):
            call(absent)
    algo.stop()


def test_folder_that_is_no_checkpoint_names_those_in_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no checkpoint of an algorithm: no algorithm_state.pkl is in it"):
        PPO.from_checkpoint(tmp_path)
    algo = small().build_algo()
    algo.save(str(tmp_path / "checkpoint_000001"))
    with pytest.raises(FileNotFoundError, match="Checkpoints are in it: checkpoint_000001"):
        algo.restore(str(tmp_path))
    algo.stop()
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="is no folder of a checkpoint, but a file"):
        Algorithm.from_checkpoint(tmp_path / "file")


def test_trainable_restores_from_what_is_there(tmp_path):
    class Old(tune.Trainable):
        def _restore(self, path):
            self.found = path

    made = Old()
    with pytest.raises(FileNotFoundError, match="The path .* does not exist: there is no checkpoint of Old to restore"):
        made.restore(str(tmp_path / "model-1"))
    (tmp_path / "model-1.index").write_text("")
    made.restore(str(tmp_path / "model-1"))  # as in 2018
    assert made.found == str(tmp_path / "model-1")


# --- environments ---


def test_class_of_a_module_written_with_a_dot_is_given_its_form():
    with pytest.raises(
        ValueError, match="No environment is called 'my.games.Maze'.* Write 'my.games:Maze' for a class"
    ):
        creator_of("my.games.Maze")
    with pytest.raises(Exception, match="Write 'gymnasium.envs.box:Box' for a class"):
        small(env="gymnasium.envs.box.Box").build_algo()


@pytest.mark.parametrize("config", [PPOConfig, DQNConfig, ESConfig])
@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Dict(a=spaces.Tuple([spaces.Text(5), spaces.Discrete(2)])),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Discrete(2), spaces.Discrete(2)),
    ],
    ids=["Text", "Text", "Sequence", "Graph"],
)
def test_observation_that_is_no_row_of_numbers_is_refused(config, space, request):
    kind = request.node.callspec.id.partition("-")[0].rstrip("01")
    with pytest.raises(NotImplementedError, match=f"not of {kind} yet.  Turn them into numbers in a wrapper"):
        small(config(), Sampled, space=space).build_algo()


# --- results ---


@pytest.mark.parametrize("name", ["PPO", "A2C", "A3C", "DQN", "SAC"])
def test_results_have_the_learning_rate(name):
    env = "Pendulum-v1" if name == "SAC" else "CartPole-v1"
    config = small(get_algorithm_class(name).get_default_config(), env).training(lr=[[0, 0.5], [16, 0.25]])
    few = {"learning_starts": 0, "updates_per_iteration": 1, "grads_per_step": 1, "train_batch_size": 8}
    algo = config.update_from_dict({key: each for key, each in few.items() if key in config}).build_algo()
    rates = []
    for _ in range(3):
        result = algo.train()
        learner = result["info"]["learner"]
        rates.append(learner["default_policy"]["learner_stats"]["cur_lr"])
        assert learner["cur_lr"] == result["learners"]["default_policy"]["cur_lr"] == rates[-1]
    algo.stop()
    assert rates[-1] == 0.25 and 0.25 <= rates[0] <= 0.5


def test_results_of_several_policies_have_the_rate_of_each():
    config = (
        small(env=Roles)
        .training(lr=0.5)
        .multi_agent(
            policies={"same": (None, None, None, {"lr": 0.25}), "other": None},
            policy_mapping_fn=lambda agent, *args, **kwargs: agent,
        )
    )
    algo = config.build_algo()
    result = algo.train()
    algo.stop()
    found = {name: each["learner_stats"]["cur_lr"] for name, each in result["info"]["learner"].items()}
    assert found == {"same": 0.25, "other": 0.5}
    assert {name: each["cur_lr"] for name, each in result["learners"].items()} == found
