"""Names of Ray's modules in zray: files that hold names alone, of classes that say where programs find them."""

import ast
import importlib
import inspect
import pickle
import sys

import pytest

import zray
from tests.scripts import ROOT, run_script

MODULES = (
    *("_raylet", "actor", "cluster_utils", "dag", "exceptions", "internal", "job_config", "remote_function"),
    *("runtime_context", "runtime_env", "types"),
)
# Files that hold more: names loaded on first use, two functions on a pickler, and what all layers need.
WHOLE = {"__init__", "cloudpickle", "ids", "object_ref"}


def classes():
    for name in MODULES:
        module = importlib.import_module(f"zray.{name}")
        for each in getattr(module, "__all__", ()):
            if inspect.isclass(getattr(module, each)):
                yield getattr(module, each)


def test_module_at_the_top_of_the_package_holds_names_alone():
    """Code belongs into a package whose name says what it holds."""
    for path in (ROOT / "zray").glob("*.py"):
        nodes = ast.parse(path.read_text()).body
        defined = [node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        assert not defined or path.stem in WHOLE, path.name


@pytest.mark.parametrize("name", MODULES)
def test_module_is_an_import_and_an_attribute(name):
    assert importlib.import_module(f"zray.{name}") is getattr(zray, name) is sys.modules[f"zray.{name}"]


def test_module_is_the_same_under_the_name_of_ray(tmp_path):
    program = f"""
        from importlib import import_module
        import zray
        from zray.util import as_ray
        as_ray.install()
        import ray
        for name in {MODULES}:
            assert import_module("ray." + name) is getattr(ray, name) is getattr(zray, name), name
        from ray.actor import ActorHandle
        from ray.dag.input_node import InputNode
        assert ActorHandle is zray.actor.ActorHandle and InputNode is zray.dag.InputNode
    """
    result = run_script(tmp_path, program)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("cls", [*classes()], ids=lambda cls: cls.__name__)
def test_class_is_pickled_by_the_name_of_a_module_that_programs_import(cls):
    """A file of Tune's, say, is read by a zray whose packages differ."""
    assert cls.__module__.removeprefix("zray.") in (*MODULES, "object_ref")
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_each_name_of_dir_is_there():
    assert dir(zray) == zray.__all__ == sorted(zray.__all__)
    for name in dir(zray):
        assert getattr(zray, name) is not None


def test_import_loads_four_modules_of_zray(tmp_path):
    """Control processes and each `zray` command import the package too."""
    program = "import sys, zray; print(*sorted(name for name in sys.modules if name.startswith('zray')))"
    names = "zray zray.on_import zray.on_import.shadows zray.on_import.uncaught zray.version"
    assert run_script(tmp_path, program).stdout.split() == names.split()
