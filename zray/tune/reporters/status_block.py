"""The status block of 2018.

== Status ==
Using FIFOScheduler.
Resources used: 4/8 CPUs
Result logdir: /home/me/ray_results/my_experiment
 - my_func_0_alpha=0.2,beta=1:	RUNNING [pid=6778], 209 s, 20604 ts, 7.29 acc
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..trial import Trial
from ..waits import why_waiting
from .rows import picked

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["status_block", "trial_line"]

# The metrics of 2018, with their units.
_UNITS = {"timesteps_total": "ts", "episode_reward_mean": "rew", "mean_loss": "loss", "mean_accuracy": "acc"}


def trial_line(trial: Trial, why: str = "") -> str:
    """The line of one trial."""
    result = trial.latest_result
    state = trial.status
    if state == "RUNNING" and "pid" in result:
        state += f" [pid={result['pid']}]"
    parts = [state]
    if "time_total_s" in result:
        parts.append(f"{int(result['time_total_s'])} s")
    for key, unit in _UNITS.items():
        value = result.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            parts.append(f"{value:g} {unit}" if key != "timesteps_total" else f"{int(value)} ts")
    if why:
        parts.append(why)
    return f" - {trial.trainable_name}_{trial.experiment_tag}:\t{', '.join(parts)}"


def status_block(controller: Controller, usage: str, trials_max: int = 20) -> str:
    """The whole block, with a bounded number of trials."""
    settings = controller.settings
    trials = controller.get_trials()
    shown = sorted(picked(trials, trials_max, settings.metric, settings.mode), key=lambda trial: trial.index)
    lines = ["== Status ==", controller.scheduler.debug_string()]
    lines += [usage] if usage else []
    lines.append(f"Result logdir: {settings.path}")
    lines += [trial_line(trial, why_waiting(controller, trial)) for trial in shown]
    if len(trials) > len(shown):
        lines.append(f"  ... {len(trials) - len(shown)} more trials not shown")
    return "\n".join(lines) + "\n"
