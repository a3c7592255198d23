"""Names that docs/compatibility.md calls absent are absent, or say that they are."""

import importlib

import pytest

from tests.docs.pages import DOCS, rows

NAMES = [cells[0].strip("`") for cells in rows(DOCS / "compatibility.md", "Absent names")]


def found(name):
    """What a program gets for the name; None where there is nothing."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        return getattr(importlib.import_module(module), attribute, None)


@pytest.mark.parametrize("name", NAMES)
def test_name_is_absent_or_raises_not_implemented(name):
    there = found(name)
    if there is not None:
        with pytest.raises(NotImplementedError):
            there(None)
