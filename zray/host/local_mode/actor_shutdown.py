"""The method of an actor's class for the orderly end of the actor in local mode: `__ray_shutdown__`."""

from __future__ import annotations

import inspect
import sys
import traceback
from typing import Any

from ..worker.actor_methods import METHOD, call_shutdown


def say_last_words(instance: Any, in_words: str) -> None:
    """Run the method of an actor that is not async."""
    returned = call_shutdown(instance)
    if inspect.iscoroutine(returned):
        returned.close()
        print(f"{in_words}: {METHOD} is async, but the actor is not: it was not run.", file=sys.stderr)


async def say_last_words_on_loop(instance: Any) -> None:
    """Run the method of an async actor."""
    returned = call_shutdown(instance)
    if inspect.isawaitable(returned):
        try:
            await returned
        except BaseException:
            traceback.print_exc()
