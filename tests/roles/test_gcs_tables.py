"""The shard's tables against a dumb version: holders in sets, lineage by a walk over everything."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from zray.ids import return_id, task_of
from zray.roles.gcs.tables import NOWHERE, Flushed, TaskTable, digest_of
from zray.wire.task_spec import TaskSpec

TASKS = [number.to_bytes(16, "big") for number in range(1, 9)]
NODES = ["n1", "n2", "n3"]
# A task may take what tasks before it return, and nothing else: as in every program.
SPECS = {
    task: TaskSpec(
        task,
        b"f" * 16,
        deps=tuple(return_id(TASKS[earlier], 1) for earlier in range(index) if (index + earlier) % 3 == 0),
        holds=tuple(return_id(TASKS[earlier], 2) for earlier in range(index) if (index + earlier) % 5 == 0),
    )
    for index, task in enumerate(TASKS)
}
task_ids = st.sampled_from(TASKS)
nodes = st.sampled_from(NODES)
objects = st.builds(return_id, task_ids, st.integers(1, 2))


class TablesMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.table = TaskTable()
        self.holders = {}  # object -> set of nodes
        self.recorded = set()  # tasks whose spec is known and kept

    def _hold(self, object_id, node):
        self.holders.setdefault(object_id, set()).add(node)

    def _keeps(self):
        """Tasks whose records must be there: held ones, and what living specs take."""
        kept = {task_of(object_id) for object_id, holders in self.holders.items() if holders}
        to_look_at = list(kept)
        while to_look_at:
            task = to_look_at.pop()
            if task in self.recorded:
                for object_id in (*SPECS[task].deps, *SPECS[task].holds):
                    if task_of(object_id) not in kept:
                        kept.add(task_of(object_id))
                        to_look_at.append(task_of(object_id))
        return kept

    @rule(task=task_ids, node=nodes)
    def record(self, task, node):
        self.table.record(SPECS[task], node)
        self.recorded.add(task)
        self._hold(return_id(task, 1), node)

    @rule(object_id=objects, node=nodes)
    def hold(self, object_id, node):
        self.table.hold(object_id, node)
        self._hold(object_id, node)

    @rule(object_id=objects, node=nodes)
    def release(self, object_id, node):
        self.table.release(object_id, node)
        self.holders.get(object_id, set()).discard(node)
        self.recorded &= self._keeps()

    @rule(object_id=objects, node=nodes)
    def a_repeated_release_changes_nothing(self, object_id, node):
        self.release(object_id, node)
        before = set(self.table.records)
        assert self.table.release(object_id, node) is None
        assert set(self.table.records) == before

    @invariant()
    def agrees(self):
        self.table.check_everything()
        assert set(self.table.records) == self._keeps()
        for object_id, holders in self.holders.items():
            record = self.table.records.get(task_of(object_id))
            item = self.table.find_object(object_id)
            known = set(item.holders) if item is not None else set()
            if record is not None and record.holder and object_id == return_id(task_of(object_id), 1):
                known.add(record.holder)
            assert known == holders

    def teardown(self):
        for object_id in list(self.holders):
            for node in NODES:
                self.release(object_id, node)
        assert not self.table.records


TablesMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
TestTables = TablesMachine.TestCase


def test_the_first_spec_of_an_id_stays():
    """A parent that is run again may submit another task under the same id."""
    table = TaskTable()
    table.record(TaskSpec(TASKS[0], b"f" * 16, b"one"), "n1")
    table.record(TaskSpec(TASKS[0], b"f" * 16, b"two"), "n2")
    assert table.records[TASKS[0]].spec.args == b"one"


def test_where_nobody_could_run_a_task_again_its_large_arguments_are_not_kept():
    table = TaskTable(is_alone=True)
    parent, child = TASKS[:2]
    held = (return_id(parent, 1),)
    large = TaskSpec(child, b"f" * 16, args=b"x" * 50_000, deps=held)
    small = TaskSpec(parent, b"f" * 16, args=b"x")
    table.record(small, "n1")
    table.record(large, "n1")
    table.record(large, "n1")  # of a parent that runs again
    assert table.records[parent].spec is small
    assert table.records[child].spec == Flushed(NOWHERE, digest_of(large), held)
    table.check_everything()
    for task in (parent, child):
        table.release(return_id(task, 1), "n1")
    assert not table.records
    other = TaskTable()
    other.record(large, "n1")
    assert other.records[child].spec is large


def test_a_long_chain_of_lineage_is_let_go_of_without_recursion():
    table = TaskTable()
    ids = [number.to_bytes(16, "big") for number in range(1, 20_001)]
    for before, task in zip([None, *ids], ids, strict=False):
        table.record(TaskSpec(task, b"f" * 16, deps=(return_id(before, 1),) if before else ()), "n1")
        if before:
            table.release(return_id(before, 1), "n1")
    assert len(table.records) == len(ids)
    table.release(return_id(ids[-1], 1), "n1")
    assert not table.records
