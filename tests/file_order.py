"""Order of the files of a run: those of all folders in turns.

Tests of some folders compute (simulator, roles), and those of others wait (processes, networks).  Runs side by side use
all cores as long as both kinds are under way.  In the order of names, all that wait would come together: a fifth of two
cores' time was left over.
"""

from collections import defaultdict
from itertools import groupby
from operator import attrgetter


def in_turns(items):
    """Return the tests of a run, in order of their files' places among the files of their folder.

    The tests of a file stay together, and the files of a folder in their order.
    """
    files = [(path, list(tests)) for path, tests in groupby(items, attrgetter("path"))]
    counts, numbers = defaultdict(int), defaultdict(int)
    for path, _ in files:
        counts[path.parent] += 1
    places = []
    for path, tests in files:
        places.append(((numbers[path.parent] + 0.5) / counts[path.parent], tests))
        numbers[path.parent] += 1
    places.sort(key=lambda place: place[0])  # those of one place keep their order
    return [test for _, tests in places for test in tests]
