"""Every example runs as a user would run it, and prints what its first lines say that it prints."""

import ast
import doctest
import os
import subprocess
import sys
import textwrap

import pytest

from tests.scripts import ROOT, environment

EXAMPLES = sorted(
    path for path in (ROOT / "examples").glob("*.py") if "import zray as ray" in path.read_text().splitlines()
)


NEEDED = {
    "parameter_server_digits": ("sklearn",),
    "rllib_cartpole": ("torch", "gymnasium"),
    "rllib_custom_model": ("gymnasium", "torch"),
    "rllib_es_cluster": ("torch", "gymnasium"),
    "rllib_multi_agent": ("gymnasium", "torch"),
    "rllib_ppo_asha": ("gymnasium", "torch"),
    "rllib_simulator_actor": ("gymnasium",),
    "tune_digits": ("sklearn", "torch"),
    "tune_optuna": ("optuna",),
}


def expected_output(path):
    """What stands behind "Prints:" in the docstring; ... stands for any text, as in doctest."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    text, marker, output = docstring.partition("Prints:\n")
    assert marker, f"{path.name} does not say what it prints"
    return textwrap.dedent(output).strip("\n") + "\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path, tmp_path):
    for module in NEEDED.get(path.stem, ()):
        pytest.importorskip(module)
    result = subprocess.run(
        [sys.executable, os.fspath(path)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert result.returncode == 0, result.stderr
    matches = doctest.OutputChecker().check_output(expected_output(path), result.stdout, doctest.ELLIPSIS)
    assert matches, f"expected:\n{expected_output(path)}\ngot:\n{result.stdout}\n{result.stderr}"


def test_the_examples_are_found():
    names = {path.stem for path in EXAMPLES}
    assert {"01_tasks", "05_parameter_server", "parameter_server_digits", "tune_2018", "tune_restore"} <= names
