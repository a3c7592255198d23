"""Work that ends with the process that asked for it, where other nodes have part in it."""

import pytest

from tests.roles.desk import FUNCTION, Acknowledged, Desk
from zray.ids import return_id
from zray.roles.gcs import GcsShard
from zray.wire.gcs import (
    FindUnheld,
    FindUnheldReply,
    FreeCopies,
    HoldAtNode,
    NodeLost,
    RebuildObject,
    ReleaseAtNode,
)
from zray.wire.homes import ActorAt, ActorLife
from zray.wire.objects import HoldObjects
from zray.wire.scheduling import EndTasks, JobFacts, PlaceTask, SpillTask, TaskAccepted, TaskPlaced
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import SubmitTasks

N1, N2, N3 = "n1/local", "n2/local", "n3/local"
TASK = b"t" * 16
OBJECT = return_id(TASK, 1)
TWO_CPUS = encode_options(TaskOptions({"CPU": 20_000}))


class Node(Acknowledged, Desk):
    def __init__(self):
        super().__init__()
        self.join(N2, N3)

    def place(self, origin=N2, trip=1, **more):
        self.tell("global", PlaceTask(TaskSpec(TASK, FUNCTION), origin, b"job-away", JobFacts(home=N3), trip, **more))
        return self.heard()

    def start(self):
        while self.starting:
            self.give_birth()
        (worker,) = [worker for worker, queue in self.queues.items() if queue]
        self.windows[worker] -= 1
        return worker

    def is_here(self):
        return TASK in self.scheduler.tasks


@pytest.fixture
def desk():
    return Node()


def questions(said):
    return [message for message in said if type(message) is FindUnheld]


# --- the node where the task was placed ---


@pytest.mark.parametrize("is_quiet", [False, True])
def test_task_ends_when_its_origin_says_so(desk, is_quiet):
    desk.place(is_quiet=is_quiet)
    worker = desk.start()
    desk.tell(N2, EndTasks([(TASK, 2)]))
    desk.tell(N3, EndTasks([(TASK, 1)]))
    assert desk.is_here()
    desk.tell(N2, EndTasks([(TASK, 1)]))
    assert not desk.is_here() and desk.killed == [worker]
    desk.kill(worker)
    assert desk.scheduler.resources.free == desk.scheduler.resources.total


def test_task_that_comes_behind_that_word_does_not_begin(desk):
    desk.tell(N2, EndTasks([(TASK, 1)]))
    desk.place()
    assert not desk.is_here()
    desk.place(trip=2)
    assert desk.is_here()


def test_the_next_trip_of_one_that_is_here_saves_it_from_that_word(desk):
    desk.place()
    desk.place(trip=2)
    desk.tell(N2, EndTasks([(TASK, 1)]))
    assert desk.is_here()


@pytest.mark.parametrize("unheld", [[], [OBJECT]])
def test_of_a_lost_node_it_ends_if_no_other_node_holds_what_it_returns(desk, unheld):
    desk.place()
    worker = desk.start()
    desk.tell("monitor", NodeLost(N2, "killed"))
    desk.heard()
    (question,) = questions(desk.told)
    assert (question.object_ids, question.lost) == ([OBJECT], N2)
    desk.tell("gcs-0", FindUnheldReply(question.request, unheld))
    assert desk.is_here() is not bool(unheld) and desk.killed == [worker] * len(unheld)


@pytest.mark.parametrize("by", ["placed", "rebuilt", "held"])
def test_task_goes_on_where_its_result_is_wanted_again(desk, by):
    desk.place()
    desk.start()
    desk.tell("monitor", NodeLost(N2, "killed"))
    desk.heard()
    (question,) = questions(desk.told)
    if by == "placed":
        desk.place(N3)
    elif by == "rebuilt":
        desk.tell("gcs-0", RebuildObject(OBJECT, TaskSpec(TASK, FUNCTION)))
    else:
        desk.tell("driver-1", HoldObjects([OBJECT]))
    desk.tell("gcs-0", FindUnheldReply(question.request, [OBJECT]))
    assert desk.is_here() and not desk.killed


def test_after_a_drain_nothing_is_asked(desk):
    desk.place()
    desk.tell("monitor", NodeLost(N2, "has left", is_drained=True))
    desk.heard()
    assert not questions(desk.told)


# --- the node of the process that has died ---


def submit_from_worker(desk):
    """A task of a worker that goes up, as there is no room for it here."""
    parent = desk.new_spec()
    desk.submit(parent)
    worker = desk.start()
    desk.tell(worker, SubmitTasks([TaskSpec(TASK, FUNCTION, options=TWO_CPUS)]))
    return worker, [message for _, message in desk.heard() if type(message) is SpillTask]


@pytest.mark.parametrize("news", [TaskAccepted, TaskPlaced])
@pytest.mark.parametrize("is_early", [False, True])
def test_where_it_was_placed_is_told(desk, news, is_early):
    worker, (spill,) = submit_from_worker(desk)
    word = (
        (N2, TaskAccepted(TASK, spill.trip)) if news is TaskAccepted else ("global", TaskPlaced(TASK, N2, spill.trip))
    )
    if is_early:
        desk.tell(*word)
    desk.kill(worker)
    assert not desk.is_here()
    if not is_early:
        assert not desk.take_sent(EndTasks)
        desk.tell(*word)
    assert desk.take_sent(EndTasks) == [(N2, EndTasks([(TASK, spill.trip)]))]


def test_its_next_life_takes_the_next_trip(desk):
    worker, (spill,) = submit_from_worker(desk)
    desk.kill(worker)
    desk.heard()
    again = desk.start()  # its parent runs again
    desk.tell(again, SubmitTasks([TaskSpec(TASK, FUNCTION, options=TWO_CPUS)]))
    ((_, second),) = [item for item in desk.heard() if type(item[1]) is SpillTask]
    assert second.trip == spill.trip + 1


def test_later_life_takes_the_next_trip_though_the_life_between_ended_here(desk):
    """The node that had been told of the first life's end took the third for the first, for ever."""
    worker, (spill,) = submit_from_worker(desk)
    desk.kill(worker)
    desk.heard()
    worker = desk.start()  # its parent runs again
    desk.tell(worker, SubmitTasks([TaskSpec(TASK, FUNCTION)]))
    assert desk.is_here() and SpillTask not in [type(message) for _, message in desk.heard()]
    desk.kill(worker)
    assert not desk.is_here()
    again = desk.give_birth()
    desk.windows[again] -= 1
    desk.tell(again, SubmitTasks([TaskSpec(TASK, FUNCTION, options=TWO_CPUS)]))
    trips = [message.trip for _, message in desk.heard() if type(message) is SpillTask]
    assert trips == [spill.trip + 1]


# --- the shard ---


def tell(shard, sender, message):
    return [(effect.destination, effect.message) for effect in shard.handle(sender, message, 0.0)]


@pytest.mark.parametrize(
    ("holders", "lost", "is_unheld"),
    [((), "", True), ((N1,), "", True), ((N1, N2), "", False), ((N1, N2), N2, True), ((N2, N3), N2, False)],
)
def test_shard_knows_who_else_holds_it(holders, lost, is_unheld):
    shard = GcsShard("gcs-0")
    for node in holders:
        tell(shard, node, HoldAtNode(node, [OBJECT], 0))
    answer = tell(shard, N1, FindUnheld(N1, 7, [OBJECT], lost))
    assert answer == [(N1, FindUnheldReply(7, [OBJECT] if is_unheld else []))]


@pytest.mark.parametrize("how", ["order", "death", "loss", "drain"])
def test_home_of_an_actor_hears_whether_its_last_handle_went_by_a_death(how):
    shard = GcsShard("gcs-0")
    tell(shard, N1, HoldAtNode(N1, [OBJECT], 0))
    tell(shard, N2, ActorAt(TASK, N2, ActorLife(1, 0, 0), True))
    if how in ("loss", "drain"):
        word = tell(shard, "monitor", NodeLost(N1, "", is_drained=how == "drain"))
    else:
        word = tell(shard, N1, ReleaseAtNode(N1, [OBJECT], how == "death"))
    assert word[-1] == (N2, FreeCopies([OBJECT], how in ("death", "loss")))
