"""docs/security.md is true: every row is there, and every test that it names."""

import ast
import re

import pytest

from tests.scripts import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = {cells[1].strip(): cells[3] for line in PAGE.splitlines() if len(cells := line.split("|")) == 5}
WANTED = [*(f"S{n}" for n in range(1, 20)), *(f"B{n:02}" for n in range(1, 30)), "B36"]
# What has none, and says why.
WITHOUT = {"S14": "not there yet"}


def test_every_row_is_there():
    assert [name for name in ROWS if re.fullmatch(r"[SB]\d+", name)] == WANTED


@pytest.mark.parametrize("row", WANTED)
def test_every_row_has_its_test(row):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", ROWS[row])
    assert named or WITHOUT[row] in ROWS[row]
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"


def test_the_limit_is_said():
    for page in (PAGE, (ROOT / "README.md").read_text()):
        words = " ".join(page.split())
        assert "trust each other: zray authenticates and encrypts, it does not sandbox" in words
    assert "**Between jobs** no object is refused (B23)" in PAGE


def test_nothing_speaks_to_the_world():
    """No module of zray, nor of its commands, has what it takes to fetch or report something."""
    forbidden = {"http", "urllib", "urllib3", "requests", "httpx", "aiohttp", "ftplib", "smtplib", "ssl", "xmlrpc"}
    for path in (*(ROOT / "zray").rglob("*.py"), *(ROOT / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            # `urllib.parse` takes addresses apart, and opens none.
            assert not {name.partition(".")[0] for name in names if name != "urllib.parse"} & forbidden, path
