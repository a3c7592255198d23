"""Tasks that were handed to a global scheduler that is gone: nobody else knows what became of them."""

import pytest

from tests.roles.desk import DRIVER, JOB, Desk
from zray.ids import FIRST_RETURN
from zray.roles.effects import HeadChanged, ProcessLeft, SchedulerGone
from zray.roles.local_scheduler.task import TaskState
from zray.wire.gcs import (
    AddLocations,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    NodeJoined,
    NodeLost,
    RebuildObject,
    RecordTasks,
    RecordTasksReply,
    ReleaseAtNode,
    RemoveLocations,
)
from zray.wire.objects import ResultMissing
from zray.wire.scheduling import FindTasks, PlaceTask, SpillTask, TaskAccepted, TaskGivenBack, TaskPlaced, TasksFound
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, encode_options

N2, N3 = "n2/local", "n3/local"


@pytest.fixture
def desk():
    """With two peers, and nothing of what tasks ask for."""
    desk = Desk(cpus=1)
    for peer in (N2, N3):
        desk.tell("monitor", NodeJoined(peer, {"disk": 10 * RESOURCE_UNIT}))
    return desk


def acknowledge(desk):
    """The shard answers all.  What else was sent."""
    rest = []
    for target, message in desk.take_sent():
        if type(message) is RecordTasks and message.request:
            desk.tell(target, RecordTasksReply(message.request))
        elif type(message) is HoldAtNode and message.request:
            desk.tell(target, HoldAtNodeReply(message.request))
        else:
            rest.append((target, message))
    return rest + desk.take_sent()


def hand_up(desk, **options):
    """A task that this node cannot run."""
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(resources={"disk": RESOURCE_UNIT}, **options))
    desk.submit(spec)
    handed = [(target, message.spec) for target, message in acknowledge(desk) if type(message) is SpillTask]
    assert handed == [("global", spec)]
    return spec.task_id


def lose_scheduler(desk, gone="global", new="global-2"):
    """It ends, and another one is there.  The questions that this leads to."""
    desk.scheduler.addresses.global_schedulers[:] = [new]
    desk.tell("host", SchedulerGone(gone))
    return [(target, message) for target, message in desk.take_sent() if type(message) is FindTasks]


def handed_again(desk):
    return [(target, message.spec.task_id) for target, message in acknowledge(desk) if type(message) is SpillTask]


def test_all_others_are_asked_and_what_nobody_has_goes_up_again(desk):
    task_id = hand_up(desk, max_retries=0)
    questions = lose_scheduler(desk)
    assert questions == [(peer, FindTasks("global", 1, [(task_id, 1)])) for peer in (N2, N3)]
    desk.tell(N2, TasksFound(1, []))
    assert handed_again(desk) == []  # N3 may have it
    desk.tell(N3, TasksFound(1, []))
    assert handed_again(desk) == [("global-2", task_id)]


def test_what_somebody_has_is_left_there(desk):
    lost, kept = hand_up(desk), hand_up(desk)
    lose_scheduler(desk)
    desk.tell(N3, TasksFound(1, [kept]))
    desk.tell(N2, TasksFound(1, []))
    assert handed_again(desk) == [("global-2", lost)]
    desk.tell("monitor", NodeLost(N3, "killed"))
    assert handed_again(desk) == [("global-2", kept)]  # it was known to be there


def test_what_was_accepted_is_not_asked_for(desk):
    task_id = hand_up(desk)
    desk.tell(N2, TaskAccepted(task_id))
    assert lose_scheduler(desk) == []
    desk.tell("monitor", NodeLost(N2, "killed"))  # though the scheduler never said where it is
    assert handed_again(desk) == [("global-2", task_id)]


def test_a_word_that_it_was_placed_is_no_proof(desk):
    """The word to us came, that to the node was lost with the scheduler."""
    task_id = hand_up(desk)
    desk.tell("global", TaskPlaced(task_id, N2))
    assert len(lose_scheduler(desk)) == 2
    for peer in (N2, N3):
        desk.tell(peer, TasksFound(1, []))
    assert handed_again(desk) == [("global-2", task_id)]
    assert not desk.tasks_in(TaskState.PLACED, TaskState.ACCEPTED)


def test_task_that_a_node_accepts_during_the_search_stays_there(desk):
    task_id = hand_up(desk)
    lose_scheduler(desk)
    desk.tell(N2, TaskAccepted(task_id, 1))
    desk.tell(N2, TaskAccepted(task_id, 1))  # placed there twice
    for peer in (N2, N3):
        desk.tell(peer, TasksFound(1, []))
    assert handed_again(desk) == [] and desk.tasks_in(TaskState.ACCEPTED) == [task_id]


def test_task_that_is_given_back_during_the_search_is_deferred(desk):
    task_id = hand_up(desk)
    lose_scheduler(desk)
    desk.tell(N2, TaskGivenBack(task_id, 1, 0))
    for peer in (N2, N3):
        desk.tell(peer, TasksFound(1, []))
    assert handed_again(desk) == [] and desk.tasks_in(TaskState.DEFERRED) == [task_id]
    desk.timer("Trips.ask_again")
    assert handed_again(desk) == [("global-2", task_id)]


def test_node_that_is_named_during_the_search_and_lost_may_have_begun_the_task(desk):
    task_id = hand_up(desk, max_retries=0)
    lose_scheduler(desk)
    desk.tell("global", TaskPlaced(task_id, N2, 1))
    assert desk.tasks_in(TaskState.SEARCHED) == [task_id]
    desk.tell("monitor", NodeLost(N2, "killed"))
    assert handed_again(desk) == [] and not desk.scheduler.tasks  # its one attempt is used up


def test_who_is_lost_has_nothing(desk):
    task_id = hand_up(desk)
    lose_scheduler(desk)
    desk.tell(N2, TasksFound(1, []))
    desk.tell("monitor", NodeLost(N3, "killed"))
    assert handed_again(desk) == [("global-2", task_id)]
    desk.tell(N3, TasksFound(1, [task_id]))
    assert desk.scheduler.rejected["an answer to no question"] == 1


def test_a_node_without_peers_hands_up_again_at_once(desk):
    task_id = hand_up(desk)
    for peer in (N2, N3):
        desk.tell("monitor", NodeLost(peer, "killed"))
    acknowledge(desk)
    desk.scheduler.addresses.global_schedulers[:] = ["global-2"]
    desk.tell("host", SchedulerGone("global"))
    assert handed_again(desk) == [("global-2", task_id)]


def test_a_job_that_ends_takes_its_tasks_along(desk):
    hand_up(desk)
    lose_scheduler(desk)
    desk.tell("host", ProcessLeft(DRIVER, "process has ended"))
    for peer in (N2, N3):
        desk.tell(peer, TasksFound(1, []))
    assert handed_again(desk) == []
    assert not desk.tasks_in(TaskState.SCHEDULER, TaskState.SEARCHED) and not desk.scheduler.flights.searches


def test_with_the_head_all_its_schedulers_are_gone(desk):
    task_id = hand_up(desk)
    desk.tell("host", HeadChanged("n1", "n9", ["n9/global"]))
    assert [target for target, message in desk.take_sent() if type(message) is FindTasks] == [N2, N3]
    for peer in (N2, N3):
        desk.tell(peer, TasksFound(1, []))
    assert handed_again(desk) == [("n9/global", task_id)]


def test_what_was_given_back_and_went_up_again_is_sought_on_its_new_trip(desk):
    """That who had it first accepted it late tells nothing of the second trip."""
    task_id = hand_up(desk)
    desk.tell(N2, TaskGivenBack(task_id, 1, 0))
    desk.timer("Trips.ask_again")
    assert handed_again(desk) == [("global", task_id)]
    desk.tell(N2, TaskAccepted(task_id, 1))
    questions = lose_scheduler(desk)
    assert questions == [(peer, FindTasks("global", 1, [(task_id, 2)])) for peer in (N2, N3)]


# --- asked ---


def found(desk):
    return [(target, message) for target, message in acknowledge(desk) if type(message) is TasksFound]


def test_who_is_asked_says_what_it_has(desk):
    here, nowhere = desk.new_spec(), desk.new_spec()
    desk.tell("global", PlaceTask(here, N2, b"job-0002"))
    desk.scheduler.addresses.global_schedulers[:] = ["global-2"]
    desk.tell(N2, FindTasks("global", 7, [(here.task_id, 1), (nowhere.task_id, 1)]))
    assert found(desk) == [(N2, TasksFound(7, [here.task_id]))]


def test_who_still_hears_the_scheduler_answers_when_it_does_not(desk):
    """What that has placed may be on its way."""
    spec = desk.new_spec()
    desk.tell(N2, FindTasks("global", 7, [(spec.task_id, 1)]))
    assert found(desk) == []
    desk.tell("global", PlaceTask(spec, N2, b"job-0002"))
    desk.tell("host", SchedulerGone("global"))
    assert found(desk) == [(N2, TasksFound(7, [spec.task_id]))]


def test_a_question_of_a_node_that_we_have_not_been_told_of_yet_is_answered(desk):
    """Who asks knows us, and would wait for ever."""
    desk.tell("n8/local", FindTasks("other", 7, []))
    assert found(desk) == [("n8/local", TasksFound(7, []))]


def test_a_question_of_a_node_that_is_lost_is_not_answered(desk):
    desk.tell("monitor", NodeLost(N2, "killed"))
    desk.tell(N2, FindTasks("other", 7, []))
    assert found(desk) == [] and desk.scheduler.rejected["a question of a node that is lost"] == 1


def test_nothing_is_kept_of_questions_of_a_node_that_is_lost(desk):
    desk.tell(N2, FindTasks("global", 7, []))
    desk.tell("monitor", NodeLost(N2, "killed"))
    desk.tell("host", SchedulerGone("global"))
    assert found(desk) == []
    assert JOB in desk.scheduler.jobs


# --- missed: the shard says that there is no copy of what a task returns that was accepted ---


@pytest.mark.parametrize("max_retries, asks", [(3, True), (0, False)])
def test_who_took_it_in_is_asked_for_what_is_missed_if_it_may_run_again(desk, max_retries, asks):
    task_id = hand_up(desk, max_retries=max_retries)
    spec, result = desk.scheduler.tasks[task_id].spec, task_id + FIRST_RETURN
    desk.tell("global", TaskPlaced(task_id, N2))
    desk.tell("gcs-0", RebuildObject(result, spec))
    assert not desk.take_sent(ResultMissing)  # it may not be there yet: that would be asked for nothing
    desk.tell(N2, TaskAccepted(task_id))
    desk.tell("gcs-0", RebuildObject(result, spec))
    assert desk.take_sent(ResultMissing) == [(N2, ResultMissing(result, 1, 0))] * asks


def test_what_that_node_has_no_more_goes_up_again(desk):
    task_id = hand_up(desk)
    desk.tell(N2, TaskAccepted(task_id))
    desk.tell("gcs-0", RebuildObject(task_id + FIRST_RETURN, desk.scheduler.tasks[task_id].spec))
    desk.tell(N2, TaskGivenBack(task_id, 1, 0))
    desk.timer("Trips.ask_again")
    assert handed_again(desk) == [("global", task_id)]


def placed_and_run(desk):
    """A task of N2 that the shards know of; what it has returned lies here, and nobody here holds that."""
    spec = desk.new_spec()
    desk.tell("global", PlaceTask(spec, N2, JOB))
    desk.run_all()
    desk.take_sent()
    return spec, spec.task_id + FIRST_RETURN


def test_who_is_asked_for_what_is_over_and_gone_gives_it_back(desk):
    spec, result = placed_and_run(desk)
    desk.tell("gcs-0", FreeCopies([result]))
    desk.take_sent()
    desk.tell(N2, ResultMissing(result, 5, 2))
    assert desk.take_sent() == [(N2, TaskGivenBack(spec.task_id, 5, 2))]


def test_who_is_asked_and_has_the_value_says_so_to_the_shard(desk):
    _, result = placed_and_run(desk)
    desk.tell(N2, ResultMissing(result, 1, 0))
    assert [message.objects for _, message in desk.take_sent(AddLocations)] == [[(result, 1)]]


def test_who_is_asked_and_has_it_in_hand_says_nothing(desk):
    spec = desk.new_spec()
    desk.tell("global", PlaceTask(spec, N2, JOB))
    desk.take_sent()
    desk.tell(N2, ResultMissing(spec.task_id + FIRST_RETURN, 1, 0))
    assert not desk.take_sent(TaskGivenBack)
    desk.run_all()
    assert desk.take_sent(AddLocations)


def test_what_is_taken_for_made_outlives_the_word_that_was_under_way_that_nobody_holds_it(desk):
    """The task comes again, from where its parent runs again: that node holds it, as the shard knows by then."""
    spec, result = placed_and_run(desk)
    desk.tell("global", PlaceTask(spec, N3, JOB, trip=4))
    said = desk.take_sent()
    assert (N3, TaskAccepted(spec.task_id, 4)) in said and not desk.starting
    requests = [message.request for _, message in said if type(message) is HoldAtNode and message.request]
    desk.tell("gcs-0", FreeCopies([result]))
    said = [type(message) for _, message in desk.take_sent()]
    assert AddLocations in said and RemoveLocations not in said and ReleaseAtNode not in said
    assert desk.scheduler.objects.entries[result].value is not None
    for request in requests:
        desk.tell("gcs-0", HoldAtNodeReply(request))
    assert desk.take_sent(ReleaseAtNode) == [("gcs-0", ReleaseAtNode("local", [result]))]
    desk.tell("gcs-0", FreeCopies([result]))  # by then a word about what came after
    assert desk.take_sent(RemoveLocations) == [("gcs-0", RemoveLocations("local", [result]))]
