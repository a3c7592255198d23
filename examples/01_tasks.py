"""Tasks: a call that returns at once, and tasks that take what other tasks make.

Prints:

    two tasks submitted, and a third that waits for them
    shape (100, 100), sum 250000.0
"""

import numpy as np

import zray as ray


@ray.remote
def filled(size, value):
    return np.full(size, value)


@ray.remote
def multiply(x, y):
    return np.dot(x, y)


with ray.init(num_cpus=2):
    # Each call returns a reference to a value that will be; the two tasks run side by side.
    x = filled.remote((100, 100), 0.5)
    y = filled.remote((100, 100), 0.5)
    # A reference as an argument: the task starts when the value is there, and gets the value itself.
    z = multiply.remote(x, y)
    print("two tasks submitted, and a third that waits for them")

    product = ray.get(z)
    print(f"shape {product.shape}, sum {product.sum()}")
