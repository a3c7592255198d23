"""A request for packages (`pip`, `uv` of a runtime_env), as a text sent with tasks.

Equal requests have equal texts.  The program reads requirements files; a node never reads a file named in the text,
except local archives and folders, which the installer finds itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from ..exceptions import RuntimeEnvSetupError
from ..wire.limits import CHARACTERS_MAX
from .package_passwords import Passwords, masked

# A setup of more packages is an image, and no environment.
LINES_MAX = 2_000
INCLUDES_MAX = 10
# Installers that wait for a network are stopped after this long, unless `config` sets another limit.
SETUP_SECONDS = 600.0
# Variables of the installers; variables of env_vars with these prefixes count too.
_VARIABLES = ("PIP_", "UV_")
# Options that a requirements file may have as lines.
_SOURCES = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links")
# Options whose values may be addresses, as they are spelt in variables of the installers.
_LONG = ("--index-url", "--extra-index-url", "--find-links", "--proxy", "--constraint", "--requirement")
_INCLUDE = re.compile(r"(?:-r|--requirement)[ =]\s*(\S+)$")
_OPTION_WITH_PATH = re.compile(r"(-e|--editable|-f|--find-links|-c|--constraint)([ =]\s*)(\S+)$")


class PackageRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A request: the packages, and how to install them."""

    tool: str = "pip"
    lines: tuple[str, ...] = ()  # as in a requirements file
    options: tuple[str, ...] = ()  # of the installer
    is_checked: bool = False  # versions have to fit each other (`pip check`)
    version: str = ""  # of the installer, as "==23.3"
    seconds: float = SETUP_SECONDS
    variables: tuple[tuple[str, str], ...] = ()
    stamps: tuple[
        tuple[str, str], ...
    ] = ()  # (path, digest) of local files and folders: a changed one is another request


def parse_request(text: str) -> PackageRequest:
    """The request behind a text.

    Raises:
        RuntimeEnvSetupError: the text is none.
    """
    try:
        request = msgspec.json.decode(text, type=PackageRequest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RuntimeEnvSetupError(f"The request for packages cannot be read: {error}.") from error
    if request.tool not in ("pip", "uv"):
        raise RuntimeEnvSetupError(f"The request for packages names the installer {request.tool!r}, not pip or uv.")
    return request


def request_of(tool: str, given: Any, env_vars: Mapping[str, str], seconds: float | None) -> str:
    """The text for a checked field of a runtime_env.

    Raises:
        ValueError: a requirements file cannot be read, the request is too long, or others could read a password.
    """
    fields = given if isinstance(given, Mapping) else {"packages": given}
    lines = tuple(requirement_lines(fields.get("packages") or ()))
    given_options = fields.get("pip_install_options" if tool == "pip" else "uv_pip_install_options") or ()
    sources, options = _without_sources(tool, list(given_options))
    passwords = Passwords({})
    for line in (*sources, *lines):
        passwords.line(line)  # refused here, before a node tries
    request = PackageRequest(
        tool=tool,
        lines=(*sources, *lines),
        options=options,
        is_checked=bool(fields.get(f"{tool}_check")),
        version=fields.get(f"{tool}_version") or "",
        seconds=SETUP_SECONDS if seconds is None else seconds,
        variables=tuple(sorted((key, value) for key, value in env_vars.items() if key.startswith(_VARIABLES))),
        stamps=tuple(stamp for line in lines if (stamp := digest_of(line)) is not None),
    )
    text = msgspec.json.encode(request).decode()
    if len(text) > CHARACTERS_MAX:
        raise ValueError(
            f"{tool} of runtime_env takes {len(text):,} characters; at most {CHARACTERS_MAX:,} can travel."
        )
    return text


def _without_sources(tool: str, given: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return lines of a requirements file for the options with package sources, and the other options.

    Every user of a machine can read the arguments of its processes, and an address may have a password.
    """
    lines: list[str] = []
    options: list[str] = []
    while given:
        option = given.pop(0)
        name, separator, value = option.partition("=")
        if name in _SOURCES and not separator and given:
            value = given.pop(0)
            option = f"{name}={value}" if name.startswith("--") else f"{name}{value}"
        if name in _SOURCES and value and not re.search(r"\s", value):
            lines.append(f"{name} {value}")
        elif masked(option) != option:
            raise ValueError(_refusal(tool, option if option.startswith("-") else (options or [""])[-1]))
        else:
            options.append(option)
    return tuple(lines), tuple(options)


def _refusal(tool: str, option: str) -> str:
    """The message about an option with a password; option: with or without its value."""
    name = option.partition("=")[0] if option.startswith("--") else option[:2]
    whole = next((each for each in _LONG if len(name) > 3 and each.startswith(name)), name)
    variable = f"{tool.upper()}_{whole.strip('-').upper().replace('-', '_')}"
    return (
        f"The option {name} of {tool} has an address with a password, which all users of the machine could read: give "
        f"it as {variable if whole in _LONG else f'a variable of {tool}'} in env_vars."
    )


def given_by(text: str) -> dict[str, Any]:
    """Return the field of a runtime_env from which a text was made."""
    request = parse_request(text)
    fields: dict[str, Any] = {"packages": list(request.lines), f"{request.tool}_check": request.is_checked}
    if request.version:
        fields[f"{request.tool}_version"] = request.version
    return {request.tool: fields}


def requirement_lines(given: Any) -> list[str]:
    """Lines of a list or of a requirements file, with local paths made absolute.

    Raises:
        ValueError: a file cannot be read, or there are too many lines.
    """
    if isinstance(given, (str, os.PathLike)):
        lines = _lines_of_file(os.path.abspath(given), 1)
    else:
        lines = [found for line in given for found in _resolved(line.strip(), os.getcwd(), 0)]
    if len(lines) > LINES_MAX:
        raise ValueError(f"runtime_env asks for {len(lines):,} packages; at most {LINES_MAX:,} can be installed.")
    return lines


def _lines_of_file(path: str, depth: int) -> list[str]:
    if depth > INCLUDES_MAX:
        raise ValueError(
            f"Requirements files include each other more than {INCLUDES_MAX} deep, the last one is {path}."
        )
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(CHARACTERS_MAX * 16)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(masked(f"The requirements file {path} cannot be read: {error}.")) from error
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in text.replace("\\\n", " ").splitlines())
    return [found for line in lines if line for found in _resolved(line, os.path.dirname(path), depth)]


def _resolved(line: str, folder: str, depth: int) -> list[str]:
    if (include := _INCLUDE.match(line)) is not None:
        return _lines_of_file(os.path.join(folder, include[1]), depth + 1)
    if (option := _OPTION_WITH_PATH.match(line)) is not None:
        return [f"{option[1]}{option[2]}{_absolute(option[3], folder)}"]
    return [_absolute(line, folder)]


def _absolute(text: str, folder: str) -> str:
    path = os.path.join(folder, os.path.expanduser(text))
    is_path = text.startswith(("./", "../", "~/")) or text == "." or ("/" in text and "://" not in text)
    return os.path.abspath(path) if is_path and os.path.exists(path) else text


# More bytes in a folder are data: beyond this limit, size and time stand for the bytes.
DIGEST_BYTES_MAX = 64 << 20
# Builders write these beside the code, from the code.
_GENERATED = re.compile(r"(\.git|\.hg|__pycache__|build|.*\.egg-info|.*\.pyc)$")
_PATH_OF_LINE = re.compile(
    r"(?:(?:-e|--editable|-f|--find-links|-c|--constraint)[ =]\s*)?(?:.*@\s*)?(?:file://)?(/\S*)"
)


def digest_of(line: str) -> tuple[str, str] | None:
    """Return (path, digest) of the local file or folder in a line of a request; None: no such path."""
    found = _PATH_OF_LINE.match(line)
    path = found[1].partition("[")[0] if found is not None else ""  # extras of a folder are in brackets
    if not path or not os.path.exists(path):
        return None
    digest, left = sha256(), DIGEST_BYTES_MAX
    for place in sorted(_files_of(path)):
        digest.update(f"{os.path.relpath(place, path)}\0".encode("utf-8", "surrogateescape"))
        try:
            status = os.stat(place)
            if status.st_size > left:
                digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
                continue
            left -= status.st_size
            with open(place, "rb") as file:
                digest.update(sha256(file.read()).digest())
        except OSError:
            digest.update(b"unreadable")
    return path, digest.hexdigest()


def _files_of(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not _GENERATED.match(name)]
        found += [os.path.join(folder, name) for name in names if not _GENERATED.match(name)]
    return found
