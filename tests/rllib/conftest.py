"""Fixtures of the tests of RLlib."""

import sys

import pytest


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Torch computes in one thread, so that results have the same bits on all machines.

    Two threads wait for each other in a loop: beside other tests, they need five times as much CPU.
    """
    torch = sys.modules.get("torch")  # modules that need torch import it
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
