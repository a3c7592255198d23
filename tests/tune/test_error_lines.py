"""Errors in one line: the type and the first line of the message."""

import traceback

import pytest

import zray
from zray import tune
from zray.tune.listing import listed
from zray.tune.recorded import read_experiment
from zray.tune.trial import headline
from zray.tune.worker import ERROR_MAX, cut_text

TWO_LINES = "first line: bad data\nsecond line with a hint"


class OddError(ValueError):
    pass


def with_note():
    error = ValueError("bad")
    error.add_note("a hint")
    return error


def chained():
    try:
        try:
            {}["a"]
        except KeyError as error:
            raise OddError(TWO_LINES) from error
    except OddError as error:
        return error


def as_text(error):
    try:
        raise error
    except BaseException as caught:
        return "".join(traceback.format_exception(caught))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError(TWO_LINES), "ValueError: first line: bad data ..."),
        (ValueError("one"), "ValueError: one"),
        (ValueError(), "ValueError"),
        (ValueError("\n\n  indented\nmore"), "ValueError: indented ..."),
        (ValueError("a\n    b\nTraceback of mine\nc"), "ValueError: a ..."),
        (KeyError("a\nb"), "KeyError: 'a\\nb'"),
        (with_note(), "ValueError: bad ..."),
        (chained(), f"{__name__}.OddError: first line: bad data ..."),
        (ValueError("x" * ERROR_MAX + "\nmore"), None),
    ],
)
def test_headline_has_type_and_first_line(error, line):
    found = headline(as_text(error))
    assert found == line or (line is None and found.startswith("ValueError: xxx"))


def test_headline_of_a_syntax_error_is_no_line_of_code():
    with pytest.raises(SyntaxError) as caught:
        compile("a b", "file.py", "exec")
    assert headline(as_text(caught.value)) == "SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "no message"),
        ("\n \n", "no message"),
        ("The process died.\nIts output was:\n  x", "The process died. ..."),
        ("The trial reported no 'a'.", "The trial reported no 'a'."),
        ('Traceback (most recent call last):\n  File "a"\n[...]\nValueError: a', "ValueError: a"),
        ('Traceback (most recent call last):\n  File "a"', 'Traceback (most recent call last): File "a"'),
    ],
)
def test_headline_of_other_texts(text, line):
    assert headline(text) == line


def test_headline_of_several_exceptions_is_that_of_all():
    text = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in <module>
  |     raise ExceptionGroup("several", [ValueError("a")])
  | ExceptionGroup: several (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""
    assert headline(text) == "ExceptionGroup: several (1 sub-exception) ..."


def test_headline_of_an_error_of_a_task_of_ray_is_the_cause():
    text = """Failure # 1 (occurred at 2021-01-01)
Traceback (most recent call last):
  File "trial_runner.py", line 890, in _process_trial
    results = self.trial_executor.fetch_result(trial)
ray.exceptions.RayTaskError(ValueError): ray::ImplicitFunc.train_buffered() (pid=1, ip=10.0.0.1)
  File "python/ray/_raylet.pyx", line 505, in ray._raylet.execute_task
  File "a.py", line 3, in train
    raise ValueError("bad")
ValueError: bad
"""
    assert headline(text) == "ValueError: bad"


def test_headline_of_a_text_that_was_cut_has_the_type():
    text = cut_text(as_text(ValueError("first\n" + "\n".join(f"line {number}" for number in range(ERROR_MAX)))))
    assert headline(text) == "ValueError: first ..."


def fail(config):
    raise ValueError(TWO_LINES)


def test_each_place_shows_type_and_first_line(nothing_left, tmp_path, capsys):
    with zray.init(num_cpus=1, log_to_driver=False):
        run = tune.RunConfig(name="bad", storage_path=str(tmp_path), verbose=1)
        grid = tune.Tuner(fail, run_config=run).fit()
    words = "ValueError: first line: bad data ..."
    assert f"failed after 0 results: {words}  (" in capsys.readouterr().out
    assert words in grid._repr_html_()
    recorded = read_experiment(str(tmp_path / "bad"))
    assert [row["why"] for row in listed(recorded)] == [words]
    assert [record["reason"] for record in recorded.decisions()] == [words]
    with pytest.raises(tune.TuneError, match="The first one with: ValueError: first line: bad data"):
        grid._experiment.raise_for_failures()
    with open(grid._trials[0].error_file) as file:
        assert TWO_LINES in file.read()
