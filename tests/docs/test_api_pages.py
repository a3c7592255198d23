"""Public names against the API pages: each class and function has an item, each other name is told of in words."""

import importlib
import inspect
import pkgutil
import re
from types import ModuleType

import pytest

import zray.util
from tests.docs.pages import DOCS, prose

pytest.importorskip("torch")

from zray.rllib.doors import ALGORITHMS

PAGES = sorted(DOCS.glob("api*.md"))
CORE = "zray zray.actor zray.dag zray.experimental zray.internal zray.runtime_context zray.runtime_env zray.types"
LIBRARIES = (
    "zray.air zray.train zray.tune zray.tune.logger zray.tune.schedulers zray.tune.search"
    " zray.rllib zray.rllib.modules zray.rllib.policy.sample_batch"
)


def resolved(path):
    """The object at a dotted path."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return importlib.import_module(path)


ITEMS = {path: resolved(path) for page in PAGES for path in re.findall(r"^::: (\S+)", page.read_text(), re.M)}
WORDS = {word for page in PAGES for word in re.findall(r"`(?:\w+\.)*(\w+)`", prose(page))}


def modules():
    of_util = [
        each.name
        for each in pkgutil.walk_packages(zray.util.__path__, "zray.util.")
        if hasattr(importlib.import_module(each.name), "__all__")
    ]
    return [*CORE.split(), *LIBRARIES.split(), "zray.util", *of_util]


def has_item(name, thing):
    return any(item is thing and path.rpartition(".")[2] == name for path, item in ITEMS.items())


def is_told_in_words(name, thing):
    """Whether a page names a constant, or a name of what has an item of its own or is not zray's."""
    if inspect.isroutine(thing) or inspect.isclass(thing):
        is_own = thing.__module__.partition(".")[0] == "zray"
        return name in WORDS and (not is_own or any(item is thing for item in ITEMS.values()))
    return name in WORDS


@pytest.mark.parametrize("module", modules())
def test_each_public_name_is_on_an_api_page(module):
    module = importlib.import_module(module)
    things = {name: getattr(module, name) for name in module.__all__}
    absent = [
        name
        for name, thing in things.items()
        if not (isinstance(thing, ModuleType) or has_item(name, thing) or is_told_in_words(name, thing))
    ]
    assert not absent


def test_each_algorithm_is_on_an_api_page():
    for module, name in ALGORITHMS.items():
        for each in (name, f"{name}Config"):
            assert f"zray.rllib.algorithms.{module}.{each}" in ITEMS


def test_each_item_of_an_api_page_is_shown_once():
    shown = [path for page in PAGES for path in re.findall(r"^::: (\S+)", page.read_text(), re.M)]
    assert len(shown) == len(set(shown))
