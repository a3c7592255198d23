"""What is put up with, and how long it is remembered."""

from zray.host.links.violations import OFFENCES_MAX, SENDERS_MAX, WINDOW_SECONDS, Offences


def test_too_many_within_a_minute():
    offences = Offences()
    assert not any(offences.note("a", float(number)) for number in range(OFFENCES_MAX))
    assert not offences.note("b", 10.0), "each sender has a count of its own"
    assert offences.note("a", 11.0)
    slow = Offences()
    assert not any(slow.note("a", number * WINDOW_SECONDS / OFFENCES_MAX * 1.01) for number in range(100))


def test_senders_are_forgotten():
    offences = Offences()
    for number in range(10):
        offences.note(f"old-{number}", 0.0)
    for number in range(10):
        offences.note(f"new-{number}", WINDOW_SECONDS + 1)
    assert list(offences.at) == [f"new-{number}" for number in range(10)]


def test_so_many_senders_are_remembered():
    offences = Offences()
    for number in range(2 * SENDERS_MAX):
        offences.note(f"{number}", 0.0)
    assert len(offences.at) == SENDERS_MAX
