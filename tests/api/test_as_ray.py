"""Programs written for Ray, run unchanged: `import ray` is zray in the program, in workers and in child processes."""

import os
import subprocess
import sys

import pytest

from tests.cli.commands import command_line
from tests.scripts import environment, run_script, write_script
from zray.version import __ray_version__, __version__

PROGRAM = """
    import importlib.metadata, importlib.util, subprocess, sys

    import helper, ray
    import ray.exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    import zray

    @ray.remote
    def inside():
        import ray, zray
        import ray.util.scheduling_strategies as strategies

        child = [sys.executable, "-c", "import ray, zray; print(ray is zray)"]
        said = subprocess.run(child, capture_output=True, text=True, check=True).stdout.strip()
        return ray is zray, strategies.__name__, helper.is_zray(), said, ray.__version__

    @ray.remote
    class Actor:
        def version(self):
            import ray

            return ray.__version__

    if __name__ == "__main__":
        assert ray is zray and helper.is_zray() and sys.modules["ray"] is zray
        assert ray.util is zray.util and ray.util.__spec__.name == "zray.util"
        assert issubclass(ray.exceptions.RayTaskError, zray.exceptions.ZrayError)
        assert importlib.metadata.version("ray") == ray.__version__
        with ray.init(num_cpus=1):
            print(*ray.get(inside.remote()))
            print(ray.get(Actor.remote().version.remote()))
            assert isinstance(ray.put(1), zray.ObjectRef)
        print(sys.argv[1:])
"""
HELPER = "import ray\n\ndef is_zray():\n    return ray.__name__ == 'zray'\n"
LINES = f"True zray.util.scheduling_strategies True True {__ray_version__}\n{__ray_version__}\n"


@pytest.fixture
def with_a_ray(tmp_path):
    """Variables of an environment in which another Ray is installed, which is not to be imported."""
    (tmp_path / "installed" / "ray").mkdir(parents=True)
    (tmp_path / "installed" / "ray" / "__init__.py").write_text("raise ImportError('the Ray that is installed')")
    (tmp_path / "helper.py").write_text(HELPER)
    variables = environment()
    variables["PYTHONPATH"] += os.pathsep + str(tmp_path / "installed")
    return variables


def run(arguments, variables, folder):
    return subprocess.run(arguments, env=variables, cwd=folder, capture_output=True, text=True, timeout=40)


def test_program_runs_with_ray_as_zray(tmp_path, with_a_ray):
    script = write_script(tmp_path, PROGRAM)
    result = run(command_line("run", "--as-ray", str(script), "--lr", "1"), with_a_ray, tmp_path)
    assert result.stdout == LINES + "['--lr', '1']\n", result.stderr


def test_module_runs_with_ray_as_zray(tmp_path, with_a_ray):
    write_script(tmp_path, PROGRAM)
    result = run(command_line("run", "--as-ray", "-m", "script", "-h"), with_a_ray, tmp_path)
    assert result.stdout == LINES + "['-h']\n", result.stderr


def test_installation_in_the_program_itself(tmp_path, with_a_ray):
    script = write_script(tmp_path, "    from zray.util import as_ray\n    as_ray.install()\n" + PROGRAM)
    result = run([sys.executable, str(script)], with_a_ray, tmp_path)
    assert result.stdout == LINES + "[]\n", result.stderr


def test_plugin_of_pytest(tmp_path, with_a_ray):
    """conftest.py imports Ray ahead of all tests."""
    (tmp_path / "conftest.py").write_text("import ray")
    (tmp_path / "test_it.py").write_text("import ray, zray\n\ndef test_it():\n    assert ray is zray\n")
    options = ["-q", "-p", "zray.as_ray", "-p", "no:cacheprovider", "-W", "error"]
    result = run([sys.executable, "-m", "pytest", *options, str(tmp_path)], with_a_ray, tmp_path)
    assert result.returncode == 0 and "1 passed" in result.stdout, result.stdout + result.stderr


def test_command_without_the_option_leaves_ray_alone(tmp_path, with_a_ray):
    script = write_script(tmp_path, "import ray")
    result = run(command_line("run", str(script)), with_a_ray, tmp_path)
    assert result.returncode == 1 and "the Ray that is installed" in result.stderr
    result = run(command_line("run", "no-such-program"), with_a_ray, tmp_path)
    assert result.returncode == 1 and "neither a file nor a command named 'no-such-program'" in result.stderr


def test_modules_that_are_absent_say_what_to_do_instead(tmp_path):
    program = """
        import importlib.util
        from zray.util import as_ray
        as_ray.install()
        as_ray.install()
        for name in ("ray.serve", "ray.nope", "ray.util.nope"):
            assert importlib.util.find_spec(name) is None
            try:
                __import__(name)
            except ImportError as error:
                print(error)
        try:
            from ray import serve
        except ImportError as error:
            print(error)
        try:
            ray = __import__("ray")
            ray.nope
        except AttributeError as error:
            print(error)
    """
    advice = "zray does not have zray.serve yet.  Call actors from a web server of your choice.\n"
    refused = "No module named 'ray.nope'\nNo module named 'ray.util.nope'\n"
    result = run_script(tmp_path, program)
    assert result.stdout == f"{advice}{refused}{advice}module 'zray' has no attribute 'nope'\n", result.stderr


def test_installation_that_comes_too_late_is_refused(tmp_path, with_a_ray):
    (tmp_path / "installed" / "ray" / "__init__.py").write_text("")
    program = """
        import zray
        from zray.util import as_ray
        with zray.init(num_cpus=1):
            try:
                as_ray.install()
            except RuntimeError as error:
                print(error)
        import ray
        try:
            as_ray.install()
        except RuntimeError as error:
            print(error)
        print(as_ray.is_installed(), zray.__version__, zray.__ray_version__)
    """
    result = run([sys.executable, str(write_script(tmp_path, program))], with_a_ray, tmp_path)
    late, imported, facts = result.stdout.splitlines()
    assert late.endswith("call zray.util.as_ray.install() before zray.init().")
    assert "installed/ray/__init__.py" in imported and imported.endswith("before the first `import ray`.")
    assert facts == f"False {__version__} {__ray_version__}"


def test_library_that_imports_ray_after_the_session_has_started(tmp_path, with_a_ray):
    program = """
        import zray
        with zray.init(num_cpus=1):
            import helper
            assert helper.is_zray()
            print(zray.get(zray.remote(helper.is_zray).remote()))
    """
    script = write_script(tmp_path, program)
    result = run(command_line("run", "--as-ray", str(script)), with_a_ray, tmp_path)
    assert result.stdout == "True\n", result.stderr


@pytest.mark.slow
def test_program_on_several_nodes(tmp_path, cluster):
    """RAY_ADDRESS names the cluster."""
    program = """
        from zray.util import as_ray
        as_ray.install()
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        @ray.remote
        def inside():
            import ray
            return ray.__name__, ray.get_runtime_context().get_node_id()

        with ray.init():
            ids = [node["NodeID"] for node in ray.nodes() if node["Resources"].get("CPU")]
            on = [NodeAffinitySchedulingStrategy(node, soft=False) for node in ids]
            found = ray.get([inside.options(scheduling_strategy=strategy).remote() for strategy in on])
            assert found == [("zray", node) for node in ids], found
            print(len(found))
    """
    variables = {**environment(), "RAY_ADDRESS": cluster.address}
    result = run([sys.executable, str(write_script(tmp_path, program))], variables, tmp_path)
    assert result.stdout == "2\n", result.stderr


def test_function_keeps_its_name_beside_a_module_of_that_name(tmp_path):
    """`placement_group` is both, and programs import the module."""
    program = """
        from zray.util import as_ray
        as_ray.install()
        import ray
        import ray.util.placement_group
        from ray.util.placement_group import PlacementGroup
        import zray.util
        assert callable(ray.util.placement_group) and ray.util.placement_group is zray.util.placement_group
        import ray.services, ray._private.services
        from ray.dag.input_node import InputNode
        from ray.util.state.api import list_actors
        from ray._raylet import ObjectRef
        assert InputNode is ray.dag.InputNode and ObjectRef is ray.ObjectRef
        print(ray.services.get_node_ip_address is ray.util.get_node_ip_address)
    """
    result = run_script(tmp_path, program)
    assert result.stdout == "True\n", result.stderr


def test_distributions_list_ray(tmp_path):
    """sktime looks for Ray in the list."""
    program = """
        from zray.util import as_ray
        as_ray.install()
        from importlib.metadata import distributions
        (version,) = [found.version for found in distributions() if found.metadata["Name"] == "ray"]
        print(version)
    """
    result = run_script(tmp_path, program)
    assert result.stdout == f"{__ray_version__}\n", result.stderr


def test_part_of_ray_data_that_libraries_import(tmp_path):
    """Modin imports `from_pandas_refs` for its conversion to datasets, which few programs use."""
    program = """
        import importlib.util
        from zray.util import as_ray
        as_ray.install()
        import ray
        for ask in (lambda: ray.data, lambda: __import__("ray.data").data.range(3)):
            try:
                ask()
            except AttributeError as error:
                print(error)
        from ray.data import Dataset, from_pandas_refs
        assert not isinstance(ray, Dataset)
        for call in (Dataset, lambda: from_pandas_refs([])):
            try:
                call()
            except NotImplementedError as error:
                print(error)
        assert importlib.util.find_spec("zray.data") is None
        try:
            import ray.data.dataset
        except ImportError as error:
            print(error)
    """
    result = run_script(tmp_path, program)
    said = "zray does not have {} yet.  Run tasks over a list of files."
    lines = [
        "module 'zray' has no attribute 'data': " + said.format("zray.data"),
        "module 'zray.data' has no attribute 'range': " + said.format("zray.data.range"),
        said.format("zray.data.Dataset"),
        said.format("zray.data.from_pandas_refs"),
        "No module named 'ray.data.dataset'; 'ray.data' is not a package",
    ]
    assert result.stdout.splitlines() == lines, result.stderr


def test_distribution_is_known_ahead_of_the_import(tmp_path, with_a_ray):
    """Many libraries ask for the version before they import Ray.  The program's own `sitecustomize` runs too."""
    (tmp_path / "installed" / "sitecustomize.py").write_text("is_run = True")
    program = """
        import sys
        from importlib.metadata import distributions, version
        before = "zray" in sys.modules, version("ray")
        import ray, sitecustomize
        found = [each.version for each in distributions() if each.metadata["Name"] == "ray"]
        assert sitecustomize.is_run and found == [version("ray")] == [before[1]] == [ray.__version__]
        print(*before)
    """
    script = write_script(tmp_path, program)
    result = run(command_line("run", "--as-ray", str(script)), with_a_ray, tmp_path)
    assert result.stdout == f"False {__ray_version__}\n", result.stderr
