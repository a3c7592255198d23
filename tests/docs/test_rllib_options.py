"""Options of RLlib: defaults in docstrings against the code, and the tables of docs/rllib.md against the docstrings."""

import inspect
import pydoc
import re

import pytest

from tests.docs.pages import DOCS, arguments, rows, shown
from tests.scripts import ROOT

pytest.importorskip("torch")

from zray.rllib.algorithms.registry import get_algorithm_class
from zray.rllib.config import AlgorithmConfig
from zray.rllib.models.catalog import MODEL_DEFAULTS
from zray.rllib.spellings import OPTIONS

PAGE = DOCS / "rllib.md"
CONFIGS = {name: get_algorithm_class(name).config_class for name in ("PPO", "A2C", "A3C", "DQN", "ES", "SAC")}
METHODS = [
    *("environment", "env_runners", "training", "evaluation", "multi_agent", "debugging", "reporting", "resources"),
    *("fault_tolerance", "callbacks", "framework"),
]


@pytest.mark.parametrize("config", [AlgorithmConfig, *CONFIGS.values()], ids=lambda config: config.__name__)
def test_help_shows_no_address_for_an_option_that_is_not_given(config):
    assert " at 0x" not in pydoc.render_doc(config) and "= <default>" in pydoc.render_doc(config.training)


def documented(method):
    """{option: (default, meaning)} of the docstring of a method."""
    found = {name: text.rpartition(" Default: ") for name, text in arguments(method.__doc__).items()}
    return {name: (default, meaning.removesuffix(".")) for name, (meaning, _, default) in found.items()}


def options(method):
    parameters = inspect.signature(method).parameters.values()
    return [each.name for each in parameters if each.name != "self" and each.kind is not each.VAR_KEYWORD]


def default_of(name):
    """The default of all algorithms, and those of single ones, as "128; DQN: 16; A2C, A3C: 5"."""
    common = OPTIONS[name].default
    others = {}
    for algorithm, config in CONFIGS.items():
        if (own := config.defaults.get(name, common)) != common:
            others.setdefault(text_of(own), []).append(algorithm)
    return "; ".join([text_of(common), *(f"{', '.join(names)}: {value}" for value, names in others.items())])


def text_of(default):
    return shown(default).strip("`")


def cells(method):
    """The rows of a table that a method's docstring has."""
    found = []
    for name in options(method):
        default, meaning = documented(method)[name]
        values = re.sub(r"; ((?:[A-Z0-9]+(?:, )?)+): ", r"`; \1: `", default)  # of single algorithms
        found.append([f"`{name}`", f"`{values}`", meaning])
    return found


@pytest.mark.parametrize("name", METHODS[:9])
def test_defaults_in_the_docstring_of_a_method_are_those_of_all_algorithms(name):
    method = getattr(AlgorithmConfig, name)
    assert {each: documented(method)[each][0] for each in options(method)} == {
        each: default_of(each) for each in options(method)
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_defaults_in_the_docstring_of_training_are_those_of_the_algorithm(name):
    method = CONFIGS[name].training
    assert {each: documented(method)[each][0] for each in options(method)} == {
        each: text_of(CONFIGS[name]()[each]) for each in options(method)
    }


@pytest.mark.parametrize("name", METHODS)
def test_table_of_a_method_has_the_options_and_words_of_its_docstring(name):
    assert rows(PAGE, name) == cells(getattr(AlgorithmConfig, name))


@pytest.mark.parametrize("name", CONFIGS)
def test_table_of_an_algorithm_has_the_options_and_words_of_its_docstring(name):
    assert rows(PAGE, f"training of {name}") == cells(CONFIGS[name].training)


def test_each_key_of_a_model_is_in_the_table():
    shown_keys = {key for cells in rows(DOCS / "rllib-models.md", "Layers") for key in re.findall(r"`(\w+)`", cells[0])}
    assert shown_keys == {*MODEL_DEFAULTS, "log_std_init"}


@pytest.mark.parametrize(
    "place", [cells[2].strip("`") for cells in rows(DOCS / "compatibility.md", "RLlib") if cells[2]]
)
def test_test_of_a_compatibility_row_is_there(place):
    file, _, name = place.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / "rllib" / file).read_text()
