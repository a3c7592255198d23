"""`zray tune`: experiments listed, explained, drawn, run from a file, and simulated."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import zray
from cli.tune import fitting, modules_here, print_rows, short_names
from cli.tune import tune as command
from tests.cli.commands import environment
from tests.cli.commands import zray as in_a_process
from zray import tune
from zray.tune import events as ev
from zray.tune.folder_lock import FolderLock
from zray.tune.importances import importances
from zray.tune.interrupts import how_to_go_on
from zray.tune.journal import Journal
from zray.tune.listing import metric_columns, usual_columns
from zray.tune.running_experiment import RunningExperiment
from zray.tune.schedulers import ASHAScheduler, FIFOScheduler
from zray.tune.settings import Settings
from zray.tune.spec_file import check_metric, read_spec
from zray.tune.state_file import pickle_of, write_state


def invoke(*arguments, code=0):
    """The standard output of a command."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], prog_name="zray tune")
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout if code == 0 else result.output


def descend(config):
    for step in range(4):
        tune.report({"loss": config["x"] / (step + 1), "name": "a<b"})
    if config["x"] == 2.0:
        raise ValueError("x is 2")


@pytest.fixture(scope="module")
def folder(nothing_left, tmp_path_factory):
    """An experiment of six trials, one at a time; ASHA has stopped some, and one has failed."""
    storage = tmp_path_factory.mktemp("experiments")
    with zray.init(num_cpus=1, log_to_driver=False):
        tune.Tuner(
            descend,
            param_space={"x": tune.grid_search([4.0, 8.0, 2.0, 6.0, 1.0, 5.0]), "net": {"kind": "plain"}},
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                seed=9,
                scheduler=ASHAScheduler(max_t=10, grace_period=2, reduction_factor=2),
            ),
            run_config=tune.RunConfig(name="digits", storage_path=str(storage), verbose=0),
        ).fit()
    return storage / "digits"


def test_ls_shows_the_best_trial_first(folder):
    rows = json.loads(invoke("ls", folder, "--format", "json"))
    assert [row["x"] for row in rows][0] == 1.0
    assert {name: rows[0][name] for name in ("status", "iteration", "loss", "name")} == {
        "status": "TERMINATED",
        "iteration": 4,
        "loss": 0.25,
        "name": "a<b",
    }
    assert [row["why"] for row in rows if row["status"] == "ERROR"] == ["ValueError: x is 2"]
    assert {row["status"] for row in rows} == {"TERMINATED", "ERROR"}


def test_ls_sorts_limits_and_picks_columns(folder):
    text = invoke(
        "ls", folder, "--format", "csv", "--sort", "x", "--descending", "--limit", "2", "--columns", "x,status"
    )
    assert list(csv.reader(io.StringIO(text))) == [["x", "status"], ["8.0", "TERMINATED"], ["6.0", "TERMINATED"]]
    assert "No trial has a column 'y'" in invoke("ls", folder, "--sort", "y", code=1)


def test_plot_of_a_metric_that_no_trial_has_is_refused(folder, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("before")
    said = invoke("plot", folder, "--metric", "nope", "-o", page, code=1)
    assert "No trial has a metric 'nope' with a number.  The metrics are: " in said and "loss" in said
    assert page.read_text() == "before"


def test_ls_is_a_table_of_whole_lines_in_a_pipe(folder):
    said = invoke("ls", folder)
    assert "6 of 6 trials" in said
    (line,) = [line for line in said.splitlines() if "_00001 " in line]
    assert "the cut of the rung of 2" in line


def test_ls_in_a_pipe_shows_the_usual_ones_of_many_columns(tmp_path):
    (tmp_path / "one").mkdir()
    metrics = {f"m{number}": number for number in range(40)}
    result = {**metrics, "episode_reward_mean": 7.0, "training_iteration": 1, "done": True}
    (tmp_path / "one" / "result.json").write_text(json.dumps(result) + "\n")

    def headings(*given):
        *lines, last = invoke("ls", tmp_path, *given).splitlines()
        (line,) = [line for line in lines if line.startswith("┃")]
        return last, [each.strip() for each in line.split("┃") if each.strip()]

    last, found = headings()
    assert last == "40 more columns: --columns all, or --format csv."
    assert found == ["trial", "status", "iteration", "time_total_s", "episode_reward_mean"]
    assert set(metrics) <= set(headings("--columns", "all")[1])
    assert headings("--columns", "m3,m4")[1] == ["m3", "m4"]
    assert len(json.loads(invoke("ls", tmp_path, "--format", "json"))[0]) == 45


@pytest.mark.parametrize(
    ("metric", "names", "shown"),
    [
        ("info/loss", ["a", "info/loss", "why"], ["info/loss", "why"]),
        (None, ["a", "why"], [*(f"m{number}" for number in range(11)), "why"]),
        ("info/loss", [], None),
    ],
)
def test_usual_columns_are_the_parameters_and_the_metric(metric, names, shown):
    trial = SimpleNamespace(parameters={"x": 1})
    first = ["trial", "status", "iteration", "time_total_s", "x"]
    headings = [*first, *((f"m{number}" for number in range(30)) if names else ()), *names]
    found = usual_columns(SimpleNamespace(trials=[trial], metric=metric), headings)
    assert found == (headings if shown is None else [*first, *shown])


def test_ls_finds_an_experiment_by_its_name(folder, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(folder.parent))
    assert len(json.loads(invoke("ls", "digits", "--format", "json"))) == 6
    assert "There is no experiment 'letters'" in invoke("ls", "letters", code=1)


def test_why_says_each_decision_with_its_reason(folder):
    said = invoke("why", folder, "1")
    assert "x = 8.0" in said
    assert "TERMINATED after 2 results: stopped at training_iteration 2: loss = 4 is above 2, the cut of" in said
    assert re.search(r"iteration +2  STOP +stopped at training_iteration 2", said)
    facts = json.loads(invoke("why", folder, "_00000", "--format", "json"))
    assert facts["state"] == "TERMINATED" and facts["decisions"][0]["action"] == "CONTINUE"
    said = invoke("why", folder, "77", code=1)
    assert re.search(
        r"has no trial called '77': it has 6, with the numbers 0 to 5, as descend_\w+_00005\.$", said.strip()
    )
    assert re.search(
        r"has 6 trials called 'descend': (descend_\w+, ){3}\.\.\.\.$", invoke("why", folder, "descend", code=1).strip()
    )


def test_why_says_what_a_waiting_trial_waits_for(tmp_path):
    settings = Settings(metric="loss", mode="min", num_samples=4)
    scheduler = ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3, type="promotion")
    space = {"x": tune.uniform(0, 1)}
    made = RunningExperiment(
        descend, space, settings, scheduler=scheduler, name="waits", storage_path=str(tmp_path), seed=1
    )
    (tmp_path / "waits").mkdir()
    write_state(made.path, pickle_of(made))
    journal = Journal(str(tmp_path / "waits" / "journal.zray"))
    controller = made.controller

    def handle(event):
        controller.handle(event)
        journal.append([*controller.events, event])
        controller.events.clear()

    handle(ev.Capacity(1.0, 1))
    first = controller.get_trials()[0].trial_id
    handle(ev.Began(2.0, first, {"pid": 1}))
    handle(ev.Report(2.0, first, 1, {"loss": 0.5}))
    handle(ev.Halted(3.0, first, 1, "checkpoint"))
    journal.close()
    record = {
        "trial_id": controller.get_trials()[1].trial_id,
        "iteration": 0,
        "action": "WAIT",
        "reason": "it waits for 1 GPU",
    }
    (tmp_path / "waits" / "decisions.jsonl").write_text(json.dumps(record) + "\n")
    assert "PAUSED after 1 results: it waits in the rung of 1 with 1 trials." in invoke("why", tmp_path / "waits", "0")
    assert "RUNNING without a result: it waits for 1 GPU." in invoke("why", tmp_path / "waits", "1")
    rows = json.loads(invoke("ls", tmp_path / "waits", "--format", "json", "--columns", "trial,status,why"))
    assert [row["status"] for row in rows] == ["PAUSED", "RUNNING"]
    assert rows[1]["why"] == "it waits for 1 GPU"


def huge(config):
    tune.report({"loss": 1.0})


def test_integers_that_no_float_can_hold_are_short_cells_everywhere(tmp_path):
    with zray.init(num_cpus=1, log_to_driver=False):
        run = tune.RunConfig(name="huge", storage_path=str(tmp_path), verbose=0)
        space = {"x": tune.grid_search([10**400, 10**5000])}
        config = tune.TuneConfig(metric="loss", mode="min", scheduler=Talkative())
        tune.Tuner(huge, param_space=space, tune_config=config, run_config=run).fit()
    folder, words = tmp_path / "huge", "an integer of 1,329 bits"
    assert f"x = {words}" in invoke("why", folder, "0")
    assert words in invoke("ls", folder) and f'"{words}"' in invoke("ls", folder, "--format", "csv")
    assert words in (invoke("plot", folder) and (folder / "plots.html").read_text())
    assert json.loads(invoke("simulate", folder, "--format", "json"))["simulated"]["trials"] == 2  # nothing beside it


def test_plot_writes_one_file_that_needs_no_network(folder, tmp_path):
    path = tmp_path / "page.html"
    assert invoke("plot", folder, "-o", path) == f"{path}\n"
    text = path.read_text()
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?:""", text)
    assert text.count("<svg") == 3
    assert text.count('class="line t') == 12  # six curves, six lines of parallel coordinates
    assert text.count("<tr class=") == 6
    assert "a&lt;b" in text and "a<b" not in text
    assert '<h2>Importances</h2><div class="chart"><svg' in text


def test_plot_says_why_it_cannot_be_drawn(folder, tmp_path):
    trial = tmp_path / "one"
    trial.mkdir()
    (trial / "result.json").write_text(json.dumps({"loss": 1.0, "training_iteration": 1}) + "\n")
    assert "A plot needs a metric" in invoke("plot", tmp_path, code=1)
    invoke("plot", tmp_path, "--metric", "loss", "--mode", "min")
    assert "1 trials have a score, and importances need 4." in (tmp_path / "plots.html").read_text()
    assert "holds no experiment" in invoke("ls", trial, code=1)


def test_importances_find_the_parameter_that_matters():
    values = [place / 20 for place in range(20)]
    parameters = {"x": values, "kind": ["a", "b"] * 10, "same": [1] * 20}
    found = importances(parameters, [value**2 for value in values], "min")
    assert list(found) == ["x", "kind"] and found["x"] > 0.8
    with pytest.raises(ValueError, match="All trials have the same score"):
        importances(parameters, [1.0] * 20, "min")


def test_simulate_compares_with_what_was_recorded(folder):
    found = json.loads(invoke("simulate", folder, "--format", "json"))
    same = [key for key in found["recorded"] if key.startswith(("decisions", "best", "trials", "results"))]
    assert len(same) >= 6
    assert {key: found["recorded"][key] for key in same} == {key: found["simulated"][key] for key in same}
    assert found["simulated"]["regret"] == 0 and found["beyond"] == []


def test_simulate_takes_another_scheduler_with_options(folder):
    given = ["--scheduler", "asha", "--option", "max_t=3", "--option", "grace_period=1", "--cpus", "16"]
    said = invoke("simulate", folder, *given)
    assert re.search(r"trials at once +│ 1 +│ 16 ", said)
    fifo = invoke("simulate", folder, "--scheduler", "fifo")
    assert "would have gone on: they end there in the simulation" in fifo
    assert "name the scheduler too" in invoke("simulate", folder, "--option", "max_t=3", code=2)
    assert "is not NAME=VALUE" in invoke("simulate", folder, "--scheduler", "asha", "--option", "max_t", code=2)
    assert "No scheduler is called" in invoke("simulate", folder, "--scheduler", "best", code=1)


SPEC = """
first:
    run: program.py:train
    stop: {training_iteration: 3}
    local_dir: FOLDER
    repeat: 2
    config:
        alpha: {grid_search: [1, 2]}
        beta: {eval: "10 * spec.config.alpha"}
        gamma: "lambda spec: spec.config.beta + 1"
        text: lambda is a word
"""
PROGRAM = """
from zray import tune

def train(config):
    for step in range(5):
        tune.report({"total": config["alpha"] + config["beta"] + config["gamma"]})
"""


def test_run_runs_the_experiments_of_a_file(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "spec.yaml").write_text(SPEC.replace("FOLDER", str(tmp_path / "results")))
    done = in_a_process("tune", "run", tmp_path / "spec.yaml", "--num-cpus", "1")
    assert done.returncode == 0, done.stderr
    assert "tune first: 4 of 4 trials ended (4 TERMINATED)" in done.stdout
    rows = json.loads(invoke("ls", tmp_path / "results" / "first", "--format", "json"))
    assert sorted((row["alpha"], row["beta"], row["gamma"], row["total"]) for row in rows) == [
        (1, 10, 11, 22),
        (1, 10, 11, 22),
        (2, 20, 21, 43),
        (2, 20, 21, 43),
    ]
    assert {row["iteration"] for row in rows} == {3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {config: {}}", "Experiment 'a' in .* has no `run`"),
        ("- a", "is no dict of experiments"),
        ("a: [", "cannot be read"),
        ("a: {run: unknown}", "No trainable is registered as 'unknown'"),
        ("a: {run: 'absent.py:train'}", "names nothing that can be run"),
        ("a: {run: 'os.path:join', config: {x: {eval: '1 +'}}}", "a/config/x is no Python expression"),
        ("a: {run: 'os.path:join', unheard: 1}", "has no key 'unheard'"),
    ],
)
def test_mistakes_in_a_file_are_named(text, said, tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    assert re.search(said, " ".join(invoke("run", path, code=1).split()))


def test_lambdas_in_texts_are_functions_in_a_file_alone(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"a": {"run": "os.path:join", "config": {"x": "lambda spec: 1"}}}))
    assert hasattr(read_spec(str(path))["a"]["config"]["x"], "sample")
    made = tune.Experiment("a", descend, config={"x": "lambda spec: 1"})
    assert made.spec["config"] == {"x": "lambda spec: 1"}


def test_searcher_of_a_file_draws_the_distributions_of_the_file(tmp_path):
    pytest.importorskip("optuna", reason="optuna is not installed here")
    (tmp_path / "program.py").write_text("def train(config):\n    return {'loss': config['x']}\n")
    text = "a: {run: 'program.py:train', search_alg: optuna, metric: loss, mode: min, num_samples: 3, "
    text += f"storage_path: '{tmp_path}/results', config: {{x: {{eval: 'tune.uniform(2, 3)'}}}}}}"
    (tmp_path / "spec.yaml").write_text(text)
    done = in_a_process("tune", "run", tmp_path / "spec.yaml", "--num-cpus", "1")
    assert done.returncode == 0, done.stderr
    rows = json.loads(invoke("ls", tmp_path / "results" / "a", "--format", "json"))
    assert len({row["x"] for row in rows}) == 3 and all(2 <= row["x"] == row["loss"] < 3 for row in rows)


def test_expressions_in_a_file_may_be_distributions(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("a: {run: 'os.path:join', config: {x: {eval: 'tune.uniform(-3, -2)'}, y: {eval: 'tine.x'}}}")
    config = read_spec(str(path))["a"]["config"]
    assert -3 <= config["x"].sample().sample() <= -2
    with pytest.raises(tune.TuneError, match="^a/config/y cannot be evaluated: 'tine.x': NameError"):
        config["y"].sample()


@pytest.mark.parametrize(
    ("keys", "options", "said"),
    [
        ("", ["--scheduler", "median_stopping_rule"], "MedianStoppingRule needs a metric and a mode.  Write {both}"),
        ("scheduler: asha", [], "`scheduler: asha` needs a metric and a mode.  Write {both}"),
        ("scheduler: HyperBand", [], "`scheduler: HyperBand` needs a metric and a mode.  Write {both}"),
        ("search_alg: optuna", [], "`search_alg: optuna` needs a metric and a mode.  Write {both}"),
        ("scheduler: asha, metric: loss", [], "The metric 'loss' has no mode.  Write {mode}"),
        ("scheduler: fifo, metric: loss", ["--scheduler", "asha"], "The metric 'loss' has no mode.  Write {mode}"),
        ("search_alg: optuna, metric: loss", [], "The metric 'loss' has no mode.  Write {mode}"),
        ("metric: loss", [], "The metric 'loss' has no mode.  Write {mode}"),
    ],
)
def test_missing_metric_or_mode_is_said_in_the_words_of_the_file(tmp_path, keys, options, said):
    path = tmp_path / "spec.yaml"
    path.write_text(f"a: {{run: 'os.path:join', {keys}}}")
    both = "`metric: loss` and `mode: min` (or `max`) beside `run:`."
    wanted = said.format(both=both, mode="`mode: min` (or `max`) beside `metric:`.")
    found = " ".join(invoke("run", path, *options, code=1).split())
    assert f"Experiment 'a' in {path}: {wanted}".replace("  ", " ") in found


@pytest.mark.parametrize(
    ("keys", "scheduler"),
    [
        ("scheduler: asha, metric: loss, mode: min", FIFOScheduler()),
        ("scheduler: fifo", ASHAScheduler()),
        ("mode: min", ASHAScheduler()),  # the mode of the bare number that trials report
        ("metric: loss", ASHAScheduler(mode="min")),
        ("search_alg: random", FIFOScheduler()),
        ("search_alg: optuna, metric: [a, b], mode: [min, max]", FIFOScheduler()),
        ("", ASHAScheduler(metric="loss", mode="min")),
    ],
)
def test_file_with_metric_and_mode_in_any_place_is_taken(tmp_path, keys, scheduler):
    path = tmp_path / "spec.yaml"
    path.write_text(f"a: {{run: 'os.path:join', {keys}}}")
    check_metric(read_spec(str(path)), scheduler, str(path))


@pytest.mark.parametrize("name", ["my.train", "my", "my:train", "my.py:train", "os.path:absent"])
def test_run_that_is_not_found_names_the_forms_of_the_file(tmp_path, name):
    path = tmp_path / "spec.yaml"
    path.write_text(f"a: {{run: '{name}'}}")
    said = " ".join(invoke("run", path, code=1).split())
    assert f"`run: {name}` names nothing that can be run: " in said
    assert said.endswith(
        "Write `program.py:function` for a function or class of a program beside the file, `module:function` for one "
        "of a module, or a registered name."
    )
    assert "register_trainable first" not in said


ESCAPE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def text_files(tmp_path):
    """An experiment that is text alone, with escapes in each text, and modules of Python's names beside it."""
    for number in range(2):
        place = tmp_path / "exp" / f"trial_{number}{ESCAPE}"
        place.mkdir(parents=True)
        result = {"training_iteration": 1, "loss": number, f"k{ESCAPE}": f"v{ESCAPE}", "trial_id": f"i{number}{ESCAPE}"}
        (place / "result.json").write_text(json.dumps(result))
        (place / "params.json").write_text(json.dumps({f"p{ESCAPE}": f"{number}{ESCAPE}"}))
    (place / "error.txt").write_text(f"RuntimeError: {ESCAPE}")
    record = {"trial_id": f"i0{ESCAPE}", "iteration": 1, "action": f"STOP{ESCAPE}", "reason": ESCAPE}
    (tmp_path / "exp" / "decisions.jsonl").write_text(
        f"{json.dumps(record)}\n{json.dumps({'trial_id': f'i0{ESCAPE}'})}\n"
    )
    for name in ("csv", "rich", "optuna", "numpy", "html"):
        (tmp_path / "exp" / f"{name}.py").write_text("open('ran', 'a').close()\n")
    return tmp_path / "exp"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ls"], 0),
        (["ls", "--format", "csv"], 0),
        (["ls", "--format", "json"], 0),
        (["why", "0"], 0),
        (["why", "1"], 0),
        (["why", "none"], 1),
        (["ls", "--sort", "none"], 1),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else str(each),
)
def test_texts_of_files_do_not_act_on_the_terminal(text_files, arguments, code):
    name, *others = arguments
    said = invoke(name, text_files, *others, code=code)
    assert "owned" in said and "\x1b" not in said and "\x07" not in said


def test_modules_beside_the_results_are_not_run(text_files, monkeypatch):
    monkeypatch.chdir(text_files)
    before = list(sys.path)
    with modules_here(False):
        assert sys.path == before
    with modules_here(True):
        assert sys.path == [*before, str(text_files)]
    assert sys.path == before
    program = "import sys; del sys.path[0]; from cli.main import main; main()"  # as the installed command
    line = [sys.executable, "-c", program, "tune", "ls", ".", "--format", "csv"]
    done = subprocess.run(line, env=environment(), cwd=text_files, capture_output=True, text=True, timeout=60)
    assert "loss" in done.stdout and not (text_files / "ran").exists()


def test_long_heading_is_cut(capsys):
    print_rows("title", ["trial", "x" * 200_000], [{"trial": "t", "x" * 200_000: 1.0}], is_picked=True)
    assert "xxx..." in (said := capsys.readouterr().out) and len(said) < 5_000


def test_narrow_terminal_gets_the_columns_that_fit_and_the_reasons():
    cells = {"trial": ["00001"], "status": ["TERMINATED"], "loss": ["0.5"], "a_long_name": ["1"], "why": ["x" * 100]}
    assert fitting(list(cells), cells, 200) == list(cells)
    assert fitting(list(cells), cells, 69) == ["trial", "status", "loss", "why"]
    assert fitting(list(cells), cells, 20) == ["trial", "why"]
    assert short_names(["train_5070c_00001", "train_5070c_00002"]) == ["00001", "00002"]
    assert short_names(["one"]) == ["one"]


def test_narrow_terminal_gets_the_metric_before_iteration_time_and_reasons():
    cells = {
        **{
            "trial": ["00001"],
            "status": ["TERMINATED"],
            "iteration": ["3"],
            "time_total_s": ["0.270616"],
            "lr": ["0.1"],
        },
        **{"timesteps_total": ["768"], "episode_reward_mean": ["24.7857"], "why": ["x" * 100]},
    }
    given = {"metrics": ["episode_reward_mean"], "parameters": ["lr"]}
    kept = ["trial", "status", "episode_reward_mean"]
    assert fitting(list(cells), cells, 100, **given) == [*kept[:2], "iteration", "lr", kept[2], "why"]
    assert fitting(list(cells), cells, 75, **given) == [*kept, "why"]
    assert fitting(list(cells), cells, 70, **given) == [*kept[:2], "iteration", "lr", kept[2]]
    assert fitting(list(cells), cells, 44, **given) == kept
    assert fitting(list(cells), cells, 40, **given) == ["trial", "lr", "episode_reward_mean"]
    assert fitting(list(cells), cells, 25, **given) == ["trial", "status"]
    assert fitting(list(cells), cells, 200, **given) == list(cells)


@pytest.mark.parametrize(
    ("metric", "headings", "found"),
    [
        ("loss", ["trial", "mean_loss", "loss"], ["loss"]),
        (None, ["trial", "time_total_s", "timesteps_total", "a", "episode_reward_mean"], ["episode_reward_mean"]),
        (None, ["trial", "time_total_s", "a"], []),
        ("absent", ["trial", "episode_reward_mean"], []),
    ],
)
def test_metric_of_a_table_is_that_of_the_experiment_or_a_usual_one(metric, headings, found):
    assert metric_columns(SimpleNamespace(metric=metric), headings) == found


class Talkative(tune.schedulers.FIFOScheduler):
    def on_trial_result(self, controller, trial, result):
        print("the scheduler talks")
        return super().on_trial_result(controller, trial, result)


def test_output_of_the_programs_scheduler_is_not_that_of_a_command(tmp_path, capfd):
    config = tune.TuneConfig(scheduler=Talkative(), metric="loss", mode="min")
    run_config = tune.RunConfig(name="talk", storage_path=str(tmp_path), verbose=0)
    grid = tune.Tuner(lambda config: {"loss": 1.0}, tune_config=config, run_config=run_config).fit()
    capfd.readouterr()
    assert json.loads(invoke("ls", tmp_path / "talk", "--format", "json"))[0]["loss"] == 1.0
    assert grid.get_best_result(scope="all").metrics["loss"] == 1.0
    assert "the scheduler talks" not in capfd.readouterr().out
    zray.shutdown()


def test_interrupted_experiment_says_so_and_how_to_go_on(tmp_path):
    settings = Settings(metric="loss", mode="min", num_samples=24)
    made = RunningExperiment(
        descend, {"x": tune.uniform(0, 1)}, settings, name="cut", storage_path=str(tmp_path), seed=1
    )
    (tmp_path / "cut").mkdir()
    write_state(made.path, pickle_of(made))
    journal = Journal(str(tmp_path / "cut" / "journal.zray"))
    made.controller.handle(ev.Capacity(1.0, 3))
    journal.append([*made.controller.events, ev.Capacity(1.0, 3)])
    journal.close()
    said = invoke("ls", tmp_path / "cut")
    assert "3 of 24 trials" in said and "The experiment is interrupted; go on with Tuner.restore(" in said
    assert said.count("interrupted: no program runs the experiment") == 3
    assert "interrupted; go on with Tuner.restore(" in invoke("why", tmp_path / "cut", "0")
    lock = FolderLock(made.path)
    assert "The experiment is interrupted" not in invoke("ls", tmp_path / "cut")
    lock.release()


def test_unknown_option_of_a_scheduler_is_one_sentence(folder):
    said = invoke("simulate", folder, "--scheduler", "asha", "--option", "grace_perid=3", code=1)
    assert said.startswith("Error: ASHAScheduler has no argument 'grace_perid'.  Did you mean 'grace_period'?")


def test_why_of_folders_with_long_names_is_short(tmp_path):
    for number in range(9):
        place = tmp_path / f"train_{number}_{'lr=0.1,' * 15}"
        place.mkdir()
        (place / "result.json").write_text('{"done": true}\n')
    assert len(invoke("why", tmp_path, "99", code=1).splitlines()[-1]) < 200 + len(str(tmp_path))
    assert len(invoke("why", tmp_path, "train", code=1).splitlines()[-1]) < 300 + len(str(tmp_path))


def test_experiment_of_a_command_that_is_interrupted_names_the_options_that_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    (tmp_path / "program.py").write_text(
        """
import os, signal
from zray import tune

def train(config):
    tune.report({"loss": 1})
    os.kill(int(os.environ["PROGRAM"]), signal.SIGINT)
    while True:
        tune.report({"loss": 1})
"""
    )
    monkeypatch.setenv("PROGRAM", str(os.getpid()))
    (tmp_path / "file.yaml").write_text("cut: {run: 'program.py:train'}\n")
    with pytest.warns(UserWarning, match="was interrupted; go on with the same command and --resume"):
        invoke("run", tmp_path / "file.yaml", "--num-cpus", 1, "--verbose", 0)
    zray.shutdown()
    assert how_to_go_on.get()("/a") == "Tuner.restore('/a', trainable)"
    command = f"zray tune run {tmp_path / 'file.yaml'} --num-cpus 1 --verbose 0 --resume"
    said = invoke("ls", tmp_path / "cut")
    assert f"The experiment is interrupted; go on with `{command}`." in said
    (tmp_path / "cut").rename(tmp_path / "moved")
    assert "go on with Tuner.restore(" in invoke("ls", tmp_path / "moved")  # the command looks for its name
