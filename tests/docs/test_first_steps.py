"""The page docs/first-steps.md: its session outlives the programs that join it."""

import re

from tests.cli.commands import zray
from tests.docs.pages import DOCS, blocks
from tests.scripts import run_script

PAGE = DOCS / "first-steps.md"
COMMANDS = [
    line.split()
    for language, code, *_ in blocks(PAGE)
    if language == "sh"
    for line in code.splitlines()
    if "zray" in line
]
(PROGRAM,) = [code for language, code, why, _ in blocks(PAGE) if language == "python" and "detached" in code]


def test_session_outlives_the_programs_that_join_it(tmp_path):
    start, status, stop = COMMANDS
    assert [command[:2] for command in COMMANDS] == [["zray", "start"], ["zray", "status"], ["zray", "stop"]]
    assert zray(*start[1:]).returncode == 0
    try:
        for count in (1, 2):
            result = run_script(tmp_path, PROGRAM)
            assert (result.returncode, result.stdout) == (0, f"programs so far: {count}\n"), result.stderr
        assert re.search("lasting", zray(*status[1:]).stdout)
    finally:
        assert zray(*stop[1:]).returncode == 0
