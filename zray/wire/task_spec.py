"""What is said about one task: its spec, its options, and where a value lies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, MsgspecError, Struct, field
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from ..exceptions import ProtocolError
from ..ids import FUNCTION_ID_BYTES, TASK_ID_BYTES, TaskID
from .limits import Payload, Refs, Several, Table, Text
from .message import Natural
from .where import Where

# Resources are counted in ten-thousandths, so that 0.1 + 0.2 is 0.3 (FEATURES 1: fractions to 0.0001).
RESOURCE_UNIT = 10_000
# Each return has an entry of its own from the moment of submission.
NUM_RETURNS_MAX = 100_000


def _one_cpu() -> dict[str, int]:
    return {"CPU": RESOURCE_UNIT}


# Environment variables, by name.
EnvVars = Several[tuple[Text, Text]]


class StoredValue(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """Where a sealed large value lies in its node's arena.  offset and size in bytes."""

    segment: Natural
    offset: Natural
    size: Natural


# Small values travel as they are (their first byte tells the format, see store/values.py: control processes
# never look inside); large ones by location.
Value = Payload | StoredValue


class TaskOptions(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What `.options()` says of a task, constant over many calls: encoded once, carried as opaque bytes.

    resources are in RESOURCE_UNITs per name; max_retries -1 means without end.
    """

    resources: Table[Text, Natural] = field(default_factory=_one_cpu)
    num_returns: Annotated[int, Meta(ge=0, le=NUM_RETURNS_MAX)] = 1
    max_retries: Annotated[int, Meta(ge=-1)] = 3
    retry_exceptions: bool = False
    retry_on: Payload = b""  # pickled tuple of exception classes; only the worker reads it
    name: Text = ""
    actor_id: Annotated[bytes, Meta(max_length=TASK_ID_BYTES)] = b""  # set for calls on an actor
    method: Text = ""
    writable: bool = False  # arrays among the arguments are the task's own copies
    env_vars: EnvVars = ()  # of its worker, beyond those of its job
    where: Where | None = None  # None: anywhere
    is_readonly: bool = False  # a call that leaves its actor as it is
    max_calls: Natural = 0  # of this function in one worker, which then ends; 0: without end
    # A call on an actor that recovers, or by one: its log says what it has returned, and one more run says nothing.
    is_logged: bool = False
    # Of a call by a weak handle, which does not keep its actor: the local scheduler where the actor was found by name.
    found_at: Text = ""

    @property
    def may_run_again(self) -> bool:
        """Whether it may run once more when it has ended, and what it has returned is lost."""
        return self.max_retries != 0 and not self.is_logged


class ActorOptions(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """What an actor is created with.  max_restarts, max_task_retries: -1 means without end."""

    resources: Table[Text, Natural] = {}  # held for life
    max_restarts: Annotated[int, Meta(ge=-1)] = 0
    max_task_retries: Annotated[int, Meta(ge=-1)] = 0
    max_concurrency: Annotated[int, Meta(ge=1)] = 1
    is_async: bool = False
    name: Text = ""
    namespace: Text = ""
    detached: bool = False
    handle: Payload = b""  # pickled description of the class's methods: what get_actor builds a handle from
    class_name: Text = ""
    env_vars: EnvVars = ()
    where: Where | None = None
    # Its state is saved after each so many calls; 0: never, all are run again.  -1: it does not recover.
    checkpoint_interval: Annotated[int, Meta(ge=-1)] = -1

    @property
    def may_move(self) -> bool:
        """Whether it may be made again on another node."""
        return self.max_restarts != 0


class TaskSpec(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One task, complete: what lineage keeps and re-execution needs (Ray paper 4.2, 4.8).

    deps are resolved before the task runs (top-level refs, in the order of their places in `args`); holds are
    refs inside the arguments or the function's closure: kept alive, passed on.
    """

    task_id: TaskID
    function_id: Annotated[bytes, Meta(max_length=FUNCTION_ID_BYTES)]  # b"" for calls on an actor
    args: Payload = b""
    deps: Refs = ()
    holds: Refs = ()
    options: Payload = b""  # encoded TaskOptions; b"" means the defaults
    # Calls on an actor: the actor that calls.  Its calls stay in order, whichever of its methods submits them; those of
    # others are told apart by their task ids.
    caller: Annotated[bytes, Meta(max_length=TASK_ID_BYTES)] = b""


_encode = Encoder().encode
_decode_options = Decoder(TaskOptions).decode
DEFAULT_OPTIONS = TaskOptions()

# One parsed object per distinct blob: programs have a handful.
_OPTIONS_COUNT_MAX = 10_000
_parsed: dict[bytes, TaskOptions] = {b"": DEFAULT_OPTIONS}


def encode_options(options: TaskOptions) -> bytes:
    """The blob that stands for `options` in a spec; b"" where all are the defaults."""
    return b"" if options == DEFAULT_OPTIONS else _encode(options)


def parse_options(blob: bytes) -> TaskOptions:
    """The options behind a blob.

    Raises:
        ProtocolError: the bytes are no options (definite).
    """
    options = _parsed.get(blob)
    if options is None:
        if len(_parsed) >= _OPTIONS_COUNT_MAX:
            _parsed.clear()
            _parsed[b""] = DEFAULT_OPTIONS
        try:
            options = _parsed[blob] = _decode_options(blob)
        except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"no task options: {error}") from error
    return options


def as_logged(blob: bytes) -> bytes:
    """These options of a call, of which a log says what it returns."""
    options = parse_options(blob)
    return blob if options.is_logged else encode_options(replace(options, is_logged=True))
