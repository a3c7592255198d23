"""When a node says how loaded it is: regularly, and when nothing is left of what others placed on it."""

from tests.roles.desk import FUNCTION, JOB
from tests.roles.test_trips import OTHER, desk_with_a_peer
from zray.roles.global_scheduler.placement import NodeLoad
from zray.roles.local_scheduler.forwarding.load import IDLE_REPORT_SECONDS
from zray.roles.work_effects import CountStore, StoreCounted
from zray.wire.amounts import STORE_MEMORY
from zray.wire.scheduling import LoadReport, PlaceTask
from zray.wire.task_spec import RESOURCE_UNIT, TaskSpec


def place(desk, *numbers, scheduler="global"):
    for number in numbers:
        desk.tell(scheduler, PlaceTask(TaskSpec(number.to_bytes(16, "big"), FUNCTION), OTHER, JOB))


def run_all(desk, worker):
    """What it says of its load meanwhile."""
    while desk.queues[worker]:
        desk.finish_one(worker)
    return [message for _, message in desk.take_sent(LoadReport)]


def desk_with_a_worker():
    desk = desk_with_a_peer()
    place(desk, 1)
    worker = desk.give_birth()
    run_all(desk, worker)
    desk.now += 2 * IDLE_REPORT_SECONDS
    desk.take_sent()
    return desk, worker


def test_who_has_done_all_that_was_placed_there_says_so_at_once():
    """Until then it counts as waiting: the next task would go to another node, and fetch its arguments there."""
    desk, worker = desk_with_a_worker()
    place(desk, 2, 3)
    (report,) = run_all(desk, worker)
    assert (report.queue_count, report.free, report.placed_count) == (0, report.total, 3)


def test_that_is_said_only_so_often():
    desk, worker = desk_with_a_worker()
    for number in range(2, 12):
        place(desk, number)
        desk.now += 0.3 * IDLE_REPORT_SECONDS
        count = len(run_all(desk, worker))
        assert count == (number % 4 == 2)


def test_of_what_its_own_programs_do_the_regular_reports_say_enough():
    desk, worker = desk_with_a_worker()
    desk.submit(desk.new_spec())
    assert run_all(desk, worker) == []


def test_what_a_scheduler_places_that_it_has_not_been_told_of_counts():
    """That of a head that was started again: what is in no report it took to be under way, and in use, for good."""
    desk, worker = desk_with_a_worker()
    desk.join_cluster()
    place(desk, 2, 3, scheduler="n9/global")
    place(desk, 4, scheduler="n9/local")
    run_all(desk, worker)
    desk.scheduler.addresses.add_schedulers(["n9/global"], ())
    desk.take_sent()
    desk.timer("Members.report")
    counts = {target: report.placed_count for target, report in desk.take_sent(LoadReport)}
    assert counts == {"global": 1, "n9/global": 2}
    assert "n9/local" not in desk.scheduler.load.placed_counts


def test_report_of_many_resources_names_those_in_use():
    """Ten reports a second name them all otherwise; a global scheduler knows the totals since the node has joined."""
    names = {f"resource-{number}": RESOURCE_UNIT for number in range(10_000)}
    desk = desk_with_a_peer()
    resources = desk.scheduler.resources
    resources.total.update(names)
    resources.free.update(names)
    total = dict(resources.total)
    resources.take({"resource-7": 4_000})
    report = desk.scheduler.load._report_for("global")
    assert (report.total, report.free) == ({}, {"resource-7": 6_000})
    load = NodeLoad("n1", total, {}, 0, 0.0, 1e9)
    load.renew(report)
    assert load.total == total
    assert load.free == {**total, "resource-7": 6_000}


def test_store_in_use_is_in_the_next_report():
    desk = desk_with_a_peer()
    desk.join_cluster()
    desk.take_sent()
    desk.scheduler.load.store_bytes = 1_000
    desk.timer("Members.report")
    assert [target for target, _ in desk.take_sent(CountStore)] == [desk.scheduler.addresses.object_manager]
    desk.tell(desk.scheduler.addresses.object_manager, StoreCounted(300))
    desk.timer("Members.report")
    (report,) = [message for _, message in desk.take_sent(LoadReport)]
    assert report.free[STORE_MEMORY] == 700 * RESOURCE_UNIT
