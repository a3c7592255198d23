"""Names of zray's processes in `ps` and `top`: for their work, as in Ray.

    zray: node    zray: fork server    zray: GCS shard 0    zray: global scheduler
    zray: idle worker       a worker without a task
    zray::train             a worker that runs task `train`
    zray::Trainer           an actor between its calls
    zray::Trainer.step      an actor in a call

A worker's helper thread sets the title, four times a second: a task itself pays nothing for it.
"""

from __future__ import annotations

import os
from _thread import get_native_id
from importlib import machinery
from typing import TYPE_CHECKING, Any

from ..output.worker_output import begun_lines
from ..session.log_marks import shown_name

if TYPE_CHECKING:
    from ..worker.main import Worker

IDLE = "zray: idle worker"
TITLE_MAX = 100
COMM_MAX = 15  # bytes, of the kernel

_library: Any = None  # the C part of setproctitle; False: absent


def set_title(title: str) -> None:
    """Name this process; its environment stays visible to other processes."""
    global _library
    if _library is None:
        _library = _load()
    if not _library:
        return
    title = "".join(character if character.isprintable() else "?" for character in title[:TITLE_MAX])
    _library.setproctitle(title)
    pid = os.getpid()
    if get_native_id() != pid:  # `top` shows the main thread's name, but the library names the calling thread
        try:
            with open(f"/proc/{pid}/comm", "wb", buffering=0) as file:
                file.write(title.encode()[:COMM_MAX])
        except OSError:
            pass  # no descriptor is left


def _load() -> Any:
    """Load the library without its Python part, which would import `logging` into each node."""
    package = machinery.PathFinder.find_spec("setproctitle")
    if package is None:
        return False
    spec = machinery.PathFinder.find_spec("setproctitle._setproctitle", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return False
    try:
        library: Any = spec.loader.create_module(spec)
        spec.loader.exec_module(library)
    except ImportError:
        return False
    # Only the space of the arguments is used for the title: tools that look for variables in /proc find them.
    earlier = os.environ.get("SPT_NOENV")
    os.environ["SPT_NOENV"] = "1"
    try:
        library.getproctitle()  # finds the space now
    finally:
        if earlier is None:
            del os.environ["SPT_NOENV"]
        else:
            os.environ["SPT_NOENV"] = earlier
    return library


class WorkerTitle:
    """The title of a worker: the call that runs at a look of its helper thread."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.title = IDLE

    def look(self) -> None:
        """Rename the process if its call has changed."""
        worker = self.worker
        actor, call = worker.actor, worker.call
        spec = call.spec if call is not None else actor.running_call() if actor is not None else None
        if spec is not None:
            title = f"zray::{shown_name(worker.name_of(spec))}"
        else:
            title = IDLE if actor is None else f"zray::{actor.options.class_name}"
        if title != self.title and os.getpid() == worker.pid:
            self.title = title
            if spec is not None and actor is None:
                with begun_lines.lock:  # for output past Python's streams
                    begun_lines.mark(worker.name_of(spec))
            set_title(title)
