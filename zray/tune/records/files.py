"""The files of a trial: result.json, progress.csv, params.json, params.pkl, error.txt, TensorBoard's events."""

from __future__ import annotations

import contextlib
import csv
import glob
import json
import math
import os
import sys
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from ..metrics import encode_other, text_of
from ..refs import dumps
from ..trial import Trial
from .appended_text import AppendedText
from .tensorboard import EVENTS, EventFile

__all__ = [
    "FORMATS",
    "FilesOfTrials",
    "RecordsRepair",
    "TrialFiles",
    "csv_rows",
    "flattened",
    "json_lines",
    "plain",
    "read_results",
]

# Trials with open files: those that reported last; the files of others are opened again.  Each has two.
OPEN_MAX = 100
# What is written of each trial: "json": params.json, params.pkl and result.json; "csv": progress.csv.
FORMATS = frozenset(("json", "csv"))


# As floats have; Python writes no integer of more than 4,300 decimals.
INTEGER_BITS_MAX = 1_024


# Values of these types, and of no derived ones, are written as they are: nearly all of a result.
_AS_THEY_ARE = frozenset((str, float, bool, type(None)))
_SMALL = 1 << 63  # smaller integers are written as they are, too: a call for each would cost 3 % of a report


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers of numpy and torch as numbers, small arrays as lists, other objects as text."""
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= INTEGER_BITS_MAX else hex(value)
    if isinstance(value, dict):
        return {
            key if type(key) is str else text_of(key): item
            if type(item) in _AS_THEY_ARE or (type(item) is int and -_SMALL < item < _SMALL)
            else plain(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and name:
        return name
    other = encode_other(value)
    return other if isinstance(other, (bool, int, float, str)) else plain(other)


def _json_of(line: dict[str, Any]) -> str:
    """The JSON of a plain value.

    msgspec needs an eighth of json's time, and has no NaN, no inf and no long integers: json writes these.
    """
    try:
        text = _encode(line)
    except (TypeError, ValueError, OverflowError):
        return json.dumps(line)
    # msgspec writes null for NaN and inf.  json writes ASCII, which is right for a file of any encoding.
    return text.decode() if text.isascii() and b"null" not in text else json.dumps(line)


_encode = msgspec.json.Encoder().encode


def without_nan(value: Any) -> Any:
    """The value with null in place of what JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    return [without_nan(item) for item in value] if isinstance(value, list) else value


def flattened(result: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one: {"a": {"b": 1}} is {"a/b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, dict) and value:
            flat.update(flattened(value, f"{prefix}{key}/"))
        elif prefix or type(key) is not str:
            flat[f"{prefix}{key}"] = value
        else:
            flat[key] = value
    return flat


def read_results(folder: str) -> list[dict[str, Any]]:
    """The results in a trial's folder, without a last line that was cut short."""
    path = os.path.join(folder, "result.json")
    return json_lines(path) if os.path.exists(path) else []


def json_lines(path: str) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines, up to a line that was cut short or is damaged."""
    found: list[dict[str, Any]] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(record, dict):
                break
            found.append(record)
    return found


@contextlib.contextmanager
def csv_rows(file: Any) -> Iterator[Any]:
    """Return a csv reader for cells of any length; csv's own limit of 128 KiB applies to the whole process."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield csv.reader(file)
    finally:
        csv.field_size_limit(limit)


class TrialFiles:
    """The files of one trial.

    Files are continued when an experiment is resumed.

    Args:
        has_events: write TensorBoard's events too.
        formats: which of FORMATS are written.
    """

    def __init__(self, trial: Trial, *, has_events: bool = False, formats: Collection[str] = FORMATS) -> None:
        self.trial = trial
        self.has_events = has_events
        self.formats = formats
        self.columns: list[str] = []
        self._events: EventFile | None = None
        self._json: AppendedText | None = None
        self._csv: AppendedText | None = None
        self._writer: Any = None  # of _csv
        self._known: Any = None  # the keys of the last result

    def add(self) -> None:
        """Write the parameters."""
        os.makedirs(self.trial.path, exist_ok=True)
        self.write_parameters()

    def write_parameters(self) -> None:
        """Write params.json and params.pkl: anew, when the configuration has changed."""
        if "json" not in self.formats:
            return
        text = json.dumps(without_nan(plain(self.trial.config)), indent=2, sort_keys=True)
        path = os.path.join(self.trial.path, "params")
        for suffix, data in (".json", text.encode()), (".pkl", dumps(self.trial.config)):
            with open(path + suffix, "wb", buffering=0) as file:
                while data:
                    data = data[file.write(data) :]

    def log(self, result: dict[str, Any]) -> None:
        """Write a result."""
        if self._json is None and self._csv is None:
            self._open()
        line = plain(result)
        if self._json is not None:
            self._json.write(_json_of(line) + "\n")
        flat = flattened(line)
        if self._csv is not None:
            self._write_row(flat)
        if self.has_events:
            self.events().log(flat)

    def events(self) -> EventFile:
        """TensorBoard's event file."""
        if self._events is None:
            self._events = EventFile(self.trial.path, flattened(plain(self.trial.config)))
        return self._events

    def _open(self) -> None:
        if "json" in self.formats:
            self._json = AppendedText(os.path.join(self.trial.path, "result.json"))
        if "csv" not in self.formats:
            return
        path = os.path.join(self.trial.path, "progress.csv")
        if not self.columns and os.path.exists(path):
            with open(path, newline="") as file, csv_rows(file) as rows:
                self.columns = next(rows, [])
        self._csv = AppendedText(path)
        self._writer = csv.writer(self._csv, lineterminator="\n")

    def _write_row(self, flat: dict[str, Any]) -> None:
        if flat.keys() != self._known:
            new = [key for key in flat if key not in self.columns]
            if new:
                self._add_columns(new)
            self._known = flat.keys()
        cells = [_cell(cell) if type(cell) is str else cell for cell in map(flat.get, self.columns)]
        self._writer.writerow(cells)  # None is an empty cell

    def _add_columns(self, new: list[str]) -> None:
        """A later result has more keys: the file is written anew, with empty cells before."""
        assert self._csv is not None
        path = os.path.join(self.trial.path, "progress.csv")
        if not self.columns:
            self.columns = new
            self._writer.writerow(new)
            return
        self._csv.close()
        with open(path, newline="") as file, csv_rows(file) as found:
            rows = list(found)[1:]
        self.columns += new
        unfinished = f"{path}.unfinished"
        with open(unfinished, "w", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows([*row, *([""] * (len(self.columns) - len(row)))] for row in rows)
        os.rename(unfinished, path)
        self._csv = AppendedText(path)
        self._writer = csv.writer(self._csv, lineterminator="\n")

    def flush(self) -> None:
        """Hand over to the operating system."""
        for file in (self._json, self._csv):
            if file is not None:
                file.flush()
        if self._events is not None:
            self._events.flush()

    def suspend(self) -> None:
        """Close the files until the next result; TensorBoard's events go on in the same file."""
        events, self._events = self._events, None
        try:
            self.close()
            if events is not None:
                events.suspend()
        finally:
            self._events = events

    def close(self) -> None:
        """Close the files; a later result opens them again."""
        with contextlib.ExitStack() as stack:  # one that cannot write its rest does not keep the others open
            for file in (self._json, self._csv, self._events):
                if file is not None:
                    stack.callback(file.close)
            self._json = self._csv = self._events = None

    def finish(self) -> None:
        """Write that the trial has ended, and close the files."""
        self.write_error()
        if self.has_events and self.trial.last_result:
            self.events().end(is_failed=bool(self.trial.error))
        self.close()

    def write_error(self) -> None:
        """Write error.txt."""
        if self.trial.error:
            os.makedirs(self.trial.path, exist_ok=True)
            path = os.path.join(self.trial.path, "error.txt")
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.trial.error)
            if self.trial.error_pickle:
                with open(os.path.join(self.trial.path, "error.pkl"), "wb") as binary:
                    binary.write(self.trial.error_pickle)

    def begin_anew(self) -> None:
        """Remove the results, TensorBoard's events and the error of a trial that begins anew."""
        self.replace([])
        events = glob.glob(os.path.join(glob.escape(self.trial.path), f"{EVENTS}.*")) if self.has_events else []
        for path in (*events, *(os.path.join(self.trial.path, name) for name in ("error.txt", "error.pkl"))):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)

    def results(self) -> list[dict[str, Any]]:
        """The results in result.json, if it is written."""
        return read_results(self.trial.path) if "json" in self.formats else []

    def is_complete(self, count: int) -> bool:
        """Whether the files have `count` results, and no truncated line."""
        try:
            if "csv" in self.formats:
                with open(os.path.join(self.trial.path, "progress.csv"), newline="") as file, csv_rows(file) as found:
                    rows = list(found)
                if len(rows) != count + 1 or any(len(row) != len(rows[0]) for row in rows):
                    return False
            if "json" not in self.formats:
                return True
            with open(os.path.join(self.trial.path, "result.json")) as file:
                lines = file.read()
        except (FileNotFoundError, UnicodeDecodeError, csv.Error):  # damaged: they are written anew
            return False
        return lines.endswith("\n") and lines.count("\n") == count

    def replace(self, results: list[dict[str, Any]]) -> None:
        """Write result.json and progress.csv anew."""
        self.close()
        for kind, name in (("json", "result.json"), ("csv", "progress.csv")):
            if kind in self.formats:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(self.trial.path, name))
        self.columns = []
        for result in results:
            self.log(result)
        self.close()


class FilesOfTrials:
    """The files of all trials; files of recently reporting trials are open.

    Args:
        formats: which of FORMATS are written.
    """

    def __init__(self, formats: Collection[str] = FORMATS) -> None:
        self.formats = formats
        self.events_max = 0  # TensorBoard's events of so many trials are written
        self._all: dict[str, TrialFiles] = {}  # of the trials that have not ended
        self._open: dict[str, TrialFiles] = {}  # the one that was written last comes last
        self._written: dict[str, TrialFiles] = {}  # since the last flush

    def of(self, trial: Trial) -> TrialFiles:
        """The files of a trial."""
        files = self._all.get(trial.trial_id)
        if files is None:
            files = TrialFiles(trial, has_events=trial.index < self.events_max, formats=self.formats)
            self._all[trial.trial_id] = files
        return files

    def all(self) -> list[TrialFiles]:
        """The files of the trials that have not ended."""
        return list(self._all.values())

    def log(self, trial: Trial, result: dict[str, Any]) -> None:
        """Write a result of a trial."""
        files = self.of(trial)
        self._open.pop(trial.trial_id, None)
        self._open[trial.trial_id] = self._written[trial.trial_id] = files
        files.log(result)
        if len(self._open) > OPEN_MAX:
            self._open.pop(next(iter(self._open))).suspend()

    def flush(self) -> None:
        """Hand over to the operating system what is new."""
        for files in self._written.values():
            files.flush()
        self._written.clear()

    def end(self, trial: Trial) -> TrialFiles:
        """Return the files of a finished trial, for the caller to finish."""
        files = self.of(trial)
        for known in (self._all, self._open, self._written):
            known.pop(trial.trial_id, None)
        return files


class RecordsRepair:
    """Completes the files of trials with results only in the journal: a kill came before the writing.

    Args:
        formats: which of FORMATS are written.
    """

    def __init__(self, formats: Collection[str] = FORMATS) -> None:
        self._formats = formats
        self._files: dict[str, TrialFiles] = {}
        self._written: dict[str, list[dict[str, Any]]] = {}
        self._missing: dict[str, list[dict[str, Any]]] = {}
        self._counts: dict[str, int] = {}

    def begun_anew(self, trial: Trial) -> None:
        """The trial begins anew: the results so far are not written, and those that follow all are."""
        key = trial.trial_id
        self._files.setdefault(key, TrialFiles(trial, formats=self._formats))
        self._written[key], self._missing[key], self._counts[key] = [], [], 0

    def note(self, trial: Trial, result: dict[str, Any]) -> None:
        """A result that the journal has."""
        key = trial.trial_id
        if key not in self._files:
            files = self._files[key] = TrialFiles(trial, formats=self._formats)
            self._written[key] = files.results()
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] > len(self._written[key]):
            self._missing.setdefault(key, []).append(dict(result))

    def write(self) -> None:
        """Write the files of trials with missing results, a truncated last line, or surplus results.

        Results that the journal does not have are of a journal that was damaged, or copied earlier: they come again.
        """
        for key, files in self._files.items():
            missing, count = self._missing.get(key, []), self._counts[key]
            if missing or not files.is_complete(count):
                os.makedirs(files.trial.path, exist_ok=True)
                files.write_parameters()
                files.replace([*self._written[key], *missing][:count])


def _cell(text: str) -> str:
    return text.replace("\0", "\\0") if "\0" in text else text  # no reader of csv takes it
