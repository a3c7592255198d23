"""Recorded runs of training: an experiment of Tune, a trial of one, or a checkpoint; and their episodes, played again.

No episode is stored.  Training is the same bit for bit after a restart, so an earlier checkpoint and the configuration
are enough: training is repeated up to the iteration in which the episode ended.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, NamedTuple

import torch

from zray.tune.errors import TuneError
from zray.tune.recorded import read_experiment
from zray.tune.trainable import METADATA
from zray.tune.trial import Trial

from .algorithm import STATE, Algorithm
from .algorithms.registry import get_algorithm_class
from .atari import environment_of
from .callbacks import DefaultCallbacks, Events
from .checkpoints import class_of, number_of, read_state
from .groups import Episode
from .trainers import agent_class

__all__ = ["Replayed", "Run", "algorithm_of_checkpoint", "episode_of", "read_run", "read_runs"]


class Saved(NamedTuple):
    """A checkpoint: its folder, and what had been done before."""

    path: str
    iteration: int
    episodes: int


class Run(NamedTuple):
    """A run of one algorithm.

    results: of each iteration.  checkpoints: from the first to the last.
    """

    path: str
    name: str
    algorithm: str
    config: dict[str, Any]
    results: list[dict[str, Any]]
    checkpoints: list[Saved]


def read_runs(path: str) -> list[Run]:
    """The runs in a folder: those of an experiment, that of a trial, or that of a checkpoint.

    Raises:
        TuneError: the folder holds none.
    """
    folder = os.path.abspath(os.path.expanduser(path))
    if os.path.exists(os.path.join(folder, STATE)):
        return [_of_checkpoint(folder)]
    parent, name = os.path.split(folder.rstrip("/"))
    if os.path.exists(os.path.join(folder, "result.json")):
        recorded = read_experiment(parent)
        return [_of_trial(recorded.results(trial), trial) for trial in recorded.trials if _is_at(trial, name)]
    recorded = read_experiment(path)
    return [_of_trial(recorded.results(trial), trial) for trial in recorded.trials]


def _is_at(trial: Trial, name: str) -> bool:
    return os.path.basename(trial.path.rstrip("/")) == name


def read_run(path: str, trial: str | None = None) -> Run:
    """A run in a folder.

    Args:
        trial: the number or a part of the name, where the folder holds several.

    Raises:
        TuneError: there is none, or there are several.
    """
    runs = read_runs(path)
    exact = [run for number, run in enumerate(runs) if not trial or trial in (str(number), run.name)]
    found = exact or [run for run in runs if trial and trial in run.name]
    if len(found) != 1:
        names = ", ".join(run.name for run in (found or runs)[:5])
        raise TuneError(f"{path} holds {len(found)} runs{f' called {trial!r}' if trial else ''}: name one of {names}.")
    return found[0]


def _of_checkpoint(folder: str) -> Run:
    state = read_state(folder)
    saved = _saved(folder)
    return Run(folder, os.path.basename(folder), state["algorithm"], state["config"].to_dict(), [], [saved])


def _of_trial(results: list[dict[str, Any]], trial: Trial) -> Run:
    folders = [os.path.join(trial.path, name) for name in sorted(os.listdir(trial.path))]
    checkpoints = [_saved(folder) for folder in folders if os.path.exists(os.path.join(folder, STATE))]
    checkpoints.sort(key=lambda each: each.iteration)
    config = trial.config
    if config.get("seed") is None:
        config = {**config, "seed": number_of(trial.trial_id) or 0}
    return Run(trial.path, str(trial), trial.trainable_name, config, results, checkpoints)


def _saved(folder: str) -> Saved:
    try:
        with open(os.path.join(folder, METADATA), "rb") as file:
            metadata = pickle.load(file)
    except FileNotFoundError:
        return Saved(folder, 0, 0)
    return Saved(folder, int(metadata["iteration"]), int(metadata["episodes_total"] or 0))


def algorithm_of_checkpoint(path: str, **options: Any) -> Algorithm:
    """The algorithm of a checkpoint, with some options changed."""
    state = read_state(path)
    algorithm: Algorithm = class_of(state)(state["config"].copy().update_from_dict(options))
    algorithm.restore(path)
    return algorithm


class Recorder(DefaultCallbacks):
    """The actions, rewards and ends of the episodes that are under way and that have ended last."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[int, list[tuple[Any, float]]] = {}
        self.ended: dict[tuple[int, int], list[tuple[Any, float]]] = {}
        self.numbers: dict[int, int] = {}

    def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
        """Begin a list."""
        self.steps[episode.env_id] = []

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        """Add to it."""
        if episode.env_id in self.steps:
            self.steps[episode.env_id].append((episode.last_action_for(), episode.last_reward_for()))

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """Keep it until the next iteration."""
        number = episode.episode_id % 1_000_000_000
        self.ended[episode.env_id, number] = self.steps.pop(episode.env_id, [])


class Replayed(NamedTuple):
    """An episode, played again.

    steps: actions and rewards.  iteration: in which it ended.  begun_at: the iteration behind which training was
    repeated.
    """

    episode: Episode
    steps: list[tuple[Any, float]]
    iteration: int
    begun_at: int
    env: Any
    env_config: dict[str, Any]
    horizon: int | None


def episode_of(run: Run, number: int) -> Replayed:
    """Play an episode again.

    Args:
        number: of the episode in the run, from 0, in the order of their ends.

    Raises:
        TuneError: the run has no such episode, or training does not repeat itself.
    """
    totals = {result["training_iteration"]: int(result.get("episodes_total") or 0) for result in run.results}
    count = max([*totals.values(), *(each.episodes for each in run.checkpoints)], default=0)
    if not 0 <= number < count:
        raise TuneError(f"{run.name} has {count} episodes: give a number from 0 to {count - 1}.")
    starts = [None, *(saved for saved in run.checkpoints if saved.episodes <= number)]
    while True:
        found = _from(run, starts.pop(), number, totals)
        if len(found.steps) == found.episode.length:
            return found
        # The episode had begun before the checkpoint: an earlier one is needed.
        if not starts:
            raise TuneError(f"The beginning of episode {number} of {run.name} was not played again.")


def _from(run: Run, saved: Saved | None, number: int, totals: dict[int, int]) -> Replayed:
    """Repeat training from a checkpoint, or from its beginning, until an episode ends."""
    threads = torch.get_num_threads()
    if saved is None:
        kind, used = _class_of(run.algorithm), 1  # a trial's process has one thread
        config = kind.configured(run.config)
    else:
        state = read_state(saved.path)
        kind, config, used = class_of(state), state["config"].copy(), state.get("threads", 1)
    config.env_runners(num_env_runners=0)
    if not config["evaluation_config"].get("explore"):
        config.evaluation(evaluation_interval=0)  # it draws nothing
    torch.set_num_threads(used)  # the last bits of a sum may depend on it
    algorithm = kind(config)
    if saved is not None:
        algorithm.restore(saved.path)
    recorder = Recorder()
    begun_at = algorithm.iteration
    try:
        algorithm.watch(Events([recorder]))
        seen = saved.episodes if saved is not None else 0
        while True:
            recorder.ended.clear()
            algorithm.train()
            ended = algorithm.last_episodes
            place = algorithm.iteration
            if seen + len(ended) != totals.get(place, seen + len(ended)):
                raise TuneError(
                    f"Training of {run.name} does not repeat itself: iteration {place} ended with episode "
                    f"{seen + len(ended)}, and {totals[place]} is recorded.  Replay needs a synchronous algorithm, and "
                    "the same versions and kind of machine."
                )
            if seen + len(ended) > number:
                break
            seen += len(ended)
        episode = ended[number - seen]
        steps = recorder.ended.get((episode.env, episode.number), [])
        facts = (environment_of(config), config["env_config"], config["horizon"])
        return Replayed(episode, steps, algorithm.iteration, begun_at, *facts)
    finally:
        torch.set_num_threads(threads)
        algorithm.stop()


def _class_of(name: str) -> Any:
    return agent_class(name[: -len("Agent")]) if name.endswith("Agent") else get_algorithm_class(name)
