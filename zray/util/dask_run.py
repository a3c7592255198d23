"""Run of one dask graph: which dask tasks may run, in which order, and how many of them are one task of zray.

The program keeps the values of a run: small ones themselves, large ones as refs.  A task of zray gets a *bundle* of
dask tasks with the values that they need, and returns their results.  Bundles are small at first, and grow while dask
tasks are short.  Dask tasks that come early in a walk from the results through the graph run first, so that values are
used soon and freed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph
from dask.callbacks import local_callbacks
from dask.local import get_async
from dask.sizeof import sizeof

from ..api import objects, sessions
from ..api.cluster_info import cluster_resources
from ..api.decorator import remote
from ..object_ref import ObjectRef
from .executor import Executor
from .pace import Pace

# Larger values stay in the object store.
STORED_BYTES_MIN = 100_000
# Bundles under way for each CPU: one that runs, and one that waits.
BUNDLES_PER_CPU = 2


def run(dsk: Any, keys: Any, *, workers: int | None, persists: bool, options: dict[str, Any], joins_tasks: bool) -> Any:
    """Compute the values of keys.  Returns them in the form of keys.

    Args:
        dsk: graph of dask, in the old form or the new one.
        keys: a key, or lists of keys, also nested.
        workers: bundles at a time.  None: as many as the cluster has CPUs.
        persists: return refs in place of values.
        options: options of the tasks.
        joins_tasks: put several dask tasks into one bundle.

    Raises:
        TaskError: a dask task raised.
        KeyError: a key is not in the graph.
        ValueError: the graph has a cycle.
    """
    sessions.require_runtime()
    count = workers or max(1, int(cluster_resources().get("CPU", 1)))
    graph = convert_legacy_graph(dsk if isinstance(dsk, Mapping) else dsk.__dask_graph__())
    wanted = set(_flat(keys))
    with local_callbacks() as callbacks:
        if callbacks:  # progress bars and profilers of dask look into the state of its own scheduler
            with Executor(count) as executor:
                try:
                    values = get_async(executor.submit, count, graph, list(wanted), callbacks=callbacks)
                except BaseException:
                    executor.terminate_workers()
                    raise
            found: dict[Any, Any] = dict(zip(wanted, values, strict=True))
        else:
            this_run = _Run(graph, wanted, count, options, joins_tasks)
            try:
                found = this_run.values()
            except BaseException:  # a task has failed, or Ctrl-C
                this_run.cancel()
                raise
    if persists:
        found = {key: value if type(value) is ObjectRef else objects.put(value) for key, value in found.items()}
    else:
        stored = [key for key, value in found.items() if type(value) is ObjectRef]
        found.update(zip(stored, objects.get([found[key] for key in stored]), strict=True))
    return _formed(keys, found)


def _flat(keys: Any) -> Iterator[Any]:
    if isinstance(keys, list):
        for part in keys:
            yield from _flat(part)
    else:
        yield keys


def _formed(keys: Any, values: dict[Any, Any]) -> Any:
    if isinstance(keys, list):
        return tuple(_formed(part, values) for part in keys)
    return values[keys]


class _Run:
    """State of one run."""

    def __init__(
        self, graph: dict[Any, Any], wanted: set[Any], workers: int, options: dict[str, Any], joins_tasks: bool
    ) -> None:
        self.graph = graph
        self.wanted = wanted
        self.workers = workers
        self.pace = Pace(workers)
        self.joins_tasks = joins_tasks
        self.submit = (_run_bundle.options(**options) if options else _run_bundle).remote
        self.known: dict[Any, Any] = {}  # values, and refs on large ones, while somebody needs them
        self.rank = {key: index for index, key in enumerate(_walk(graph, wanted))}
        self.missing: dict[Any, int] = {}  # number of values that a key waits for
        self.users: dict[Any, list[Any]] = {key: [] for key in self.rank}  # keys that need a key
        self.uses: dict[Any, int] = {}  # how many of them have not begun
        self.ready: list[tuple[int, Any]] = []  # a heap
        self.bundles: dict[Any, list[Any]] = {}  # keys by ref

    def values(self) -> dict[Any, Any]:
        """Run all, and return the values of the requested keys; refs on large ones."""
        for key in self.rank:
            needed = self.graph[key].dependencies
            self.missing[key] = len(needed)
            for other in needed:
                self.users[other].append(key)
        self.uses = {key: len(users) + (key in self.wanted) for key, users in self.users.items()}
        for key, number in self.missing.items():
            if not number:
                heapq.heappush(self.ready, (self.rank[key], key))
        while self.ready or self.bundles:
            while self.ready and len(self.bundles) < BUNDLES_PER_CPU * self.workers:
                self._begin()
            if self.bundles:
                self._take()
        return {key: self.known[key] for key in self.wanted}

    def cancel(self) -> None:
        """Cancel all bundles under way."""
        for ref in self.bundles:
            objects.cancel(ref)

    def _begin(self) -> None:
        """Begin a bundle of the first keys that are ready.  Data and aliases need no task."""
        room = max(1, len(self.ready) // self.workers)
        room = min(room, self.pace.depth) if self.joins_tasks else 1
        keys: list[Any] = []
        bundle = _Bundle()
        while self.ready and len(keys) < room:
            _, key = heapq.heappop(self.ready)
            node = self.graph[key]
            kind = type(node)
            if kind is DataNode:
                self._done(key, _stored(node.value))
            elif kind is Alias:
                self._done(key, self.known[node.target])
            else:
                bundle.add(node, self.known)
                keys.append(key)
            for other in node.dependencies:
                self._use(other)
        if keys:
            self.bundles[self.submit(bundle.calls, *bundle.refs)] = keys

    def _take(self) -> None:
        """Wait for a bundle, and note the values of all that have ended."""
        refs = list(self.bundles)
        objects.wait(refs, num_returns=1)
        ready, _ = objects.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            keys = self.bundles.pop(ref)
            for key, value in zip(keys, objects.get(ref), strict=True):
                self._done(key, value)
            self.pace.ended(len(keys))

    def _done(self, key: Any, value: Any) -> None:
        if self.uses[key]:
            self.known[key] = value
        for user in self.users[key]:
            self.missing[user] -= 1
            if not self.missing[user]:
                heapq.heappush(self.ready, (self.rank[user], user))

    def _use(self, key: Any) -> None:
        self.uses[key] -= 1
        if not self.uses[key]:
            del self.known[key]


def _walk(graph: dict[Any, Any], wanted: Iterable[Any]) -> list[Any]:
    """Return all needed keys, each after its own dependencies, depth first.

    Raises:
        KeyError: a key is not in the graph.
        ValueError: the graph has a cycle.
    """
    order: dict[Any, None] = {}
    for start in wanted:
        if start in order:
            continue
        path: dict[Any, Iterator[Any]] = {start: iter(graph[start].dependencies)}
        while path:
            key, rest = next(reversed(path.items()))
            for other in rest:
                if other in path:
                    raise ValueError(f"The graph of dask has a cycle through {other!r}.")
                if other not in order:
                    path[other] = iter(graph[other].dependencies)
                    break
            else:
                order[key] = None
                del path[key]
    return list(order)


def _stored(value: Any) -> Any:
    """Return the value, or a ref if the value is large."""
    return objects.put(value) if type(value) is not ObjectRef and sizeof(value) >= STORED_BYTES_MIN else value


class _Stored:
    """Mark in a call: the value is that of an argument of the bundle."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> Any:
        return _Stored, (self.index,)


class _Bundle:
    """Return calls for one task, and the refs on their large arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, bool]] = []  # function, arguments, keywords, whether they have marks
        self.refs: list[Any] = []
        self.index: dict[Any, int] = {}  # of a ref among the refs

    def add(self, node: Any, known: dict[Any, Any]) -> None:
        """Add the call of a node, with the required values in the places of their keys."""
        before = len(self.index)
        values = {key: self._value(known[key]) for key in node.dependencies}
        has_marks = len(self.index) > before or any(type(value) is _Stored for value in values.values())
        if type(node) is Task and not any(isinstance(part, GraphNode) for part in (*node.args, *node.kwargs.values())):
            args = [values[part.key] if type(part) is TaskRef else part for part in node.args]
            kwargs = {name: values[part.key] if type(part) is TaskRef else part for name, part in node.kwargs.items()}
            self.calls.append((node.func, args, kwargs, has_marks))
        else:
            self.calls.append((node, None, values, has_marks))

    def _value(self, value: Any) -> Any:
        if type(value) is not ObjectRef:
            return value
        if value not in self.index:
            self.index[value] = len(self.refs)
            self.refs.append(value)
        return _Stored(self.index[value])


@remote(name="dask")
def _run_bundle(calls: list[tuple[Any, Any, Any, bool]], *stored: Any) -> list[Any]:
    """Return the results of the calls; refs on large ones."""
    results = []
    for function, args, named, has_marks in calls:
        if has_marks:
            named = {key: stored[part.index] if type(part) is _Stored else part for key, part in named.items()}
            if args is not None:
                args = [stored[part.index] if type(part) is _Stored else part for part in args]
        results.append(_stored(function(named) if args is None else function(*args, **named)))
    return results
