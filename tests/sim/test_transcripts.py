"""Each conversation of the core as text: tests/transcripts/*.txt.

A change of the protocol shows there as a change of text, to be read and committed with it (`scripts/transcripts`).
A change of names alone changes these texts by its table of names, and by nothing else.
"""

import pytest

from tests.scripts import ROOT
from tests.sim.scenarios import SCENARIOS
from zray.sim.trace import name_of, render

pytestmark = pytest.mark.sim

FOLDER = ROOT / "tests" / "transcripts"
# Regular reports and ticks say nothing of a conversation.
REGULAR = {"Heartbeat", "HeartbeatReply", "Lineage.send_portion", "LoadReport", "Members.report", "Monitor.tick"}


def transcript(scenario):
    """Text of a scenario: its description, then one message a line."""
    world = scenario()
    lines = [render(line).rstrip() for line in world.trace.lines if name_of(line[-1]) not in REGULAR]
    return "\n".join([scenario.__doc__, "", *lines, ""])


def path_of(scenario):
    return FOLDER / f"{scenario.__name__}.txt"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_conversation_is_as_its_transcript_says(scenario):
    assert transcript(scenario) == path_of(scenario).read_text(), (
        "scripts/transcripts writes it anew: read what changes"
    )


def test_each_transcript_has_its_scenario():
    assert {path.name for path in FOLDER.iterdir()} == {path_of(scenario).name for scenario in SCENARIOS}


if __name__ == "__main__":
    for each in SCENARIOS:
        path_of(each).write_text(transcript(each))
