"""Code on a node: unpacked once, kept while it is used, in a folder of bounded size."""

import multiprocessing
import os
import stat
import subprocess
import sys
from hashlib import sha256

import pytest
from msgspec import msgpack

from zray.exceptions import RuntimeEnvSetupError
from zray.host.code.cache import CodeCache, array_length, read_bundle

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def bundle(text="x", size=0):
    data = msgpack.encode([["pkg/a.py", False, text.encode()], ["pkg/run.sh", True, b"x" * size]])
    return sha256(data).digest(), data


class Cache(CodeCache):
    """One that counts what it fetches; a new one is another process's."""

    def __init__(self, folder, **options):
        super().__init__(str(folder), **options)
        self.fetched = 0

    def use(self, made, owner=""):
        digest, data = made

        def fetch():
            self.fetched += 1
            return data

        return self.take(digest, fetch, owner)

    def end(self):
        for descriptor in self.held.values():
            os.close(descriptor)
        self.held.clear()

    def bundles(self):
        return sorted(name for name in os.listdir(self.folder) if os.path.isdir(os.path.join(self.folder, name)))


@pytest.fixture
def caches(tmp_path):
    """`caches()` is one more process's view of the same folder."""
    made = []

    def make(**options):
        made.append(Cache(tmp_path, **options))
        return made[-1]

    yield make
    for cache in made:
        cache.end()


def test_it_is_fetched_once_and_found_by_others(caches):
    one, two = caches(), caches()
    path = one.use(bundle("hello"))
    assert (one.use(bundle("hello")), two.use(bundle("hello"))) == (path, path)
    assert (one.fetched, two.fetched) == (1, 0)
    with open(os.path.join(path, "pkg/a.py")) as file:
        assert file.read() == "hello"
    assert os.access(os.path.join(path, "pkg/run.sh"), os.X_OK)
    for place, folders, files in os.walk(one.folder):
        for name in folders:
            assert stat.S_IMODE(os.stat(os.path.join(place, name)).st_mode) == 0o700
        for name in files:
            assert not stat.S_IMODE(os.stat(os.path.join(place, name)).st_mode) & 0o077


def test_what_is_a_jobs_own_is_shared_with_no_other(caches):
    cache = caches()
    assert len({cache.use(bundle(), owner) for owner in ("", "job-1", "job-2")}) == 3


def test_what_nobody_uses_goes_first_the_least_recently_used(caches):
    made = [bundle(str(number), 1_000) for number in range(4)]
    first = caches(bytes_max=3_500)
    old = [first.use(item) for item in made[:3]]
    first.end()
    for age, path in zip((3, 1, 2), old, strict=True):
        os.utime(f"{path}.lock", ns=(10**18 - age, 10**18 - age))
    cache = caches(bytes_max=3_500)
    cache.use(made[3])
    assert [os.path.isdir(path) for path in old] == [False, True, True]
    assert not os.path.exists(f"{old[0]}.lock")
    assert cache.use(made[0]) == old[0] and cache.fetched == 2  # it comes again, and the next one goes
    assert [os.path.isdir(path) for path in old] == [True, True, False]


def test_what_is_in_use_stays_and_there_may_be_no_room(caches):
    users = [caches(bytes_max=3_500) for _ in range(3)]
    paths = [user.use(bundle(str(number), 1_000)) for number, user in enumerate(users)]
    late = caches(bytes_max=3_500)
    with pytest.raises(RuntimeEnvSetupError, match=r"too little free space for 1,\d+ b.* use 3,\d+ of 3,500 bytes"):
        late.use(bundle("late", 1_000))
    assert all(map(os.path.isdir, paths)) and len(late.bundles()) == 3
    users[1].end()
    late.end()
    late.use(bundle("late", 1_000))
    assert [os.path.isdir(path) for path in paths] == [True, False, True]


def test_it_is_kept_for_a_process_that_lives_and_not_for_one_that_was_killed(caches, tmp_path):
    cache = caches(bytes_max=1_500)
    digest, data = bundle("its", 1_000)
    (tmp_path / "data").write_bytes(data)
    code = (
        "import sys; from zray.host.code.cache import CodeCache;"
        f"cache = CodeCache({str(tmp_path)!r}); data = open({str(tmp_path / 'data')!r}, 'rb').read();"
        f"cache.take({digest!r}, lambda: data); print('taken', flush=True); sys.stdin.read()"
    )
    user = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    with user:
        assert user.stdout.readline() == b"taken\n"
        with pytest.raises(RuntimeEnvSetupError, match="too little free space"):
            cache.use(bundle("ours", 1_000))
        user.kill()
        user.wait()
        cache.end()
        cache.use(bundle("ours", 1_000))
    assert len(cache.bundles()) == 1


def _take_in_turn(folder, barrier, results):
    barrier.wait()
    cache = Cache(folder)
    path = cache.use(bundle("all at once", 100_000))
    results.put((path, sorted(os.listdir(os.path.join(path, "pkg")))))


def test_many_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(6), context.Queue()
    processes = [context.Process(target=_take_in_turn, args=(tmp_path, barrier, results)) for _ in range(6)]
    for process in processes:
        process.start()
    found = {(path, tuple(names)) for path, names in (results.get(timeout=30) for _ in processes)}
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert len(found) == 1 and next(iter(found))[1] == ("a.py", "run.sh")
    assert not [name for name in os.listdir(tmp_path / "code") if name.endswith(".new")]


def test_what_died_half_way_is_made_anew(caches, tmp_path):
    cache = caches()
    digest, _ = bundle("whole")
    half = tmp_path / "code" / f"{digest.hex()}.new" / "pkg"
    half.mkdir(parents=True)
    (half / "left.py").write_text("half")
    path = cache.use(bundle("whole"))
    assert sorted(os.listdir(os.path.join(path, "pkg"))) == ["a.py", "run.sh"]


# --- what is not what it says ---


def test_other_bytes_than_were_sent_are_refused(caches):
    cache = caches()
    digest, _ = bundle("right")
    with pytest.raises(RuntimeEnvSetupError, match="differs from the code sent"):
        cache.use((digest, bundle("wrong")[1]))
    assert not cache.bundles()


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../up", "a/../../up", "a//b", "", ".", "a/./b", "a/", "nul\0"],
)
def test_files_outside_are_refused(caches, path, tmp_path):
    data = msgpack.encode([["fine.py", False, b""], [path, False, b"bad"]])
    with pytest.raises(RuntimeEnvSetupError, match="has a file with the forbidden name"):
        caches().use((sha256(data).digest(), data))
    assert not (tmp_path / "up").exists() and not (tmp_path / "code" / "up").exists()


def test_so_many_files_are_no_program():
    """The first bytes tell the number, before the others are decoded (docs/security.md, B27)."""
    fits = msgpack.encode([[f"f{number}", False, b""] for number in range(20)])
    assert array_length(fits) == 20 and len(read_bundle(fits)) == 20
    assert array_length(msgpack.encode([1] * 3)) == 3 and array_length(msgpack.encode([1] * 70_000)) == 70_000
    for header in (b"\xdd\x00\x98\x96\x80", b"\xdd\xff\xff\xff\xff", b"\xdd\x00\x00\xc3\x51"):
        with pytest.raises(RuntimeEnvSetupError, match="files; at most 50,000"):
            read_bundle(header + b"\x93\xa1a\xc2\xc4\x00" * 10)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\x91\x93\xa2\xff\xfe\xc2\xc4\x00", msgpack.encode({"a": 1}), msgpack.encode([["a", 1, b""]])],
    ids=repr,
)
def test_what_is_no_bundle_is_refused(data):
    with pytest.raises(RuntimeEnvSetupError, match="cannot be read"):
        read_bundle(data)


def test_two_files_of_one_name_are_refused(caches):
    data = msgpack.encode([["a", False, b"1"], ["a", False, b"2"]])
    cache = caches()
    with pytest.raises(RuntimeEnvSetupError, match="cannot be unpacked"):
        cache.use((sha256(data).digest(), data))
    assert not cache.bundles()
