"""Passwords in the addresses of packages, kept out of the arguments of processes, which all users of a machine see.

pip repeats the addresses of its sources in the arguments of the child that prepares a build, and git those of
repositories.  So the addresses lose their user and password before an installation.  These are in files beside, which
only the user can read: a netrc file for pip and uv, and a store of credentials for git.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..exceptions import RuntimeEnvSetupError

# <kind>+<scheme>://<user>:<password>@<host><path>
_ADDRESS = re.compile(r"(\w+\+)?(https?)://([^/\s]+)@([^/\s]+)(/[^\s#]*)?")
_SHOWN = re.compile(r"(?<!ssh)://[^/\s]+@")
_QUOTED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_EMPTY = '""'  # in a netrc file
# A netrc file has no form for these that all of its readers know.
_UNFIT = re.compile(r"[\s\"'\\]")


def masked(text: str) -> str:
    """The text without the users and passwords of its addresses."""
    return _SHOWN.sub("://****@", text)


def _unquoted(text: str) -> str:
    """The text of a part of an address, without the quoting by percent signs (RFC 3986, 2.1)."""
    return _QUOTED.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), text)


class Passwords:
    """Users and passwords of the addresses in a request."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.variables = variables  # for ${NAME} in an address, as pip replaces it
        self.hosts: dict[str, tuple[str, str]] = {}
        self.repositories: dict[str, str] = {}  # by the address without them

    def line(self, text: str) -> str:
        """Take the passwords from a line of a requirements file, and return the rest.

        The address of a file, as in `name @ https://...`, stays: no process has it in its arguments.

        Raises:
            ValueError: there is no way to give the password to the installer.
        """
        return _ADDRESS.sub(lambda found: self._take(found) if found[1] or text.startswith("-") else found[0], text)

    def value(self, text: str) -> str:
        """Take the passwords from the value of a variable of pip, and return the rest.  Raises ValueError: as line."""
        return _ADDRESS.sub(self._take, text)

    def _take(self, found: re.Match[str]) -> str:
        kind, scheme, given, host, path = (part or "" for part in found.groups())
        given = _VARIABLE.sub(lambda each: self.variables.get(each[1], each[0]), given)
        user, _, password = given.partition(":")
        if kind == "git+":
            place = f"{host}{path.partition('@')[0]}"  # a revision is behind it
            self.repositories[f"{scheme}://{place}"] = f"{scheme}://{user}:{password}@{place}"
        elif kind:
            raise ValueError(
                f"The address {masked(found[0])} has a password, which {kind[:-1]} would show to all users of the "
                "machine: leave it out, and give it in the settings of that program."
            )
        else:
            self._keep(host.partition(":")[0], _unquoted(user), _unquoted(password))
        return f"{kind}{scheme}://{host}{path}"

    def _keep(self, host: str, user: str, password: str) -> None:
        if _UNFIT.search(user + password):
            raise ValueError(
                f"The password for {host} has a space, a quote or a backslash, which a netrc file cannot hold: take "
                "another password."
            )
        if not password and sys.version_info < (3, 11):
            raise ValueError(
                f"The address of packages at {host} has a user without a password, which a netrc file of Python 3.10 "
                "cannot hold: give a password, or take a newer Python."
            )
        if self.hosts.setdefault(host, (user, password)) != (user, password):
            raise ValueError(
                f"The addresses of packages have two users or passwords for {host}, and installers take one for a "
                "host: take one that may read all packages of the request."
            )

    def netrc(self) -> str:
        """The text of a netrc file: the user's own, then these, which count above."""
        own = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
        text = ""
        with contextlib.suppress(OSError, UnicodeDecodeError), open(own, encoding="utf-8") as file:
            text = file.read()
        for host, (user, password) in self.hosts.items():
            text += f"\nmachine {host} login {user} password {password or _EMPTY}\n"
        return text


@contextlib.contextmanager
def installer_files(folder: str, lines: Sequence[str], variables: dict[str, str]) -> Iterator[str]:
    """The path of a requirements file with these lines; passwords are beside it, and `variables` name their files.

    Only the user can read the files, and they are removed at the end.

    Raises:
        RuntimeEnvSetupError: there is no way to give a password to the installer.
        OSError: the files cannot be written.
    """
    passwords = Passwords(variables)
    if "@" in (proxy := variables.get("PIP_PROXY", "")):  # an argument of children too
        del variables["PIP_PROXY"]
        variables.update(http_proxy=proxy, https_proxy=proxy)
    try:
        texts = {"requirements.txt": "".join(f"{passwords.line(line)}\n" for line in lines)}
        variables.update({key: passwords.value(text) for key, text in variables.items() if key.startswith("PIP_")})
    except ValueError as error:
        raise RuntimeEnvSetupError(str(error)) from error
    if passwords.hosts:
        texts["netrc"] = passwords.netrc()
        variables["NETRC"] = os.path.join(folder, "netrc")
    if passwords.repositories:
        texts["git"] = "".join(f"{address}\n" for address in passwords.repositories.values())
        variables.update(_settings_of_git(passwords.repositories, os.path.join(folder, "git"), variables))
    try:
        for name, text in texts.items():
            descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        yield os.path.join(folder, "requirements.txt")
    finally:
        for name in texts:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def _settings_of_git(addresses: Iterable[str], store: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables by which git takes the passwords of these addresses from a file, and gives them to no other store."""
    helper = f"store --file={shlex.quote(store)}"
    own = [("helper", ""), ("helper", helper), ("useHttpPath", "true")]  # "": none of those that the user has
    settings = [(f"credential.{address}.{key}", value) for address in addresses for key, value in own]
    first = int(variables.get("GIT_CONFIG_COUNT") or 0)
    found = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        found.update({f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value})
    return found
