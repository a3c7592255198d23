"""The tables of absent names: one sentence for each, the same in docs/compatibility.md and in the error of its use."""

import importlib.util
import re
import subprocess
import sys

import pytest

import zray
from cli.main import COMMANDS
from tests.cli.commands import zray as command
from tests.docs.pages import DOCS, rows
from tests.scripts import ROOT, environment
from zray.ray_names import absent

TABLES = {
    "Absent names": absent.NAMES,
    "Absent options": absent.OPTIONS,
    "Absent arguments of init": absent.INIT_ARGUMENTS,
    "Absent fields of runtime_env": absent.RUNTIME_ENV_FIELDS,
    "Absent arguments of placement_group": absent.PLACEMENT_GROUP_ARGUMENTS,
    "Absent abilities": absent.ABILITIES,
    "Absent commands": absent.COMMANDS,
}


@pytest.mark.parametrize("heading", TABLES)
def test_page_shows_the_sentences_of_the_code(heading):
    shown = {re.sub(r"^`([^`]*)`$", r"\1", cells[0]): cells[1] for cells in rows(DOCS / "compatibility.md", heading)}
    assert shown == TABLES[heading]


def test_page_shows_the_spellings_of_tune():
    from zray.tune.spellings import IGNORED, RENAMED

    page = DOCS / "compatibility.md"
    renamed = {cells[0].strip("`"): cells[1].strip("`") for cells in rows(page, "Former options of Tune")}
    assert renamed == RENAMED
    ignored = {cells[0].strip("`"): cells[1] for cells in rows(page, "Options of Tune without effect")}
    assert ignored == {name: f"{reason[0].upper()}{reason[1:]}." for name, (reason, _) in IGNORED.items()}


@pytest.mark.parametrize("advice", sorted({text for table in TABLES.values() for text in table.values()}))
def test_advice_is_one_plain_sentence(advice):
    assert advice[0].isupper() and advice.endswith(".")
    assert ". " not in advice.replace("e.g. ", "") and len(re.findall(r"[\w'.-]+", advice)) <= 25


def test_features_name_their_state_and_a_test():
    features = rows(DOCS / "compatibility.md", "Features")
    assert len({feature for feature, _, _ in features}) == len(features) > 70
    for feature, state, test in features:
        path = re.fullmatch(r"`((?:\w+/)?test_\w+\.py)`", test)
        assert state in ("works", "differs", "absent") and path, feature
        assert (ROOT / "tests" / path[1]).is_file(), f"{feature}: {test} does not exist"


@pytest.mark.parametrize("name", absent.NAMES)
def test_use_of_an_absent_name_says_what_to_do_instead(name):
    module, _, attribute = name.rpartition(".")
    there = getattr(importlib.import_module(module), attribute, None)
    if there is not None:  # a function that is declared, for programs that import it
        with pytest.raises(NotImplementedError) as raised:
            there(None)
        assert absent.NAMES[name] in str(raised.value)
        return
    with pytest.raises(AttributeError) as raised:
        getattr(importlib.import_module(module), attribute)
    assert absent.NAMES[name] in str(raised.value)
    for statement in (f"import {name}", f"from {module} import {attribute}", f"import {name}.further"):
        with pytest.raises(ModuleNotFoundError) as raised:
            exec(statement, {})
        assert absent.NAMES[name] in str(raised.value), statement


def test_search_for_an_absent_module_finds_none():
    """Libraries ask so whether a part of Ray is installed."""
    assert importlib.util.find_spec("zray.serve") is None
    assert importlib.util.find_spec("zray.actor") is not None


def test_unknown_names_are_refused_as_python_does():
    with pytest.raises(AttributeError, match="^module 'zray' has no attribute 'nope'$"):
        _ = zray.nope
    with pytest.raises(ImportError, match="cannot import name 'nope' from 'zray'"):
        exec("from zray import nope", {})
    with pytest.raises(ModuleNotFoundError, match="No module named 'zray.nope'") as raised:
        exec("import zray.nope", {})
    assert raised.value.name == "zray.nope"


def test_import_of_zray_leaves_the_tables_out():
    program = "import sys, zray; print('zray.ray_names.absent' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert result.stdout == "False\n", result.stderr


def nothing():
    """A function without options."""


@pytest.mark.parametrize("name", absent.OPTIONS)
def test_absent_option_says_what_to_do_instead(name):
    targets = [zray.remote(nothing), zray.remote(type("Plain", (), {}))]
    for target in targets:
        with pytest.raises(NotImplementedError) as raised:
            target.options(**{name: 1})
        assert absent.OPTIONS[name] in str(raised.value)
        target.options(**{name: None})


@pytest.mark.parametrize("name", absent.INIT_ARGUMENTS)
def test_absent_argument_of_init_says_what_to_do_instead(name):
    with pytest.raises(NotImplementedError) as raised:
        zray.init(**{name: True})
    assert absent.INIT_ARGUMENTS[name] in str(raised.value)
    assert not zray.is_initialized()


@pytest.mark.parametrize("name", absent.RUNTIME_ENV_FIELDS)
def test_absent_field_of_runtime_env_says_what_to_do_instead(name):
    for give in (lambda env: zray.init(runtime_env=env), lambda env: zray.remote(runtime_env=env)(nothing)):
        with pytest.raises(NotImplementedError) as raised:
            give({name: ["something"]})
        assert absent.RUNTIME_ENV_FIELDS[name] in str(raised.value)


@pytest.mark.parametrize("name", absent.PLACEMENT_GROUP_ARGUMENTS)
def test_absent_argument_of_placement_group_says_what_to_do_instead(name):
    with pytest.raises(NotImplementedError) as raised:
        zray.util.placement_group([{"CPU": 1}], **{name: 1})
    assert absent.PLACEMENT_GROUP_ARGUMENTS[name] in str(raised.value)


@zray.remote
def generate():
    yield 1


USES = {
    "`PYTHONHASHSEED` in `env_vars`": [
        lambda: generate.options(runtime_env={"env_vars": {"PYTHONHASHSEED": "7"}}),
        lambda: zray.init(runtime_env={"env_vars": {"PYTHONHASHSEED": "7"}}),
    ],
    "addresses in `working_dir` and `py_modules`": [
        lambda: zray.init(runtime_env={"working_dir": "s3://bucket/x.zip"}),
        lambda: zray.init(runtime_env={"py_modules": ["https://example.org/x.whl"]}),
        lambda: generate.options(runtime_env={"working_dir": "https://example.org/x.zip"}),
    ],
}


@pytest.mark.parametrize("name", absent.ABILITIES)
def test_absent_ability_says_what_to_do_instead(name):
    for use in USES[name]:
        with pytest.raises(NotImplementedError) as raised:
            use()
        assert absent.ABILITIES[name] in str(raised.value)


def test_absent_command_says_what_to_do_instead():
    assert not set(absent.COMMANDS) & set(COMMANDS)
    result = command("monitor", "cluster.yaml")
    assert result.returncode == 2
    assert absent.COMMANDS["monitor"] in " ".join(result.stderr.split())
