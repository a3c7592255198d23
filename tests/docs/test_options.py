"""The tables in docs/options.md and docs/commands.md, against the code: the same names, the same defaults."""

import ast
import inspect
import re
from types import SimpleNamespace

import click
import pytest

import zray
from cli.main import COMMANDS, main
from tests.docs.pages import DOCS, rows
from zray.actor import ActorClass, ActorMethod
from zray.api.actor_class import ASYNC_CONCURRENCY
from zray.options import remote_options, runtime_env
from zray.ray_names import absent
from zray.remote_function import RemoteFunction
from zray.util import placement_group
from zray.wire.environment import NO_ENVIRONMENT
from zray.wire.task_spec import RESOURCE_UNIT
from zray.wire.where import Where

OPTIONS = DOCS / "options.md"
RUNTIME = SimpleNamespace(namespace="the program's")


def table(heading):
    """The cells behind each option's name."""
    return {cells[0].strip("`"): cells[1:] for cells in rows(OPTIONS, heading)}


def literal(cell):
    """The value that a cell shows, as Python writes it; None where it says the default in words."""
    try:
        return ast.literal_eval(cell.strip("`"))
    except (SyntaxError, ValueError):
        return None


def nothing():
    """A function without options."""


class Plain:
    def ask(self):
        """A method without options."""


@pytest.mark.parametrize(
    ("heading", "function"), [("zray.init", zray.init), ("Placement groups", placement_group)], ids=["init", "group"]
)
def test_arguments_of_a_function_are_in_its_table_with_their_defaults(heading, function):
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    shown = table(heading)
    assert list(shown) == list(parameters)
    for name, (default, *_) in shown.items():
        expected = parameters[name].default
        assert default == ("required" if expected is inspect.Parameter.empty else f"`{expected!r}`".replace("'", '"'))


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Tasks", remote_options.TASK_OPTIONS),
        ("Actors", remote_options.ACTOR_OPTIONS),
        ("Methods", remote_options.METHOD_OPTIONS),
        ("Absent options", remote_options.NOT_YET),
        ("runtime_env", runtime_env.FIELDS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_of_options_are_those_of_the_code(heading, names):
    assert set(table(heading)) == set(names)


def test_sentences_on_absent_options_are_those_of_the_code():
    assert {name: cells[0] for name, cells in table("Absent options").items()} == absent.OPTIONS


def test_defaults_of_tasks_are_those_of_the_code():
    made = zray.remote(nothing)._task_options(RUNTIME)
    shown = {name: literal(cells[0]) for name, cells in table("Tasks").items()}
    assert made.resources == {"CPU": shown["num_cpus"] * RESOURCE_UNIT}
    assert shown["num_gpus"] == shown["memory"] == 0
    for name in ("num_returns", "max_retries", "retry_exceptions", "max_calls", "writable"):
        assert getattr(made, name) == shown[name], name
    assert zray.remote(num_gpus=1)(nothing)._task_options(RUNTIME).max_calls == 1


def test_defaults_of_actors_are_those_of_the_code():
    shown = {name: literal(cells[0]) for name, cells in table("Actors").items()}
    made = zray.remote(Plain)._ActorClass__actor_options(RUNTIME, {}, None, NO_ENVIRONMENT)
    assert made.resources == {} and shown["num_gpus"] == shown["memory"] == 0
    assert shown["num_cpus"] is None and made.where == Where(is_spread=True)
    for name in ("max_restarts", "max_task_retries", "max_concurrency"):
        assert getattr(made, name) == shown[name], name
    assert made.namespace == table("Actors")["namespace"][0]
    recovers = zray.remote(checkpoint_interval=1)(Plain)._ActorClass__actor_options(RUNTIME, {}, None, NO_ENVIRONMENT)
    assert recovers.max_restarts == recovers.max_task_retries == -1
    assert f"{ASYNC_CONCURRENCY} for async actors" in table("Actors")["max_concurrency"][1]


def listed(docstring, heading=""):
    """{name: (default, meaning)} of the options that a docstring lists, below a heading."""
    text = docstring[docstring.index(heading) :].partition("\n\n- ")[2].partition("\n\n")[0]
    items = (" ".join(item.split()) for item in re.split(r"^- ", text, flags=re.M))
    return {name: found for name, *found in re.findall(r"`(\w+)` \(default (.*?)\): (.*)$", "\n".join(items), re.M)}


@pytest.mark.parametrize(
    ("documented", "heading", "page"),
    [
        (zray.remote, "Options of functions:", "Tasks"),
        (zray.remote, "Options of classes:", "Actors"),
        (RemoteFunction.options, "", "Tasks"),
        (ActorClass.options, "", "Actors"),
        (ActorMethod.options, "", "Methods"),
        (zray.method, "", "Methods"),
    ],
    ids=["remote-functions", "remote-classes", "function", "class", "handle", "method"],
)
def test_help_lists_the_options_of_the_page(documented, heading, page):
    expected = {name: cells for name, cells in table(page).items()}
    if not heading:  # a list that stands alone
        same = {name: cells[1] for name, cells in table("Tasks").items()}
        expected = {
            name: [default, same[name] if meaning == "as for tasks" else meaning]
            for name, (default, meaning) in expected.items()
        }
    assert listed(inspect.getdoc(documented), heading) == expected


def test_help_on_init_explains_each_argument():
    arguments = re.search(r"^Args:\n(.*?)\n\n", inspect.getdoc(zray.init), re.M | re.S)[1]
    explained = ", ".join(re.findall(r"^    (\w.*?):", arguments, re.M)).split(", ")
    parameters = inspect.signature(zray.init).parameters.values()
    assert explained == [item.name for item in parameters if item.kind is not item.VAR_KEYWORD]


def commands():
    """(words of the command, command) of each that does something by itself."""
    for name in COMMANDS:
        command = main.get_command(None, name)
        if isinstance(command, click.Group):
            yield from ((f"zray {name} {inner}", found) for inner, found in command.commands.items())
        else:
            yield f"zray {name}", command


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_options_of_a_command_are_in_its_table_with_their_defaults(words, command):
    shown = {cells[0]: cells[1] for cells in rows(DOCS / "commands.md", words)}
    expected = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            metavar = f" {parameter.metavar}" if parameter.metavar and not parameter.is_flag else ""
            names = ", ".join([f"`{parameter.opts[0]}{metavar}`", *(f"`{name}`" for name in parameter.opts[1:])])
        else:
            names = f"`{parameter.human_readable_name}`"
        expected[names] = parameter.default
    assert set(shown) == set(expected)
    for names, default in expected.items():
        if not callable(default) and isinstance(default, (int, float, str)) and not isinstance(default, bool):
            assert literal(shown[names]) == default or shown[names].strip("`") == default, names


def test_commands_that_the_page_says_to_be_absent_are_so():
    text = (DOCS / "commands.md").read_text().partition("## Absent commands")[2]
    named = re.findall(r"`(?:zray )?(\w+)`", text)
    assert named and not set(named) & set(main.list_commands(click.Context(main)))
