"""Simulated worlds live long: the garbage collector looks at them as seldom as in a node's process."""

import gc

import pytest


@pytest.fixture(scope="package", autouse=True)
def rare_collections():
    """The thresholds of host/node_life.py, while these tests run."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    yield
    gc.set_threshold(*before)
