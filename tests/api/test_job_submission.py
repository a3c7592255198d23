"""Job submission: programs that a cluster runs, follows, stops and forgets."""

import asyncio
import os
import signal

import psutil
import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.job_submission import JobStatus, JobSubmissionClient, JobType, supervisor

PROGRAM = """
import os, sys, time, zray, helper
zray.init()

@zray.remote
def task():
    return os.environ.get("WHO"), helper.VALUE

print("tasks have", *zray.get(task.remote()), "and the program", os.environ.get("WHO"), flush=True)
while os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def client(nothing_left):
    with Cluster(True, head_node_args={"num_cpus": 2}) as cluster:
        cluster.connect()
        yield JobSubmissionClient()
        zray.shutdown()


@pytest.fixture
def folder(tmp_path):
    """A working directory; the program runs as long as `folder / "runs"` exists."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.py").write_text(PROGRAM)
    (tmp_path / "code" / "helper.py").write_text("VALUE = 42\n")
    return tmp_path / "code"


def is_running(pid):
    """Whether a process runs; one that its parent has not reaped yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ended(client, name):
    until(lambda: client.get_job_status(name).is_terminal())
    return client.get_job_info(name)


def test_program_runs_with_its_folder_and_variables_as_its_tasks_do(client, folder):
    env = {"working_dir": str(folder), "env_vars": {"WHO": "me"}}
    name = client.submit_job(entrypoint="python program.py none", runtime_env=env, metadata={"owner": "anna"})
    assert "".join(client.follow_job_logs(name)) == "tasks have me 42 and the program me\n"
    details = ended(client, name)
    assert (details.status, details.driver_exit_code, details.error_type) == (JobStatus.SUCCEEDED, 0, None)
    assert details.status == "SUCCEEDED" and str(details.status) == "SUCCEEDED"
    assert details.metadata == {"owner": "anna"} and details.runtime_env["env_vars"] == {"WHO": "..."}
    assert details.start_time <= details.end_time and details.submission_id == name
    assert client.get_job_logs(name) == "tasks have me 42 and the program me\n"


def test_output_is_followed_as_it_comes(client, folder, tmp_path):
    runs = tmp_path / "runs"
    runs.touch()
    env = {"working_dir": str(folder)}
    name = client.submit_job(entrypoint=f"python program.py {runs}", runtime_env=env, submission_id="followed")

    async def follow():
        found = []
        async for text in client.tail_job_logs(name):
            found.append(text)
            assert client.get_job_status(name) == JobStatus.RUNNING
            runs.unlink(missing_ok=True)
        return "".join(found)

    assert asyncio.run(follow()) == "tasks have None 42 and the program None\n"
    assert ended(client, name).status == JobStatus.SUCCEEDED


def test_failures_are_told_with_the_last_line(client):
    name = client.submit_job(entrypoint="""python -c 'raise OSError("no data")'""")
    details = ended(client, name)
    assert details.status == JobStatus.FAILED and details.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR"
    assert details.message == "The program has failed with exit status 1; its last line: OSError: no data"
    details = ended(client, client.submit_job(entrypoint="kill -9 $$"))
    assert details.message == "The program has failed with signal SIGKILL."


def test_stopped_program_ends_with_all_its_processes(client, tmp_path):
    script = f"trap '' TERM; sleep 1000 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/own; wait; sleep 1000"
    name = client.submit_job(entrypoint=script)
    until(lambda: (tmp_path / "own").exists() and (tmp_path / "own").read_text().strip())
    pids = [int((tmp_path / each).read_text()) for each in ("own", "child")]
    assert client.stop_job(name) is True
    assert ended(client, name).status == JobStatus.STOPPED
    until(lambda: not any(map(is_running, pids)))
    assert client.stop_job(name) is False


def test_death_of_the_supervisor_is_the_failure_of_the_program(client, tmp_path):
    name = client.submit_job(entrypoint=f"echo $$ > {tmp_path}/pid; sleep 1000")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    (row,) = zray.util.state.list_actors(filters=[("name", "=", supervisor.supervisor_name(name))])
    os.kill(row.pid, signal.SIGKILL)
    details = ended(client, name)
    assert (details.status, details.error_type) == (JobStatus.FAILED, "JOB_SUPERVISOR_ACTOR_DIED")
    assert "has died" in details.message and client.get_job_logs(name) == ""
    until(lambda: not is_running(int((tmp_path / "pid").read_text())))


def test_ids_are_unique_and_programs_are_listed_and_deleted(client):
    name = client.submit_job(entrypoint="echo one", submission_id="one")
    assert name == "one"
    with pytest.raises(ValueError, match="'one' was submitted before"):
        client.submit_job(entrypoint="echo two", submission_id="one")
    ended(client, name)
    listed = client.list_jobs()
    assert listed[0].submission_id == "one" and listed[0].type == JobType.SUBMISSION
    assert str(os.getpid()) in [each.driver_info.pid for each in listed if each.type == JobType.DRIVER]
    assert client.delete_job(name) is True
    for ask in (client.get_job_info, client.get_job_logs, client.stop_job, client.delete_job):
        with pytest.raises(RuntimeError, match="No program was submitted with the id 'one'"):
            ask(name)


def test_program_that_runs_is_not_deleted(client):
    name = client.submit_job(entrypoint="sleep 1000")
    with pytest.raises(RuntimeError, match="stop it first"):
        client.delete_job(name)
    assert client.stop_job(name)
    ended(client, name)


def test_program_that_waits_for_resources_is_stopped_before_it_begins(client):
    holder = client.submit_job(entrypoint="sleep 1000", entrypoint_num_cpus=2)
    until(lambda: client.get_job_status(holder) == JobStatus.RUNNING)
    name = client.submit_job(entrypoint="echo never", entrypoint_num_cpus=1)
    assert client.get_job_status(name) == JobStatus.PENDING and client.get_job_logs(name) == ""
    assert client.stop_job(name) and client.stop_job(holder)
    assert client.get_job_info(name).message == "The program was stopped before it began."
    assert ended(client, holder).status == JobStatus.STOPPED


def test_program_outlives_its_submitter(client, tmp_path):
    address = client.get_address()
    code = (
        "from zray.job_submission import JobSubmissionClient\n"
        f"client = JobSubmissionClient({address!r})\n"
        f"client.submit_job(entrypoint='sleep 0.5; echo survived', submission_id='orphan')\n"
    )
    (tmp_path / "submit.py").write_text(code)
    submitted = client.submit_job(entrypoint=f"python {tmp_path}/submit.py")
    assert ended(client, submitted).status == JobStatus.SUCCEEDED, client.get_job_logs(submitted)
    assert ended(client, "orphan").status == JobStatus.SUCCEEDED
    assert client.get_job_logs("orphan") == "survived\n"


def test_latest_output_is_kept_up_to_a_bound(client, monkeypatch):
    output = supervisor.Output()
    monkeypatch.setattr(supervisor, "OUTPUT_BYTES_MAX", 10)
    output.add(b"0123456789abc")
    assert output.since(0) == (b"3456789abc", 13, False) and output.since(12) == (b"c", 13, False)
    output.end()
    assert output.since(13, patience=60.0) == (b"", 13, True)


def test_registry_forgets_the_oldest_ended_programs(monkeypatch):
    monkeypatch.setattr(supervisor, "ENDED_BYTES_MAX", 10)
    registry = supervisor.Registry()
    for number in range(3):
        details = supervisor.JobDetails(JobType.SUBMISSION, JobStatus.SUCCEEDED, submission_id=str(number))
        assert registry.add(details) and not registry.add(details)
        registry.note(details, b"12345678")
    assert [each.submission_id for each in registry.all()] == ["2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"entrypoint": " "}, "entrypoint is a command"),
        ({"entrypoint": "x", "submission_id": "a/b"}, "without '/'"),
        ({"entrypoint": "x", "metadata": {"a": 1}}, "metadata has texts"),
    ],
    ids=["command", "id", "metadata"],
)
def test_mistakes_are_refused(client, arguments, words):
    with pytest.raises(ValueError, match=words):
        client.submit_job(**arguments)


def test_refused_environment_leaves_no_program(client):
    with pytest.raises(ValueError):
        client.submit_job(entrypoint="x", submission_id="refused", runtime_env={"working_dir": "/nonesuch"})
    assert "refused" not in [each.submission_id for each in client.list_jobs()]


def test_addresses_of_rays_dashboard_stand_for_the_session_here():
    from zray.job_submission.client import _address_of

    assert {_address_of(each) for each in (None, "http://127.0.0.1:8265", "http://localhost:8265/", "auto")} == {"auto"}
    assert _address_of("10.0.0.1:6379") == "10.0.0.1:6379"
    with pytest.raises(ValueError, match="HOST:PORT of the cluster"):
        _address_of("http://10.0.0.1:8265")
