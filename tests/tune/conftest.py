"""One session for all tests of Tune that need processes."""

import pytest

import zray


@pytest.fixture(scope="module")
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found
