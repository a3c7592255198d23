"""`zray rllib`: policies trained, evaluated, and their runs played again and drawn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from .tune import TuneGroup, object_of, print_rows, resumed_by

if TYPE_CHECKING:
    from collections.abc import Callable

# Classes that the error about an absent one names.
NAMES_MAX = 5


class RllibGroup(TuneGroup):
    """Errors of environments and of options end a command with one sentence."""

    def invoke(self, context: click.Context) -> Any:
        try:
            from zray.rllib.environments import InvalidEnvironmentError
        except ImportError as error:
            raise click.ClickException(str(error)) from error
        try:
            return super().invoke(context)
        except InvalidEnvironmentError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=RllibGroup)
def rllib() -> None:
    """Train policies with zray.rllib, and look at what was trained."""


IMPORT = click.option(
    "--import", "modules", multiple=True, metavar="MODULE", help="Module or program.py to import first; repeatable."
)
RENDER = click.option(
    "--render", type=click.Choice(["none", "human", "gif"]), default="none", help="Show the episodes, or write a GIF."
)
OUT = click.option("--out", metavar="FILE", help="File of the GIF; by default episode.gif.")
TRIAL = click.option("--trial", metavar="NAME", help="Trial, where RUN has several: number or name.")


def import_modules(modules: tuple[str, ...], *, is_program: bool = False) -> None:
    """Import modules and programs, which register environments and models.

    Args:
        is_program: the working directory is that of the program; else it may be any, and installed modules come first.
    """
    import importlib
    import os
    import runpy
    import sys

    sys.path.insert(0 if is_program else len(sys.path), os.getcwd())
    for module in modules:
        runpy.run_path(module) if module.endswith(".py") else importlib.import_module(module)


def train_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `train`."""
    for option in reversed(
        [
            click.option("--config-file", "-f", "file", metavar="FILE", help="YAML or JSON file of experiments."),
            click.option("--run", "--algo", "algorithm", metavar="NAME", help="Algorithm, as PPO."),
            click.option("--env", metavar="NAME", help="Environment: an id of gymnasium, or module:Class."),
            click.option(
                "--tuned", metavar="NAME", help="Tuned options, as cartpole-ppo: algorithm, environment, stop."
            ),
            click.option("--stop", metavar="JSON", default="{}", help="When a trial ends: least value by metric."),
            click.option("--config", metavar="JSON", default="{}", help="Options of the algorithm."),
            click.option(
                "--num-samples",
                "--repeat",
                "num_samples",
                type=click.IntRange(1),
                default=1,
                metavar="N",
                help="Trials of each grid.",
            ),
            click.option("--seeds", type=click.IntRange(1), metavar="N", help="One trial for each seed from 0 to N-1."),
            click.option("--experiment-name", metavar="NAME", default="default", help="Name of the experiment."),
            click.option("--local-dir", "--storage-path", "storage", metavar="DIR", help="Folder of experiments."),
            click.option("--checkpoint-freq", type=click.IntRange(0), default=0, metavar="N", help="Iterations."),
            click.option("--checkpoint-at-end", is_flag=True, help="Save a checkpoint at the end of a trial."),
            click.option("--restore", metavar="CHECKPOINT", help="Checkpoint from which trials begin."),
            click.option("--resume", is_flag=True, help="Go on with the experiment of this name."),
            click.option("--scheduler", metavar="NAME", default="fifo", help="Trial scheduler, as asha or pbt."),
            click.option("--scheduler-config", metavar="JSON", default="{}", help="Options of the scheduler."),
            click.option("--num-cpus", type=int, metavar="N", help="CPUs of a session on this machine."),
            click.option("--num-gpus", type=int, metavar="N", help="GPUs of a session on this machine."),
            click.option(
                "--address",
                "--redis-address",
                "address",
                metavar="HOST:PORT",
                help="Run on the cluster whose head is there.",
            ),
            click.option("--verbose", type=click.IntRange(0, 3), default=1, metavar="0-3", help="How much is shown."),
            IMPORT,
        ]
    ):
        command = option(command)
    return command


def named_experiment(
    algorithm: str | None, env: str | None, tuned: str | None, stop: str, config: str
) -> dict[str, Any]:
    """Return the experiment named by options of the command line, above the options of a tuned row."""
    row = tuned_row(tuned) if tuned else {"run": None, "env": None, "stop": {}, "config": {}}
    algorithm, env = algorithm or row["run"], env or row["env"]
    if not algorithm or not env:
        raise click.UsageError("Name an algorithm and an environment, as --run PPO --env CartPole-v1, or a file.")
    ends = object_of("--stop", stop) or row["stop"]
    return {
        "run": algorithm,
        "stop": ends,
        "config": {"env": env, **row["config"], **object_of("--config", config)},
    }


@rllib.command()
@train_options
def train(
    file: str | None,
    algorithm: str | None,
    env: str | None,
    tuned: str | None,
    stop: str,
    config: str,
    seeds: int | None,
    **given: Any,
) -> None:
    """Train an algorithm in an environment, or run the experiments of a file, and show the trials meanwhile.

    The file has the format of `zray tune run`: {name: {run: PPO, env: CartPole-v1, stop: ..., config: ...}}.  In it and
    in --config, {"eval": "..."} is evaluated as Python: run files of your own alone.
    """
    import os
    import shlex

    from zray.tune import run_experiments
    from zray.tune.schedulers import create_scheduler
    from zray.tune.spec_file import read_spec

    import_modules(given["modules"], is_program=True)
    wanted = {
        "num_samples": given["num_samples"],
        "storage_path": given["storage"] and os.path.abspath(given["storage"]),
        "checkpoint_freq": given["checkpoint_freq"],
        "checkpoint_at_end": given["checkpoint_at_end"],
        "restore": given["restore"] and os.path.abspath(given["restore"]),
    }
    wanted = {name: value for name, value in wanted.items() if value}
    if file is not None:
        experiments = read_spec(file)
        for spec in experiments.values():
            if "repeat" in spec or given["num_samples"] == 1:
                wanted.pop("num_samples", None)
            spec.update({**wanted, **spec})
    else:
        named = named_experiment(algorithm, env, tuned, stop, config)
        experiments = {given["experiment_name"]: {**named, **wanted}}
    for spec in experiments.values():
        check(spec)
    if file is None and not named["stop"]:
        click.echo("No --stop is given: Ctrl-C ends the training.  For example: --stop '{\"timesteps_total\": 1e5}'")
    if seeds is not None:
        for spec in experiments.values():
            spec["config"] = {**spec.get("config", {}), "seed": {"grid_search": list(range(seeds))}}
    session = {name: given[name] for name in ("num_cpus", "num_gpus", "address") if given[name] is not None}
    scheduler = create_scheduler(given["scheduler"], **object_of("--scheduler-config", given["scheduler_config"]))
    with resumed_by(
        "--resume" if file is not None else f"--resume --experiment-name {shlex.quote(given['experiment_name'])}"
    ):
        run_experiments(
            experiments,
            scheduler=scheduler,
            resume=given["resume"],
            verbose=given["verbose"],
            progress_reporter=reporter_for(experiments, given["verbose"]),
            **session,
        )


def reporter_for(experiments: dict[str, Any], verbose: int) -> Any:
    """The table of one experiment on a terminal; None: Tune's own reporter shows the experiments."""
    import sys

    if verbose != 1 or len(experiments) != 1 or not sys.stdout.isatty():
        return None
    from .training import TrainingTable

    (spec,) = experiments.values()
    stop = spec.get("stop")
    return TrainingTable(stop if isinstance(stop, dict) else {})


def tuned_row(name: str) -> dict[str, Any]:
    """The tuned options of this name."""
    from zray.rllib.tuned import TUNED

    if name not in TUNED:
        raise click.UsageError(f"No tuned options are called {name!r}.  The names are: {', '.join(TUNED)}.")
    return TUNED[name]


def check_environment(env: Any) -> None:
    """Refuse `module:Class` where the module is there and lacks the class, and `module.Class`, which names nothing.

    Raises:
        ClickException: it is so.
        ImportError: the module is not there, or cannot be imported.
    """
    import importlib
    import inspect

    from zray.tune.registry import environment_creator
    from zray.tune.unknown import nearest

    module, _, name = env.partition(":") if isinstance(env, str) else ("", "", "")
    if not module or environment_creator(env) is not None:
        return
    if not name:
        if "." in module:
            check_is_known(env)
        return
    found = importlib.import_module(module)
    if hasattr(found, name):
        return
    own = [each for each, value in vars(found).items() if inspect.isclass(value) and value.__module__ == module]
    known = f"  Its classes: {', '.join(own[:NAMES_MAX])}{', ...' * (len(own) > NAMES_MAX)}." if own else ""
    raise click.ClickException(f"The module {module} has no {name!r}.{nearest(name, vars(found))}{known}")


def check_is_known(env: str) -> None:
    """Refuse a name with a dot that no registry has.

    Raises:
        ClickException: it is so; the message has the right form of a class of a module.
    """
    from zray.rllib.environments import creator_of

    try:
        creator_of(env)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def check(spec: dict[str, Any]) -> None:
    """Look at the options of an algorithm before a process starts with them."""
    from zray.rllib.algorithms.registry import get_algorithm_class

    check_environment((spec.get("config") or {}).get("env", spec.get("env")))
    if isinstance(spec["run"], str):
        try:
            get_algorithm_class(spec["run"]).configured(spec.get("config", {}))
        except TypeError as error:
            raise click.ClickException(str(error)) from error


def show(
    replay: Callable[[Any, list[Any] | None], Any], env_of: Callable[[str | None], Any], render: str, out: str
) -> Any:
    """Play in an environment that draws itself as asked, and write the GIF.

    Args:
        replay: a function of (environment, frames) that plays.
        env_of: a function of the render mode that makes the environment.
    """
    from zray.rllib.rendering import write_gif

    frames: list[Any] | None = [] if render == "gif" else None
    env = env_of({"gif": "rgb_array", "human": "human", "none": None}[render])
    try:
        outcome = replay(env, frames)
        if frames is not None:
            write_gif(out, frames, float((getattr(env, "metadata", None) or {}).get("render_fps", 30)))
            click.echo(out)
    finally:
        env.close()
    return outcome


@rllib.command()
@click.argument("checkpoint")
@click.option(
    "--run", "--algo", "algorithm", metavar="NAME", help="Algorithm: the checkpoint knows it; accepted as of 2018."
)
@click.option("--env", metavar="NAME", help="Another environment than that of the training.")
@click.option("--config", metavar="JSON", default="{}", help="Options that differ from those of the training.")
@click.option("--episodes", type=click.IntRange(1), default=10, metavar="N", help="Episodes.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Begin no episode after N steps.")
@click.option("--seed", type=int, default=1_000_000, metavar="N", help="Seed of the first episode.")
@click.option("--no-render", is_flag=True, help="Show nothing, as by default: accepted as of 2018.")
@click.option("--explore", is_flag=True, help="Draw actions; by default the most likely one is taken.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="How to print it.")
@TRIAL
@RENDER
@OUT
@IMPORT
def evaluate(
    checkpoint: str,
    algorithm: str | None,
    env: str | None,
    config: str,
    episodes: int,
    steps: int | None,
    seed: int,
    no_render: bool,
    explore: bool,
    form: str,
    trial: str | None,
    render: str,
    out: str | None,
    modules: tuple[str, ...],
) -> None:
    """Play episodes with the policy of a CHECKPOINT.

    CHECKPOINT is a folder of `algo.save()`, or a run, whose newest checkpoint is taken.
    """
    del algorithm, no_render
    import_modules(modules)
    check_environment(env)
    from zray.rllib.rendering import Filmed, make_to_render
    from zray.rllib.runs import algorithm_of_checkpoint, read_run

    run = read_run(checkpoint, trial)
    if not run.checkpoints:
        raise click.ClickException(f"{run.path} has no checkpoint: train with --checkpoint-at-end.")
    options = {**object_of("--config", config), **({"env": env} if env else {}), "num_env_runners": 0}
    algo = algorithm_of_checkpoint(run.checkpoints[-1].path, **options)
    facts = algo.env, algo.config["env_config"]
    player = algo.player({**algo.config, "explore": explore})
    rows: list[dict[str, Any]] = []

    def replay(made: Any, frames: list[Any] | None) -> None:
        for number in range(episodes):
            if steps is None or sum(row["length"] for row in rows) < steps:
                total, length = player.play(Filmed(made, frames), seed + number, lambda: False)
                rows.append({"episode": number, "seed": seed + number, "return": total, "length": length})

    show(replay, lambda mode: make_to_render(*facts, mode, algo.config["horizon"]), render, out or "episode.gif")
    algo.stop()
    mean = sum(row["return"] for row in rows) / len(rows)
    if form == "json":
        click.echo(json.dumps({"checkpoint": run.checkpoints[-1].path, "mean": mean, "episodes": rows}, indent=2))
        return
    print_rows(run.checkpoints[-1].path, ["episode", "seed", "return", "length"], rows)
    click.echo(f"Mean return of {len(rows)} episodes: {mean:g}")


@rllib.command()
@click.argument("run")
@click.option("--episode", type=click.IntRange(0), required=True, metavar="N", help="Number of the episode, from 0.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@TRIAL
@RENDER
@OUT
@IMPORT
def replay(
    run: str, episode: int, form: str, trial: str | None, render: str, out: str | None, modules: tuple[str, ...]
) -> None:
    """Play any episode of a RUN again, though it was not stored.

    Training is repeated from the checkpoint before, up to the iteration in which the episode ended; it is the same bit
    for bit.  RUN is an experiment, a trial's folder, or a checkpoint.
    """
    import_modules(modules)
    from zray.rllib.rendering import make_to_render, play
    from zray.rllib.runs import episode_of, read_run

    found = episode_of(read_run(run, trial), episode)
    facts = found.episode

    def again(made: Any, frames: list[Any] | None) -> tuple[float, int]:
        return play(made, facts.seed, [action for action, _ in found.steps], frames)

    total, length = show(
        again,
        lambda mode: make_to_render(found.env, found.env_config, mode, found.horizon),
        render,
        out or f"episode_{episode}.gif",
    )
    if (total, length) != (facts.episode_return, facts.length):
        raise click.ClickException(
            f"The environment does not repeat itself: with the seed {facts.seed} and the same actions, the return is "
            f"{total:g} after {length} steps, and was {facts.episode_return:g} after {facts.length}.  Let "
            "reset(seed=...) seed everything that is drawn."
        )
    if form == "json":
        steps = [{"action": plain(action), "reward": reward} for action, reward in found.steps]
        more = {"episode": episode, "iteration": found.iteration, "repeated_from": found.begun_at, "steps": steps}
        fields = {"return": facts.episode_return, "length": facts.length, "env": facts.env, "seed": facts.seed}
        click.echo(json.dumps({**fields, **more}))
        return
    click.echo(
        f"episode {episode}: return {facts.episode_return:g}, {facts.length} steps, environment {facts.env}, seed "
        f"{facts.seed}, ended in iteration {found.iteration}; training was repeated from iteration {found.begun_at}"
    )


def plain(action: Any) -> Any:
    """An action as JSON has it; that of several agents is a dict."""
    if isinstance(action, dict):
        return {str(agent): plain(own) for agent, own in action.items()}
    return action.tolist() if hasattr(action, "tolist") else action


@rllib.command()
@click.argument("run")
@click.option("--output", "-o", metavar="FILE", help="File to write; by default training.html in the run's folder.")
@TRIAL
def plot(run: str, output: str | None, trial: str | None) -> None:
    """Draw a RUN as one HTML file, without anything from the network.

    The page has the returns with their smallest and largest one and each seed, lengths, losses, and steps per second.
    """
    import os

    from zray.rllib.plots import page
    from zray.rllib.runs import read_run, read_runs
    from zray.tune.recorded import folder_of

    runs = [read_run(run, trial)] if trial else read_runs(run)
    folder = folder_of(run)
    path = output or os.path.join(folder, "training.html")
    text = page(runs, os.path.basename(folder))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    click.echo(path)
