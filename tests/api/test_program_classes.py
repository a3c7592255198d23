"""Classes and functions of a program's `__main__`, in a session: the program's own stay as they are."""

import json

from tests.scripts import run_script

PROGRAM = """
import dataclasses, json
import zray

used, made = 0, []

class Meta(type):
    def __new__(meta, name, bases, namespace):
        made.append(name)
        return super().__new__(meta, name, bases, namespace)

class Config(metaclass=Meta):
    rate = 0.1

    def use(self):
        global used
        used += 1
        return used

class Counted:
    count = 0

@dataclasses.dataclass(slots=True)
class Point:
    x: int
    y: int = 2

class Text:
    __slots__ = "p"

def use():
    global used
    used += 1

@zray.remote
class Holder:
    def take(self, counted, config):
        Counted.count += 1
        return Counted.count, type(config).rate, config

@zray.remote
def rate_of(config):
    return config.rate

@zray.remote
def make():
    text = Text()
    text.p = 5
    return Point(1), text

@zray.remote
def is_whole(point):
    return not hasattr(point, "__dict__") and (point.x, point.y) == (1, 2)

zray.init(num_cpus=1)
ref, function = zray.put(Config()), zray.put(use)
zray.get(rate_of.remote(Config()))
Config.rate, method = 0.5, Config.use
got = zray.get(ref)
rates = [Config.rate, got.rate, zray.get(rate_of.remote(Config())), zray.get(rate_of.remote(ref))]
got.use()
zray.get(function)()
holder = Holder.remote()
counts = [zray.get(holder.take.remote(Counted(), Config()))[:2] for _ in range(3)]
back = zray.get(holder.take.remote(Counted(), Config()))[2]
point, text = zray.get(make.remote())
print(json.dumps({
    "rates": rates,
    "same": [type(got) is Config, type(back) is Config, Config.use is method, type(point) is Point],
    "used": used,
    "made": made,
    "counts": counts,
    "count here": Counted.count,
    "slots": [point.x, point.y, text.p, zray.get(is_whole.remote(point))],
}))
"""


def test_classes_of_the_program_stay_as_they_are(tmp_path, nothing_left):
    done = run_script(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "rates": [0.5, 0.5, 0.5, 0.5],
        "same": [True] * 4,
        "used": 2,
        "made": ["Config"],
        "counts": [[1, 0.5], [2, 0.5], [3, 0.5]],
        "count here": 0,
        "slots": [1, 2, 5, True],
    }
