"""runtime_env: what tasks find around them."""

import os

import pytest

import zray
from zray.cluster_utils import Cluster
from zray.options.runtime_env import ENV_VARS_BYTES_MAX
from zray.runtime_env import RuntimeEnv

HOME = os.environ.get("HOME", "")


@zray.remote
def look(*names):
    return [os.environ.get(name) for name in names]


@zray.remote
class Looker:
    def look(self, *names):
        return [os.environ.get(name) for name in names]

    def ask(self, *names):
        return zray.get(look.remote(*names))


@pytest.fixture
def program(start):
    """One with two variables of its own."""
    return start(num_cpus=2, runtime_env={"env_vars": {"COLOUR": "red", "SHAPE": "round"}})


def with_vars(**env_vars):
    return {"env_vars": env_vars}


def test_all_tasks_and_actors_have_the_programs_variables(program):
    assert zray.get(look.remote("COLOUR", "SHAPE", "SIZE")) == ["red", "round", None]
    assert zray.get(Looker.remote().look.remote("COLOUR", "SHAPE")) == ["red", "round"]
    assert "COLOUR" not in os.environ


def test_a_tasks_own_variables_go_on_top_and_reach_nobody_else(program):
    blue = look.options(runtime_env=with_vars(COLOUR="blue", SIZE="9"))
    plain, other = look, look.options(runtime_env=with_vars(COLOUR="green"))
    for _ in range(3):
        refs = [task.remote("COLOUR", "SHAPE", "SIZE") for task in (blue, plain, other) for _ in range(4)]
        assert zray.get(refs) == (
            [["blue", "round", "9"]] * 4 + [["red", "round", None]] * 4 + [["green", "round", None]] * 4
        )


def test_children_have_what_their_parents_have(program):
    @zray.remote
    def parent():
        child = look.options(runtime_env=with_vars(SIZE="3"))
        return zray.get([look.remote("COLOUR", "SIZE"), child.remote("COLOUR", "SIZE")])

    assert zray.get(parent.options(runtime_env=with_vars(COLOUR="blue", SIZE="9")).remote()) == [
        ["blue", "9"],
        ["blue", "3"],
    ]
    assert zray.get(parent.remote()) == [["red", None], ["red", "3"]]


def test_an_actor_has_its_own_and_its_tasks_too(program):
    actor = Looker.options(runtime_env=with_vars(COLOUR="black")).remote()
    assert zray.get(actor.look.remote("COLOUR", "SHAPE")) == ["black", "round"]
    assert zray.get(actor.ask.remote("COLOUR", "SHAPE")) == ["black", "round"]


def test_the_decorator_takes_it_and_options_replace_it(program):
    @zray.remote(runtime_env=RuntimeEnv(env_vars={"SIZE": "1"}))
    def size():
        return os.environ.get("SIZE")

    assert zray.get(size.remote()) == "1"
    assert zray.get(size.options(runtime_env=with_vars(SIZE="2")).remote()) == "2"
    assert zray.get(size.options(runtime_env=None).remote()) is None


def test_a_value_may_refer_to_what_was_there(program):
    env = with_vars(HERE="${HOME}/here", COLOUR="dark ${COLOUR}", NOTHING="<${NO_SUCH_THING}>", PLAIN="$HOME")
    names = ("HERE", "COLOUR", "NOTHING", "PLAIN")
    assert zray.get(look.options(runtime_env=env).remote(*names)) == [f"{HOME}/here", "dark red", "<>", "$HOME"]


def test_the_context_tells(program):
    @zray.remote
    def tell():
        return zray.get_runtime_context().runtime_env

    assert zray.get(tell.remote()) == with_vars(COLOUR="red", SHAPE="round")
    assert zray.get(tell.options(runtime_env=with_vars(SIZE="1")).remote()) == with_vars(
        COLOUR="red", SHAPE="round", SIZE="1"
    )
    assert zray.get_runtime_context().runtime_env == with_vars(COLOUR="red", SHAPE="round")


def test_environments_within_environments_on_one_cpu(start):
    """More of them than there are workers, each of which waits for the next."""
    start(num_cpus=1)

    @zray.remote
    def down(depth):
        here = os.environ.get("DEPTH")
        if not depth:
            return [here]
        below = down.options(runtime_env=with_vars(DEPTH=str(depth - 1)))
        return [here, *zray.get(below.remote(depth - 1))]

    assert zray.get(down.remote(12), timeout=50) == [None, *map(str, reversed(range(12)))]


@pytest.mark.parametrize(
    "env, error, text",
    [
        ("env", TypeError, "must be a dict, not str"),
        ({"env_vars": ["A=1"]}, TypeError, "env_vars must be a dict"),
        ({"env_vars": {"A": 1}}, TypeError, "must map str to str, but 'A' is mapped to 1"),
        ({"env_vars": {"A=B": "1"}}, ValueError, "cannot be an environment variable"),
        ({"env_vars": {"": "1"}}, ValueError, "cannot be an environment variable"),
        ({"env_vars": {"A": "\0"}}, ValueError, "cannot be an environment variable"),
        ({"env_vars": {"A": "x" * ENV_VARS_BYTES_MAX}}, ValueError, "at most 65,536"),
        ({"env_var": {}, "colour": "red"}, ValueError, "no field 'colour'"),
        ({"env_vars": {"PYTHONHASHSEED": "7"}}, NotImplementedError, "PYTHONHASHSEED in env_vars .*zray start --head"),
        ({"conda": "base"}, NotImplementedError, "'conda'.*Activate the environment"),
        ({"pip": 7}, TypeError, "pip must be a list of requirements or a path, not int"),
        ({"pip": [7]}, TypeError, "pip must be a list of str, not of int"),
        ({"pip": ["a\nb"]}, ValueError, "is no requirement"),
        ({"pip": "/no/such/file.txt"}, ValueError, "requirements file /no/such/file.txt cannot be read"),
        ({"pip": {"packages": ["a"], "colour": 1}}, ValueError, "pip of runtime_env has no field 'colour'"),
        ({"pip": {"packages": []}}, ValueError, "names no packages"),
        ({"uv": {"packages": ["a"], "uv_check": 1}}, TypeError, "uv_check of uv must be a bool, not int"),
        ({"uv": ["a"], "pip": ["a"]}, ValueError, "both pip and uv"),
        ({"pip": [f"a{number}" for number in range(2001)]}, ValueError, "2,001 packages; at most 2,000"),
        ({"config": {"colour": 1}}, ValueError, "config of runtime_env has no field 'colour'"),
        ({"config": {"setup_timeout_seconds": 0}}, ValueError, "above 0, or -1 for no limit"),
        ({"config": {"setup_timeout_seconds": "1"}}, TypeError, "must be a number, not str"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_where_it_is_asked_for(env, error, text):
    with pytest.raises(error, match=text):
        look.options(runtime_env=env)
    with pytest.raises(error, match=text):
        Looker.options(runtime_env=env)
    with pytest.raises(error, match=text):
        zray.init(runtime_env=env)
    assert not zray.is_initialized()


def test_empty_ones_mean_nothing():
    look.options(runtime_env={})
    look.options(runtime_env={"env_vars": {}, "pip": None, "config": {"setup_timeout_seconds": 1}})


def test_other_nodes_have_it_too(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        cluster.add_node(num_cpus=1, resources={"disk": 1})
        with zray.init(address=cluster.address, runtime_env=with_vars(COLOUR="red")):
            far = look.options(resources={"disk": 1})
            own = look.options(resources={"disk": 1}, runtime_env=with_vars(SIZE="9"))
            assert zray.get([far.remote("COLOUR", "SIZE"), own.remote("COLOUR", "SIZE")], timeout=30) == [
                ["red", None],
                ["red", "9"],
            ]
            actor = Looker.options(resources={"disk": 1}, runtime_env=with_vars(SIZE="8")).remote()
            assert zray.get(actor.look.remote("COLOUR", "SIZE"), timeout=30) == ["red", "8"]


def test_the_token_of_a_program_is_not_in_its_tasks(start, monkeypatch):
    """A process that reads their environment, or is started by them, could join with it (docs/security.md, S6)."""
    monkeypatch.setenv("ZRAY_TOKEN", "secret")
    start(num_cpus=1)
    assert zray.get(look.remote("ZRAY_TOKEN", "HOME")) == [None, HOME or None]
