"""Arrays of JAX and TensorFlow: their elements are read where they lie.  Each library has a program of its own."""

import importlib.util
import subprocess
import sys

import pytest

from tests.scripts import environment

pytestmark = pytest.mark.slow

PROGRAM = """
import time
import numpy as np
import zray
from tests.places import is_shared
{imports}

zray.init(num_cpus=1)

@zray.remote
def twice(value):
    return {{"twice": value["a"] * 2}}

whole = {make}
ref = zray.put({{"a": whole}})
zray.get(ref)
start = time.perf_counter()
value = zray.get(ref)["a"]
seconds = time.perf_counter() - start
assert type(value) is type(whole) and value.dtype == whole.dtype
assert is_shared({address}), "copied"
assert seconds < 1, seconds
back = zray.get(twice.remote(ref))["twice"]
assert float(back[3]) == 2.0
for small in {small}:
    again = zray.get(zray.put([small]))[0]
    assert type(again) is type(small) and again.dtype == small.dtype
    assert np.array_equal(np.asarray(again), np.asarray(small))
print("as it should be")
"""

LIBRARIES = {
    "jax": {
        "imports": "import jax, jax.numpy as jnp",
        "make": "jnp.ones(25_000_000)",
        "address": "value.unsafe_buffer_pointer()",
        "small": "[jnp.arange(3), jnp.float32(2.5), jnp.zeros((0, 3)), jnp.ones(3, jnp.bfloat16), jnp.ones(3) > 0]",
    },
    "tensorflow": {
        "imports": "import tensorflow as tf",
        "make": "tf.ones((25_000_000,))",
        "address": 'np.asarray(memoryview(value)).__array_interface__["data"][0]',
        "small": '[tf.range(3), tf.constant(2.5), tf.zeros((0, 3)), tf.ones(3, tf.bfloat16), tf.constant(["a", "b"])]',
    },
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_elements_are_read_where_they_lie(library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    program = PROGRAM.format(**LIBRARIES[library])
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=55, env=environment(), check=False
    )
    assert result.stdout.endswith("as it should be\n"), result.stderr[-3000:]
