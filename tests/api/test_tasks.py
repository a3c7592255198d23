"""Remote functions: calls, arguments, options, numbers of returns, resources."""

import inspect

import numpy as np
import pytest

import zray
from tests.gates import Tally, until
from tests.scripts import run_script

pytestmark = pytest.mark.usefixtures("session")


@zray.remote
def add(x, y=10):
    """Adds two things."""
    return x + y


@zray.remote
def identity(value):
    return value


@zray.remote
def wait_at(gate, value=None):
    gate.wait()
    return value


def test_a_call_returns_a_reference_at_once(gate):
    ref = wait_at.remote(gate, "through")
    assert isinstance(ref, zray.ObjectRef)
    assert zray.wait([ref], timeout=0) == ([], [ref])
    gate.open()
    assert zray.get(ref) == "through"


def test_arguments_by_position_by_name_and_by_default():
    assert zray.get([add.remote(1, 2), add.remote(1, y=2), add.remote(x=1), add.remote(1)]) == [3, 3, 11, 11]


def test_star_arguments():
    @zray.remote
    def collect(first, *rest, key=None, **others):
        return first, rest, key, others

    assert zray.get(collect.remote(1, 2, 3, key="k", z=4)) == (1, (2, 3), "k", {"z": 4})


def test_references_are_resolved_at_top_level_by_position_and_by_name():
    one, two = zray.put(1), identity.remote(2)
    assert zray.get(add.remote(one, two)) == 3
    assert zray.get(add.remote(y=one, x=two)) == 3


def test_references_inside_containers_stay_references():
    @zray.remote
    def look(container):
        (ref,) = container["refs"]
        return isinstance(ref, zray.ObjectRef), zray.get(ref)

    assert zray.get(look.remote({"refs": [zray.put("inside")]})) == (True, "inside")


def test_the_same_reference_twice():
    ref = zray.put(np.arange(3.0))
    assert zray.get(add.remote(ref, ref)).tolist() == [0.0, 2.0, 4.0]


def test_a_large_plain_argument_arrives_whole():
    array = np.arange(1_000_000)
    assert zray.get(identity.remote(array)).sum() == array.sum()


def test_a_task_starts_when_its_last_argument_is_there(gate):
    first = wait_at.remote(gate, 1)
    ref = add.remote(first, 2)
    assert zray.wait([ref], timeout=0)[0] == []
    gate.open()
    assert zray.get(ref) == 3


def test_a_direct_call_is_refused_with_the_right_spelling():
    with pytest.raises(TypeError, match=r"\.remote\("):
        add(1, 2)


def test_wrong_arguments_are_refused_at_the_call():
    with pytest.raises(TypeError, match=r"^add\.remote\(\): missing a required argument: 'x'"):
        add.remote()
    with pytest.raises(TypeError, match=r"^add\.remote\(\): too many positional arguments"):
        add.remote(1, 2, 3)
    with pytest.raises(TypeError, match=r"^add\.remote\(\): .*'z'"):
        add.remote(1, y=2, z=2)
    with pytest.raises(TypeError, match=r"^add\.remote\(\)"):
        add.options(name="sum").remote()


def test_wrong_arguments_that_show_only_on_the_worker_name_the_function():
    """A signature that nobody can read is checked by the call itself."""
    with pytest.raises(TypeError, match="getattr"):
        zray.get(zray.remote(getattr).remote(1))


def test_name_documentation_and_signature_are_kept():
    assert add.__name__ == "add"
    assert add.__doc__ == "Adds two things."
    assert list(inspect.signature(add).parameters) == ["x", "y"]


def test_remote_as_a_plain_function_and_with_options_first():
    def triple(x):
        return 3 * x

    assert zray.get(zray.remote(triple).remote(2)) == 6
    assert zray.get(zray.remote(num_cpus=2)(triple).remote(2)) == 6


def test_remote_refuses_what_is_no_function_or_class():
    with pytest.raises(TypeError):
        zray.remote(1)


def test_lambdas_closures_and_globals():
    offset = 5
    assert zray.get(zray.remote(lambda x: x + offset).remote(1)) == 6


def test_a_function_that_is_defined_again_is_the_new_one():
    results = []
    for value in (1, 2):

        @zray.remote
        def constant(value=value):
            return value

        results.append(constant.remote())
    assert zray.get(results) == [1, 2]


def test_a_remote_function_as_argument_and_in_a_closure():
    @zray.remote
    def apply(function, value):
        return zray.get([function.remote(value, 1), add.remote(value, 2)])

    assert zray.get(apply.remote(add, 10)) == [11, 12]


def test_a_function_that_calls_itself():
    @zray.remote
    def factorial(n):
        return 1 if n <= 1 else n * zray.get(factorial.remote(n - 1))

    assert zray.get(factorial.remote(6)) == 720


def test_a_reference_in_a_closure_counts_as_an_argument():
    def summing(ref):
        return zray.remote(lambda: float(zray.get(ref).sum()))

    assert zray.get(summing(zray.put(np.ones(200_000))).remote()) == 200_000.0


def test_options_make_a_new_function_and_leave_the_old_one():
    pair = identity.options(num_returns=2)
    assert zray.get(pair.remote((1, 2))) == [1, 2]
    assert zray.get(identity.remote((1, 2))) == (1, 2)
    assert zray.get(identity.options(name="named").remote(1)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"no_such_option": 1},
        {"num_cpus": -1},
        {"num_gpus": -0.5},
        {"resources": {"CPU": 1}},
        {"resources": {"GPU": 1}},
        {"resources": {"custom": -1}},
        {"num_returns": -1},
        {"max_retries": -2},
        {"retry_exceptions": [1]},
    ],
    ids=str,
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ValueError):
        zray.remote(**options)(lambda: None)
    with pytest.raises(ValueError):
        identity.options(**options)


@pytest.mark.parametrize("options", [{"num_cpus": "two"}, {"resources": 1}, {"max_retries": "many"}], ids=str)
def test_options_of_a_wrong_type_are_refused(options):
    with pytest.raises(TypeError):
        zray.remote(**options)(lambda: None)


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="num_returns"):
        zray.remote(nmu_returns=2)(lambda: None)


def test_several_returns():
    @zray.remote(num_returns=3)
    def three():
        return 1, np.zeros(100_000), "three"

    first, second, third = three.remote()
    assert zray.get([third, first]) == ["three", 1]
    assert zray.get(second).shape == (100_000,)


def test_no_return_at_all():
    assert identity.options(num_returns=0).remote(None) is None


@pytest.mark.slow
def test_the_returns_of_one_task_may_be_more_than_one_message_holds():
    refs = zray.remote(lambda: ["x" * 100_000] * 6_000).options(num_returns=6_000).remote()
    assert zray.get(refs, timeout=50) == ["x" * 100_000] * 6_000


@pytest.mark.parametrize("values", [(1,), (1, 2, 3), 7], ids=str)
def test_a_wrong_number_of_returns_fails_every_reference(values):
    for ref in identity.options(num_returns=2).remote(values):
        with pytest.raises((ValueError, TypeError)):
            zray.get(ref)


def test_many_tasks_and_their_order():
    assert zray.get([identity.remote(i) for i in range(3_000)]) == list(range(3_000))


def test_a_long_chain():
    ref = zray.put(0)
    for _ in range(300):
        ref = add.remote(ref, 1)
    assert zray.get(ref) == 300


def test_a_tree():
    refs = [zray.put(i) for i in range(256)]
    while len(refs) > 1:
        refs = [add.remote(x, y) for x, y in zip(refs[::2], refs[1::2], strict=True)]
    assert zray.get(refs[0]) == sum(range(256))


@pytest.mark.parametrize(
    "options, expected",
    [({"num_cpus": 1}, 2), ({"num_cpus": 2}, 1), ({"num_cpus": 0.5}, 4), ({"num_cpus": 0}, 6)],
    ids=["one", "two", "half", "none"],
)
def test_cpus_are_never_oversubscribed_and_all_used(options, expected, gate, tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(**options)
    def enter():
        tally.visit()
        gate.wait()

    refs = [enter.remote() for _ in range(6)]
    until(lambda: tally.count() >= expected)
    assert zray.wait(refs, timeout=0.2)[0] == []  # time for one too many to come in
    assert tally.count() == expected
    gate.open()
    zray.get(refs)
    assert tally.count() == 6


def test_resources_are_free_again_when_everything_is_done():
    zray.get([identity.options(num_cpus=0.3).remote(i) for i in range(20)])
    until(lambda: zray.available_resources().get("CPU") == 2.0)


def test_the_runtime_context_of_a_task():
    @zray.remote(num_cpus=0.5, name="observer")
    def observe():
        context = zray.get_runtime_context()
        return {
            "task": context.get_task_id(),
            "job": context.get_job_id(),
            "node": context.get_node_id(),
            "worker": context.get_worker_id(),
            "actor": context.get_actor_id(),
            "resources": context.get_assigned_resources(),
        }

    ref = observe.remote()
    seen = zray.get(ref)
    here = zray.get_runtime_context()
    assert seen["task"] == ref.task_id().hex()
    assert seen["job"] == here.get_job_id()
    assert seen["node"] == here.get_node_id()
    assert seen["worker"] != here.get_worker_id()
    assert seen["actor"] is None
    assert seen["resources"] == {"CPU": 0.5}


def test_retry_exceptions(tmp_path):
    tally = Tally(tmp_path / "tally")

    def fail_twice(kind):
        if tally.visit() < 3:
            raise kind("not yet")
        return "done"

    assert zray.get(zray.remote(retry_exceptions=True)(fail_twice).remote(ValueError)) == "done"
    assert tally.count() == 3


def test_retry_exceptions_of_listed_classes_only(tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(retry_exceptions=[ConnectionError], max_retries=2)
    def fail(kind):
        tally.visit()
        raise kind("always")

    with pytest.raises(ValueError):
        zray.get(fail.remote(ValueError))
    assert tally.count() == 1
    with pytest.raises(ConnectionError):
        zray.get(fail.remote(ConnectionResetError))
    assert tally.count() == 4


def test_exceptions_are_not_retried_unless_asked_for(tmp_path):
    tally = Tally(tmp_path / "tally")

    @zray.remote(max_retries=5)
    def fail():
        tally.visit()
        raise ValueError

    with pytest.raises(ValueError):
        zray.get(fail.remote())
    assert tally.count() == 1


def test_a_long_task_does_not_trap_short_ones_behind_it(gate):
    """Tasks that are queued behind a long one can be taken back from the busy worker."""
    zray.get([identity.remote(i) for i in range(200)])  # short so far: many go to a worker at once
    long = wait_at.remote(gate)
    assert zray.get([identity.remote(i) for i in range(100)], timeout=20) == list(range(100))
    gate.open()
    zray.get(long)


def test_the_first_call_starts_zray_and_main_needs_no_guard(tmp_path):
    """A script without init and without `if __name__ == "__main__"`, with a module beside it."""
    (tmp_path / "beside.py").write_text("FACTOR = 7\n")
    result = run_script(
        tmp_path,
        """
        import zray as ray
        import beside
        print("top level runs")
        class Local:
            def __init__(self, x): self.x = x
            def __eq__(self, other): return self.x == other.x
        @ray.remote
        def times(x):
            return Local(beside.FACTOR * x)
        assert ray.get(times.remote(6)) == Local(42)
        assert ray.is_initialized()
        print("end")
        """,
    )
    assert result.stdout.splitlines() == ["top level runs", "end"], result.stderr
    assert result.returncode == 0


def test_declared_resources_limit_tasks(tmp_path):
    """GPUs and custom resources are numbers that one declares; run apart, since this session has none."""
    result = run_script(
        tmp_path,
        """
        import zray as ray
        ray.init(num_cpus=4, num_gpus=1, resources={"licence": 2})
        assert ray.cluster_resources()["GPU"] == 1.0 and ray.cluster_resources()["licence"] == 2.0
        @ray.remote(num_cpus=0, num_gpus=1)
        def on_gpu():
            return ray.available_resources().get("GPU", 0.0)
        @ray.remote(num_cpus=0, resources={"licence": 1.5})
        def licensed():
            return ray.get_runtime_context().get_assigned_resources()["licence"]
        assert ray.get([licensed.remote() for _ in range(4)]) == [1.5] * 4
        ray.get([on_gpu.remote() for _ in range(3)])
        impossible = licensed.options(resources={"licence": 3}).remote()
        try:
            ray.get(impossible, timeout=20)
        except ray.exceptions.TaskUnschedulableError as error:
            assert "it asks for 3 licence" in str(error) and "has 2 licence" in str(error)
            print("refused")
        print("end")
        """,
    )
    assert result.stdout.splitlines()[-2:] == ["refused", "end"], result.stderr


def test_a_task_that_never_ends_does_not_hold_up_the_end_of_the_session(tmp_path):
    result = run_script(
        tmp_path,
        """
        import zray as ray
        from tests.gates import forever
        ray.init(num_cpus=1)
        ray.remote(forever).remote()
        ray.shutdown()
        print("end")
        """,
    )
    assert result.stdout.splitlines() == ["end"], result.stderr
