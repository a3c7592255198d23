"""Identifiers: derived by hashing, never drawn, so that a re-executed parent makes the same children.

    TaskID    16 bytes   10 bytes of the parent's hash + 6 bytes of the parent's submission counter
    ObjectID  20 bytes   the TaskID of its producer + 4 bytes of index
    ActorID   16 bytes   the TaskID of the actor's creation task

Returns of a task have the indices 1, 2, ...; values that a task puts have indices from PUT_INDEX_FIRST on.
An object's id therefore names its producer, and a task, its lineage and its objects hash to one GCS shard.
Source: Ray paper 4.8 (the same ids on re-execution).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

from msgspec import Meta

TASK_ID_BYTES = 16
OBJECT_ID_BYTES = 20
PARENT_HASH_BYTES = 10
COUNTER_BYTES = 6
FUNCTION_ID_BYTES = 16
JOB_ID_BYTES = 8
PATH_BYTES = 8
# Refs inside of one value, or that one task takes: more are refused where they are pickled.  Messages name them all,
# and so many ids make 22 MB, a third of a frame between hosts.
REFS_MAX = 1_000_000

# The lengths are checked where bytes from a peer become messages (wire/codec.py).
TaskID = Annotated[bytes, Meta(min_length=TASK_ID_BYTES, max_length=TASK_ID_BYTES)]
ObjectID = Annotated[bytes, Meta(min_length=OBJECT_ID_BYTES, max_length=OBJECT_ID_BYTES)]
ActorID = TaskID
FunctionID = Annotated[bytes, Meta(min_length=FUNCTION_ID_BYTES, max_length=FUNCTION_ID_BYTES)]
NodeID = bytes
JobID = bytes

# Half of the index space for returns, half for puts: neither can run into the other.
PUT_INDEX_FIRST = 1 << 31
FIRST_RETURN = (1).to_bytes(4, "big")


def root_task_id(job_id: JobID) -> TaskID:
    """The TaskID under which a driver submits: child ids hash from the job's id."""
    return blake2b(job_id, digest_size=TASK_ID_BYTES, person=b"zray-job").digest()


def stray_task_id(node_id: NodeID, worker_id: int) -> TaskID:
    """The TaskID for submissions of a worker's threads that outlive their task: unique to the worker."""
    worker = worker_id.to_bytes(8, "big")
    return blake2b(node_id + worker, digest_size=TASK_ID_BYTES, person=b"zray-stray").digest()


def children_prefix(parent: TaskID) -> bytes:
    """The first 10 bytes of the ids of all tasks that `parent` submits (hashed once per parent)."""
    return blake2b(parent, digest_size=PARENT_HASH_BYTES).digest()


# Bytes of a child's number in which an id that no other run of the parent repeats has a salt.
SALT_BYTES = 3


def unrepeated_id(task_id: TaskID, salt: bytes) -> TaskID:
    """The id of a child that no other run of its parent submits; children beyond 16 million keep the given id.

    Args:
        task_id: the id that another run of the parent would give to the child too.
        salt: SALT_BYTES bytes that differ in each run.
    """
    number = task_id[PARENT_HASH_BYTES:]
    if any(number[:SALT_BYTES]):
        return task_id
    return task_id[:PARENT_HASH_BYTES] + salt + number[SALT_BYTES:]


def counter_of(task_id: TaskID) -> int:
    """The number of a task among those that its parent has submitted."""
    return int.from_bytes(task_id[PARENT_HASH_BYTES:], "big")


def child_path(parent: bytes, task_id: TaskID) -> bytes:
    """The path of a task that the task with the path `parent` submits; b"" is the path of a driver.

    A path names a task in the same way in each run of a program, whatever the job's id.
    """
    return blake2b(parent + task_id[PARENT_HASH_BYTES:], digest_size=PATH_BYTES, person=b"zray-path").digest()


def is_child(task_id: TaskID, parent: TaskID) -> bool:
    """Whether `parent` has submitted the task."""
    return task_id[:PARENT_HASH_BYTES] == children_prefix(parent)


def name_key(namespace: str, name: str) -> bytes:
    """Key whose hash selects the shard with authority for an actor's name."""
    return f"{namespace}\0{name}".encode().rjust(16, b"\0")[-16:]


def group_name_key(namespace: str, name: str) -> TaskID:
    """Key whose hash selects the shard with authority for the placement group of the name."""
    said = f"{len(namespace)} {namespace} {name}".encode()
    return bytes(COUNTER_BYTES) + blake2b(said, digest_size=PARENT_HASH_BYTES, person=b"zray-group").digest()


def named_group_id(task_id: TaskID, namespace: str, name: str) -> TaskID:
    """The id of a placement group with a name: unique, and at the shard of the name."""
    own = blake2b(task_id, digest_size=COUNTER_BYTES, person=b"zray-group").digest()
    return own + group_name_key(namespace, name)[COUNTER_BYTES:]


def return_id(task_id: TaskID, index: int) -> ObjectID:
    """The id of return value `index` (from 1) of a task."""
    return task_id + index.to_bytes(4, "big")


def item_id(task_id: TaskID, number: int) -> ObjectID:
    """The id of item `number` (from 0) of a generator: its first return is its end."""
    return return_id(task_id, number + 2)


def put_id(task_id: TaskID, count: int) -> ObjectID:
    """The id of the `count`-th (from 0) value that a task puts."""
    return task_id + (PUT_INDEX_FIRST + count).to_bytes(4, "big")


# The numbers of an actor's checkpoints among what it puts: out of reach of those that it puts itself.
_FIRST_CHECKPOINT = 1 << 30


def checkpoint_id(actor_id: TaskID, restart_count: int, call_count: int) -> ObjectID:
    """The id of an actor's state after `call_count` calls.  Another process of the actor may have run others before."""
    return put_id(actor_id, _FIRST_CHECKPOINT + (((restart_count << 20) + call_count) & (_FIRST_CHECKPOINT - 1)))


def task_of(object_id: ObjectID) -> TaskID:
    """The task that made (or put) an object."""
    return object_id[:TASK_ID_BYTES]


def index_of(object_id: ObjectID) -> int:
    """The index of an object among the objects of its task."""
    return int.from_bytes(object_id[TASK_ID_BYTES:], "big")


def is_put(object_id: ObjectID) -> bool:
    """Whether an object was put by a task, not returned: such an object cannot be re-executed alone."""
    return index_of(object_id) >= PUT_INDEX_FIRST


def is_item(object_id: ObjectID) -> bool:
    """Whether an object is an item, if its task is a generator."""
    return 1 < index_of(object_id) < PUT_INDEX_FIRST


def function_id(code: bytes) -> FunctionID:
    """Functions and classes are named by the hash of their pickled bytes."""
    return blake2b(code, digest_size=FUNCTION_ID_BYTES, person=b"zray-fn").digest()
