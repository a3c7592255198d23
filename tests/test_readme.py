"""README.md: the program runs, the links lead somewhere, the page stays short."""

import ast
import math
import re

from tests.scripts import ROOT, run_script

README = (ROOT / "README.md").read_text()
CORE, TUNE, RLLIB = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
WORDS_MAX = 900


def test_program_of_the_readme_runs(tmp_path):
    result = run_script(tmp_path, CORE)
    assert result.returncode == 0, result.stderr
    assert abs(float(result.stdout) - math.pi) < 0.01, "a million points, six standard errors"
    assert len(CORE.splitlines()) <= 25


def test_search_of_the_readme_finds_the_parameter(tmp_path):
    result = run_script(tmp_path, TUNE)
    assert result.returncode == 0, result.stderr
    best = ast.literal_eval(result.stdout.splitlines()[-1])
    assert 0.01 < best["lr"] < 0.5
    assert len(TUNE.splitlines()) <= 12


def test_training_of_the_readme_prints_three_returns(tmp_path):
    result = run_script(tmp_path, RLLIB)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3
    assert len(RLLIB.splitlines()) <= 12


def test_links_and_scripts_of_the_readme_exist():
    for path in re.findall(r"\]\((\S+?)\)|^    (scripts/\w+)", README, re.MULTILINE):
        assert (ROOT / next(filter(None, path))).exists(), path


def test_readme_has_at_most_900_words():
    text = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"[A-Za-z][\w'-]*", text)) <= WORDS_MAX
