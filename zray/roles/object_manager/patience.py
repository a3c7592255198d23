"""Sources that fall silent: pulls leave them for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pulls import Pulls

# A source that sends nothing for so long is left, if there is another: longer than the verdict on a lost node takes.
SILENCE_SECONDS = 5.0


class Patience:
    """With the sources of one node's pulls."""

    def __init__(self, pulls: Pulls) -> None:
        self.pulls = pulls
        self.has_timer = False

    def begin(self) -> None:
        """Something is pulled."""
        if not self.has_timer:
            self.has_timer = True
            self.pulls.manager.after(SILENCE_SECONDS, self.leave_silent)

    def leave_silent(self) -> None:
        """Leave sources that have been asked and have sent nothing for long, for others."""
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
