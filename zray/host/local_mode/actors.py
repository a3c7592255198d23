"""The actors of local mode: found by id and by name, and remembered when they have died."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...exceptions import encode_system_error
from ...ids import task_of
from ...roles.latest import Latest
from ...wire.task_spec import ActorOptions, TaskOptions, TaskSpec
from ..worker.exit_errors import died
from .actor import LocalActor

if TYPE_CHECKING:
    from .runtime import LocalRuntime

# Errors of dead actors are remembered while somebody has a handle, up to so many.
GRAVES_MAX = 10_000
# Of what a wait has not got, so much is explained.
REASONS_MAX = 10
# Calls in threads that have no end are left to themselves after so long: nothing can end them.
JOIN_SECONDS = 2.0


class LocalActors:
    """All actors of the program."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime
        self.lock = runtime.objects.lock
        self.living: dict[bytes, LocalActor] = {}
        self.names: dict[tuple[str, str], bytes] = {}  # (namespace, name) -> actor
        self.graves: Latest[bytes, bytes] = Latest(GRAVES_MAX)  # actor -> the error value that its calls get

    def create(self, spec: TaskSpec, options: ActorOptions) -> None:
        """Create an actor, and run its constructor if that can run inline."""
        actor_id = spec.task_id
        error = self.runtime.node.why_no_actor(options)
        with self.lock:
            if actor_id in self.living:
                return  # the task that made it runs again
            self.runtime.objects.actors.add(actor_id)
            key = (options.namespace, options.name)
            if not error and options.name and key in self.names:
                error = encode_system_error("ActorDiedError", f"An actor named {options.name!r} lives already.")
            if error:
                self.graves[actor_id] = error
                return
            if options.name:
                self.names[key] = actor_id
            actor = self.living[actor_id] = LocalActor(self.runtime, spec, options)
        actor.start()

    def submit(self, spec: TaskSpec, options: TaskOptions) -> None:
        """A call."""
        actor = self.living.get(options.actor_id)
        if actor is not None and actor.submit(spec, options):
            return
        error = self.graves.get(options.actor_id)
        if error is None:
            text = f"{options.name or options.method} finds no actor: the actor has ended, or never existed."
            error = encode_system_error("ActorDiedError", text)
        self.runtime.calls.fail(spec, options, error)

    def named(self, namespace: str, name: str) -> LocalActor | None:
        """The living actor of that name."""
        actor_id = self.names.get((namespace, name))
        return self.living.get(actor_id) if actor_id is not None else None

    # --- ends ---

    def handles_gone(self, actor_id: bytes) -> None:
        """The last handle is gone: the actor ends after the calls that it has."""
        self.runtime.objects.actors.discard(actor_id)
        actor = self.living.get(actor_id)
        if actor is None:
            self.graves.pop(actor_id, None)
        elif not actor.options.detached:
            actor.is_going = True
            actor.end_if_idle()

    def kill(self, actor_id: bytes, *, no_restart: bool) -> None:
        """As kill()."""
        actor = self.living.get(actor_id)
        if actor is not None and no_restart:
            actor.bury(died(actor.in_words, "was killed by kill()"))
        elif actor is not None:
            actor.process_died("exited by kill()", {"exit_text": "killed by kill()"})

    def end_group(self, group_id: bytes, error: bytes) -> None:
        """The placement group was removed, and its actors end."""
        for actor in list(self.living.values()):
            if actor.options.where is not None and actor.options.where.group == group_id:
                actor.bury(error)

    def bury(self, actor: LocalActor, error: bytes) -> None:
        """An actor is dead for good.  With the lock held."""
        self.graves[actor.actor_id] = error
        self.living.pop(actor.actor_id, None)
        key = (actor.options.namespace, actor.options.name)
        if self.names.get(key) == actor.actor_id:
            del self.names[key]

    def end_all(self) -> None:
        """The program leaves: its actors end, and run what their classes have for that."""
        actors = list(self.living.values())
        for actor in actors:
            actor.bury(died(actor.in_words, "has ended with the driver that made it"), is_orderly=True)
        deadline = time.monotonic() + JOIN_SECONDS
        for actor in actors:
            actor.join(deadline)

    # --- waits ---

    def why_never(self, awaited: Sequence[bytes]) -> str:
        """Why a wait of this thread would never end; "" where it may end."""
        thread = threading.get_ident()
        task_ids = None
        for actor in list(self.living.values()):
            if thread not in (actor.owner, actor.loop_thread):
                continue
            task_ids = task_ids or {task_of(object_id) for object_id in awaited}
            if call := actor.find_call(task_ids, may_have_begun=thread == actor.loop_thread):
                name = call.options.name or call.options.method
                return (
                    f"The wait for {name} would never end: the {actor.in_words} is busy with the very call that waits. "
                    "Await the ref in an async method, or return the ref."
                )
        return ""

    def reasons(self, awaited: Sequence[bytes]) -> list[str]:
        """What keeps these from being ready, as far as it is an actor's call."""
        lines = []
        for object_id in awaited[:REASONS_MAX]:
            for actor in list(self.living.values()):
                if call := actor.find_call({task_of(object_id)}, may_have_begun=True):
                    begun = "runs" if call.spec.task_id in actor.running else "has not begun"
                    lines.append(f"{call.options.name or call.options.method} of the {actor.in_words} {begun}")
        return lines
