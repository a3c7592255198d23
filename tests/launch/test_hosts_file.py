"""The file of hosts: what it says, and for each mistake the line and the right spelling."""

import pytest

from cli.launch import hosts_file
from cli.launch.marked import Mistake

WHOLE = """\
name: lab
head: anna@node1
nodes:
  - node2
  - host: node3
    user: otto
    port: 2222
    num_cpus: 8
    resources: {disk: 2}
    labels: {zone: a}
    options: {head_wait: 30, advertise: 'router:7000'}
user: eve
key: ~/.ssh/lab
ssh: -o ProxyJump=gate
venv: ~/project/.venv
setup:
  - pip install -r requirements.txt
head_setup: [mkdir -p state]
options: {object_store_memory: 2.0e+9, state-dir: ~/state}
"""


def parse(text, path="hosts.yaml"):
    return hosts_file.parse(text, path)


def test_file_says_who_is_the_head_and_with_which_options_nodes_start():
    cluster = parse(WHOLE)
    assert (cluster.name, cluster.ssh) == ("lab", ["-o", "ProxyJump=gate"])
    head, second, third = cluster.hosts
    assert (head.name, head.user, head.is_head) == ("node1", "anna", True)
    assert head.options == {"object_store_memory": 2_000_000_000, "state_dir": "~/state", "port": 6379}
    assert head.setup == ["pip install -r requirements.txt", "mkdir -p state"]
    assert (second.name, second.user, second.port, second.python) == ("node2", "eve", 0, "~/project/.venv/bin/python")
    assert (third.name, third.user, third.port, third.label) == ("node3", "otto", 2222, "node3:2222")
    assert third.options["num_cpus"] == 8 and third.options["resources"] == {"disk": 2}
    assert third.options["advertise"] == "router:7000" and third.setup == ["pip install -r requirements.txt"]


def test_name_of_the_cluster_is_that_of_the_file():
    assert parse("head: a", "/some/where/my lab.yaml").name == "my-lab"


def test_python_of_a_host_comes_before_that_of_all():
    cluster = parse("venv: /v\nhead: a\nnodes:\n- {host: b, python: python3.12}\n")
    assert [host.python for host in cluster.hosts] == ["/v/bin/python", "python3.12"]


def test_files_are_a_list_of_names_or_a_table_of_places(tmp_path):
    for name in ("data", "program.py"):
        (tmp_path / name).touch()
    path = str(tmp_path / "hosts.yaml")
    assert parse("head: a\nfiles: [data]", path).files == [("data", str(tmp_path / "data"))]
    assert parse("head: a\nfiles: {/opt/x: program.py}", path).files == [("/opt/x", str(tmp_path / "program.py"))]


MISTAKES = {
    "no YAML": ("head: [a", 1, "no YAML"),
    "a tab": ("head: a\nnodes:\n\t- b", 3, "no YAML"),
    "empty": ("", 1, "it needs `head:`"),
    "a list": ("- a\n- b", 1, "must be a table"),
    "no head": ("nodes:\n  - a", 1, "add `head: NAME`"),
    "an unknown key": ("head: a\nnode: [b]", 2, "`node:` is not known.  Did you mean `nodes:`?"),
    "a key far from all": ("head: a\nqwerty: 1", 2, "Known are exclude, files, head"),
    "a key of a host": ("head: a\nnodes:\n- host: b\n  num_cpu: 2", 4, "Did you mean `num_cpus:`?"),
    "an option": ("head: a\noptions: {gcs_shard: 2}", 2, "Did you mean `gcs_shards:`?"),
    "a key twice": ("head: a\nhead: b", 2, "twice, first in line 1"),
    "a host twice": ("head: a\nnodes:\n- b\n- b", 4, "b is there twice, first in line 3"),
    "the head as a node": ("head: a\nnodes: [a]", 2, "first as the head, in line 1"),
    "nodes as a text": ("head: a\nnodes: b", 2, "`nodes:` must be a list"),
    "a number as a name": ("head: 7", 1, "must be text, not a whole number (7)"),
    "a list as the head": ("head: [a]", 1, "must be the name of a host"),
    "a text as a number": ("head: {host: a, num_cpus: many}", 1, "`num_cpus:` must be a number, not text ('many')"),
    "truth as a number": ("head: {host: a, num_cpus: yes}", 1, "must be a number, not true or false"),
    "a negative number": ("head: {host: a, num_cpus: -1}", 1, "at least 0"),
    "a number as a flag": ("head: a\noptions: {no_replicas: 1}", 2, "true or false"),
    "a range": ("head: a\noptions: {global_schedulers: 3:1}", 2, "smallest count, 3, is above its largest"),
    "too large": ("head: a\noptions: {gcs_shards: 65}", 2, "65 is not in the range"),
    "a label that is a number": ("head: {host: a, labels: {zone: 1}}", 1, "must be text"),
    "a list of resources": ("head: {host: a, resources: [disk]}", 1, "must be a table"),
    "a port of ssh": ("head: {host: a, port: 70000}", 1, "from 1 to 65535"),
    "a port in the name": ("head: a:2222", 1, "`{host: a, port: 2222}`"),
    "an option of ssh as a name": ("head: -oProxyCommand=x", 1, "no name of a host"),
    "an option of ssh as a user": ("head: a\nuser: -x", 2, "no name of a user"),
    "a line as a name": ('head: "a b"', 1, "no name of a host"),
    "a host without a name": ("head: {num_cpus: 1}", 1, "no `host:`"),
    "python and venv": ("head: a\npython: x\nvenv: y", 3, "not both"),
    "an absent file": ("head: a\nfiles: [nowhere]", 2, "does not exist"),
    "a file outside": ("head: a\nfiles: [/etc]", 2, "`PLACE THERE: /etc`"),
    "an option of ours": ("head: a\noptions: {token_file: x}", 2, "not known among the options of `zray start`"),
    "a name with a slash": ("head: a\nname: x/y", 2, "letters, digits"),
    "a table as setup": ("head: a\nsetup: {a: b}", 2, "`setup:` must be text"),
    "an anchor in itself": ("head: a\nsetup: &x [*x]", 2, "levels deep"),
}


@pytest.mark.parametrize("text, line, words", MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_told_with_its_line_and_what_is_right(text, line, words):
    with pytest.raises(Mistake) as raised:
        parse(text)
    assert words in str(raised.value) and raised.value.line == line


def test_mistake_of_a_file_names_the_file(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text("head: a\nnods: [b]\n")
    with pytest.raises(Mistake, match=r"lab\.yaml, line 2: `nods:` is not known\.  Did you mean `nodes:`\?"):
        hosts_file.load(str(path))


@pytest.mark.parametrize("given", ["1:4", "auto", "'1:4'", 2])
def test_numbers_that_may_change_are_kept_as_they_are_written(given):
    """To YAML 1.1, 1:4 is a number of base 60."""
    found = parse(f"head: a\noptions: {{global_schedulers: {given}}}").hosts[0].options["global_schedulers"]
    assert str(found) == str(given).strip("'")
