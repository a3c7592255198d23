"""Notices of retries, restarts and lost nodes: to the job's driver and the log of the node, a few at a time."""

from tests.roles.desk import Desk
from zray.roles import effects as e
from zray.roles.local_scheduler.reporting.notices import NOTICE_SECONDS, NOTICES_MAX
from zray.roles.work_effects import WriteLine
from zray.sim.trace import name_of
from zray.wire.gcs import NodeLost
from zray.wire.output import FlushOutput, OutputFlushed
from zray.wire.scheduling import JobFacts, JobNotice
from zray.wire.task_spec import TaskOptions, encode_options
from zray.wire.tasks import SubmitTasks

JOB, DRIVER = b"job-0002", "driver-2"
END = "Notices.end_window"


class Node(Desk):
    def __init__(self, *, cpus=1, log_to_driver=True):
        super().__init__(cpus=cpus)
        self.lines = []
        self.tell("host", e.ProcessJoined(DRIVER, "driver", 2, JOB, 0, JobFacts(log_to_driver=log_to_driver)))

    def _perform(self, effects):
        self.lines = [*getattr(self, "lines", ()), *(it.text for it in effects if type(it) is WriteLine)]
        ends = [it for it in effects if type(it) is e.SetTimer and name_of(it.message) == END]
        assert all(end.delay == NOTICE_SECONDS for end in ends)
        super()._perform(effects)

    def notices(self):
        return [message.text for target, message in self.take_sent(JobNotice) if target == DRIVER]

    def crash(self, max_retries):
        """A task whose worker dies in each attempt, to its end."""
        spec = self.new_spec()
        spec.options = encode_options(TaskOptions(name="train", max_retries=max_retries))
        self.tell(DRIVER, SubmitTasks([spec]))
        for _ in range(max_retries + 1):
            while not any(self.queues.values()):
                self.give_birth()
            worker = next(worker for worker, queue in self.queues.items() if queue)
            self.windows[worker] -= 1
            self.kill(worker)

    def time_passes(self):
        for _ in self.timers.named(END):
            self.timer(END)


def test_each_retry_is_told_in_one_line_and_logged():
    node = Node()
    node.crash(2)
    told = node.notices()
    assert [text.partition(":")[0] for text in told] == [
        "task train is retried (attempt 2 of 3)",
        "task train is retried (attempt 3 of 3)",
    ]
    assert all("killed by signal 9" in text for text in told)
    assert node.lines == told


def test_notices_beyond_a_few_are_counted():
    node = Node()
    node.crash(NOTICES_MAX + 3)
    assert len(node.notices()) == NOTICES_MAX
    node.time_passes()
    assert node.notices() == ["3 further notices in 10 s left out here"]
    node.crash(1)
    assert len(node.notices()) == 1


def test_count_of_further_notices_is_told_to_a_program_that_ends_sooner():
    node = Node()
    node.crash(NOTICES_MAX + 3)
    node.take_sent()
    node.tell(DRIVER, FlushOutput(JOB))
    told = [type(message) for target, message in node.take_sent() if target == DRIVER]
    assert told == [JobNotice, OutputFlushed]
    node.time_passes()
    assert not node.notices()


def test_program_that_wants_no_output_of_workers_gets_no_notice():
    node = Node(log_to_driver=False)
    node.crash(1)
    assert not node.notices() and len(node.lines) == 1


def test_notices_of_other_nodes_pass_the_same_limit():
    node = Node()
    for number in range(2 * NOTICES_MAX):
        node.tell("other/local", JobNotice(JOB, f"task {number} is retried", True))
    node.tell("other/local", JobNotice(b"job-9999", "of nobody here", True))
    assert node.notices() == [f"task {number} is retried" for number in range(NOTICES_MAX)]
    node.time_passes()
    assert node.notices() == [f"{NOTICES_MAX} further notices in 10 s left out here"]


def test_loss_of_a_node_is_told_unless_it_was_drained_or_a_program():
    node = Node()
    for name in ("aaaaaaaa1/local", "bbbbbbbb1/local", "cccccccc1/local"):
        node.scheduler.members.peers[name] = {}
    node.scheduler.members.outside.add("cccccccc1/local")
    node.tell("monitor", NodeLost("aaaaaaaa1/local", "it was silent for 0.5 s"))
    node.tell("monitor", NodeLost("bbbbbbbb1/local", "drained", True))
    node.tell("monitor", NodeLost("cccccccc1/local", "said goodbye"))
    assert node.notices() == ["node aaaaaaaa is lost: it was silent for 0.5 s"]


def test_windows_of_jobs_that_have_ended_are_forgotten():
    node = Node()
    node.crash(NOTICES_MAX + 1)
    node.tell("host", e.ProcessLeft(DRIVER, "gone"))
    node.time_passes()
    assert not node.scheduler.notices.windows
