"""ARCHITECTURE.md: the table of places names functions that exist, and the page stays short."""

import ast
import re

import pytest

from tests.scripts import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
PLACES = re.findall(r"^\| .* \| `([\w/]+\.py):([\w.]+)` \|$", PAGE, re.MULTILINE)
WORDS_MAX = 2_600


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


def test_files_named_in_the_text_exist():
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE))
    roots = [ROOT, ROOT / "zray", ROOT / "zray" / "roles"]
    assert not [name for name in named if not any((root / name).is_file() for root in roots)]


def test_page_is_short():
    assert len(PAGE.split()) <= WORDS_MAX
