"""Saves into a folder that holds a checkpoint: one killed at any step leaves all files of one save."""

import os
import stat

import pytest

from zray import tune
from zray.tune.saving import saving_aside

NAMES = ("first", "second", "below/third")


class Counting(tune.Trainable):
    def setup(self, config):
        self.number = 0

    def step(self):
        self.number += 1
        return {"x": self.number}

    def save_checkpoint(self, folder):
        os.mkdir(os.path.join(folder, "below"))
        for name in NAMES:
            with open(os.path.join(folder, name), "w") as file:
                file.write(str(self.number))

    def load_checkpoint(self, folder):
        self.loaded = [read(os.path.join(folder, name)) for name in NAMES]
        self.number = int(self.loaded[0])


def read(path):
    with open(path) as file:
        return file.read()


def trained():
    made = Counting()
    made.train()
    return made


def killed_before(step, work):
    """Run work in a process that ends before its given change of names.  Returns whether it came that far."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    count = 0

    def counted(change):
        def changed(*args, **options):
            nonlocal count
            count += 1
            if count == step:
                os._exit(9)
            return change(*args, **options)

        return changed

    try:
        for name in ("rename", "replace", "link", "rmdir", "unlink", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        work()
    finally:
        os._exit(0)


def test_save_killed_at_any_step_leaves_all_files_of_one_save(tmp_path):
    folder, made, step = str(tmp_path / "saved"), trained(), 0
    while True:
        step += 1
        made.save(folder)
        (tmp_path / "saved" / "notes").write_text("mine")
        made.train()
        was_killed = killed_before(step, lambda: made.save(folder))
        restored = Counting()
        restored.restore(folder)
        assert len(set(restored.loaded)) == 1 and restored.number == restored.iteration
        assert restored.number in (made.number - 1, made.number)
        assert read(os.path.join(folder, "notes")) == "mine"
        if not was_killed:
            break
        made.save(folder)
        assert os.listdir(tmp_path) == ["saved"]
    assert step > 6 and restored.number == made.number


def between_renames(folder):
    """Leave what a process leaves that is killed between the two renames."""
    with saving_aside(folder) as unfinished:
        tune.Checkpoint.from_dict({"x": 2})._write_data(unfinished)
    os.mkdir(f"{folder}.former.unfinished")
    os.rename(folder, f"{folder}.unfinished")


@pytest.mark.parametrize("way", ["to_dict", "to_directory"])
def test_checkpoint_between_two_renames_is_read_as_one(tmp_path, way):
    between_renames(folder := str(tmp_path / "saved"))
    read_by = getattr(tune.Checkpoint.from_directory(folder), way)
    assert (read_by() if way == "to_dict" else tune.Checkpoint(read_by(tmp_path / "copy")).to_dict()) == {"x": 2}
    assert "saved.unfinished" not in os.listdir(tmp_path)


def test_new_checkpoint_that_was_never_whole_does_not_become_one(tmp_path):
    (tmp_path / "saved.unfinished").mkdir()
    with pytest.raises(FileNotFoundError, match="saved does not exist"):
        Counting().restore(str(tmp_path / "saved"))


def test_folder_keeps_its_mode_its_links_and_what_others_put_there(tmp_path):
    (folder := tmp_path / "saved").mkdir(0o700)
    (folder / "own").mkdir()
    (folder / "own" / "text").write_text("mine")
    (folder / "link").symlink_to("own")
    (folder / "first").mkdir()
    (folder / "first" / "in the way").touch()
    (tmp_path / "latest").symlink_to("saved")
    trained().save(str(tmp_path / "latest"))
    assert (tmp_path / "latest").is_symlink() and stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "link").is_symlink() and (folder / "link" / "text").read_text() == "mine"
    assert (folder / "first").read_text() == "1"


def test_save_into_the_working_directory_leaves_it_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (made := trained()).save(".")
    made.train()
    made.save(".")
    assert read("first") == "2" and os.path.samefile(".", tmp_path)
