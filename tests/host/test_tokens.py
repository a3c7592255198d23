"""What stands where an address is asked for."""

import pytest

import zray
from zray.host.security.token_input import cluster_address

WRONG = [
    "http://10.77.0.1:6379",
    "tcp://127.0.0.1:6379",
    "http://head.invalid:80",
    "user@127.0.0.1:22",
    "[::1]:6379",
    "::1:6379",
    "127.0.0.1:6379/",
    "the head:6379",
    ":6379",
    "127.0.0.1",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_address_is_told_what_one_is(text):
    """It is no host name that could be known, and is looked up nowhere."""
    with pytest.raises(ValueError, match="An address must be HOST:PORT, not ") as found:
        cluster_address(text)
    assert repr(text) in str(found.value)


@pytest.mark.parametrize("scheme", ["", "zray://", "ray://"])
def test_an_address_may_say_which_program_it_is_of(scheme):
    assert cluster_address(f"{scheme}localhost:6379") == "127.0.0.1:6379"


def test_a_program_is_told_what_an_address_is():
    with pytest.raises(ValueError, match=r"must be HOST:PORT, not 'http://10\.77\.0\.1:6379'"):
        zray.init(address="http://10.77.0.1:6379")
    assert not zray.is_initialized()
