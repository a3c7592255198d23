"""Views of refs and handles in a notebook: short, escaped, and without a question to anybody."""

from zray.actor import ActorHandle
from zray.object_ref import ObjectRef


def test_ref_is_shown_by_its_id_without_a_session():
    assert ObjectRef(b"\xab" * 20)._repr_html_() == f"<code>ObjectRef({'ab' * 20})</code>"


def test_handle_is_shown_by_its_escaped_class_and_id_without_a_session():
    handle = ActorHandle(b"\xcd" * 8, None, "outer.<locals>.Actor", {}, 0)
    assert handle._repr_html_() == f"<code>Actor(outer.&lt;locals&gt;.Actor, {'cd' * 8})</code>"
