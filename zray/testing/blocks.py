"""Blocks with faults: `with faults(...) as injected:`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..api import changed_code
from .kinds import Fault
from .ledger import Happened, Ledger
from .wrapping import Plan

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["FaultMissing", "faults"]


class FaultMissing(AssertionError):
    """A fault did not happen in its block."""


class faults:  # noqa: N801  # called like a function
    """Inject faults while a block runs.  Tasks that the program submits in the block, and their own tasks, have them.

        with zray.testing.faults(kill_worker(of="train", on_call=3), delay(of="load", seconds=0.2)) as injected:
            ...

    Args:
        faults: made by `kill_worker`, `delay`, `kill_node` and `lose_object`.
        must_happen: raise at the end of the block if one did not happen.  Default: True.

    Raises:
        TypeError: an argument is no fault.
        RuntimeError: another block is open.
        NotImplementedError: the session is in local mode, or a value cannot be lost.
        FaultMissing: at the end of the block.
    """

    def __init__(self, *faults: Fault, must_happen: bool = True) -> None:
        for fault in faults:
            if not isinstance(fault, Fault):
                raise TypeError(f"faults() takes faults, as kill_worker() returns them, not {type(fault).__name__}.")
        self.faults = faults
        self.must_happen = must_happen
        self._ledger: Ledger | None = None
        self._happened: list[Happened] = []

    @property
    def happened(self) -> list[Happened]:
        """Faults that have happened so far, in order; also after the block."""
        return self._ledger.happened() if self._ledger is not None else self._happened

    def __enter__(self) -> faults:
        ledger = self._ledger = Ledger.made()
        try:
            changed_code.begin(Plan(ledger, tuple(fault for fault in self.faults if fault.of)))
            for fault in self.faults:
                if fault.ref is not None:
                    from .nodes import strike

                    strike(fault, ledger)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._ledger is not None
        counts = self._ledger.counts()
        self._end()
        happened = {each.fault for each in self._happened}
        missing = [fault for fault in self.faults if str(fault) not in happened]
        if error is None and missing and self.must_happen:
            raise FaultMissing(" ".join(_missing(fault, counts) for fault in missing))

    def _end(self) -> None:
        assert self._ledger is not None
        changed_code.end()
        self._happened = self._ledger.happened()
        self._ledger.close()
        self._ledger = None


def _missing(fault: Fault, counts: dict[str, int]) -> str:
    begins = counts.get(fault.of, 0)
    how = f"began {begins} time{'s' if begins > 1 else ''} in the block" if begins else "did not begin in the block"
    return (
        f"The fault {fault} did not happen: {fault.of} {how}.  Faults are for tasks that are submitted in the block, "
        "and for actors that are created in the block, on this machine; must_happen=False accepts this."
    )
