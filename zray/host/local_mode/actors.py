"""The actors of local mode: found by id and by name, and remembered after death."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...exceptions import encode_system_error
from ...ids import task_of
from ...roles.kept import Latest
from ...wire.task_spec import ActorOptions, TaskOptions, TaskSpec
from ..worker.exit_errors import died
from .actor import LocalActor

if TYPE_CHECKING:
    from .runtime import LocalRuntime

# Errors of dead actors are kept while handles exist, up to so many.
GRAVES_MAX = 10_000
# Limit of explained reasons for a wait.
REASONS_MAX = 10
# Endless calls in threads are abandoned after this long: nothing can end them.
JOIN_SECONDS = 2.0


class LocalActors:
    """All actors of the program."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime
        self.lock = runtime.objects.lock
        self.living: dict[bytes, LocalActor] = {}
        self.names: dict[tuple[str, str], bytes] = {}  # (namespace, name) -> actor
        self.graves: Latest[bytes, bytes] = Latest(GRAVES_MAX)  # actor -> the error value for its calls

    def create(self, spec: TaskSpec, options: ActorOptions) -> None:
        """Create an actor, and run its constructor if possible inline."""
        actor_id = spec.task_id
        error = self.runtime.node.why_no_actor(options)
        with self.lock:
            if actor_id in self.living:
                return  # a re-execution of the creating task
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
        """Return the living actor of that name."""
        actor_id = self.names.get((namespace, name))
        return self.living.get(actor_id) if actor_id is not None else None

    # --- ends ---

    def handles_gone(self, actor_id: bytes) -> None:
        """End an actor without handles, after its present calls."""
        self.runtime.objects.actors.discard(actor_id)
        actor = self.living.get(actor_id)
        if actor is None:
            self.graves.pop(actor_id, None)
        elif not actor.options.detached:
            actor.is_going = True
            actor.end_if_idle()

    def kill(self, actor_id: bytes, *, no_restart: bool) -> None:
        """Kill an actor, as kill() says."""
        actor = self.living.get(actor_id)
        if actor is not None and no_restart:
            actor.bury(died(actor.in_words, "was killed by kill()"))
        elif actor is not None:
            actor.process_died("exited by kill()", {"exit_text": "killed by kill()"})

    def end_group(self, group_id: bytes, error: bytes) -> None:
        """End the actors of a removed placement group."""
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
        """End all actors when the program leaves, and run their classes' methods for the end."""
        actors = list(self.living.values())
        for actor in actors:
            actor.bury(died(actor.in_words, "has ended with the driver that made it"), is_orderly=True)
        deadline = time.monotonic() + JOIN_SECONDS
        for actor in actors:
            actor.join(deadline)

    # --- waits ---

    def why_never(self, awaited: Sequence[bytes]) -> str:
        """Return why a wait of this thread would never end; "": it may end."""
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
        """Return the reasons why these objects are not ready, if they are results of actors' calls."""
        lines = []
        for object_id in awaited[:REASONS_MAX]:
            for actor in list(self.living.values()):
                if call := actor.find_call({task_of(object_id)}, may_have_begun=True):
                    begun = "runs" if call.spec.task_id in actor.running else "has not begun"
                    lines.append(f"{call.options.name or call.options.method} of the {actor.in_words} {begun}")
        return lines
