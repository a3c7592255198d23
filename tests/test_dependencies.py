"""Each package that setup.cfg asks for is imported by the code that it is for."""

import ast
import configparser
import re
import subprocess
import sys

import pytest

from tests.scripts import ROOT

CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")
# Packages that are imported under another name.
IMPORTED_AS = {
    "pyzmq": "zmq",
    "msgpack-numpy": "msgpack_numpy",
    "pyyaml": "yaml",
    "ale-py": "ale_py",
    "scikit-learn": "sklearn",
    "opencv-python-headless": "cv2",
}
# Packages that other packages import: samplers of Optuna, and the preprocessing of gymnasium.
USED_BY_OTHERS = {"cmaes", "opencv-python-headless"}
FOLDERS = {"": ("zray", "cli"), "demo": ("examples",)}


def packages(text):
    return [match[1].lower() for line in text.splitlines() if (match := re.match(r"([A-Za-z][\w.-]*)", line.strip()))]


def required():
    """(extra or "", package) of all that a user installs; tools of the tests run by their own commands."""
    yield from (("", package) for package in packages(CONFIG["options"]["install_requires"]))
    for extra, text in CONFIG["options.extras_require"].items():
        if extra != "test":
            yield from ((extra, package) for package in packages(text))


def imported(folder):
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                # importlib.import_module("name") and helpers in its manner
                found.add(str(node.args[0].value).partition(".")[0])
    return found


@pytest.fixture(scope="module")
def imports():
    return {folder: imported(folder) for folder in ("zray", "cli", "examples")}


@pytest.mark.parametrize(("extra", "package"), list(required()))
def test_package_that_is_asked_for_is_imported(extra, package, imports):
    if package in USED_BY_OTHERS:
        return
    name = IMPORTED_AS.get(package, package.replace("-", "_"))
    assert any(name in imports[folder] for folder in FOLDERS.get(extra, FOLDERS[""])), package


def test_exceptions_name_packages_that_are_asked_for():
    asked = {package for _, package in required()}
    assert set(IMPORTED_AS) | USED_BY_OTHERS <= asked


# As setuptools writes it for an editable install.
FINDER = """
import sys
from importlib.util import spec_from_file_location

class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return spec_from_file_location(fullname, {place!r}) if fullname == "zray" else None

def install():
    sys.meta_path.append(_EditableFinder)
"""


def test_program_beside_a_clone_named_zray_finds_the_package_and_not_the_folder_of_the_clone(tmp_path):
    """Python takes a folder beside the program for a package without files, ahead of finders that come later."""
    packages, program = tmp_path / "packages", tmp_path / "program.py"
    packages.mkdir()
    (tmp_path / "zray").mkdir()
    place = str(ROOT / "zray" / "__init__.py")
    (packages / "__editable___zray_0_1_0_finder.py").write_text(FINDER.format(place=place))
    (packages / "__editable__.zray-0.1.0.pth").write_text(
        "import __editable___zray_0_1_0_finder; __editable___zray_0_1_0_finder.install()"
    )
    (line,) = re.findall(r"^line='(import .*)'$", (ROOT / "scripts" / "environment").read_text(), re.M)
    (packages / "zray_first.pth").write_text(line)
    program.write_text(
        f"import site; site.addsitedir({str(packages)!r})\n"
        "from importlib.util import find_spec; print(find_spec('zray').origin)"
    )
    done = subprocess.run([sys.executable, "-S", program], env={}, capture_output=True, text=True, timeout=40)
    assert done.stdout.strip() == place, done.stderr
