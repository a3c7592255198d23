"""Metrics of odd values: numbers of every library are numbers, and what cannot be recorded is named."""

import csv
import decimal
import fractions
import os
import re
import threading

import msgpack
import msgpack_numpy
import numpy as np
import pytest

from zray.tune import events as ev
from zray.tune.arrays import BYTES_MAX, decoded
from zray.tune.functions import FunctionRun
from zray.tune.journal import _HEAD, MAGIC, Journal, read_journal
from zray.tune.metrics import as_number, recordable, text_of
from zray.tune.records.files import TrialFiles, plain, read_results
from zray.tune.trial import Trial
from zray.tune.trial_results import filled_result
from zray.tune.worker import ERROR_MAX, _failure


class Speechless:
    """An object whose text raises an error."""

    def __repr__(self):
        raise RuntimeError("no words")


class Tensor:
    """A tensor as torch has it: its size is a method."""

    dtype = "float32"

    def __init__(self, *values):
        self.values = values

    def numel(self):
        return len(self.values)

    def size(self):
        return (len(self.values),)

    def item(self):
        (value,) = self.values
        return value

    def tolist(self):
        return list(self.values)


NUMBERS = [
    (np.float32(0.5), 0.5),
    (np.float16(0.5), 0.5),
    (np.longdouble(0.5), 0.5),
    (np.int64(3), 3),
    (np.uint8(3), 3),
    (np.bool_(True), True),
    (np.array(0.5), 0.5),
    (np.array([[0.5]]), 0.5),
    (np.array([0.5], dtype=np.longdouble), 0.5),
    (np.ma.array([0.5, 2.0], mask=[False, True]).mean(), 0.5),
    (Tensor(0.5), 0.5),
    (decimal.Decimal("0.5"), 0.5),
    (fractions.Fraction(1, 2), 0.5),
    (10**30, 10**30),
    (-(10**30), -(10**30)),
]


@pytest.mark.parametrize(("value", "number"), NUMBERS, ids=lambda each: f"{type(each).__name__} {each!s:.12}")
def test_numbers_of_every_library_are_numbers_of_python(value, number):
    (found,) = recordable({"loss": value}).values()
    (nested,) = recordable({"eval": {"loss": [value]}}).values()
    assert (found, type(found)) == (number, type(number))
    assert nested == {"loss": [number]}
    assert float(plain({"loss": value})["loss"]) == float(number)


class Stack(list):
    """A list of the user's own kind."""


@pytest.mark.parametrize(
    "value",
    [np.ma.masked, np.ma.array([1.0, 1.0], mask=True).mean(), np.ma.array([3], mask=[True]), np.ma.array(2, mask=True)],
)
def test_masked_number_is_no_number(value):
    """The number behind a mask, 0 for instance, is no result."""
    assert np.isnan(as_number(value)) and np.isnan(recordable({"loss": value})["loss"])


@pytest.mark.parametrize("kind", ["numpy", "objects", "torch", "gradient", "frame", "list", "view"])
def test_values_that_change_in_place_after_a_report_are_recorded_as_they_were(kind):
    if kind in ("torch", "gradient"):
        torch = pytest.importorskip("torch")
        base = torch.zeros(2, requires_grad=kind == "gradient")
        value = base * 1
        change = lambda: value.data.add_(1)  # noqa: E731
    elif kind == "frame":
        pandas = pytest.importorskip("pandas")
        value = pandas.DataFrame({"a": [0, 0]})
        change = lambda: value.iloc.__setitem__((0, 0), 1)  # noqa: E731
    elif kind == "objects":
        value = np.array([Stack([0]), None], dtype=object)
        change = lambda: value[0].append(1)  # noqa: E731
    elif kind == "list":
        value = Stack([0])
        change = lambda: value.append(1)  # noqa: E731
    else:
        base = np.zeros((2, 2))
        value = base if kind == "numpy" else base[0]
        change = lambda: base.__iadd__(1)  # noqa: E731
    found = recordable({"value": value, "nested": {"values": [value, (value,)]}})
    before = str(found)
    change()
    assert str(found) == before != str(recordable({"value": value, "nested": {"values": [value, (value,)]}}))
    assert type(found["value"]) is type(value)


TEXTS = [
    ("a\ud800b", "a\\ud800b"),
    (os.fsdecode(b"caf\xe9"), "caf\\udce9"),
    ("ü日", "ü日"),
]


@pytest.mark.parametrize(("text", "recorded"), TEXTS)
def test_texts_that_are_no_utf8_are_recorded_with_escapes(text, recorded):
    assert recordable({text: text, "in": {text: [text]}}) == {recorded: recorded, "in": {recorded: [recorded]}}


def test_names_of_metrics_are_texts_and_keys_below_may_be_numbers():
    found = recordable({1: 0.5, b"k": 1, "x": {0: 1, np.int64(1): 2, (0, 1): 3, None: 4}})
    assert found == {"1": 0.5, "k": 1, "x": {0: 1, 1: 2, "(0, 1)": 3, None: 4}}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1 << 20_000, "20,001 bits"),
        (Speechless(), "no words"),
        ({"deep": [Speechless()]}, "no words"),
        ({Speechless(): 1}, "a key of it has no text"),
        (decimal.Decimal("sNaN"), "no number that a float can hold"),
        (fractions.Fraction(10**400), "no number that a float can hold"),
        (threading.Lock(), "its value <unlocked _thread.lock object at .*> (lock) cannot be pickled."),
        ((each for each in ()), "(generator) cannot be pickled."),
        ({"deep": {"inner": [open]}, "state": {"a": threading.Lock()}}, "its value at 'state/a' <unlocked"),
        (np.array([threading.Lock()], object), "(ndarray) cannot be pickled."),
    ],
    ids=["integer", "object", "nested", "key", "signalling", "fraction", "lock", "generator", "inner", "array"],
)
def test_value_that_cannot_be_recorded_is_an_error_that_names_its_metric(value, words):
    with pytest.raises(ValueError, match="'odd' cannot be recorded") as caught:
        recordable({"loss": 1.0, "odd": value})
    assert re.search(re.escape(words).replace(r"\.\*", ".*"), str(caught.value)) and len(str(caught.value)) < 500


def test_value_that_holds_itself_is_an_error_that_names_its_metric():
    value = []
    value.append(value)
    with pytest.raises(ValueError, match="'odd' has more than"):
        recordable({"odd": value})


def test_arrays_of_several_numbers_and_texts_stay():
    array, tensor = np.arange(3), Tensor(1, 2)
    found = recordable({"a": array, "t": tensor, "s": "text", "n": None, "nan": float("nan")})
    assert found["a"].tolist() == [0, 1, 2] and found["t"].tolist() == [1, 2] and found["s"] == "text"
    assert plain(found) == {"a": [0, 1, 2], "t": [1, 2], "s": "text", "n": None, "nan": found["nan"]}
    assert as_number("0.5") is None and as_number(array) is None and as_number(np.datetime64("2020-01-01")) is None


def test_function_gets_the_error_at_its_report():
    def train(config):
        run.report({"odd": Speechless()}, None)

    run = FunctionRun(train, {}, {}, None, persist=None)
    run.start()
    assert run.take(30.0) == []
    assert isinstance(run.error, ValueError) and "'odd' cannot be recorded" in str(run.error)


def test_journal_reads_back_what_a_trial_may_report(tmp_path):
    odd = {"big": 10**30, 1: 0.5, "text": "\ud800", "t": Tensor(1.0, 2.0), "s": {3}, "d": {(0, 1): decimal.Decimal(2)}}
    journal = Journal(str(tmp_path / "journal"))
    journal.append([ev.Report(1.0, "t", 1, recordable(odd)), ev.Finished(2.0, "t")])
    journal.close()
    (report, _), _, problem = read_journal(str(tmp_path / "journal"))
    assert not problem
    assert report.metrics == {
        "big": 10**30, "1": 0.5, "text": "\\ud800", "t": [1.0, 2.0], "s": [3], "d": {"(0, 1)": 2.0}
    }  # fmt: skip


def test_integers_beyond_64_bits_come_back_from_the_journal_and_result_json_as_they_were(tmp_path):
    large = {"k": 2**64 + 1, "neg": -(2**63) - 1, "seq": [2**64 + 1, {"a": -(2**100)}], "most": 2**1023, "own": Stack()}
    large["own"].append(2**70)
    large["other"] = np.array([2**70, 1], dtype=object)
    metrics = recordable({**large, "text": "\ud800", "array": np.arange(3)})
    journal = Journal(str(tmp_path / "journal"))
    journal.append([ev.Report(1.0, "t", 1, metrics), ev.Report(2.0, "t", 2, {"k": 2**64 - 1, "neg": -(2**63)})])
    journal.close()
    (first, second), _, problem = read_journal(str(tmp_path / "journal"))
    expected = {**large, "own": [2**70], "other": [2**70, 1], "text": "\\ud800"}
    assert not problem and first.metrics.pop("array").tolist() == [0, 1, 2]
    assert first.metrics == expected and type(first.metrics["k"]) is int
    assert second.metrics == {"k": 2**64 - 1, "neg": -(2**63)}
    files = TrialFiles(Trial("t", "train", {}, {}, path=str(tmp_path)))
    files.log(metrics)
    files.close()
    (line,) = read_results(str(tmp_path))
    assert line == {**expected, "array": [0, 1, 2]}


ARRAYS = {
    "float32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "other order": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
    "empty": np.zeros((0, 3)),
    "bool": np.array([True, False]),
    "dates": np.array(["2020-01-01", "2021-02-03"], dtype="M8[s]"),
    "texts": np.array(["ab", "c"]),
    "records": np.array([(1, 2.0)] * 3, dtype=[("x", np.int8), ("y", np.float64)]),
    "complex": np.array([1 + 2j, 3]),
    "a step of another": np.arange(10)[::3],
}


def test_arrays_come_back_from_the_journal_as_they_were_and_msgpack_numpy_reads_them(tmp_path):
    metrics = recordable({**ARRAYS, "nested": {"list": [ARRAYS["float32"], 1]}, "c": np.complex64(1 + 2j)})
    journal = Journal(str(tmp_path / "journal"))
    journal.append([ev.Report(1.0, "t", 1, metrics)])
    journal.close()
    (report,), _, problem = read_journal(str(tmp_path / "journal"))
    body = (tmp_path / "journal").read_bytes()[len(MAGIC) + _HEAD.size :]
    elsewhere = msgpack.unpackb(body, object_hook=msgpack_numpy.decode)["metrics"]
    assert not problem
    for read in (report.metrics, elsewhere):
        assert read["c"] == metrics["c"] and read["c"].dtype == np.complex64
        for name, array in {**ARRAYS, "nested": ARRAYS["float32"]}.items():
            found = read["nested"]["list"][0] if name == "nested" else read[name]
            assert (found.dtype, found.shape) == (array.dtype, array.shape) and np.array_equal(found, array)


def test_arrays_of_objects_and_very_large_ones_are_recorded_as_in_result_json(tmp_path):
    odd = {"objects": np.array([1, "x"], dtype=object), "large": np.zeros(BYTES_MAX // 8 + 1)}
    journal = Journal(str(tmp_path / "journal"))
    journal.append([ev.Report(1.0, "t", 1, recordable(odd))])
    journal.close()
    (report,), _, _ = read_journal(str(tmp_path / "journal"))
    assert report.metrics == plain(odd)


def test_pickle_in_the_place_of_an_array_is_not_loaded(tmp_path):
    pickled = {b"nd": True, b"kind": b"O", b"type": "|O", b"shape": [1], b"data": b"cposix\nabort\n(tR."}
    assert decoded({"x": pickled}) == {"x": pickled}


def test_objects_without_a_text_are_recorded_by_their_class():
    assert plain({"x": Speechless()}) == {"x": "<Speechless without a text: RuntimeError>"}
    assert text_of(Speechless()) == "<Speechless without a text: RuntimeError>"


def test_counts_that_are_no_numbers_are_left_alone():
    trial = Trial("t", "train", {}, {})
    odd = {"timesteps_this_iter": "many", "episodes_this_iter": None, "mean_loss": "low"}
    result = filled_result(trial, ev.Report(1.0, "t", 1, odd), "e", {})
    assert {key: result[key] for key in odd} == odd
    assert "timesteps_total" not in result and "neg_mean_loss" not in result


def test_texts_of_any_length_are_written_and_read_again(tmp_path):
    files = TrialFiles(Trial("t", "train", {}, {}, path=str(tmp_path)))
    limit = csv.field_size_limit()
    files.log({"loss": 1, "sample": "y" * 200_000, "odd": "a\0b"})
    files.log({"loss": 2, "sample": "z" * 200_000, "odd": "", "later": 1})
    files.close()
    assert files.is_complete(2)
    assert [len(row["sample"]) for row in read_results(str(tmp_path))] == [200_000, 200_000]
    assert csv.field_size_limit() == limit


def test_damaged_files_of_a_trial_are_not_complete(tmp_path):
    files = TrialFiles(Trial("t", "train", {}, {}, path=str(tmp_path)))
    files.log({"loss": 1})
    files.close()
    for name in ("result.json", "progress.csv"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(b"\xff\xfe" + whole)
        assert not files.is_complete(1)
        (tmp_path / name).write_bytes(whole)
    assert files.is_complete(1)


@pytest.mark.parametrize("line", ["[1, 2]", "null", "[" * 100_000, "{", '"x"'])
def test_results_end_at_a_line_that_is_none(tmp_path, line):
    (tmp_path / "result.json").write_text(f'{{"loss": 1}}\n{line}\n{{"loss": 2}}\n')
    assert read_results(str(tmp_path)) == [{"loss": 1}]


def test_error_of_a_trial_has_a_bounded_length_and_its_type():
    found = _failure(RuntimeError("z" * (1 << 20)))
    assert len(found["error"]) <= ERROR_MAX + 100 and len(found["pickle"]) <= 2 * ERROR_MAX
    assert "RuntimeError: zzz" in found["error"].splitlines()[-1]
    many = _failure(RuntimeError("\n".join(["line"] * 100_000) + "\nthe end"))
    assert len(many["error"]) <= ERROR_MAX + 100 and many["error"].endswith("the end\n")
