"""What reporters show, and when."""

import io
import sys
import time

import pytest

from zray import tune
from zray.tune import events as ev
from zray.tune.controller import Controller
from zray.tune.reporters import reporter_of, rows
from zray.tune.reporters.live import LiveTable
from zray.tune.reporters.status_block import status_block
from zray.tune.reporters.updates import QuietLines, ResultLines, StatusBlocks
from zray.tune.reporters.view import seconds_left
from zray.tune.schedulers import ASHAScheduler, FIFOScheduler
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.settings import Settings
from zray.tune.waits import reason_of, state_in_words, why_waiting


def experiment(samples, capacity, scheduler=None, **settings):
    """A controller with its first trials started; the clock stands at 1000."""
    searcher = BasicVariantGenerator(random_state=7)
    searcher.set_search_properties("loss", "min", {"net": {"lr": tune.uniform(0, 1)}}, num_samples=samples)
    scheduler = scheduler or FIFOScheduler()
    scheduler.set_search_properties("loss", "min")
    found = Settings(path="/results/digits", metric="loss", mode="min", num_samples=samples, **settings)
    controller = Controller(found, searcher, scheduler)
    controller.handle(ev.Capacity(1000.0, capacity))
    return controller


def report(controller, place, iteration, loss, now=1010.0):
    trial = controller.get_trials()[place]
    controller.handle(ev.Began(now, trial.trial_id, {"pid": 77, "node_ip": "127.0.0.1"}))
    controller.handle(ev.Report(now, trial.trial_id, iteration, {"loss": loss}, 2.0, 2.0 * iteration))
    return trial


def finish(controller, place, now=1010.0):
    controller.handle(ev.Finished(now, controller.get_trials()[place].trial_id))


@pytest.fixture
def lines():
    return []


def test_rows_have_the_best_trial_first_then_those_that_run():
    controller = experiment(6, 3)
    for place, loss in enumerate([0.5, 0.1, 0.9]):
        report(controller, place, 1, loss)
    finish(controller, 0)
    finish(controller, 1)
    trials = controller.get_trials()
    assert [trial.index for trial in rows.picked(trials, 4, "loss", "min")] == [1, 4, 3, 2]
    by_metric = rows.picked(trials, 3, "loss", "min", by_metric=True)
    assert [trial.last_result["loss"] for trial in by_metric] == [0.1, 0.5, 0.9]
    assert rows.counts(trials) == {"RUNNING": 3, "TERMINATED": 2}


def test_columns_are_what_the_search_chooses_and_what_trials_report():
    controller = experiment(1, 1)
    trial = report(controller, 0, 1, 0.25)
    columns = rows.columns_of([trial], None, None, "loss")
    assert columns.parameters == {"net/lr": "lr"}
    assert columns.metrics == {"training_iteration": "iter", "time_total_s": "total time (s)", "loss": "loss"}
    assert rows.cells(trial, columns)[1:] == ["1", "2", "0.25"]
    named = rows.columns_of([trial], {"net/lr": "rate"}, ["loss"])
    assert named == rows.Columns({"net/lr": "rate"}, {"loss": "loss"})


def test_long_cells_are_cut():
    assert rows.cell("x" * 50, 10) == "xxxxxxx..."
    assert rows.cell(0.123456789) == "0.123457"
    assert rows.cell("two\nlines") == "two lines"


def test_time_left_follows_from_the_trials_that_have_ended_and_from_the_budget():
    controller = experiment(10, 2)
    assert seconds_left(controller, 0, 1010.0) is None
    assert seconds_left(controller, 2, 1010.0) == pytest.approx(40.0)
    limited = experiment(10, 2, time_budget_s=25.0)
    assert seconds_left(limited, 0, 1010.0) == pytest.approx(15.0)
    assert seconds_left(limited, 2, 1010.0) == pytest.approx(15.0)


def test_a_waiting_trial_says_for_what():
    controller = experiment(4, 1, ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3, type="promotion"))
    trial = report(controller, 0, 1, 0.5)
    assert trial.status == "PAUSED"
    assert why_waiting(controller, trial) == "it waits in the rung of 1 with 1 trials"
    assert state_in_words(controller, trial) == "PAUSED after 1 results: it waits in the rung of 1 with 1 trials."
    controller.handle(ev.Halted(1011.0, trial.trial_id, 1, "checkpoint"))
    started = controller.get_trials()[1]
    assert why_waiting(controller, started) == "its process starts"
    controller.waits[started.trial_id] = "its process waits for 1 CPU"
    assert state_in_words(controller, started) == "RUNNING without a result: its process waits for 1 CPU."
    controller.handle(ev.Failed(1012.0, started.trial_id, "ValueError: no\nValueError: no"))
    assert state_in_words(controller, started) == "ERROR without a result: ValueError: no ..."


def test_a_restarted_trial_waits_for_those_that_run():
    controller = experiment(3, 1, max_failures=1)
    trial = controller.get_trials()[0]
    controller.handle(ev.Capacity(1001.0, 0))
    controller.handle(ev.Failed(1002.0, trial.trial_id, "ValueError: no"))
    assert why_waiting(controller, trial) == "no node has room for a trial"


def test_reason_is_taken_from_what_zray_says():
    message = (
        "1 of 1 objects were not there after 0.05 s.  They may still come.\n"
        "  ObjectRef(00): call TrialActor.begin waits for its actor:\n"
        "    actor TrialActor waits for 1 CPU: node 17c98e1c has 0 of 1 CPU free\n"
        "      held by actor A for 1 s"
    )
    assert reason_of(message) == (
        "its process waits for 1 CPU: node 17c98e1c has 0 of 1 CPU free, held by actor A for 1 s"
    )
    assert reason_of("Not there.\n  ObjectRef(00): call TrialActor.begin runs on node 17 (pid 4) for 1 s") == ""


def test_the_status_block_is_that_of_2018():
    controller = experiment(3, 2)
    trial = report(controller, 0, 1, 0.25)
    trial.last_result.update(timesteps_total=20604, mean_accuracy=7.29)
    block = status_block(controller, "Resources used: 2/8 CPUs").splitlines()
    assert block[:4] == [
        "== Status ==",
        "Using FIFOScheduler.",
        "Resources used: 2/8 CPUs",
        "Result logdir: /results/digits",
    ]
    assert block[4] == f" - trainable_{trial.experiment_tag}:\tRUNNING [pid=77], 2 s, 20604 ts, 7.29 acc"
    assert block[5].endswith("\tRUNNING, its process starts")


def test_the_status_block_lists_a_bounded_number_of_trials():
    controller = experiment(100, 50)
    assert status_block(controller, "", 20).splitlines()[-1] == "  ... 30 more trials not shown"


def test_a_pipe_gets_one_line_at_the_end(lines):
    controller = experiment(2, 2)
    quiet = QuietLines()
    quiet.write = lines.append
    quiet.update(controller, is_final=False)
    assert lines == []
    report(controller, 0, 1, 0.25)
    finish(controller, 0)
    finish(controller, 1)
    quiet.update(controller, is_final=True)
    (line,) = lines
    assert line.startswith("tune digits: 2 of 2 trials ended (2 TERMINATED), ")
    assert "best loss = 0.25 of trainable_" in line and line.endswith("; results in /results/digits")


def test_a_pipe_gets_a_line_after_its_interval(lines):
    controller = experiment(2, 2)
    quiet = QuietLines(seconds=0.0)
    quiet.write = lines.append
    quiet.update(controller, is_final=False)
    assert lines[0].startswith("tune digits: 0 of 2 trials ended (2 RUNNING), ")


def test_results_are_lines_at_verbose_3_and_ends_at_2():
    for all_results, expected in ((True, ["result 1:", "ended,"]), (False, ["ended,"])):
        controller, written = experiment(1, 1), []
        found = ResultLines(all_results=all_results)
        found.write = written.append
        report(controller, 0, 1, 0.25)
        found.update(controller, is_final=True)
        finish(controller, 0)
        found.update(controller, is_final=True)
        assert len(written) == len(expected)
        assert all(words in line for words, line in zip(expected, written, strict=True))
        assert "loss=0.25" in written[-1]


def test_the_live_table_is_drawn_in_place():
    from rich.console import Console

    controller = experiment(30, 2)
    report(controller, 0, 1, 0.25)
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=24)
    table = LiveTable(console=console, usage=lambda: "Resources used: 2/8 CPUs")
    table.update(controller, is_final=False)
    first = console.file.getvalue()
    assert "digits: 0 of 30 trials ended (2 RUNNING)" in first
    assert "Resources used: 2/8 CPUs" in first and "its process starts" in first
    table.update(controller, is_final=False)  # not due
    assert console.file.getvalue() == first
    finish(controller, 0)
    finish(controller, 1)
    table.update(controller, is_final=True)
    last = console.file.getvalue()[len(first) :]
    assert "2 of 30 trials ended (2 RUNNING, 2 TERMINATED)" in last and "left" in last


def test_the_table_has_a_bounded_number_of_rows():
    from rich.console import Console

    controller = experiment(100, 60)
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=24)
    LiveTable(console=console, usage=str).update(controller, is_final=False)
    assert "46 more trials not shown" in console.file.getvalue()


def test_in_a_narrow_terminal_the_reasons_are_cut_and_the_values_are_whole():
    from rich.console import Console

    controller = experiment(4, 2)
    trial = report(controller, 0, 1, 0.123456)
    other = controller.get_trials()[1]
    controller.waits[other.trial_id] = "its process waits for 1 CPU: node 17c98e1c has 0 of 1 CPU free, held by actor A"
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=24, color_system=None)
    LiveTable(console=console, usage=str).update(controller, is_final=False)
    shown = console.file.getvalue()
    assert str(trial) in shown and "0.123456" in shown and "RUNNING" in shown
    assert "1 CPU: node 17" in shown and "held by" not in shown
    assert shown.count("\n") < 12


@pytest.mark.parametrize("verbose", [None, 1, 2, 3])
@pytest.mark.parametrize("given", [None, tune.CLIReporter(max_report_frequency=1000)])
def test_an_update_costs_microseconds_while_nothing_is_due(verbose, given, capsys):
    controller = experiment(10_000, 5_000)
    reporter = reporter_of(given, verbose)
    reporter.update(controller, is_final=False)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(200):
            reporter.update(controller, is_final=False)
        took.append((time.perf_counter() - began) / 200)
    assert min(took) < 20e-6


def test_verbose_picks_the_reporter():
    assert reporter_of(None, 0) is None
    assert isinstance(reporter_of(None, None), QuietLines)
    assert reporter_of(None, 1).results.only_failures
    assert reporter_of(None, 2).results.all_results is False
    assert reporter_of(None, 3).results.all_results is True
    assert isinstance(reporter_of(None, 2, is_block=True), StatusBlocks)
    assert isinstance(reporter_of(None, True, is_block=True), QuietLines)
    with pytest.raises(ValueError, match="verbose is 0, 1, 2 or 3, not 'loud'"):
        reporter_of(None, "loud")


def test_a_terminal_gets_the_table(monkeypatch):
    monkeypatch.setattr(sys, "stdout", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    assert isinstance(reporter_of(None, 1), LiveTable)


def test_a_reader_that_has_gone_does_not_end_the_experiment():
    controller = experiment(1, 1)
    quiet = QuietLines(ResultLines(all_results=True), seconds=0.0)
    calls = []

    def broken(line):
        calls.append(line)
        raise BrokenPipeError

    quiet.write = broken
    for is_final in (False, False, True):
        quiet.update(controller, is_final=is_final)
    assert len(calls) == 2  # the first one, and the end


def test_several_metrics_have_a_column_each():
    controller = experiment(1, 1)
    trial = report(controller, 0, 1, 0.25)
    assert list(rows.columns_of([trial], None, None, ["loss", "cost"]).metrics)[2:] == ["loss", "cost"]
    assert rows.best_of([trial], ["loss"], ["min"]) is None
    assert rows.picked([trial], 3, ["loss"], ["min"], by_metric=True) == [trial]


def test_an_object_without_the_methods_is_refused():
    with pytest.raises(TypeError, match=r"lacks should_report and report: derive it from tune\.ProgressReporter"):
        reporter_of(object())


def test_the_report_of_the_command_line_reporter_has_its_columns(capsys):
    controller = experiment(30, 25)
    for place in range(25):
        report(controller, place, 1, 1 / (place + 1))
    controller.handle(ev.Failed(1012.0, controller.get_trials()[0].trial_id, "ValueError: no"))
    reporter = tune.CLIReporter(
        metric_columns={"loss": "the loss"}, parameter_columns=["net/lr"], max_progress_rows=3, sort_by_metric=True
    )
    reporter.add_metric_column("training_iteration", "iter")
    reporter.setup(start_time=time.time() - 65, total_samples=30, metric="loss", mode="min")
    reporter.report(controller.get_trials(), False, "Using FIFOScheduler.", "Resources used: 2/8 CPUs")
    said = capsys.readouterr().out
    assert said.startswith("== Status ==\nCurrent time: ") and "(running for 1 min 5 s)" in said
    assert "Using FIFOScheduler.\nResources used: 2/8 CPUs\n" in said
    assert "Number of trials: 25/30 (24 RUNNING, 1 ERROR)" in said
    heading, *shown = [line for line in said.splitlines() if line.startswith("|") and "errored" not in line][:4]
    assert [cell.strip() for cell in heading.strip("|").split("|")] == [
        "Trial name",
        "status",
        "loc",
        "net/lr",
        "the loss",
        "iter",
    ]
    assert [row.split("|")[5].strip() for row in shown] == ["0.04", "0.0416667", "0.0434783"]
    assert "... 22 more trials not shown" in said
    assert "Number of errored trials: 1" in said and "error.txt" in said


def test_tables_can_be_left_out_before_the_end(capsys):
    controller = experiment(2, 2)
    reporter = tune.CLIReporter(print_intermediate_tables=False)
    reporter.report(controller.get_trials(), False)
    assert "Trial name" not in capsys.readouterr().out
    reporter.report(controller.get_trials(), True)
    assert "Trial name" in capsys.readouterr().out


def test_reporters_keep_to_their_frequency():
    reporter = tune.CLIReporter(max_report_frequency=1000)
    assert reporter.should_report([]) and not reporter.should_report([])
    assert reporter.should_report([], done=True)


@pytest.fixture
def displays(monkeypatch):
    """What a notebook displays and updates, as (kind, text); IPython is a stand-in."""
    shown = []

    class Handle:
        def update(self, value):
            shown.append(("update", value))

    def display(value, display_id=None):
        shown.append(("display", value))
        return Handle()

    fake = type(sys)("IPython")
    fake.display = type(sys)("IPython.display")
    fake.display.HTML, fake.display.display = str, display
    fake.get_ipython = lambda: type("Shell", (), {"kernel": None})()
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake.display)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    return shown


def test_a_notebook_reporter_updates_one_display(displays):
    controller = experiment(2, 2)
    reporter = tune.JupyterNotebookReporter(overwrite=True, max_progress_rows=5)
    for _ in range(3):
        reporter.report(controller.get_trials(), False, "a < b")
    assert [kind for kind, _ in displays] == ["display", "update", "update"]
    assert "a &lt; b" in displays[0][1]
    every = tune.JupyterNotebookReporter(overwrite=False)
    every.report(controller.get_trials(), False)
    every.report(controller.get_trials(), False)
    assert [kind for kind, _ in displays[3:]] == ["display", "display"]


def test_a_notebook_gets_one_table_that_is_updated(displays):
    controller = experiment(2, 2)
    table = reporter_of(None, 1)
    table.update(controller, is_final=False)
    report(controller, 0, 1, 0.25)
    table.update(controller, is_final=True)
    assert [kind for kind, _ in displays] == ["display", "update"]
    assert displays[1][1].startswith("<pre") and "0.25" in displays[1][1]
