"""What an actor's class has for the orderly end of its actor in local mode: `__ray_shutdown__`."""

from __future__ import annotations

import inspect
import sys
import traceback
from typing import Any

METHOD = "__ray_shutdown__"


def call_shutdown(instance: Any) -> Any:
    """What the method returns, where the class has it; what it raises is printed."""
    method = getattr(type(instance), METHOD, None)
    if method is None:
        return None
    try:
        return method.__get__(instance, type(instance))()
    except BaseException:
        traceback.print_exc()
        return None


def say_last_words(instance: Any, in_words: str) -> None:
    """Of an actor that is not async."""
    returned = call_shutdown(instance)
    if inspect.iscoroutine(returned):
        returned.close()
        print(f"{in_words}: {METHOD} is async, but the actor is not: it was not run.", file=sys.stderr)


async def say_last_words_on_loop(instance: Any) -> None:
    """Of an async actor."""
    returned = call_shutdown(instance)
    if inspect.isawaitable(returned):
        try:
            await returned
        except BaseException:
            traceback.print_exc()
