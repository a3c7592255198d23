"""Bundles of a program's modules, as its driver sends them and a worker takes them: the newest, in bounded number."""

import importlib
import os
import sys
from hashlib import sha256
from types import SimpleNamespace

import pytest
from msgspec import msgpack

from zray.exceptions import ObjectLostError, RuntimeEnvSetupError
from zray.host.code import download, upload
from zray.host.code.download import CodeTaker
from zray.host.code.module_discovery import read_file
from zray.host.code.upload import Shipper
from zray.object_ref import ObjectRef
from zray.wire.environment import NO_ENVIRONMENT
from zray.wire.scheduling import Bundle, JobFacts


class Driver:
    """What a shipper needs of one; and the bundles that nodes know of."""

    def __init__(self):
        self.puts, self.named = [], []
        self.sources = SimpleNamespace(data_of=read_file, write=lambda: None)
        self.reloaded = set()

    def put(self, data):
        self.puts.append(msgpack.decode(data))
        return ObjectRef(len(self.puts).to_bytes(24, "big"))

    def say(self, message):
        self.named = [name for name in self.named if name not in message.replaced]
        self.named += [bundle.object_id for bundle in message.bundles]

    def imported_anew(self):
        found, self.reloaded = self.reloaded, set()
        return found

    def files(self):
        """Those in the bundles that nodes know of, with their texts, in the order of sys.path."""
        found = {}
        for name in self.named:
            found |= {path: data for path, _, data in self.puts[int.from_bytes(name, "big") - 1]}
        return found


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def shipper(driver, monkeypatch):
    monkeypatch.setattr(upload, "BUNDLES_MAX", 4)
    made = Shipper(driver, [])
    made.look()  # the tests themselves
    return made


@pytest.fixture
def program(driver, shipper, tmp_path, monkeypatch):
    """Writes a module, imports or reloads it, and sends it."""
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"part{number}_{tmp_path.name}" for number in range(10)]

    def edit(number, text):
        (tmp_path / f"{names[number]}.py").write_text(f"TEXT = {text!r}\n")
        if names[number] not in sys.modules:
            importlib.import_module(names[number])
        else:
            driver.reloaded = {names[number]}
        shipper.modules_seen = -1
        shipper.look()

    edit.path = lambda number: f"{names[number]}.py"
    yield edit
    for name in names:
        sys.modules.pop(name, None)


def test_bundle_of_a_module_replaces_the_one_of_its_last_version(driver, program):
    program(0, "first")
    program(1, "other")
    before = len(driver.named)
    for number in range(300):
        program(0, f"version {number}")
    assert len(driver.named) == before
    assert driver.files()[program.path(0)] == b"TEXT = 'version 299'\n"
    assert driver.files()[program.path(1)] == b"TEXT = 'other'\n"


def test_bundle_with_modules_that_no_newer_one_has_stays(driver, shipper, program):
    tests = driver.named[0]
    program(0, "first")
    assert tests in driver.named and f"{__name__.partition('.')[0]}/__init__.py" in driver.files()


def test_one_bundle_takes_the_place_of_many(driver, shipper, program):
    for number in range(10):
        program(number, f"text {number}")
        assert len(driver.named) <= upload.BUNDLES_MAX
    files = driver.files()
    assert all(files[program.path(number)] == f"TEXT = 'text {number}'\n".encode() for number in range(10))


def test_bundles_of_detached_actors_stay_as_long_as_there_is_room(driver, shipper, program):
    program(0, "first")
    held = {ref.id for ref in shipper.refs()}
    program(0, "second")
    program(0, "third")
    assert held <= set(driver.named) and len(driver.named) == len(held) + 1
    for number in range(10):
        program(0, f"version {number}")
        shipper.refs()
    assert len(driver.named) <= upload.BUNDLES_MAX
    assert driver.files()[program.path(0)] == b"TEXT = 'version 9'\n"


def test_bundles_that_were_replaced_are_kept_for_a_while(shipper, program, monkeypatch):
    monkeypatch.setattr(upload, "REPLACED_MAX", 5)
    for number in range(20):
        program(0, f"version {number}")
    assert len(shipper.replaced) == 5
    monkeypatch.setattr(upload, "REPLACED_BYTES_MAX", 0)
    program(0, "last")
    assert not shipper.replaced


# --- a worker ---


class Worker:
    """What a taker needs of one."""

    def __init__(self, folder):
        self.paths = SimpleNamespace(folder=str(folder))
        self.environment = NO_ENVIRONMENT
        self.job_id, self.node_id, self.has_new_code = b"job", b"node", False
        self.facts = JobFacts()
        self.objects = {}
        self.on_get = None

    def bundle(self, number, text):
        data = msgpack.encode([("module.py", False, text.encode())])
        object_id = number.to_bytes(24, "big")
        self.objects[object_id] = data
        return Bundle(sha256(data).digest(), object_id, len(data))

    def another_ref(self, object_id):
        return object_id

    def get(self, object_ids, timeout):
        if self.on_get is not None:
            self.on_get()
        if object_ids[0] not in self.objects:
            raise ObjectLostError("gone")
        return [self.objects[object_ids[0]]]


@pytest.fixture
def worker(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    return Worker(tmp_path)


def found():
    """The text of the module that an import finds, and how many folders of bundles are on the path."""
    folders = [entry for entry in sys.path if os.path.exists(os.path.join(entry, "module.py"))]
    with open(os.path.join(folders[0], "module.py")) as file:
        return file.read(), len(folders)


def test_worker_imports_from_the_newest_bundle_and_not_from_those_that_were_replaced(worker, monkeypatch):
    monkeypatch.setattr(download, "REPLACED_MAX", 3)
    taker = CodeTaker(worker, is_elsewhere=True)
    for number in range(10):
        worker.facts = JobFacts(code=(worker.bundle(number, f"version {number}"),))
        taker.take()
        assert found() == (f"version {number}", 1)
    assert len(taker.cache.held) == 1 + 3
    worker.facts = JobFacts(code=(worker.bundle(10, "version 8"), worker.bundle(11, "version 7")))
    taker.take()
    assert found() == ("version 7", 2) and not taker.has_new(worker.facts)


def test_bundle_that_is_replaced_while_a_worker_asks_for_it_is_passed_over(worker):
    taker = CodeTaker(worker, is_elsewhere=True)
    gone, newest = worker.bundle(1, "gone"), worker.bundle(2, "newest")
    del worker.objects[gone.object_id]
    worker.facts = JobFacts(code=(gone,))
    worker.on_get = lambda: setattr(worker, "facts", JobFacts(code=(newest,)))
    taker.take()
    assert found() == ("newest", 1)
    worker.facts = JobFacts(code=(gone, newest))
    worker.on_get = None
    with pytest.raises(RuntimeEnvSetupError, match="did not reach"):
        taker.take()
