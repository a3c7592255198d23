"""zray.util.rng: the same numbers whatever the workers, the nodes and the retries."""

import os
import signal

import numpy as np
import pytest

import zray
from tests.gates import Tally
from zray.util import rng


@zray.remote
def draw(count=3):
    return rng().integers(1 << 40, size=count).tolist()


@zray.remote
def draw_nested():
    return [rng().integers(1 << 40).tolist(), *zray.get([draw.remote() for _ in range(3)])]


@zray.remote
class Sampler:
    def __init__(self):
        self.first = rng().integers(1 << 40).tolist()

    def sample(self):
        return [self.first, rng().integers(1 << 40).tolist(), zray.get(draw.remote(1))]


def program():
    """Everything that draws, in a fixed order of submissions."""
    sampler = Sampler.remote()
    refs = [draw.remote(), draw_nested.remote(), sampler.sample.remote(), sampler.sample.remote(), draw_nested.remote()]
    refs += [draw.remote() for _ in range(10)]
    return [rng().integers(1 << 40).tolist(), *zray.get(refs)]


def numbers_in(value):
    return [number for part in value for number in numbers_in(part)] if isinstance(value, list) else [value]


def run(**arguments):
    with zray.init(**arguments):
        return program()


@pytest.mark.usefixtures("nothing_left")
class TestSeeds:
    def test_numbers_are_the_same_for_any_number_of_workers_and_in_each_run(self, monkeypatch):
        first = run(num_cpus=1, seed=7)
        numbers = numbers_in(first)
        repeated = len(numbers) - len(set(numbers))
        assert repeated == 1  # the actor's first number, which each of its two calls returns
        monkeypatch.setenv("ZRAY_SEED", "7")
        assert run(num_cpus=4) == first
        other, without = run(num_cpus=2, seed=8), []
        monkeypatch.delenv("ZRAY_SEED")
        for _ in range(2):
            with zray.init(num_cpus=1):
                without.append(zray.get(draw.remote()))
        assert other != first and without[0] != without[1]

    @pytest.mark.parametrize("seed", [-1, 1 << 63])
    def test_seed_out_of_range_is_refused(self, seed):
        with pytest.raises(ValueError, match="seed must be an integer from 0"):
            zray.init(seed=seed)

    @pytest.mark.parametrize("seed", [True, 1.5, "7"])
    def test_seed_of_another_type_is_refused(self, seed):
        with pytest.raises(TypeError, match="seed must be an int"):
            zray.init(seed=seed)

    def test_environment_with_no_number_is_refused(self, monkeypatch):
        monkeypatch.setenv("ZRAY_SEED", "seven")
        with pytest.raises(ValueError, match="ZRAY_SEED"):
            zray.init()

    @pytest.mark.parametrize("seed", [None, 5])
    def test_retry_draws_the_same_numbers(self, start, tmp_path, seed):
        start(num_cpus=1, seed=seed)
        tally = Tally(tmp_path / "runs")

        @zray.remote(max_retries=3)
        def unlucky():
            drawn = rng().integers(1 << 40, size=3).tolist()
            (tmp_path / str(tally.visit())).write_text(repr(drawn))
            if tally.count() < 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return drawn

        drawn = zray.get(unlucky.remote())
        assert [(tmp_path / str(number)).read_text() for number in (1, 2, 3)] == [repr(drawn)] * 3

    def test_task_has_one_generator(self, start):
        start(num_cpus=1)

        @zray.remote
        def twice():
            return rng() is rng(), isinstance(rng(), np.random.Generator)

        assert zray.get(twice.remote()) == (True, True)
        assert rng() is rng()
