"""Files of an experiment: one program a folder, damaged journals and checkpoints, power cuts, other users."""

import contextlib
import fcntl
import os
import stat
import tempfile
import time
import warnings
import zlib

import pytest

from tests.gates import until
from zray import tune
from zray.tune import durability, storage
from zray.tune import events as ev
from zray.tune.beginning import RECORDS, ExperimentWarning, begin_folder
from zray.tune.durability import Durability, digest_of, size_of
from zray.tune.errors import NoExperimentError, TuneError
from zray.tune.folder_lock import LOCK, FolderLock, JournalInUse, is_running
from zray.tune.journal import _FORMER_MAGIC, _HEAD, JOURNAL, MAGIC, Journal, read_journal
from zray.tune.recovery import CheckpointRepair, CheckpointWarning
from zray.tune.running_experiment import RunningExperiment
from zray.tune.search.optuna import OptunaSearch
from zray.tune.settings import Settings
from zray.tune.state_file import STATE, pickle_of
from zray.tune.trial import SavedCheckpoint, Trial, TrialState


def train(config):
    tune.report({"x": config["x"]})


def experiment(tmp_path, name=None):
    return RunningExperiment(train, {"x": 1}, Settings(num_samples=3), name=name, storage_path=str(tmp_path))


# --- one program a folder ---


@pytest.mark.usefixtures("session")
def test_search_whose_searcher_refuses_the_space_leaves_the_records_of_the_former_one(tmp_path):
    run = tune.RunConfig(name="refused", storage_path=str(tmp_path), verbose=0)
    tune.Tuner(train, param_space={"x": 1}, run_config=run).fit()
    path = tmp_path / "refused"
    before = {name: (path / name).read_bytes() for name in RECORDS if (path / name).exists()}
    searcher = OptunaSearch(metric="x", mode="min")
    space, objective = {"x": tune.sample_from(lambda spec: 1)}, tune.TuneConfig(search_alg=searcher, num_samples=2)
    with pytest.raises(ValueError, match="do not go with OptunaSearch"):
        tune.Tuner(train, param_space=space, tune_config=objective, run_config=run).fit()
    assert {name: (path / name).read_bytes() for name in RECORDS if (path / name).exists()} == before
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExperimentWarning)
        tune.Tuner(train, param_space={"x": 2}, run_config=run).fit()


def test_second_program_is_refused_by_name_and_pid_and_changes_nothing(tmp_path):
    first = experiment(tmp_path, "same")
    journal = begin_folder(first, pickle_of(first))
    before = sorted(os.listdir(first.path))
    assert is_running(first.path)
    with pytest.raises(JournalInUse, match=rf"Another process runs the experiment 'same' .*pid {os.getpid()} on "):
        second = experiment(tmp_path, "same")
        begin_folder(second, pickle_of(second))
    assert sorted(os.listdir(first.path)) == before
    journal.close()
    assert not is_running(first.path)


def test_experiments_without_names_have_folders_of_their_own_also_within_a_second(tmp_path, monkeypatch):
    monkeypatch.setattr("zray.tune.naming.date_of", lambda seconds: "2026-01-01_00-00-00")
    paths = set()
    for _ in range(3):
        made = experiment(tmp_path)
        begin_folder(made, pickle_of(made)).close()
        paths.add(made.path)
        assert os.path.basename(made.path) == made.name
    assert len(paths) == 3


def test_search_that_begins_in_the_folder_of_an_unfinished_one_says_so(tmp_path):
    first = experiment(tmp_path, "again")
    journal = begin_folder(first, pickle_of(first))
    first.controller.handle(ev.Capacity(1.0, 1))
    trial_id = next(iter(first.controller.trials))
    events = [ev.Capacity(1.0, 1), *first.controller.events, ev.Finished(2.0, trial_id)]
    journal.append(events)
    journal.close()
    with pytest.warns(ExperimentWarning, match=r"\(1 of 3 trials ended\).*Tuner.restore"):
        begin_folder(experiment(tmp_path, "again"), pickle_of(first)).close()
    kept = [name for name in os.listdir(first.path) if name.endswith(".old")]
    assert len(kept) == 3 and {name.partition(".")[0] for name in kept} == {"journal", "experiment"}


# --- the journal ---


@pytest.fixture
def journal(tmp_path):
    """The path of a journal with five records."""
    made = Journal(str(tmp_path / JOURNAL))
    made.append(ev.Capacity(float(number), number) for number in range(5))
    made.close()
    return made.path


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def places(data):
    place = len(MAGIC)
    while place < len(data):
        yield place
        place += _HEAD.size + _HEAD.unpack_from(data, place)[0]


def test_flipped_bit_of_a_journal_is_named_or_harmless(journal):
    whole, (events, _, _) = contents(journal), read_journal(journal)
    for place in range(len(whole)):
        for bit in (0, 5, 7):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            with open(journal, "wb") as file:
                file.write(data)
            found, _, problem = read_journal(journal)
            assert found == events if place < len(MAGIC) else problem and found == events[: len(found)], (place, bit)


def test_journal_cut_anywhere_is_one_that_a_kill_has_cut_short(journal):
    whole, (events, _, _) = contents(journal), read_journal(journal)
    for size in range(len(whole)):
        with open(journal, "wb") as file:
            file.write(whole[:size])
        found, _, problem = read_journal(journal)
        assert not problem and found == events[: len(found)]


def test_bytes_behind_a_damage_are_kept_beside_the_journal(journal, tmp_path):
    whole = contents(journal)
    third = list(places(whole))[2]
    data = bytearray(whole)
    data[third + 3] ^= 1
    with open(journal, "wb") as file:
        file.write(data)
    events, offset, problem = read_journal(journal)
    assert len(events) == 2 and offset == third and "length" in problem
    opened = Journal(journal)
    opened.cut(offset, problem)
    opened.append([ev.Capacity(9.0, 9)])
    opened.close()
    (kept,) = tmp_path.glob("journal.zray.*.damaged")
    assert kept.read_bytes() == data[third:]
    assert [event.trials for event in read_journal(journal)[0]] == [0, 1, 9]


def test_damaged_beginning_of_a_journal_costs_no_record(journal):
    data = bytearray(contents(journal))
    data[3] ^= 4
    with open(journal, "wb") as file:
        file.write(data)
    opened = Journal(journal)
    opened.cut(*read_journal(journal)[1:])
    opened.append([ev.Capacity(9.0, 9)])
    opened.close()
    assert contents(journal).startswith(MAGIC) and len(read_journal(journal)[0]) == 6


def test_journal_of_the_former_version_is_read_and_written_anew(journal):
    data = contents(journal)
    old = [_FORMER_MAGIC]
    for place in places(data):
        length = _HEAD.unpack_from(data, place)[0]
        body = data[place + _HEAD.size : place + _HEAD.size + length]
        old += [_HEAD.pack(length, zlib.crc32(body)), body]
    with open(journal, "wb") as file:
        file.write(b"".join(old))
    assert len(read_journal(journal)[0]) == 5
    opened = Journal(journal)
    opened.cut(*read_journal(journal)[1:])
    opened.close()
    assert contents(journal) == data


# --- checkpoints ---


@pytest.fixture
def calls(monkeypatch):
    """The calls of what syncs and what deletes, in their order."""
    made = []
    monkeypatch.setattr(durability, "sync_tree", lambda path: made.append(("sync", path)))
    monkeypatch.setattr(durability.shutil, "rmtree", lambda path, **_: made.append(("delete", path)))
    monkeypatch.setattr(Durability, "_begin", lambda self: None)
    return made


class FakeJournal:
    def __init__(self, calls):
        self.calls = calls

    def sync(self):
        self.calls.append(("sync", "journal"))


def test_checkpoint_is_deleted_when_the_disk_has_its_successor_and_the_journal(calls, tmp_path):
    made_durable = Durability(FakeJournal(calls), ["old"])
    for name in ("one", "two"):
        made_durable.keep(str(tmp_path / name))
    made_durable.delete("old")
    made_durable.delete(str(tmp_path / "one"))
    assert calls == []  # the loop of the experiment does not wait
    made_durable.work()
    assert calls == [
        ("delete", str(tmp_path / "one")),  # the disk did not have it: nothing is lost with it
        ("sync", str(tmp_path / "two")),
        ("sync", "journal"),
        ("delete", "old"),
    ]
    assert set(made_durable.take_digests()) == {str(tmp_path / "two")}


def test_thread_deletes_superseded_checkpoints_before_its_next_look_at_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(durability, "PASS_SECONDS", 600.0)
    monkeypatch.setattr(durability, "sync_tree", lambda path: None)
    folders = [tmp_path / str(number) for number in range(3)]
    made_durable = Durability(FakeJournal([]))
    for folder in folders:
        folder.mkdir()
        made_durable.keep(str(folder))
        if folder is not folders[-1]:
            made_durable.delete(str(folder))
    until(lambda: os.listdir(tmp_path) == ["2"], 30)
    made_durable.close()
    assert set(made_durable.take_digests()) == {str(folders[-1])}


def test_checkpoint_is_not_deleted_while_the_disk_refuses_its_successor(calls, monkeypatch):
    def refuse(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(durability, "sync_tree", refuse)
    made_durable = Durability(FakeJournal(calls), ["old"])
    made_durable.keep("new")
    made_durable.delete("old")
    made_durable.work()
    assert calls == []
    monkeypatch.setattr(durability, "sync_tree", lambda path: None)
    made_durable.work()
    assert calls == [("sync", "journal"), ("delete", "old")]


def test_file_is_replaced_when_the_disk_has_its_contents(tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (order.append(name), real(*args))[1])
    storage.write_aside(str(tmp_path / "state"), b"data", 0o600)
    assert order == ["fsync", "rename", "fsync"]
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o600


def damaged_trial(tmp_path, damage):
    trial = Trial("t", "train", {}, {}, path=str(tmp_path), state=TrialState.ERROR)
    for number in range(2):
        folder = tmp_path / f"checkpoint_{number:06d}"
        folder.mkdir()
        (folder / "data").write_bytes(bytes(1000))
        path = str(folder)
        trial.checkpoints.append(SavedCheckpoint(path, number + 1, size=size_of(path), digest=digest_of(path)))
    (tmp_path / "checkpoint_000001" / "data").write_bytes(damage)
    return trial


@pytest.mark.parametrize("damage", [b"", bytes(500), bytes(999) + b"\x40"], ids=["empty", "cut", "one bit"])
def test_trial_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path, damage):
    trial = damaged_trial(tmp_path, damage)
    with pytest.warns(CheckpointWarning, match=r"checkpoint_000001, is damaged: .* the one before, of iteration 1"):
        CheckpointRepair().write([trial])
    assert [saved.iteration for saved in trial.checkpoints] == [1]
    assert (tmp_path / "checkpoint_000001.damaged" / "data").read_bytes() == damage


def replayed(trial, names):
    """A repair that has seen a journal in which each checkpoint replaces the one before."""
    repair = CheckpointRepair()
    for iteration, name in enumerate(names, 1):
        path = os.path.join(trial.path, name)
        trial.checkpoints = [SavedCheckpoint(path, iteration, size=4)]
        repair.note(ev.Kept("t", path), {"t": trial})
        if iteration > 1:
            repair.note(ev.Delete(os.path.join(trial.path, names[iteration - 2])), {"t": trial})
    return repair


@pytest.mark.parametrize("newest", [None, b"", b"bad"], ids=["not there", "empty", "cut"])
def test_trial_goes_on_from_the_checkpoint_that_the_disk_has_after_a_power_cut(tmp_path, newest):
    """One checkpoint is kept: the journal names the newest one, and the disk has one that was to be deleted."""
    names = [f"checkpoint_{number:06d}" for number in range(4)]
    trial = Trial("t", "train", {}, {}, path=str(tmp_path), state=TrialState.RUNNING, iteration=4)
    repair = replayed(trial, names)
    for name, data in ((names[1], b"good"), (names[3], newest)):  # two others were deleted before the disk had them
        if data is not None:
            (tmp_path / name).mkdir()
            (tmp_path / name / "data").write_bytes(data)
    words = "the one before, of iteration 2"
    said = pytest.warns(CheckpointWarning, match=words) if newest is not None else contextlib.nullcontext()
    with said:
        repair.write([trial])
    assert [(saved.iteration, os.path.basename(saved.path)) for saved in trial.checkpoints] == [(2, names[1])]
    assert (tmp_path / names[1] / "data").read_bytes() == b"good"


def test_whole_checkpoint_of_a_kill_is_the_newest_and_the_replaced_one_goes(tmp_path):
    names = [f"checkpoint_{number:06d}" for number in range(2)]
    trial = Trial("t", "train", {}, {}, path=str(tmp_path), state=TrialState.RUNNING, iteration=2)
    repair = replayed(trial, names)
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").write_bytes(b"good")
    repair.write([trial])
    assert [saved.iteration for saved in trial.checkpoints] == [2] and os.listdir(tmp_path) == [names[1]]


def test_metadata_that_is_set_later_is_no_damage(tmp_path):
    trial = damaged_trial(tmp_path, bytes(1000))
    tune.Checkpoint(trial.checkpoints[-1].path).set_metadata({"best": True})
    CheckpointRepair().write([trial])
    assert len(trial.checkpoints) == 2


def test_damaged_file_of_a_checkpoint_is_named(tmp_path):
    (tmp_path / "dict_checkpoint.pkl").touch()
    with pytest.raises(ValueError, match=r"dict_checkpoint.pkl of a checkpoint is damaged"):
        tune.Checkpoint(str(tmp_path)).to_dict()


def test_checkpoint_with_links_travels_with_what_they_name(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (tmp_path / "weights").write_text("w")
    (source / "weights").symlink_to(tmp_path / "weights")
    storage.unpack(storage.pack(str(source)), str(target))
    assert (target / "weights").read_text() == "w" and not (target / "weights").is_symlink()
    (source / "lost").symlink_to("/nowhere/at/all")
    with pytest.raises(OSError, match="cannot be sent.*nowhere|cannot be sent.*lost"):
        storage.pack(str(source))


class Saving(tune.Trainable):
    def save_checkpoint(self, folder):
        with open(os.path.join(folder, "first"), "w") as file:
            file.write(self.config["text"])
        if self.config["text"] == "fails":
            raise OSError(28, "No space left on device")
        os.mkdir(os.path.join(folder, "below"))
        with open(os.path.join(folder, "below", "second"), "w") as file:
            file.write(self.config["text"])

    def load_checkpoint(self, folder):
        self.loaded = [contents(os.path.join(folder, name)).decode() for name in ("first", "below/second")]


def test_save_replaces_a_checkpoint_when_the_new_one_is_whole(tmp_path):
    folder = tmp_path / "saved"
    Saving({"text": "one"}).save(str(folder))
    (folder / "notes").write_text("mine")
    with pytest.raises(OSError, match=r"checkpoint .*saved cannot be written: No space left"):
        Saving({"text": "fails"}).save(str(folder))
    restored = Saving({})
    restored.restore(str(folder))
    assert restored.loaded == ["one", "one"]
    Saving({"text": "two"}).save(str(folder))
    restored.restore(str(folder))
    assert restored.loaded == ["two", "two"] and (folder / "notes").read_text() == "mine"
    assert os.listdir(tmp_path) == ["saved"]


def test_program_is_not_refused_by_a_mere_look(tmp_path, monkeypatch):
    (tmp_path / LOCK).write_text("pid 1 on a host that was killed")
    with open(tmp_path / LOCK) as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda seconds: fcntl.flock(look, fcntl.LOCK_UN))
        lock = FolderLock(str(tmp_path))
        assert is_running(str(tmp_path))
        lock.release()


def test_looks_that_do_not_end_refuse_a_program(tmp_path, monkeypatch):
    monkeypatch.setattr("zray.tune.folder_lock.LOOKS_SECONDS", 0.0)
    with open(tmp_path / LOCK, "w") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        with pytest.raises(JournalInUse):
            FolderLock(str(tmp_path))


def test_folder_to_which_nothing_can_be_saved_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        NotADirectoryError, match=r"checkpoint .*file/below cannot be written: Not a directory.*elsewhere"
    ):
        Saving({"text": "one"}).save(str(tmp_path / "file" / "below"))


# --- other users ---


def test_folder_of_a_process_is_private_and_no_other_can_be_given_in_its_place():
    first, second = storage.process_folder("t"), storage.process_folder("t")
    assert first != second
    for path in (first, second):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
        os.rmdir(path)


def test_temporary_folders_of_killed_processes_are_swept_and_those_of_other_containers_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = storage.temporary_folder("checkpoint")
    dead, other = f"{storage.prefix()}{2**22 + 1}-checkpoint-a", f"zray-tune-1-{2**22 + 1}-checkpoint-b"
    for name in (dead, other):
        (tmp_path / name).mkdir()
    storage.sweep()
    assert set(os.listdir(tmp_path)) == {os.path.basename(own), other}


def test_folder_of_a_loose_trainable_goes_at_its_end_unless_it_holds_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    empty, saved = Saving({"text": "one"}), Saving({"text": "two"})
    for each in (empty, saved):
        assert os.path.isdir(each.logdir)
    path = saved.save()
    assert os.path.dirname(path) == saved.logdir
    empty.stop()
    saved.stop()
    assert os.listdir(tmp_path) == [os.path.basename(saved.logdir)] and os.path.isdir(path)


def test_folders_of_loose_trainables_of_ended_processes_go_unless_they_hold_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "getpid", lambda: 2**22 + 1)  # of no process
    empty, saved, killed = Saving({"text": "one"}), Saving({"text": "two"}), storage.temporary_folder("checkpoint")
    assert os.path.isdir(empty.logdir)
    path = saved.save()
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = Saving({"text": "three"}).logdir
    assert {*os.listdir(tmp_path)} == {os.path.basename(each) for each in (own, saved.logdir)} and os.path.isdir(path)
    assert not os.path.exists(killed)


def test_state_of_an_experiment_can_be_read_by_its_user_alone(tmp_path):
    made = experiment(tmp_path, "private")
    begin_folder(made, pickle_of(made)).close()
    assert stat.S_IMODE(os.stat(os.path.join(made.path, STATE)).st_mode) == 0o600


def test_states_of_searchers_and_schedulers_are_for_their_user_alone(tmp_path):
    searcher = tune.search.basic_variant.BasicVariantGenerator()
    for part, path in ((searcher, tmp_path / "searcher"), (tune.schedulers.FIFOScheduler(), tmp_path / "scheduler")):
        part.save(str(path))
        part.restore(str(path))
    searcher.save_to_dir(str(tmp_path / "folder"))
    searcher.restore_from_dir(str(tmp_path / "folder"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3 and {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


@pytest.mark.parametrize("data", [b"", b"hello", b"\x80\x04}\x94."], ids=["empty", "text", "another pickle"])
def test_damaged_state_of_an_experiment_is_named(tmp_path, data):
    (tmp_path / STATE).write_bytes(data)
    with pytest.raises(TuneError, match="experiment.pkl"):
        tune.Tuner.restore(str(tmp_path), train)


def test_folder_without_an_experiment_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no experiment"):
        tune.Tuner.restore(str(tmp_path), train)
    with pytest.raises(NoExperimentError):
        tune.Tuner.restore(str(tmp_path / "nothing"), train)


def test_checksums_behind_the_end_do_not_make_an_experiment_longer(tmp_path):
    def save(config):
        tune.report({"x": 1}, checkpoint=tune.Checkpoint.from_dict({"x": 1}))

    tune.Tuner(save, run_config=tune.RunConfig(name="e", storage_path=str(tmp_path))).fit()
    events, _, problem = read_journal(str(tmp_path / "e" / JOURNAL))
    assert isinstance(events[-1], ev.Sealed) and not problem
    assert events[-1].now == max(event.now for event in events if not isinstance(event, ev.Sealed))
