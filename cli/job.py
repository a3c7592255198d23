"""`zray job`: programs that a cluster runs."""

from __future__ import annotations

import json
import shlex
import sys
import time
from datetime import datetime
from typing import Any

import click

from .tune import object_of

ADDRESS = click.option(
    "--address", metavar="HOST:PORT", help="Cluster that runs it.  Default: ZRAY_ADDRESS, else the session here."
)
ID = click.argument("id", metavar="ID")
# Seconds between two looks at the status of a program that is to stop.
LOOK_SECONDS = 0.1
STOP_SECONDS_MAX = 20.0


def client(address: str | None) -> Any:
    """A client of the cluster."""
    from zray.job_submission import JobSubmissionClient

    return JobSubmissionClient(address)


class Jobs(click.Group):
    """Commands whose errors about programs are told in one sentence."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.exceptions.Exit, NotImplementedError):  # RuntimeErrors too
            raise
        except (RuntimeError, ValueError) as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=Jobs)
def job() -> None:
    """Have a cluster run programs: they outlive the command that submits them."""


@job.command()
@ADDRESS
@click.option("--submission-id", metavar="ID", help="Id of the program.  Default: one is drawn.")
@click.option("--working-dir", metavar="FOLDER", help="Folder that is sent, and in which the command runs.")
@click.option("--runtime-env", "file", type=click.Path(exists=True), help="YAML or JSON file with a runtime_env.")
@click.option("--runtime-env-json", "text", metavar="JSON", help="A runtime_env, in place of a file.")
@click.option("--metadata-json", "metadata", metavar="JSON", help="Texts by name, for `zray job status`.")
@click.option("--entrypoint-num-cpus", "cpus", type=float, metavar="N", help="CPUs that the command itself holds.")
@click.option("--entrypoint-num-gpus", "gpus", type=float, metavar="N", help="GPUs that the command itself holds.")
@click.option("--entrypoint-memory", "memory", type=int, metavar="BYTES", help="Memory that the command itself holds.")
@click.option("--entrypoint-resources", "resources", metavar="JSON", help="Amounts by name that it holds.")
@click.option("--no-wait", is_flag=True, help="Print the id, and leave the program alone.")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND")
def submit(
    address: str | None,
    submission_id: str | None,
    working_dir: str | None,
    file: str | None,
    text: str | None,
    metadata: str | None,
    cpus: float | None,
    gpus: float | None,
    memory: int | None,
    resources: str | None,
    no_wait: bool,
    command: tuple[str, ...],
) -> None:
    """Submit a program, and show its output until it ends: `zray job submit -- python train.py`.

    The exit status is 0 if the program succeeds, else 1.  Ctrl-C leaves the program alone.
    """
    env = {**_environment(file, text), **({"working_dir": working_dir} if working_dir else {})}
    jobs = client(address)
    entrypoint = command[0] if len(command) == 1 else shlex.join(command)
    name = jobs.submit_job(
        entrypoint=entrypoint,
        submission_id=submission_id,
        runtime_env=env,
        metadata=_json(metadata, "--metadata-json"),
        entrypoint_num_cpus=cpus,
        entrypoint_num_gpus=gpus,
        entrypoint_memory=memory,
        entrypoint_resources=_json(resources, "--entrypoint-resources"),
    )
    click.echo(f"Program {name} is submitted.", err=True)
    if no_wait:
        click.echo(name)
        return
    _follow(jobs, name)


@job.command()
@ADDRESS
@ID
def status(address: str | None, id: str) -> None:
    """Show the status of a program, its times and its metadata."""
    details = client(address).get_job_info(id)
    click.echo(f"{details.submission_id}: {details.status}.  {details.message}")
    click.echo(f"  command     {details.entrypoint}")
    for name, value in (("begun", details.start_time), ("ended", details.end_time)):
        if value:
            click.echo(f"  {name:11} {_time(value)}")
    for key, value in (details.metadata or {}).items():
        click.echo(f"  {key:11} {value}")


@job.command()
@ADDRESS
@ID
@click.option("--no-wait", is_flag=True, help="Do not wait for its end.")
def stop(address: str | None, id: str, no_wait: bool) -> None:
    """Stop a program: SIGTERM to its processes, and SIGKILL after 3 s."""
    jobs = client(address)
    was_running = jobs.stop_job(id)
    if not was_running:
        click.echo(f"{id} had ended before: {jobs.get_job_status(id)}.")
        return
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while not no_wait and not jobs.get_job_status(id).is_terminal() and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    click.echo(f"{id}: {jobs.get_job_status(id)}.")


@job.command()
@ADDRESS
@ID
@click.option("--follow", "-f", is_flag=True, help="Show further output until the program ends.")
def logs(address: str | None, id: str, follow: bool) -> None:
    """Show the output of a program: its last 16 MiB."""
    jobs = client(address)
    if follow:
        _follow(jobs, id)
    else:
        click.echo(jobs.get_job_logs(id), nl=False)


@job.command("list")
@ADDRESS
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
def list_(address: str | None, form: str) -> None:
    """List the programs that were submitted, the latest first."""
    from dataclasses import asdict

    found = [each for each in client(address).list_jobs() if each.submission_id]
    if form == "json":
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    from rich.table import Table

    from .tables import literal, show

    table = Table("id", "status", "begun", "duration", "command")
    for each in found:
        until = each.end_time or round(time.time() * 1000)
        seconds = f"{(until - each.start_time) / 1000:,.1f} s" if each.start_time else "-"
        begun = _time(each.start_time) if each.start_time else "-"
        row = (each.submission_id or "", str(each.status), begun, seconds, each.entrypoint)
        table.add_row(*map(literal, row))
    show(table)


@job.command()
@ADDRESS
@ID
def delete(address: str | None, id: str) -> None:
    """Forget a program that has ended, with its output."""
    client(address).delete_job(id)
    click.echo(f"{id} is deleted.")


def _follow(jobs: Any, name: str) -> None:
    """Show the output of a program to its end, and exit as it did."""
    try:
        for text in jobs.follow_job_logs(name):
            click.echo(text, nl=False)
    except KeyboardInterrupt:
        click.echo(f"\nThe program goes on: `zray job logs --follow {name}`, `zray job stop {name}`.", err=True)
        sys.exit(130)
    details = jobs.get_job_info(name)
    click.echo(f"Program {name}: {details.status}.  {details.message}", err=True)
    if details.status != "SUCCEEDED":
        sys.exit(1)


def _environment(file: str | None, text: str | None) -> dict[str, Any]:
    if file is None:
        return _json(text, "--runtime-env-json") or {}
    with open(file, encoding="utf-8") as opened:
        content = opened.read()
    if file.endswith(".json"):
        return _json(content, file) or {}
    try:
        import yaml
    except ImportError:
        raise click.ClickException("YAML needs pyyaml: pip install pyyaml, or give a file .json.") from None
    found = yaml.safe_load(content) or {}
    if not isinstance(found, dict):
        raise click.UsageError(f"{file} has no runtime_env: it is a table of working_dir, env_vars and the like.")
    return found


def _json(text: str | None, option: str) -> dict[str, Any] | None:
    return None if text is None else object_of(option, text, '{"name": "value"}')


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S")
