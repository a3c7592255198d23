"""Each program alone, without faults: the result of the sequential run, and nothing left."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.sim.main import run_program, sweep_program
from zray.sim.workloads import GROUP_PROGRAMS, PROGRAMS, PROGRAMS_OF_CLUSTERS, RECOVERY_PROGRAMS

pytestmark = pytest.mark.sim

ALL = [*PROGRAMS, *GROUP_PROGRAMS, *RECOVERY_PROGRAMS]
OF_ONE_NODE = [name for name in ALL if name not in PROGRAMS_OF_CLUSTERS]


@pytest.mark.parametrize("cpus", [1, 3])
@pytest.mark.parametrize("name", OF_ONE_NODE)
def test_on_one_node(name, cpus):
    for seed in range(1, 4):
        outcome = sweep_program(name, seed=seed, cpus=cpus)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("name", ALL)
def test_on_three_nodes(name):
    for seed in range(1, 4):
        outcome = sweep_program(name, seed=seed, nodes=3, cpus=1)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("kills", [1, 5])
@pytest.mark.parametrize("name", OF_ONE_NODE)
def test_with_workers_that_are_killed(name, kills):
    for seed in range(1, 4):
        outcome = sweep_program(name, seed=seed, kills=kills, kill_probability=0.05)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("late", [0.31, 0.5, 25.0])
def test_what_no_node_has_waits_for_one_that_joins(nodes, late):
    for seed in range(1, 6):
        outcome = sweep_program("patient", seed=seed, nodes=nodes, cpus=1, infeasible="wait", late_node_seconds=late)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("nodes, kills", [(1, 0), (1, 5), (3, 0), (3, 5)])
@pytest.mark.parametrize("cpus", [1, 3])
def test_each_task_runs_in_its_environment(nodes, kills, cpus):
    for seed in range(1, 11):
        outcome = sweep_program("environments", seed=seed, nodes=nodes, cpus=cpus, kills=kills, kill_probability=0.02)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("nodes, kills, breaks", [(1, 0, 0), (3, 0, 0), (3, 5, 5), (5, 0, 5)])
def test_code_travels_with_tasks(nodes, kills, breaks):
    for seed in range(1, 11):
        options = {"kills": kills, "kill_probability": 0.02, "breaks": breaks}
        outcome = sweep_program("code", seed=seed, nodes=nodes, cpus=1, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_code_travels_where_nodes_die():
    for seed in range(1, 11):
        options = {"node_kills": 2, "node_kill_probability": 0.02, "node_freezes": seed % 2}
        outcome = sweep_program("code", seed=seed, nodes=4, cpus=1, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_what_a_call_takes_is_held_until_the_other_node_holds_it_though_the_call_is_done():
    """A call that may be repeated, of another node, whose actor keeps the ref: its answer came before the shard's."""
    options = {"kills": 1, "kill_probability": 0.02, "breaks": 3, "inline_bytes_max": 1000}
    outcome = run_program("ledger", seed=3362, nodes=3, cpus=3, delay="loaded", **options)
    assert not outcome.error, outcome.error


@pytest.mark.parametrize(
    "name, seeds", [("ledger", range(1, 16)), ("relay", (*range(1, 16), 22, 49, 157)), ("maker", range(1, 16))]
)
def test_actors_that_recover_do_so_elsewhere_when_one_node_dies(name, seeds, monkeypatch):
    """Whichever it is; whatever else happens to their processes and connections; also if they call each other."""
    from zray.sim import recovery_programs

    monkeypatch.setattr(recovery_programs, "FINAL", recovery_programs.FINAL_OF_PROCESSES)
    for seed in seeds:
        options = {"kills": 2 * (seed % 2), "kill_probability": 0.02, "breaks": seed % 3, "node_kills": 1}
        outcome = sweep_program(name, seed=seed, nodes=3, cpus=1 + seed % 3, node_kill_probability=0.02, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("seed", [5, 7])
def test_a_call_of_an_actor_that_recovers_says_which_actor_is_lost_with_both_its_nodes(seed):
    outcome = sweep_program("maker", seed=seed, **MIXTURES["nodes die"])
    assert not outcome.error, outcome.error


@pytest.mark.parametrize("name, seeds", [("giver", (11, 18, 20)), ("maker", (3, 18))])
def test_an_actor_that_is_lost_with_both_its_nodes_is_not_made_anew_without_its_state(name, seeds):
    """The maker of an actor, which runs its calls again, created it once more, and other callers had no error."""
    for seed in seeds:
        outcome = sweep_program(name, seed=seed, **MIXTURES["nodes die"])
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("seed", [70, 155, 177, 260])
def test_an_actor_that_looks_for_a_home_is_known_to_no_other_node(seed):
    """The maker's node was lost, and the actor made anew: calls by earlier handles were lost with the first one."""
    outcome = sweep_program("giver", seed=seed, **MIXTURES["nodes die"])
    assert not outcome.error, outcome.error


def test_an_offer_of_a_lost_node_that_ends_at_once_does_not_end_the_node():
    """The actor's log had not come whole: the actor's end changed the table that was looked through."""
    options = {"node_kills": 2, "node_kill_probability": 0.005, "breaks": 3, "kills": 2, "kill_probability": 0.02}
    outcome = sweep_program("giver", seed=2122, nodes=5, cpus=1, **options)
    assert not outcome.error, outcome.error


def test_an_actor_whose_home_has_asked_twice_for_another_keeps_its_backup():
    """Two nodes were lost; the refusal of the second offer ended the backup, and callers waited for ever."""
    outcome = sweep_program("giver", seed=33, **MIXTURES["nodes die"])
    assert not outcome.error, outcome.error


@pytest.mark.parametrize("name", ["giver", "maker"])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_actors_that_are_passed_on_by_their_maker_are_made_once(mixture, name):
    for seed in range(1, 7):
        outcome = sweep_program(name, seed=seed, **MIXTURES[mixture])
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def survives(name, seed, monkeypatch, probability=0.02):
    """No caller notices that a node dies, whatever else happens to processes and connections."""
    from zray.sim import recovery_programs

    monkeypatch.setattr(recovery_programs, "FINAL", recovery_programs.FINAL_OF_PROCESSES)
    options = {"kills": 2 * (seed % 2), "kill_probability": 0.02, "breaks": seed % 3, "node_kills": 1}
    outcome = run_program(
        name, seed=seed, nodes=3 + seed % 2, cpus=1 + seed % 3, node_kill_probability=probability, **options
    )
    assert not outcome.error, f"seed {seed}: {outcome.error}"


def often(random):
    """What a couple is run with, to have checkpoints often."""
    return (random.choice((1, 1, 2, 3)), 40, 1, "room", True)


@pytest.mark.parametrize("orphans_bytes_max", [0, 64 << 20])
@pytest.mark.parametrize("seed", [37, 56, 57, 65])
def test_what_actors_that_recover_have_made_is_found_from_another_node_too(seed, orphans_bytes_max, monkeypatch):
    """The actors' homes are asked for; who has a handle on them keeps it.  So is what was under way to them."""
    from zray.roles.local_scheduler.actor_logs import answers

    monkeypatch.setattr(answers, "ORPHANS_BYTES_MAX", orphans_bytes_max)  # the last one is kept in any case
    survives("maker", seed, monkeypatch)


@pytest.mark.parametrize("seed", [21, 38, 44, 64, 85, 123, 140, 162])
def test_large_answers_that_lay_on_the_lost_node_are_not_made_once_more(seed, monkeypatch):
    """The actor that was asked was on that node too; its guardian knows that it has answered."""
    survives("couple", seed, monkeypatch)


@pytest.mark.parametrize("seed", [1, 10, 21, 26, 50, 71])
def test_large_answers_that_nobody_had_yet_are_given_again_by_the_calls_that_run_again(seed, monkeypatch):
    """They lay on the lost node alone: who sent the call again got an ObjectLostError."""
    from zray.sim import maker_programs

    monkeypatch.setattr(maker_programs, "ALLOWED", ())
    survives("couple", seed, monkeypatch)


@pytest.mark.parametrize("seed", [23, 26, 40, 63, 96, 184])
def test_so_are_those_of_calls_that_are_in_the_last_checkpoint(seed, monkeypatch):
    """Their callers have them before the guardian has that checkpoint."""
    from zray.sim import maker_programs, workloads

    monkeypatch.setitem(workloads.SPECIAL_PROGRAMS, "couple", (workloads.SPECIAL_PROGRAMS["couple"][0], often))
    monkeypatch.setattr(maker_programs, "ALLOWED", ())
    survives("couple", seed, monkeypatch, 0.01)


@pytest.mark.parametrize("seed", [1, 3, 134])
def test_large_answers_count_little_against_what_is_kept_of_calls_of_calls(seed, monkeypatch):
    """Only refs on them are kept: those calls ran twice, as if their answers lay in the node's memory."""
    from zray.roles.local_scheduler.actor_logs import nested

    monkeypatch.setattr(nested, "NESTED_BYTES_MAX", 4_000)
    survives("couple", seed, monkeypatch)


@pytest.mark.parametrize("seed", [69, 199])
def test_a_handle_is_of_the_actor_that_was_made_anew_where_a_former_one_has_ended(seed, monkeypatch):
    """The guardian had made it again and seen it off, as nobody had a handle; its maker then made it once more."""
    from zray.sim import maker_programs, workloads

    monkeypatch.setitem(workloads.SPECIAL_PROGRAMS, "couple", (workloads.SPECIAL_PROGRAMS["couple"][0], often))
    monkeypatch.setattr(maker_programs, "ALLOWED", ())
    survives("couple", seed, monkeypatch, 0.01)


@pytest.mark.parametrize("seed", [79, 291, 397, 443, 466])
def test_an_actor_that_is_handed_on_before_the_call_that_made_it_has_ended_is_not_made_anew(seed, monkeypatch):
    """The call's node was lost: who had the handle saw the actor dead, or what it had done there was gone."""
    from zray.sim import giver_programs

    monkeypatch.setattr(giver_programs, "ALLOWED", ())
    survives("giver", seed, monkeypatch)


@pytest.mark.parametrize("late_calls_max", [3, 1000])
def test_large_answers_that_nobody_has_pulled_are_given_again_within_a_bound(late_calls_max, monkeypatch):
    """Their caller's node knows of them, and they lay on the lost node alone.  What is in a checkpoint may be lost."""
    from zray.roles.local_scheduler.actor_logs import shipping
    from zray.sim import recovery_programs

    monkeypatch.setattr(shipping, "LATE_CALLS_MAX", late_calls_max)
    if late_calls_max == 1000:
        monkeypatch.setattr(recovery_programs, "ALLOWED", ())
    for seed in range(1, 16):
        survives("hoard", seed, monkeypatch)


def test_what_a_call_has_called_is_made_again_until_it_has_ended_though_its_own_effect_is_in_a_checkpoint():
    """The node was lost with it; nobody else knew that it was to be made."""
    outcome = run_program("relay", seed=144, nodes=4, cpus=1, node_kills=1, node_kill_probability=0.01)
    assert not outcome.error, outcome.error


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_the_calls_of_actors_that_recover_have_made_has_its_effect_once_too(nodes):
    """They are run again, and call others and their own actor: those calls are known, and so is what they returned."""
    for seed in range(1, 16):
        options = {"kills": 6 * (1 + seed % 2), "kill_probability": 0.03, "breaks": seed % 3}
        outcome = sweep_program("relay", seed=seed, nodes=nodes, cpus=3, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("name, nodes", [("maker", 1), ("maker", 3), ("couple", 3), ("couple", 4)])
def test_what_the_calls_of_actors_that_recover_have_made_is_made_once(name, nodes):
    """Actors, by their constructors and by their calls; others call these too."""
    for seed in range(1, 16):
        options = {"kills": 6 * (1 + seed % 2), "kill_probability": 0.03, "breaks": seed % 3}
        outcome = sweep_program(name, seed=seed, nodes=nodes, cpus=3, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("nodes", [1, 3])
def test_actors_that_recover_have_each_effect_once(nodes):
    """However often their processes are killed."""
    for seed in range(1, 21):
        options = {"kills": 8, "kill_probability": 0.03, "breaks": seed % 3}
        outcome = sweep_program("ledger", seed=seed, nodes=nodes, cpus=1 + seed % 3, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_calls_behind_many_that_had_run_before_their_node_was_lost_run_on_the_next(monkeypatch):
    """They are sent again together; of the first ones the answers are known, as many as are under way at once."""
    from zray.roles.local_scheduler.actors import calls
    from zray.sim import recovery_programs

    monkeypatch.setattr(calls, "CALLS_IN_FLIGHT_MAX", 1)
    monkeypatch.setattr(recovery_programs, "FINAL", recovery_programs.FINAL_OF_PROCESSES)
    for seed in (3, 64, 88):
        outcome = run_program("ledger", seed=seed, nodes=3, cpus=2, node_kills=1, node_kill_probability=0.02)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
