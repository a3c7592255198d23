"""joblib over zray: batches, shared arrays, errors, nesting, and scikit-learn."""

import os
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest

import zray
from tests.gates import Tally, forever, nothing_is_held, until

joblib = pytest.importorskip("joblib")
from zray.util.joblib import register_ray, register_zray  # noqa: E402
from zray.util.state import list_tasks  # noqa: E402

pytestmark = [pytest.mark.usefixtures("session"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module", autouse=True)
def registered():
    register_zray()


def run(calls, **options):
    with joblib.parallel_config("zray"):
        return joblib.Parallel(**options)(calls)


def square(value):
    return value * value


def identify(value):
    return os.getpid()


def address_of(array, other):
    return array.__array_interface__["data"][0], array.flags.writeable, float(array.sum()) + other


def nested(value):
    from joblib.parallel import get_active_backend

    inner = joblib.Parallel(n_jobs=2)(joblib.delayed(threading.get_ident)() for _ in range(4))
    return type(get_active_backend()[0]).__name__, len(inner)


@pytest.mark.parametrize("name", ["zray", "ray"])
def test_calls_run_in_workers_in_order(name):
    register_ray()
    with joblib.parallel_config(name, n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(square)(value) for value in range(2_000)) == [
            value * value for value in range(2_000)
        ]
        assert os.getpid() not in joblib.Parallel()(joblib.delayed(identify)(value) for value in range(20))


def test_all_cpus_are_the_default():
    with joblib.parallel_config("zray"):
        assert joblib.effective_n_jobs() == joblib.effective_n_jobs(-1) == 2 and joblib.effective_n_jobs(-2) == 1
    assert run([joblib.delayed(square)(3)], n_jobs=1) == [9]
    with pytest.raises(ValueError, match="n_jobs"):
        run([joblib.delayed(square)(3)], n_jobs=0)


def test_large_array_is_put_once_and_read_in_place(monkeypatch):
    array, puts = np.ones(100_000), []
    put = zray.api.objects.put
    monkeypatch.setattr("zray.util.joblib_backend.objects.put", lambda value: puts.append(1) or put(value))
    found = run([joblib.delayed(address_of)(array, other=value) for value in range(8)], n_jobs=2)
    assert [total for *_, total in found] == [100_000.0 + value for value in range(8)]
    assert len(puts) == 1 and not any(writeable for _, writeable, _ in found)


def test_array_that_changes_between_calls_is_put_again():
    array = np.zeros(100_000)
    for value in (1.0, 2.0):
        array[0] = value
        assert run([joblib.delayed(address_of)(array, 0)] * 2, n_jobs=2)[1][2] == value


def test_error_is_that_of_the_function():
    with pytest.raises(ZeroDivisionError):
        run([joblib.delayed(lambda value: 1 // value)(value) for value in (1, 0)], n_jobs=2)
    assert run([joblib.delayed(square)(3)] * 3, n_jobs=2) == [9, 9, 9]


def test_generator_gives_results_as_they_come(gate):
    def wait(gate):
        if gate is not None:
            gate.wait()
        return gate is None

    with joblib.parallel_config("zray", n_jobs=2):
        results = joblib.Parallel(return_as="generator_unordered", batch_size=1)(
            joblib.delayed(wait)(item) for item in [gate, None, None]
        )
        assert [next(results), next(results)] == [True, True]
        gate.open()
        assert list(results) == [False]


def test_calls_at_a_time_are_bounded(gate, tmp_path):
    def visit(tally, gate):
        tally.visit()
        gate.wait()

    tally = Tally(tmp_path / "tally")
    done = []
    calls = [joblib.delayed(visit)(tally, gate) for _ in range(6)]
    thread = threading.Thread(target=lambda: done.append(run(calls, n_jobs=2, batch_size=1)))
    thread.start()
    until(lambda: tally.count() == 2)
    gate.open()
    thread.join()
    assert tally.count() == 6 and done


def wait_or_fail(folder, is_bad):
    """Wait forever; the bad one fails as soon as another one waits."""
    tally = Tally(folder)
    if is_bad:
        until(lambda: tally.count() == 1)
        raise KeyError("bad")
    tally.visit()
    forever()


def test_error_cancels_batches_that_run(tmp_path):
    with pytest.raises(KeyError, match="bad"):
        run([joblib.delayed(wait_or_fail)(tmp_path, is_bad) for is_bad in (False, True)], n_jobs=2, batch_size=1)
    until(nothing_is_held)


def test_parallel_calls_inside_use_threads():
    assert run([joblib.delayed(nested)(0)] * 2, n_jobs=2) == [("ThreadingBackend", 4)] * 2


def test_options_are_those_of_the_tasks():
    with joblib.parallel_config("zray", n_jobs=2, ray_remote_args={"num_cpus": 2}):
        assert joblib.Parallel()(joblib.delayed(square)(value) for value in range(4)) == [0, 1, 4, 9]


def test_missing_joblib_is_named():
    script = "import sys; sys.modules['joblib'] = None\nfrom zray.util.joblib import register_zray; register_zray()"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ImportError: register_zray() needs joblib" in result.stderr


@pytest.fixture(scope="module")
def digits():
    data = pytest.importorskip("sklearn.datasets").load_digits()
    return data.data[:400], data.target[:400]


def test_grid_search_finds_what_it_finds_alone(digits):
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    def search():
        return GridSearchCV(SVC(), {"C": [0.1, 10], "gamma": [1e-4, 1e-3]}, cv=3).fit(*digits)

    with joblib.parallel_config("zray"):
        found = search()
    alone = search()
    assert found.best_params_ == alone.best_params_ and found.best_score_ == pytest.approx(alone.best_score_)


def test_cross_val_predict_predicts_as_alone(digits):
    from sklearn.model_selection import cross_val_predict
    from sklearn.neighbors import KNeighborsClassifier

    with joblib.parallel_config("zray"):
        found = cross_val_predict(KNeighborsClassifier(), *digits, cv=3)
    assert (found == cross_val_predict(KNeighborsClassifier(), *digits, cv=3)).all()


def named_in_lists(value):
    return value


@pytest.mark.parametrize("array", [None, np.zeros(50_000)])
def test_batches_have_the_names_of_functions(array):
    before = {task.task_id for task in list_tasks(limit=10_000)}
    call = joblib.delayed(partial(named_in_lists))
    run([call(number if array is None else array) for number in range(4)], n_jobs=2)
    new = [task for task in list_tasks(limit=10_000) if task.task_id not in before]
    assert {task.name for task in new} == {"named_in_lists"}


def test_name_among_the_options_stays():
    with joblib.parallel_config("zray", ray_remote_args={"name": "own"}):
        joblib.Parallel(n_jobs=2)(joblib.delayed(named_in_lists)(number) for number in range(4))
    assert "own" in {task.name for task in list_tasks(limit=10_000)}
