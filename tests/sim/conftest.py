"""Simulated worlds live long: the garbage collector looks at them as seldom as in a node's process."""

import gc

import pytest


@pytest.fixture(scope="package", autouse=True)
def rare_collections():
    """The thresholds of host/node/startup.py, while these tests run."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    yield
    gc.set_threshold(*before)


# A run ends by itself in virtual time, and computes all the while: on a busy machine it may have a third of a core.
SECONDS_MAX = 180


def pytest_collection_modifyitems(items):
    """Tests of this folder that say nothing else may take longer than others."""
    for item in items:
        if item.get_closest_marker("sim") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS_MAX))
