"""zray.util.free: values that the program frees itself."""

import numpy as np
import pytest

import zray
from tests.gates import Gate, until
from zray.exceptions import ObjectFreedError, ObjectLostError
from zray.util import free

SMALL, LARGE = 3, 100_000  # elements: in messages, and in shared memory


@zray.remote
def make(size):
    return np.ones(size)


@zray.remote
def total(values):
    return float(values.sum())


def in_use():
    free_bytes = zray.available_resources()["object_store_memory"]
    return zray.cluster_resources()["object_store_memory"] - free_bytes


@pytest.mark.usefixtures("session")
class TestOneNode:
    @pytest.mark.parametrize("size", [SMALL, LARGE])
    @pytest.mark.parametrize("how", ["put", "returned", "returned and read"])
    def test_get_of_a_freed_value_is_an_error(self, size, how):
        ref = zray.put(np.ones(size)) if how == "put" else make.remote(size)
        zray.wait([ref])
        if how == "returned and read":
            zray.get(ref)
        free([ref])
        for _ in range(2):
            with pytest.raises(ObjectFreedError, match=rf"{ref.hex()}.*freed by the program") as caught:
                zray.get(ref)
        assert isinstance(caught.value, ObjectLostError)
        with pytest.raises(ObjectFreedError):
            zray.get(total.remote(ref))
        assert zray.wait([ref], timeout=10)[0] == [ref]

    def test_memory_is_free_at_once_though_refs_live(self):
        until(lambda: in_use() == 0)
        refs = [zray.put(np.ones(LARGE)) for _ in range(5)]
        until(lambda: in_use() >= 5 * 8 * LARGE)
        zray.internal.free(refs)
        until(lambda: in_use() == 0)
        assert len(refs) == 5

    def test_array_in_use_stays_until_it_is_dropped(self):
        until(lambda: in_use() == 0)
        ref = zray.put(np.ones(LARGE))
        array = zray.get(ref)
        free(ref)
        others = [zray.put(np.zeros(LARGE)) for _ in range(5)]
        assert array.sum() == LARGE
        del array, others
        until(lambda: in_use() == 0)
        with pytest.raises(ObjectFreedError):
            zray.get(ref)

    def test_actor_that_has_the_value_hears_of_it(self):
        @zray.remote
        class Reader:
            def keep(self, refs):
                self.ref = refs[0]
                return float(zray.get(self.ref).sum())

            def read(self):
                return float(zray.get(self.ref).sum())

        until(lambda: in_use() == 0)
        ref = zray.put(np.ones(LARGE))
        reader = Reader.remote()
        assert zray.get(reader.keep.remote([ref])) == LARGE
        free([ref])
        with pytest.raises(ObjectFreedError):
            zray.get(reader.read.remote())
        until(lambda: in_use() == 0)

    def test_refs_inside_a_freed_value_are_let_go(self):
        until(lambda: in_use() == 0)
        outer = zray.put([zray.put(np.ones(LARGE))])
        until(lambda: in_use() > 0)
        free([outer])
        until(lambda: in_use() == 0)

    def test_unfinished_result_stays(self, tmp_path):
        gate = Gate(tmp_path / "gate")

        @zray.remote
        def wait():
            gate.wait()
            return 7

        ref = wait.remote()
        free([ref])
        gate.open()
        assert zray.get(ref) == 7

    def test_error_of_a_task_stays(self):
        @zray.remote
        def fail():
            raise KeyError("mine")

        ref = fail.remote()
        zray.wait([ref])
        free([ref])
        with pytest.raises(KeyError):
            zray.get(ref)

    def test_wrong_arguments(self):
        with pytest.raises(TypeError, match="ObjectRef"):
            free([1])
        with pytest.raises(NotImplementedError, match="local_only"):
            free([zray.put(1)], local_only=True)
        free([])
