"""Seeds in which hosts do not hear each other: programs outside are cut off or asleep, nodes are not heard."""

import pytest

from tests.sim.sweeps import HALF, assert_all_is_well, sweep

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("nodes, asked", [(3, {}), (4, {"deaths": True, "heads": True})], ids=str)
def test_programs_outside_that_are_cut_off_or_asleep(nodes, asked):
    """Programs away for less than `--driver-wait` go on as before; programs away for longer are declared dead."""
    sweep(range(1, 1 + HALF), nodes=nodes, cuts=True, **asked)


@pytest.mark.parametrize("nodes, asked", [(4, {}), (5, {"deaths": True, "shards": 2, "replicas": 2})], ids=str)
def test_nodes_that_hear_others_and_are_not_heard(nodes, asked):
    """Cuts in one direction, between a pair or one node and all others: a node that the head hears, and that hears
    the head, is a member.
    """
    sweep(range(1, 1 + HALF), nodes=nodes, oneway=True, **asked)


def test_a_program_outside_is_heard_between_two_cuts_over_far_lines():
    """An answer takes 0.8 s there: who is cut off again sooner has been silent for longer than it may."""
    assert_all_is_well([9103000], nodes=3, replicas=2, cuts=True, weather=True)


def test_a_program_outside_that_hears_of_a_new_head_and_is_not_heard_is_fenced_before_the_verdict():
    """Its lease ran from when it had heard of that head, and the head's count from its start."""
    assert_all_is_well([17174045], nodes=5, cuts=True, deaths=True, heads=True, drains=True, groups=True)


def test_a_task_that_hears_late_of_its_drivers_end_waits_for_no_word_of_an_actor_that_is_forgotten():
    """Its handle came after all others had let go of theirs; its node's line was cut meanwhile."""
    asked = {"deaths": True, "crashes": True, "oneway": True, "schedulers": True, "tight": True, "weather": True}
    assert_all_is_well([970006288], nodes=3, shards=5, cuts=True, **asked)


@pytest.mark.parametrize("nodes, asked", [(3, {}), (5, {"replicas": 2, "heads": True}), (4, {"deaths": True})], ids=str)
def test_a_head_that_is_cut_off_from_all_others_costs_nothing(nodes, asked):
    """Its cable is out: nodes are suspended, and are judged by nobody; then all goes on."""
    sweep(range(1, 1 + HALF), nodes=nodes, alone=True, **asked)


def test_a_node_that_dies_before_it_has_registered_is_told_to_all():
    """The chain master, to which it had spoken, kept it."""
    asked = {"deaths": True, "groups": True, "disks": True, "schedulers": True, "tight": True, "weather": True}
    assert_all_is_well([961006963], nodes=3, shards=4, replicas=1, **asked)


def test_calls_that_went_with_a_node_come_ahead_of_new_ones_when_their_actor_moves_on():
    """Its new home took a new call for a sign that nothing comes again, and ran what came behind that twice."""
    assert_all_is_well([981001643], nodes=6, shards=2, replicas=1, deaths=True, crashes=True, weather=True)


def test_a_head_that_is_cut_off_looks_at_silent_nodes_again():
    """A line that was there for a moment had it forget what the look had found: it judged all others."""
    asked = {"deaths": True, "heads": True, "disks": True, "alone": True}
    assert_all_is_well([971703840], nodes=4, shards=2, replicas=2, **asked)


def test_a_head_that_is_cut_off_while_a_node_is_may_be_left_alone():
    """Two faults at once: when the first is judged, there is one other left, and it is judged as ever."""
    asked = {"deaths": True, "heads": True, "drains": True, "alone": True, "oneway": True}
    assert_all_is_well([981912119], nodes=6, shards=2, replicas=2, **asked)


def test_a_program_that_sleeps_while_the_head_hears_of_nobody_may_sleep_on():
    """When a node was heard of again all counts began anew, and its connection ended just then."""
    assert_all_is_well([991941920], nodes=8, shards=2, deaths=True, drains=True, cuts=True)


def test_a_value_that_is_taken_for_made_stays_though_the_word_that_it_goes_is_under_way():
    """Its parent ran again elsewhere, as the head was lost; the node that had run it was cut off."""
    asked = {"deaths": True, "heads": True, "drains": True, "gpus": True}
    assert_all_is_well([39000049], nodes=5, shards=4, replicas=1, cuts=True, **asked)


def test_a_task_whose_former_life_ended_on_another_node_goes_there_again():
    """The life between had run here.  The other node took the third for the first, and its parent waited for ever."""
    assert_all_is_well([783243], nodes=4, cuts=True, weather=True, tight=True)
