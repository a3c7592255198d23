"""The table of docs/errors.md against zray.exceptions: a row for each error, of the same kind as its docstring says."""

import inspect
import re

import pytest

from tests.docs.pages import DOCS, prose, rows
from zray import exceptions

PAGE = DOCS / "errors.md"
PUBLIC = {
    name: each
    for name, each in vars(exceptions).items()
    if inspect.isclass(each) and issubclass(each, Exception) and each.__module__ == "zray.exceptions" and name[0] != "_"
}
ERRORS = [each for name, each in PUBLIC.items() if each.__name__ == name and each is not exceptions.ZrayError]
ALIASES = {name: each.__name__ for name, each in PUBLIC.items() if each.__name__ != name}
ROWS = {
    name: cells[1:]
    for cells in rows(PAGE, "Definite and indefinite errors")
    for name in re.findall(r"`(\w+)`", cells[0])
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_each_error_has_a_row_of_the_kind_of_its_docstring(error):
    meaning, kind, remedy = ROWS[error.__name__]
    said = re.search(r"\((definite|indefinite)", error.__doc__)
    assert meaning and (remedy or kind)
    assert not said or kind.startswith(said[1])


def test_each_row_is_of_an_error():
    assert set(ROWS) == {error.__name__ for error in ERRORS}


@pytest.mark.parametrize("alias", ALIASES)
def test_further_name_of_an_error_is_on_the_page(alias):
    assert alias == "RayError" or f"`{alias}` is `{ALIASES[alias]}`" in prose(PAGE)
