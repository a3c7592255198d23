"""Files of a program's own project: neither Python's, nor installed, nor zray's.

Modules imported by the program, and modules named in imports of those or of its tasks, are packed into a bundle:
msgpack [[path, is executable, bytes], ...], sorted, so that equal files make equal bytes.

Excluded files are named by patterns, as git reads them in `.gitignore`: a later pattern overrules an earlier pattern,
`!` negates, a slash in front or within binds a pattern to its folder, a slash behind means folders only, and `**`
stands for any number of folders.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from types import CodeType, ModuleType
from typing import Any

from msgspec import msgpack

from ..process.spawn import current_folder
from .archives import Entry
from .cache import FILES_MAX

# A file of patterns is written by people, so short.
GITIGNORE_BYTES_MAX = 1 << 20


class Ignored:
    """The patterns of a folder."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.rules = [rule for rule in map(_rule, patterns) if rule is not None]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether a path below the folder stays behind; None: no pattern fits."""
        for expression, is_negated, folders_only in reversed(self.rules):
            if (is_folder or not folders_only) and expression.fullmatch(path):
                return not is_negated
        return None


def ignored_by_git(folder: str) -> Ignored | None:
    """Return the patterns of a folder's own `.gitignore`; None: no such file."""
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            return Ignored(file.read(GITIGNORE_BYTES_MAX).splitlines())
    except OSError:
        return None


def _rule(pattern: str) -> tuple[re.Pattern[str], bool, bool] | None:
    """Return (expression, whether negated, whether for folders only)."""
    text = pattern.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    is_negated = text.startswith("!")
    text = text[is_negated:]
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    is_anchored = "/" in text
    text = text.removeprefix("./").lstrip("/")
    if not text:
        return None
    expression = _expression(text)
    try:
        return re.compile(expression if is_anchored else f"(?:.*/)?{expression}", re.DOTALL), is_negated, folders_only
    except re.error:
        return None  # as git: a bad range fits nothing


def _expression(text: str) -> str:
    found, place = [], 0
    while place < len(text):
        rest = text[place:]
        if rest.startswith("**/") and (place == 0 or text[place - 1] == "/"):
            found.append("(?:.*/)?")
            place += 3
        elif rest == "**" and (place == 0 or text[place - 1] == "/"):
            found.append(".+")
            place += 2
        elif rest[0] == "*":
            found.append("[^/]*")
            place += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            found.append("[^/]")
            place += 1
        elif (part := re.match(r"\[[!^]?\]?[^\]]*\]", rest)) is not None:
            inside = part[0][1:-1].replace("\\", "\\\\")
            negation = "^/" if inside[:1] in ("!", "^") else ""
            found.append(f"[{negation}{inside[bool(negation) :].replace('[', chr(92) + '[')}]")
            place += len(part[0])
        elif rest[0] == "\\" and len(rest) > 1:
            found.append(re.escape(rest[1]))
            place += 2
        else:
            found.append(re.escape(rest[0]))
            place += 1
    return "".join(found)


BUNDLE_BYTES_MAX = 64 << 20
# Number of files named when a bundle is too large.
NAMED_MAX = 10
# Never part of a project: version control, environments (also whatever has a pyvenv.cfg), caches.
EXCLUDED = frozenset(
    {
        *(".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"),
        *(".venv", "venv", ".tox", ".nox", "node_modules", "site-packages", ".eggs"),
        *("__pycache__", ".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".import_linter_cache"),
        *(".hypothesis", ".ipynb_checkpoints", ".DS_Store"),
    }
)
EXCLUDED_SUFFIXES = (".pyc", ".pyo", ".egg-info")
CODE_SUFFIXES = (".py", ".pyi", ".so", ".pyd")
# Modules and folders excluded by patterns, by last names, for the error of a task that lacks one.
left_behind: dict[str, str] = {}
LEFT_BEHIND_MAX = 10_000
# Packages and modules of PYTHONPATH that cannot be sent whole, and why, for the error of a task that lacks one.
stayed: dict[str, str] = {}
# How a module finds files beside it, and files of a project that no module reads.
_READS = re.compile(rb"\b__file__\b|\bimportlib\.resources\b|\bimportlib import resources\b|\bpkgutil\b")
_PROJECT_FILES = ("LICENSE", "Makefile", "pyproject.toml", "requirements.txt", "setup.cfg")
_IMPORT = re.compile(rb"^[ \t]*(import|from)[ \t]+([^\n#;]+)", re.MULTILINE)
_ZRAY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class File:
    """A file of a bundle."""

    __slots__ = ("path", "size", "source")

    def __init__(self, path: str, source: str) -> None:
        self.path = path  # in the bundle
        self.source = source
        self.size = os.stat(source).st_size


class TooLarge(ValueError):
    """More than a bundle can hold."""


def read_file(source: str) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: the file cannot be read.
    """
    with open(source, "rb") as opened:
        return opened.read()


def pack(
    files: Iterable[File], what: str, archived: Iterable[Entry] = (), read: Callable[[str], bytes] = read_file
) -> bytes:
    """The bundle.

    archived: further entries, which have been read.  read: from where the bytes of each source come.

    Raises:
        TooLarge: names the largest files, and the limit.
        OSError: a file cannot be read.
    """
    found = {file.path: file for file in files}
    total = sum(file.size for file in found.values())
    if total > BUNDLE_BYTES_MAX or len(found) > FILES_MAX:
        largest = sorted(found.values(), key=lambda file: (-file.size, file.path))[:NAMED_MAX]
        named = "".join(f"\n  {file.size:>13,}  {file.path}" for file in largest)
        raise TooLarge(
            f"{what} is {total:,} bytes in {len(found):,} files; at most {BUNDLE_BYTES_MAX:,} travel to other nodes.  "
            f'Leave some out (runtime_env={{"excludes": [...]}}), or put() data.  The largest:{named}'
        )
    entries = list(archived)
    for path in sorted(found):
        source = found[path].source
        entries.append((path, os.access(source, os.X_OK), read(source)))
    return msgpack.encode(sorted(entries))


def files_below(
    folder: str, prefix: str = "", excludes: Iterable[str] | None = None, *, code_only: bool = False
) -> list[File]:
    """Return all files of a project's folder.

    excludes: patterns of a runtime_env (module_discovery.py); patterns of `.gitignore` files apply too.  None: neither.
    """
    given = Ignored(excludes or ())
    by_git: dict[str, Ignored] = {}  # by the folder, as in `inside`
    found = []
    for place, folders, names in os.walk(folder):
        inside = os.path.relpath(place, folder)
        inside = "" if inside == "." else inside + "/"
        if excludes is not None and (patterns := ignored_by_git(place)) is not None:
            by_git[inside] = patterns
        folders[:] = sorted(
            name
            for name in folders
            if not _is_excluded(name, inside, given, by_git, is_folder=True)
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            source = os.path.join(place, name)
            if _is_excluded(name, inside, given, by_git) or not os.path.isfile(source):
                continue
            if not code_only or name.endswith(CODE_SUFFIXES):
                found.append(File(prefix + inside + name, source))
    return found


def _is_excluded(
    name: str, inside: str, given: Ignored, by_git: dict[str, Ignored], *, is_folder: bool = False
) -> bool:
    if name in EXCLUDED or name.endswith(EXCLUDED_SUFFIXES):
        return True
    path = inside + name
    verdict = _verdict(path, given, by_git, is_folder=is_folder)
    if verdict and (is_folder or name.endswith(".py")) and len(left_behind) < LEFT_BEHIND_MAX:
        left_behind[name.removesuffix(".py")] = path
    return verdict


def _verdict(path: str, given: Ignored, by_git: dict[str, Ignored], *, is_folder: bool) -> bool:
    if (verdict := given.verdict(path, is_folder=is_folder)) is not None:
        return verdict
    for place, patterns in reversed(by_git.items()):  # the nearest file of patterns decides
        if path.startswith(place):
            verdict = patterns.verdict(path[len(place) :], is_folder=is_folder)
            if verdict is not None:
                return verdict
    return False


def files_at(path: str, excludes: Iterable[str] | None = None) -> list[File]:
    """Return the files of a package's folder, or a module's file, under its own name."""
    path = os.path.abspath(path)
    name = os.path.basename(path)
    return files_below(path, name + "/", excludes) if os.path.isdir(path) else [File(name, path)]


def is_installed(path: str) -> bool:
    """Python's own, installed, or zray's."""
    return "/site-packages/" in path or "/dist-packages/" in path or path.startswith(_not_own())


@functools.cache
def _not_own() -> tuple[str, ...]:
    """The folders of zray and of the standard library."""
    # As in sysconfig, whose answer takes milliseconds.
    library = os.path.join(sys.platlibdir, f"python{sys.version_info[0]}.{sys.version_info[1]}")
    bases = {sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix}
    places = [os.path.dirname(os.__file__), *(os.path.join(base, library) for base in bases)]
    return (_ZRAY + os.sep, *{place + os.sep for path in places for place in (path, os.path.realpath(path))})


class Project:
    """The files of the project taken so far, each taken once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()  # top-level names, including those outside the project
        self.available: dict[str, set[str]] = {}  # folder -> the modules in it
        self.path = set(sys.path)  # the examined entries
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        for place in {os.path.abspath(main), os.path.realpath(main)} if main else {os.path.join(current_folder(), "")}:
            self._add_root(os.path.dirname(place))
        entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        self.python_path = {os.path.abspath(entry) for entry in entries if entry} - {*self.available}

    def take(self, names: Iterable[str] = ()) -> list[File]:
        """Return the files of modules imported by now, or named here, or imported by any of these modules; without
        files taken before.
        """
        files: list[File] = []
        for entry in [entry for entry in sys.path if isinstance(entry, str) and entry not in self.path]:
            self.path.add(entry)
            self._add_root(os.path.abspath(entry))
        waiting = {name.partition(".")[0] for name in list(sys.modules)} | {name.partition(".")[0] for name in names}
        while waiting := waiting - self.taken:
            self.taken |= waiting
            new = [file for name in sorted(waiting) for file in self._files_of(name)]
            files += new
            waiting = set()
            known = {name for modules in self.available.values() for name in modules} - self.taken
            if known:
                for file in new:
                    if file.path.endswith(".py"):
                        waiting |= imports_of(file.source) & known
        return files

    def take_again(self) -> list[File]:
        """Return the files of all modules taken so far."""
        names, self.taken = self.taken, set()
        return self.take(names)

    def forget(self, names: Iterable[str]) -> None:
        """Forget modules that were imported again, so that they are taken again."""
        self.taken -= {name.partition(".")[0] for name in names}

    def _add_root(self, folder: str) -> None:
        if folder in self.available or is_installed(folder + os.sep):
            return
        modules = self.available[folder] = set()
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return
        for name in names:
            if name.endswith(".py"):
                modules.add(name[:-3])
            elif os.path.exists(os.path.join(folder, name, "__init__.py")):
                modules.add(name)

    def _files_of(self, name: str) -> list[File]:
        """Return the files of a top-level module; none outside the project."""
        if name in ("__main__", "__mp_main__", "zray", "conftest"):
            return []
        module = sys.modules.get(name)
        try:
            if module is None:
                path = self._found_by_import(name)
                if not path or is_installed(path):
                    return []
                return self._fitting(path, name)
            return self._files_of_module(name, module)
        except OSError:
            return []  # the file was removed after the import

    def _found_by_import(self, name: str) -> str:
        """Where the program itself would find a module: perhaps among what is installed, by a name of the project."""
        if not any(name in modules for modules in self.available.values()):
            return ""
        spec = PathFinder.find_spec(name)
        origin = os.path.abspath(spec.origin) if spec is not None and spec.has_location and spec.origin else ""
        return os.path.dirname(origin) if os.path.basename(origin).startswith("__init__.") else origin

    def _files_of_module(self, name: str, module: ModuleType) -> list[File]:
        file = getattr(module, "__file__", None)
        folders = list(getattr(module, "__path__", ()))
        if isinstance(file, str) and not folders:
            file = os.path.abspath(file)
            if is_installed(file) or os.path.basename(file).partition(".")[0] != name or not os.path.isfile(file):
                return []
            self._add_root(os.path.dirname(file))
            return self._fitting(file, name)
        files: list[File] = []
        for folder in map(os.path.abspath, folders):
            if is_installed(folder + os.sep) or os.path.basename(folder) != name or not os.path.isdir(folder):
                continue
            self._add_root(os.path.dirname(folder))
            is_namespace = not isinstance(file, str)
            files += self._fitting(folder, name, code_only=is_namespace)
        return files

    def _fitting(self, path: str, name: str, *, code_only: bool = False) -> list[File]:
        """Return a package's or module's files.  If too large, the program's own package goes without its data.

        A part of PYTHONPATH travels whole or stays: it is not the program's, and other nodes may have the same path.
        """
        if os.path.dirname(path) in self.python_path:
            files = _with_libraries(path)
            why = "it reads files beside it" if _reads_beside(path) else ""
            if sum(file.size for file in files) > BUNDLE_BYTES_MAX // 2:
                why = f"it is larger than {BUNDLE_BYTES_MAX // 2:,} bytes"
            if why:
                stayed[name] = f"{path} does not travel to other nodes: {why}, and PYTHONPATH names it"
            return [] if why else files
        if not os.path.isdir(path):
            return files_at(path)
        files = files_below(path, name + "/", code_only=code_only)
        if sum(file.size for file in files) > BUNDLE_BYTES_MAX // 2:
            files = [file for file in files if file.path.endswith(CODE_SUFFIXES)]
        return files


def _with_libraries(path: str) -> list[File]:
    """Return a package's or module's files, and those of folders with libraries that wheels put beside it."""
    files, beside = files_at(path), os.path.dirname(path)
    libraries = [name for name in sorted(os.listdir(beside)) if name.endswith(".libs")]
    if libraries and sum(file.size for file in files) <= BUNDLE_BYTES_MAX // 2:
        contents = [read_file(file.source) for file in files]
        for name in libraries:
            if any(name.encode() in content for content in contents):
                files += files_at(os.path.join(beside, name))
    return files


def _reads_beside(path: str) -> bool:
    """Whether a module names its own file, and its folder holds more than code."""
    if not path.endswith(".py") or not _READS.search(read_file(path)):
        return False
    folder = os.path.dirname(path)
    return any(
        not name.startswith(".")
        and name not in (*EXCLUDED, *_PROJECT_FILES)
        and not name.endswith((*CODE_SUFFIXES, *EXCLUDED_SUFFIXES, ".dist-info", ".libs", ".md", ".rst"))
        and not os.path.exists(os.path.join(folder, name, "__init__.py"))
        for name in os.listdir(folder)
    )


def imports_of(source: str) -> set[str]:
    """Return the top-level names that a module imports, anywhere in its text."""
    try:
        with open(source, "rb") as opened:
            text = opened.read()
    except OSError:
        return set()
    found = set()
    for kind, rest in _IMPORT.findall(text):
        for part in rest.split(b",") if kind == b"import" else (rest,):
            word = part.split()[:1]
            if word:
                found.add(word[0].decode(errors="replace").partition(".")[0])
    return found


def names_in(function: Any) -> set[str]:
    """Return the names used in the code of a function or class, including imported ones."""
    found: set[str] = set()
    waiting: list[Any] = [function]
    if isinstance(function, type):
        waiting = [getattr(value, "__func__", value) for value in vars(function).values()]
    while waiting:
        item = waiting.pop()
        code = item if isinstance(item, CodeType) else getattr(item, "__code__", None)
        if isinstance(code, CodeType):
            found.update(code.co_names)
            waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found
