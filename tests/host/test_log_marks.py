"""Labels of workers' lines: the task or actor that printed them."""

import os

import pytest

from tests.scripts import run_script
from zray.host.output.log_lines import ERROR, Log
from zray.host.session.log_marks import NAME_MAX, TO_ERROR, TO_OUTPUT, mark_of, shown_name, split_at_marks, unmarked

DATA = b"zero\n" + mark_of("one") + b"first\nsecond" + mark_of("two") + b"third\n"
LINES = ["(worker-1 pid={0}) zero\n", "(one pid={0}) first\n", "(one pid={0}) second\n", "(two pid={0}) third\n"]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_label_changes_at_each_mark_however_the_log_is_cut_into_pieces(size):
    log = Log(f"worker-1-{os.getpid()}.log", 0)
    shown = [line for start in range(0, len(DATA), size) for line in log.take(DATA[start : start + size])]
    assert shown == [line.format(os.getpid()) for line in LINES]
    assert log.upto == len(DATA)


def test_label_of_another_node_has_its_address():
    log = Log("worker-1-7771.log", 0, "10.0.0.2")
    assert log.take(mark_of("train") + b"loss 3\n") == ["(train pid=7771, ip=10.0.0.2) loss 3\n"]


@pytest.mark.parametrize(
    "text", [b"\x1e\n", b"a\x1eb\n", b"\x1e:task_name\n", b"\x1e:task_name:" + b"x" * 1000 + b"\n", b"\x1e\x1e\n"]
)
def test_output_that_only_resembles_a_mark_is_output(text):
    assert split_at_marks(text) == ([], text, b"")


def test_name_is_one_short_word_group_without_round_brackets():
    assert shown_name("main.<locals>.train") == "train"
    assert shown_name("fold (3)\n") == "fold [3]?"
    assert len(shown_name("x" * 1000)) == NAME_MAX


def test_marks_are_no_part_of_the_last_lines_in_errors():
    assert unmarked(DATA.decode()) == "zero\nfirst\nsecondthird\n"


PROGRAM = """
import os, threading
import zray as ray
ray.init(num_cpus=1)

@ray.remote
def prepare(number):
    print("data", number)

@ray.remote
def outer():
    print("before")
    ray.get(prepare.remote(3))
    print("after")

@ray.remote
class Trainer:
    def __init__(self):
        os.system("echo made")
    def step(self):
        print("step")

@ray.remote
class Threads:
    def step(self):
        print("step", end="")

ray.get([prepare.remote(1), prepare.options(name="second (2)").remote(2)])
ray.get(outer.remote())
trainer = Trainer.remote()
ray.get(trainer.step.remote())
ray.get(Threads.options(max_concurrency=2, num_cpus=0).remote().step.remote())
"""


def test_lines_carry_the_name_of_the_task_or_actor_that_printed_them(tmp_path):
    done = run_script(tmp_path, PROGRAM)
    lines = [line.partition(" pid=")[0] + line.partition(")")[2] for line in done.stdout.splitlines()]
    assert sorted(lines) == sorted([
        "(prepare data 1", "(second [2] data 2", "(outer before", "(prepare data 3", "(outer after",
        "(Trainer made", "(Trainer step", "(Threads step",
    ]), done  # fmt: skip


def test_output_of_a_child_process_carries_the_name_of_a_task_that_runs_for_long(tmp_path):
    code = """
    import os
    import zray as ray
    ray.init(num_cpus=1)

    @ray.remote
    def waits():
        while b"zray::waits" not in open("/proc/self/cmdline", "rb").read():
            pass
        os.system("echo from a child")

    ray.get(waits.remote())
    """
    assert run_script(tmp_path, code).stdout.startswith("(waits pid=")


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_text_between_marks_of_standard_error_is_of_that_stream(size):
    data = f"out\n{TO_ERROR}bad\nworse{TO_OUTPUT} out again\n".encode()
    log = Log("worker-1-7771.log", 0)
    shown = [line for start in range(0, len(data), size) for line in log.take(data[start : start + size])]
    label = "(worker-1 pid=7771)"
    assert shown == [f"{label} out\n", f"{ERROR}{label} bad\n", f"{ERROR}{label} worse\n", f"{label}  out again\n"]
    assert unmarked(data.decode()) == "out\nbad\nworse out again\n"


def test_begun_line_of_standard_error_is_in_one_piece():
    log = Log("worker-1-7771.log", 0)
    assert log.take(f"{TO_ERROR}wait ".encode()) == []
    assert log.take(f"done\n{TO_OUTPUT}".encode()) == [f"{ERROR}(worker-1 pid=7771) wait done\n"]
