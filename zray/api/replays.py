"""Replays: failed tasks and calls that run again in this process, from the files that workers leave
(session/replay_files.py).
"""

from __future__ import annotations

import linecache
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import isgenerator
from typing import Any, BinaryIO

from ..exceptions import encode_system_error
from ..host.session import replay_files
from ..host.session.replay_files import ReplayFacts, described
from ..ray_names import ray_imports
from ..version import __version__
from .log_sessions import log_sessions
from .replayed_calls import constructed, method_of, settled, words_on

__all__ = ["Ending", "Replay", "replays"]

# Numbers that each run has anew.
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


class Ending:
    """How another run of a task has ended."""

    def __init__(
        self, facts: ReplayFacts, error: BaseException | None, value: str = "", *, has_begun: bool = True
    ) -> None:
        self.error = error
        self.has_begun = has_begun  # code and arguments could be unpickled
        self.value = value  # in words, shortened
        self.error_type, self.error_text = described(error) if error is not None else ("", "")
        same_text = ADDRESS.sub("0x", self.error_text) == ADDRESS.sub("0x", facts.error_text)
        self.is_same = error is not None and self.error_type == facts.error_type and same_text


class Replay:
    """The file of a failed task.

    Args:
        path: of the file.
        trusted: whether its code may run although others may have written it.

    Raises:
        PermissionError: the file is another user's, or others may write into it.
        ValueError: it is no such file.
    """

    def __init__(self, path: str, *, trusted: bool = False) -> None:
        self.path = path
        self.notes: list[str] = []  # on the last run, for the user
        self.file: BinaryIO = open(path, "rb")  # noqa: SIM115  # closed with this object
        status = os.fstat(self.file.fileno())
        is_own = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not is_own and not trusted:
            self.file.close()
            who = "is another user's" if status.st_uid != os.getuid() else "can be written by others"
            raise PermissionError(
                f"{path} {who}, and a replay runs the code in it.  Give --trust with the path if you trust its writers."
            )
        try:
            self.facts = replay_files.read_facts(self.file)
        except ValueError as error:
            self.file.close()
            raise ValueError(f"{path} cannot be replayed: {error}.") from None

    @property
    def noun(self) -> str:
        """The kind of work, for sentences."""
        return "call" if self.facts.kind == "method" else "task"

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def refuse_absent(self) -> None:
        """Refuse a file without code, or without an actor.

        Raises:
            ValueError: code and arguments were too large, or the actor could not be pickled.
        """
        facts = self.facts
        if facts.left_out:
            raise ValueError(
                f"{facts.name} cannot be replayed: its code and arguments have more than "
                f"{replay_files.CONTENT_BYTES_MAX >> 20} MiB, and are not in the file."
            )
        if facts.kind != "method":
            return
        if facts.actor is None:
            raise ValueError(f"{facts.name} cannot be replayed: its actor had ended when the file was written.")
        if not (facts.actor.state or facts.actor.has_creation):
            raise ValueError(
                f"{facts.name} cannot be replayed: the state of its actor is not in the file ({facts.actor.reason}), "
                "nor are the arguments of the constructor, which had refs or large values among them."
            )

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Have the task's working folder, import path, sources, ids and random numbers: a session in local mode."""
        from ..host import context
        from ..host.client.task_context import Submitter
        from .sessions import init

        facts = self.facts
        folders = [*facts.sys_path]
        try:
            os.chdir(facts.working_dir)
        except OSError:
            folders.insert(0, os.getcwd())  # perhaps the project, on another machine
        sys.path += [path for path in folders if path not in sys.path and os.path.exists(path)]
        for path, text in facts.sources.items():
            linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        if facts.as_ray:
            ray_imports.install()
        with init(local_mode=True, seed=facts.seed, record=""):
            runtime: Any = context.runtime
            runtime.job_id = bytes.fromhex(facts.job_id)
            runtime.root = Submitter(bytes.fromhex(facts.task_id), facts.name, path=bytes.fromhex(facts.path))
            yield

    def run(self) -> Ending:
        """Run the task in this process, within its surroundings."""
        from ..store.arguments import deserialize_arguments
        from ..store.functions import deserialize_function
        from ..store.values import deserialize

        facts, has_begun = self.facts, False
        try:
            code, payload, *values = replay_files.read_parts(self.file, facts)
            refs_at, actor_at = len(facts.value_bytes), len(facts.value_bytes) + len(facts.refs)
            self._deliver(values[refs_at:actor_at])
            function = deserialize_function(code)
            if facts.actor is not None:
                function = method_of(facts.actor, function, values[actor_at:], self.notes)
            elif facts.kind == "constructor":
                function = partial(constructed, function)
            args, kwargs = deserialize_arguments(payload, [deserialize(value) for value in values[:refs_at]])
            has_begun = True
            value = settled(function(*args, **kwargs))
            return Ending(facts, None, _in_words(self._taken(value)))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            trace = error.__traceback__
            error = error.with_traceback(trace.tb_next if trace is not None else None)
            return Ending(facts, error, has_begun=has_begun)

    def _deliver(self, values: list[bytes]) -> None:
        """Have the values of refs inside of the arguments, or errors in their places."""
        from ..host import context

        runtime: Any = context.runtime
        lost = f"The value is not in the file of {self.facts.name}: the task had not got it when it failed."
        for name, value in zip(self.facts.refs, values, strict=True):
            runtime.objects.hold(bytes.fromhex(name))
            runtime.objects.deliver_first(bytes.fromhex(name), value or encode_system_error("ObjectLostError", lost))

    def _taken(self, value: Any) -> Any:
        """Take what the function returns as a worker does: a value that cannot be pickled is an error."""
        from ..store.values import serialize

        if self.facts.kind == "constructor":
            return value
        if self.facts.yields or (self.facts.num_returns > 1 and isgenerator(value)):
            return f"{sum(1 for item in value if serialize(item) is not None)} items"
        serialize(value)
        return value

    def differences(self) -> list[str]:
        """Return what is otherwise here than it was where the task failed, in sentences."""
        facts = self.facts
        here = ".".join(map(str, sys.version_info[:3]))
        found = [("Python", facts.python, here), ("zray", facts.zray, __version__)]
        distributions: Any = None
        for name, then in facts.packages.items():
            now = getattr(sys.modules.get(name), "__version__", None)
            if now is None:
                from importlib import metadata

                if distributions is None:
                    distributions = metadata.packages_distributions()
                names = distributions.get(name)
                now = metadata.version(names[0]) if names else None
            found.append((name, then, str(now) if now is not None else ""))
        lines = [f"{name} {then} there, {now or 'none'} here" for name, then, now in found if then != now]
        if absent := [name for name in facts.env_names if name not in os.environ]:
            lines.append(f"environment variables of the {self.noun} that are not set here: {', '.join(absent)}")
        if not os.path.isdir(facts.working_dir):
            lines.append(f"its working folder {facts.working_dir} is not here, so modules are looked for in this one")
        if missing := facts.ref_bytes.count(0):
            refs = "a ref" if missing == 1 else f"{missing} refs"
            where = "its arguments" if facts.actor is None else "its arguments and of the state"
            lines.append(
                f"the {self.noun} had not got the values of {refs} inside of {where}, so they are not in the file"
            )
        return [*lines, *(words_on(facts.actor) if facts.actor is not None else ())]


def _in_words(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}..."


def replays() -> list[str]:
    """Return the paths of this user's files, the newest first."""
    found: list[tuple[float, str]] = []
    for session in log_sessions():
        files = replay_files.present(session.folder)
        found += [(status.st_mtime, os.path.join(session.folder, name)) for name, status in files]
    return [path for _, path in sorted(found, reverse=True)]
