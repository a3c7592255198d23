"""A body of a random program makes its moves: the same code in real sessions and in the sequential world.

Bodies are generators that yield an `Ask` where they need values, so that threads get and async methods await.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import moves as say
from .hand import Ask, Hand, Play
from .values import Held, Known, Path, Stumbled, build, describe, is_ref

FINALE_MAX = 400  # gets at the end of a program


def throw(errors: list[Exception]) -> None:
    """Raise the first, if any.  No frame keeps it: a ring of frame and error would outlive the body, with its refs."""
    if errors:
        raise errors.pop(0)


def creates(program: say.Program) -> bool:
    return any(type(move) in (say.Create, say.Private) for move in say.parts_of(program))


# --- tasks and objects ---


def put(hand: Hand, move: say.Put) -> None:
    (value,), reach = hand.arguments([move.value])
    if not is_ref(value):
        hand.hold([hand.world.put(value)], reach, is_here=True)


def submit(hand: Hand, move: say.Submit) -> None:
    args, reach = hand.arguments(move.args)
    path = hand.child()
    made = frozenset([path]) if creates(move.program) else frozenset()
    body = hand.inner(path, move.program, reach, move.options.get("num_returns", 1))
    hand.hold(hand.world.submit(move.how, move.options, body, args), reach | made)


def chain(hand: Hand, move: say.Chain) -> None:
    (value,), reach = hand.arguments([move.value])
    for _ in range(move.length):
        value = hand.world.tiny(value)
    hand.hold([value], reach)


def get(hand: Hand, move: say.Get) -> Play:
    held = hand.waitable(move.picks)
    how = "each" if move.how == "future" and hand.is_task else move.how  # the node knows nothing of such a wait
    if held:
        throw(hand.hear(held, (yield Ask(how, [item.ref for item in held])), move.catches))


def wait(hand: Hand, move: say.Wait) -> None:
    refs = [held.ref for held in hand.waitable(move.picks)]
    if refs:
        hand.world.wait(refs, min(move.count, len(refs)), move.timeout, move.fetch)


def drop(hand: Hand, move: say.Drop) -> None:
    found = getattr(hand, move.what)
    if found:
        del found[move.pick % len(found)]
    if move.pick % 7 == 0:
        gc.collect()


def view(hand: Hand, move: say.View) -> None:
    arrays = [value for value in hand.values if isinstance(value, np.ndarray)]
    if arrays:
        array = arrays[move.pick % len(arrays)]
        hand.values.append(array[len(array) // 3 :] if move.pick % 2 else array[::2])


def nap(hand: Hand, move: say.Nap) -> None:
    if hand.world.is_real:
        threading.Event().wait(move.seconds)


def keep(hand: Hand, move: say.Keep) -> None:
    (value,), reach = hand.arguments([move.value])
    # Actors keep only what they could wait for: a ring of handles would keep itself.
    if hand.store is not None and hand.may_wait(reach):
        hand.store.append(value)
        del hand.store[:-4]


def stumble(hand: Hand, move: say.Stumble) -> None:
    if hand.world.is_first(hand.body):
        raise Stumbled


def crash(hand: Hand, move: say.Crash) -> None:
    hand.world.crash(hand.body)


def raise_(hand: Hand, move: say.Raise) -> None:
    throw([build(move.value, hand)])


def threads(hand: Hand, move: say.Threads) -> None:
    """Each begins with what the body has; the last of their refs become the body's."""
    hands = []
    for program in move.programs:
        body = hand.inner(hand.child(), program, hand.all_reach())
        inner = Hand(body, inside=hand.inside, is_task=hand.is_task, may_block=hand.may_block and not hand.is_task)
        inner.refs, inner.values, inner.actors = list(hand.refs), list(hand.values), list(hand.actors)
        hands.append(inner)
    errors = hand.world.in_threads([lambda inner=inner: drive(inner.world, play(inner)) for inner in hands])
    for inner, error in zip(hands, errors, strict=True):
        hand.log += [*inner.log, "" if error is None else describe(error)]
        for held in inner.refs[-3:]:
            hand.hold([held.ref], held.reach, is_here=held.is_here)


# --- actors ---


def new_actor(hand: Hand, move: say.Create, name: str, *, is_detached: bool = False) -> Known:
    args, reach = hand.arguments(move.args)
    path = hand.child()
    handle = hand.world.create(move.kind, name, is_detached, hand.inner(path, move.program, reach), args)
    return Known(path, move.kind, name, reach | {path}, handle)


def create(hand: Hand, move: say.Create) -> None:
    name = f"{hand.body.tag} {hand.path} {hand.count}" if move.is_named else ""
    hand.actors.append(new_actor(hand, move, name))


def call_on(hand: Hand, known: Known, move: say.Call) -> list[Held]:
    args, reach = hand.arguments(move.args)
    path = hand.child()
    reach |= hand.told.get(known.path, frozenset())
    made = frozenset([path]) if creates(move.program) else frozenset()
    body = hand.inner(path, move.program, reach, move.options.get("num_returns", 1))
    hand.told[known.path] = reach | made
    refs = hand.world.call(known, move.method, move.options, body, args)
    return [Held(ref, reach | made | known.reach) for ref in refs]


def call(hand: Hand, move: say.Call) -> None:
    known = hand.pick("actors", move.pick)
    if known is not None:
        for held in call_on(hand, known, move):
            hand.hold([held.ref], held.reach)


def find(hand: Hand, move: say.Find) -> None:
    known = hand.pick("actors", move.pick)
    if known is not None and known.name:
        handle = hand.world.find(known)
        hand.actors.append(Known(known.path, known.kind, known.name, known.reach, handle))


def private(hand: Hand, move: say.Private) -> Play:
    """scope: its handle goes before its answers come.  kill, detached: killed when all have come.  leaves: exit_actor.
    leaves_now: calls are on their way behind the one that leaves.  killed_now: answers may or may not come.
    """
    reach = hand.reach_of(hand.arguments(move.create.args)[0])
    if not hand.may_wait(reach | hand.all_reach() | {(*hand.path, hand.count + 1)}):
        return
    ending = move.ending
    known = new_actor(hand, move.create, "", is_detached=ending == "detached")
    held = [item for inner in move.calls for item in call_on(hand, known, inner)]
    last = say.Call(0, (), say.Program(()))
    if ending == "scope":
        del known
    elif ending == "killed_now":
        hand.world.kill(known)
        hand.world.check_victims((yield Ask("each", [item.ref for item in held])))
        return
    if ending == "leaves_now":
        held += [Held(hand.world.leave(known), reach), *call_on(hand, known, last)]
    hand.hear(held, (yield Ask("list", [item.ref for item in held])), True)
    del held
    if ending == "leaves":
        hand.hear([Held(None, reach)], (yield Ask("each", [hand.world.leave(known)])), True)
    elif ending in ("kill", "detached"):
        hand.world.kill(known)
    if ending in ("kill", "leaves", "detached"):
        (after,) = call_on(hand, known, last)
        hand.hear([after], (yield Ask("each", [after.ref])), True)


MOVES: dict[type, Callable[..., Any]] = {
    say.Put: put,
    say.Submit: submit,
    say.Chain: chain,
    say.Get: get,
    say.Wait: wait,
    say.Drop: drop,
    say.View: view,
    say.Nap: nap,
    say.Keep: keep,
    say.Stumble: stumble,
    say.Crash: crash,
    say.Raise: raise_,
    say.Threads: threads,
    say.Create: create,
    say.Call: call,
    say.Find: find,
    say.Private: private,
}


# --- bodies ---


def play(hand: Hand) -> Play:
    """All moves of a body, then what it returns: one value that says all of it or only its first result; or several,
    the log first.
    """
    body, program = hand.body, hand.body.program
    hand.world.begins(body)
    for move in program.moves:
        waits = MOVES[type(move)](hand, move)
        if waits is not None:
            yield from waits
    values = [build(spec, hand) for spec in program.results]
    hand.world.ends(body, hand.log)
    if body.returns == 0:
        return None
    if body.returns == 1 and program.form == "bare" and values:
        return values[0]
    return [describe(hand.log), *values]


def finale(hand: Hand) -> Play:
    """A whole program: the driver's moves, then the value of everything that can be reached."""
    results = yield from play(hand)
    hand.take(results, frozenset())
    count, rest = 0, hand.refs
    del results
    while rest and count < FINALE_MAX:
        hand.refs, hand.values, hand.actors = [], [], []
        held = rest.pop()
        hand.hear([held], (yield Ask("each", [held.ref])), True)
        rest, count = rest + hand.refs, count + 1
    return hand.log


def drive(world: Any, body: Play) -> Any:
    """Run a body in a thread that may block."""
    try:
        asks = [next(body)]  # popped: an answer that is raised must not be in a ring with this frame
        while True:
            asks.append(body.send(world.answer(asks.pop())))
    except StopIteration as end:
        return end.value


async def drive_async(world: Any, body: Play) -> Any:
    """Run a body on an event loop."""
    try:
        asks = [next(body)]
        while True:
            asks.append(body.send(await world.answer_async(asks.pop())))
    except StopIteration as end:
        return end.value


def run_body(body: Any, args: Any, *, inside: Path | None = None) -> Any:
    """A task's, or a constructor's."""
    hand = Hand(body, inside=inside, is_task=inside is None)
    for arg in args:
        hand.take(arg, body.reach)
    return drive(body.world, play(hand))
