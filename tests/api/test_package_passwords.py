"""Packages from a server that asks for a password: no process that installs them has it in its arguments."""

import base64
import functools
import http.server
import os
import subprocess
import tarfile
import threading

import pytest

import zray
from tests.wheels import make_wheel
from zray.exceptions import RuntimeEnvSetupError

SECRET = "s3cret-word"
BACKEND = """
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    import buildneed
    name = f"{NAME}-1.0-py3-none-any.whl"
    info = f"{NAME}-1.0.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as file:
        file.writestr(f"{NAME}.py", "VALUE = 7")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {NAME}\\nVersion: 1.0\\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        file.writestr(f"{info}/RECORD", "")
    return name
"""


class Asking(http.server.SimpleHTTPRequestHandler):
    """Sends files to who has the password, and looks at the arguments of all processes meanwhile."""

    seen = []

    def do_GET(self):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:  # it has ended
                continue
            if SECRET.encode() in words:
                self.seen.append(words)
        if self.headers["Authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode():
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="packages"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


def make_source(folder, name):
    """A package whose build needs another package."""
    folder.mkdir(parents=True)
    (folder / "backend.py").write_text(f"NAME = {name!r}\n{BACKEND}")
    (folder / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["buildneed"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of the packages, with the password."""
    folder = tmp_path_factory.mktemp("packages")
    site = folder / "site"
    make_wheel(site, "buildneed", "1.0", "")
    make_source(folder / "built-1.0", "built")
    with tarfile.open(site / "built-1.0.tar.gz", "w:gz") as archive:
        archive.add(folder / "built-1.0", "built-1.0")
    make_source(folder / "cloned", "cloned")
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@host", "-C"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, str(folder / "cloned"), *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(folder / "cloned"), str(site / "cloned.git")], check=True)
    subprocess.run(["git", "-C", str(site / "cloned.git"), "update-server-info"], check=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Asking, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://me:{SECRET}@127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def program(nothing_left, tmp_path_factory, address):
    folder = tmp_path_factory.mktemp("environments")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZRAY_ENV_CACHE", str(folder))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_NO_CACHE_DIR", "1")  # a wheel that is kept is not built again
        with zray.init(num_cpus=1) as session:
            yield session
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                assert SECRET.encode() not in file.read(), name


@zray.remote
def value(name):
    return __import__(name).VALUE


def installed(name, packages, options=(), env_vars=None):
    pip = {"packages": packages, "pip_install_options": list(options)}
    Asking.seen.clear()
    found = zray.get(value.options(runtime_env={"pip": pip, "env_vars": env_vars or {}}).remote(name), timeout=60)
    assert not Asking.seen
    return found


def test_build_of_a_package_shows_no_password_of_a_source(program, address):
    assert installed("built", ["built"], ["--find-links", address]) == 7


def test_build_of_a_package_shows_no_password_of_a_variable(program, address):
    assert installed("built", ["built"], env_vars={"PIP_FIND_LINKS": address}) == 7


def test_clone_of_a_repository_shows_no_password(program, address):
    assert installed("cloned", [f"cloned @ git+{address}cloned.git"], ["-f", address]) == 7


def test_error_of_an_installer_shows_no_password(program, address):
    with pytest.raises(RuntimeEnvSetupError) as caught:
        installed("built", [f"built @ {address}absent.zip"])
    assert "absent.zip" in str(caught.value) and SECRET not in str(caught.value) and not Asking.seen
