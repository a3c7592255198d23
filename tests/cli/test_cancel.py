"""`zray cancel`: by id, by function and by job; what it says, and where nothing is found."""

import pytest

import zray
from tests.cli.commands import zray as command
from tests.gates import Tally, forever, nothing_is_held, until
from zray.cluster_utils import Cluster
from zray.exceptions import TaskCancelledError, TaskForceCancelledError

WAIT = 20.0  # s: for what comes within milliseconds


@pytest.fixture(scope="module")
def session(nothing_left):
    with zray.init(num_cpus=1) as context:
        yield context


@pytest.fixture
def tally(tmp_path):
    return Tally(tmp_path / "tally")


@zray.remote
def simulate(tally):
    tally.visit()
    forever()


@zray.remote
def other():
    return "other"


@zray.remote
def parent(tally):
    zray.get([simulate.remote(tally), simulate.remote(tally)])


def done(*arguments):
    result = command("cancel", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments):
    result = command("cancel", *arguments)
    assert result.returncode == 1 and not result.stdout
    return result.stderr


def fails(*refs, kind=TaskCancelledError):
    for ref in refs:
        with pytest.raises(kind):
            zray.get(ref, timeout=WAIT)
    until(nothing_is_held)


def test_all_tasks_of_a_function_are_cancelled_and_others_run(session, tally):
    refs = [simulate.remote(tally) for _ in range(5)]
    until(lambda: tally.count() == 1)
    rest = other.remote()
    assert done("simulate") == "Cancelled 5 tasks.\n"
    assert zray.get(rest, timeout=WAIT) == "other"
    fails(*refs)
    assert tally.count() == 1
    assert refused("simulate") == "Error: Nothing to cancel: what 'simulate' names has ended.\n"


@pytest.mark.parametrize("characters", [32, 30])
def test_task_of_an_id_is_cancelled_with_its_children(session, tally, characters):
    ref = parent.remote(tally)
    until(lambda: tally.count() == 1)
    assert done(ref.task_id().hex()[:characters]) == "Cancelled 1 task.\n"
    fails(ref)


def test_children_go_on_on_request(session, tally):
    ref = parent.remote(tally)
    until(lambda: tally.count() == 1)
    assert done("parent", "--no-recursive") == "Cancelled 1 task.\n"
    with pytest.raises(TaskCancelledError):
        zray.get(ref, timeout=WAIT)
    done("simulate")
    until(nothing_is_held)


def test_force_ends_the_worker(session, tally):
    ref = simulate.remote(tally)
    until(lambda: tally.count() == 1)
    assert done("simulate", "--force") == "Cancelled 1 task.\n"
    fails(ref, kind=TaskForceCancelledError)


def test_job_is_cancelled_with_its_calls(session, tally):
    @zray.remote(num_cpus=0)
    class Desk:
        def work(self, tally):
            tally.visit()
            return simulate.remote(tally) and zray.get(simulate.remote(tally))

    desk, ref = Desk.remote(), simulate.remote(tally)
    call = desk.work.remote(tally)
    until(lambda: tally.count() == 2)
    assert "and 1 call." in done(zray.get_runtime_context().get_job_id())
    fails(ref, call)


@pytest.mark.parametrize("target", ["missing", "0" * 32, "s", "ab" * 100])
def test_nothing_that_matches_is_an_error_in_words(session, target):
    assert "Nothing to cancel: no unfinished task has this id, function or job" in refused(target)


def test_missing_session_is_an_error_in_words(session):
    assert "No session on this machine has the name 'nothing'" in refused("simulate", "--session", "nothing")


def test_tasks_on_all_nodes_are_cancelled(nothing_left, tally):
    zray.shutdown()
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        cluster.connect()
        refs = [simulate.remote(tally) for _ in range(6)]
        until(lambda: tally.count() == 2)
        assert "Nothing to cancel" in refused("missing")  # the sessions of the machine are those of one cluster
        assert done("simulate", "--session", cluster.head_node.session.name) == "Cancelled 6 tasks.\n"
        fails(*refs)
        assert tally.count() == 2
        zray.shutdown()
