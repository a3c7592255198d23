"""The tasks of a run as trees: each task below the one that has submitted it.

Ids of tasks follow from the id of the session, which each run draws.  The place in the tree is the same in all runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...ids import PARENT_HASH_BYTES, SALT_BYTES, children_prefix
from .records import Ending, Kill, Line, Program, Refusal, Session, Submission

__all__ = ["Task", "Tree", "tree_of"]

_PLACE_BYTES = PARENT_HASH_BYTES + SALT_BYTES


@dataclass(slots=True, eq=False)
class Task:
    """A task, a call or a constructor of a run.

    Args:
        number: among the submissions of its parent.
        endings: of its attempts.
        actor: id of the actor that is called or created.
        kills: deaths that were asked for.
    """

    number: int
    name: str = ""
    site: str = ""
    actor: str = ""
    parent: Task | None = None
    endings: list[Ending] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    children: list[Task] = field(default_factory=list)

    @property
    def ending(self) -> Ending | None:
        """The last attempt, if one has ended."""
        return self.endings[-1] if self.endings else None

    @property
    def is_lost(self) -> bool:
        """Whether its worker was killed, and no attempt came after."""
        return bool(self.kills) and len(self.endings) <= sum(kill.at == "end" for kill in self.kills)


@dataclass
class Tree:
    """A run.

    Args:
        sessions: top-level tasks of each session, in the order of submission.
        asked_cpus: of each session.
        drew: sources of random numbers of the program itself.
        strays: number of tasks of threads that outlived their task.
    """

    sessions: list[list[Task]] = field(default_factory=list)
    asked_cpus: list[float | None] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    drew: list[str] = field(default_factory=list)
    refusal: str = ""
    tasks: int = 0
    runs: int = 0
    strays: int = 0
    callers: dict[str, set[int]] = field(default_factory=dict)  # by actor


def tree_of(lines: Iterable[Line]) -> Tree:
    """Return the tree of a run's lines."""
    tree = Tree()
    by_place: dict[bytes, Task] = {}
    places: dict[bytes, Task] = {}  # by all ids, also of further attempts of a generator
    roots: list[str] = []
    users: set[str] = set()  # actors of the program, not of zray's libraries
    for line in lines:
        if isinstance(line, (Submission, Ending, Kill)):
            task = _task(line, by_place, places)
            if isinstance(line, Submission):
                task.site = line.site
                users.update([line.actor] if line.actor == line.task else [])
            elif isinstance(line, Ending):
                task.endings.append(line)
                tree.runs += 1
                users.add(line.actor)
            else:
                task.kills.append(line)
                tree.kills.append(line)
        elif isinstance(line, Session):
            roots.append(line.root)
            tree.asked_cpus.append(line.asked_cpus)
        elif isinstance(line, Program):
            tree.drew = line.drew
        elif isinstance(line, Refusal):
            tree.refusal = line.text
    _join(tree, [bytes.fromhex(root) for root in roots], by_place, places, users)
    tree.kills.sort(key=lambda kill: kill.begin)
    return tree


def _task(line: Submission | Ending | Kill, by_place: dict[bytes, Task], places: dict[bytes, Task]) -> Task:
    """Return the task of a line.  The id of a generator in a task has a salt, which each attempt draws."""
    task_id = bytes.fromhex(line.task)
    task = places.get(task_id)
    if task is None:
        place = task_id[:PARENT_HASH_BYTES] + bytes(SALT_BYTES) + task_id[_PLACE_BYTES:]
        task = by_place.get(place)
        if task is None:
            task = by_place[place] = Task(int.from_bytes(task_id[_PLACE_BYTES:], "big"))
        places[task_id] = task
    task.name = task.name or line.name
    task.actor = task.actor or line.actor
    return task


def _join(
    tree: Tree, roots: list[bytes], by_place: dict[bytes, Task], places: dict[bytes, Task], users: set[str]
) -> None:
    """Put each task below its parent."""
    parents = {children_prefix(task_id): task for task_id, task in places.items()}
    tops = {children_prefix(root): number for number, root in enumerate(roots)}
    tree.sessions = [[] for _ in roots]
    for place, task in by_place.items():
        if task.actor and task.actor not in users:
            continue
        prefix = place[:PARENT_HASH_BYTES]
        task.parent = parents.get(prefix)
        if task.parent is not None:
            task.parent.children.append(task)
        elif prefix in tops:
            tree.sessions[tops[prefix]].append(task)
        else:
            tree.strays += 1
            continue
        tree.tasks += 1
        if task.actor:
            tree.callers.setdefault(task.actor, set()).add(id(task.parent))
    for tasks in (*tree.sessions, *(task.children for task in by_place.values())):
        tasks.sort(key=_number)


def _number(task: Task) -> int:
    return task.number
