"""Requests for resources that nothing could mean are refused where they are made (B19)."""

import math

import pytest

import zray

REQUESTS = {
    "negative": {"num_cpus": -1},
    "NaN": {"num_cpus": math.nan},
    "infinite": {"num_gpus": math.inf},
    "of another type": {"num_cpus": "1"},
    "a truth": {"num_cpus": True},
    "beyond all machines": {"num_cpus": 1e308},
    "a negative one of a kind": {"resources": {"disk": -0.5}},
    "NaN of a kind": {"resources": {"disk": math.nan}},
    "beyond all machines of a kind": {"resources": {"disk": 10**308}},
    "10,000 names": {"resources": {f"r{number}": 1 for number in range(10_000)}},
    "a name of 1 MB": {"resources": {"r" * (1 << 20): 1}},
    "no name": {"resources": {"": 1}},
    "a name that cannot be printed": {"resources": {"\x1b[2J": 1}},
    "a name with a NUL": {"resources": {"a\0b": 1}},
    "a name that turns the direction": {"resources": {"\u202egnp": 1}},
    "a name that is none": {"resources": {7: 1}},
    "a list": {"resources": ["disk"]},
}


def one():
    return 1


class Actor:
    pass


@pytest.mark.parametrize("options", REQUESTS.values(), ids=REQUESTS)
def test_it_is_an_error_of_the_caller_and_short(options):
    for ask in (
        lambda: zray.remote(**options)(one),
        lambda: zray.remote(one).options(**options),
        lambda: zray.remote(**options)(Actor),
        lambda: zray.remote(Actor).options(**options),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            ask()
        assert len(str(caught.value)) < 500 and str(caught.value).isprintable()
