"""What workers print, as local schedulers pass it on: one piece at a time, to a driver that wants it."""

import pytest

from tests.roles.desk import DRIVER, JOB, Desk
from zray.roles import effects as e
from zray.roles.local_scheduler.reporting.output import FLUSH_PIECES_MAX
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.output import FlushOutput, JobOutput, OutputFlushed, OutputHeard
from zray.wire.scheduling import JobEnded, JobFacts, PlaceTask
from zray.wire.task_spec import RESOURCE_UNIT

FAR, OTHER = "far/local", "other/local"
AWAY = b"job-away"


class Node(Desk):
    """A node of a cluster; what is asked of its host is noted."""

    def __init__(self, cpus=1):
        self.asked = []
        super().__init__(cpus)
        self.scheduler.is_embedded = False
        for peer in (FAR, OTHER):
            self.tell("monitor", NodeJoined(peer, {"CPU": RESOURCE_UNIT}))
        self.take_sent()

    def _perform(self, effects):
        self.asked += [effect for effect in effects if type(effect) in e.OUTPUT_EFFECTS]
        super()._perform(effects)

    def take_asked(self):
        asked, self.asked = self.asked, []
        return asked

    def work_for(self, home, *, log_to_driver=True):
        """A task of a driver there runs here."""
        facts = JobFacts(home=home, log_to_driver=log_to_driver)
        self.tell("global", PlaceTask(self.new_spec(), home, AWAY, facts))
        self.run_all()
        self.take_sent()

    def has_driver(self):
        """Our driver wants to see it, and its tasks have been elsewhere."""
        job = self.scheduler.jobs[JOB]
        job.facts = JobFacts(home="local", log_to_driver=True)
        job.has_left = True


def test_each_piece_is_sent_when_the_one_before_was_heard():
    node = Node()
    node.work_for(FAR)
    assert node.take_asked() == [e.ReadOutput(AWAY)]
    node.work_for(FAR)
    assert not node.take_asked()
    node.tell("host", e.OutputRead(AWAY, "one\n"))
    assert node.take_sent() == [(FAR, JobOutput(AWAY, "one\n"))]
    assert not node.take_asked()
    node.tell(OTHER, OutputHeard(AWAY, True))  # it is not that one's to say
    assert not node.take_asked()
    node.tell(FAR, OutputHeard(AWAY, True))
    assert node.take_asked() == [e.ReadOutput(AWAY)]


@pytest.mark.parametrize("home, wanted", [(FAR, False), ("local", True), ("gone/local", True)])
def test_nothing_is_read_that_nobody_is_to_see(home, wanted):
    node = Node()
    node.tell("monitor", NodeLost("gone/local", "lost"))
    node.work_for(home, log_to_driver=wanted)
    assert not node.take_asked()


def test_a_home_that_we_have_not_been_told_of_yet_hears_what_is_printed():
    """A node that has just joined: a global scheduler is told of it before it is told of the others."""
    node = Node()
    node.work_for("new/local")
    assert node.take_asked() == [e.ReadOutput(AWAY)]


def test_nothing_more_is_read_when_nobody_listens():
    for end in (
        lambda node: node.tell(FAR, OutputHeard(AWAY, False)),
        lambda node: node.tell(FAR, JobEnded(AWAY)),
        lambda node: node.tell("monitor", NodeLost(FAR, "lost")),
    ):
        node = Node()
        node.work_for(FAR)
        node.take_asked()
        end(node)
        assert node.take_asked() == [e.ForgetOutput(AWAY)]
        node.take_sent()
        node.tell("host", e.OutputRead(AWAY, "late\n"))
        assert not node.take_sent()


def test_a_piece_is_heard_when_it_is_kept():
    node = Node()
    node.has_driver()
    node.tell(FAR, JobOutput(JOB, "one\n"))
    assert node.take_asked() == [e.WriteOutput(JOB, FAR, "one\n")] and not node.take_sent()
    node.tell("host", e.OutputWritten(JOB, FAR))
    assert node.take_sent() == [(FAR, OutputHeard(JOB, True))]


def test_a_driver_that_does_not_want_it_and_one_that_is_gone_say_so():
    node = Node()
    for job_id in (JOB, b"job-gone"):
        node.tell(FAR, JobOutput(job_id, "one\n"))
        assert node.take_sent() == [(FAR, OutputHeard(job_id, False))]
    assert not node.take_asked()


def test_a_driver_that_ends_has_all_nodes_say_what_they_have():
    node = Node()
    node.has_driver()
    node.tell(DRIVER, FlushOutput(JOB))
    assert node.take_sent() == [(FAR, FlushOutput(JOB)), (OTHER, FlushOutput(JOB))]
    node.tell(FAR, JobOutput(JOB, "last\n"))
    node.tell(FAR, OutputFlushed(JOB))
    node.tell(FAR, OutputFlushed(JOB))
    assert [type(effect) for effect in node.take_asked()] == [e.WriteOutput]
    node.tell("monitor", NodeLost(OTHER, "lost"))
    assert node.take_asked() == [e.WriteOutput(JOB, DRIVER, "")]
    node.take_sent()
    node.tell("host", e.OutputWritten(JOB, DRIVER))
    assert (DRIVER, OutputFlushed(JOB)) in node.take_sent()


def test_a_driver_whose_tasks_never_left_waits_for_nobody():
    node = Node()
    node.tell(DRIVER, FlushOutput(JOB))
    assert node.take_sent() == [(DRIVER, OutputFlushed(JOB))]


def test_only_a_jobs_driver_may_ask_for_it():
    node = Node()
    node.has_driver()
    node.tell(DRIVER, FlushOutput(AWAY))
    assert not node.take_sent() and node.scheduler.rejected


def test_a_node_says_all_that_it_has_and_then_that_it_is_all():
    node = Node()
    node.tell(FAR, FlushOutput(AWAY))
    assert node.take_sent() == [(FAR, OutputFlushed(AWAY))]  # it has nothing
    node.work_for(FAR)
    node.take_asked()
    node.tell(FAR, FlushOutput(AWAY))
    assert node.take_asked() == [e.ReadOutput(AWAY, at_once=True)]
    node.tell("host", e.OutputRead(AWAY, "one\n"))
    node.tell(FAR, OutputHeard(AWAY, True))
    assert node.take_asked() == [e.ReadOutput(AWAY, at_once=True)]
    node.take_sent()
    node.tell("host", e.OutputRead(AWAY, ""))
    assert node.take_sent() == [(FAR, OutputFlushed(AWAY))]
    assert node.take_asked() == [e.ReadOutput(AWAY)]


def test_a_worker_that_prints_on_and_on_does_not_keep_a_driver():
    node = Node()
    node.work_for(FAR)
    node.tell(FAR, FlushOutput(AWAY))
    for _ in range(FLUSH_PIECES_MAX):
        assert OutputFlushed not in [type(message) for _, message in node.take_sent()]
        node.tell("host", e.OutputRead(AWAY, "again\n"))
        node.tell(FAR, OutputHeard(AWAY, True))
    assert OutputFlushed in [type(message) for _, message in node.take_sent()]
