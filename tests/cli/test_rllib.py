"""`zray rllib`: policies trained, evaluated, runs played again and drawn."""

import io
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from cli.rllib import reporter_for  # noqa: E402
from cli.rllib import rllib as command  # noqa: E402
from cli.training import TrainingTable  # noqa: E402
from tests.rllib.agents import Roles  # noqa: E402
from tests.scripts import ROOT, environment  # noqa: E402
from zray import tune  # noqa: E402
from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.runs import episode_of, read_run  # noqa: E402
from zray.tune.folder_lock import FolderLock  # noqa: E402
from zray.tune.interrupts import command_to_resume, how_to_go_on  # noqa: E402


class Walk(gymnasium.Env):
    """A place between -5 and 5, from a random start, with a random push in each step."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    render_mode = None

    def __init__(self, config=None):
        self.is_honest = not (config or {}).get("forgets_its_seed")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed if self.is_honest else None)
        self.place = float(self.np_random.uniform(-3, 3))
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place += (1 if action else -1) * float(self.np_random.uniform(0, 1))
        return np.array([self.place], np.float32), self.place, abs(self.place) > 5, False, {}

    def render(self):
        picture = np.zeros((8, 24, 3), np.uint8)
        picture[2:6, min(23, max(0, round(12 + self.place)))] = 255
        return picture


ENV = f"{__name__}:Walk"
CONFIG = {
    "env": ENV,
    "num_groups": 2,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 32,
    "num_sgd_iter": 1,
    "model": {"fcnet_hiddens": [8]},
}


def invoke(*arguments, code=0):
    """The standard output of a command."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], prog_name="zray rllib")
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout if code == 0 else result.output


@pytest.fixture(scope="module")
def folder(nothing_left, tmp_path_factory):
    """An experiment of two seeds and four iterations, with a checkpoint behind the second and the fourth one."""
    storage = tmp_path_factory.mktemp("experiments")
    with zray.init(num_cpus=2, log_to_driver=False):
        given = ("--config", json.dumps(CONFIG), "--stop", '{"training_iteration": 4}', "--seeds", 2)
        where = ("--local-dir", storage, "--experiment-name", "walk", "--checkpoint-freq", 2, "--verbose", 0)
        invoke("train", "--run", "PPO", "--env", ENV, *given, *where)
    return storage / "walk"


def test_train_writes_an_experiment_of_each_seed(folder):
    runs = [read_run(str(folder), str(number)) for number in range(2)]
    assert [run.config["seed"] for run in runs] == [0, 1]
    assert all(len(run.results) == 4 and [each.iteration for each in run.checkpoints] == [2, 4] for run in runs)


def test_second_training_in_a_folder_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "held").mkdir()
    lock = FolderLock(str(tmp_path / "held"))
    given = ("--config", json.dumps(CONFIG), "--stop", '{"training_iteration": 1}')
    where = ("--local-dir", tmp_path, "--experiment-name", "held", "--verbose", 0)
    with zray.init(num_cpus=1, log_to_driver=False):
        said = invoke("train", "--run", "PPO", "--env", ENV, *given, *where, code=1)
    lock.release()
    assert f"Error: Another process runs the experiment 'held' in {tmp_path}/held: pid {os.getpid()} on " in said


def recorded_episodes(**options):
    """All episodes of a training, and the iteration in which each has ended."""
    algo = tune.registry.get_trainable_cls("PPO")(config={**CONFIG, **options})
    torch.set_num_threads(1)
    episodes = []
    for iteration in range(1, 5):
        algo.train()
        episodes += [(iteration, episode) for episode in algo.last_episodes]
    algo.stop()
    return episodes


def test_any_episode_is_played_again(folder):
    run = read_run(str(folder), "1")
    episodes = recorded_episodes(seed=1)
    assert run.results[-1]["episodes_total"] == len(episodes)
    later = [number for number, (iteration, _) in enumerate(episodes) if iteration > 2]
    starts = set()
    for number in (0, later[0], later[-1]):
        found = episode_of(run, number)
        assert (found.iteration, found.episode[:5]) == (episodes[number][0], episodes[number][1][:5])
        assert len(found.steps) == found.episode.length
        assert sum(reward for _, reward in found.steps) == pytest.approx(found.episode.episode_return)
        starts.add(found.begun_at)
    assert {0, 2} <= starts  # one that had begun before the checkpoint needs an earlier one


def test_replay_shows_the_episode(folder):
    shown = json.loads(invoke("replay", folder, "--trial", 0, "--episode", 1, "--format", "json"))
    (iteration, episode) = recorded_episodes(seed=0)[1]
    assert (shown["return"], shown["length"], shown["seed"]) == (episode.episode_return, episode.length, episode.seed)
    assert (shown["iteration"], len(shown["steps"])) == (iteration, episode.length)
    assert f"episode 1: return {episode.episode_return:g}, {episode.length} steps" in invoke(
        "replay", folder, "--trial", 0, "--episode", 1
    )


def test_replay_of_an_episode_that_there_is_not_says_how_many_there_are(folder):
    count = read_run(str(folder), "0").results[-1]["episodes_total"]
    assert f"has {count} episodes: give a number from 0 to {count - 1}" in invoke(
        "replay", folder, "--trial", 0, "--episode", 10_000, code=1
    )
    assert "holds 2 runs: name one of PPO_" in invoke("replay", folder, "--episode", 0, code=1)


def test_replay_in_an_environment_that_forgets_its_seed_says_so(tmp_path):
    algo = tune.registry.get_trainable_cls("PPO")(config={**CONFIG, "env_config": {"forgets_its_seed": True}})
    while not algo.train()["episodes_this_iter"]:
        pass
    path = algo.save(str(tmp_path / "saved"))
    algo.stop()
    assert "Let reset(seed=...) seed everything that is drawn" in invoke("replay", path, "--episode", 0, code=1)


def test_evaluate_plays_the_policy_of_a_checkpoint(folder):
    run = read_run(str(folder), "0")
    shown = json.loads(invoke("evaluate", run.checkpoints[-1].path, "--episodes", 3, "--format", "json"))
    algo = Algorithm.from_checkpoint(run.checkpoints[-1].path)
    expected = algo.evaluate(3)["episode_reward_mean"]
    algo.stop()
    assert shown["mean"] == pytest.approx(expected) and [row["seed"] for row in shown["episodes"]] == [
        1_000_000,
        1_000_001,
        1_000_002,
    ]
    assert "Mean return of 2 episodes" in invoke("evaluate", folder, "--trial", 0, "--episodes", 2)


@pytest.mark.parametrize("words", [["evaluate"], ["replay", "--episode", "0"]], ids=lambda words: words[0])
def test_modules_beside_a_run_are_not_run_in_place_of_installed_ones(tmp_path, words):
    for name in ("torch", "gymnasium", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    program = "import sys; del sys.path[0]; from cli.main import main; main()"  # as the installed command
    line = [sys.executable, "-c", program, "rllib", *words, "absent"]
    done = subprocess.run(line, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "absent" in done.stderr and done.returncode == 1 and not (tmp_path / "ran").exists()


def test_several_agents_are_evaluated_and_played_again(tmp_path):
    config = PPOConfig().environment(Roles).env_runners(num_groups=1, rollout_fragment_length=16)
    config.multi_agent(policies={"same", "other"}, policy_mapping_fn=lambda agent_id, *args, **kwargs: agent_id)
    algo = config.build_algo()
    algo.train()
    path = algo.save(str(tmp_path / "saved"))
    expected = algo.evaluate(2)["episode_reward_mean"]
    returns = [episode.episode_return for episode in algo.last_episodes]
    algo.stop()
    shown = json.loads(invoke("evaluate", path, "--episodes", 2, "--format", "json"))
    assert shown["mean"] == pytest.approx(expected) and [row["length"] for row in shown["episodes"]] == [8, 8]
    assert "Mean return of 1 episodes" in invoke("evaluate", path, "--episodes", 1, "--explore")
    shown = json.loads(invoke("replay", path, "--episode", 0, "--format", "json"))
    assert shown["return"] == returns[0] and set(shown["steps"][0]["action"]) == {"same", "other"}


def test_recurrent_policy_is_evaluated(tmp_path):
    config = PPOConfig().environment("CartPole-v1").env_runners(num_groups=1, rollout_fragment_length=16)
    algo = config.training(model={"use_lstm": True, "fcnet_hiddens": [4], "lstm_cell_size": 4}).build_algo()
    path = algo.save(str(tmp_path / "saved"))
    expected = algo.evaluate(2)["episode_reward_mean"]
    algo.stop()
    shown = json.loads(invoke("evaluate", path, "--episodes", 2, "--format", "json"))
    assert shown["mean"] == pytest.approx(expected)


@pytest.mark.parametrize("words", [("replay", "--episode", 0), ("evaluate", "--episodes", 1)])
def test_render_writes_a_gif(folder, tmp_path, words):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed here")
    out = tmp_path / "episode.gif"
    invoke(words[0], folder, "--trial", 0, *words[1:], "--render", "gif", "--out", out)
    with image.open(out) as found:
        assert found.size == (24, 8) and found.n_frames > 1


def test_gif_without_a_library_says_what_to_install(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = tmp_path / "episode.gif"
    assert "A GIF needs Pillow" in invoke("evaluate", folder, "--trial", 0, "--render", "gif", "--out", out, code=1)


def test_plot_is_one_page_with_each_seed(folder):
    path = invoke("plot", folder).strip()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name in ("episode_reward_mean", "episode_len_mean", "loss: policy_loss", "environment steps per second"):
        assert re.search(f"<h2>{name}</h2>(<div[^>]*>)?<svg", text)
    assert text.count('class="seed"') >= 8 and 'class="band"' in text and "mean of 2 seeds" in text
    assert "http" not in text.replace("http://www.w3.org", "") and "nan" not in text.lower().replace("nanum", "")


def test_unknown_option_ends_train_before_it_begins(tmp_path):
    arguments = (
        "train",
        "--run",
        "PPO",
        "--env",
        "CartPole-v1",
        "--local-dir",
        tmp_path,
        "--config",
        '{"clip_parm": 1}',
    )
    assert "Near: 'clip_param', of training()" in invoke(*arguments, code=1)
    assert os.listdir(tmp_path) == []
    assert "Name an algorithm and an environment" in invoke("train", code=2)


def test_train_runs_tuned_options_by_their_name(monkeypatch):
    from zray.rllib.tuned import TUNED

    ran = []
    monkeypatch.setattr(tune, "run_experiments", lambda experiments, **options: ran.append(experiments["default"]))
    row = TUNED["cartpole-no-velocity-ppo-lstm"]
    invoke("train", "--tuned", "cartpole-no-velocity-ppo-lstm", "--config", '{"seed": 3}')
    assert (ran[0]["run"], ran[0]["stop"]) == ("PPO", row["stop"])
    assert ran[0]["config"] == {"env": row["env"], **row["config"], "seed": 3}
    assert "No tuned options are called 'cartpole'" in invoke("train", "--tuned", "cartpole", code=2)


def trial(number, status, **result):
    found = {"last_result": result or None, "latest_result": result}
    return SimpleNamespace(status=status, config={"lr": 1, "seed": number}, **found)


def test_table_of_a_training_has_steps_returns_and_the_share_that_is_done():
    result = {"training_iteration": 3, "timesteps_total": 3_000, "time_total_s": 1.5, "episode_len_mean": 9.6}
    trials = [
        trial(0, "TERMINATED", **result, episode_reward_mean=21.34),
        trial(1, "RUNNING", **result, episode_reward_mean=float("nan")),
        trial(2, "PENDING"),
    ]
    console = Console(file=io.StringIO(), width=80)
    reporter = TrainingTable({"timesteps_total": 12_000, "episode_reward_mean": 475}, console)
    assert reporter.should_report(trials)
    reporter.report(trials, False)
    assert not reporter.should_report(trials) and reporter.should_report(trials, done=True)
    reporter.report(trials, True)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    heading = ["trial", "status", "seed", "iter", "steps", "steps/s", "return", "length", "time", "done"]
    assert lines[0][:5] == ["1", "of", "3", "trials", "ended,"] and heading in lines
    rows = [line for line in lines if line and line[1] in ("TERMINATED", "RUNNING", "PENDING")]
    assert rows[-3:] == [
        ["1", "RUNNING", "1", "3", "3,000", "2,000", "10", "2", "s", "25%"],
        ["2", "PENDING", "2"],
        ["0", "TERMINATED", "0", "3", "3,000", "2,000", "21.3", "10", "2", "s", "25%"],
    ]


def test_table_of_a_training_is_for_terminals_alone(monkeypatch):
    given = []
    monkeypatch.setattr(tune, "run_experiments", lambda experiments, **options: given.append(options))
    invoke("train", "--algo", "PPO", "--env", "CartPole-v1", "--stop", '{"training_iteration": 1}')
    assert given[0]["progress_reporter"] is None
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: True))
    assert isinstance(reporter_for({"default": {"stop": {"time_total_s": 3}}}, 1), TrainingTable)
    assert reporter_for({"default": {}}, 3) is None


def test_module_of_2018_is_the_command():
    for module, words in (("train", "Train an algorithm"), ("rollout", "Play episodes"), ("evaluate", "Play episodes")):
        shown = subprocess.run(
            [sys.executable, "-m", f"zray.rllib.{module}", "--help"],
            env=environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert words in shown.stdout, shown.stderr


def test_hint_on_stop_follows_the_checks(monkeypatch):
    ran, lines = [], []

    def run(experiments, **options):
        ran.append(how_to_go_on.get()("/a"))
        lines.append(command_to_resume.get())

    monkeypatch.setattr(tune, "run_experiments", run)
    said = invoke("train", "--run", "PP0", "--env", "CartPole-v1", code=1)
    assert "PP0" in said and "--stop" not in said and not ran
    said = invoke("train", "--run", "PPO", "--env", "CartPole-v1", "--experiment-name", "my run")
    assert "No --stop is given" in said
    assert ran == ["the same command and --resume --experiment-name 'my run'"]
    assert "Tuner.restore" in how_to_go_on.get()("/a")
    assert lines == ["zray rllib train --run PPO --env CartPole-v1 --experiment-name 'my run' --resume"]
    invoke("train", "--run", "PPO", "--env", "CartPole-v1", "--local-dir", "a", "--checkpoint-at-end", "--resume")
    given = f"--local-dir {os.path.abspath('a')} --checkpoint-at-end --resume"
    assert lines[1] == f"zray rllib train --run PPO --env CartPole-v1 {given}"
    assert command_to_resume.get() == ""


def test_class_that_a_module_lacks_is_named(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(tune, "run_experiments", lambda experiments, **options: None)
    said = invoke("train", "--run", "PPO", "--env", f"{__name__}:Wakl", code=1)
    assert said.startswith(f"Error: The module {__name__} has no 'Wakl'.  Did you mean 'Walk'?  Its classes: ")
    assert "gymnasium" not in said
    assert "has no 'Wakl'" in invoke("evaluate", folder, "--trial", 0, "--env", f"{__name__}:Wakl", code=1)
    assert "No module named 'absent_module'" in invoke("train", "--run", "PPO", "--env", "absent_module:A", code=1)
    (tmp_path / "file.yaml").write_text(f"one: {{run: PPO, env: '{__name__}:Wakl'}}")
    assert "has no 'Wakl'" in invoke("train", "-f", tmp_path / "file.yaml", code=1)
    tune.register_env("a:b", lambda config: None)
    invoke("train", "--run", "PPO", "--env", "a:b")
    said = invoke("train", "--run", "PPO", "--env", f"{__name__}.Walk", code=1)
    assert f"Write '{__name__}:Walk' for a class of a module." in said
