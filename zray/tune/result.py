"""Keys of results, under the names of Ray; `TrainingResult`, as programs of 2017 and 2018 return results."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ..on_import import shadows

__all__ = ["AUTO_RESULT_KEYS", "DEFAULT_METRIC", "TrainingResult"]

# The metric of a result that is one number.
DEFAULT_METRIC = "_metric"
DONE = "done"
SHOULD_CHECKPOINT = "should_checkpoint"
TRIAL_ID = "trial_id"
TRIAL_INFO = "trial_info"
EXPERIMENT_TAG = "experiment_tag"
CONFIG_PREFIX = "config"
TRAINING_ITERATION = "training_iteration"
TIME_TOTAL_S = "time_total_s"
TIME_THIS_ITER_S = "time_this_iter_s"
TIMESTEPS_TOTAL = "timesteps_total"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
EPISODES_TOTAL = "episodes_total"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_LOSS = "mean_loss"
NEG_MEAN_LOSS = "neg_mean_loss"
MEAN_ACCURACY = "mean_accuracy"
PID = "pid"
HOSTNAME = "hostname"
NODE_IP = "node_ip"

# Keys that are filled in, in the order of Ray.
AUTO_RESULT_KEYS = (
    TRAINING_ITERATION,
    TIME_TOTAL_S,
    EPISODES_TOTAL,
    TIMESTEPS_TOTAL,
    NODE_IP,
    HOSTNAME,
    PID,
    TIME_THIS_ITER_S,
    "timestamp",
    "date",
    "time_since_restore",
    "timesteps_since_restore",
    "iterations_since_restore",
    "config",
    "checkpoint_dir_name",
)

EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_RESULT_FILE = "result.json"
EXPR_ERROR_FILE = "error.txt"
DEFAULT_RESULTS_DIR = os.environ.get("TUNE_RESULT_DIR") or os.path.expanduser("~/ray_results")


class TrainingResult(NamedTuple):
    """A result of a step, as returned by classes of 2017 and 2018.  A field that is None is left out.

    Args:
        timesteps_total, done, info: steps so far; whether the trial ends; anything else.
        episode_reward_mean, episode_reward_min, episode_reward_max: returns of episodes.
        policy_reward_mean, episode_len_mean, episodes_total: returns by policy, steps of an episode, episodes so far.
        mean_accuracy, mean_validation_accuracy, mean_loss, neg_mean_loss: metrics of supervised learning.
        experiment_id, training_iteration, timesteps_this_iter: the experiment, the number and the steps of the result.
        time_this_iter_s, time_total_s, pid, date, timestamp, hostname, node_ip, config: filled in by Tune.
    """

    timesteps_total: int | None = None
    done: bool | None = None
    info: dict[str, Any] | None = None
    episode_reward_mean: float | None = None
    episode_reward_min: float | None = None
    episode_reward_max: float | None = None
    policy_reward_mean: dict[str, float] | None = None
    episode_len_mean: float | None = None
    episodes_total: int | None = None
    mean_accuracy: float | None = None
    mean_validation_accuracy: float | None = None
    mean_loss: float | None = None
    neg_mean_loss: float | None = None
    experiment_id: str | None = None
    training_iteration: int | None = None
    timesteps_this_iter: int | None = None
    time_this_iter_s: float | None = None
    time_total_s: float | None = None
    pid: int | None = None
    date: str | None = None
    timestamp: int | None = None
    hostname: str | None = None
    node_ip: str | None = None
    config: dict[str, Any] | None = None


shadows.name_absent(__name__)
