"""Passwords in the addresses of packages: files that the user alone can read have them, and no argument."""

import netrc
import os
import stat
import subprocess
import sys

import pytest

from zray.exceptions import RuntimeEnvSetupError
from zray.options.package_passwords import installer_files, masked
from zray.options.package_requests import request_of

SECRET = "s3cret-word"


@pytest.fixture(autouse=True)
def no_files_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NETRC", raising=False)


def written(folder, lines, variables=()):
    """The files of an installation by name, its requirements, and the variables."""
    variables = dict(variables)
    with installer_files(str(folder), lines, variables) as path:
        found = {name: (folder / name).read_text() for name in os.listdir(folder)}
        modes = {stat.S_IMODE((folder / name).stat().st_mode) for name in found}
        logins = netrc.netrc(variables["NETRC"]).hosts if "NETRC" in variables else {}
    assert modes == {0o600} and not os.listdir(folder) and os.path.dirname(path) == str(folder)
    return found, found["requirements.txt"].splitlines(), variables, logins


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "environment").mkdir()
    return tmp_path / "environment"


@pytest.mark.parametrize(
    "line, left",
    [
        (f"--index-url https://me:{SECRET}@host:8080/simple", "--index-url https://host:8080/simple"),
        (f"-f http://me:{SECRET}@host/x", "-f http://host/x"),
        ("--extra-index-url https://${ME}:${WORD}@host", "--extra-index-url https://host"),
        (f"-i https://me:{SECRET.replace('-', '%2D')}@host", "-i https://host"),
    ],
)
def test_passwords_of_sources_are_in_a_netrc_file(folder, line, left):
    _, lines, _, logins = written(folder, [line, "tinylib"], {"ME": "me", "WORD": SECRET})
    assert lines == [left, "tinylib"] and logins == {"host": ("me", "", SECRET)}


def test_passwords_of_variables_are_in_a_netrc_file(folder):
    address = f"https://me:{SECRET}@"
    _, _, variables, logins = written(
        folder, [], {"PIP_EXTRA_INDEX_URL": f"{address}one {address}two/x", "PIP_PROXY": f"http://me:{SECRET}@proxy"}
    )
    assert variables["PIP_EXTRA_INDEX_URL"] == "https://one https://two/x" and set(logins) == {"one", "two"}
    assert "PIP_PROXY" not in variables and variables["https_proxy"] == f"http://me:{SECRET}@proxy"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="netrc files of Python 3.10 need passwords")
def test_user_without_a_password_is_kept(folder):
    assert written(folder, ["-i https://TOKEN@host", "-f https://me:word@other"])[3] == {
        "host": ("TOKEN", "", ""),
        "other": ("me", "", "word"),
    }


def test_own_netrc_file_of_the_user_counts_below(folder, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".netrc").write_text("machine host login old password old\nmachine own login a password b")
    logins = written(folder, [f"-i https://me:{SECRET}@host"])[3]
    assert logins == {"host": ("me", "", SECRET), "own": ("a", "", "b")}


@pytest.mark.parametrize("line", ["x @ git+https://host/a.git@main", "mine @ https://me:word@host/mine.whl", "tinylib"])
def test_line_that_no_argument_has_stays(folder, line):
    found, lines, variables, _ = written(folder, [line])
    assert lines == [line] and set(found) == {"requirements.txt"} and not variables


def test_git_finds_the_password_of_each_repository(folder):
    lines = [
        f"x @ git+https://me:{SECRET}@host/a.git@main#egg=x",
        "-e git+https://TOKEN@host/b.git",
    ]
    variables = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "me"}
    with installer_files(str(folder), lines, variables) as path:
        with open(path) as file:
            left = file.read()
        answers = [
            subprocess.run(
                ["git", "credential", "fill"],
                input=f"url=https://host/{name}.git\n",
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for name in "ab"
        ]
    assert left == "x @ git+https://host/a.git@main#egg=x\n-e git+https://host/b.git\n"
    assert f"username=me\npassword={SECRET}\n" in answers[0] and "username=TOKEN\npassword=\n" in answers[1]
    assert not os.listdir(folder) and variables["GIT_CONFIG_VALUE_0"] == "me"


@pytest.mark.parametrize(
    "lines, words",
    [
        ([f"-i https://me:{SECRET}@host", "-f https://me:other@host"], "two users or passwords for host"),
        ([f"x @ hg+https://me:{SECRET}@host/x"], "which hg would show"),
        ([f"-i https://me:{SECRET}%20@host"], "a space, a quote or a backslash"),
    ],
)
def test_password_that_cannot_be_handed_over_is_refused_without_it(folder, lines, words):
    with pytest.raises(ValueError, match=words) as early:
        request_of("pip", lines, {}, None)
    with pytest.raises(RuntimeEnvSetupError, match=words) as late, installer_files(str(folder), lines, {}):
        pass
    assert SECRET not in str(early.value) + str(late.value) and not os.listdir(folder)


@pytest.mark.parametrize(
    "options, name, variable",
    [
        (["--proxy", "{0}"], "--proxy", "PIP_PROXY"),
        (["--pre", "-c", "{0}c.txt"], "-c", "a variable of pip"),
        (["--find-l", "{0}"], "--find-l", "PIP_FIND_LINKS"),
        (["--extra={0}"], "--extra", "PIP_EXTRA_INDEX_URL"),
        (["-f{0}"], "-f", "a variable of pip"),
    ],
)
def test_option_that_shows_a_password_is_refused_by_its_name(options, name, variable):
    options = [each.format(f"http://me:{SECRET}@host/") for each in options]
    with pytest.raises(ValueError, match=f"The option {name} of pip .* give it as {variable} in env_vars") as caught:
        request_of("pip", {"packages": ["x"], "pip_install_options": options}, {}, None)
    assert SECRET not in str(caught.value)


def test_requirements_file_at_an_address_is_refused_without_its_password():
    with pytest.raises(ValueError, match=r"requirements file .*\*\*\*\*@host/r.txt cannot be read") as caught:
        request_of("pip", [f"-r https://me:{SECRET}@host/r.txt"], {}, None)
    assert SECRET not in str(caught.value)


def test_addresses_in_lines_of_an_installer_are_masked():
    assert (
        masked(f"ERROR: http://me:{SECRET}@host/a and ssh://git@host") == "ERROR: http://****@host/a and ssh://git@host"
    )
