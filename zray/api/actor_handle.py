"""Handles of actors, and their methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from ..host import context
from ..ids import FIRST_RETURN, return_id
from ..object_ref import ObjectRef
from ..options.remote_options import METHOD_OPTIONS, STREAMING, check_options, returns_of
from ..store.arguments import simple_payload
from ..wire.task_spec import TaskOptions, TaskSpec, encode_options
from . import sessions
from .introspection import OfInstance, returning, shows_signature, signature_of_method
from .remote_function import configured, serialize_call, stream
from .signatures import check_arguments, signature_from

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..host.client.runtime import Runtime
    from .dag import ClassMethodNode
    from .remote_types import MethodOptions

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)

# Under these keys a handle knows a method's parameters, and that it is a generator, beside its options.
PARAMETERS = " parameters"
IS_GENERATOR = " is a generator"
IS_LOGGED = " is logged"  # the actor recovers
# Other namespaces that the error of a missing name lists: a line of text.
NAMESPACES_SAID_MAX = 5
MAX_PENDING = " max pending calls"
GROUPS = " concurrency groups"  # the names of the actor's


class ActorHandle(Generic[C_co]):
    """Handle of an actor: `handle.method.remote(...)` calls a method.

    A handle may be an argument, a result or part of a value.  An actor that is not detached ends with its last handle.
    A handle from get_actor() is weak: neither the handle nor a copy that is passed on keeps the actor.
    """

    __module__ = "zray.actor"  # as programs import it

    # The actor's class, for its signatures and docstrings, where this program has created the actor.
    # A weak reference: the class may hold its actor class, whose code may hold large objects.
    _cls: Callable[[], type | None] = staticmethod(lambda: None)

    def __init__(
        self,
        actor_id: bytes,
        ref: ObjectRef | None,
        class_name: str,
        methods: dict[str, dict[str, Any]],
        max_task_retries: int,
        found_at: str = "",
    ) -> None:
        """ref: on the object behind the handles, which counts; None: a weak handle.  found_at: as in TaskOptions."""
        self._actor_id = actor_id
        self._found_at = found_at
        self._made_in = context.runtime.mark if context.runtime is not None else None
        self._ref = ref
        self._class_name = class_name
        self._methods = methods
        self._max_task_retries = max_task_retries

    def __getattr__(self, name: str) -> ActorMethod:
        methods = self.__dict__.get("_methods")
        if methods is None or name not in methods:
            known = ", ".join(sorted(item for item in methods or () if not item.startswith("__")))
            raise AttributeError(f"Actor {self.__dict__.get('_class_name')} has no method {name!r}.  It has: {known}.")
        kind = ActorMethod if MAX_PENDING not in methods[name] else _limited_method()
        found = kind(self, name, methods[name])
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted(self._methods)

    def __reduce__(self) -> Any:
        return _rebuild_handle, (
            self._actor_id,
            self._ref,
            self._class_name,
            self._methods,
            self._max_task_retries,
            self._found_at,
        )

    def _refuse_if_over(self, runtime: Runtime) -> None:
        """Raises: ActorDiedError: it is of a session that has ended."""
        refuse_if_over(runtime, self._ref, self._made_in, self._class_name)

    def __repr__(self) -> str:
        return f"Actor({self._class_name}, {self._actor_id.hex()})"

    def _repr_html_(self) -> str:
        """The actor in a notebook.  Nobody is asked for its state."""
        from html import escape

        return f"<code>{escape(repr(self))}</code>"

    def __hash__(self) -> int:
        return hash(self._actor_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._actor_id == self._actor_id


def _limited_method() -> type[ActorMethod]:
    from .pending_calls import LimitedMethod

    return LimitedMethod


def _rebuild_handle(*parts: Any) -> ActorHandle[Any]:
    return ActorHandle(*parts)


def _rebuild_method(handle: tuple[Any, ...], name: str) -> ActorMethod:
    method: ActorMethod = getattr(ActorHandle(*handle), name)
    return method


if TYPE_CHECKING:
    # A handle has the attributes of its class: those under @zray.method are typed (remote_types.RemoteMethod).
    ActorProxy = type[C]
else:
    ActorProxy = Union[ActorHandle[C], type[C]]  # noqa: UP007  # as in Ray: it takes a parameter


class ActorMethod:
    """Method of an actor: `handle.method.remote(...)` calls it.

    A method may be an argument, a result or part of a value, and keeps the actor as a handle does.
    """

    __module__ = "zray.actor"  # as programs import it

    __slots__ = (
        "_blob",
        "_class_name",
        "_cls",
        "_counts",
        "_found_at",
        "_handle_id",
        "_handle_ref",
        "_handle_session",
        "_name",
        "_num_returns",
        "_options",
        "_retries",
        "_session",
        "_signature",
    )

    def __init__(self, handle: ActorHandle[Any], name: str, options: dict[str, Any]) -> None:
        # No reference to the handle itself: a ring of the two would outlive its last user.
        self._handle_id = handle._actor_id
        self._handle_ref = handle._ref
        self._handle_session = handle._made_in
        self._found_at = handle._found_at
        self._class_name = handle._class_name
        self._cls = handle._cls
        self._retries = handle._max_task_retries
        self._name = name
        self._options = options
        self._num_returns = returns_of(options, is_generator=IS_GENERATOR in options)
        self._blob = b""
        self._session: object = None  # the mark of the runtime for which the blob was made
        self._signature, self._counts = signature_from(options.get(PARAMETERS))

    def __get__(self, instance: object, owner: Any = None) -> ActorMethod:
        # help() shows the signature of an object only if it has this.
        return self

    def __dir__(self) -> list[str]:
        return ["bind", "options", "remote"]

    @property
    def __name__(self) -> str:
        return self._name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"Actor methods cannot be called directly: use .{self._name}.remote(...).")

    def options(self, /, **options: Unpack[MethodOptions]) -> ActorMethod:
        """Make a copy of this method with other options: `handle.step.options(num_returns=2).remote(...)`.

        - `num_returns` (default 1): number of refs; 0 returns `None`; default `"streaming"` of generators
        - `max_buffered` (default none): items of a generator that may be made and not drawn
        - `deterministic` (default `True`): a retry of a generator yields the same items; `False` accepts others
        - `max_task_retries` (default the actor's): repetitions of this call
        - `retry_exceptions` (default `False`): `True`, or a list of exception classes that cause a repetition, counted
          by `max_task_retries`
        - `name` (default `Class.method`): name in errors and logs
        - `readonly` (default `False`): the method changes nothing; replay skips it
        - `concurrency_group` (default none): group of the actor's `concurrency_groups` in which the calls run

        Returns:
            A method; options that are not given are as before.

        Raises:
            TypeError: an option has a wrong type.
            ValueError: an unknown option, or a value out of range.
            NotImplementedError: an option of Ray's that zray does not have yet.
        """
        checked = check_options({**options}, METHOD_OPTIONS, "an actor's method")
        check_group(checked, self._options.get(GROUPS, ()), f"{self._class_name}.{self._name}")
        other: ActorMethod = object.__new__(type(self))
        for slot in ActorMethod.__slots__:
            setattr(other, slot, getattr(self, slot))
        other._options = {**self._options, **checked}
        other._num_returns = returns_of(other._options, is_generator=IS_GENERATOR in other._options)
        other._session = None
        return other

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Call with options as arguments, as RemoteFunction._remote does."""
        return configured(self, options).remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """Add a call to a lazy graph, which execute() of the node submits (zray.dag).

        Args:
            args, kwargs: the method's arguments; nodes stand for their results.
        """
        from .dag import ClassMethodNode

        return ClassMethodNode(lambda done: self, args, kwargs, f"{self._class_name}.{self._name}")

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a call, and return at once.  help(handle.method) shows the method's own docstring.

        Args:
            args, kwargs: the method's arguments.  A ref stands for its value.

        Returns:
            A ref on the result; a list of refs with num_returns=n; None with num_returns=0.

        Raises:
            TypeError: the arguments do not fit the method's signature, or cannot be serialized.
        """
        runtime = sessions.require_runtime(self)
        counts = self._counts
        if kwargs or not counts[0] <= len(args) <= counts[1]:
            self._check_call(args, kwargs)
        if self._session is not runtime.mark:
            self._prepare(runtime)
        blob = self._blob
        payload = None if kwargs else simple_payload(args, runtime.inline_bytes_max)
        deps: tuple[bytes, ...] = ()
        holds: tuple[bytes, ...] = ()
        if payload is None:
            keep: list[ObjectRef] = []
            arguments = serialize_call(runtime, args, kwargs, keep)
            payload, deps, holds = arguments.payload, arguments.deps, arguments.holds
        submitter = runtime.submitter()
        task_id = submitter.next_task_id()
        caller = submitter.actor_id
        spec = TaskSpec(task_id, b"", payload, deps, holds, blob, caller, submitter.path and submitter.path_of(task_id))
        count = self._num_returns
        if count == STREAMING:
            return stream(runtime, spec, is_limited=bool(self._options.get("max_buffered")))
        first = runtime.submit(spec, count)
        if count == 1:
            return ObjectRef(first)
        if count == 0:
            return None
        return [ObjectRef(return_id(task_id, index)) for index in range(1, count + 1)]

    def __reduce__(self) -> Any:
        handle = (self._handle_id, self._handle_ref, self._class_name, {self._name: self._options}, self._retries)
        return _rebuild_method, ((*handle, self._found_at), self._name)

    def __repr__(self) -> str:
        return f"ActorMethod({self._class_name}.{self._name})"

    def _signature_of_call(self) -> inspect.Signature:
        return returning(_signature_of(self), self._num_returns)

    def _check_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._signature is not None:
            check_arguments(self._signature, f"{self._class_name}.{self._name}", args, kwargs)

    def _prepare(self, runtime: Runtime) -> None:
        """Encode the options for this session."""
        refuse_if_over(runtime, self._handle_ref, self._handle_session, self._class_name)
        self._blob = self._encode_options()
        self._session = runtime.mark

    def _encode_options(self) -> bytes:
        from ..store.values import serialize, to_bytes

        options = self._options
        is_generator = self._num_returns == STREAMING
        retry = options.get("retry_exceptions") or False
        classes = tuple(retry) if isinstance(retry, (list, tuple)) else ()
        retries = options.get("max_task_retries")
        return encode_options(
            TaskOptions(
                resources={},
                num_returns=1 if is_generator else self._num_returns,
                is_generator=is_generator,
                max_buffered=options.get("max_buffered") or 0,
                is_dynamic=options.get("num_returns") == "dynamic",
                is_deterministic=options.get("deterministic") is not False,
                takes_first=options.get("num_returns") == 1 and IS_GENERATOR in options,
                max_retries=self._retries if retries is None else retries,
                retry_exceptions=bool(retry),
                retry_on=to_bytes(serialize(classes)) if classes else b"",
                name=options.get("name") or f"{self._class_name}.{self._name}",
                actor_id=self._handle_id,
                method=self._name,
                # The items of a generator may be requested again, and are the same only at the same place in the order.
                is_readonly=bool(options.get("readonly")) and not is_generator,
                is_logged=bool(options.get(IS_LOGGED)),
                found_at=self._found_at,
                group=options.get("concurrency_group") or "",
            )
        )


def check_group(options: dict[str, Any], groups: Collection[str], method: str) -> None:
    """Refuse a concurrency group that the actor does not have.

    Raises:
        ValueError: names the group and those that there are.
    """
    group = options.get("concurrency_group")
    if group and group not in groups:
        known = f"it has {', '.join(map(repr, groups))}" if groups else "it has none (`concurrency_groups={...}`)"
        raise ValueError(f"{method} cannot run in concurrency group {group!r}: the actor has no such group; {known}.")


def _signature_of(method: ActorMethod) -> inspect.Signature:
    return signature_of_method(method._cls(), method._name, method._options.get(PARAMETERS))


def _docstring_of(method: ActorMethod) -> str | None:
    cls = method._cls()
    return inspect.getdoc(getattr(cls, method._name, None)) if cls is not None else None


shows_signature(ActorMethod.remote)
ActorMethod.__signature__ = OfInstance(_signature_of, None)  # type: ignore[attr-defined]
ActorMethod.__doc__ = OfInstance(_docstring_of, ActorMethod.__doc__)  # type: ignore[assignment]


def refuse_if_over(runtime: Runtime, ref: ObjectRef[Any] | None, session: object, class_name: str) -> None:
    """Refuse a handle of a session that has ended.  ref: the handle's; session: the one in which it was made.

    Raises:
        ActorDiedError: the session of the handle has ended.
    """
    if context.had_session and (session is not runtime.mark if ref is None else ref.id not in runtime.client.held):
        raise context.actor_of_ended_session(class_name)


def find_actor(runtime: Runtime, name: str, namespace: str | None, *, is_weak: bool = False) -> ActorHandle[Any] | None:
    """A handle on the living actor of that name; None when there is none.  is_weak: it does not keep the actor."""
    from ..wire.actors import FindActor

    reply = runtime.ask(lambda request: FindActor(request, namespace or runtime.namespace, name, is_weak))
    if not reply.actor_id:
        return None
    return handle_of(runtime, reply.actor_id, reply.handle, reply.node)


def why_not_found(runtime: Runtime, name: str, namespace: str) -> str:
    """The sentence on a name without an actor, with other namespaces that have an actor of that name."""
    from ..wire.actors import FindActorNames

    known = runtime.ask(lambda request: FindActorNames(request, namespace, True)).names
    others = [other for other, found in known if found == name and other != namespace]
    text = f"There is no living actor named {name!r} in namespace {namespace!r}."
    if others:
        more = f" and {len(others) - NAMESPACES_SAID_MAX} more" if len(others) > NAMESPACES_SAID_MAX else ""
        text += f"  Namespaces that have one: {', '.join(map(repr, others[:NAMESPACES_SAID_MAX]))}{more}."
        text += "  Pass namespace=... to get_actor(), or to init()."
    return text


def handle_of(runtime: Runtime, actor_id: bytes, data: bytes, found_at: str = "") -> ActorHandle[Any]:
    """Make a handle of the facts that the actor's options hold.  found_at: the node, for a weak handle."""
    from ..store.values import deserialize

    class_name, methods, retries = deserialize(data)
    ref = None if found_at else runtime.another_ref(actor_id + FIRST_RETURN)
    return ActorHandle(actor_id, ref, class_name, methods, retries, found_at)
