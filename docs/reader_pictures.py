"""Pictures of commands in a terminal, on the pages that explain them.

`python docs/reader_pictures.py` writes them all, `python docs/reader_pictures.py why logs` these two.  The programs are
those of the pages; the commands run in a terminal of their own, while the program runs or after its end.
"""

import fcntl
import io
import json
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "pictures"
BYTES_MAX = 30_000
COLUMNS = 112
HOME = "/home/me/study"  # as long as a temporary folder, so that tables keep their widths
HOST = "laptop"
READY = "the program is ready"
STAY = f"\nprint({READY!r}, flush=True)\ninput()\n"
ESCAPE = re.compile(r"\x1b(?:\[[0-9;?>=]*[A-Za-ln-z]|[=>]|\][^\x07]*\x07)")  # all but colours: those end in m
TRAIN = """
import zray

zray.init()
square = zray.remote(lambda number: number**2)
print("squares", zray.get([square.remote(number) for number in range(5)]))
"""
STUCK = """
import threading

import zray


def connect(path):
    threading.Event().wait()


@zray.remote
def train(path):
    connect(path)


@zray.remote
class Reader:
    def ready(self):
        return True


zray.init(num_cpus=2)
reader = Reader.remote()
zray.get(reader.ready.remote())
ref = train.remote("data")
zray.wait([ref], timeout=1)
"""
COLOURS = {"load": 43, "clean": 45, "merge": 44, "score": 42}  # of the background
Step = tuple[str, str]  # a command and its output


def program_of(page: str, blocks: int = 1) -> str:
    """The first Python blocks of a page."""
    found = re.findall(r"^```python\n(.*?)^```$", (DOCS / f"{page}.md").read_text(), re.M | re.S)
    return "\n".join(found[:blocks])


class Terminal:
    """A folder and a terminal, in which programs and commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "zray").write_text(f'#!/bin/sh\nexec {sys.executable} -m zray.cli.main "$@"\n')
        (folder / "zray").chmod(0o755)
        own = {
            "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ZRAY_TMPDIR": str(folder),
            "ZRAY_LOG_DIR": str(folder / "logs"),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ZRAY_")}
        self.environment = {**kept, **own}

    def ran(self, command: str, answers: Iterable[str] = (), prompt: str = "db) ", **environment: str) -> Step:
        """Run a command, and type an answer at each prompt."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        left, output, seen = [*answers], b"", 0
        while part := read(master):
            output += part
            if left and ESCAPE.sub("", output[seen:].decode(errors="ignore")).endswith(prompt):
                seen = len(output)
                os.write(master, left.pop(0).encode() + b"\n")
        os.close(master)
        process.wait(60)
        return command, self.public(output.decode())

    def public(self, text: str) -> str:
        """The text without names of this machine, and without moves of the cursor."""
        text = ESCAPE.sub("", text).replace("\r\n", "\n").replace(str(self.folder), HOME)
        return text.replace(sys.base_prefix, "/usr").replace(socket.gethostname(), HOST).strip("\n")

    @contextmanager
    def program(self, code: str, until: str = READY, **environment: str) -> Iterator[list[str]]:
        """A program that runs, after the line with a text; its lines up to there."""
        (self.folder / "program.py").write_text(code)
        process = subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = []
        assert process.stdin and process.stdout
        try:
            for line in process.stdout:
                lines.append(self.public(line))
                if until in line:
                    break
            else:
                raise RuntimeError("".join(lines))
            yield lines
            process.stdin.write("\n")
        finally:
            process.stdin.close()
            process.stdout.read()
            process.wait(60)


def read(master: int) -> bytes:
    """The next output of a terminal; empty: its programs have ended."""
    try:
        return os.read(master, 65_536)
    except OSError:
        return b""


def state(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("state") + "print(failed[0].task_id)" + STAY) as lines:
        return [terminal.ran("zray summary tasks"), terminal.ran(f"zray get tasks {lines[-2]}")]


def why(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("why") + "print(failed.hex())" + STAY + 'gate.put("go on")\n') as lines:
        return [terminal.ran("zray why merge"), terminal.ran(f"zray why {lines[-2]}")]


def memory(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("memory") + STAY):
        return [terminal.ran("zray memory")]


def metrics(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("metrics") + STAY):
        wanted = "^ray_|^zray_tasks|^zray_resources|^zray_object_store"
        return [terminal.ran(f"zray metrics --once | grep -E '{wanted}'")]


def logs(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("logs") + STAY):
        pass
    return [terminal.ran(command) for command in ("zray logs", "zray logs train", "zray logs shop --tail 1")]


def jobs(terminal: Terminal) -> list[Step]:
    (terminal.folder / "train.py").write_text(TRAIN)
    with terminal.program("import zray\n\nzray.init(num_cpus=2)" + STAY):
        steps = [terminal.ran("zray job submit -- python train.py")]
        return [*steps, terminal.ran("zray job list")]


def stack(terminal: Terminal) -> list[Step]:
    with terminal.program(STUCK + STAY):
        return [
            terminal.ran("zray stack"),
            terminal.ran("zray profile train --duration 2 --output train.txt; cat train.txt"),
        ]


def debug(terminal: Terminal) -> list[Step]:
    head = "import zray as ray\n\nray.init(num_cpus=1)\n\n\n"
    with terminal.program(head + program_of("debug"), until="stands at") as lines:
        shown = "python program.py", lines[-1]
        return [shown, terminal.ran("zray debug mean", ["p total, values", "w", "c"])]


def replay(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("replay") + STAY):
        pass
    return [terminal.ran("zray replay share"), terminal.ran("zray replay share --pdb", ["p values, parts, noise", "q"])]


def whatif(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("report") + STAY, ZRAY_RECORD="run.zrec"):
        pass
    return [terminal.ran("zray whatif run.zrec --cpus 1,4,8 --nodes 1,2 --bandwidth 1Gbit")]


def determinism(terminal: Terminal) -> list[Step]:
    (terminal.folder / "program.py").write_text(program_of("determinism"))
    return [terminal.ran("zray determinism program.py")]


def timeline(terminal: Terminal) -> list[Step]:
    with terminal.program(program_of("report") + STAY):
        command, output = terminal.ran("zray timeline run.json")
    return [(command, f"{output}\n\n{rows(json.loads((terminal.folder / 'run.json').read_text()))}")]


def rows(trace: Any) -> str:
    """The runs of a trace, a row a worker, in colours by function."""
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each["name"] == "thread_name"}
    runs = [each for each in events if each.get("ph") == "X" and each["name"].startswith("task::")]
    begin, end = min(each["ts"] for each in runs), max(each["ts"] + each["dur"] for each in runs)
    left = max(len(names[each["pid"], each["tid"]]) for each in runs) + 2
    scale = (COLUMNS - left - 1) / (end - begin)
    lines: dict[str, list[tuple[int, str]]] = {}
    for each in sorted(runs, key=lambda each: each["ts"]):
        line = lines.setdefault(names[each["pid"], each["tid"]], [(0, " ")] * (COLUMNS - left))
        name = each["name"].removeprefix("task::")
        first, last = (int((ts - begin) * scale) for ts in (each["ts"], each["ts"] + each["dur"]))
        label = f"▏{name}" if len(name) < last - first else "▏"
        for place, sign in zip(range(first, max(first + 1, last)), label.ljust(COLUMNS), strict=False):
            line[place] = COLOURS[name], sign
    return "\n".join(f"{name:{left}}{coloured(line)}" for name, line in sorted(lines.items()))


def coloured(cells: list[tuple[int, str]]) -> str:
    """Signs on their colours; 0: none."""
    parts = [(colour, "".join(sign for _, sign in same)) for colour, same in groupby(cells, lambda cell: cell[0])]
    return "".join(f"\x1b[97;{colour}m{text}\x1b[0m" if colour else text for colour, text in parts)


READERS: dict[str, Callable[[Terminal], list[Step]]] = {
    reader.__name__: reader
    for reader in (state, why, memory, metrics, logs, jobs, stack, debug, replay, whatif, determinism, timeline)
}


def picture(name: str, steps: list[Step]) -> str:
    """Commands and their output as SVG, with fonts of the reader's machine."""
    from rich.console import Console
    from rich.text import Text

    console: Any = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for command, output in steps:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=False)
        console.print(Text.from_ansi(output))
    svg = console.export_svg(title="", unique_id=name)
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S).replace("Fira Code, monospace", "monospace")
    svg = re.sub(r"<text [^>]*>\n</text>", "\n", svg).replace("<svg ", '<svg xml:space="preserve" ', 1)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Write the pictures that are named, or all."""
    for name in sys.argv[1:] or READERS:
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="z", ignore_cleanup_errors=True) as folder:
            terminal = Terminal(Path(folder))
            svg = picture(name, READERS[name](terminal))
        own = folder, socket.gethostname(), str(Path.home()), sys.base_prefix, str(DOCS.parent)
        if len(svg) > BYTES_MAX or any(text in svg for text in own if text not in HOME):
            raise SystemExit(f"{name}: {len(svg):,} bytes, or a name of this machine")
        (PICTURES / f"{name}.svg").write_text(svg)
        print(f"{name}.svg: {len(svg):,} bytes")


if __name__ == "__main__":
    main()
