"""Hosts behind a fake ssh."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.launch.fakes import Hosts


@pytest.fixture
def hosts(nothing_left, request):
    """Three of them: a, b, c."""
    folder = Path(tempfile.mkdtemp(prefix="ssh", dir=request.config.zray_folder))  # short: sockets lie below it
    made = Hosts(folder)
    made.add("a", "b", "c")
    yield made
    shutil.rmtree(folder)
