"""E9 over a slow link: in a network namespace of its own, whose loopback device the kernel shapes (`tc`).

All that emulated nodes say to each other goes over that device; within a node nothing does.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

RATE = "1gbit"
# Four of loopback's packets at once; what would wait for longer than a switch lets it is dropped.
SHAPE = f"tbf rate {RATE} burst 256kb latency 50ms"
SECONDS_MAX = 300.0


def latencies_over_it(policy: str, count: int, sizes: Sequence[int] = ()) -> dict[int, list[float]]:
    """As e9.latencies; sizes: its own, unless given.

    Raises:
        NotImplementedError: there can be no such link here, and why.
    """
    missing = [tool for tool in ("unshare", "ip", "tc") if shutil.which(tool) is None]
    if missing:
        raise NotImplementedError(f"a shaped link needs {', '.join(missing)}, which this machine does not have")
    shape = f"ip link set lo up && tc qdisc add dev lo root {SHAPE}"
    enter = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "sh", "-c"]
    tried = subprocess.run([*enter, shape], capture_output=True, text=True, timeout=SECONDS_MAX)
    if tried.returncode:
        raise NotImplementedError(f"no link can be shaped here: {tried.stderr.strip() or tried.stdout.strip()}")
    options = ["--policy", policy, "--count", str(count), *map(str, sizes)]
    command = shlex.join([sys.executable, "-m", __name__, *options])
    # What it prints for people is seen; the last line is for us.
    done = subprocess.run(
        [*enter, f"{shape} && exec {command}"], stdout=subprocess.PIPE, text=True, timeout=SECONDS_MAX, check=True
    )
    return {int(size): times for size, times in json.loads(done.stdout.splitlines()[-1]).items()}


def command_line() -> None:
    from .e9 import SIZES, latencies

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--count", type=int, required=True, metavar="N", help="tasks of each size")
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="BYTES")
    options = parser.parse_args()
    print(json.dumps(latencies(options.policy, options.count, options.sizes)))


if __name__ == "__main__":
    command_line()
