"""Programs that join the session of another program's init(): each has a job of its own (real processes)."""

import json
import os

import pytest
from click.testing import CliRunner

import zray
from cli.status import status
from tests.gates import Gate, is_running, nothing_is_held, until, until_ended
from tests.leftovers import Leftovers
from tests.scripts import start_script
from zray.exceptions import ClusterLostError
from zray.util import state


@zray.remote(num_cpus=0)
class Till:
    """An actor of this program."""

    def __init__(self):
        self.sum = 0

    def add(self, amount):
        self.sum += amount
        return self.sum


class Boxed:
    """A value that another program has a serializer for, in a class of the same name."""

    def __init__(self, value):
        self.value = value


@zray.remote
def open_box(box):
    return box.value


JOIN = """
    import os, sys
    import zray
    from tests.api.test_joined_programs import Boxed, Till
    from tests.gates import Gate, forever
    context = zray.init(address={address!r})
"""
GUEST = (
    JOIN
    + """
    zray.util.register_serializer(Boxed, serializer=lambda box: "guest's", deserializer=Boxed)
    opened = zray.remote(lambda box: box.value).remote(Boxed("own"))
    try:
        zray.get_actor("till")
    except ValueError as error:
        assert "'host'" in str(error), error
    theirs = zray.get_actor("till", namespace="host")
    own = Till.options(name="till").remote()
    lasting = Till.options(name="lasting", namespace="host", lifetime="detached").remote()
    print(zray.get([theirs.add.remote(1), own.add.remote(10), lasting.add.remote(5), opened]), flush=True)
    assert zray.get_actor("till") == own and context.address == zray.get_runtime_context().gcs_address
    print(zray.get_runtime_context().get_job_id(), sys.stdin.readline().strip(), flush=True)
    zray.shutdown()
    assert not zray.is_initialized()
"""
)


@pytest.fixture(scope="module")
def host(nothing_left):
    """A session of this program."""
    with zray.init(num_cpus=2, namespace="host") as context:
        yield context


def names():
    found = zray.util.list_named_actors(all_namespaces=True)
    return {(actor["namespace"], actor["name"]) for actor in found}


def test_three_programs_of_one_session_have_jobs_of_their_own(host, tmp_path):
    till = Till.options(name="till").remote()
    assert host.address == zray.get_runtime_context().gcs_address == host["gcs_address"]
    with start_script(tmp_path, GUEST.format(address=host.address), stdin=-1) as first:
        assert first.stdout.readline().strip() == '[1, 10, 5, "guest\'s"]', first.stderr.read()
        second = GUEST.format(address="auto").replace('"lasting"', '"lasting too"')
        with start_script(tmp_path, second, stdin=-1) as other:
            assert other.stdout.readline().strip() == '[2, 10, 5, "guest\'s"]', other.stderr.read()
            assert len(names()) == 5
            living = {actor.name for actor in state.list_actors() if actor.state != "DEAD"}
            assert living == {name for _, name in names()}
            shown = json.loads(CliRunner().invoke(status, ["--format", "json"]).output)
            assert [len(fact["programs"]) for fact in shown["sessions"]] == [3]
            jobs = {zray.get_runtime_context().get_job_id()}
            for program, word in ((other, "two"), (first, "one")):
                errors = ""
                printed, errors = program.communicate(word)
                job, said = printed.split()
                assert said == word and program.returncode == 0 and not errors, errors
                jobs.add(job)
    assert len(jobs) == 3
    until(lambda: names() == {("host", "till"), ("host", "lasting"), ("host", "lasting too")})
    assert zray.get(zray.get_actor("lasting").add.remote(1)) == 6
    assert zray.get(till.add.remote(1)) == 3
    assert zray.get(open_box.remote(Boxed("plain"))) == "plain"
    for name in ("lasting", "lasting too"):
        zray.kill(zray.get_actor(name))


def test_tasks_of_a_joined_program_end_when_it_is_killed(host, tmp_path):
    gate = Gate(tmp_path / "gate")
    code = JOIN + (
        "    Till.options(name='passing', namespace='host').remote()\n"
        "    def work(gate):\n        print(os.getpid(), flush=True)\n        Gate(gate).open()\n        forever()\n"
        "    zray.get([zray.remote(work).options(num_cpus=2).remote({gate!r}) for _ in range(3)])\n"
    )
    with start_script(tmp_path, code.format(address=host.address, gate=gate.path)) as guest:
        until(lambda: gate.is_open() or guest.poll() is not None)
        assert guest.poll() is None, guest.stderr.read()
        line = guest.stdout.readline()
        guest.kill()
    until_ended([int(line.split()[-1])])
    until(nothing_is_held)
    until(lambda: ("host", "passing") not in names())
    assert zray.get(open_box.remote(Boxed(3))) == 3


HOST = """
    import sys
    import zray
    print(zray.init(num_cpus=1).address, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("is_killed", [True, False])
def test_when_the_program_that_began_it_ends_the_others_are_told(tmp_path, is_killed, leftovers: Leftovers):
    zray.shutdown()
    with start_script(tmp_path, HOST, stdin=-1) as host:
        zray.init(address=host.stdout.readline().strip())
        pid = zray.get(zray.remote(os.getpid).remote())
        ref = zray.remote(Gate(tmp_path / "gate").wait).remote()
        if is_killed:
            host.kill()
        else:
            host.communicate("\n")
        with pytest.raises(ClusterLostError, match=rf"program that began the session \(process {host.pid}\) has left"):
            zray.get(ref)
    with pytest.raises(ClusterLostError):
        zray.put(1)
    zray.shutdown()
    until(lambda: not is_running(pid))
    leftovers.assert_none(20.0)
