"""`zray whatif`: made-up records in the simulator, where durations are known, and one recorded run."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import zray
from cli.whatif import POLICIES, bytes_per_second, whatif
from zray.api.record_file import FrameWriter
from zray.api.run_records import RunRecord, read_run
from zray.ids import children_prefix, root_task_id
from zray.store.event_ring import PUT_BIT, Event, Kind, Need, Outcome, RingContent
from zray.util.placement_group import placement_group
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from zray.util.whatif.prediction import Model, Shape
from zray.util.whatif.program import Pause
from zray.wire import scheduling

ROOT_ID = root_task_id(b"whatif--")
OLD_RECORD = Path(__file__).parent / "record-1.zrec"


def child(number, parent=ROOT_ID):
    return children_prefix(parent) + number.to_bytes(6, "big")


class Made:
    """A record that is made up: processes by pid, where 1 is the program."""

    def __init__(self, *nodes):
        self.nodes = nodes or ({"CPU": 1.0},)
        self.events = {}
        self.end = 0.0

    def add(self, pid, kind, task_id, begin, end, **facts):
        times = (begin, begin, end, end)
        event = Event(kind, task_id, *times, facts.pop("name", ""), "", Outcome.FINISHED, 0, 0)
        self.events.setdefault(pid, []).append(event._replace(**facts))
        self.end = max(self.end, end)

    def submit(self, at, first, count=1, pid=1):
        self.add(pid, Kind.SUBMIT, first, at, at, tasks=count)

    def run(self, task_id, begin, seconds, pid=2, kind=Kind.TASK, name="work", deps=(), **facts):
        places = facts.pop("places", (1,) * len(deps))
        self.add(
            pid, kind, task_id, begin, begin + seconds, name=name, dependencies=tuple(deps), places=places, **facts
        )

    def get(self, begin, end, first, count=1, owner=ROOT_ID, pid=1, kind=Kind.GET, wanted=None):
        needs = (Need(first, 1, count),)
        self.add(pid, kind, owner, begin, end, needs=needs, wanted=wanted or count)

    def record(self):
        rings = {}
        for pid, events in self.events.items():
            node = f"{(pid - 1) // 10:016x}"  # ten processes a node
            label = "driver p.py" if pid == 1 else f"worker {pid}"
            rings.setdefault(node, []).append(RingContent(pid, 1e9, label, events, 0))
        facts = {
            f"{number:016x}": {"node": f"{number:016x}", "host": "h", "is_alive": True, "resources": resources}
            for number, resources in enumerate(self.nodes)
        }
        header = {"pid": 1, "start": 1e9, "task_id": ROOT_ID, "program": "p.py"}
        return RunRecord(header, facts, rings, [], 1e9 + self.end, "", 0)

    def model(self):
        return Model(self.record())


def loop(count, seconds=1.0):
    """Tasks of the same length, one after the other on one CPU, and a get of all."""
    made = Made()
    made.submit(0.0, child(1), count)
    for number in range(count):
        made.run(child(1 + number), number * seconds, seconds)
    made.get(0.0, count * seconds, child(1), count)
    return made


@pytest.mark.parametrize(("nodes", "cpus", "seconds"), [(1, 1, 8), (1, 2, 4), (1, 4, 2), (2, 2, 2), (4, 2, 1)])
def test_independent_tasks_take_their_work_by_the_cpus(nodes, cpus, seconds):
    found = loop(8).model().predict(Shape(nodes, cpus))
    # An idle node gets work with the next report of a full one.
    assert found.makespan == pytest.approx(seconds, rel=0.02, abs=0.15 if nodes > 1 else None)
    assert found.utilisation == pytest.approx(1.0, abs=0.07)


def test_more_cpus_are_to_be_bought_for_independent_tasks_and_an_idle_machine_needs_none():
    model = loop(8).model()
    assert model.advice(model.calibration).startswith("Buy more CPUs: twice as many saves 50 %")
    assert model.advice(model.predict(Shape(1, 64))).startswith("Buy faster cores")


def test_chain_does_not_get_faster_and_its_path_is_all_of_it():
    made = Made()
    made.submit(0.0, child(1), 5)
    for number in range(1, 6):
        made.run(child(number), number - 1.0, 1.0, deps=[child(number - 1)] * (number > 1))
    made.get(0.0, 5.0, child(5))
    model = made.model()
    found = model.predict(Shape(2, 4))
    assert found.makespan == pytest.approx(5.0, rel=0.02)
    kind, name, count, seconds = found.path.rows()[0]
    assert (kind, name, count) == ("run", "work", 5) and seconds == pytest.approx(5.0, rel=0.02)
    assert model.advice(found).startswith("Buy faster cores")


def far_argument(requests=""):
    """A task that can only run on the second node takes an array of 1 GB from the first one."""
    made = Made({"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0})
    made.add(1, Kind.SIZE, ROOT_ID, 0.5, 0.5, size=10**9, place=PUT_BIT)
    made.submit(0.5, child(1))
    made.run(child(1), 1.3, 1.0, pid=11, deps=[ROOT_ID], places=(PUT_BIT,), request="CPU:10000,GPU:10000")
    made.get(0.5, 2.3, child(1))
    return made


def test_argument_takes_its_bytes_by_the_bandwidth():
    model = far_argument().model()
    slow = model.predict(Shape(bandwidth=bytes_per_second("1Gbit")))
    assert slow.makespan == pytest.approx(0.5 + 8.0 + 1.0, rel=0.03)
    assert slow.bytes_moved == pytest.approx(10**9, rel=0.01)
    fast = model.predict(Shape(bandwidth=bytes_per_second("10Gbit")))
    assert fast.makespan == pytest.approx(0.5 + 0.8 + 1.0, rel=0.03)
    assert model.advice(slow).startswith("Buy more bandwidth: twice as much saves 42 %")


def test_request_that_no_node_has_is_refused_in_words():
    with pytest.raises(ValueError, match=r"`work` requests CPU: 1, GPU: 1, and no node has that: each has 8 CPUs"):
        far_argument().model().predict(Shape(1, 8, 0))


def test_task_that_waits_for_children_lends_its_cpu():
    made = Made()
    made.submit(0.0, child(1))
    made.submit(1.0, child(1, child(1)), 4, pid=2)
    made.get(1.0, 5.0, child(1, child(1)), 4, owner=child(1), pid=2)
    for number in range(4):
        made.run(child(number + 1, child(1)), 1.0 + number, 1.0, pid=3)
    made.run(child(1), 0.0, 6.0, name="outer")
    made.get(0.0, 6.0, child(1))
    model = made.model()
    assert model.calibration.makespan == pytest.approx(6.0, rel=0.02)
    assert model.predict(Shape(cpus=2)).makespan == pytest.approx(4.0, rel=0.02)
    assert model.predict(Shape(2, 2)).makespan == pytest.approx(3.0, rel=0.02)


def actors(request):
    """Two actors, whose four calls each take half a second."""
    made = Made()
    for actor, pid in ((1, 2), (2, 3)):
        made.run(child(actor), 0.0, 0.0, pid, Kind.CONSTRUCTOR, "Model", request=request)
        for number in range(4):
            made.run(child(2 + actor + 2 * number), 0.5 * number, 0.5, pid, Kind.CALL, "Model.step")
    made.submit(0.0, child(3), 8)
    made.get(0.0, 2.0, child(3), 8)
    return made


def test_calls_of_an_actor_run_one_after_the_other_and_actors_at_once():
    model = actors("").model()
    assert model.calibration.makespan == pytest.approx(2.0, rel=0.02)
    assert model.predict(Shape(4, 8)).makespan == pytest.approx(2.0, rel=0.02)


def test_actors_that_hold_all_cpus_are_named_where_the_program_would_not_end():
    made = actors("CPU:10000")
    made.nodes = ({"CPU": 2.0},)
    model = made.model()
    assert model.calibration.makespan == pytest.approx(2.0, rel=0.02)
    with pytest.raises(ValueError, match="does not end on 1 node, each with 1 CPU: actors may hold all of that"):
        model.predict(Shape(cpus=1))


def test_actors_that_did_not_fit_at_once_end_after_their_last_calls():
    """Four actors in turn each hold the only CPU for a second."""
    made = Made()
    for turn in range(4):
        made.run(child(1 + 2 * turn), float(turn), 0.0, 2 + turn, Kind.CONSTRUCTOR, "Model", request="CPU:10000")
        made.submit(turn + 0.0, child(2 + 2 * turn))
        made.run(child(2 + 2 * turn), float(turn), 1.0, 2 + turn, Kind.CALL, "Model.fit")
        made.get(float(turn), turn + 1.0, child(2 + 2 * turn))
    model = made.model()
    assert model.calibration.makespan == pytest.approx(4.0, rel=0.02)


def test_program_that_computes_needs_no_machine():
    made = Made()
    for turn in range(4):
        made.submit(turn + 0.9, child(1 + turn))
        made.run(child(1 + turn), turn + 0.9, 0.1)
        made.get(turn + 0.9, turn + 1.0, child(1 + turn))
    model = made.model()
    assert model.calibration.makespan == pytest.approx(4.0, rel=0.02)
    assert "the program itself is the bottleneck" in model.advice(model.calibration)


def test_wait_for_some_goes_on_with_whatever_is_ready_first():
    """Each of three tasks that is ready has a further one submitted: on three CPUs in half the time of a CPU."""
    made = Made()
    made.submit(0.0, child(1), 3)
    for number in range(6):
        made.run(child(number + 1), float(number), 1.0)
    for number in range(3):
        made.get(float(number), number + 1.0, child(number + 1), 3, kind=Kind.WAIT, wanted=1)
        made.submit(number + 1.0, child(number + 4))
    made.get(3.0, 6.0, child(4), 3)
    model = made.model()
    assert model.calibration.makespan == pytest.approx(6.0, rel=0.02)
    assert model.predict(Shape(cpus=3)).makespan == pytest.approx(2.0, rel=0.02)


def test_ref_in_a_list_and_ref_in_a_result_reach_those_who_wait_for_them():
    """A task returns the ref of its child, and the program gives it to another task in a list."""
    made = Made({"CPU": 2.0})
    inner = child(1, child(1))
    made.submit(0.0, child(1))
    made.submit(0.0, inner, pid=2)
    made.run(child(1), 0.0, 0.0, pid=2, name="outer")
    made.run(inner, 0.0, 2.0, pid=3, name="inner")
    made.get(0.0, 0.1, child(1))
    made.submit(0.1, child(2))
    made.get(0.1, 2.0, inner, owner=child(2), pid=4)
    made.run(child(2), 0.1, 2.9, pid=4, name="last")
    made.get(0.1, 3.0, child(2))
    model = made.model()
    assert model.calibration.makespan == pytest.approx(3.0, rel=0.02)
    assert model.predict(Shape(speed=2.0)).makespan == pytest.approx(1.5, rel=0.05)


def test_failed_and_repeated_runs_are_counted():
    made = loop(4)
    made.run(child(4), 4.0, 1.0, outcome=Outcome.FAILED)
    assert made.model().notes() == [
        "Failed runs: 1.  Predicted ones take as long, and do not fail.",
        "Repeated runs: 1.  The last run of each task counts, and predicted ones run once.",
    ]


def test_record_without_what_waits_were_for_is_predicted():
    made = loop(4)
    made.events[1] = [event._replace(needs=(), wanted=0) for event in made.events[1]]
    assert made.model().predict(Shape(cpus=2)).makespan == pytest.approx(2.0, rel=0.02)
    old = Model(read_run(OLD_RECORD))
    assert old.calibration.makespan == pytest.approx(old.recorded.end, rel=0.05)


@pytest.mark.parametrize(
    ("text", "rate"), [("1Gbit", 1.25e8), ("10 Gbps", 1.25e9), ("100MB/s", 1e8), ("8kb", 1e3), ("0.5Gbit/s", 6.25e7)]
)
def test_bandwidths(text, rate):
    assert bytes_per_second(text) == rate


def call(*arguments):
    return CliRunner().invoke(whatif, [*map(str, arguments)])


def test_policies_are_those_of_the_schedulers():
    assert POLICIES == scheduling.POLICIES


def test_requests_in_other_words_are_refused(tmp_path):
    cases = {
        ("--bandwidth", "fast"): "'fast' is no bandwidth: write it as 1Gbit, 10Gbit or 100MB.",
        ("--latency", "1"): "'1' is no time: write it as 100us, 0.5ms or 1s.",
        ("--cpus", "1,x"): "'1,x' is no list of numbers as 1,2,4.",
        ("--nodes", "0"): "not between 1 and 256",
        ("--cpus", ",".join(map(str, range(1, 103)))): "102 combinations are too many: give 100 at most.",
        ("--policy", "best"): "'best' is not one of",
    }
    for options, words in cases.items():
        done = call(OLD_RECORD, *options)
        assert done.exit_code == 2 and words in done.output, done.output


def test_files_that_cannot_be_predicted_are_named(tmp_path):
    (tmp_path / "text").write_text("text")
    FrameWriter(str(tmp_path / "empty"), "record", "9").close()
    other = bytearray((tmp_path / "empty").read_bytes())
    other[8] = 99
    (tmp_path / "other").write_bytes(other)
    cases = {
        "none": "cannot be read: No such file",
        "text": "is no record of a run",
        "empty": "no task has ended in this run",
        "other": "has format 99 of records, written by zray 9",
    }
    for name, words in cases.items():
        done = call(tmp_path / name)
        assert done.exit_code == 1 and words in done.output, done.output


def test_too_many_tasks_are_refused_with_their_number(monkeypatch):
    monkeypatch.setattr("zray.util.whatif.prediction.TASKS_MAX", 7)
    with pytest.raises(ValueError, match="8 tasks are too many: a prediction takes 7 at most"):
        loop(8).model()


def test_record_that_ends_early_is_predicted_as_far_as_it_goes(tmp_path):
    whole = OLD_RECORD.read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-8])
    done = call(tmp_path / "cut")
    assert done.exit_code == 0 and "Note: The record ends early: its program was killed." in done.output


@zray.remote
def load(number):
    threading.Event().wait(0.1)
    return np.full(50_000, number)


@zray.remote(num_cpus=2)
def total(*parts):
    threading.Event().wait(0.1)
    return int(sum(part[0] for part in parts))


@zray.remote(num_cpus=0)
def nothing():
    pass


@zray.remote(num_cpus=0)
class Model_:
    def step(self, value):
        threading.Event().wait(0.05)
        return value


@zray.remote
def chunks(count):
    yield from range(count)


@zray.remote(num_cpus=0)
class Source:
    def lines(self):
        yield "line"


def test_what_is_not_modelled_is_said_in_one_line_with_the_functions(tmp_path):
    with zray.init(num_cpus=2, record=tmp_path / "run.zrec"):
        group = placement_group([{"CPU": 1}])
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        assert zray.get(list(chunks.remote(3))) == [0, 1, 2]
        assert zray.get(list(Source.options(scheduling_strategy=strategy).remote().lines.remote())) == ["line"]
        zray.get(nothing.options(scheduling_strategy=strategy).remote())
        zray.get(nothing.options(name="spread", scheduling_strategy="SPREAD").remote())
    done = call(tmp_path / "run.zrec")
    notes = [line for line in done.output.splitlines() if line.startswith("Note: ")]
    assert notes == [
        "Note: Not modelled: items of streaming generators, which come together at the end (chunks, Source.lines); "
        "places of placement groups (Source, nothing); node affinity, labels, and spreading, as of actors without "
        "num_cpus (spread).  Predictions leave out what that changes."
    ]
    by_name = {task.name: task.request for task in Model(read_run(tmp_path / "run.zrec")).program.tasks}
    assert by_name["chunks"] == {"CPU": 10_000} and by_name["nothing"] == by_name["Source"] == {"CPU": 0}


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("whatif") / "run.zrec"
    with zray.init(num_cpus=2, record=path):
        model = Model_.remote()
        steps = [model.step.remote(number) for number in range(4)]
        assert zray.get(total.remote(*[load.remote(number) for number in range(6)])) == 15
        zray.get([*steps, nothing.remote()])
    return path


def test_recorded_machine_is_predicted_within_ten_percent(record):
    model = Model(read_run(record))
    assert model.calibration.makespan == pytest.approx(model.recorded.end, rel=0.1)
    by_name = {task.name: task for task in model.program.tasks}
    assert by_name["total"].request == {"CPU": 20_000} and by_name["Model_"].request == {"CPU": 0}
    assert by_name["nothing"].request == {"CPU": 0} and by_name["load"].request == {"CPU": 10_000}
    waits = [step.keys for step in model.program.tasks[0].steps if type(step) is Pause and step.at < step.end]
    assert waits[0] == ((by_name["total"].number, 1),)
    assert len(by_name["total"].deps) == 6 and 400_000 <= by_name["load"].sizes[1] < 410_000


def test_command_prints_a_check_a_table_the_path_and_advice(record):
    done = subprocess.run(
        [sys.executable, "-m", "zray.cli.main", "whatif", record, "--cpus", "2,4", "--nodes", "1,2"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, *rows = done.stdout.splitlines()
    assert first.startswith("The run took") and "on 1 node with 2 CPUs.  Predicted for the same:" in first
    assert [row.split()[0] for row in rows[1:6]] == ["recorded", "1", "1", "2", "2"]
    assert "Critical path on 2 nodes with 8 CPUs in all:" in done.stdout and rows[-1].startswith("Buy ")


def test_json_has_the_same_facts(record):
    done = call(record, "--cpus", "1", "--json")
    assert done.exit_code == 1 and "`total` requests CPU: 2" in done.output
    done = call(record, "--cpus", "1,2", "--json")
    (found,) = json.loads(done.stdout)["predictions"]
    assert found["cpus"] == 2 and "`total` requests CPU: 2" in json.loads(done.stdout)["notes"][0]
    done = call(record, "--cpus", "2,4", "--bandwidth", "1Gbit", "--json")
    found = json.loads(done.stdout)
    assert found["recorded"]["tasks"] == 9 and found["recorded"]["calls"] == 4 and found["notes"] == []
    two, four = found["predictions"]
    assert two["cpus"] == 2 and two["speedup"] == pytest.approx(1.0, abs=0.01)
    assert four["speedup"] > 1.1 and four["bandwidth"] == 1.25e8
    assert sum(row[3] for row in found["path"]) == pytest.approx(four["makespan"])
