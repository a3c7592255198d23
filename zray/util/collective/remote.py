"""Collective calls between members on several nodes: refs pass the board, and values the links of the cluster.

The rounds and parts are those of `exchange.py`, but longer.  Each rank puts its contributions into the store of its
node, fetches those to its own part, adds them in the order of the ranks, and puts the result, which all others fetch.
So each node sends and receives as much as in a ring, in both directions at once.  Contributions are announced some
rounds ahead: they travel while a rank adds those to the round before, and tells of the result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy

from ...api import actors, objects
from ...api.cluster_info import nodes
from ...api.decorator import remote
from ...exceptions import ActorAlreadyExistsError, RayActorError, ZrayError
from .board import CALLS_MAX, EVERYONE, TOGETHER, Board
from .errors import CollectiveGroupError, Header, require_equal, require_pair
from .exchange import OCTET, Rounds, combined
from .meeting import Join, missing_text
from .stopped import LOOK_SECONDS, Looks, text_of
from .tensors import BFLOAT16, Combiner, Flat

NAMESPACE = "zray.util.collective"
# All that a message carries to a rank: so little that it is no value of the store.
MESSAGE_BYTES_MAX = 90 << 10
# Of a part, and of all parts of a round.
PART_BYTES_MAX = 4 << 20
ROUND_BYTES_MAX = 32 << 20
# The contributions to so many rounds are announced ahead.
LEAD = 3
# So long other ranks leave the making of the board to rank 0, and wait between looks, at first.
PATIENCE_SECONDS, PAUSE_SECONDS = 1.0, 0.004


def meet_in_cluster(group: str, scope: str, me: Join, timeout: float) -> tuple[RemoteExchange | None, str]:
    """Wait until all ranks of a group are there.

    Args:
        group: its name.
        scope: session, node and program.
        me: this member.
        timeout: seconds to wait at most.

    Returns:
        The way to the others, and ""; or None and the scope of a meeting on this node, if all ranks are on it.

    Raises:
        CollectiveGroupError: ranks are missing after the timeout.
        RuntimeError: another member has this rank, or gave another size.
    """
    deadline = time.monotonic() + timeout
    name = f"{group} of {scope.rpartition('/')[2]}"
    while True:
        try:
            board = board_of(group, name, me.rank, deadline)
            generator = board.attend.options(num_returns="streaming").remote(me)
            if not objects.wait([generator], timeout=max(deadline - time.monotonic(), 0))[0]:
                present = objects.get(board.present.remote(), timeout=LOOK_SECONDS)
                raise CollectiveGroupError(missing_text(group, me.size, present))
            refusal, number, members = objects.get(next(generator))
        except (ActorAlreadyExistsError, RayActorError):
            if time.monotonic() < deadline:
                continue  # the board had no members, and has just ended
            raise
        if refusal:
            raise RuntimeError(refusal)
        if all(member.node == me.node for member in members):
            return None, f"{scope}/{board._actor_id.hex()}/{number}"
        return RemoteExchange(group, Seat(group, board, generator, number, me.rank, members)), ""


def board_of(group: str, name: str, rank: int, deadline: float) -> Any:
    """Return the board of a group, by its name.  Rank 0 makes it; others do if that does not come for a while.

    No handle keeps the board: it ends by itself.
    """
    end = min(time.monotonic() + PATIENCE_SECONDS, deadline)
    pause = PAUSE_SECONDS
    while rank > 0 and time.monotonic() < end:
        with suppress(ValueError):
            return actors.get_actor(name, NAMESPACE)
        time.sleep(pause)
        pause *= 2
    board_class: Any = remote(hosted=True, max_concurrency=CALLS_MAX)(Board)
    options = {"name": name, "namespace": NAMESPACE, "get_if_exists": True, "lifetime": "detached"}
    return board_class.options(**options).remote(group)


class Seat:
    """A member's connection to the board.  members: in the order of their ranks."""

    def __init__(self, group: str, board: Any, generator: Any, number: int, rank: int, members: Sequence[Join]) -> None:
        self.group = group
        self.rank = rank
        self.members = members
        self._board = board
        self._generator = generator  # its end is the end of this member
        self._number = number
        self._coming: dict[Any, None] = {}  # refs whose values are not here yet
        self._looks = Looks(members, members[rank].node)

    def exchange(
        self, header: Header | None, payloads: dict[int, Any], peer: int | None = None
    ) -> dict[int, tuple[Header, Any]]:
        """Give other ranks a payload each, and return theirs, with their headers.  Arguments as of `Board.exchange`.

        Raises:
            CollectiveGroupError: a member, or the board, is gone.
        """
        over, found = self._answer(self._board.exchange.remote(self._number, self.rank, peer, header, payloads))
        if over:
            raise CollectiveGroupError(over)
        return found  # type: ignore[no-any-return]

    def look(self) -> None:
        """Ask the board for the end of other members.

        Raises:
            CollectiveGroupError: a member, or the board, is gone.
        """
        if over := self._answer(self._board.why_over.remote(self._number)):
            raise CollectiveGroupError(over)

    def _answer(self, ref: Any) -> Any:
        """Return an answer of the board.

        Raises:
            CollectiveGroupError: the board, or the node of a member, is gone.
        """
        self._wait([ref])
        try:
            return objects.get(ref)
        except RayActorError:
            self._look_for_lost_nodes()
            raise CollectiveGroupError(
                f"Group {self.group!r} is over: the process in which its members meet has ended."
            ) from None

    def expect(self, refs: dict[int, Any]) -> None:
        """Have the values of refs brought to this node while it waits for anything else.  Arguments as of `fetch`."""
        self._coming.update((ref, None) for ref in refs.values() if ref is not None)

    def _wait(self, refs: list[Any]) -> None:
        """Wait for values, while those that are expected come too.

        Raises:
            CollectiveGroupError: the node of a member is lost, or a member's process is stopped.
        """
        missing = dict.fromkeys(refs)
        while missing:
            ready, _ = objects.wait([*(missing | self._coming)], timeout=LOOK_SECONDS)
            if not ready:
                self._look_for_lost_nodes()
                if stopped := self._looks.stopped():
                    raise CollectiveGroupError(text_of(self.group, stopped.name))
            for ref in ready:
                missing.pop(ref, None)
                self._coming.pop(ref, None)

    def fetch(self, refs: dict[int, Any]) -> dict[int, Any]:
        """Return the values of refs, by rank; None stands for no value.

        Raises:
            CollectiveGroupError: a value is lost with the node of its member.
        """
        ranks = [rank for rank, ref in refs.items() if ref is not None]
        wanted = [refs[rank] for rank in ranks]
        self._wait(wanted)
        try:
            return dict(zip(ranks, objects.get(wanted), strict=True))
        except ZrayError as error:
            self._look_for_lost_nodes()
            raise CollectiveGroupError(f"Group {self.group!r} is over: a value of a member is lost: {error}") from error

    def _look_for_lost_nodes(self) -> None:
        alive = {node["NodeID"] for node in nodes() if node["Alive"]}
        for member in self.members:
            if member.node not in alive:
                raise CollectiveGroupError(f"Group {self.group!r} is over: the node of {member.name} is lost.")

    def leave(self, failure: str = "") -> None:
        """Leave the group; failure: what the others are to hear."""
        with suppress(ZrayError):  # the others are told of the leave ahead of the end
            objects.get(self._board.leave.remote(self._number, self.rank, failure), timeout=LOOK_SECONDS)
        self._generator = self._board = None
        self._coming.clear()


class RemoteExchange:
    """Calls of one rank of a group.  names: texts on all ranks, for errors."""

    def __init__(self, group: str, seat: Seat) -> None:
        self.group = group
        self.seat = seat
        self.rank = seat.rank
        self.names = tuple(member.name for member in seat.members)
        self.size = len(self.names)
        self.others = [rank for rank in range(self.size) if rank != self.rank]
        self.inline_max = MESSAGE_BYTES_MAX // (self.size - 1)
        self.part_bytes = min(PART_BYTES_MAX, ROUND_BYTES_MAX // self.size)

    def look(self) -> None:
        """Look for the end of other members.

        Raises:
            CollectiveGroupError: a member, or the board, is gone.
        """
        self.seat.look()

    def fail(self, text: str) -> None:
        """Tell the others why the group is over, and let everything go."""
        self.seat.leave(text)

    def leave(self) -> None:
        """Leave in order, and let everything go."""
        self.seat.leave()

    # --- the calls ---

    def barrier(self, header: Header) -> None:
        """Wait until all ranks have called."""
        self._exchange(header, {})

    def allreduce(self, header: Header, tensor: Flat, combine: Combiner) -> None:
        """Replace each element by the result of all ranks."""
        self._reduce(header, tensor, combine, self.others, True)

    def reduce(self, header: Header, tensor: Flat, combine: Combiner, root: int) -> None:
        """Replace each element by the result of all ranks, at one of them."""
        takers = [rank for rank in self.others if rank == root]
        self._reduce(header, tensor, combine, takers, self.rank == root)

    def _reduce(self, header: Header, tensor: Flat, combine: Combiner, takers: Sequence[int], is_taken: bool) -> None:
        """Reduce a tensor.

        Args:
            header: of the call.
            tensor: the tensor.
            combine: the operation.
            takers: the other ranks that want the result.
            is_taken: this rank wants it.
        """
        vector = tensor.vector
        if 0 < vector.nbytes <= MESSAGE_BYTES_MAX and tensor.dtype != BFLOAT16:  # the board has no torch
            found = self._exchange(header, {TOGETHER: tensor.octets.tobytes()})
            if is_taken:
                vector[...] = numpy.frombuffer(found[TOGETHER], vector.dtype)
            return
        if vector.nbytes <= self.inline_max:
            found = self._exchange(header, {EVERYONE: tensor.octets.tobytes()})
            if is_taken and vector.size:
                combined(self._in_order(vector, elements(found, vector)), combine, vector)
            return
        rounds = self._cut(vector.size, self.size, vector.dtype.itemsize)

        def give(turn: int) -> dict[int, Any]:
            return {other: put(vector, rounds.part(turn, other)) for other in self.others}

        def work(turn: int, contributions: dict[int, Any]) -> dict[int, Any]:
            begin, count = rounds.part(turn, self.rank)
            own = vector[begin : begin + count]
            sums = own if is_taken else numpy.empty_like(own)
            if count:
                combined(self._in_order(own, contributions), combine, sums)
            return dict.fromkeys(takers, put(sums, (0, count)))

        def take(turn: int, results: dict[int, Any]) -> None:
            for other, result in results.items() if is_taken else ():
                begin, count = rounds.part(turn, other)
                vector[begin : begin + count] = result

        self._run(header, rounds.number, give, work, take)

    def reducescatter(self, header: Header, output: Flat, inputs: Sequence[Flat], combine: Combiner) -> None:
        """Write the result of all ranks for the tensor of this rank's number to `output`."""
        own, vector = inputs[self.rank].vector, output.vector
        if own.nbytes <= self.inline_max:
            found = self._exchange(header, {other: inputs[other].octets.tobytes() for other in self.others})
            if own.size:
                combined(self._in_order(own, elements(found, own)), combine, vector)
            return
        rounds = self._cut(own.size, 1, own.dtype.itemsize)

        def give(turn: int) -> dict[int, Any]:
            return {other: put(inputs[other].vector, rounds.part(turn, 0)) for other in self.others}

        def work(turn: int, contributions: dict[int, Any]) -> None:
            begin, count = rounds.part(turn, 0)
            parts = self._in_order(own[begin : begin + count], contributions)
            combined(parts, combine, vector[begin : begin + count])

        self._run(header, rounds.number, give, work)

    def allgather(self, header: Header, outputs: Sequence[Flat], tensor: Flat) -> None:
        """Write the tensor of each rank to the output of that number."""
        self._spread(header, tensor.octets, {rank: output.octets for rank, output in enumerate(outputs)})
        outputs[self.rank].octets[...] = tensor.octets

    def broadcast(self, header: Header, tensor: Flat, root: int) -> None:
        """Write the tensor of one rank to those of all others."""
        self._spread(header, tensor.octets if self.rank == root else None, {root: tensor.octets})

    def send(self, header: Header, tensor: Flat, receiver: int) -> None:
        """Send a tensor to one rank, and wait until that calls recv."""
        self._spread(header, tensor.octets, {self.rank: tensor.octets}, receiver)

    def recv(self, header: Header, tensor: Flat, sender: int) -> None:
        """Wait for a tensor of one rank."""
        self._spread(header, None, {sender: tensor.octets}, sender)

    def _spread(self, header: Header, source: Any, targets: dict[int, Any], peer: int | None = None) -> None:
        """Write bytes of some ranks to all others.

        Args:
            header: of the call.
            source: the bytes of this rank; None: it has none.
            targets: by rank, where the bytes of each of them go.
            peer: the other rank of a send or recv; None: all ranks.
        """
        others = [rank for rank in targets if rank != self.rank]
        length = len(next(iter(targets.values())))
        if length <= self.inline_max:
            found = self._exchange(header, {} if source is None else {EVERYONE: source.tobytes()}, peer)
            for rank in others if length else ():
                targets[rank][...] = numpy.frombuffer(found[rank], OCTET)
            return
        rounds = self._cut(length, 1, 1)

        def give(turn: int) -> dict[int, Any]:
            return {} if source is None else {EVERYONE: put(source, rounds.part(turn, 0))}

        def work(turn: int, found: dict[int, Any]) -> None:
            begin, count = rounds.part(turn, 0)
            for rank in others:
                targets[rank][begin : begin + count] = found[rank]

        self._run(header, rounds.number, give, work, peer=peer)

    # --- rounds ---

    def _cut(self, count: int, size: int, item_bytes: int) -> Rounds:
        """Return equal rounds of a vector.

        Args:
            count: elements of the vector.
            size: parts of a round.
            item_bytes: of an element.
        """
        share = -(-count // size)
        number = -(-share * item_bytes // self.part_bytes)
        return Rounds(count, size, -(-share // number))

    def _run(
        self,
        header: Header,
        number: int,
        give: Callable[[int], dict[int, Any]],
        work: Callable[[int, dict[int, Any]], dict[int, Any] | None],
        take: Callable[[int, dict[int, Any]], None] | None = None,
        peer: int | None = None,
    ) -> None:
        """Run the rounds of a call: the values of some travel while others are calculated and announced.

        Args:
            header: of the call.
            number: of rounds.
            give: puts the contributions to a round, and returns their refs by rank, or for `EVERYONE`.
            work: uses the contributions of the others, by rank; returns refs of results by rank, if there are any.
            take: uses the results of the others, by rank; None: there are none.
            peer: the other rank of a send or recv; None: all ranks.
        """
        contributions: deque[dict[int, Any]] = deque()  # of the others: refs by rank, for each round
        results: deque[dict[int, Any]] = deque()
        announced = 0

        def announce(upto: int, made: dict[int, Any] | None) -> None:
            nonlocal announced
            given = [give(turn) for turn in range(announced, min(upto, number))]
            ranks = {rank for each in (*given, made or {}) for rank in each}
            payloads = {rank: ([each.get(rank) for each in given], (made or {}).get(rank)) for rank in ranks}
            found = self._exchange(header if announced == 0 else None, payloads, peer)
            for place in range(len(given)):
                contributions.append({rank: each[0][place] for rank, each in found.items() if each is not None})
                self.seat.expect(contributions[-1])
            if made is not None:
                results.append({rank: each[1] for rank, each in found.items() if each is not None})
                self.seat.expect(results[-1])
            announced += len(given)

        announce(LEAD, None)
        taken = 0
        for turn in range(number):
            made = work(turn, self.seat.fetch(contributions.popleft()))
            if made is not None or announced < number:
                announce(announced + 1, made)
            if take is not None and turn >= LEAD:  # those of the last rounds are still on their way
                take(taken, self.seat.fetch(results.popleft()))
                taken += 1
        while take is not None and results:
            take(taken, self.seat.fetch(results.popleft()))
            taken += 1

    # --- messages ---

    def _exchange(self, header: Header | None, payloads: dict[int, Any], peer: int | None = None) -> dict[int, Any]:
        """Give other ranks a payload each, and return theirs.

        Args:
            header: at the beginning of a call; None: the call goes on.
            payloads: by rank, or for `EVERYONE`.
            peer: the other rank of a send or recv; None: all ranks.

        Raises:
            CollectiveMismatchError: the calls differ.
            CollectiveGroupError: a member is gone.
        """
        found = self.seat.exchange(header, payloads, peer)
        if header is not None and peer is None:
            require_equal(self.group, self._in_order(header, {rank: other for rank, (other, _) in found.items()}))
        elif header is not None and peer is not None:
            sides = ((self.rank, header), (peer, found[peer][0]))
            (sender, sent), (receiver, wanted) = sides if header.function == "send" else sides[::-1]
            require_pair(self.group, sender, sent, receiver, wanted)
        return {rank: payload for rank, (_, payload) in found.items()}

    def _in_order(self, own: Any, others: dict[int, Any]) -> list[Any]:
        """Return the vectors of all ranks, in their order."""
        return [own if rank == self.rank else others[rank] for rank in range(self.size)]


def elements(payloads: dict[int, bytes], like: Any) -> dict[int, Any]:
    """Return payloads as vectors of a dtype."""
    return {rank: numpy.frombuffer(payload, like.dtype) for rank, payload in payloads.items()}


def put(vector: Any, place: tuple[int, int]) -> Any:
    """Put a part of a vector into the store, and return its ref; None if it is empty."""
    begin, count = place
    return objects.put(vector[begin : begin + count]) if count else None
