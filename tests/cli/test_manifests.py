"""`zray manifests`: each thing named in the text is there, and its commands start a cluster."""

import base64
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest
import yaml

import zray as api
from tests.cli.commands import zray
from tests.gates import until
from tests.scripts import ROOT, environment
from zray.host.process.process_utils import children_of

IMAGE = "registry.example/zray:1"


@pytest.fixture(scope="module")
def text():
    printed = zray("manifests", "--image", IMAGE, "--nodes", "2", "--cpus", "1", "--memory", "1Gi")
    assert printed.returncode == 0, printed.stderr
    return printed.stdout


@pytest.fixture(scope="module")
def things(text):
    """{(kind, name): thing}"""
    return {(thing["kind"], thing["metadata"]["name"]): thing for thing in yaml.safe_load_all(text)}


def pods(things):
    return [things[kind]["spec"]["template"]["spec"] for kind in things if "template" in things[kind].get("spec", {})]


def containers(pod):
    return [*pod.get("initContainers", ()), *pod["containers"]]


def test_text_fits_the_schemas_of_kubernetes(text, tmp_path):
    validate = shutil.which("kubernetes-validate")
    if validate is None:
        pytest.skip("kubernetes-validate is not installed: pip install kubernetes-validate")
    (tmp_path / "it.yaml").write_text(text)
    checked = subprocess.run([validate, "--strict", str(tmp_path / "it.yaml")], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_everything_that_is_referred_to_is_there(things):
    stateful = things["StatefulSet", "zray-head"]
    claims = {claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]}
    for pod in pods(things):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} <= {*volumes, *claims}
            assert container["image"] == IMAGE
        for volume in volumes.values():
            assert "secret" not in volume or ("Secret", volume["secret"]["secretName"]) in things
    for thing in things.values():
        if "template" in thing.get("spec", {}):
            labels = thing["spec"]["template"]["metadata"]["labels"]
            assert thing["spec"]["selector"]["matchLabels"].items() <= labels.items()
    service, head = things["Service", "zray-head"]["spec"], stateful["spec"]["template"]
    assert service["selector"].items() <= head["metadata"]["labels"].items()
    assert service["ports"][0]["targetPort"] == head["spec"]["containers"][0]["ports"][0]["containerPort"]


def test_containers_have_no_rights_and_nodes_no_key_of_the_head(things):
    for pod in pods(things):
        assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
        for container in containers(pod):
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert container["securityContext"]["readOnlyRootFilesystem"]
    assert set(things["Secret", "zray-token"]["data"]) == {"token"}
    node = things["Deployment", "zray-node"]["spec"]["template"]["spec"]
    assert [volume["secret"]["secretName"] for volume in node["volumes"] if "secret" in volume] == ["zray-token"]
    drain = int(node["containers"][0]["command"][2].split("--drain")[1].split()[0])
    assert node["terminationGracePeriodSeconds"] > drain


def test_each_call_draws_new_secrets(text):
    again = zray("manifests", "--image", IMAGE).stdout
    found = [next(yaml.safe_load_all(one))["data"] for one in (text, again)]
    assert found[0]["head.key"] != found[1]["head.key"] and found[0]["token"] != found[1]["token"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "--dockerfile"),
        (["--image", "one\n- two"], "name of an image"),
        (["--image", "a", "--memory", "4 GB"], "quantity of memory"),
        (["--image", "a", "--memory", "0"], "quantity of memory"),
    ],
)
def test_bad_values_are_refused(arguments, words):
    refused = zray("manifests", *arguments)
    assert refused.returncode == 2 and words in refused.stderr


class Place:
    """The folders of a pod on this machine, and its containers as processes."""

    def __init__(self, things, folder, pod, address):
        self.pod, self.address, self.folder = pod, address, folder
        self.places = {"/state": folder / "state", "/keys": folder / "keys", "/run/zray": folder / "run"}
        for place in self.places.values():
            place.mkdir(parents=True, exist_ok=True)
        (secret,) = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        for name, value in things["Secret", secret]["data"].items():
            (self.places["/keys"] / name).write_bytes(base64.b64decode(value))

    def start(self, container):
        """Start a container's command."""
        script = container["command"][2].replace("zray-head:", "127.0.0.1:")
        for path, place in self.places.items():
            script = script.replace(f"{path}/", f"{place}/")
        variables = {**environment(), "POD_IP": self.address, "ZRAY_TMPDIR": str(self.places["/run/zray"])}
        variables["PATH"] = f"{os.path.dirname(sys.executable)}:{variables['PATH']}"
        return subprocess.Popen(
            ["sh", "-c", script], env=variables, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


@pytest.fixture
def short(request):
    """A folder with a short path: sockets lie there."""
    folder = request.config.zray_folder / "k8s"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_commands_start_a_cluster_whose_head_may_start_again(things, short, monkeypatch, nothing_left):
    head_pod = things["StatefulSet", "zray-head"]["spec"]["template"]["spec"]
    node_pod = things["Deployment", "zray-node"]["spec"]["template"]["spec"]
    head = Place(things, short / "h", head_pod, "127.0.0.1")
    nodes = [Place(things, short / f"n{number}", node_pod, f"127.0.0.{2 + number}") for number in range(2)]

    def run(place, container):
        process = stack.enter_context(place.start(container))
        stack.callback(process.kill)
        assert "zray runs" in process.stdout.readline()
        return process

    def prepare():
        with head.start(head_pod["initContainers"][0]) as process:
            assert process.wait(20) == 0

    with ExitStack() as stack:
        for _ in range(2):  # the second time, the folder is there already
            prepare()
        served = run(head, head_pod["containers"][0])
        running = [run(node, node_pod["containers"][0]) for node in nodes]
        for pid in (served.pid, *children_of(served.pid)):  # a pod is killed whole
            os.kill(pid, signal.SIGKILL)
        served.wait(20)
        prepare()
        served = run(head, head_pod["containers"][0])
        monkeypatch.setenv("ZRAY_TMPDIR", str(head.places["/run/zray"]))
        api.init(address="auto", log_to_driver=False)
        until(lambda: sum(node["Alive"] for node in api.nodes()) == 3)  # both nodes have found the new head
        assert api.get(api.remote(os.getpid).remote(), timeout=40)  # the head has no CPUs
        api.shutdown()
        for process in (*running, served):
            process.send_signal(signal.SIGTERM)
            assert process.wait(40) == 0
