"""What runs elsewhere: the remote functions and the actors of random programs."""

from __future__ import annotations

import threading
from typing import Any

import zray

from .hand import Body, Hand, Play
from .play import drive, drive_async, play, run_body


@zray.remote
def task(body: Body, *args: Any, **kwargs: Any) -> Any:
    return run_body(body, (*args, *kwargs.values()))


@zray.remote
def tiny(value: Any) -> Any:
    return value


def with_closure(body: Body, args: list[Any]) -> Any:
    """A function that has its arguments in its closure."""

    def closure() -> Any:
        return run_body(body, args)

    return closure


class Player:
    """An actor: what its constructor returned is all callers', the rest is each caller's own."""

    def __init__(self, kind: str, body: Body, *args: Any) -> None:
        self.kind, self.path = kind, body.path
        self.lock = threading.Lock()
        self.calls: dict[Any, list[Any]] = {}  # by caller
        self.kept: dict[Any, list[Any]] = {}
        hand = Hand(body, inside=body.path)
        for arg in args:
            hand.take(arg, body.reach)
        self.shared = drive(body.world, play(hand))
        self.reach = hand.all_reach()

    def begin(self, body: Body, args: Any) -> Play:
        """A call: its number tells whether those of one caller begin in order."""
        hand = Hand(body, inside=self.path)
        caller = body.path[:-1]
        with self.lock:
            calls = self.calls.setdefault(caller, [])
            if body.path not in calls:  # else it runs again
                calls.append(body.path)
            if self.kind != "threaded":
                hand.log.append(f"call {calls.index(body.path)}")
            if self.kind == "serial":
                hand.store = self.kept.setdefault(caller, [])
        hand.take(self.shared, self.reach)
        for value in hand.store or ():
            hand.take(value, body.reach)
        for arg in args:
            hand.take(arg, body.reach)
        return play(hand)

    def call(self, body: Body, *args: Any) -> Any:
        return drive(body.world, self.begin(body, args))

    plain = call

    def leave(self) -> None:
        zray.actor.exit_actor()


class AsyncPlayer(Player):
    """Its calls are on an event loop; `plain` blocks it."""

    async def call(self, body: Body, *args: Any) -> Any:  # type: ignore[override]
        return await drive_async(body.world, self.begin(body, args))


CLASSES = {
    "serial": zray.remote(Player),
    "threaded": zray.remote(max_concurrency=3)(Player),
    "async": zray.remote(AsyncPlayer),
}
