"""zray.util: names are loaded on first use, and each is what its module has."""

import importlib
import subprocess
import sys

import zray.util


def test_every_name_is_there():
    for name in zray.util.__all__:
        assert getattr(zray.util, name) is not None
    assert dir(zray.util) == zray.util.__all__ == sorted(zray.util.__all__, key=lambda name: (name.islower(), name))


def test_function_has_the_name_that_a_module_has_too():
    """Whichever was imported first."""
    module = importlib.import_module("zray.util.placement_group")
    assert zray.util.placement_group is module.placement_group
    script = (
        "from zray.util.placement_group import PlacementGroup\n"
        "from zray.util import placement_group\n"
        "print(type(placement_group).__name__)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "function\n"


def test_import_loads_nothing_else():
    """Neither the rest of zray nor packages of others: they would take a tenth of a second."""
    script = "import sys, zray; before = set(sys.modules); import zray.util; print(sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    assert found == "['zray.util']\n"
