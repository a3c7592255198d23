"""Sessions whose processes may write no long files (`ulimit -f`)."""

import subprocess
import sys

PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
import zray
{body}
"""


def run(limit, body):
    """Lines that the program prints into a pipe; the program ends with 0."""
    program = PROGRAM.format(limit=limit, body=body)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_large_values_are_refused_with_the_limit_and_the_session_goes_on():
    lines = run(
        1_024_000,
        """
zray.init(num_cpus=1, log_to_driver=False)

@zray.remote
def size_of(value):
    return len(value)

@zray.remote
def make(size):
    return bytes(size)

running = make.remote(10)
for large in (lambda: zray.put(bytes(100_000_000)), lambda: zray.get(make.remote(200_000))):
    try:
        large()
    except zray.exceptions.ObjectStoreFullError as error:
        print(all(word in str(error) for word in ("1,024,000 bytes at most", "RLIMIT_FSIZE", "object_store_memory")))
print(len(zray.get(running)), zray.get(size_of.remote(bytes(1000))))
""",
    )
    assert lines == ["True", "True", "10 1000"]


def test_store_below_the_limit_works():
    lines = run(
        30_000_000,
        """
zray.init(num_cpus=1, object_store_memory=20_000_000)
print(len(zray.get(zray.put(bytes(10_000_000)))))
""",
    )
    assert lines == ["10000000"]


def test_tasks_that_print_more_than_a_log_may_have_go_on():
    lines = run(
        100_000,
        """
zray.init(num_cpus=1)

@zray.remote
def speak():
    for number in range(5_000):
        print(f"{number:099}")
    print("the last line", file=sys.stderr)
    return number

# Not printed: the output of tasks goes to the same pipe, from another thread.
assert zray.get([speak.remote(), speak.remote()]) == [4999, 4999]
""",
    )
    assert len([line for line in lines if line.endswith(f"{0:099}")]) == 1


def test_node_without_space_for_its_files_says_which():
    (line,) = run(
        0,
        """
try:
    zray.init(num_cpus=1)
except OSError as error:
    print(error)
""",
    )
    assert "File too large" in line and "node.json" in line
