"""ListWork: tasks and actors of one node, and of the others, as far as they answer."""

from tests.roles.actor_desk import ActorDesk
from tests.roles.desk import DRIVER, JOB, Acknowledged, Desk
from zray.exceptions import TASK_ERROR, encode_system_error
from zray.ids import return_id
from zray.roles.effects import WorkerExited
from zray.roles.local_scheduler.reporting import listing
from zray.roles.local_scheduler.reporting import listing as module
from zray.wire.actors import KillActor
from zray.wire.listing import ActorFact, ListWork, TaskFact, WorkListed
from zray.wire.task_spec import ActorOptions, TaskOptions, encode_options

THERE = "there/local"


class Cluster(Acknowledged, Desk):
    """A desk with two other nodes."""

    def __init__(self):
        super().__init__(cpus=1)
        self.join(THERE, "third/local")
        self.take_sent()


def answer(desk):
    ((target, reply),) = desk.take_sent(WorkListed)
    return target, reply


def task(number, state="RUNNING", **fields):
    return TaskFact(number.to_bytes(16, "big"), "f", state, JOB, THERE, **fields)


def test_tasks_of_the_node_and_where_they_stand():
    desk = Desk(cpus=1)
    first = desk.new_spec()
    desk.submit(first, desk.new_spec(deps=[return_id(first.task_id, 1)]))
    worker = desk.give_birth()
    desk.submit(desk.new_spec())
    desk.take_sent()
    desk.tell(DRIVER, ListWork(7))
    target, reply = answer(desk)
    assert (target, reply.request, reply.actors, reply.silent) == (DRIVER, 7, [], [])
    found = {int.from_bytes(fact.task_id, "big"): (fact.state, bool(fact.pid)) for fact in reply.tasks}
    assert found[1] == ("RUNNING", True) and found[2] == ("PENDING_ARGS_AVAIL", False)
    assert found[3][0] in ("SUBMITTED_TO_WORKER", "PENDING_NODE_ASSIGNMENT")
    assert {(fact.name, fact.job_id, fact.node) for fact in reply.tasks} == {("f", JOB, "local")}
    desk.finish_one(worker)
    desk.take_sent()
    desk.tell(DRIVER, ListWork(8, 1))
    assert len(answer(desk)[1].tasks) == 1


def test_process_that_is_gone_gets_no_answer():
    desk = Desk()
    desk.tell("driver-9", ListWork(1))
    assert not desk.take_sent(WorkListed)


def test_other_nodes_are_asked_and_answer():
    desk = Cluster()
    desk.tell(DRIVER, ListWork(7))
    assert [(target, message) for target, message in desk.take_sent(ListWork)] == [
        (THERE, ListWork(1, module.ROWS_MAX)),
        ("third/local", ListWork(1, module.ROWS_MAX)),
    ]
    actor = ActorFact(b"a" * 16, "A", "", "space", "ALIVE", JOB, THERE, 5)
    desk.tell(THERE, WorkListed(1, [actor], [task(1, is_away=True), task(2)]))
    assert not desk.take_sent(WorkListed)
    desk.tell(THERE, WorkListed(1, [actor], []))  # a second time
    desk.tell("driver-1", WorkListed(1, [actor], []))  # nobody that was asked
    desk.tell("third/local", WorkListed(1, [], [task(1), task(2, "PENDING_NODE_ASSIGNMENT", is_away=True)]))
    target, reply = answer(desk)
    assert (target, reply.request, reply.actors, reply.silent) == (DRIVER, 7, [actor], [])
    assert [(fact.task_id[-1], fact.state, fact.is_away) for fact in reply.tasks] == [
        (1, "RUNNING", False),
        (2, "RUNNING", False),
    ]
    assert not desk.scheduler.listings.open


def test_node_that_is_silent_is_named():
    desk = Cluster()
    desk.tell(DRIVER, ListWork(7))
    desk.tell(THERE, WorkListed(1, [], [task(1)]))
    desk.timer("Listings.answer_without_silent")
    _, reply = answer(desk)
    assert reply.silent == ["third/local"] and len(reply.tasks) == 1
    desk.tell("third/local", WorkListed(1, [], []))
    assert not desk.take_sent(WorkListed)


def test_question_of_another_node_is_answered_from_here_alone():
    desk = Cluster()
    desk.submit(desk.new_spec())
    desk.take_sent()
    desk.tell(THERE, ListWork(3))
    target, reply = answer(desk)
    assert target == THERE and reply.request == 3 and len(reply.tasks) == 1
    assert not desk.take_sent(ListWork)


def test_so_many_questions_are_open_and_no_more(monkeypatch):
    monkeypatch.setattr(module, "LISTINGS_MAX", 2)
    desk = Cluster()
    for number in range(3):
        desk.tell(DRIVER, ListWork(number))
    assert len(desk.scheduler.listings.open) == 2
    assert answer(desk)[1].request == 2


def listed(desk):
    desk.tell(DRIVER, ListWork(7))
    return answer(desk)[1]


def test_ended_tasks_are_listed_for_a_while():
    desk = Desk(cpus=1)
    ended = desk.scheduler.ended
    desk.submit(*(desk.new_spec() for _ in range(4)))
    worker = desk.give_birth()
    desk.finish_one(worker, bytes((TASK_ERROR,)))
    desk.finish_one(worker, encode_system_error("OutOfMemoryError", "text", {"pid": 9}))
    desk.finish_one(worker, encode_system_error("NewError", "text"))
    desk.finish_one(worker)
    facts = [(f.task_id[-1], f.name, f.state, f.error_type, f.pid) for f in listed(desk).tasks]
    assert facts == [
        (3, "f", "FAILED", "NewError", 101),
        (2, "f", "FAILED", "OUT_OF_MEMORY", 101),
        (1, "f", "FAILED", "TASK_EXECUTION_EXCEPTION", 101),
        (4, "f", "FINISHED", "", 101),
    ]
    assert (ended.finished.maxlen, ended.failed.maxlen) == (listing.FINISHED_MAX, listing.FAILED_MAX)


def test_task_of_a_worker_that_died_has_its_pid():
    desk = Desk(cpus=1)
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(max_retries=0))
    desk.submit(spec)
    worker = desk.give_birth()
    del desk.queues[worker]
    desk.tell("host", WorkerExited(worker, "killed by signal 9", 0, pid=101))
    (fact,) = listed(desk).tasks
    assert (fact.state, fact.error_type, fact.pid) == ("FAILED", "WORKER_DIED", 101)


def test_task_that_ran_elsewhere_is_listed_as_it_ended_there():
    desk = Cluster()
    desk.tell(DRIVER, ListWork(7))
    ended = task(1, "FINISHED", error_type="")
    again = task(2, "RUNNING")
    desk.tell(THERE, WorkListed(1, [], [task(1, is_away=True), again]))
    desk.tell("third/local", WorkListed(1, [], [ended, task(2, "FAILED", error_type="WORKER_DIED")]))
    assert [(fact.task_id[-1], fact.state) for fact in answer(desk)[1].tasks] == [(2, "RUNNING"), (1, "FINISHED")]


def test_dead_actors_are_listed_with_the_pid_of_their_process():
    desk = ActorDesk()
    actor = b"a" * 16
    desk.create(actor, ActorOptions({}, class_name="A"))
    desk.give_birth()
    (worker,) = desk.actors
    desk.construct(worker)
    pid = desk.scheduler.pool.workers[worker].process.pid
    assert [(fact.state, fact.pid) for fact in listed(desk).actors] == [("ALIVE", pid)]
    processes = {
        fact.kind: (fact.pid, fact.actor_id) for fact in listed(desk).workers if fact.actor_id or fact.pid == 1
    }
    assert processes == {"driver": (1, b""), "worker": (pid, actor)}
    desk.tell(DRIVER, KillActor(actor))
    assert [(fact.actor_id, fact.state, fact.pid) for fact in listed(desk).actors] == [(actor, "DEAD", pid)]
    assert listed(desk).tasks == []  # its creation is none of its own


def test_failed_tasks_have_room_beside_many_that_wait_and_the_others_are_counted():
    desk = Desk(cpus=1)
    desk.submit(*(desk.new_spec() for _ in range(9)))
    worker = desk.give_birth()
    desk.finish_one(worker, bytes((TASK_ERROR,)))
    desk.take_sent()
    desk.tell(DRIVER, ListWork(7, 4))
    _, reply = answer(desk)
    assert len(reply.tasks) == 4 and [fact.state for fact in reply.tasks].count("FAILED") == 1
    assert reply.left_out == 5
    assert listed(desk).left_out == 0


def test_many_tasks_of_other_nodes_are_asked_for_and_cut_with_a_count(monkeypatch):
    monkeypatch.setattr(module, "ROWS_MAX", 2)
    desk = Cluster()
    desk.tell(DRIVER, ListWork(7, 6))
    assert [message.most for _, message in desk.take_sent(ListWork)] == [3, 3]  # a share of each
    there = [task(number, "PENDING_NODE_ASSIGNMENT") for number in range(1, 4)]
    desk.tell(THERE, WorkListed(1, [], there, left_out=10))
    ended = [task(4, "FAILED", error_type="WORKER_DIED"), task(5, "FINISHED")]
    desk.tell("third/local", WorkListed(1, [], [*ended, *(task(number) for number in range(6, 9))]))
    _, reply = answer(desk)
    numbers = [fact.task_id[-1] for fact in reply.tasks]
    assert numbers == [1, 2, 3, 6, 7, 4] and reply.left_out == 11
