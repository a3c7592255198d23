"""The house rules that a reader relies on: small rooms, documented messages, nothing of one machine."""

import ast
import configparser
import re

import pytest

from tests.scripts import ROOT
from tests.test_examples import EXAMPLES

FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 70
EXAMPLE_LINES_MAX = 60
COMMAND_LINES_MAX = 60

FOLDERS = ["zray", "cli", "tests", "examples", "benchmarks", "scripts", "docs", ".ci"]
SKIPPED = {"__pycache__", "build", "dist"}
# Words that name one machine or one package host; spelled in parts, so that this file does not hold them.
FOREIGN = [re.compile(word) for word in (r"/wo" + r"rk/", r"/roo" + r"t/", r"py" + r"pi", r"pythonhost" + r"ed")]


def files(*patterns):
    found = [path for folder in FOLDERS for pattern in patterns for path in (ROOT / folder).rglob(pattern)]
    found += [path for pattern in patterns for path in ROOT.glob(pattern)]
    return sorted({path for path in found if path.is_file() and not SKIPPED & set(path.parts)})


def name(path):
    return str(path.relative_to(ROOT))


PYTHON = files("*.py")


def functions(path):
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_a_file_is_a_room():
    long = {name(path): lines for path in PYTHON if (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX}
    assert not long


def test_a_function_fits_on_a_page():
    long = {
        f"{name(path)}:{node.name}": lines
        for path in PYTHON
        for node in functions(path)
        if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert not long


def test_an_example_and_a_command_are_short():
    long = [name(path) for path in (ROOT / "examples").glob("*.py") if lines_of(path) > EXAMPLE_LINES_MAX]
    for path in (ROOT / "cli").glob("*.py"):
        long += [
            f"{name(path)}:{node.name}"
            for node in functions(path)
            if node.end_lineno - node.lineno + 1 > COMMAND_LINES_MAX
        ]
    assert not long


def lines_of(path):
    return len(path.read_text().splitlines())


@pytest.mark.parametrize("path", [path for path in PYTHON if path.parent.name != "tests"], ids=name)
def test_a_module_says_what_it_is(path):
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{name(path)} has no docstring"


def message_classes():
    """Every Message in zray/wire that has a wire tag: (file, class)."""
    for path in sorted((ROOT / "zray" / "wire").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(keyword.arg == "tag" for keyword in node.keywords):
                if any(isinstance(base, ast.Name) and base.id == "Message" for base in node.bases):
                    yield path, node


def test_every_message_has_a_route():
    """`a -> b` in the first line: who says it to whom."""
    without = [
        f"{name(path)}:{node.name}"
        for path, node in message_classes()
        if "->" not in (ast.get_docstring(node) or "").partition("\n")[0]
    ]
    assert not without


def test_nothing_sleeps_in_tests():
    """Tests wait for conditions; a sleep is either too short or too long."""
    sleeping = []
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "sleep" and isinstance(node.value, ast.Name):
                if node.value.id == "time":
                    sleeping.append(f"{name(path)}:{node.lineno}")
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                sleeping += [f"{name(path)}:{node.lineno}" for alias in node.names if alias.name == "sleep"]
    assert not sleeping


def test_every_example_is_run():
    """What is in examples/ and is no example is imported by one."""
    run = {path.stem for path in EXAMPLES}
    text = "\n".join(path.read_text() for path in EXAMPLES)
    for path in (ROOT / "examples").glob("*.py"):
        assert path.stem in run or f"from {path.stem} import" in text, name(path)


def test_no_file_names_one_machine_or_a_package_host():
    found = []
    for path in files("*.py", "*.md", "*.cfg", "*.toml", "*.txt") + scripts():
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if any(word.search(line) for word in FOREIGN):
                found.append(f"{name(path)}:{number}: {line.strip()}")
    assert not found


def scripts():
    return [path for folder in ("scripts", ".ci") for path in (ROOT / folder).iterdir() if path.is_file()]


def test_scripts_are_a_few_lines_and_can_be_run():
    for path in scripts():
        assert lines_of(path) <= 20, name(path)
        if path.name != "environment":
            assert path.read_text().startswith("#!/usr/bin/env bash\n"), name(path)
            assert path.stat().st_mode & 0o111, name(path)


def test_every_package_is_installed():
    """setup.cfg names each folder with an __init__.py; pip would leave out the others in silence."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    there = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "zray").rglob("__init__.py")
        if not SKIPPED & set(path.parts)
    }
    assert listed == there | {"zray.cli", "zray.benchmarks", "zray.benchmarks.figures"}


def test_the_number_of_a_descriptor_is_said_once():
    """Two processes agree on it: the one that hands it over, and the one that is born with it."""
    homes = {}
    for path in sorted((ROOT / "zray").rglob("*.py")):
        for found in re.findall(r"^(\w+_DESCRIPTOR)\b.*=", path.read_text(), re.MULTILINE):
            homes.setdefault(found, []).append(name(path))
    assert len(homes) == 6
    assert all(len(paths) == 1 for paths in homes.values()), homes


def test_nobody_imports_the_commands():
    """The command line is the top floor; import-linter does not see it, since it lies beside the package."""
    found = [
        name(path)
        for path in (ROOT / "zray").rglob("*.py")
        if re.search(r"^\s*(from|import) +(zray\.cli|\.+cli)\b", path.read_text(), re.MULTILINE)
    ]
    assert not found
