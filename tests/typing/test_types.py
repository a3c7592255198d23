"""The types of the public API, as mypy and pyright see them: `uses.py` holds typical programs and wrong ones."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import ROOT

USES = Path(__file__).with_name("uses.py")
REFUSED = {number for number, line in enumerate(USES.read_text().splitlines(), 1) if line.endswith("  # error")}


def run(*command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_mypy_accepts_typical_uses_and_reports_wrong_ones():
    """The configuration and the cache are those of `scripts/check`, which has looked at all of zray before."""
    result = run(sys.executable, "-m", "mypy", "--config-file", "setup.cfg", str(USES), folder=ROOT)
    found = {int(line) for line in re.findall(r"uses\.py:(\d+): error:", result.stdout)}
    assert found == REFUSED, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_pyright_accepts_typical_uses_and_reports_wrong_ones(tmp_path):
    pytest.importorskip("basedpyright", reason="pyright is not installed (pip install basedpyright)")
    config = {"typeCheckingMode": "standard", "include": [str(USES)], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    result = run(sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(tmp_path), folder=tmp_path)
    report = json.loads(result.stdout)
    found = {
        item["range"]["start"]["line"] + 1
        for item in report["generalDiagnostics"]
        if item["severity"] == "error" and item["file"] == str(USES)
    }
    assert found == REFUSED, result.stdout
