"""A tree of tasks: 64 numbers are added in pairs, level by level, without the driver seeing the parts.

Prints:

    63 additions, 6 levels: 2016
"""

import zray as ray


@ray.remote
def add(x, y):
    return x + y


with ray.init(num_cpus=2):
    numbers = [ray.put(number) for number in range(64)]
    additions = levels = 0
    while len(numbers) > 1:
        numbers = [add.remote(x, y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
        additions += len(numbers)
        levels += 1
    print(f"{additions} additions, {levels} levels: {ray.get(numbers[0])}")
