"""Docstrings of the names in docs/api*.md: the API pages and help() show them."""

import importlib
import inspect
import re

import pytest

from tests.docs.pages import DOCS

SHOWN = re.compile(r"^::: ([\w.]+)\n(?:    options:\n(?:      .*\n)*?      members: \[(.*?)\])?", re.M)
CORE, LIBRARIES = ("api", "api-util"), ("api-tune", "api-rllib")
PRONOUNS = set(
    "it that those these what who whom whose one ones this they them its their such so there here which".split()
)
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
    return inspect.getdoc(thing.__func__ if isinstance(thing, staticmethod) else thing) or ""


@pytest.mark.parametrize(("name", "thing"), list(documented(CORE)), ids=[name for name, _ in documented(CORE)])
def test_docstring_begins_with_a_sentence_that_has_a_subject(name, thing):
    first = docstring(thing).partition("\n")[0]
    assert first and first[-1] in ".:`", first
    assert re.findall(r"[A-Za-z']+", first)[0].lower() not in BAD_BEGINS, first


@pytest.mark.parametrize(
    ("name", "thing"),
    [(name, thing) for name, thing in documented(CORE) if inspect.isfunction(thing)],
    ids=[name for name, thing in documented(CORE) if inspect.isfunction(thing)],
)
def test_docstring_names_each_parameter(name, thing):
    """`remote` and `.options` have their own test: tests/docs/test_options.py."""
    text = docstring(thing)
    for parameter in list(inspect.signature(thing).parameters.values()):
        if parameter.name not in ("self", "options", "ignored", "further", "args", "kwargs"):
            assert re.search(rf"\b{parameter.name}\b", text), parameter.name


@pytest.mark.parametrize(
    ("name", "thing"), list(documented(LIBRARIES)), ids=[name for name, _ in documented(LIBRARIES)]
)
def test_names_on_the_pages_of_libraries_have_a_docstring(name, thing):
    assert docstring(thing), name
