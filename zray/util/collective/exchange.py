"""Collective calls between members on one node, through the memory that they share.

A tensor is cut into rounds, and a round into a part for each rank.  Each rank writes its contributions to the parts of
all others, calculates its own part in the order of the ranks, and takes the parts of the others.  So the work is shared
equally, and a sum has the same bits on all ranks and in all runs.

One message per rank and round says: my contributions to this round are written, and my part of the round before is
ready.  Contributions are written a round ahead, and parts are taken a round late: a rank seldom waits.  Thus three
slots do (memory.SLOTS): a rank that has the messages of round i knows that all have read the contributions to round
i - 1, and the parts of round i - 3.

A small tensor travels inside the first message, and there are no rounds.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy

from .errors import Header, decode, encode, require_equal, require_pair
from .mesh import CALL, INLINE_BYTES_MAX, STEP, Mesh
from .tensors import Combiner, Flat

_PREFIX = struct.Struct("=cI")  # the type of the message, and the length of the header
# A dtype for calls that do not calculate.
OCTET = numpy.dtype(numpy.uint8)
Step = Callable[[int], None]


class Rounds:
    """Cut of a vector into rounds, and of a round into a part per rank."""

    def __init__(self, count: int, size: int, part_max: int) -> None:
        """count: elements of the vector; size: number of ranks; part_max: elements of a part at most."""
        self.count = count
        self.part_max = part_max
        self.length = size * part_max
        self.number = -(-count // self.length)
        # The last round is shared equally, too.
        self.last_part = -(-(count - (self.number - 1) * self.length) // size) if count else 0

    def part(self, turn: int, rank: int) -> tuple[int, int]:
        """Return where a rank's part of a round begins, and how many elements it has."""
        length = self.part_max if turn < self.number - 1 else self.last_part
        begin = min(turn * self.length + rank * length, self.count)
        return begin, min(length, self.count - begin)


class Exchange:
    """Calls of one rank of a group.  rank; size: number of ranks."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.rank = mesh.rank
        self.size = len(mesh.names)
        self.memory: Any = mesh.memory
        # A group of one calculates and copies where the tensors are.
        self.inline_max = INLINE_BYTES_MAX // (self.size - 1) if self.size > 1 else sys.maxsize

    def look(self) -> None:
        """Look for the end of other members.

        Raises:
            CollectiveGroupError: a member has ended or left.
        """
        self.mesh.look()

    def fail(self, text: str) -> None:
        """Tell the others why the group is over, and let everything go."""
        self.mesh.fail(text)

    def leave(self) -> None:
        """Leave in order, and let everything go."""
        self.mesh.leave()

    # --- the calls ---

    def barrier(self, header: Header) -> None:
        """Wait until all ranks have called."""
        self._begin(header)

    def allreduce(self, header: Header, tensor: Flat, combine: Combiner) -> None:
        """Replace each element by the result of all ranks."""
        self._reduce(header, tensor, combine, True)

    def reduce(self, header: Header, tensor: Flat, combine: Combiner, root: int) -> None:
        """Replace each element by the result of all ranks, at one of them."""
        self._reduce(header, tensor, combine, self.rank == root)

    def _reduce(self, header: Header, tensor: Flat, combine: Combiner, is_taken: bool) -> None:
        vector = tensor.vector
        if vector.nbytes <= self.inline_max:
            payloads = self._begin(header, tensor.octets)
            if is_taken and vector.size:
                combined(self._elements(payloads, vector), combine, vector)
            return
        rank, dtype, memory = self.rank, vector.dtype, self.memory
        rounds = Rounds(vector.size, self.size, memory.part_bytes // dtype.itemsize)

        def fill(turn: int) -> None:
            for owner in self.mesh.others:
                begin, count = rounds.part(turn, owner)
                memory.contribution(rank, turn, owner, dtype, count)[...] = vector[begin : begin + count]

        def work(turn: int) -> None:
            begin, count = rounds.part(turn, rank)
            result = memory.result(rank, turn, dtype, count)
            own = vector[begin : begin + count]
            combined(self._contributions(own, turn), combine, result)
            if is_taken:
                own[...] = result

        def take(turn: int) -> None:
            for owner in self.mesh.others:
                begin, count = rounds.part(turn, owner)
                vector[begin : begin + count] = memory.result(owner, turn, dtype, count)

        self._rounds(header, rounds.number, fill, work, take if is_taken else None)

    def reducescatter(self, header: Header, output: Flat, inputs: Sequence[Flat], combine: Combiner) -> None:
        """Write the result of all ranks for the tensor of this rank's number to `output`."""
        own, vector = inputs[self.rank].vector, output.vector
        if own.nbytes <= self.inline_max:
            payloads = self._begin(header, [tensor.octets for tensor in inputs])
            if own.size:
                combined(self._elements(payloads, own), combine, vector)
            return
        rank, dtype, memory = self.rank, own.dtype, self.memory
        rounds = Rounds(own.size, 1, memory.part_bytes // dtype.itemsize)

        def fill(turn: int) -> None:
            begin, count = rounds.part(turn, 0)
            for owner in self.mesh.others:
                part = inputs[owner].vector[begin : begin + count]
                memory.contribution(rank, turn, owner, dtype, count)[...] = part

        def work(turn: int) -> None:
            begin, count = rounds.part(turn, 0)
            parts = self._contributions(own[begin : begin + count], turn)
            combined(parts, combine, vector[begin : begin + count])

        self._rounds(header, rounds.number, fill, work)

    def _elements(self, payloads: Sequence[bytes], own: Any) -> list[Any]:
        """Return the vectors of all ranks, from the payloads of the others."""
        return [
            own if rank == self.rank else numpy.frombuffer(payload, own.dtype) for rank, payload in enumerate(payloads)
        ]

    def _contributions(self, own: Any, turn: int) -> list[Any]:
        """Return what all ranks contribute to the part of this rank in a round.  own: the own vector."""
        return [
            own if rank == self.rank else self.memory.contribution(rank, turn, self.rank, own.dtype, own.size)
            for rank in range(self.size)
        ]

    def allgather(self, header: Header, outputs: Sequence[Flat], tensor: Flat) -> None:
        """Write the tensor of each rank to the output of that number."""
        targets = {rank: output.octets for rank, output in enumerate(outputs)}
        self._spread(header, tensor.octets, targets)
        targets[self.rank][...] = tensor.octets

    def broadcast(self, header: Header, tensor: Flat, root: int) -> None:
        """Write the tensor of one rank to those of all others."""
        self._spread(header, tensor.octets if self.rank == root else None, {root: tensor.octets})

    def _spread(self, header: Header, source: Any, targets: dict[int, Any]) -> None:
        """Write bytes of some ranks to all others.

        Args:
            header: of the call.
            source: the bytes of this rank; None: it has none.
            targets: by rank, where the bytes of each of them go.
        """
        length = len(next(iter(targets.values())))
        others = [rank for rank in targets if rank != self.rank]
        if length <= self.inline_max:
            payloads = self._begin(header, b"" if source is None else source)
            if length:
                for rank in others:
                    targets[rank][...] = numpy.frombuffer(payloads[rank], OCTET)
            return
        rounds = Rounds(length, 1, self.memory.round_bytes)

        def fill(turn: int) -> None:
            if source is not None:
                self._write(rounds, turn, source)

        def work(turn: int) -> None:
            for rank in others:
                self._read(rounds, turn, rank, targets[rank])

        self._rounds(header, rounds.number, fill, work)

    def send(self, header: Header, tensor: Flat, receiver: int) -> None:
        """Send a tensor to one rank, and wait until it is there."""
        octets = tensor.octets
        if len(octets) <= self.inline_max:
            self._begin_pair(header, receiver, octets)
            return
        rounds = Rounds(len(octets), 1, self.memory.round_bytes)

        def fill(turn: int) -> None:
            self._write(rounds, turn, octets)

        self._rounds(header, rounds.number, fill, _nothing, peer=receiver)

    def recv(self, header: Header, tensor: Flat, sender: int) -> None:
        """Wait for a tensor of one rank."""
        octets = tensor.octets
        if len(octets) <= self.inline_max:
            payload = self._begin_pair(header, sender, b"")
            if len(octets):
                octets[...] = numpy.frombuffer(payload, OCTET)
            return
        rounds = Rounds(len(octets), 1, self.memory.round_bytes)

        def work(turn: int) -> None:
            self._read(rounds, turn, sender, octets)

        self._rounds(header, rounds.number, _nothing, work, peer=sender)

    def _write(self, rounds: Rounds, turn: int, source: Any) -> None:
        """Write a round of bytes into the own area."""
        begin, count = rounds.part(turn, 0)
        self.memory.contribution(self.rank, turn, 0, OCTET, count)[...] = source[begin : begin + count]

    def _read(self, rounds: Rounds, turn: int, rank: int, target: Any) -> None:
        """Read a round of bytes out of another rank's area."""
        begin, count = rounds.part(turn, 0)
        target[begin : begin + count] = self.memory.contribution(rank, turn, 0, OCTET, count)

    # --- rounds and messages ---

    def _rounds(
        self, header: Header, number: int, fill: Step, work: Step, take: Step | None = None, peer: int | None = None
    ) -> None:
        """Run the rounds of a call.

        Args:
            header: of the call.
            number: of rounds, at least 1.
            fill: writes the contributions to a round.
            work: reads the contributions of all to a round.
            take: reads the parts of all; None: nobody does.
            peer: the other rank of a send or recv; None: all ranks.
        """
        mesh = self.mesh
        self.memory.reserve(self.rank)
        fill(0)
        ahead = partial(fill, 1) if number > 1 else None
        if peer is None:
            peers = mesh.others
            self._begin(header, ahead=ahead)
        else:
            peers = [peer]
            self._begin_pair(header, peer, ahead=ahead)
        for turn in range(number):
            work(turn)
            for rank in peers:
                mesh.send(rank, STEP)
            if take is not None and turn > 0:
                take(turn - 1)
            if turn + 2 < number:
                fill(turn + 2)
            mesh.receive(peers)
        if take is not None:
            take(number - 1)

    def _begin(self, header: Header, payload: Any = b"", ahead: Callable[[], None] | None = None) -> list[bytes]:
        """Tell all ranks of this call, and wait for theirs.

        Args:
            header: of the call.
            payload: bytes for all ranks, or a list with those for each of them.
            ahead: called while the others come; None: nothing is.

        Returns:
            The payloads of all ranks; the own one is empty.

        Raises:
            CollectiveMismatchError: the calls differ.
        """
        mesh, encoded = self.mesh, encode(header)
        prefix = _PREFIX.pack(CALL, len(encoded)) + encoded
        for rank in mesh.others:
            mesh.send(rank, prefix, payload[rank] if type(payload) is list else payload)
        if ahead is not None:
            ahead()
        headers, payloads = [header] * self.size, [b""] * self.size
        for rank, message in zip(mesh.others, mesh.receive(mesh.others), strict=True):
            headers[rank], payloads[rank] = _split(message)
        require_equal(mesh.group, headers)
        return payloads

    def _begin_pair(
        self, header: Header, peer: int, payload: Any = b"", ahead: Callable[[], None] | None = None
    ) -> bytes:
        """Tell one rank of a send or recv, and return the payload of the other side.  Arguments as of `_begin`."""
        mesh, encoded = self.mesh, encode(header)
        mesh.send(peer, _PREFIX.pack(CALL, len(encoded)), encoded, payload)
        if ahead is not None:
            ahead()
        (message,) = mesh.receive([peer])
        other, found = _split(message)
        sides = ((self.rank, header), (peer, other))
        (sender, sent), (receiver, wanted) = sides if header.function == "send" else sides[::-1]
        require_pair(mesh.group, sender, sent, receiver, wanted)
        return found


def combined(vectors: Sequence[Any], combine: Combiner, out: Any) -> None:
    """Write the result of some vectors, in their order, to `out`, which may be one of them."""
    if len(vectors) == 1:
        out[...] = vectors[0]
        return
    first, second, *rest = vectors
    result = numpy.empty_like(out) if any(numpy.may_share_memory(vector, out) for vector in rest) else out
    combine(first, second, result)
    for vector in rest:
        combine(result, vector, result)
    if result is not out:
        out[...] = result


def _split(message: bytes) -> tuple[Header, bytes]:
    _, length = _PREFIX.unpack_from(message)
    end = _PREFIX.size + length
    return decode(message[_PREFIX.size : end]), message[end:]


def _nothing(turn: int) -> None:
    """A rank that only sends has nothing to read, and one that only receives nothing to write."""
