"""wait: use each result as soon as it is there, not in the order of submission.

Prints:

    after the first: 1 ready, 2 not yet
    the short task came first: True
    in the order asked: ['long', 'longer', 'short']
"""

import time

import zray as ray


@ray.remote
def work(name, seconds):
    time.sleep(seconds)
    return name


with ray.init(num_cpus=3):
    tasks = [work.remote("long", 1.0), work.remote("longer", 1.5), work.remote("short", 0.05)]

    ready, rest = ray.wait(tasks, num_returns=1)
    print(f"after the first: {len(ready)} ready, {len(rest)} not yet")
    print(f"the short task came first: {ray.get(ready[0]) == 'short'}")

    # get keeps the order of its argument, whatever finished first.
    print(f"in the order asked: {ray.get(tasks)}")
