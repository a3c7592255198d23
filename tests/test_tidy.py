"""The rules of the source tree: short files, documented messages, no path of one machine, no absent document."""

import ast
import configparser
import functools
import re

import pytest

from tests.scripts import ROOT
from tests.test_examples import EXAMPLES

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
EXAMPLE_LINES_MAX = 60
COMMAND_LINES_MAX = 60

FOLDERS = ["zray", "cli", "tests", "examples", "benchmarks", "scripts", "docs", ".ci"]
SKIPPED = {"__pycache__", "build", "dist"}
# Words that name one machine or one package host; spelled in parts, so that this file does not hold them.
FOREIGN = [re.compile(word) for word in (r"/wo" + r"rk/", r"/roo" + r"t/", r"py" + r"pi", r"pythonhost" + r"ed")]
# Documents that are not in the repository; their names followed by a section or a row, and the rows by themselves.
ABSENT_NAMES = ("DES-IGN", "USE-RS", "FEAT-URES", "PAP-ER", "LIBRA-RIES", "RESTRUC-TURE", "NAM-ES", "STY-LE")
ABSENT = re.compile(
    rf"\b({'|'.join(ABSENT_NAMES).replace('-', '')})(\.md\b|'s\b|,?\s+(# *)?[A-Z]?\d+)|\bU\d\d\b|\bF\d\d\b"
)
# Files whose references have yet to go.
SECURITY_ROW = re.compile(r"\b[SB]\d{1,2}\b")


def files(*patterns):
    found = [path for folder in FOLDERS for pattern in patterns for path in (ROOT / folder).rglob(pattern)]
    found += [path for pattern in patterns for path in ROOT.glob(pattern)]
    return sorted({path for path in found if path.is_file() and not SKIPPED & set(path.parts)})


def name(path):
    return str(path.relative_to(ROOT))


PYTHON = files("*.py")


@functools.cache
def outline(path):
    """Whether a module has a docstring, and its functions: (name, first line, last line)."""
    text = path.read_text()
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    is_documented = not text.strip() or bool(ast.get_docstring(tree))
    return is_documented, [(node.name, node.lineno, node.end_lineno) for node in nodes]


def long_functions(paths, lines_max):
    return {
        f"{name(path)}:{function}": last - first + 1
        for path in paths
        for function, first, last in outline(path)[1]
        if last - first + 1 > lines_max
    }


def test_file_is_short():
    long = {name(path): lines for path in PYTHON if (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX}
    assert not long


def test_function_fits_on_a_page():
    assert not long_functions(PYTHON, FUNCTION_LINES_MAX)


def test_example_and_command_are_short():
    long = [name(path) for path in (ROOT / "examples").glob("*.py") if lines_of(path) > EXAMPLE_LINES_MAX]
    assert not long and not long_functions((ROOT / "cli").glob("*.py"), COMMAND_LINES_MAX)


def lines_of(path):
    return len(path.read_text().splitlines())


def test_module_has_a_docstring():
    assert not [name(path) for path in PYTHON if path.parent.name != "tests" and not outline(path)[0]]


def test_tests_do_not_sleep():
    """Tests wait for conditions; a sleep is either too short or too long."""
    sleeping = []
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "sleep" in text else ():
            if isinstance(node, ast.Attribute) and node.attr == "sleep" and isinstance(node.value, ast.Name):
                if node.value.id == "time":
                    sleeping.append(f"{name(path)}:{node.lineno}")
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                sleeping += [f"{name(path)}:{node.lineno}" for alias in node.names if alias.name == "sleep"]
    assert not sleeping


def test_every_example_is_run():
    """A module in examples/ that is no example is imported by an example."""
    run = {path.stem for path in EXAMPLES}
    text = "\n".join(path.read_text() for path in EXAMPLES)
    for path in (ROOT / "examples").glob("*.py"):
        assert path.stem in run or f"from {path.stem} import" in text, name(path)


def texts():
    return files("*.py", "*.md", "*.cfg", "*.toml", "*.txt") + scripts()


def test_files_name_no_machine_and_no_package_host():
    found = []
    for path in texts():
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if any(word.search(line) for word in FOREIGN):
                found.append(f"{name(path)}:{number}: {line.strip()}")
    assert not found


def test_files_refer_to_no_absent_document():
    """A reader can follow each reference: into docs/, or to a section of the Ray paper."""
    found = []
    for path in texts():
        text = path.read_text()
        found += [f"{name(path)}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]}" for hit in ABSENT.finditer(text)]
    assert not found


@pytest.mark.parametrize(
    "parts", ["DES|IGN 7", "DES|IGN\n# 6.5", "USE|RS U|38", "FEAT|URES.md", "PAP|ER's", "(U|03)", "F|03,"]
)
def test_reference_to_an_absent_document_is_found(parts):
    assert ABSENT.search(f"said there ({parts.replace('|', '')}).")


def test_rows_about_security_are_in_a_page_that_is_named():
    """A row such as B20 means nothing without its page."""
    page = "docs/security.md"
    rows = set(re.findall(r"^\| ([SB]\d+) \|", (ROOT / page).read_text(), re.MULTILINE))
    found = []
    for path in PYTHON:
        text = path.read_text()
        named = set(SECURITY_ROW.findall(text))
        if named and (page not in text or named - rows):
            found.append(f"{name(path)}: {', '.join(sorted(named))}")
    assert not found


def scripts():
    return [path for folder in ("scripts", ".ci") for path in (ROOT / folder).iterdir() if path.is_file()]


def test_scripts_are_short_and_can_be_run():
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
    beside = {"zray.cli", "zray.cli.launch", "zray.cli.top"}
    beside |= {"zray.benchmarks", "zray.benchmarks.figures", "zray.benchmarks.yardsticks"}
    assert listed == there | beside


def test_number_of_a_descriptor_is_defined_once():
    """Two processes agree on the number: the parent that hands the descriptor over, and the child."""
    homes = {}
    for path in sorted((ROOT / "zray").rglob("*.py")):
        for found in re.findall(r"^(\w+_DESCRIPTOR)\b.*=", path.read_text(), re.MULTILINE):
            homes.setdefault(found, []).append(name(path))
    assert len(homes) == 7
    assert all(len(paths) == 1 for paths in homes.values()), homes


def test_package_does_not_import_the_commands():
    """The command line is the top layer.  It lies beside the package, so import-linter does not see it."""
    found = [
        name(path)
        for path in (ROOT / "zray").rglob("*.py")
        if re.search(r"^\s*(from|import) +(zray\.cli|\.+cli)\b", path.read_text(), re.MULTILINE)
    ]
    assert not found
