"""`zray`: the command line.  A command's module is imported when that command is called.

Exit codes: 0 done, 1 it could not be done, 2 it was asked for wrongly.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

COMMANDS = {
    "attach": "Open a shell on the head of a cluster that `zray up` has started.",
    "cancel": "End tasks that run or wait: by id, function or job.",
    "dashboard": "Serve a page that shows what a session does.",
    "debug": "Attach to a task that stands at a breakpoint, with pdb.",
    "determinism": "Run a program with several numbers of workers and with deaths, and compare its tasks.",
    "doctor": "Say what is wrong on this machine, with what starts clusters, or on the way to one.",
    "down": "End a cluster that `zray up` has started.",
    "drain": "Have a node finish its tasks, hand over its objects, and leave.",
    "exec": "Run a command on the head of a cluster of `zray up`, or on all hosts.",
    "gcs": "Verify the logs of a cluster's shards.",
    "get": "Show one actor, task, object, node or worker, with all that is known of it.",
    "job": "Have a cluster run programs: submit, status, stop, logs, list, delete.",
    "keys": "Show, create and revoke keys and tokens of a cluster.",
    "list": "List actors, jobs, nodes, objects, placement groups, tasks or workers.",
    "logs": "Show the output of workers, also of sessions that have ended.",
    "manifests": "Print a head and nodes for Kubernetes.",
    "memory": "Show the values of a session: how large, where made, who refers to them.",
    "metrics": "Serve the metrics of a session to Prometheus.",
    "microbenchmark": "Measure zray beside the limits of this machine.",
    "mpi": "Run a program on a cluster of the machines of a run of an MPI.",
    "profile": "Sample where a task, an actor or a worker spends its time, as a flame graph.",
    "replay": "Run a failed task again in this process, under pdb if asked.",
    "report": "Write why a run took its time, as a page of HTML.",
    "reproduce": "Measure the paper's figures, and write a report.",
    "rllib": "Train policies, and look at what was trained.",
    "rsync-down": "Copy a file or folder from the head of a cluster of `zray up`, where it differs.",
    "rsync-up": "Copy a file or folder to the hosts of a cluster of `zray up`, where it differs.",
    "run": "Run a program; with --as-ray, a program written for Ray.",
    "slurm": "Run a program on a cluster of the machines of a job of Slurm.",
    "stack": "Show where the workers of this machine stand: tasks, threads and their stacks.",
    "start": "Start a cluster on this machine, or join one.",
    "status": "Show the sessions of this machine, and their clusters.",
    "stop": "End a session that `zray start` has started.",
    "submit": "Run a program on the head of a cluster that `zray up` has started.",
    "summary": "Count actors, tasks or objects by name and state.",
    "symmetric-run": "Run a program on a cluster of machines that all get the same line, as under Ray.",
    "systemd": "Print a unit for systemd that keeps a head or a node running.",
    "timeline": "Write what ran, where and when, as a file for Perfetto.",
    "top": "Watch a session on a full screen: tasks, actors, objects, nodes, logs.",
    "tune": "Look at experiments of zray.tune, and run them.",
    "up": "Start a cluster on the hosts of a file, over ssh.",
    "whatif": "Predict a recorded run on other machines, and say which resource to buy.",
    "why": "Explain what a task, an actor, an object or a node waits for, or how it ended.",
}


# Commands in a module of another name: (module, function).
PLACES = {
    "exec": ("exec", "exec_"),
    "get": ("state", "get"),
    "list": ("state", "list_"),
    "rsync-down": ("rsync", "rsync_down"),
    "rsync-up": ("rsync", "rsync_up"),
    "summary": ("state", "summary"),
    "symmetric-run": ("symmetric_run", "symmetric_run"),
}


class Commands(click.Group):
    """Finds a command in the module of its name."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            from zray.ray_names import absent

            if name in absent.COMMANDS:
                raise absent.not_built(absent.COMMANDS, name, f"the command `zray {name}`")
            return None
        module, function = PLACES.get(name, (name, name))
        command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in sorted(COMMANDS)])

    def invoke(self, context: click.Context) -> Any:
        """Run the command; errors of the system end it with one sentence, not with a traceback."""
        from zray.exceptions import ZrayError
        from zray.host.security.token_input import AddressError
        from zray.on_import import uncaught

        uncaught.uninstall()

        try:
            return super().invoke(context)
        except (NotImplementedError, AddressError) as error:
            raise click.UsageError(str(error)) from error
        except BrokenPipeError:
            raise  # whoever read has enough: click says nothing
        except (ZrayError, OSError) as error:
            raise click.ClickException(str(error)) from error


def version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from zray.version import __version__

        click.echo(f"zray {__version__}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, callback=version, expose_value=False, is_eager=True, help="Show the version.")
def main() -> None:
    """Ray's programming model as a small, fast message bus."""


if __name__ == "__main__":
    main(prog_name="zray")
