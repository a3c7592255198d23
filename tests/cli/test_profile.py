"""`zray profile`: samples of a worker's stacks, as a flame graph, for speedscope, or as lines."""

import contextlib
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import zray
from cli.flame_graph import boxes, collapsed, speedscope, svg
from cli.profile import by_request, of_raw
from cli.stacks import Frame, Thread
from tests.cli.commands import zray as command
from tests.cli.test_stack import outer, py_spy, running, stands_in  # noqa: F401
from tests.gates import until
from zray.util import state

SVG = "{http://www.w3.org/2000/svg}"


@zray.remote
def hot_and_cold(gate):
    """Nine of ten rounds are in one function, until the gate opens."""
    number = 0
    while not gate.is_open():
        number += 1
        hot() if number % 10 else cold()


def hot():
    return sum(range(200_000))


def cold():
    return sum(range(20_000))


def titles(text):
    """{function: (share, samples)} of a flame graph's boxes; several boxes of a function count together."""
    found = Counter()
    for element in ElementTree.fromstring(text).iter(f"{SVG}title"):
        name, share, count = re.fullmatch(r"(.*) \(.*\): ([\d.]+) %, ([\d,]+) of [\d,]+ samples", element.text).groups()
        found[name.rpartition(".")[2]] += int(count.replace(",", ""))
    return found


def profile(path, *arguments):
    done = command("profile", "hot_and_cold", "--output", str(path), *arguments)
    assert done.returncode == 0, done.stderr
    return path.read_text(), done


def test_hot_function_has_the_largest_share_in_each_format(start, gate, tmp_path):
    start(num_cpus=1)
    ref = hot_and_cold.remote(gate)
    pid = running("hot_and_cold")[0].worker_pid
    stands_in(pid, "hot_and_cold", "hot")
    text, done = profile(tmp_path / "p.svg", "--duration", "2", "--rate", "20")
    found = titles(text)
    inner = {name: count for name, count in found.items() if name != "hot_and_cold"}
    assert max(inner, key=inner.get) == "hot" and inner["hot"] > found["hot_and_cold"] / 2
    assert done.stdout.startswith(f"{tmp_path / 'p.svg'}: ") and done.stdout.endswith(f" samples of process {pid}\n")
    assert "run_task" not in text
    text, _ = profile(tmp_path / "p.json", "--duration", "1")
    (sampled,) = json.loads(text)["profiles"]
    assert sampled["type"] == "sampled" and sampled["endValue"] == sum(sampled["weights"]) > 1
    text, _ = profile(tmp_path / "p.txt", "--duration", "1", "--verbose")
    assert re.search(
        r"run_task \(main.py\);(\S+\.)?hot_and_cold \(test_profile.py\);hot \(test_profile.py\) \d+$", text, re.M
    )
    gate.open()
    zray.get(ref)


def test_rate_is_bounded_without_py_spy_and_said_once(start, gate, tmp_path, py_spy):  # noqa: F811
    start(num_cpus=1)
    ref = outer.remote(gate)
    stands_in(running("outer")[0].worker_pid, "outer", "inner")
    py_spy("exit 1")
    done = command("profile", "outer", "-o", str(tmp_path / "p.txt"), "--duration", "0.5", "--rate", "500")
    assert done.stderr == "20 samples a second, since py-spy may not trace the process.\n"
    assert 1 <= sum(int(line.split()[-1]) for line in (tmp_path / "p.txt").read_text().splitlines()) <= 10
    raw = "f (/x/a.py:3);g (/x/b.py:4) 7\nMainThread 1\n"
    py_spy(f'while [ "$1" != --output ]; do shift; done; printf "{raw!r}" | tr -d "\'" > "$2"'.replace("\\\\n", "\\n"))
    done = command("profile", "outer", "-o", str(tmp_path / "p.txt"), "--duration", "0.5")
    assert not done.stderr and (tmp_path / "p.txt").read_text() == "f (a.py);g (b.py) 7\n"
    gate.open()
    zray.get(ref)


def test_target_that_cannot_be_profiled_leaves_no_file(start, gate, tmp_path):
    start(num_cpus=2)
    refs = [outer.remote(gate) for _ in range(2)]
    running("outer", 2)
    path = tmp_path / "p.svg"
    several = command("profile", "outer", "-o", str(path))
    assert several.returncode == 2 and "Several processes run 'outer': give one of the pids" in several.stderr
    unknown = command("profile", "zz", "-o", str(path))
    assert unknown.returncode == 1 and "No process of this machine's sessions runs 'zz'" in unknown.stderr
    form = command("profile", "outer", "-o", "p.png")
    assert form.returncode == 2 and ".svg, .json, .txt" in form.stderr
    many = command("profile", "outer", "-o", str(path), "--duration", "600", "--rate", "1000")
    assert many.returncode == 2 and "at most 100,000" in many.stderr
    gate.open()
    zray.get(refs)
    until(lambda: not [row for row in state.list_tasks() if row.state == "RUNNING"])
    pid = state.list_workers(filters=[("worker_type", "=", "WORKER")])[0].pid
    idle = command("profile", str(pid), "-o", str(path), "--duration", "0.2")
    assert idle.returncode == 1 and "no code of the program ran" in " ".join(idle.stderr.split())
    folder = command("profile", str(pid), "-o", str(tmp_path / "none" / "p.svg"))
    assert folder.returncode == 1 and "cannot be written: No such file or directory" in folder.stderr
    assert not path.exists()


NAMES = ["<lambda>", 'a"b&c', "esc\x1b[31m", "\ud800", "ünï", "f;g 3"]


def test_names_are_escaped_in_each_format():
    samples = Counter({((name, f"/x/{name}.py"),): 2 for name in NAMES})
    found = titles(svg(samples, "<t>"))
    assert found == {"<lambda>": 2, 'a"b&c': 2, "esc\\x1b[31m": 2, "\\ud800": 2, "ünï": 2, "f;g 3": 2}
    assert ElementTree.fromstring(svg(samples, "<t>")).find(f"{SVG}text").text == "<t>"
    for line in collapsed(samples).splitlines():
        assert ";" not in line and line.endswith(" 2") and line.isprintable()
    assert {frame["name"] for frame in json.loads(speedscope(samples, "t"))["shared"]["frames"]} == set(NAMES)


def test_boxes_lie_within_those_of_their_callers():
    a, b, c = (("a", "x"), ("b", "x"), ("c", "x"))
    found = [*boxes(Counter({(a, b): 3, (a, c): 1, (a,): 2, (b,): 4}))]
    assert {(box.name, box.depth, box.begin, box.count) for box in found} == {
        ("a", 0, 0, 6),
        ("b", 0, 6, 4),
        ("b", 1, 0, 3),
        ("c", 1, 3, 1),
    }
    assert svg(Counter({(a,) * 5_000: 1}), "deep").count("<rect") == 5_001


def test_lines_of_py_spy_are_read_without_frames_of_zray():
    from zray.store.folding import OWN_FOLDER

    own = f"run ({OWN_FOLDER}host/worker/main.py:3)"
    text = f"{own};f (/x/a b.py:3);<lambda> (/x/c (1).py:9) 4\n{own} 5\nno number\n"
    assert of_raw(text, False) == {(("f", "/x/a b.py"), ("<lambda>", "/x/c (1).py")): 4}
    assert of_raw(text, True).total() == 9


class Late:
    """A process that takes four periods to answer for the first time."""

    def __init__(self):
        self.asked = 0

    def stacks(self):
        self.asked += 1
        late = self.asked == 1
        if late:
            clock.now += 0.4
        return [Thread(1, "", True, [Frame("in_c" if late else "later", "a.py", 1)])]


class Clock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


clock = Clock()


def test_late_answer_counts_for_the_samples_that_were_due(monkeypatch):
    monkeypatch.setattr("cli.profile.time", clock)
    monkeypatch.setattr("cli.profile.check_runs", lambda pid: None)
    monkeypatch.setattr("cli.profile.asking", lambda pid: contextlib.nullcontext(Late()))
    assert by_request(1, 1.0, 10, False) == {(("in_c", "a.py"),): 5, (("later", "a.py"),): 5}
