"""The shape of the core, counted in its syntax trees: files, code lines, statements, imports, foreign writers, tables.

A foreign writer is a file that changes a field of a record that it does not define: `task.state = ...`,
`task.waiting.append(...)`.  Fields are compared by name, so a name that several records have is foreign only to the
files of none of them.
"""

import ast
from collections import Counter, defaultdict

from tests.scripts import ROOT

PACKAGES = ("roles", "host", "store", "wire")
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"),
    *("setdefault", "update"),
}


def is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def name_of(node):
    return node.id if isinstance(node, ast.Name) else ""


def code_lines(tree, text):
    """Number of lines that are neither empty, nor comments, nor docstrings."""
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and is_text(
            node.body[0]
        ):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def fields_of(node):
    """Names of the fields of a class that is a record; none of another class."""
    slots = [each for each in node.body if isinstance(each, ast.Assign) and name_of(each.targets[0]) == "__slots__"]
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    if (
        not slots
        and "Struct" not in bases
        and not any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    ):
        return set()
    names = {
        constant.value for each in slots for constant in ast.walk(each.value) if isinstance(constant, ast.Constant)
    }
    return names | {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def changed(node):
    """Attributes that a node assigns, deletes, or changes the container of."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        yield node.func.value


def measure():
    """The counts of the core, and the fields that are written elsewhere: {field: number of files}."""
    counts, owners, writers = Counter(), defaultdict(set), defaultdict(set)
    paths = [(package, path) for package in PACKAGES for path in sorted((ROOT / "zray" / package).rglob("*.py"))]
    for package, path in paths:
        text = path.read_text()
        tree = ast.parse(text)
        counts["files"] += 1
        counts["code lines"] += code_lines(tree, text) if tree.body else 0
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                counts["lines of imports"] += node.end_lineno - node.lineno + 1
            elif isinstance(node, ast.stmt):
                counts["statements"] += not is_text(node)
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                counts["tables of transitions"] += any(name_of(each).endswith("TRANSITIONS") for each in targets)
            if package == "roles":
                for field in fields_of(node) if isinstance(node, ast.ClassDef) else ():
                    owners[field].add(path)
                for each in changed(node):
                    if isinstance(each, ast.Attribute) and name_of(each.value) not in ("self", "cls"):
                        writers[each.attr].add(path)
    foreign = {field: len(writers[field] - paths) for field, paths in owners.items() if writers[field] - paths}
    counts["fields with foreign writers"] = len(foreign)
    return counts, foreign
