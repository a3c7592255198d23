"""The README's programs run as they stand there; the table can be filled."""

import re

import pytest

from benchmarks.readme_table import filled
from tests.cli.commands import zray
from tests.scripts import ROOT, run_script
from zray import remote

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PROGRAMS = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [line.split() for language, code in BLOCKS if language == "bash" for line in code.splitlines()]


def test_the_program(tmp_path):
    result = run_script(tmp_path, PROGRAMS[0])
    assert result.returncode == 0, result.stderr
    assert abs(float(result.stdout)) < 0.1, "the mean of 100,000 draws around 0"
    assert len(PROGRAMS[0].splitlines()) <= 25


def test_the_session_that_outlives_its_drivers(tmp_path):
    assert [command[:2] for command in COMMANDS] == [["zray", "start"], ["zray", "status"], ["zray", "stop"]]
    start, status, stop = COMMANDS
    assert zray(*start[1:]).returncode == 0
    try:
        for count in (1, 2):
            result = run_script(tmp_path, PROGRAMS[1])
            assert (result.returncode, result.stdout) == (0, f"programs so far: {count}\n"), result.stderr
        assert "lasting" in zray(*status[1:]).stdout
    finally:
        assert zray(*stop[1:]).returncode == 0


def test_what_it_points_to_is_there():
    for path in re.findall(r"\]\((\S+?)\)|^    (scripts/\w+)", README, re.MULTILINE):
        assert (ROOT / next(filter(None, path))).exists(), path


def test_what_it_says_is_missing_says_so():
    """The list of what is not there yet, against what a program finds that tries."""
    missing = README.partition("## What it does not do yet")[2]
    assert "async remote functions" in missing

    async def answer():
        return 42

    with pytest.raises(NotImplementedError, match="async actor"):
        remote(answer)
    with pytest.raises(NotImplementedError, match="async actor"):
        remote(num_cpus=2)(answer)


REPORT = {
    "figures": {
        "a": {"what": "tasks", "measured": 123456.7, "unit": "1/s", "ratio": 0.41, "floor_name": "async_10k"},
        "b": {"what": "import", "measured": 0.0912, "unit": "s", "ratio": None, "floor_name": None},
    },
    "machine": {"processor": "P", "cores": 2, "memory_bytes": 8 << 30, "system": "Linux 6"},
    "python": "3.12.1",
    "commit": None,
}


def test_the_table_is_filled_between_its_markers():
    text = filled(README, REPORT)
    assert "| tasks | 123,457 1/s | 0.41 x async_10k |\n| import | 0.0912 s |  |\n" in text
    assert "Measured on P, 2 cores, 8 GiB, Linux 6; Python 3.12.1, commit unknown.\n<!-- /table -->" in text
    assert filled(text, REPORT) == text
    assert text.partition("<!-- table -->")[0] == README.partition("<!-- table -->")[0]
    with pytest.raises(ValueError, match="no <!-- table -->"):
        filled("nothing", REPORT)
