"""Tables of `zray top`: functions, tasks, actors, objects, nodes and processes of a sample."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from zray.util.report.findings import bytes_of
from zray.util.report.findings import text_of as duration
from zray.wire.listing import TaskFact

from .asking import Node, Sample, node_of
from .history import History
from .tables import ROWS_MAX, Column, Row, Table, text_of

SHORT_ID = 8
# Ray's states in words of at most nine letters, that fit a narrow column.
WORDS = {
    "PENDING_ARGS_AVAIL": "input",
    "PENDING_NODE_ASSIGNMENT": "resource",
    "SUBMITTED_TO_WORKER": "at worker",
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY": "order",
    "RUNNING": "running",
    "FINISHED": "finished",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "PENDING_CREATION": "starting",
    "ALIVE": "alive",
    "RESTARTING": "restarts",
    "DEAD": "dead",
}
# Places of states in the order of lists.
RANKS = {
    "running": 0,
    "at worker": 1,
    "resource": 2,
    "order": 3,
    "input": 4,
    "failed": 5,
    "cancelled": 6,
    "finished": 7,
}
STATES = {"MEMORY": "memory", "DISK": "disk", "MESSAGE": "message", "COMING": "coming", "PENDING": "pending"}
# Metrics of nodes.
IN_STORE, ON_DISK = "object_store_memory_bytes_shared_memory", "object_store_memory_bytes_disk"
UNKNOWN_PLACE = "small values and copies"


def word_of(task: TaskFact) -> str:
    """The state of a task in a word."""
    if task.error_type == "TASK_CANCELLED":
        return "cancelled"
    return WORDS.get(task.state, task.state.lower())


def short(id: str) -> str:
    """The beginning and the end of a long id: tasks of one program differ in the end alone."""
    return id if len(id) <= 12 else f"{id[:6]}…{id[-5:]}"


def seconds(value: float | None) -> str:
    """A duration, or "-" where it is not known."""
    return "-" if value is None else duration(value)


def amount(value: float) -> str:
    """Bytes, or "-" for none."""
    return bytes_of(value) if value else "-"


def functions(sample: Sample, history: History) -> Table:
    """A row for each function: tasks by state, and times of its runs since the oldest record."""
    counts: dict[str, dict[str, int]] = {}
    for task in sample.tasks:
        states = counts.setdefault(task.name, {})
        word = word_of(task)
        states[word] = states.get(word, 0) + 1
    with history.lock:
        timed = {
            name: (each.runs, each.failed, each.cancelled, each.total, each.quantile(0.5), each.quantile(0.99))
            for name, each in history.times.items()
        }
    rows = []
    for name in {**counts, **timed}:
        states = counts.get(name, {})
        runs, failed, cancelled, total, p50, p99 = timed.get(name, (0, 0, 0, 0.0, None, None))
        running = states.get("running", 0)
        waiting = sum(states.get(word, 0) for word in ("input", "resource", "order", "at worker"))
        failed = max(failed, states.get("failed", 0))
        done = max(runs - failed - cancelled, states.get("finished", 0))
        reasons = {word: states[word] for word in ("resource", "input", "order", "at worker") if word in states}
        why = ", ".join(f"{count:,} {word}" for word, count in reasons.items())
        keys = (name, running, waiting, done, failed, p50, p99, total, why)
        numbers = (f"{running:,}", f"{waiting:,}", f"{done:,}", f"{failed:,}")
        cells = (text_of(name), *numbers, seconds(p50), seconds(p99), seconds(total or None), why or "-")
        role = "failed" if failed else "running" if running else ""
        command = f"zray list tasks --filter {shlex.quote(text_of(f'name={name}'))}"
        rows.append(Row(name, "function", cells, keys, command, role))
    columns = (
        Column("FUNCTION", 14, grows=True),
        Column("RUN", 4, True),
        Column("WAIT", 5, True),
        Column("DONE", 7, True),
        Column("FAIL", 5, True),
        Column("MEDIAN", 7, True, 3),
        Column("99 %", 7, True, 4),
        Column("TOTAL", 7, True, 2),
        Column("WAITS FOR", 12, rank=5),
    )
    empty = "No task yet: the program has submitted none, or it has just begun."
    return Table("functions", columns, rows[:ROWS_MAX], 7, True, empty, _cut_note(sample))


def tasks(sample: Sample, *, are_open: bool = False) -> Table:
    """A row for each task that runs, waits or has failed, and for the latest that finished.

    are_open: those that run or wait alone.
    """
    rows = []
    for task in sample.tasks:
        if are_open and task.has_ended:
            continue
        word = word_of(task)
        task_id, node = task.task_id.hex(), node_of(task)
        run = task.run_ms / 1e3 if word == "running" and task.run_ms else None
        where = (node[:SHORT_ID], str(task.pid) if task.pid else "-")
        tries = str(task.attempts) if task.attempts else "-"
        cells = (short(task_id), text_of(task.name), word, seconds(run), *where, tries, text_of(task.error_type) or "-")
        keys = (
            task_id,
            task.name,
            (RANKS.get(word, 9), -(run or 0.0)),
            run,
            node,
            task.pid,
            task.attempts,
            task.error_type,
        )
        rows.append(Row(task_id, "task", cells, keys, f"zray why {task_id}", word, node, task.pid))
    columns = (
        Column("TASK", 12, rank=1),
        Column("FUNCTION", 14, grows=True),
        Column("STATE", 9),
        Column("RUNS FOR", 8, True),
        Column("NODE", 8, rank=4),
        Column("PID", 7, True, 3),
        Column("RETRY", 5, True, 5),
        Column("ERROR", 18, rank=2),
    )
    note = _cut_note(sample)
    if len(rows) > ROWS_MAX:
        note = note or f"The first {ROWS_MAX:,} of {len(rows):,} are shown."
    return Table(
        "tasks", columns, rows[:ROWS_MAX], 2, False, "No task runs or waits." if are_open else "No task yet.", note
    )


def _cut_note(sample: Sample) -> str:
    if sample.silent:
        silent = ", ".join(node[:SHORT_ID] for node in sample.silent)
        return f"These nodes have not answered: {silent}."
    if sample.is_cut:
        return f"The first {len(sample.tasks):,} tasks are counted; more have not ended."
    return ""


def actors(sample: Sample) -> Table:
    """A row for each actor, with the calls that it has not ended."""
    calls: dict[bytes, list[int]] = {}
    for task in sample.tasks:
        if task.actor_id and not task.has_ended:
            counts = calls.setdefault(task.actor_id, [0, 0])
            counts[task.state != "RUNNING"] += 1
    rows = []
    for actor in sample.actors:
        actor_id, node, word = actor.actor_id.hex(), node_of(actor), WORDS.get(actor.state, actor.state.lower())
        running, waiting = calls.get(actor.actor_id, (0, 0))
        numbers = (f"{running:,}", f"{waiting:,}", node[:SHORT_ID], str(actor.pid) if actor.pid else "-")
        cells = (short(actor_id), text_of(actor.class_name), text_of(actor.name) or "-", word, *numbers)
        keys = (actor_id, actor.class_name, actor.name, word, running, waiting, node, actor.pid)
        rows.append(Row(actor_id, "actor", cells, keys, f"zray get actors {actor_id}", word, node, actor.pid))
    columns = (
        Column("ACTOR", 12, rank=1),
        Column("CLASS", 14, grows=True),
        Column("NAME", 12, rank=2),
        Column("STATE", 8),
        Column("RUN", 4, True),
        Column("WAIT", 6, True),
        Column("NODE", 8, rank=4),
        Column("PID", 7, True, 3),
    )
    note = f"The first {ROWS_MAX:,} are shown." if len(rows) >= ROWS_MAX else ""
    return Table("actors", columns, rows[:ROWS_MAX], 5, True, "No actor.", note)


def objects(sample: Sample) -> Table:
    """A row for each place that makes values: how many there are, how large, and who has refs on them."""
    places: dict[str, list[int]] = {}
    holders: dict[str, set[int]] = {}
    for fact in sample.objects:
        row = places.setdefault(fact.made, [0, 0, 0, 0, 0])
        row[0] += 1
        row[1] += fact.size
        row[2] += fact.size * (fact.state == "MEMORY")
        row[3] += fact.size * (fact.state == "DISK")
        row[4] = max(row[4], fact.size)
        holders.setdefault(fact.made, set()).update(fact.holders or fact.readers)
    rows = []
    for made, (count, size, memory, disk, largest) in places.items():
        pids = ", ".join(map(str, sorted(holders[made]))) or "-"
        sizes = (amount(size), amount(memory), amount(disk), amount(largest))
        cells = (text_of(made) or UNKNOWN_PLACE, f"{count:,}", *sizes, pids)
        keys = (made, count, size, memory, disk, largest, pids)
        command = f"zray list objects --filter {shlex.quote(text_of(f'call_site={made}'))}"
        rows.append(Row(made or UNKNOWN_PLACE, "place", cells, keys, command, "disk" if disk else ""))
    columns = (
        Column("MADE AT", 20, grows=True, keeps_end=True),
        Column("VALUES", 7, True),
        Column("SIZE", 9, True),
        Column("IN MEMORY", 9, True, 3),
        Column("ON DISK", 9, True, 1),
        Column("LARGEST", 9, True, 4),
        Column("HELD BY PID", 14, rank=2),
    )
    note = f"The largest {ROWS_MAX:,} values are counted." if len(sample.objects) >= ROWS_MAX else ""
    return Table("objects", columns, rows, 2, True, "No value.", note)


def values(sample: Sample, made: str) -> list[str]:
    """Lines on the largest values that a place has made."""
    wanted = "" if made == UNKNOWN_PLACE else made
    found = sorted((each for each in sample.objects if each.made == wanted), key=lambda each: -each.size)
    lines = []
    for fact in found[:100]:
        who = [f"ref in pid {pid}" for pid in fact.holders]
        who += [f"arrays or a task in pid {pid}" for pid in fact.readers if pid not in fact.holders]
        who += [f"{fact.uses:,} tasks or values"] if fact.uses else []
        where = f"{STATES.get(fact.state, fact.state)} on {node_of(fact)[:SHORT_ID]}"
        lines.append(f"{amount(fact.size):>9}  {where:<20}  {fact.object_id.hex()}  {', '.join(who) or 'nobody here'}")
    return lines + ([f"and {len(found) - 100:,} more"] if len(found) > 100 else [])


def bar(share: float, width: int) -> str:
    """A bar of signs that any terminal has."""
    full = round(max(0.0, min(share, 1.0)) * width)
    return "|" * full + "." * (width - full)


def nodes(sample: Sample) -> Table:
    """A row for each node: what is in use, and what waits."""
    rows = []
    for node in sample.nodes:
        cpu, cpus = node.total.get("CPU", 0.0) - node.free.get("CPU", 0.0), node.total.get("CPU", 0.0)
        get = node.counts.get
        memory, memory_total = get("node_mem_used_bytes", 0.0), get("node_mem_total_bytes", 0.0)
        store, store_total = (
            get(IN_STORE, 0.0),
            get("object_store_capacity_bytes", 0.0),
        )
        spilled, workers = get(ON_DISK, 0.0), get("node_workers", 0.0)
        running = sum(task.state == "RUNNING" and node_of(task) == node.id for task in sample.tasks)
        cells = (
            node.id[:SHORT_ID],
            text_of(node.host) or "-",
            f"{bar(cpu / cpus if cpus else 0, 8)} {cpu:g}/{cpus:g}",
            f"{bar(memory / memory_total, 6)} {amount(memory)}" if memory_total else "-",
            f"{bar(store / store_total, 6)} {amount(store)}" if store_total else "-",
            amount(spilled),
            f"{workers:.0f}",
            f"{running:,}",
            f"{node.waiting:,}",
            "SPILL" if spilled and node.state == "ok" else node.state,
        )
        keys = (
            node.id,
            node.host,
            cpu,
            memory,
            store,
            spilled,
            workers,
            running,
            node.waiting,
            _badness(node, spilled),
        )
        role = "failed" if node.state == "lost" else "disk" if spilled else ""
        rows.append(Row(node.id, "node", cells, keys, f"zray get nodes {node.id}", role, node.id))
    columns = (
        Column("NODE", 8, grows=True),
        Column("HOST", 10, rank=4),
        Column("CPU", 16),
        Column("MEMORY", 15),
        Column("STORE", 15),
        Column("SPILLED", 8, True, 3),
        Column("WORKERS", 7, True, 5),
        Column("RUN", 4, True, 2),
        Column("WAIT", 5, True, 1),
        Column("STATE", 8, rank=1),
    )
    return Table("nodes", columns, rows, 9, True, "The nodes are not known yet.")


def _badness(node: Node, spilled: float) -> tuple[int, int, str]:
    """The worst node comes first."""
    return {"lost": 3, "draining": 2}.get(node.state, 1 if spilled else 0), node.waiting, node.id


def workers(sample: Sample) -> Table:
    """A row for each process, with what it runs."""
    runs: dict[int, list[TaskFact]] = {}
    for task in sample.tasks:
        if task.state == "RUNNING" and task.pid:
            runs.setdefault(task.pid, []).append(task)
    names = {actor.actor_id: actor.class_name for actor in sample.actors}
    rows = []
    programs = {each.pid for each in sample.programs()}
    for worker in sample.workers:
        if worker.kind == "driver" and worker.pid not in programs:
            continue
        own = [task for task in runs.get(worker.pid, ()) if node_of(task) == node_of(worker)]
        does = ", ".join(text_of(task.name, 40) for task in own[:3]) or "-"
        run = max((task.run_ms for task in own), default=0) / 1e3 or None
        actor = text_of(names.get(worker.actor_id, "")) or "-"
        kind = "program" if worker.kind == "driver" else worker.name
        cells = (kind, str(worker.pid), node_of(worker)[:SHORT_ID], actor, does, seconds(run))
        keys = ((not own, kind, worker.pid), worker.pid, node_of(worker), actor, does, run)
        role = "running" if own else ""
        command = f"zray logs {worker.pid}"
        rows.append(
            Row(f"{node_of(worker)}/{worker.pid}", "worker", cells, keys, command, role, node_of(worker), worker.pid)
        )
    columns = (
        Column("PROCESS", 10),
        Column("PID", 7, True),
        Column("NODE", 8, rank=2),
        Column("ACTOR", 12, rank=1),
        Column("RUNS", 16, grows=True),
        Column("FOR", 8, True),
    )
    return Table("processes", columns, rows[:ROWS_MAX], 0, False, "No process.")


def totals(rows: Sequence[Node]) -> tuple[int, int, float, float, float, float]:
    """Living nodes, all nodes, CPUs in use, CPUs, bytes in the store, and its size."""
    living = [node for node in rows if node.state != "lost"]
    cpus = sum(node.total.get("CPU", 0.0) for node in living)
    free = sum(node.free.get("CPU", 0.0) for node in living)
    store = sum(node.counts.get(IN_STORE, 0.0) for node in living)
    size = sum(node.counts.get("object_store_capacity_bytes", 0.0) for node in living)
    return len(living), len(rows), cpus - free, cpus, store, size
