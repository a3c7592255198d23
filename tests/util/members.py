"""Actors that are members of collective groups, in the tests of them."""

import hashlib
import os

import numpy

import zray
from zray.util import collective

# Less than a test may take, in seconds.
DEADLINE_S = 20.0
# Of a long double, and of its bits.
PADDED_BYTES, X87_BYTES = 16, 10


@zray.remote(num_cpus=0, max_concurrency=1)
class Member:
    """An actor that does what a test says."""

    def __init__(self):
        self.kept = {}

    def pid(self):
        return os.getpid()

    def init(self, size, rank, name="default", timeout_ms=int(DEADLINE_S * 1_000)):
        collective.init_collective_group(size, rank, group_name=name, gloo_timeout=timeout_ms)

    def do(self, function, *args):
        """Call a function that the test has written."""
        return function(*args)


def members_of(size, name="default", **options):
    """Actors of a new group, as many as `size`."""
    actors = [Member.options(**options).remote() for _ in range(size)]
    join(actors, name)
    return actors


def join(actors, name="default"):
    """Make the actors a group."""
    zray.get([actor.init.remote(len(actors), rank, name) for rank, actor in enumerate(actors)])


def all_do(actors, function, *args):
    """Results of a function that all actors run at once, with their rank and the arguments."""
    return zray.get([actor.do.remote(function, rank, *args) for rank, actor in enumerate(actors)], timeout=DEADLINE_S)


def outcome(call):
    """The type and text of the error of a call, or None."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def outcomes(actors, function, *args):
    """The outcomes of the function in all actors at once."""

    def run(rank, *rest):
        return outcome(lambda: function(rank, *rest))

    return all_do(actors, run, *args)


def numbers(rank, count, dtype, seed=1):
    """Numbers of a rank, of any dtype that numpy adds, equal in each run."""
    found = numpy.random.default_rng([seed, rank]).integers(0, 100, count)
    if numpy.dtype(dtype).kind in "fc":
        found = found / 7 + rank  # sums are rounded
    return found.astype(dtype)


def digest(array):
    """The bits of all numbers, without the padding that long double has."""
    octets = numpy.frombuffer(array.tobytes(), "u1")
    if array.dtype.char in "gG" and array.dtype.alignment == PADDED_BYTES:
        octets = octets.reshape(-1, PADDED_BYTES)[:, :X87_BYTES]
    return hashlib.blake2b(octets.tobytes()).hexdigest()
