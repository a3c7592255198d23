"""The folder of environments: made once, whole or not at all, bounded."""

import os
import threading

import pytest

from tests.gates import until
from zray.exceptions import RuntimeEnvSetupError
from zray.host.code.environment_cache import EnvironmentCache


def nothing():
    """Go on waiting."""


def maker(size=10, made=None):
    def make(path):
        os.mkdir(path)
        with open(os.path.join(path, "file"), "wb") as file:
            file.write(bytes(size))
        if made is not None:
            made.append(path)

    return make


@pytest.fixture
def cache(tmp_path):
    return EnvironmentCache(str(tmp_path / "cache"), count_max=3, bytes_max=100)


def use(cache, name, make):
    """Take and leave."""
    path, lock = cache.take(name, make, nothing)
    os.close(lock)
    return path


def names(cache):
    return sorted(name for name in os.listdir(cache.folder) if "." not in name and name != "room")


def test_an_environment_is_made_once(cache):
    made = []
    assert use(cache, "a", maker(made=made)) == use(cache, "a", maker(made=made))
    assert len(made) == 1


def test_two_that_want_the_same_one_make_one(cache):
    made, inside, go = [], threading.Event(), threading.Event()

    def slowly(path):
        inside.set()
        assert go.wait(20)
        maker(made=made)(path)

    threads = [threading.Thread(target=use, args=(cache, "a", slowly)) for _ in range(2)]
    threads[0].start()
    assert inside.wait(20)
    threads[1].start()
    until(lambda: sum("cache/a.lock" in os.readlink(f"/proc/self/fd/{fd}") for fd in fds()) == 2)
    go.set()
    for thread in threads:
        thread.join(20)
    assert len(made) == 1


def fds():
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]


def test_waiting_installation_can_be_left(cache):
    class GivenUp(Exception):
        pass

    def give_up():
        raise GivenUp

    def make(path):
        with pytest.raises(GivenUp):
            cache.take("a", maker(), give_up)
        maker()(path)

    use(cache, "a", make)


def test_nothing_is_left_of_one_that_cannot_be_made(cache):
    def fail(path):
        maker()(path)
        raise RuntimeEnvSetupError("no such package")

    with pytest.raises(RuntimeEnvSetupError, match="no such package"):
        cache.take("a", fail, nothing)
    assert not os.listdir(cache.folder) or os.listdir(cache.folder) == ["room"]
    assert use(cache, "a", maker())


def test_environment_that_a_crash_has_left_is_made_again_or_removed(cache):
    """A folder without its mark, and nobody who makes it."""
    for name in ("a", "b"):
        os.mkdir(os.path.join(cache.folder, name))
        with open(os.path.join(cache.folder, name, "half"), "w", encoding="ascii"):
            pass
    path = use(cache, "a", maker())
    assert os.listdir(path) == ["file"]
    assert names(cache) == ["a"]


def test_the_least_recently_used_goes_and_what_is_used_stays(cache):
    path, lock = cache.take("a", maker(), nothing)
    for place, name in enumerate(("b", "c")):
        os.utime(f"{use(cache, name, maker())}.ready", (place, place))
    use(cache, "d", maker())
    assert names(cache) == ["a", "c", "d"]
    os.utime(f"{path}.ready", (0, 0))
    use(cache, "e", maker())
    assert names(cache) == ["a", "d", "e"]
    os.close(lock)
    os.utime(f"{path}.ready", (0, 0))
    use(cache, "f", maker())
    assert names(cache) == ["d", "e", "f"]


def test_bytes_are_bounded_too(cache):
    use(cache, "a", maker(size=80))
    use(cache, "b", maker(size=30))
    use(cache, "c", maker(size=10))
    assert names(cache) == ["b", "c"]


def test_a_folder_that_others_can_enter_is_refused(tmp_path):
    os.mkdir(tmp_path / "open", 0o755)
    with pytest.raises(RuntimeEnvSetupError, match="open to others.*ZRAY_ENV_CACHE"):
        EnvironmentCache(str(tmp_path / "open"))
