"""Errors: what a task raises, `get` raises, as the same class; tasks that needed its value are skipped.

Prints:

    caught ValueError: True
    its cause: ValueError('the sensor says -1')
    the task that needed the value fails the same way: True
    a task killed twice came through on attempt 3
"""

import os
import signal
import tempfile

import zray as ray


@ray.remote
def read_sensor():
    raise ValueError("the sensor says -1")


@ray.remote
def double(value):
    return 2 * value


@ray.remote(max_retries=3)
def fragile(folder):
    """Kills its own process until it has been tried three times."""
    attempt = len(os.listdir(folder)) + 1
    open(os.path.join(folder, str(attempt)), "w").close()
    if attempt < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempt


with ray.init(num_cpus=2), tempfile.TemporaryDirectory() as folder:
    reading = read_sensor.remote()
    try:
        ray.get(reading)
    except ValueError as error:
        print(f"caught ValueError: {isinstance(error, ray.exceptions.RayTaskError)}")
        print(f"its cause: {error.cause!r}")
    try:
        ray.get(double.remote(reading))
    except ValueError:
        print("the task that needed the value fails the same way: True")
    print(f"a task killed twice came through on attempt {ray.get(fragile.remote(folder))}")
