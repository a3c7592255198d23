"""The event loop of an async actor in local mode, in a separate thread."""

from __future__ import annotations

import asyncio
import threading
import traceback
from typing import TYPE_CHECKING, Any

from ...object_ref import ObjectRef
from ..worker.actor_methods import make_instance
from ..worker.async_runner import current_task
from ..worker.exit_errors import exit_in_words, is_success
from ..worker.generators import run_async_generator
from .actor import CONSTRUCTOR
from .actor_shutdown import say_last_words_on_loop
from .calls import LocalCall, local_call

if TYPE_CHECKING:
    from .actor import LocalActor, PendingCall

# Calls cancelled at the end have this long to leave.
CANCEL_SECONDS = 1.0
SHUTDOWN_SECONDS = 5.0


class ActorLoop:
    """The event loop of an instance."""

    def __init__(self, actor: LocalActor) -> None:
        self.actor = actor
        self.runtime = actor.runtime
        self.is_ending = False
        self.last_words: Any = None  # the instance, if its class may have a method to run at the end
        self.tasks: set[asyncio.Task[None]] = set()  # a loop refers to its tasks weakly
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="zray-local-loop", daemon=True)
        actor.loop_threads.add(self.thread)
        self.thread.start()

    def construct(self, life: int) -> None:
        """Make an instance in the loop's thread: constructors of async actors may ask for the running loop."""
        self._soon(self._begin_task, None, life)

    async def _construct(self, life: int) -> None:
        actor = self.actor
        local_call.set(LocalCall(actor.spec, CONSTRUCTOR, actor, None))
        try:
            cls, args, kwargs = actor.constructor()
            instance = await make_instance(cls, args, kwargs)
        except BaseException as error:
            if life == actor.life:
                actor.bury(actor.death_by(error))
        else:
            actor.started(instance, life)

    def begin(self, call: PendingCall, life: int) -> None:
        """Run a call."""
        self._soon(self._begin_task, call, life)

    async def _run_call(self, call: PendingCall, life: int) -> None:
        """Run a call of an async actor, as a task of its event loop."""
        actor = self.actor
        calls, spec, options = actor.calls, call.spec, call.options
        local_call.set(LocalCall(spec, options, actor, None))  # the task's own context, invisible to other calls
        while True:
            wants_retry = False
            try:
                args, kwargs = calls.arguments_of(spec, options)
                value = actor.method_of(options.method)(*args, **kwargs)
                if type(value) is not ObjectRef and hasattr(value, "__await__"):  # a returned ref stays a ref
                    value = await value
                if options.is_generator and hasattr(value, "__aiter__"):
                    value = await run_async_generator(calls.runtime, spec, value)  # type: ignore[arg-type]
                    values, contained, _ = calls.end_of(value)
                else:
                    values, contained, _ = calls.result_of(spec, options, value)
            except SystemExit as error:
                actor.exited(call, life, error)
                return
            except BaseException as error:
                values, contained, wants_retry = calls.failure(spec, options, error)
                value = error
            if not (wants_retry and life == actor.life and call.may_retry()):
                break
            call.attempts += 1
        actor.finished(call, life, values, contained)
        value = None  # as in LocalActor._attempts
        actor.pump()

    def is_own(self) -> bool:
        """Return whether this code runs in a call or the constructor, not in a task or thread begun by one."""
        return current_task() in self.tasks

    def _soon(self, function: Any, *args: Any) -> None:
        self.loop.call_soon_threadsafe(function, *args)

    def _begin_task(self, call: PendingCall | None, life: int) -> None:
        task = self.loop.create_task(self._construct(life) if call is None else self._run_call(call, life))
        self.tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, call, life))

    def _ended(self, task: asyncio.Task[None], call: PendingCall | None, life: int) -> None:
        """Finish a task that user code cancelled before its first step, so that no line of zray's ran."""
        self.tasks.discard(task)
        actor = self.actor
        if call is not None and task.cancelled() and life == actor.life and call.spec.task_id in actor.running:
            error = asyncio.CancelledError("cancelled before it began")
            values, contained, _ = actor.calls.failure(call.spec, call.options, error)
            actor.finished(call, life, values, contained)
            actor.pump()

    def end(self) -> None:
        """Stop, from any thread: running calls are cancelled."""
        self.is_ending = True
        if not self.loop.is_closed():
            self._soon(self.loop.stop)

    def _run(self) -> None:
        runtime, me = self.runtime, threading.get_ident()
        runtime.own_threads.add(me)
        runtime.loop_threads.add(me)
        asyncio.set_event_loop(self.loop)
        try:
            while not self.is_ending:
                try:
                    self.loop.run_forever()
                except BaseException as error:  # of a task or callback beside the calls
                    self._stopped(error)
                else:
                    if not self.is_ending:
                        self._stopped(RuntimeError("the actor's event loop was stopped (loop.stop())"))
            self._finish()
        finally:
            runtime.loop_threads.discard(me)
            runtime.own_threads.discard(me)
            self.actor.loop_threads.discard(self.thread)
            self.loop.close()

    def _stopped(self, error: BaseException) -> None:
        actor = self.actor
        if is_success(error):
            actor.leave_by(error)
        else:
            actor.process_died(exit_in_words(error), actor.calls.details(error))

    def _finish(self) -> None:
        """Cancel the tasks, and run the class's method for its end."""
        loop = self.loop
        try:
            for task in (tasks := asyncio.all_tasks(loop)):
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_SECONDS))
            instance, self.last_words = self.last_words, None
            if instance is not None:
                loop.run_until_complete(asyncio.wait_for(say_last_words_on_loop(instance), SHUTDOWN_SECONDS))
            loop.run_until_complete(loop.shutdown_asyncgens())
        except BaseException:
            traceback.print_exc()
