"""`zray` as a user runs it, in a process of its own."""

import json
import sys

from tests.scripts import ROOT, environment
from tests.warm_commands import commands


def command_line(*arguments):
    return [sys.executable, "-m", "cli.main", *arguments]


def zray(*arguments, timeout_s=40, cwd=ROOT, env=None, text=None):
    """Run a command to its end; the result has stdout, stderr and returncode.  text: its standard input."""
    return commands.run(command_line(*arguments), env=env or environment(), cwd=cwd, timeout=timeout_s, text=text)


def statuses():
    """What `zray status` says, by session."""
    result = zray("status", "--format", "json")
    assert result.returncode == 0, result.stderr
    return {fact["session"]: fact for fact in json.loads(result.stdout)["sessions"]}
