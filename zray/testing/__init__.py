"""Faults at logical events, for tests of programs: real processes die, in each run at the same event.

from zray.testing import faults, kill_worker

with faults(kill_worker(of="train", on_call=3)) as injected:
    assert zray.get([train.remote(part) for part in range(4)]) == expected
print(injected.happened)
"""

from __future__ import annotations

from ..on_import import shadows
from .blocks import FaultMissing, faults
from .kinds import Fault, delay, kill_node, kill_worker, lose_object
from .ledger import Happened

__all__ = ["Fault", "FaultMissing", "Happened", "delay", "faults", "kill_node", "kill_worker", "lose_object"]

shadows.name_absent(__name__)
