"""The address at which the elements of a value lie."""

from pathlib import Path


def is_shared(address):
    """Whether an address is in a mapping of the object store."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, _, high = line.partition(" ")[0].partition("-")
        if int(low, 16) <= address < int(high, 16):
            return "/dev/shm/zray" in line
    return False
