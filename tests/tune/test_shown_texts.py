"""Reporters: failed trials, odd texts, and their own errors."""

import io

import pytest

from tests.tune.test_reporters import experiment, finish
from zray import tune
from zray.tune import events as ev
from zray.tune.reporters import reporter_of
from zray.tune.reporters.live import LiveTable
from zray.tune.reporters.updates import QuietLines, ResultLines, StatusBlocks

ESCAPE = "\x1b]0;owned\x07\x1b[2J[/red]"


@pytest.fixture
def lines():
    return []


def fail(controller, place, error):
    trial = controller.get_trials()[place]
    text = f"Traceback (most recent call last):\n  frame\n{error}\n"
    controller.handle(ev.Failed(1020.0, trial.trial_id, text, b"-"))
    return trial


@pytest.mark.parametrize("given", [None, tune.CLIReporter(max_report_frequency=1000)])
def test_error_of_a_failed_trial_is_shown_once_with_its_trial_and_file(given, lines):
    controller = experiment(5, 5)
    reporter = reporter_of(given, None)
    reporter.results.write = lines.append
    first, other = fail(controller, 0, "RuntimeError: boom"), fail(controller, 1, "ValueError: no")
    fail(controller, 2, "RuntimeError: boom")
    fail(controller, 3, "RuntimeError: boom")
    finish(controller, 4)
    reporter.results.update(controller, is_final=True)
    assert lines == [
        f"{first} failed after 0 results: RuntimeError: boom  ({first.path}/error.txt)",
        f"{other} failed after 0 results: ValueError: no  ({other.path}/error.txt)",
        "2 more trials failed with RuntimeError: boom",
    ]


def test_error_of_an_experiment_names_its_trials_in_printable_text(tmp_path):
    def fail(config):
        raise RuntimeError(f"no {ESCAPE}")

    with pytest.raises(tune.TuneError, match="1 of 1 have failed") as caught:
        tune.run(fail, trial_name_creator=lambda trial: f"trial{ESCAPE}", storage_path=str(tmp_path), verbose=0)
    assert "\x1b" not in str(caught.value) and "trial\\x1b]0;owned" in str(caught.value)


@pytest.mark.parametrize("verbose", [1, 2, 3])
def test_every_verbosity_but_0_shows_errors(verbose):
    assert reporter_of(None, verbose).results is not None
    assert reporter_of(None, verbose, is_block=True).results is not None
    assert reporter_of(tune.CLIReporter(), 0).results is None


def test_texts_of_trials_do_not_act_on_the_terminal_and_are_no_markup(lines, capsys):
    from rich.console import Console

    controller = experiment(4, 3)
    trial = controller.get_trials()[0]
    trial.name = f"trial{ESCAPE}"
    trial.chosen = {f"p{ESCAPE}": ESCAPE}
    controller.handle(ev.Report(1010.0, trial.trial_id, 1, {"loss": 1, f"acc[bold]x{ESCAPE}": 2, "x[/]": 3}, 2.0, 2.0))
    controller.waits[controller.get_trials()[1].trial_id] = f"its process waits for {ESCAPE}"
    console = Console(file=io.StringIO(), force_terminal=True, width=300, height=24, color_system=None)
    table = LiveTable(console=console, usage=str)
    table.update(controller, is_final=False)
    table.stop()
    shown = console.file.getvalue()
    assert "acc[bold]x" in shown and "x[/]" in shown and "[/red]" in shown
    assert "\x1b]0" not in shown and "\x1b[2J" not in shown

    fail(controller, 1, f"RuntimeError: {ESCAPE}")
    for reporter in (QuietLines(ResultLines(all_results=True), seconds=0.0), StatusBlocks(usage=str)):
        reporter.update(controller, is_final=True)
    tune.CLIReporter().report(controller.get_trials(), True)
    said = capsys.readouterr().out
    assert "owned" in said and "\x1b" not in said


class Broken(tune.ProgressReporter):
    """A reporter with an error."""

    def __init__(self):
        self.count = 0

    def should_report(self, trials, done=False):
        self.count += 1
        raise KeyError(f"no {ESCAPE}")


def test_error_of_a_reporter_is_named_and_ends_the_reporter_alone(lines):
    controller = experiment(2, 1)
    reporter = reporter_of(Broken())
    reporter.results.write = lines.append
    with pytest.warns(UserWarning, match="The reporter Broken failed with KeyError: .* The trials go on") as caught:
        reporter.update(controller, is_final=False)
    assert "\x1b" not in str(caught[0].message)
    fail(controller, 0, "RuntimeError: boom")
    reporter.update(controller, is_final=True)
    assert reporter.reporter.count == 1 and "boom" in lines[0]


def test_error_of_the_live_table_gives_the_terminal_back():
    from rich.console import Console

    controller = experiment(2, 1)
    table = LiveTable(console=Console(file=io.StringIO(), force_terminal=True), usage=str)
    table.update(controller, is_final=False)
    live = table._live
    controller.settings.path = None
    with pytest.warns(UserWarning, match="The reporter LiveTable failed"):
        table.update(controller, is_final=True)
    assert not live.is_started
    table.update(controller, is_final=True)
