"""A fixed list of seeds: each a whole run of the roles in virtual time, with its own programs and faults."""

import pytest

from tests.sim.sweeps import CHUNK, HALF, assert_all_is_well, sweep
from zray.sim.main import run_program

pytestmark = pytest.mark.sim

ONE_NODE_CHUNKS = 15
THREE_NODE_CHUNKS = 5
REPLICATED_CHUNKS = 1
DEATH_CHUNKS = 2
HEAD_CHUNKS = 1
DRAIN_CHUNKS = 1


@pytest.mark.parametrize("chunk", range(ONE_NODE_CHUNKS))
def test_one_node(chunk):
    """Kills, broken links, slow workers, failing starts, small stores."""
    sweep(range(1 + chunk * CHUNK, 1 + (chunk + 1) * CHUNK), nodes=1)


@pytest.mark.parametrize("chunk", range(THREE_NODE_CHUNKS))
def test_three_nodes(chunk):
    """Tasks that go up and come down, objects that are pulled, cuts that heal."""
    sweep(range(1 + chunk * CHUNK, 1 + (chunk + 1) * CHUNK), nodes=3)


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("chunk", range(REPLICATED_CHUNKS))
def test_replicated_shards(chunk, nodes, replicas):
    """Members of the chain are killed at any message, or expelled though they live; others take their places."""
    sweep(range(1 + chunk * CHUNK, 1 + (chunk + 1) * CHUNK), nodes=nodes, replicas=replicas)


@pytest.mark.parametrize("nodes", [2, 3, 5])
@pytest.mark.parametrize("chunk", range(DEATH_CHUNKS))
def test_deaths_of_nodes(chunk, nodes):
    """Whole nodes are killed at any message: what was there is made again, and nothing is left of them."""
    sweep(range(1 + chunk * CHUNK, 1 + (chunk + 1) * CHUNK), nodes=nodes, deaths=True)


@pytest.mark.parametrize("nodes, shards, replicas", [(4, 3, 0), (3, 2, 2)])
def test_deaths_of_nodes_with_several_shards(nodes, shards, replicas):
    """Records are kept from shard to shard, and let go of."""
    sweep(range(1, 1 + CHUNK), nodes=nodes, replicas=replicas, deaths=True, shards=shards)


@pytest.mark.parametrize("nodes, deaths, shards", [(4, 0, 1), (4, 0, 2), (5, 1, 1)])
@pytest.mark.parametrize("chunk", range(HEAD_CHUNKS))
def test_heads_that_are_killed_and_started_again(chunk, nodes, deaths, shards):
    """A head is killed at any message and goes on with its state folder.  Nothing of others is lost or done twice."""
    seeds = range(1 + chunk * CHUNK, 1 + (chunk + 1) * CHUNK)
    sweep(seeds, nodes=nodes, deaths=bool(deaths), heads=True, shards=shards)


def test_heads_whose_chains_reach_other_nodes():
    """What is acknowledged is in the head's log, or with who was noted as the only one that has it."""
    sweep(range(1, 1 + CHUNK), nodes=5, heads=True, deaths=True, shards=2, replicas=2)


@pytest.mark.parametrize(
    "nodes, asked",
    [
        (1, {}),
        (3, {}),
        (3, {"deaths": True}),
        (4, {"heads": True}),
        (4, {"drains": True, "deaths": True}),
        (3, {"shards": 2, "replicas": 2}),
        (5, {"heads": True, "drains": True, "deaths": True, "shards": 2}),
    ],
    ids=str,
)
def test_drivers_and_fork_servers_are_killed_at_any_message(nodes, asked):
    """All of a driver's job is gone with it, on each node, and nothing else; the others' programs do not notice."""
    sweep(range(1, 1 + HALF), nodes=nodes, crashes=True, **asked)


def test_a_task_that_was_given_back_and_came_by_another_way_asks_no_more():
    """Its node was told to leave, and somebody else had it made again."""
    assert_all_is_well([9031], nodes=4, cuts=True, deaths=True, drains=True, replicas=2)


def test_a_task_that_comes_down_where_its_job_has_ended_does_not_begin_it_again():
    """It had gone up from the driver's own node, and that driver was killed meanwhile."""
    assert_all_is_well([44], nodes=4, heads=True, crashes=True)


def test_puts_that_are_refused_one_after_another_take_their_time():
    """A worker in such a put keeps its CPU; who could make room waits for that."""
    assert_all_is_well([70850], nodes=0)


def test_a_lost_object_that_others_hold_too_is_let_go():
    """What stands in its place on a node is no copy that the shard would free."""
    assert_all_is_well([81110], nodes=5, deaths=True, shards=2)


def test_an_old_word_that_frees_a_copy_made_anew_is_corrected():
    """The shard believed in a copy that was gone, and who wanted it asked for it without end."""
    assert_all_is_well([500119], nodes=3)


def test_a_record_that_is_under_way_to_its_shard_is_not_lost():
    """The other shard, that of a task that takes its result, has heard of its own already."""
    assert_all_is_well([502188], nodes=3, shards=2, replicas=2)


def test_tasks_that_are_over_wait_for_no_code():
    """Whoever was to publish it was gone, and the list of those that waited stayed."""
    assert_all_is_well([18022, 18025], nodes=3, deaths=True, groups=True)


def test_a_node_counts_what_global_schedulers_place_and_nobody_else():
    """One count per peer that had ever handed it a task stayed for good."""
    assert_all_is_well([1011], nodes=3)


def test_an_actor_that_no_process_could_be_had_for_is_dead_when_its_node_is_lost():
    """Nobody makes it again; its callers had not heard why, as its node was cut off first."""
    assert_all_is_well([7101059], nodes=3, deaths=True)


def test_a_far_chain_takes_longer_to_rest():
    assert_all_is_well([522258], nodes=3, shards=2, replicas=2)


@pytest.mark.parametrize(
    "nodes, deaths, heads, shards, replicas", [(3, 0, 0, 1, 0), (5, 0, 0, 2, 0), (4, 1, 0, 1, 2), (4, 0, 1, 1, 0)]
)
@pytest.mark.parametrize("chunk", range(DRAIN_CHUNKS))
def test_nodes_that_leave_in_order(chunk, nodes, deaths, heads, shards, replicas):
    """Nothing fails, nothing is left; the head may die with the order, or before it has heard that all is done."""
    seeds = range(1000 + chunk * HALF, 1000 + (chunk + 1) * HALF)
    asked = {"nodes": nodes, "replicas": replicas, "deaths": bool(deaths), "heads": bool(heads), "shards": shards}
    sweep(seeds, drains=True, **asked)


@pytest.mark.parametrize("seeds, replicas", [((31113, 32565, 34224), 0), ((30170, 31117, 33927), 2)])
def test_an_actor_may_have_a_cpu_that_a_task_of_another_node_has_lent_out(seeds, replicas):
    """That task may wait for the actor."""
    assert_all_is_well(seeds, nodes=3, replicas=replicas)


@pytest.mark.parametrize("nodes, deaths", [(1, 0), (3, 0), (3, 1)])
def test_whoever_asks_why_it_waits_is_answered(nodes, deaths):
    """And asking changes nothing."""
    sweep(range(1, 1 + HALF), nodes=nodes, deaths=bool(deaths), curious=True)


@pytest.mark.parametrize("nodes, deaths, heads", [(3, 0, 0), (3, 1, 0), (4, 0, 1)])
def test_placement_groups_where_nodes_leave_and_die(nodes, deaths, heads):
    """Their bundles move, and what runs in them goes on."""
    asked = {"nodes": nodes, "deaths": bool(deaths), "heads": bool(heads)}
    sweep(range(1, 1 + HALF), groups=True, drains=True, **asked)


def test_cpus_of_a_removed_group_go_in_the_same_turn_to_a_worker_that_has_lent_its_own():
    assert_all_is_well([1314])


@pytest.mark.parametrize("seeds, nodes, drains", [((66,), 3, False), ((1078,), 3, True), ((1056, 1093), 4, True)])
def test_nothing_runs_in_a_bundle_before_it_is_the_groups(seeds, nodes, drains):
    """An actor that did kept it reserved when it was given back, and no other bundle could take its place."""
    assert_all_is_well(seeds, nodes=nodes, deaths=True, drains=drains, groups=True)


def test_an_actor_that_waits_for_its_bundle_has_no_guardian():
    """It was handed over to the node of its bundle, and its first guardian never heard of its end."""
    assert_all_is_well([1093], nodes=4, heads=True, groups=True)


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 4, "node_drains": 2},
        {"nodes": 5, "node_drains": 3, "shards": 2},
        {"nodes": 5, "node_drains": 2, "head_kills": 2, "head_kill_probability": 0.003},
    ],
)
def test_actors_that_may_be_restarted_go_on_where_their_nodes_leave(options):
    """They do not keep the nodes, and calls that may be repeated do not notice."""
    for seed in range(1, 9):
        delay = ("local", "even", "loaded", "far")[seed % 4]
        outcome = run_program("survivors", seed=seed, delay=delay, cpus=2, fault_seconds=1.0, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize(
    "seed, options",
    [
        (447043, {"nodes": 12, "deaths": True}),
        (545062, {"nodes": 8, "deaths": True, "drains": True}),
        (547014, {"nodes": 20}),
    ],
)
def test_programs_that_choose_nodes_know_all_of_a_large_cluster(seed, options):
    assert_all_is_well([seed], **options)


@pytest.mark.parametrize("seed", [701064, 701085])
def test_what_comes_for_a_job_that_has_ended_does_not_bring_it_back(seed):
    """An actor that was on its way to a node when that was told; results of tasks that are about to end."""
    assert_all_is_well([seed], nodes=3, deaths=True, crashes=True, tight=True)


def test_tasks_of_a_removed_group_end_once():
    """The end of one was the argument of another, which went back to where it came from, and ended here too."""
    assert_all_is_well([21024], nodes=3, groups=True, crashes=True)


def test_what_a_repeated_task_holds_again_is_recorded_again():
    """Its node had let go of it, and the shard had forgotten how it is made."""
    assert_all_is_well([1000224], nodes=2, replicas=1, drains=True, crashes=True, tight=True)


def test_tasks_of_a_driver_that_was_killed_do_not_go_up_again():
    assert_all_is_well([1000280], nodes=5, shards=2, deaths=True, drains=True, crashes=True, curious=True)


def test_a_member_that_hears_late_of_two_changes_has_the_last_question_of_its_successor():
    """The first one was still there, and there was no room for another: the successor waited for ever."""
    assert_all_is_well([1000638], nodes=3, replicas=3, deaths=True, drains=True, crashes=True, tight=True)


def test_an_actor_that_does_not_stay_waits_for_no_code():
    assert_all_is_well([1000872], nodes=7, replicas=1, deaths=True, drains=True, crashes=True, tight=True)


def test_a_guardian_that_hands_an_actor_on_lets_go_of_its_handle():
    """It had taken it from a node that left, for handles of others only; and nobody heard that it held none."""
    assert_all_is_well([5121], nodes=4, replicas=2, deaths=True, drains=True, curious=True, tight=True)


def test_a_pool_may_exceed_its_cap_where_tasks_wait_for_those_in_groups():
    assert_all_is_well([1004233], nodes=1, replicas=3)


def test_a_replica_that_is_declared_lost_before_it_is_in_a_chain_is_replaced():
    """It went on, as nobody's spare; its node ran a replica, but none that a chain could take in."""
    assert_all_is_well([1005545], nodes=6, shards=2, replicas=3, groups=True, crashes=True)


def test_a_replica_whose_disk_fails_makes_room_for_another():
    """What it says last may be lost: whose child it was sees its end."""
    assert_all_is_well([12060005, 12060015, 12060017, 12060019], nodes=4, replicas=2, disks=True)


def test_a_tail_whose_disk_is_behind_may_not_know_yet_who_is_lost():
    assert_all_is_well(
        [13000046], nodes=4, shards=2, replicas=2, deaths=True, drains=True, groups=True, crashes=True, disks=True
    )


def test_a_shard_knows_who_waits_for_code_no_more():
    """Its job was lost before the shard had the code: it had kept the name of who asked for good."""
    assert_all_is_well([13001115], nodes=4, shards=2, replicas=2, crashes=True, cuts=True, disks=True, weather=True)


@pytest.mark.parametrize(
    "seed, options",
    [
        (13300000, {"nodes": 3, "replicas": 2}),
        (13300001, {"nodes": 3, "deaths": True}),
        (13300002, {"nodes": 4, "weather": True, "groups": True}),
    ],
)
def test_global_schedulers_are_killed_beside_the_head_and_nobody_waits_for_one(seed, options):
    assert_all_is_well([seed], schedulers=True, **options)


def test_a_cut_that_begins_late_counts_as_a_fault():
    """The nodes had met late: a line was cut when all was to be at rest, and a node had not heard of a job's end."""
    options = {"drains": True, "groups": True, "cuts": True, "disks": True, "curious": True}
    assert_all_is_well([20202328], nodes=10, replicas=2, heads=True, **options)


def test_a_newcomer_does_not_wait_for_a_global_scheduler_that_ended_as_it_joined():
    assert_all_is_well([13300122], nodes=4, shards=2, drains=True, crashes=True, schedulers=True)


def test_an_actor_that_is_offered_to_a_node_that_is_lost_asks_again():
    """Its origin had heard of that node's end, and asked again, before the global scheduler had."""
    options = {"shards": 2, "replicas": 3, "deaths": True, "disks": True, "oneway": True, "tight": True}
    assert_all_is_well([13310018], nodes=4, schedulers=True, **options)


def test_lines_that_are_about_to_be_clogged_count_as_faults():
    """A node that is cut off at the end has heard of no job's end."""
    assert_all_is_well([14002376], nodes=7, shards=3, deaths=True, weather=True)


def test_a_worker_that_makes_again_what_is_on_its_way_here_does_not_wait_for_room():
    """It came before there was room to write it: a job waited for ever, and a node that was to leave stayed."""
    options = {"drains": True, "groups": True, "crashes": True}
    assert_all_is_well([13500079], nodes=6, replicas=2, heads=True, disks=True, **options)
    assert_all_is_well([14002187], nodes=12, deaths=True, **options)


def test_a_global_scheduler_that_knows_no_node_yet_refuses_nothing():
    assert_all_is_well([14002875], nodes=4, shards=2, replicas=2, groups=True, cuts=True, oneway=True, schedulers=True)


def test_a_value_is_announced_when_the_shards_know_who_makes_what_is_inside():
    """Its shard was quicker than another one: who took a ref from it recorded a task that nobody could repeat."""
    options = {"drains": True, "crashes": True, "cuts": True, "disks": True, "schedulers": True}
    assert_all_is_well([14002831], nodes=6, shards=3, replicas=2, deaths=True, **options)


def test_a_task_that_goes_up_when_its_value_is_here_already_is_over_when_another_node_has_run_it():
    """It was to be made again where a copy came just then: it stayed for ever, and so did all copies."""
    options = {"deaths": True, "curious": True, "groups": True, "cuts": True, "disks": True}
    assert_all_is_well([14000596], nodes=12, replicas=2, heads=True, **options)


def test_a_copy_that_a_program_reads_outlives_another_one_that_does_not_come():
    """Another node had wanted it kept, and none gave it: its bytes became another object's."""
    assert_all_is_well([15500077], nodes=5, shards=3, drains=True, deaths=True)


@pytest.mark.parametrize("seed", [15825010, 15825054])
def test_what_only_a_lost_node_knew_of_may_lack_what_it_takes_until_it_goes(seed):
    """The shard of that had let go of it before the word came; nobody who lives has a ref on anything made of it."""
    options = {"deaths": True, "crashes": True, "cuts": True, "weather": True, "tight": True}
    assert_all_is_well([seed], nodes=6, shards=5, replicas=1, **options)


def test_a_node_that_cannot_make_what_it_had_asked_for_waits_for_no_answer():
    """Its driver had ended, and the list of what it asks for kept that for good: nobody would have asked again."""
    options = {"deaths": True, "crashes": True, "cuts": True, "weather": True, "tight": True}
    assert_all_is_well([15825043], nodes=6, shards=5, replicas=1, **options)


def test_an_actor_whose_guardian_let_go_before_the_shard_heard_of_it_goes_with_its_node():
    """The shard waited for that guardian's claim for ever; so did who asked."""
    options = {"deaths": True, "groups": True, "crashes": True, "cuts": True, "disks": True, "weather": True}
    assert_all_is_well([20202842], nodes=3, replicas=2, tight=True, **options)


def test_an_actor_that_is_dead_is_not_offered_to_its_own_node_again():
    """Its first offer was slow; the second one, when it was dead, made its death forgotten."""
    options = {"deaths": True, "crashes": True, "cuts": True, "schedulers": True, "weather": True}
    assert_all_is_well([20202411], nodes=8, shards=1, **options)


def test_a_call_that_has_failed_while_its_actor_is_made_again_keeps_no_handle():
    """Of an actor whose node was lost: nobody else let it go, so that it lived for ever."""
    options = {"curious": True, "heads": True, "drains": True, "crashes": True, "cuts": True, "disks": True}
    assert_all_is_well([20201086], nodes=10, replicas=1, oneway=True, **options)


def test_what_lives_on_a_head_may_end_with_it():
    """An actor that asks for nothing, while all other nodes are busy."""
    assert_all_is_well([20202596], nodes=4, shards=3, heads=True, cuts=True, weather=True)


def test_a_program_outside_is_cut_off_when_it_has_been_told_for_how_long_it_may_be():
    """The head was killed before its first answer, and the line was cut before that of the next one."""
    options = {"heads": True, "crashes": True, "cuts": True, "disks": True, "oneway": True, "weather": True}
    assert_all_is_well([22001051], nodes=4, shards=3, replicas=1, tight=True, **options)


def test_calls_on_an_actor_of_which_the_shard_never_heard_end_with_their_driver():
    """Its maker was cut off before it could say where it had placed it: the calls of its tasks stayed for ever."""
    assert_all_is_well([22500232], nodes=3, shards=2, replicas=2, cuts=True, oneway=True, schedulers=True, weather=True)


def test_a_readonly_call_sees_nothing_of_what_its_caller_has_called_after_it():
    """Its node was lost before its answer came, and later calls were in the log: it was run again behind them."""
    options = {"deaths": True, "drains": True, "crashes": True, "disks": True, "oneway": True, "schedulers": True}
    assert_all_is_well([30000144], nodes=6, shards=2, replicas=3, tight=True, **options)


def test_a_value_from_a_node_that_is_lost_has_come_if_what_is_inside_is_there():
    """A program was cut off for 58 s from that node, and read then what had been sent to it before; or from the shards.
    Its task took a ref from inside, of which these knew nothing any more.
    """
    assert_all_is_well([22003067], nodes=2, shards=2, replicas=1, deaths=True, cuts=True, disks=True, oneway=True)
    options = {"deaths": True, "curious": True, "groups": True, "crashes": True, "cuts": True, "schedulers": True}
    assert_all_is_well([30101589], nodes=3, shards=4, replicas=2, oneway=True, weather=True, **options)


def test_a_program_that_was_cut_off_waits_for_a_head_that_has_ended_since():
    """For a minute from then on, not from its last answer: that of its last second was taken for the whole."""
    options = {"deaths": True, "heads": True, "drains": True, "crashes": True, "cuts": True, "oneway": True}
    assert_all_is_well([42000259], nodes=4, shards=2, weather=True, **options)


def test_a_chain_is_at_rest_when_its_first_member_has_heard_that_all_have_it():
    """A run was looked at when the client had its answer, and the acknowledgement was still on its way back."""
    options = {"deaths": True, "drains": True, "cuts": True, "disks": True, "oneway": True, "schedulers": True}
    assert_all_is_well([33000035], nodes=8, shards=4, replicas=3, **options)


def test_an_actor_that_ends_while_it_is_handed_over_is_guarded_no_more():
    """Its group was removed where it was to live; who handed it over guarded it for good."""
    options = {"deaths": True, "groups": True, "crashes": True, "cuts": True, "weather": True}
    assert_all_is_well([911003340], nodes=3, shards=1, replicas=2, **options)


def test_a_value_whose_inside_is_to_be_held_counts_as_ordered_when_nobody_wants_it_any_more():
    """Its node was told to leave: the task that it was for had gone, and what is inside was not acknowledged yet."""
    options = {"curious": True, "drains": True, "crashes": True, "cuts": True, "disks": True}
    assert_all_is_well([50000010], nodes=7, shards=2, replicas=2, oneway=True, weather=True, **options)


def test_what_a_head_places_before_it_is_known_is_reported_to_it():
    """It took that to be under way, and in use, for good: a placement group for the whole cluster had no room."""
    assert_all_is_well([60000000, 60000051], nodes=5, heads=True)
    assert_all_is_well([60000013, 60000015], nodes=4, schedulers=True)


def test_a_group_has_its_places_though_its_shard_was_late_to_hear_of_its_keeper():
    options = {"deaths": True, "curious": True, "crashes": True, "cuts": True, "disks": True, "weather": True}
    assert_all_is_well([945000249], nodes=3, shards=5, replicas=2, schedulers=True, **options)


def test_a_node_whose_replicas_all_end_at_about_the_same_time_is_given_some_again():
    """Five deaths of five shards' replicas were five failures in a row: chains stayed alone for good."""
    options = {"deaths": True, "heads": True, "drains": True, "crashes": True, "cuts": True, "disks": True}
    assert_all_is_well([955002777], nodes=4, shards=5, replicas=2, oneway=True, tight=True, weather=True, **options)


def test_what_a_node_knows_to_have_a_place_is_not_infeasible():
    """The global scheduler that was asked had not heard of the nodes that have it."""
    assert_all_is_well([981006976], nodes=3, shards=1, cuts=True, schedulers=True)


def test_what_is_printed_before_a_node_has_been_told_of_the_drivers_node_is_heard():
    options = {"deaths": True, "crashes": True, "disks": True, "schedulers": True, "weather": True}
    assert_all_is_well([992001164], nodes=4, shards=1, replicas=3, **options)


def test_a_node_that_is_to_leave_is_no_hope_for_what_has_no_place():
    """It waited for a task that waited for that."""
    options = {"deaths": True, "drains": True, "groups": True, "cuts": True, "oneway": True, "schedulers": True}
    assert_all_is_well([971502764], nodes=10, shards=4, tight=True, weather=True, **options)


def test_actor_that_is_killed_with_its_group_owes_no_cpu():
    assert_all_is_well([700756], nodes=3, shards=1, curious=True, crashes=True, tight=True)


def test_an_actor_made_anew_waits_for_the_end_of_the_former_one():
    """The former one's node was cut off from the shard: two nodes served the actor."""
    assert_all_is_well([792034], nodes=5, shards=1, deaths=True, drains=True, crashes=True, weather=True)
