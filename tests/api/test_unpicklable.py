"""Exceptions and values that do not pickle where they are, or do not unpickle where they arrive: errors say which."""

import sys
import threading

import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


def error_of(ref):
    with pytest.raises(zray.exceptions.RayError) as caught:
        zray.get(ref, timeout=30)
    return caught.value


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_group_with_an_exception_that_does_not_pickle():
    @zray.remote
    def several():
        class Unsent(Exception):
            def held(self):
                return made

        made = threading.Lock()
        raise ExceptionGroup("several", [Unsent("stays"), KeyError("arrives")])  # noqa: F821

    error = error_of(several.remote())
    assert isinstance(error, ExceptionGroup)  # noqa: F821
    stand_in, key = error.exceptions
    assert type(stand_in) is zray.exceptions.ZrayError and key.args == ("arrives",)
    assert "isn't serializable" in str(stand_in) and "Unsent: stays" in str(stand_in)


def test_exception_that_does_not_pickle_has_a_cause_that_says_so():
    @zray.remote
    def raise_unsent():
        class Unsent(Exception):
            def held(self):
                return made

        made = threading.Lock()
        raise Unsent("stays there")

    error = error_of(raise_unsent.remote())
    assert type(error.cause) is zray.exceptions.ZrayError and "Unsent: stays there" in str(error)
    assert "isn't serializable" in str(error.cause) and "Unsent: stays there" in str(error.cause)
