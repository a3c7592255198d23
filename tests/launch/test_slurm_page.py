"""The page docs/launch-slurm.md: its commands exist, its error is as shown."""

import re
import shlex

import click

from cli.main import main
from tests.cli.commands import zray
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "launch-slurm.md"


def test_commands_of_the_page_exist():
    code = "\n".join(code for language, code, *_ in blocks(PAGE) if language in ("sh", "bash"))
    found = re.findall(r"^(?:srun|mpirun).*?zray (.*)$", code, re.M)
    assert len(found) == 3
    for line in found:
        name, *words = shlex.split(line)
        command = main.get_command(click.Context(main), name)
        assert command.make_context(name, words).params["command"] == ("python", "program.py")


def test_error_of_the_page_is_that_of_the_command():
    ((command, error),) = re.findall(r"```console\n\$ zray (.*)\n(.*)\n```", PAGE.read_text())
    assert zray(*shlex.split(command)).stderr == error + "\n"
