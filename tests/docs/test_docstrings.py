"""Docstrings of the names in docs/api*.md: the API pages and help() show them."""

import ast
import importlib
import inspect
import re
import textwrap

import pytest

from tests.docs.pages import DOCS

SHOWN = re.compile(r"^::: ([\w.]+)\n(?:    options:\n(?:      .*\n)*?      members: \[(.*?)\])?", re.M)
API_PAGES = ("api", "api-util", "api-tune", "api-rllib")
PRONOUNS = set(
    "it that those these what who whom whose one ones this they them its their such so there here which".split()
)
UNNAMED = ("self", "cls", "options", "ignored", "further", "former", "args", "kwargs")
# Classes whose objects a program gets from elsewhere: the constructor is not for users.
MADE_BY_ZRAY = {
    "zray.actor.ActorHandle",
    "zray.actor.ActorMethod",
    "zray.api.generators.ObjectRefGenerator",
    "zray.dag.ClassMethodNode",
    "zray.dag.ClassNode",
    "zray.dag.CompiledDAG",
    "zray.dag.DAGInputData",
    "zray.dag.FunctionNode",
    "zray.dag.InputAttributeNode",
    "zray.exceptions.ActorClassInheritanceException",
    "zray.object_ref.DynamicObjectRefGenerator",
    "zray.object_ref.ObjectRef",
    "zray.remote_function.RemoteFunction",
    "zray.rllib.callbacks.BaseEnv",
    "zray.rllib.modules.LearnerGroup",
    "zray.runtime_context.RuntimeContext",
    "zray.tune.errors.TuneError",
    "zray.util.check_serialize.FailureTuple",
    "zray.util.placement_group.PlacementGroup",
    "zray.util.collective.errors.CollectiveGroupError",
    "zray.util.collective.errors.CollectiveMismatchError",
    "zray.util.collective.group.Group",
    "zray.util.collective.handles.Handle",
    "zray.util.collective.types.ReduceOp",
    "zray.util.placement_group.PlacementGroupID",
    "zray.util.queue.Empty",
    "zray.util.queue.Full",
}
BAD_BEGINS = PRONOUNS | set("of as by to in on at from with among beside between behind beyond".split())


def found(name):
    """The object of a full name."""
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        return getattr(importlib.import_module(module), attribute)


def documented(pages):
    """(name, object) of each function, class and method that the pages show."""
    for name, members in SHOWN.findall("".join((DOCS / f"{page}.md").read_text() for page in pages)):
        thing = found(name)
        if not inspect.ismodule(thing):
            yield name, thing
        for member in filter(None, re.split(r",\s*", members)):
            yield f"{name}.{member}", inspect.getattr_static(thing, member)


def docstring(thing):
    return inspect.getdoc(thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing) or ""


def parameters(name, thing):
    """Names of the parameters that a function's docstring explains; those of a class are of its constructor."""
    thing = getattr(thing, "__func__", getattr(thing, "_function", thing))
    is_class = inspect.isclass(thing)
    if not inspect.isfunction(thing) and not (is_class and name not in MADE_BY_ZRAY):
        return []
    found = inspect.signature(thing).parameters
    return [each for each in found if each not in UNNAMED and not (is_class and each.startswith("_"))]


NAMES = list(documented(API_PAGES))
FUNCTIONS = [(name, thing) for name, thing in NAMES if parameters(name, thing)]


@pytest.mark.parametrize(("name", "thing"), NAMES, ids=[name for name, _ in NAMES])
def test_docstring_begins_with_a_sentence_that_has_a_subject(name, thing):
    first = docstring(thing).partition("\n")[0]
    assert first and first[-1] in ".:`", first
    assert re.findall(r"[A-Za-z']+", first)[0].lower() not in BAD_BEGINS, first


@pytest.mark.parametrize(("name", "thing"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_docstring_names_each_parameter(name, thing):
    """`remote` and `.options` have their own test: tests/docs/test_options.py."""
    text, (home, _, method) = docstring(thing), name.rpartition(".")
    if method.startswith(("on_", "log_trial_")):  # events share their arguments, which the class explains
        text += docstring(found(home))
    for parameter in parameters(name, thing):
        assert re.search(rf"\b{parameter}\b", text), parameter


EXAMPLES = [(name, part) for name, thing in NAMES if "Example:\n" in (part := docstring(thing))]


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_example_of_a_docstring_is_python(name, text):
    code = re.search(r"^Example:\n((?:    .*\n|\n)+)", f"{text}\n", re.M)[1]
    compile(textwrap.dedent(code), name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
