"""Slices of Arrow data.  Arrow's own pickle keeps elements out of band, but a slice includes its whole buffers.

A slice of less than half of its buffers is copied: as a stream with one batch, in one buffer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# Smaller buffers may as well travel whole.
SLICE_MIN_BYTES = 64 * 1024


def learn() -> dict[type, Callable[[Any], Any]]:
    """The reducers of Arrow's types."""
    lib = sys.modules["pyarrow.lib"]
    kinds = [kind for kind in vars(lib).values() if isinstance(kind, type) and issubclass(kind, lib.Array)]
    return dict.fromkeys((*kinds, lib.ChunkedArray, lib.RecordBatch, lib.Table), _parts)


def _parts(value: Any) -> Any:
    if _is_part(value):
        import pyarrow

        try:
            table = value
            if isinstance(value, pyarrow.RecordBatch):
                table = pyarrow.Table.from_batches([value])
            elif not isinstance(value, pyarrow.Table):
                table = pyarrow.table({"": value})
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            return restore, (sink.getvalue(), type(value).__name__)
        except pyarrow.ArrowException:
            pass  # no stream can hold this type
    return value.__reduce_ex__(5)


def _is_part(value: Any) -> bool:
    try:
        whole = value.get_total_buffer_size()
        return whole > SLICE_MIN_BYTES and 2 * value.nbytes < whole
    except Exception:  # Some layouts cannot be measured.
        return False


def restore(stream: Any, kind: str) -> Any:
    """Return the value written by `_parts`: a view of its buffer."""
    import pyarrow

    table = pyarrow.ipc.open_stream(stream).read_all()
    if kind == "Table":
        return table
    if kind == "RecordBatch":
        batches = table.to_batches()
        return batches[0] if batches else pyarrow.RecordBatch.from_pylist([], table.schema)
    column = table.column(0)
    if kind == "ChunkedArray":
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()
