"""ARCHITECTURE.md and docs/design: files and functions that they name exist, and the first page stays short."""

import ast
import re

import pytest

from tests.scripts import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
PLACES = re.findall(r"^\| .* \| `([\w/]+\.py):([\w.]+)` \|$", PAGE, re.MULTILINE)
WORDS_MAX = 2_600
PAGES = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]


def names_of(path):
    """Names of a file's functions and classes; methods as Class.method."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name


def test_table_of_places_has_at_least_34_rows():
    assert len(PLACES) >= 34


@pytest.mark.parametrize(("file", "function"), PLACES, ids=[f"{file}:{function}" for file, function in PLACES])
def test_function_of_a_behaviour_exists(file, function):
    assert function in set(names_of(ROOT / "zray" / file))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_named_in_a_page_exist(path):
    folders = [ROOT / folder for folder in ("zray", "benchmarks", "tests")]
    files = {f"/{file.relative_to(ROOT)}" for folder in folders for file in folder.rglob("*.py")}
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", path.read_text()))
    assert not [name for name in named if not any(file.endswith(f"/{name}") for file in files)]


def test_page_is_short():
    assert len(PAGE.split()) <= WORDS_MAX
