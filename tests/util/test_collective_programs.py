"""Programs of Ray's documentation on collective calls, unchanged but for the backend; and local mode."""

import subprocess
import sys

import numpy
import pytest

import zray
from tests.scripts import ROOT, environment
from zray.util import collective

# As in Ray's documentation, which has cupy arrays on GPUs in some of them.
IMPERATIVE = """
import ray
import numpy as np
import ray.util.collective as col
from ray.util.collective.types import Backend, ReduceOp

@ray.remote(num_cpus=1)
class Worker:
    def __init__(self):
        self.send = np.ones((4, ), dtype=np.float32)
        self.recv = np.zeros((4, ), dtype=np.float32)

    def setup(self, world_size, rank):
        col.init_collective_group(world_size, rank, "gloo", "default")
        return True

    def compute(self):
        col.allreduce(self.send, "default")
        return self.send

    def destroy(self):
        col.destroy_collective_group()

num_workers = 2
workers = []
init_rets = []
for i in range(num_workers):
    w = Worker.remote()
    workers.append(w)
    init_rets.append(w.setup.remote(num_workers, i))
_ = ray.get(init_rets)
results = ray.get([w.compute.remote() for w in workers])
assert [result.tolist() for result in results] == [[2.0] * 4] * 2
ray.get([w.destroy.remote() for w in workers])
"""
DECLARATIVE = """
import ray
import numpy as np
import ray.util.collective as collective

@ray.remote
class Worker:
    def __init__(self):
        self.send = np.ones((4, ), dtype=np.float32)

    def compute(self):
        collective.allreduce(self.send, "177")
        return self.send

if __name__ == "__main__":
    ray.init(num_cpus=2)
    num_workers = 2
    workers = []
    for i in range(num_workers):
        w = Worker.remote()
        workers.append(w)
    _options = {
        "group_name": "177",
        "world_size": 2,
        "ranks": [0, 1],
        "backend": "gloo",
    }
    collective.create_collective_group(workers, **_options)
    results = ray.get([w.compute.remote() for w in workers])
    assert [result.tolist() for result in results] == [[2.0] * 4] * 2
    ray.shutdown()
"""
POINT_TO_POINT = """
import ray
import numpy as np
import ray.util.collective as col

@ray.remote
class Worker:
    def __init__(self):
        self.buffer = np.ones(10)

    def get_buffer(self):
        return self.buffer

    def do_send(self, target_rank=0):
        col.send(self.buffer, target_rank)

    def do_recv(self, src_rank=0):
        col.recv(self.buffer, src_rank)

    def do_allgather(self):
        tensors = [np.zeros(10) for _ in range(2)]
        col.allgather(tensors, self.buffer)
        return [float(tensor.sum()) for tensor in tensors]

    def fill(self, value):
        self.buffer.fill(value)

ray.init(num_cpus=2)
A, B = Worker.remote(), Worker.remote()
col.create_collective_group([A, B], 2, [0, 1], backend="gloo")
ray.get(A.fill.remote(7.0))
ray.get([A.do_send.remote(target_rank=1), B.do_recv.remote(src_rank=0)])
assert ray.get(B.get_buffer.remote()).tolist() == [7.0] * 10
assert ray.get([A.do_allgather.remote(), B.do_allgather.remote()]) == [[70.0, 70.0]] * 2
"""
REGISTRY = """
import numpy as np
import ray
from ray.util.collective import allreduce, create_collective_group, init_collective_group
from ray.util.collective.backend_registry import get_backend_registry
from ray.util.collective.types import Backend, ReduceOp

ray.init(num_cpus=2)
registry = get_backend_registry()
assert "GLOO" in registry.list_backends()
assert registry.check("GLOO") and not registry.check("NCCL")

@ray.remote
class Worker:
    def __init__(self, rank):
        self.rank = rank
        self.tensor = None

    def setup(self, world_size):
        init_collective_group(
            world_size=world_size,
            rank=self.rank,
            backend=Backend.GLOO,
            group_name="default",
            gloo_timeout=30000,
        )

    def compute(self):
        self.tensor = np.array([self.rank + 1], dtype=np.float32)
        allreduce(self.tensor, op=ReduceOp.SUM)
        return self.tensor.item()

actors = [Worker.remote(rank=i) for i in range(2)]
create_collective_group(
    actors=actors,
    world_size=2,
    ranks=[0, 1],
    backend=Backend.GLOO,
    group_name="default",
    gloo_timeout=30000,
)
ray.get([a.setup.remote(2) for a in actors])
results = ray.get([a.compute.remote() for a in actors])
assert results == [3.0, 3.0], f"Expected [3.0, 3.0], got {results}"
ray.shutdown()
"""
PROGRAMS = {
    "registry": REGISTRY,
    "imperative": IMPERATIVE,
    "declarative": DECLARATIVE,
    "point to point": POINT_TO_POINT,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_documentation_run_unchanged(name, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAMS[name])
    command = [sys.executable, "-m", "cli.main", "run", "--as-ray", str(path)]
    result = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=50)
    assert result.returncode == 0, result.stderr


@zray.remote
class Single:
    def __init__(self, size=1):
        collective.init_collective_group(size, 0)

    def all(self):
        array, gathered, scattered = numpy.arange(4.0), [numpy.zeros(4)], numpy.zeros(4)
        collective.allreduce(array)
        collective.reduce(array)
        collective.broadcast(array)
        collective.allgather(gathered, array)
        collective.reducescatter(scattered, [array])
        collective.barrier()
        handle = collective.allreduce(numpy.ones(100_000), async_op=True)
        handle.wait()
        return array.tolist(), gathered[0].tolist(), scattered.tolist(), collective.get_rank()


@pytest.mark.parametrize("local_mode", [True, False])
def test_a_group_of_one_leaves_tensors_as_they_are(start, local_mode):
    start(num_cpus=2, local_mode=local_mode)
    singles = [Single.remote() for _ in range(2)]
    wanted = [0.0, 1.0, 2.0, 3.0]
    assert zray.get([single.all.remote() for single in singles]) == [(wanted, wanted, wanted, 0)] * 2


def test_local_mode_refuses_groups_of_several(start):
    start(num_cpus=2, local_mode=True)
    with pytest.raises(zray.exceptions.ActorDiedError, match="Local mode has groups of one process"):
        zray.get(Single.remote(2).all.remote())


def test_import_of_the_package_brings_neither_torch_nor_a_session():
    code = "import sys, zray.util.collective as c, zray; print('torch' in sys.modules, zray.is_initialized())"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=50
    )
    assert result.stdout.split() == ["False", "False"], result.stderr
