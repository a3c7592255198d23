"""Attributes of environments in actors: they stay fast after a checkpoint, and the environment stays as it was."""

import pickle
import sys
import types

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.groups import Group  # noqa: E402
from zray.rllib.places import keep_attributes_fast  # noqa: E402

before_3_13 = pytest.mark.skipif(sys.version_info >= (3, 13), reason="attributes are fast after a pickle there")


class Plain(gymnasium.Env):
    """An environment of a few attributes."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.t, self.mark = 0, "own"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 1.0, self.t == 5, False, {}


def has_own_keys(env):
    """Whether the attributes are in a dictionary with keys of its own: a shared one has another size."""
    return sys.getsizeof(vars(env)) == sys.getsizeof({**vars(env)})


def wrapped(config):
    return gymnasium.wrappers.TimeLimit(Plain(config), 3)


@before_3_13
@pytest.mark.parametrize("env", [Plain, wrapped])
def test_attributes_in_an_actor_have_keys_of_their_own_before_and_after_a_checkpoint(env):
    group = Group(0, 2, env, {}, seed=1, worker_index=1)
    for each in (group, pickle.loads(pickle.dumps(group))):
        for made in each.envs:
            assert has_own_keys(made) and has_own_keys(made.unwrapped)
            assert made.unwrapped.mark == "own" and made.step(0)[1] == 1.0
    assert not has_own_keys(env({}).unwrapped)


def test_attributes_that_others_hold_stay_one_dictionary():
    class Borg(Plain):
        shared = {"t": 0}

        def __init__(self, config=None):
            self.__dict__ = self.shared

    class Views(Plain):
        def __init__(self, config=None):
            super().__init__()
            self.all = self.__dict__

    first, second, views = Borg(), Borg(), Views()
    for each in (first, second, views):
        keep_attributes_fast(each)
    first.found, views.found = 3, 4
    assert second.found == 3 and views.all["found"] == 4


def test_attributes_of_another_type_stay():
    class Own(dict):
        pass

    class Odd(Plain):
        def __init__(self, config=None):
            self.__dict__ = Own(t=0)

    class Property(Plain):
        @property
        def __dict__(self):
            return types.MappingProxyType({"env": 5})

    env = Odd()
    keep_attributes_fast(env)
    keep_attributes_fast(Property())
    assert type(vars(env)) is Own


def test_wrapper_that_forwards_attributes_does_not_write_its_own_into_the_environment():
    class Forwards(gymnasium.Wrapper):
        def __setattr__(self, name, value):
            if name.startswith("_") or name == "env":
                object.__setattr__(self, name, value)
            setattr(self.env, name, value)

    class Frozen(Plain):
        def __setattr__(self, name, value):
            if name not in ("t", "mark"):
                raise AttributeError(f"{name} is fixed")
            super().__setattr__(name, value)

    inner = Frozen()
    env = Forwards.__new__(Forwards)
    object.__setattr__(env, "env", inner)
    keep_attributes_fast(env)
    assert env.env is inner and inner.mark == "own"
    assert vars(inner) == {"t": 0, "mark": "own"} and vars(env) == {"env": inner}


def test_environments_that_hold_one_another_end():
    class Looked(Plain):
        pass

    outer, inner = Looked(), Looked()
    outer.env, inner.env = inner, outer
    keep_attributes_fast(outer)
    assert outer.env.env is outer


def test_environments_with_slots_proxies_and_environments_of_no_class_of_gymnasium():
    class Slots(Plain):
        __slots__ = ("height",)

        def __init__(self, config=None):
            super().__init__()
            self.height = 2

    class Proxy:
        __class__ = property(lambda self: Plain)
        __slots__ = ("inner",)

        def __getattr__(self, name):
            return getattr(self.inner, name)

    env, proxy, none = Slots(), Proxy(), types.SimpleNamespace(t=1)
    proxy.inner = Plain()
    attributes = vars(proxy.inner), vars(none)
    for each in (env, proxy, none, None, 5):
        keep_attributes_fast(each)
    assert (env.height, env.t, env.mark) == (2, 0, "own")
    assert isinstance(proxy, Plain) and vars(proxy.inner) is attributes[0] and vars(none) is attributes[1]
