"""Requests for packages: which lines and options an installer gets, and when two requests are the same."""

import os

import pytest

from zray.options.package_requests import parse_request, request_of


def request(tool="pip", **fields):
    return parse_request(request_of(tool, {"packages": ["tinylib"], **fields}, {}, None))


@pytest.mark.parametrize(
    "options, lines, left",
    [
        (["--find-links=http://me:secret@host/x"], ("--find-links http://me:secret@host/x",), ()),
        (["--no-deps", "-i", "https://me:secret@host"], ("-i https://me:secret@host",), ("--no-deps",)),
        (["--extra-index-url", "https://host", "--pre"], ("--extra-index-url https://host",), ("--pre",)),
        (["--find-links", "/with a space"], (), ("--find-links=/with a space",)),
        (["--find-links"], (), ("--find-links",)),
    ],
)
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_addresses_of_packages_are_in_no_argument(tool, options, lines, left):
    found = request(tool, **{"pip_install_options" if tool == "pip" else "uv_pip_install_options": options})
    assert (found.lines, found.options) == ((*lines, "tinylib"), left)


def test_other_option_with_a_password_is_refused_and_its_variable_named():
    with pytest.raises(ValueError, match="PIP_PROXY in env_vars") as caught:
        request(pip_install_options=["--proxy=http://me:secret@host"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("form", ["{0}", "-e {0}", "mine @ file://{0}", "{0}[extra]", "-c {0}/mine/deep.py"])
def test_changed_file_of_a_folder_is_another_request(tmp_path, form):
    folder = tmp_path / "folder"
    (folder / "mine").mkdir(parents=True)
    code = folder / "mine" / "deep.py"
    code.write_text("VALUE = 1")
    line = form.format(folder)
    first = request_of("pip", [line], {}, None)
    before = os.stat(folder)
    code.write_text("VALUE = 2")
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = request_of("pip", [line], {}, None)
    assert second != first and os.stat(folder).st_mtime_ns == before.st_mtime_ns
    code.write_text("VALUE = 1")
    assert request_of("pip", [line], {}, None) == first


def test_files_that_a_build_leaves_in_a_folder_change_nothing(tmp_path):
    (tmp_path / "setup.py").write_text("")
    first = request_of("pip", [str(tmp_path)], {}, None)
    for name in ("build", "mine.egg-info", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("made")
    assert request_of("pip", [str(tmp_path)], {}, None) == first
