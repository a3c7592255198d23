"""What trials leave in their folders, for TensorBoard, VisKit and loggers of one's own."""

import csv
import glob
import importlib.util
import json
import math
import os
import sys
import types

import pytest

from tests.tune.event_files import bodies_of
from zray import tune
from zray.tune.logger import (
    DEFAULT_LOGGERS,
    CSVLoggerCallback,
    JsonLogger,
    JsonLoggerCallback,
    LegacyLoggerCallback,
    Logger,
    LoggerCallback,
    TBXLoggerCallback,
    UnifiedLogger,
    pretty_print,
)
from zray.tune.records.crc32c import BLOCK, SHORT, crc32c
from zray.tune.records.files import RecordsRepair, TrialFiles, read_results
from zray.tune.records.tensorboard import DENSE, EventFile
from zray.tune.trial import Trial

pytestmark = pytest.mark.usefixtures("session")


def train(config):
    for step in range(3):
        tune.report({"loss": config["x"] / (step + 1), "nested": {"score": step}, "note": "text", "bad": math.nan})


@pytest.fixture(scope="module")
def experiment(session, tmp_path_factory):
    """A finished experiment of two trials."""
    space = {"x": tune.grid_search([1.0, 2.0]), "model": {"layers": 2, "name": "mlp"}}
    return tune.run(train, name="recorded", config=space, local_dir=str(tmp_path_factory.mktemp("records")))


# --- TensorBoard ---


@pytest.mark.parametrize("size", [0, 1, 3, 4, 9, SHORT, SHORT + 1, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 3, 3 * BLOCK])
def test_checksum_is_that_of_a_loop_over_bits(size):
    data = bytes(i * 37 % 256 for i in range(size))
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    assert crc32c(data) == state ^ 0xFFFFFFFF


def test_checksum_is_that_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283


@pytest.fixture
def messages(monkeypatch):
    """tensorboardX's messages: without the package's own code, which imports torch."""
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    found = importlib.util.find_spec("tensorboardX")
    if found is None:
        pytest.skip("tensorboardX is not installed")
    package = types.ModuleType("tensorboardX")
    package.__path__ = list(found.submodule_search_locations)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboardX"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboardX", package)
    event = importlib.import_module("tensorboardX.proto.event_pb2").Event
    hparams = importlib.import_module("tensorboardX.proto.plugin_hparams_pb2").HParamsPluginData
    yield event, hparams
    for name in [name for name in sys.modules if name.startswith("tensorboardX.")]:
        del sys.modules[name]


def events_of(trial, event_class):
    (path,) = glob.glob(os.path.join(trial.path, "events.out.tfevents.*"))
    return [event_class.FromString(body) for body in bodies_of(path)]


def test_events_hold_the_numbers_of_each_result(experiment, messages):
    first, start, *results, end = events_of(experiment.trials[1], messages[0])
    assert first.file_version == "brain.Event:2"
    assert [event.step for event in results] == [1, 2, 3]
    scalars = [{value.tag: value.simple_value for value in event.summary.value} for event in results]
    assert [each["ray/tune/loss"] for each in scalars] == pytest.approx([2.0, 1.0, 2 / 3])
    assert [each["ray/tune/nested/score"] for each in scalars] == [0, 1, 2]
    assert set(scalars[0]) == {
        "ray/tune/loss",
        "ray/tune/nested/score",
        "ray/tune/time_this_iter_s",
        "ray/tune/time_since_restore",
    }
    (begun,), (ended,) = start.summary.value, end.summary.value
    data = messages[1].FromString(begun.metadata.plugin_data.content)
    assert begun.metadata.plugin_data.plugin_name == "hparams" and begun.tag == "_hparams_/session_start_info"
    parameters = data.session_start_info.hparams
    assert parameters["x"].number_value == 2.0 and parameters["model/name"].string_value == "mlp"
    data = messages[1].FromString(ended.metadata.plugin_data.content)
    assert data.session_end_info.status == 1 and ended.tag == "_hparams_/session_end_info"


def test_events_are_read_by_tensorboard(experiment):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    for trial in experiment.trials:
        found = reader.EventAccumulator(trial.path).Reload()
        scalars = found.Scalars("ray/tune/loss")
        assert [(each.step, each.value) for each in scalars] == [
            (step + 1, pytest.approx(trial.config["x"] / (step + 1))) for step in range(3)
        ]
        assert "_hparams_/session_start_info" in found.summary_metadata


def test_step_of_events_is_timesteps_total_where_it_is_reported(tmp_path, messages):
    def count(config):
        for step in range(2):
            tune.report({"timesteps_total": 100 * (step + 1), "reward": -step})

    (trial,) = tune.run(count, local_dir=str(tmp_path)).trials
    assert [event.step for event in events_of(trial, messages[0])[2:-1]] == [100, 200]


def test_events_of_a_failed_trial_say_so(tmp_path, messages):
    def fail(config):
        tune.report({"y": 1})
        raise ValueError("no")

    (trial,) = tune.run(fail, local_dir=str(tmp_path), raise_on_failed_trial=False).trials
    (ended,) = events_of(trial, messages[0])[-1].summary.value
    assert messages[1].FromString(ended.metadata.plugin_data.content).session_end_info.status == 2


def test_events_are_written_once_with_a_callback(tmp_path, monkeypatch, messages):
    callbacks = [TBXLoggerCallback(), JsonLoggerCallback(), CSVLoggerCallback()]
    (trial,) = tune.run(train, name="own", config={"x": 1}, callbacks=callbacks, local_dir=str(tmp_path)).trials
    assert len(events_of(trial, messages[0])) == 6
    with open(os.path.join(trial.path, "result.json")) as file:
        assert len(file.readlines()) == 3


@pytest.mark.parametrize(
    "callbacks, names",
    [
        ([], set()),
        ([JsonLoggerCallback()], {"params.json", "params.pkl", "result.json"}),
        ([CSVLoggerCallback()], {"progress.csv"}),
        ([LegacyLoggerCallback([JsonLogger])], {"params.json", "params.pkl", "result.json"}),
    ],
)
def test_files_of_trials_without_automatic_loggers_are_those_of_the_callbacks(tmp_path, monkeypatch, callbacks, names):
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    analysis = tune.run(train, name="own", config={"x": 1}, callbacks=callbacks, local_dir=str(tmp_path))
    (trial,) = analysis.trials
    assert set(os.listdir(trial.path)) == names
    rows = tune.ResultGrid(analysis)[0].rows()
    assert [(row["loss"], row["training_iteration"]) for row in rows] == [(1, 1), (1 / 2, 2), (1 / 3, 3)]
    assert analysis.get_best_trial("loss", "max", "all") is trial


@pytest.mark.parametrize("formats", [(), ("json",), ("csv",), ("json", "csv")])
def test_repair_writes_the_formats_of_the_experiment(tmp_path, formats):
    trial = Trial("t", "train", {}, {}, path=str(tmp_path))
    for count in (1, 2):  # all are missing, then one
        repair = RecordsRepair(formats)
        for step in range(count):
            repair.note(trial, {"step": step})
        repair.write()
    found = set(os.listdir(tmp_path))
    assert ("result.json" in found, "params.json" in found) == ("json" in formats,) * 2
    assert ("progress.csv" in found) == ("csv" in formats)
    if "csv" in formats:
        assert (tmp_path / "progress.csv").read_text() == "step\n0\n1\n"
    if "json" in formats:
        assert read_results(str(tmp_path)) == [{"step": 0}, {"step": 1}]


def test_folder_without_a_date_is_named_for_the_trainable(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_DISABLE_DATED_SUBDIR", "1")
    for _ in range(2):  # another experiment replaces the first, as one of the same name does
        grid = tune.Tuner(train, param_space={"x": 1}, run_config=tune.RunConfig(storage_path=str(tmp_path))).fit()
        assert grid.experiment_path == str(tmp_path / "train")
    assert os.listdir(tmp_path) == ["train"]


def test_last_of_many_results_is_always_written(tmp_path, messages):
    file = EventFile(str(tmp_path), {})
    count = DENSE + 200
    for step in range(1, count + 1):
        file.log({"training_iteration": step, "loss": 1 / step})
    file.close()
    results = events_of(types.SimpleNamespace(path=str(tmp_path)), messages[0])[2:]
    steps = [event.step for event in results]
    assert steps[:DENSE] == list(range(1, DENSE + 1)) and steps[-1] == count and steps == sorted(set(steps))


def test_second_file_of_the_same_second_has_another_name(tmp_path):
    for _ in range(3):
        EventFile(str(tmp_path), {}).close()
    assert len(os.listdir(tmp_path)) == 3


# --- VisKit ---


def viskit(folder):
    """Experiments as VisKit reads them: every folder with progress.csv and params.json, all cells as numbers."""
    found = []
    for path, _, names in os.walk(folder):
        if "progress.csv" not in names:
            continue
        assert "params.json" in names
        with open(os.path.join(path, "params.json")) as file:
            parameters = joined(json.load(file))
        with open(os.path.join(path, "progress.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {key: [number(row[key]) for row in rows] for key in rows[0]}
        found.append({"exp_name": os.path.basename(path), **parameters, "progress": columns})
    return found


def joined(parameters, prefix=""):
    flat = {}
    for key, value in parameters.items():
        flat.update(joined(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return flat


def number(cell):
    try:
        return float(cell)
    except ValueError:
        return 0.0


def test_layout_is_that_of_viskit(experiment):
    found = sorted(viskit(experiment.experiment_path), key=lambda each: each["x"])
    assert [(each["x"], each["model.layers"], each["model.name"]) for each in found] == [(1, 2, "mlp"), (2, 2, "mlp")]
    assert [each["progress"]["loss"] for each in found] == [[1.0, 0.5, 1 / 3], [2.0, 1.0, 2 / 3]]
    assert found[0]["progress"]["training_iteration"] == [1, 2, 3]
    assert found[0]["exp_name"] == os.path.basename(experiment.trials[0].path)


# --- loggers ---


class Recorder(LoggerCallback):
    def __init__(self):
        self.calls = []

    def log_trial_start(self, trial):
        trial.init_local_path()
        self.calls.append(("start", trial.config["x"]))

    def log_trial_result(self, iteration, trial, result):
        self.calls.append(("result", result["training_iteration"]))

    def log_trial_end(self, trial, failed=False):
        self.calls.append(("end", failed))


def test_logger_callback_sees_start_results_and_end(tmp_path):
    def fail(config):
        tune.report({"y": 1})
        if config["x"]:
            raise ValueError("no")

    recorder = Recorder()
    space = {"x": tune.grid_search([0, 1])}
    tune.run(
        fail,
        config=space,
        callbacks=[recorder],
        max_concurrent_trials=1,
        raise_on_failed_trial=False,
        local_dir=str(tmp_path),
    )
    assert recorder.calls == [("start", 0), ("result", 1), ("end", False), ("start", 1), ("result", 1), ("end", True)]


def test_classes_of_loggers_are_used_beside_the_default_ones(tmp_path):
    made = []

    class Lines(Logger):
        def _init(self):
            made.append(self)
            self.lines, self.is_closed = [], False

        def on_result(self, result):
            self.lines.append(result["training_iteration"])

        def close(self):
            self.is_closed = True

    loggers = (*DEFAULT_LOGGERS, Lines)
    (trial,) = tune.run(train, config={"x": 1}, loggers=loggers, local_dir=str(tmp_path)).trials
    (lines,) = made
    assert lines.lines == [1, 2, 3] and lines.is_closed and lines.logdir == trial.path and lines.config == {"x": 1}


def test_unified_logger_writes_all_files_into_a_folder(tmp_path, messages):
    logger = UnifiedLogger({"x": 1}, str(tmp_path / "log"), loggers=None)
    logger.on_result({"loss": 0.5, "config": {"x": 1}, "training_iteration": 1})
    logger.flush()
    logger.close()
    assert json.loads((tmp_path / "log" / "params.json").read_text()) == {"x": 1}
    assert json.loads((tmp_path / "log" / "result.json").read_text())["loss"] == 0.5
    assert (tmp_path / "log" / "progress.csv").read_text() == "loss,training_iteration\n0.5,1\n"
    assert len(events_of(types.SimpleNamespace(path=str(tmp_path / "log")), messages[0])) == 4


def test_pretty_print_is_yaml_without_the_configuration():
    result = {"b": {"y": 1.5, "x": [1, 2]}, "a": "text", "none": None, "config": {"x": 1}, "skipped": 1, "ok": True}
    text = pretty_print(result, exclude=["skipped"])
    assert text == "a: text\nb:\n  x:\n  - 1\n  - 2\n  y: 1.5\nok: true\n"
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")
    assert yaml.safe_load(text) == {"a": "text", "b": {"x": [1, 2], "y": 1.5}, "ok": True}


# --- output ---


def speak(config):
    import sys

    print("step", config["x"])
    print("warning", config["x"], file=sys.stderr)
    tune.report({"y": 1})
    print("end", config["x"])


class Speaking(tune.Trainable):
    def step(self):
        print("step", self.iteration)
        return {"y": 1}

    def reset_config(self, new_config):
        return True


def contents(trial, name):
    with open(os.path.join(trial.path, name)) as file:
        return file.read()


@pytest.mark.parametrize(
    "log_to_file, names", [(True, ("stdout", "stderr")), ("all.txt", ("all.txt",) * 2), (("a", "b"), ("a", "b"))]
)
def test_output_of_trials_is_in_their_folders(tmp_path, log_to_file, names):
    space = {"x": tune.grid_search([1, 2])}
    trials = tune.run(speak, config=space, log_to_file=log_to_file, reuse_actors=True, local_dir=str(tmp_path)).trials
    for trial in trials:
        x = trial.config["x"]
        lines = [f"step {x}", f"warning {x}", f"end {x}"]
        if names[0] == names[1]:
            assert contents(trial, names[0]).splitlines() == lines
        else:
            assert contents(trial, names[0]).splitlines() == [lines[0], lines[2]]
            assert contents(trial, names[1]).splitlines() == [lines[1]]


def test_output_of_a_class_ends_with_its_trial(tmp_path):
    trials = tune.run(
        Speaking,
        num_samples=3,
        log_to_file=True,
        reuse_actors=True,
        stop={"training_iteration": 2},
        max_concurrent_trials=1,
        local_dir=str(tmp_path),
    ).trials
    assert [contents(trial, "stdout") for trial in trials] == ["step 0\nstep 1\n"] * 3


def test_output_files_that_are_no_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="log_to_file is True, False, a file's name or a tuple of two names, not 3"):
        tune.run(speak, log_to_file=3, local_dir=str(tmp_path))


def test_loggers_write_after_a_program_has_imported_the_modules_of_ray():
    import zray.tune.logger.csv
    import zray.tune.logger.json

    assert zray.tune.logger.pretty_print({"a": 1}) == "a: 1\n"


def test_error_that_is_no_text_is_written_and_read(tmp_path):
    trial = Trial("t", "train", {}, {}, path=str(tmp_path), error="no file \udcff.csv \u00e9")
    TrialFiles(trial).write_error()
    assert str(tune.Result.from_path(str(tmp_path)).error) == "no file \\udcff.csv \u00e9"
    (tmp_path / "error.txt").write_bytes(b"no file \xff.csv")
    assert str(tune.Result.from_path(str(tmp_path)).error) == "no file \ufffd.csv"


@pytest.mark.parametrize(
    "value", [math.nan, -math.inf, None, 1 << 64, -1 << 70, "\ud800", "\u00e9", "null", 1e-5, [[math.nan]]]
)
def test_result_is_written_as_json_has_it(tmp_path, value):
    files = TrialFiles(Trial("t", "train", {}, {}, path=str(tmp_path)), formats=("json",))
    files.log({"value": value, "after": 1})
    files.close()
    (read,) = read_results(str(tmp_path))
    assert repr(read) == repr({"value": value, "after": 1})
    assert (tmp_path / "result.json").read_bytes().isascii()
