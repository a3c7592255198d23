"""Programs in the manner of those that people published for Ray, of 2018, of the middle and of today."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from tests.rllib.test_checks import Hanging as Steps  # noqa: E402

# The size of a training, in one spelling of each time: all else is as published.
SIZE_2018 = "num_workers=0, timesteps_per_batch=64, num_sgd_iter=1, model={'fcnet_hiddens': [8]}"
SIZE = "num_workers=0, train_batch_size=64, num_sgd_iter=1, model={'fcnet_hiddens': [8]}"

# Name -> text.  docs/rllib.md lists what each needed.
PROGRAMS = {
    "2018: agent in a loop": f"""
import zray.rllib.ppo as ppo
config = ppo.DEFAULT_CONFIG.copy()
config.update(dict({SIZE_2018}))
alg = ppo.PPOAgent(config=config, env="CartPole-v1")
for i in range(2):
    result = alg.train()
    print("result: {{}}".format(result))
assert alg.iteration == 2
alg.stop()
""",
    "2018: agent by its name, for a rollout": f"""
from zray.rllib.agents.registry import get_agent_class
cls = get_agent_class("PPO")
agent = cls(env="CartPole-v1", config=dict({SIZE}))
import gymnasium as gym
env = gym.make("CartPole-v1")
state, done, reward_total = env.reset()[0], False, 0.0
while not done:
    action = agent.compute_action(state)
    state, reward, terminated, truncated, _ = env.step(action)
    done = terminated or truncated
    reward_total += reward
assert reward_total > 0
agent.stop()
""",
    "2018: experiment of Tune": """
from zray.tune import run_experiments, grid_search
trials = run_experiments({"cartpole": {
    "run": "DQN", "env": "CartPole-v1", "stop": {"training_iteration": 1}, "local_dir": FOLDER,
    "config": {"lr": grid_search([1e-3]), "buffer_size": 500, "schedule_max_timesteps": 2000, "sample_batch_size": 4}}})
assert trials[0].last_result["timesteps_total"] > 0
""",
    "middle: trainer with a copy of the defaults": f"""
from zray.rllib.agents import ppo
from zray.tune.logger import pretty_print
config = ppo.DEFAULT_CONFIG.copy()
config["num_gpus"] = 0
config.update(dict({SIZE}))
config["sgd_minibatch_size"] = 32
trainer = ppo.PPOTrainer(config=config, env="CartPole-v1")
print(pretty_print(trainer.train()))
checkpoint = trainer.save(FOLDER)
trainer.restore(checkpoint)
trainer.stop()
""",
    "middle: own environment by register_env": f"""
from zray.tune.registry import register_env
from zray.rllib.agents.ppo import PPOTrainer
register_env("steps", lambda env_config: Steps(env_config))
trainer = PPOTrainer(env="steps", config=dict(env_config={{"file": __file__}}, framework="torch", {SIZE}))
assert trainer.train()["episode_len_mean"] <= 7
trainer.stop()
""",
    "middle: traffic lights": """
from zray import tune
from zray.rllib.algorithms.ppo import PPOConfig
config = (
    PPOConfig()
    .environment(env="CartPole-v1", disable_env_checking=True)
    .rollouts(num_rollout_workers=0, rollout_fragment_length=32)
    .training(train_batch_size=64, lr=2e-5, gamma=0.95, lambda_=0.9, use_gae=True, clip_param=0.4, grad_clip=None,
              entropy_coeff=0.1, vf_loss_coeff=0.25, sgd_minibatch_size=64, num_sgd_iter=1)
    .debugging(log_level="ERROR")
    .framework(framework="torch")
    .resources(num_gpus=0)
)
tune.run("PPO", name="PPO", stop={"timesteps_total": 64}, checkpoint_freq=1, local_dir=FOLDER, config=config.to_dict())
""",
    "middle: custom metrics": f"""
from zray.rllib.agents.callbacks import DefaultCallbacks
from zray.rllib.agents.ppo import PPOTrainer
from zray.rllib.env import BaseEnv
from zray.rllib.evaluation import MultiAgentEpisode, RolloutWorker
from zray.rllib.policy import Policy
class MyCallbacks(DefaultCallbacks):
    def on_episode_end(self, *, worker: RolloutWorker, base_env: BaseEnv, policies: "dict[str, Policy]",
                       episode: MultiAgentEpisode, env_index: int, **kwargs):
        episode.custom_metrics["length"] = episode.length
trainer = PPOTrainer(env="CartPole-v1", config=dict(callbacks=MyCallbacks, {SIZE}))
while "length_mean" not in trainer.train()["custom_metrics"]:
    pass
trainer.stop()
""",
    "middle: DQN with a replay configuration": """
from zray.rllib.algorithms.dqn.dqn import DQNConfig
config = DQNConfig()
replay_config = {"type": "MultiAgentPrioritizedReplayBuffer", "capacity": 600, "prioritized_replay_alpha": 0.5}
config = config.training(replay_buffer_config=replay_config, num_steps_sampled_before_learning_starts=64)
config = config.exploration(exploration_config={"epsilon_timesteps": 500, "final_epsilon": 0.02})
config = config.environment("CartPole-v1")
algo = config.build()
algo.train()
assert algo.memory.capacity == 600
algo.stop()
""",
    "today: build, train, evaluate, restore": """
from zray.rllib.algorithms.algorithm import Algorithm
from zray.rllib.algorithms.ppo import PPOConfig
config = (
    PPOConfig()
    .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=32)
    .training(lr=0.0004, minibatch_size=32, num_epochs=1, train_batch_size_per_learner=64)
    .learners(num_learners=0)
    .evaluation(evaluation_interval=1, evaluation_num_env_runners=0, evaluation_duration=1,
                evaluation_config=PPOConfig.overrides(explore=False))
)
algo = config.build_algo()
result = algo.train()
assert result["evaluation"]["env_runners"]["episode_return_mean"] > 0
assert "episode_return_mean" in result["env_runners"]
path = algo.save_to_path(FOLDER)
assert Algorithm.from_checkpoint(path).compute_single_action([0.0, 0.0, 0.0, 0.0], explore=False) in (0, 1)
""",
    "today: Tuner over a configuration": """
from zray import train, tune
from zray.rllib.algorithms.ppo import PPOConfig
config = PPOConfig().environment("CartPole-v1").training(lr=tune.grid_search([0.001]))
config.train_batch_size, config.num_epochs = 64, 1
tuner = tune.Tuner(
    config.algo_class, param_space=config,
    run_config=train.RunConfig(stop={"env_runners/num_env_steps_sampled_lifetime": 64}, storage_path=FOLDER,
                               checkpoint_config=train.CheckpointConfig(checkpoint_at_end=True)))
results = tuner.fit()
assert results.get_best_result(metric="env_runners/num_env_steps_sampled_lifetime", mode="max").checkpoint
""",
}


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_runs(name, tmp_path):
    exec(compile(PROGRAMS[name], name, "exec"), {"FOLDER": str(tmp_path / "out"), "Steps": Steps, "__file__": __file__})
