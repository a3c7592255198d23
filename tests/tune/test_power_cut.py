"""A power cut: the disk as it is at a moment, without what was not synced, and an experiment that goes on from it."""

import contextlib
import filecmp
import os
import shutil
import subprocess
import time
import warnings
import zlib

import pytest

from tests.gates import until
from zray import tune

pytestmark = pytest.mark.usefixtures("session")

# The run before the cut is that long: the journal is synced each second.
SECONDS = 4.0
STEPS_AFTER = 5


@contextlib.contextmanager
def mounted(image, folder):
    """The file system of an image, at a folder."""
    done = subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no loop device can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        # Lazily: a process of a trial may have its folder as working directory for a moment.
        subprocess.run(["umount", "-l", str(folder)], check=True)


def train(config):
    state = tune.get_checkpoint().to_dict() if tune.get_checkpoint() else {"step": 0, "data": b"", "crc": 0}
    assert zlib.crc32(state["data"]) == state["crc"] and len(state["data"]) in (0, 50_000)
    first = state["step"]
    for step in range(first + 1, 100_000):
        data = os.urandom(50_000)
        saved = tune.Checkpoint.from_dict({"step": step, "data": data, "crc": zlib.crc32(data)})
        tune.report({"step": step, "first": first}, checkpoint=saved)


def ends(trial_id, result):
    """The restored trial ends after some steps; the first one has all that it needs."""
    return result["first"] > 0 and result["step"] >= result["first"] + STEPS_AFTER


class Cutting(tune.Callback):
    """Copies the image as it is after some seconds, and notes the steps of the run until then."""

    def __init__(self, image, copy, unsynced):
        self.image, self.copy, self.unsynced, self.times = str(image), str(copy), str(unsynced), []

    def _copies(self):
        """Whether the copy is of one moment: the image has not changed meanwhile."""
        shutil.copyfile(self.image, self.copy)
        return filecmp.cmp(self.image, self.copy, shallow=False)

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.times.append(time.monotonic())
        if self.times[-1] - self.times[0] > SECONDS:
            with open(self.unsynced, "w") as file:
                file.write("not on the disk yet")
            until(self._copies)
            raise InterruptedError("the power is cut")

    def __reduce__(self):
        raise TypeError("It is for the first run alone.")


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mkfs.ext4"), reason="needs root and mkfs.ext4")
def test_experiment_goes_on_from_a_whole_checkpoint_after_a_power_cut(tmp_path):
    image, copy, folder = tmp_path / "image", tmp_path / "copy", tmp_path / "disk"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    cutting = Cutting(image, copy, folder / "unsynced")
    with mounted(image, folder):
        config = tune.RunConfig(
            name="e",
            storage_path=str(folder),
            callbacks=[cutting],
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
            stop=ends,
            verbose=0,
        )
        with pytest.raises(tune.TuneError, match="the power is cut"):
            tune.Tuner(train, run_config=config).fit()
    cut, end = len(cutting.times), cutting.times[-1]
    early = sum(end - each > SECONDS / 2 for each in cutting.times)
    with mounted(copy, folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the cut has taken
        assert not os.path.exists(cutting.unsynced) or not os.path.getsize(cutting.unsynced)
        (result,) = tune.Tuner.restore(str(folder / "e"), train).fit()
        assert result.error is None
        first = result.metrics["first"]
        assert 0 < early <= first <= cut
        assert [row["step"] for row in result.rows()] == list(range(1, result.metrics["step"] + 1))
