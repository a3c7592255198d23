"""Sources that fall silent: pulls leave them for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire.message import Local
from ..role import on

if TYPE_CHECKING:
    from .pulls import Pulls

# A source that sends nothing for so long is left, if there is another: longer than the verdict on a lost node takes.
SILENCE_SECONDS = 5.0


class SilenceTimeout(Local):
    """Look for sources that have fallen silent."""


class Patience:
    """With the sources of one node's pulls."""

    def __init__(self, pulls: Pulls) -> None:
        self.pulls = pulls
        self.has_timer = False

    def begin(self) -> None:
        """Something is pulled."""
        if not self.has_timer:
            self.has_timer = True
            self.pulls.manager.set_timer(SILENCE_SECONDS, SilenceTimeout())

    @on(SilenceTimeout)
    def timeout(self, message: SilenceTimeout) -> None:
        """SilenceTimeout: whoever has been asked and has sent nothing for long is left for another."""
        pulls, self.has_timer = self.pulls, False
        if not pulls.coming:
            return
        self.begin()
        for pull in list(pulls.coming.values()):
            is_asking = bool(pull.asked_at) or (pull.is_small and pull.source)
            if not is_asking or pulls.manager.now - pull.heard_at < SILENCE_SECONDS:
                continue
            if pull.source not in pull.sources:
                pull.wants_whole = True
                pulls.go_on(pull)
            elif len(pull.sources) > 1:
                pull.sources.append(pull.sources.pop(pull.sources.index(pull.source)))
                pulls.go_on(pull)
