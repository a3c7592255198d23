"""Server-sent events: a view is sent whole, then what has changed of it.  Nothing is asked while nobody looks.

Source: HTML standard, server-sent events.
"""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec

from zray.exceptions import ClusterLostError, ZrayError

from .session import Session
from .views import Asked, Seen, View

# A view is asked for so often; and so seldom that questions take at most a tenth of the time.
PERIOD_S, SHARE = 1.0, 0.1
PING_S, PING = 10.0, b": ping\n\n"
# A browser has six connections to a server, and each page has one stream.
STREAMS_MAX = 16
# Answers that are kept for other pages with the same view.
KEPT_MAX = 64


class Answer(NamedTuple):
    """Answer of a view.  seconds: time that the answer took."""

    seen: Seen
    notes: list[str]
    seconds: float
    time: float

    @property
    def period(self) -> float:
        """Seconds until the view may be asked for again."""
        return max(PERIOD_S, self.seconds / SHARE)


class Looks:
    """Asks views of the session, one at a time, in a thread of its own; pages with the same view share an answer."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._answers: dict[tuple[str, Asked], Answer] = {}
        self._asking: dict[tuple[str, Asked], asyncio.Task[Answer]] = {}
        self._thread = ThreadPoolExecutor(1, "zray-dashboard")

    def close(self) -> None:
        """Ask nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def look(self, name: str, view: View, asked: Asked) -> Answer:
        """Return what a view shows: anew, or as it was a moment ago.

        Raises:
            ValueError: the view cannot show what is asked.
            ZrayError: the session does not answer.
        """
        key = (name, asked._replace(words=_Words(asked.words)))
        known = self._answers.get(key)
        if known is not None and time.monotonic() - known.time < known.period * 0.9:
            return known
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(view, asked))
            task.add_done_callback(lambda done: self._note(key, done))
        return await asyncio.shield(task)

    def _note(self, key: tuple[str, Asked], done: asyncio.Task[Answer]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            self._answers.pop(key, None)
            self._answers[key] = done.result()
            while len(self._answers) > KEPT_MAX:
                del self._answers[next(iter(self._answers))]

    async def _ask(self, view: View, asked: Asked) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask_here, view, asked)

    def _ask_here(self, view: View, asked: Asked) -> Answer:
        began = time.monotonic()
        with warnings.catch_warnings(record=True) as caught:  # nodes that have not answered
            warnings.simplefilter("always")
            seen = view(self.session, asked)
        now = time.monotonic()
        return Answer(seen, [*dict.fromkeys(str(each.message) for each in caught)], now - began, now)


class _Words(dict[str, str]):
    """Words of a query, as part of a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))


def encoded(value: Any) -> bytes:
    """A value as JSON; NaN is null."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError):  # half a surrogate pair in a text of a user
        return json.dumps(value, default=str).encode()


class Sent:
    """State of a view as a page has it."""

    def __init__(self) -> None:
        self.facts: bytes = b""
        self.tables: dict[str, dict[str, bytes]] = {}
        self.totals: dict[str, int] = {}

    def delta(self, answer: Answer) -> dict[str, Any]:
        """Return what has changed, and note it as sent; empty: nothing has."""
        changed: dict[str, Any] = {}
        facts = {**answer.seen.facts, "notes": answer.notes}
        text = encoded(facts)
        if text != self.facts:
            self.facts, changed["facts"] = text, facts
        tables: dict[str, Any] = {}
        for name, table in answer.seen.tables.items():
            before = self.tables.get(name)
            known = before or {}
            now = {str(row[table.key]): encoded(row) for row in table.rows}
            rows = [row for row in table.rows if known.get(str(row[table.key])) != now[str(row[table.key])]]
            gone = [key for key in known if key not in now]
            if before is None or rows or gone or table.total != self.totals[name]:
                tables[name] = {"key": table.key, "rows": rows, "gone": gone, "total": table.total}
            self.tables[name], self.totals[name] = now, table.total
        if tables:
            changed["tables"] = tables
        return changed


class Streams:
    """The streams of all pages."""

    def __init__(self, looks: Looks) -> None:
        self.looks = looks
        self.open = 0
        self.closing = asyncio.Event()
        self.reason = "The dashboard has ended."

    def close(self, reason: str) -> None:
        """End all streams, with a sentence for their pages."""
        if not self.closing.is_set():
            self.reason = reason
            self.closing.set()

    async def events(self, name: str, view: View, asked: Asked) -> AsyncIterator[bytes]:
        """The events of a stream, until the page goes or the server ends."""
        if self.open >= STREAMS_MAX:
            yield event(0, "bye", {"reason": f"{STREAMS_MAX} pages are open; close one of them."})
            return
        self.open += 1
        try:
            async for each in self._events(name, view, asked):
                yield each
            yield event(0, "bye", {"reason": self.reason})
        finally:
            self.open -= 1

    async def _events(self, name: str, view: View, asked: Asked) -> AsyncIterator[bytes]:
        sent, number, said = Sent(), 0, time.monotonic()
        is_lost = False
        while not self.closing.is_set():
            period = PERIOD_S
            try:
                looking = asyncio.ensure_future(self.looks.look(name, view, asked))
                looking.add_done_callback(_heard)
                while not (await asyncio.wait({looking}, timeout=PING_S))[0]:
                    yield PING  # the session takes its time, and the page need not give up
                answer = looking.result()
            except ClusterLostError as error:
                self.close(str(error))
                return
            except (ZrayError, ValueError, OSError) as error:
                if not is_lost:
                    number += 1
                    yield event(number, "lost", {"reason": str(error)})
                    said, is_lost = time.monotonic(), True
            else:
                period = answer.period
                changed = sent.delta(answer)
                if changed or is_lost:
                    number += 1
                    is_lost = False
                    kind = "snapshot" if number == 1 else "delta"
                    yield event(number, kind, {**changed, "t": time.time(), "period": round(period, 3)})
                    said = time.monotonic()
            if time.monotonic() - said >= PING_S:
                yield PING
                said = time.monotonic()
            await self._pause(period)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.closing.wait(), seconds)
        except asyncio.TimeoutError:
            pass


def _heard(done: asyncio.Future[Answer]) -> None:
    """Take note of an error that no page waits for any more."""
    if not done.cancelled():
        done.exception()


def event(number: int, kind: str, data: Any) -> bytes:
    """An event of a stream."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), encoded(data))
