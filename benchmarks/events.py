"""Cost of event records: small tasks and actor calls with and without them, in sessions in turns.

python -m benchmarks.events      ratios of medians, and CPU of all processes for each task
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

from zray.host.client.event_log import VARIABLE

TURNS = 9
COUNT = 30_000
ROUNDS = 4
PROGRAM = f"""
import json, time, psutil, zray
zray.init(num_cpus=2)

@zray.remote
def nothing():
    pass

@zray.remote
class Actor:
    def nothing(self):
        pass

def cpu():
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)

actor, found = Actor.remote(), {{}}
for name, call in (("tasks", nothing.remote), ("calls", actor.nothing.remote)):
    zray.get([call() for _ in range({COUNT})])
    began, used = time.perf_counter(), cpu()
    for _ in range({ROUNDS}):
        zray.get([call() for _ in range({COUNT})])
    count = {COUNT * ROUNDS}
    found[name] = [count / (time.perf_counter() - began), (cpu() - used) / count * 1e6]
print(json.dumps(found))
"""


def measured(is_on: bool) -> dict[str, list[float]]:
    """Per second, and CPU in microseconds for each, by kind of work."""
    env = {**os.environ, VARIABLE: "" if is_on else "0"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print a row for each kind of work."""
    runs = [(measured(False), measured(True)) for _ in range(TURNS)]
    for kind in ("tasks", "calls"):
        off, on = ([statistics.median(run[place][kind][part] for run in runs) for part in (0, 1)] for place in (0, 1))
        print(
            f"{kind}: {on[0]:,.0f}/s with records, {off[0]:,.0f}/s without, ratio {on[0] / off[0]:.3f}; "
            f"CPU {on[1]:.2f} and {off[1]:.2f} us, ratio {on[1] / off[1]:.3f}"
        )


if __name__ == "__main__":
    main()
