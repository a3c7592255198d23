"""docs/protocol.md is what zray/wire says."""

from docs.protocol import document
from tests.scripts import ROOT
from zray.wire.codec import MESSAGE_TYPES


def test_the_page_is_up_to_date():
    assert (ROOT / "docs" / "protocol.md").read_text() == document(), "run scripts/protocol"


def test_every_message_has_its_section():
    lines = set(document().splitlines())
    assert not [kind.__name__ for tag, kind in MESSAGE_TYPES.items() if f"### {tag} {kind.__name__}" not in lines]


def test_fields_carry_their_type_default_and_comment():
    assert "| `worker_id` | `int` | `0` | workers: as given by the node when it ordered the start |" in document()
    assert "| `count` | `Natural` |  |  |" in document()
