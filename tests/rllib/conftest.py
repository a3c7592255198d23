"""Fixtures of the tests of RLlib."""

import pytest


@pytest.fixture(scope="module")
def one_thread():
    """Torch computes in one thread, so that results have the same bits on all machines."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
