"""Code ships itself: what a program has of its own travels to the nodes where its tasks run."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import zray
from zray.cluster_utils import Cluster


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """A head without CPUs, and a node: whatever runs has travelled."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        yield cluster


@pytest.fixture
def project(tmp_path):
    """A folder with modules of all kinds."""
    files = {
        "plain.py": "import other\nTEXT = 'plain'\ndef where():\n    return __file__\n",
        "other.py": "def who():\n    return 'other'\n",
        "pkg/__init__.py": "from . import inner\n",
        "pkg/inner.py": "class Thing:\n    def __init__(self, value):\n        self.value = value\n",
        "pkg/deep/__init__.py": "",
        "pkg/deep/lazy.py": "ANSWER = 42\n",
        "pkg/data.json": '{"key": "value"}',
        "pkg/.git/secret": "not for others",
        "pkg/__pycache__/junk.pyc": "junk",
        "space/part/__init__.py": "NAME = 'a namespace package'\n",
        "beside.py": "import beside_that\n",
        "beside_that.py": "NAME = 'not imported by the driver'\n",
        "unused.py": "raise RuntimeError('nobody asked for it')\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def run(project, cluster, code, **environment):
    """A program of that folder; what it prints last, as JSON.  It is gone from there by the time that tasks run:
    `leave()` takes it away."""
    head = f"""
import json, os, sys, zray

def leave():
    os.rename({str(project)!r}, {str(project) + "-gone"!r})

zray.init(address="{cluster.address}", **json.loads(os.environ.get("INIT", "{{}}")))
"""
    script = project / "main.py"
    script.write_text(head + code)
    env = {**os.environ, **{name: json.dumps(value) for name, value in environment.items()}}
    env["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, timeout=50, cwd="/")
    if os.path.isdir(f"{project}-gone"):
        shutil.rmtree(project, ignore_errors=True)
        os.rename(f"{project}-gone", project)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def code_folder(cluster):
    return os.path.join(cluster.worker_nodes[0].session.folder, "code")


def bundles(cluster):
    """The bundles on the node: name -> files."""
    found = {}
    for name in os.listdir(code_folder(cluster)):
        folder = os.path.join(code_folder(cluster), name)
        if os.path.isdir(folder):
            found[name] = sorted(
                os.path.relpath(os.path.join(place, file), folder)
                for place, _, files in os.walk(folder)
                for file in files
                if "__pycache__" not in place
            )
    return found


def test_modules_packages_and_what_they_import_travel(cluster, project):
    got = run(
        project,
        cluster,
        """
import plain, pkg, space.part

def look(thing):
    import plain, beside, space.part, pkg.deep.lazy, importlib.resources
    data = importlib.resources.files("pkg").joinpath("data.json").read_text()
    names = [beside.beside_that.NAME, space.part.NAME, plain.other.who()]
    return [plain.where(), type(thing).__module__, thing.value, pkg.deep.lazy.ANSWER, json.loads(data), names]

ref = zray.remote(look).remote(pkg.inner.Thing(7))
far = zray.remote(plain.where).remote()
leave()
print(json.dumps([zray.get(ref, timeout=40), zray.get(far, timeout=40)]))
""",
    )
    look, far = got
    assert far.startswith(code_folder(cluster)) and far.endswith("/plain.py")
    assert look == [
        far,
        "pkg.inner",
        7,
        42,
        {"key": "value"},
        ["not imported by the driver", "a namespace package", "other"],
    ]
    (files,) = [files for files in bundles(cluster).values() if "plain.py" in files]
    assert "pkg/data.json" in files and "space/part/__init__.py" in files
    assert not [path for path in files if "unused" in path or ".git" in path or path.endswith("main.py")]


def test_an_edited_file_travels_anew_and_an_equal_one_does_not(cluster, project):
    code = """
import other
ref = zray.remote(other.who).remote()
leave()
print(json.dumps(zray.get(ref, timeout=40)))
"""
    assert run(project, cluster, code) == "other"
    before = set(bundles(cluster))
    assert run(project, cluster, code) == "other"
    assert set(bundles(cluster)) == before
    (project / "other.py").write_text("def who():\n    return 'somebody else'\n")
    assert run(project, cluster, code) == "somebody else"
    assert len(set(bundles(cluster)) - before) == 1


def test_two_programs_with_two_versions_of_one_file(cluster, project, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(project, other, dirs_exist_ok=True)
    (other / "other.py").write_text("def who():\n    return 'the second'\n")
    code = """
import other

@zray.remote
class Asker:
    def ask(self):
        return other.who()

asker = Asker.options(num_cpus=0.5).remote()
first = zray.get(asker.ask.remote(), timeout=40)
input_is_over = sys.stdin.read()
refs = [asker.ask.remote(), zray.remote(other.who).options(num_cpus=0.5).remote()]
print(json.dumps([first, zray.get(refs, timeout=40)]))
"""
    started = []
    for folder in (project, other):
        script = folder / "main.py"
        script.write_text(f'import json, sys, zray\nzray.init(address="{cluster.address}")\n{code}')
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen([sys.executable, str(script)], stdin=pipe, stdout=pipe, env=env, text=True, cwd="/")
        )
    said = [process.communicate("", timeout=50)[0] for process in started]
    assert [json.loads(text.splitlines()[-1]) for text in said] == [
        ["other", ["other", "other"]],
        ["the second", ["the second", "the second"]],
    ]


def test_what_is_imported_later_travels_too(cluster, project):
    got = run(
        project,
        cluster,
        """
@zray.remote
def name_of(value):
    return [type(value).__module__, zray.get_runtime_context().get_worker_id()]

@zray.remote
class Keeper:
    def name_of(self, value):
        return type(value).__module__

keeper = Keeper.options(num_cpus=1).remote()
first = zray.get(name_of.remote(1), timeout=40)
print(zray.get(keeper.name_of.remote(1), timeout=40))
import pkg.inner
thing = pkg.inner.Thing(1)
refs = [name_of.remote(thing), keeper.name_of.remote(thing)]
leave()
print(json.dumps([first, *zray.get(refs, timeout=40)]))
""",
    )
    assert got[0][0] == "builtins" and got[1][0] == got[2] == "pkg.inner"


def test_a_node_that_joins_later_gets_it_too(nothing_left, project):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        head = """
import other
here = zray.get(zray.remote(other.who).remote(), timeout=40)
ref = zray.remote(other.who).options(resources={"late": 1}).remote()
leave()
print("ready", flush=True)
print(json.dumps([here, zray.get(ref, timeout=50)]))
"""
        script = project / "main.py"
        intro = f"""
import json, os, zray

def leave():
    os.rename({str(project)!r}, {str(project) + "-gone"!r})

zray.init(address="{cluster.address}")
"""
        script.write_text(intro + head)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        with subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, env=env, text=True, cwd="/"
        ) as process:
            assert process.stdout.readline() == "ready\n"
            cluster.add_node(num_cpus=1, resources={"late": 1})
            assert json.loads(process.communicate(timeout=50)[0].splitlines()[-1]) == ["other", "other"]


@pytest.mark.slow
def test_an_actor_that_is_made_again_elsewhere_finds_its_modules_there(nothing_left, project):
    """Its node is killed; the project has gone from where it was."""
    (project / "counting.py").write_text("import os\n\nclass Where:\n    def file(self):\n        return __file__\n")
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        code = f"""
import json, os, sys, zray, counting
zray.init(address="{cluster.address}")
actor = zray.remote(counting.Where).options(num_cpus=1, max_restarts=3, max_task_retries=3).remote()
sys.stdout.write(zray.get(actor.file.remote(), timeout=40) + chr(10))
os.rename({str(project)!r}, {str(project) + "-gone"!r})
sys.stdout.flush()
sys.stdin.readline()
print(zray.get(actor.file.remote(), timeout=40))
"""
        (project / "main.py").write_text(code)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, project / "main.py"], env=env, text=True, cwd="/", **pipes) as process:
            first = process.stdout.readline()
            doomed, other = sorted(nodes, key=lambda node: node.session.name not in first)
            assert first.startswith(os.path.join(doomed.session.folder, "code"))
            cluster.remove_node(doomed)
            second, _ = process.communicate("\n", timeout=50)
            assert second.startswith(os.path.join(other.session.folder, "code"))


@pytest.mark.slow
def test_a_detached_actor_keeps_its_modules_when_its_program_has_ended(nothing_left, project):
    """Its node is killed; it is made again on one that joined later, and so are the tasks that it submits there."""
    (project / "counting.py").write_text(
        "import zray\n\ndef file():\n    return __file__\n\nclass Where:\n"
        "    def files(self):\n"
        "        return [__file__, zray.get(zray.remote(file).options(num_cpus=0.5).remote())]\n"
    )
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        doomed = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        first = run(
            project,
            cluster,
            """
import counting
options = dict(name="where", namespace="ours", lifetime="detached", num_cpus=0.5, max_restarts=3)
actor = zray.remote(counting.Where).options(**options).remote()
leave()
print(json.dumps(zray.get(actor.files.remote(), timeout=40)))
""",
        )
        assert all(path.startswith(os.path.join(doomed.session.folder, "code")) for path in first)
        shutil.rmtree(project)
        other = cluster.add_node(num_cpus=1)
        cluster.remove_node(doomed)
        with zray.init(address=cluster.address, namespace="ours"):
            actor = zray.get_actor("where")
            files = zray.get(actor.files.options(max_task_retries=-1).remote(), timeout=40)
            zray.kill(actor)
        assert all(path.startswith(os.path.join(other.session.folder, "code")) for path in files)


def test_a_working_folder_travels_without_what_stays_behind(cluster, project):
    folder = project / "work"
    for path in ("in.txt", "big.bin", "helper.py", "tools/run.sh", ".git/config", "env/pyvenv.cfg", "logs/a.log"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"NAME = '{path}'")
    (folder / "tools/run.sh").chmod(0o755)
    env = {"working_dir": str(folder), "excludes": ["*.bin", "logs/"]}
    got = run(
        project,
        cluster,
        """
@zray.remote
def look():
    import helper
    open("out.txt", "w").write("written")
    found = sorted(os.path.relpath(os.path.join(place, name)) for place, _, names in os.walk(".") for name in names)
    found = [path for path in found if "pycache" not in path]
    return [os.getcwd(), helper.NAME, found, os.access("tools/run.sh", os.X_OK)]

print(json.dumps(zray.get(look.remote(), timeout=40)))
""",
        INIT={"runtime_env": env},
    )
    cwd, name, found, is_executable = got
    assert cwd.startswith(code_folder(cluster)) and name == "helper.py" and is_executable
    assert found == ["helper.py", "in.txt", "out.txt", "tools/run.sh"]
    assert not (folder / "out.txt").exists()


def test_modules_that_are_named_travel(cluster, project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "lib").mkdir()
    (elsewhere / "lib/__init__.py").write_text("NAME = 'lib'")
    (elsewhere / "single.py").write_text("NAME = 'single'")
    modules = [str(elsewhere / "lib"), str(elsewhere / "single.py")]
    code = """
@zray.remote
def look():
    import lib, single
    return [lib.NAME, single.NAME, lib.__file__]

print(json.dumps(zray.get(look.remote(), timeout=40)))
"""
    got = run(project, cluster, code, INIT={"runtime_env": {"py_modules": modules}})
    assert got[:2] == ["lib", "single"] and got[2].startswith(code_folder(cluster))


def test_what_is_missing_is_said_with_where_and_what_to_do(cluster, project):
    got = run(
        project,
        cluster,
        """
import types
module = types.ModuleType("made_up")
sys.modules["made_up"] = module
exec("def f():\\n    return 1", module.__dict__)
module.f.__module__ = "made_up"

def body():
    import no_such_thing_at_all

texts = []
for function in (module.f, body):
    try:
        zray.get(zray.remote(function).remote(), timeout=40)
    except Exception as error:
        texts.append(str(error) + " ".join(getattr(error, "__notes__", ())))
print(json.dumps(texts))
""",
    )
    node = cluster.worker_nodes[0].node_id[:8]
    assert f"Module 'made_up' is missing on node {node}." in got[0] and "py_modules" in got[0]
    assert f"Module 'no_such_thing_at_all' is missing on node {node}." in got[1]


# --- one node ---


def test_on_one_node_the_paths_are_shared(start, tmp_path, monkeypatch):
    """Nothing is packed: the working folder is the very folder."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/helper_of_one_node.py").write_text("NAME = 'here'")
    (tmp_path / "named_of_one_node.py").write_text("NAME = 'named'")
    start(
        num_cpus=1,
        runtime_env={"working_dir": str(tmp_path / "work"), "py_modules": [str(tmp_path / "named_of_one_node.py")]},
    )

    @zray.remote
    def look():
        import helper_of_one_node
        import named_of_one_node

        with open("out.txt", "w") as out:
            out.write("written")
        return os.getcwd(), helper_of_one_node.NAME, named_of_one_node.NAME

    assert zray.get(look.remote()) == (str(tmp_path / "work"), "here", "named")
    assert (tmp_path / "work/out.txt").read_text() == "written"
    assert zray.host.context.runtime.shipper is None
    assert "code" not in os.listdir(zray.host.context.runtime.paths.folder)


@pytest.mark.parametrize(
    "env, error, text",
    [
        ({"working_dir": 7}, TypeError, "must be a path"),
        ({"working_dir": "/no/such/folder"}, ValueError, "the folder or .zip archive /no/such/folder does not exist"),
        ({"working_dir": "s3://bucket/x.zip"}, NotImplementedError, "the file on this machine"),
        ({"py_modules": "x"}, TypeError, "must be a list"),
        ({"py_modules": ["/no/such/file.py"]}, ValueError, "the path /no/such/file.py does not exist"),
        ({"py_modules": ["x.whl"]}, ValueError, "x.whl does not exist"),
        ({"py_modules": ["https://example.org/x.whl"]}, NotImplementedError, "the file on this machine"),
        ({"excludes": "x"}, TypeError, "a list of patterns"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_starts(env, error, text):
    with pytest.raises(error, match=text):
        zray.init(runtime_env=env)
    assert not zray.is_initialized()
