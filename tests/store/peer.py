"""Another process that takes values as a worker does: `Peer.run(function, value)` is `function(value)` there.

Run as a program, this is that process.  A program's `__main__` is a dict here, so that a test has as many as it wants.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from zray.store.errors import serialize_error
from zray.store.values import deserialize, serialize, to_bytes

LENGTH_BYTES = 8


def program(code):
    """The namespace of a program that has run `code`: its classes and functions travel by value."""
    namespace = {"__name__": "__main__"}
    exec(textwrap.dedent(code), namespace)
    return namespace


class Peer:
    """The process; the end of `with` ends it."""

    def __enter__(self):
        command = [sys.executable, "-m", "tests.store.peer"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()

    def run(self, function, *values):
        """What the function returns there, or raises."""
        return deserialize(self.exchange(to_bytes(serialize((function, values)))))

    def exchange(self, data):
        write(self.process.stdin, data)
        return read(self.process.stdout)


def write(stream, data):
    stream.write(len(data).to_bytes(LENGTH_BYTES, "little") + data)
    stream.flush()


def read(stream):
    return stream.read(int.from_bytes(stream.read(LENGTH_BYTES), "little"))


def main():
    stream = sys.stdout.buffer
    sys.stdout = sys.stderr
    while data := read(sys.stdin.buffer):
        try:
            function, values = deserialize(data)
            answer = to_bytes(serialize(function(*values)))
        except Exception as error:
            answer = to_bytes(serialize_error(error, "peer"))
        write(stream, answer)


if __name__ == "__main__":
    main()
