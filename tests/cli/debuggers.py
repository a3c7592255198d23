"""Helpers of tests of breakpoints: the breakpoint of a function, and a talk with its debugger."""

from cli.breakpoints import here
from tests.gates import until


def the_breakpoint(name):
    """The breakpoint of a function, once it is there."""
    return until(lambda: next((each for each in here() if each.is_called(name)), None))


def said(line, *commands):
    """Send commands, and return all output up to the end of the connection."""
    for each in commands:
        line.write(f"{each}\n".encode())
    line.finish()
    output = b""
    while data := line.read():
        output += data
    return output.decode()
