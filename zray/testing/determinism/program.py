"""The program of a run, in a process of its own: as `python PROGRAM ARGS`, with other CPUs, and watched."""

from __future__ import annotations

import atexit
import builtins
import json
import os
import signal
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from ...api import sessions
from .records import Program, Refusal, Session
from .wrapping import Place, Watch, place_of, sources_drawn, sources_now

__all__ = ["COMMAND", "prepared"]

# The folder of the command is no place to import from: `python PROGRAM` has that of the program.
# No frame of zray's lies below the program: an interrupt would wait until that has returned.
COMMAND = "import sys; del sys.path[0]; from zray.testing.determinism.program import prepared; exec(*prepared())"


def prepared() -> tuple[CodeType, dict[str, Any]]:
    """Return the code of the program and its namespace, for exec().

    The arguments of this process are the orders of the run as JSON, the program, and its arguments.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the command interrupts this process
    orders = json.loads(sys.argv[1])
    del sys.argv[:2]
    place = place_of(Watch(orders["folder"], {int(number): at for number, at in orders["kills"].items()}))
    sessions.around = Sessions(place, orders["num_cpus"]).start
    path = os.path.abspath(sys.argv[0])
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    with open(path, "rb") as file:
        code: CodeType = compile(file.read(), path, "exec", dont_inherit=True)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __spec__=None)
    sys.modules["__main__"] = module
    before = sources_now()
    atexit.register(lambda: place.writer.write(Program(sources_drawn(before))))
    return code, module.__dict__


class Sessions:
    """The sessions of the program: on this machine, with a given number of CPUs."""

    def __init__(self, place: Place, num_cpus: int) -> None:
        self.place, self.num_cpus = place, num_cpus

    def start(self, start: Callable[..., Any], address: str | None, **arguments: Any) -> Any:
        """Start a session, and watch it.

        Raises:
            NotImplementedError: it would not be of this process alone.
        """
        if address not in (None, "", "local"):
            self._refuse(f"The program joins a session at {address!r}: its CPUs cannot be chosen.")
        if arguments["local_mode"]:
            self._refuse("The program runs in local mode, which has no workers.")
        asked = arguments["num_cpus"]
        runtime = start("local", **{**arguments, "num_cpus": self.num_cpus, "log_to_driver": False})
        self.place.writer.write(Session(runtime.root.task_id.hex(), asked))
        self.place.begin()
        return runtime

    def _refuse(self, text: str) -> None:
        text = f"{text}  `zray determinism` compares programs that start a session with zray.init()."
        self.place.writer.write(Refusal(text))
        raise NotImplementedError(text)
