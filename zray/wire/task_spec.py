"""The spec of a task, its options, and the location of a value."""

from typing import Annotated

from msgspec import Meta, MsgspecError, Struct, field
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from ..exceptions import ProtocolError
from ..ids import FUNCTION_ID_BYTES, PATH_BYTES, TASK_ID_BYTES, TaskID
from .environment import NO_ENVIRONMENT, Environment
from .limits import Payload, Refs, Table, Text
from .message import Natural
from .where import Where

# Resources are counted in ten-thousandths, so that 0.1 + 0.2 is 0.3.  Fractions go down to 0.0001.
RESOURCE_UNIT = 10_000
# Each return has an entry of its own from the moment of submission.
NUM_RETURNS_MAX = 100_000


# Items of one generator: their numbers share the indices of returns.
ITEMS_OF_GENERATOR_MAX = 1 << 30
ItemNumber = Annotated[int, Meta(ge=0, le=ITEMS_OF_GENERATOR_MAX)]


# Items of one generator that are named one by one: out of their order.
BEYOND_MAX = 64


class GivenItems(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The items of a generator that are not made again: all before number `before`, and those in `beyond`."""

    before: ItemNumber = 0
    beyond: Annotated[list[ItemNumber], Meta(max_length=BEYOND_MAX)] = []

    def has(self, number: int) -> bool:
        """Whether the item is among these."""
        return number < self.before or number in self.beyond


def _one_cpu() -> dict[str, int]:
    return {"CPU": RESOURCE_UNIT}


class StoredValue(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """The location of a sealed large value in its node's arena.  `offset` and `size` are in bytes."""

    segment: Natural
    offset: Natural
    size: Natural


# Small values travel as bytes; the first byte tells the format (store/values.py).  Control processes never look inside.
# Large values travel by location.
Value = Payload | StoredValue


class TaskOptions(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Options of a task (`.options()`), constant over many calls: encoded once, carried as opaque bytes.

    `resources` are in RESOURCE_UNITs per name.  A `max_retries` of -1 means no limit.
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
    environment: Environment = NO_ENVIRONMENT  # of the worker
    where: Where | None = None  # None: anywhere
    is_readonly: bool = False  # a call that does not change its actor
    max_calls: Natural = 0  # calls of this function in one worker, which then ends; 0: no limit
    # A call on or by a recoverable actor: the call log records its returns, and another run would report nothing.
    is_logged: bool = False
    # Of a call by a weak handle, which does not keep its actor: the local scheduler where the actor was found by name.
    found_at: Text = ""

    # The task yields its items one by one; its one return is their number (generators).
    is_generator: bool = False
    max_buffered: Natural = 0  # items of a generator that may be made and not drawn; 0: no limit
    is_dynamic: bool = False  # its one return is a DynamicObjectRefGenerator of the items
    group: Text = ""  # of a call: the concurrency group in which it runs; "": the actor's own
    time_limit: Annotated[float, Meta(ge=0)] = 0.0  # seconds that one run may take; 0: any number
    priority: int = 0  # of the tasks of a job, those with a higher one start first
    is_deterministic: bool = True  # another attempt of a generator yields the same items
    takes_first: bool = False  # of a generator with num_returns=1, the value is its first item

    @property
    def has_plain_return(self) -> bool:
        """True if the task returns one value, as it is."""
        return self.num_returns == 1 and not (self.is_generator or self.is_dynamic or self.takes_first)

    @property
    def may_run_again(self) -> bool:
        """True if the finished task may be re-executed after the loss of its results."""
        return self.max_retries != 0 and not self.is_logged


class ActorOptions(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """Options of an actor, fixed at its creation.  -1 in `max_restarts` or `max_task_retries` means no limit."""

    resources: Table[Text, Natural] = {}  # held for life
    max_restarts: Annotated[int, Meta(ge=-1)] = 0
    max_task_retries: Annotated[int, Meta(ge=-1)] = 0
    max_concurrency: Annotated[int, Meta(ge=1)] = 1
    is_async: bool = False
    name: Text = ""
    namespace: Text = ""
    detached: bool = False
    handle: Payload = b""  # pickled description of the class's methods, from which get_actor builds a handle
    class_name: Text = ""
    environment: Environment = NO_ENVIRONMENT
    where: Where | None = None
    # Calls between two checkpoints; 0: no checkpoint, all calls are replayed; -1: the actor does not recover.
    checkpoint_interval: Annotated[int, Meta(ge=-1)] = -1
    groups: Table[Text, Natural] = {}  # concurrency groups: calls of each at once
    is_ordered: bool = True  # a call waits for the arguments of its caller's earlier calls
    hosted: bool = False  # the actor shares its process with others of its job

    @property
    def is_serial(self) -> bool:
        """True if calls run one after the other, in the order in which they come."""
        return self.max_concurrency == 1 and not self.is_async and not self.groups

    @property
    def calls_at_once(self) -> int:
        """The number of calls that may run at once, in all groups together."""
        return self.max_concurrency + sum(self.groups.values())

    @property
    def may_move(self) -> bool:
        """True if the actor may be re-created on another node."""
        return self.max_restarts != 0


class TaskSpec(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A complete task: everything that lineage keeps and re-execution needs (Ray paper 4.2, 4.8).

    `deps` are resolved before the task runs: top-level refs, in the order of their places in `args`.  `holds` are refs
    inside the arguments or the function's closure: kept alive, and passed on.
    """

    task_id: TaskID
    function_id: Annotated[bytes, Meta(max_length=FUNCTION_ID_BYTES)]  # b"" for calls on an actor
    args: Payload = b""
    deps: Refs = ()
    holds: Refs = ()
    options: Payload = b""  # encoded TaskOptions; b"" means the defaults
    # Calls on an actor: the calling actor, whose calls stay in order, whichever method submits them.  Callers that are
    # no actors are told apart by their task ids.
    caller: Annotated[bytes, Meta(max_length=TASK_ID_BYTES)] = b""
    # In a job with a seed, of what a task or an actor submits: a hash of the submissions that led to the task, the same
    # in each run of the program.
    path: Annotated[bytes, Meta(max_length=PATH_BYTES)] = b""


_encode = Encoder().encode
_decode_options = Decoder(TaskOptions).decode
DEFAULT_OPTIONS = TaskOptions()

# One parsed object per distinct blob: programs have a handful.
_OPTIONS_COUNT_MAX = 10_000
_parsed: dict[bytes, TaskOptions] = {b"": DEFAULT_OPTIONS}


def encode_options(options: TaskOptions) -> bytes:
    """The blob that stands for `options` in a spec; b"" if all options are defaults."""
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


def overdue_in_words(name: str, options: TaskOptions) -> str:
    """The text of the error of a task that ran for too long."""
    return f"{name} ran longer than its timeout of {options.time_limit:g} s."


def as_logged(blob: bytes) -> bytes:
    """The options of a call, with the mark that a log records its returns."""
    options = parse_options(blob)
    return blob if options.is_logged else encode_options(replace(options, is_logged=True))
