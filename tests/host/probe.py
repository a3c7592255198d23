"""A look from inside into zray's own processes, by signals.  `under(program)` begins a process with it, and with it
all that the process starts in its turn (host/process/spawn.py).

    SIGUSR1    write a Report into the folder of ZRAY_TEST_PROBE
    SIGUSR2    unpickle something harmless: what the process must not survive
"""

import json
import os
import signal
import sys

VARIABLE = "ZRAY_TEST_PROBE"
FORBIDDEN = ("pickle", "_pickle", "cloudpickle", "dill", "numpy", "msgpack_numpy")

imports = []  # (what, by which module of zray)


def under(program):
    """The text of host/process/spawn.py, with the probe in it."""
    begin, middle, rest = program.partition("from {module}")
    return f"{begin}from tests.host import probe; probe.install(); {middle}{rest}"


def install():
    from zray.host.process import spawn

    if "probe.install" not in spawn._PROGRAM:
        spawn._PROGRAM = under(spawn._PROGRAM)
    sys.addaudithook(note_import)
    signal.signal(signal.SIGUSR1, report)
    signal.signal(signal.SIGUSR2, unpickle)


def hears(pid):
    """Whether the probe is in that process yet: before, its signals would end it."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            status = dict(line.split(":", 1) for line in file)
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = int(status["SigCgt"], 16)
    return all(caught >> (number - 1) & 1 for number in (signal.SIGUSR1, signal.SIGUSR2))


def note_import(event, arguments):
    if event != "import" or arguments[0].partition(".")[0] not in FORBIDDEN:
        return
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("importlib", "_frozen_importlib")):
        frame = frame.f_back
    importer = frame.f_globals.get("__name__", "") if frame is not None else ""
    if importer.startswith("zray"):
        imports.append((arguments[0], importer))


def report(number, frame):
    modules = {name: module for name, module in list(sys.modules.items()) if module is not None}
    held = [
        (name, key)
        for name, module in modules.items()
        if name.startswith("zray")
        for key, value in vars(module).items()
        if getattr(value, "__name__", "") in FORBIDDEN or getattr(value, "__module__", "") in FORBIDDEN
    ]
    loaded = sorted({"numpy", "cloudpickle", "dill", "msgpack_numpy", "zray.store.values"} & set(modules))
    path = os.path.join(os.environ[VARIABLE], str(os.getpid()))
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({"imports": imports, "held": held, "loaded": loaded}, file)
    os.rename(f"{path}.new", path)


def unpickle(number, frame):
    import collections
    import pickle

    pickle.loads(pickle.dumps(collections.OrderedDict()))
