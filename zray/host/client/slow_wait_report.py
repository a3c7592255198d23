"""Reports the reason of a slow wait on standard error, at growing intervals up to a limit.

The node is asked (wire/reasons), and its answer is printed unchanged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...exceptions.printable import printable
from ...wire.reasons import ASKED_MAX, Explain

if TYPE_CHECKING:
    from .runtime import Runtime

# Seconds of a wait after which it is reported.
SAID_AFTER = (10.0, 60.0, 600.0, 3_600.0, 36_000.0)
# How long the node's answer is awaited: the node asks another node, which has 0.8 s (HOP_SECONDS).
ANSWER_SECONDS = 3.0
# The same at the end of a timeout, which must hold: an earlier answer is used instead.
LATE_ANSWER_SECONDS = 0.04
# The question is asked this long before the deadline, or at this share of a shorter wait; polls ask nothing.
AHEAD_SECONDS = 0.9
AHEAD_SHARE = 0.9
AHEAD_SECONDS_MIN = 0.05


class Question:
    """A question about a slow wait, asked ahead of its deadline: the answering node may ask a node that does not
    answer.

    Used as a context; no answer is expected after it.
    """

    def __init__(self, runtime: Runtime, awaited: Sequence[bytes], deadline: float | None) -> None:
        self.runtime = runtime
        self.awaited = awaited
        self.at: float | None = None  # when to ask
        self.request: int | None = None
        if deadline is not None:
            ahead = min(AHEAD_SECONDS, AHEAD_SHARE * (deadline - time.monotonic()))
            self.at = deadline - ahead if ahead >= AHEAD_SECONDS_MIN else None

    def __enter__(self) -> Question:
        return self

    def __exit__(self, *error: object) -> None:
        if self.request is not None:
            self.runtime.client.replies.pop(self.request, None)

    def ask(self) -> None:
        """Once."""
        if self.request is None:
            self.request = _ask(self.runtime, self.awaited)

    def lines(self) -> list[str]:
        """Return the lines of the answer so far."""
        reply = None if self.request is None else self.runtime.client.replies[self.request]
        return [] if reply is None else list(map(printable, reply.lines))


def wait_and_explain(
    runtime: Runtime,
    is_done: Callable[[], bool],
    deadline: float | None,
    awaited: Sequence[bytes],
    what: str,
    question: Question | None = None,
) -> bool:
    """Wait as Runtime.receive_until, and explain a slow wait.  awaited: the objects, some perhaps present; what: "get"
    or "wait".

    question: asked ahead of the deadline.
    """
    began = time.monotonic()
    for seconds in SAID_AFTER:
        pause = began + seconds
        if deadline is not None and deadline <= pause:
            break
        if runtime.receive_until(is_done, pause):
            return True
        explain(runtime, is_done, deadline, awaited, f"{what}() has waited for {seconds:g} s")
    if question is not None and question.at is not None:
        if runtime.receive_until(is_done, question.at):
            return True
        question.ask()
    return runtime.receive_until(is_done, deadline)


def wait_for_answer(runtime: Runtime, is_done: Callable[[], bool], deadline: float | None) -> bool:
    """Wait as Runtime.receive_until, for the answer to a question.  Without a deadline, print what the node waits for,
    if known.
    """
    began = time.monotonic()
    for seconds in SAID_AFTER if deadline is None else ():
        if runtime.receive_until(is_done, began + seconds):
            return True
        if lines := reasons(runtime, is_done, time.monotonic() + ANSWER_SECONDS, []):
            _print(f"a question to the node has waited for {seconds:g} s", lines)
    return runtime.receive_until(is_done, deadline)


def explain(
    runtime: Runtime, is_done: Callable[[], bool], deadline: float | None, awaited: Sequence[bytes], said: str
) -> None:
    """Ask the node for the reasons, and print them; unless the wait ends meanwhile."""
    until = time.monotonic() + ANSWER_SECONDS
    lines = reasons(runtime, is_done, until if deadline is None else min(until, deadline), awaited)
    if not lines:
        if is_done() or time.monotonic() < until:
            return  # the wait is over
        lines = [f"the node has not given a reason within {ANSWER_SECONDS:g} s"]
    _print(said, lines)


def _print(said: str, lines: list[str]) -> None:
    """Print in one piece: other threads may write there too."""
    print("\n  ".join([f"zray: {said}:", *lines]) + "\n", end="", file=sys.stderr, flush=True)


def reasons(runtime: Runtime, is_done: Callable[[], bool], until: float, awaited: Sequence[bytes]) -> list[str]:
    """Return the node's reasons for missing objects among `awaited`; nothing if the answer is late."""
    request = _ask(runtime, awaited)
    replies = runtime.client.replies
    try:
        runtime.receive_until(lambda: replies[request] is not None or is_done(), until)
        reply = replies[request]
    finally:
        del replies[request]
    if reply is None:
        return []
    return list(map(printable, reply.lines))


def _ask(runtime: Runtime, awaited: Sequence[bytes]) -> int:
    client = runtime.client
    missing = [object_id for object_id in awaited if not client.is_ready(object_id)] or list(awaited)
    with runtime.lock:
        request = client.expect_reply()
        client.say(Explain(request, missing[:ASKED_MAX], len(missing[ASKED_MAX:])))
        runtime.send_buffered()
    return request


def why_late(runtime: Runtime, awaited: Sequence[bytes], timeout: float, question: Question | None = None) -> str:
    """Return the text for the error of an expired wait.  The question takes no longer than the wait, since some callers
    poll.

    question: asked ahead, and used if the node gives no new answer at once.
    """
    until = time.monotonic() + min(timeout, LATE_ANSWER_SECONDS)
    lines = reasons(runtime, lambda: False, until, awaited) if timeout > 0 else []
    if not lines and question is not None:
        lines = question.lines()
    return "".join(f"\n  {line}" for line in lines)
