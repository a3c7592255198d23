"""Ray's cluster YAML with hosts that are there."""

import pytest

from cli.launch import hosts_file
from cli.launch.marked import Mistake

# After the example of Ray for local clusters.
RAY = """\
cluster_name: default
provider:
    type: local
    head_ip: 10.0.0.1
    worker_ips: [10.0.0.2, 10.0.0.3]
auth:
    ssh_user: ubuntu
    ssh_private_key: ~/.ssh/id_rsa
upscaling_speed: 1.0
idle_timeout_minutes: 5
docker: {}
file_mounts: {}
rsync_exclude: ["**/.git"]
initialization_commands: []
setup_commands: [pip install x]
head_setup_commands: [echo head]
worker_setup_commands: [echo worker]
head_start_ray_commands:
  - ray stop
  - ulimit -c unlimited && ray start --head --port=6380 --autoscaling-config=~/ray_bootstrap_config.yaml --num-cpus 2
worker_start_ray_commands:
  - ray stop
  - ray start --address=$RAY_HEAD_IP:6379 --resources='{"disk":2}'
"""


def test_hosts_options_and_commands_are_taken_over():
    cluster = hosts_file.parse(RAY, "cluster.yaml")
    assert cluster.name == "default" and [host.name for host in cluster.hosts] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert {(host.user, host.key) for host in cluster.hosts} == {("ubuntu", "~/.ssh/id_rsa")}
    assert cluster.head.options == {"port": 6380, "num_cpus": 2}
    assert [host.options for host in cluster.nodes] == [{"resources": {"disk": 2}}] * 2
    assert cluster.head.setup == ["pip install x", "echo head"]
    assert cluster.nodes[0].setup == ["pip install x", "echo worker"] and cluster.exclude == ["**/.git"]


def test_keys_and_options_without_effect_are_noted_with_their_lines():
    notes = hosts_file.parse(RAY, "cluster.yaml").notes
    assert any(note.startswith("line 9: `upscaling_speed:` has no effect") for note in notes)
    assert any("`--autoscaling-config` of `ray start` is left out" in note for note in notes)
    assert len(notes) == 3


def test_head_behind_another_address_is_called_there():
    text = "provider: {type: local, head_ip: 10.0.0.1, external_head_ip: gate.example.org}"
    head = hosts_file.parse(text, "x.yaml").head
    assert (head.name, head.address) == ("gate.example.org", "10.0.0.1")


MISTAKES = {
    "a cloud": ("cluster_name: x\nprovider: {type: aws}", 2, "must be `local`"),
    "no head": ("provider: {type: local}", 1, "add `head_ip:`"),
    "a key": ("provider: {type: local, head_ip: a}\nsetup_command: []", 2, "Did you mean `setup_commands:`?"),
    "a key of the provider": ("provider: {type: local, head_ip: a, worker_ip: [b]}", 1, "Did you mean `worker_ips:`?"),
    "docker": ("provider: {type: local, head_ip: a}\ndocker: {image: x}", 2, "`docker:` is not there"),
}


@pytest.mark.parametrize("text, line, words", MISTAKES.values(), ids=MISTAKES)
def test_mistake_in_it_is_told_with_its_line(text, line, words):
    with pytest.raises(Mistake) as raised:
        hosts_file.parse(text, "cluster.yaml")
    assert words in str(raised.value) and raised.value.line == line
