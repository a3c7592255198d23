"""Lazy graphs of tasks and actor calls: `.bind(...)` adds a node, and `.execute(...)` submits the graph.

    with InputNode() as number:
        graph = add.bind(square.bind(number), 1)

    zray.get(graph.execute(3))  # 10

A graph runs by `.remote(...)`: each node once for each execute(), with refs as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = [
    "ClassMethodNode",
    "ClassNode",
    "CompiledDAG",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]


class DAGInputData(NamedTuple):
    """Arguments of execute(), where there are several."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class DAGNode:
    """Node of a graph.  Nodes may be arguments of nodes, also inside of lists, tuples and dicts."""

    def __init__(self, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> None:
        self._bound_args = args
        self._bound_kwargs = kwargs or {}

    def get_args(self) -> tuple[Any, ...]:
        """Positional arguments that the node was bound to."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, Any]:
        """Keyword arguments that the node was bound to."""
        return dict(self._bound_kwargs)

    def execute(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit the graph that ends in this node, and return at once.

        Each execution makes the actors of `Class.bind(...)` anew.

        Args:
            args, kwargs: input of the graph.  A single argument is the value of InputNode; of several, `input[0]` and
                `input.name` are.

        Returns:
            A ref on the result; a list of refs for MultiOutputNode; a handle for an actor.

        Raises:
            TypeError: the graph has no InputNode and there are arguments, or the other way round.
        """
        return _execute(_in_order(self), args, kwargs)

    def experimental_compile(self, **options: Any) -> CompiledDAG:
        """Make an object whose execute() submits this graph again and again.

        Args:
            options: accepted without effect; the graph runs as by execute().
        """
        return CompiledDAG(self)

    def _parents(self) -> Iterator[DAGNode]:
        """Nodes that run ahead of this one."""
        yield from _nodes_in(self._bound_args)
        yield from _nodes_in(self._bound_kwargs)

    def _run(self, done: dict[DAGNode, Any], given: Any) -> Any:
        """Submit this node; what it depends on is done.  given: the input of the graph."""
        raise NotImplementedError

    def _arguments(self, done: dict[DAGNode, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return _replaced(self._bound_args, done), _replaced(self._bound_kwargs, done)


class FunctionNode(DAGNode):
    """Task of a graph, from `f.bind(...)`."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(args, kwargs)
        self._function = function

    def _run(self, done: dict[DAGNode, Any], given: Any) -> Any:
        args, kwargs = self._arguments(done)
        return self._function.remote(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionNode({self._function!r})"


class ClassNode(DAGNode):
    """Actor of a graph, from `A.bind(...)`: `node.method.bind(...)` adds a call.

    The calls of an actor run in the order of their bind(), also those that no other node takes.
    """

    def __init__(self, actor_class: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(args, kwargs)
        self._actor_class = actor_class
        self._last_call: ClassMethodNode | None = None

    def __getattr__(self, name: str) -> UnboundMethod:
        if name.startswith("__") or "_actor_class" not in self.__dict__:
            raise AttributeError(name)
        getattr(self._actor_class, name)  # says what is wrong with it
        return UnboundMethod(self, name, {})

    def _run(self, done: dict[DAGNode, Any], given: Any) -> Any:
        args, kwargs = self._arguments(done)
        return self._actor_class.remote(*args, **kwargs)

    def __repr__(self) -> str:
        return f"ClassNode({self._actor_class!r})"


class UnboundMethod(NamedTuple):
    """Method of an actor of a graph, before its bind()."""

    actor: ClassNode
    name: str
    chosen: dict[str, Any]

    def options(self, **options: Any) -> UnboundMethod:
        """Set options of the call, as for handles."""
        return self._replace(chosen={**self.chosen, **options})

    def bind(self, /, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """Add a call to the graph.

        Args:
            args, kwargs: the method's arguments; nodes stand for their results.
        """
        actor, name, chosen = self

        def method_of(done: dict[DAGNode, Any]) -> Any:
            method = getattr(done[actor], name)
            return method.options(**chosen) if chosen else method

        before: list[DAGNode] = [actor] if actor._last_call is None else [actor, actor._last_call]
        actor._last_call = ClassMethodNode(method_of, args, kwargs, name, before)
        return actor._last_call


class ClassMethodNode(DAGNode):
    """Call of a graph, from `handle.method.bind(...)` or from a ClassNode."""

    def __init__(
        self,
        method_of: Callable[[dict[DAGNode, Any]], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        before: list[DAGNode] | None = None,
    ) -> None:
        super().__init__(args, kwargs)
        self._method_of = method_of
        self._name = name
        self._before = before or []

    def _parents(self) -> Iterator[DAGNode]:
        yield from self._before
        yield from super()._parents()

    def _run(self, done: dict[DAGNode, Any], given: Any) -> Any:
        args, kwargs = self._arguments(done)
        return self._method_of(done).remote(*args, **kwargs)

    def __repr__(self) -> str:
        return f"ClassMethodNode({self._name})"


class InputNode(DAGNode):
    """Input of a graph: what execute() is given.  `with InputNode() as input:` is the usual spelling."""

    def __enter__(self) -> InputNode:
        return self

    def __exit__(self, *error: object) -> None:
        """The block only shows where the input is used."""

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        if not isinstance(key, (int, str)):
            raise TypeError(f"The input of a graph is indexed by int or str, not by {type(key).__name__}.")
        return InputAttributeNode(self, key, is_item=True)

    def __getattr__(self, name: str) -> InputAttributeNode:
        if name.startswith("_"):
            raise AttributeError(name)
        return InputAttributeNode(self, name, is_item=False)

    __iter__ = None  # or Python would iterate by numbers, without end

    def _run(self, done: dict[DAGNode, Any], given: Any) -> Any:
        return given


class InputAttributeNode(DAGNode):
    """Part of the input: `input[0]`, `input["name"]` or `input.name`."""

    def __init__(self, source: InputNode, key: int | str, *, is_item: bool) -> None:
        super().__init__((source,))
        self._key = key
        self._is_item = is_item

    def _run(self, done: dict[DAGNode, Any], given: Any) -> Any:
        key = self._key
        if isinstance(given, DAGInputData):
            return given.args[key] if isinstance(key, int) else given.kwargs[key]
        return given[key] if self._is_item else getattr(given, str(key))


class MultiOutputNode(DAGNode):
    """End of a graph with several results: execute() returns the list of their refs.

    Args:
        args: a list of nodes.

    Raises:
        ValueError: args is no list of nodes.
    """

    def __init__(self, args: list[DAGNode] | tuple[DAGNode, ...] | DAGNode) -> None:
        nodes = [args] if isinstance(args, DAGNode) else args
        if not isinstance(nodes, (list, tuple)) or not all(isinstance(node, DAGNode) for node in nodes):
            raise ValueError(f"MultiOutputNode takes a list of nodes, not {args!r}.")
        super().__init__((list(nodes),))

    def _run(self, done: dict[DAGNode, Any], given: Any) -> Any:
        return [done[node] for node in self._bound_args[0]]


class CompiledDAG:
    """Graph that is executed many times, from `experimental_compile()`.  Its nodes run as by `.execute()`."""

    def __init__(self, root: DAGNode) -> None:
        self._nodes: list[DAGNode] | None = _in_order(root)

    def execute(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit the graph, as DAGNode.execute() does.

        Args:
            args, kwargs: input of the graph.

        Raises:
            RuntimeError: teardown() was called.
        """
        if self._nodes is None:
            raise RuntimeError("This graph cannot be executed any more: teardown() was called.")
        return _execute(self._nodes, args, kwargs)

    async def execute_async(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit the graph: `ref = await graph.execute_async(1); value = await ref`.

        Args:
            args, kwargs: input of the graph.
        """
        return self.execute(*args, **kwargs)

    def teardown(self, kill_actors: bool = False) -> None:
        """Forget the graph.

        Args:
            kill_actors: accepted without effect: actors end with their last handles.
        """
        self._nodes = None


def _in_order(root: DAGNode) -> list[DAGNode]:
    """The nodes of a graph, each behind those that it depends on."""
    found: dict[DAGNode, None] = {}
    opened: set[DAGNode] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        if node in opened:
            stack.pop()
            found.setdefault(node)
        else:
            opened.add(node)
            stack += [parent for parent in reversed([*node._parents()]) if parent not in opened]
    return list(found)


def _execute(nodes: list[DAGNode], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    has_input = any(isinstance(node, InputNode) for node in nodes)
    if has_input != bool(args or kwargs):
        what = "has an InputNode, and execute() got no" if has_input else "has no InputNode, and execute() got an"
        raise TypeError(f"The graph {what} argument.")
    given = args[0] if len(args) == 1 and not kwargs else DAGInputData(args, kwargs)
    if isinstance(given, DAGInputData) and any(isinstance(n, InputNode) for m in nodes for n in _direct(m)):
        raise TypeError("The graph takes its input as a whole: give execute() a single argument, or use input[0].")
    done: dict[DAGNode, Any] = {}
    for node in nodes:
        done[node] = node._run(done, given)
    return done[nodes[-1]]


def _direct(node: DAGNode) -> Iterator[DAGNode]:
    """Nodes whose results this one takes; of a part of the input, none."""
    if not isinstance(node, InputAttributeNode):
        yield from node._parents()


def _nodes_in(value: Any) -> Iterator[DAGNode]:
    """The nodes in an argument."""
    if isinstance(value, DAGNode):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from _nodes_in(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _nodes_in(item)


def _replaced(value: Any, done: dict[DAGNode, Any]) -> Any:
    """An argument with results in place of nodes."""
    if isinstance(value, DAGNode):
        return done[value]
    if type(value) is list or type(value) is tuple:
        return type(value)(_replaced(item, done) for item in value)
    if type(value) is dict:
        return {key: _replaced(item, done) for key, item in value.items()}
    return value


for _name in __all__:
    globals()[_name].__module__ = "zray.dag"  # as programs import it
