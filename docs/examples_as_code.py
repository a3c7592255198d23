"""An extension of griffe for the API pages: examples are shown as code, and each argument has a row with its default.

mkdocs.yml names the file; mkdocstrings reads docstrings by griffe.
"""

import re
import textwrap

import griffe

EXAMPLE = re.compile(r"^(Examples?:)\n((?:    .*\n|\n)+)", re.M)
ARGUMENTS = re.compile(r"^Args:\n(?:    .*\n|\n)+", re.M)
SHARED = re.compile(r"^    (\w+(?:, \w+)+): (.*\n(?:     +.*\n)*)", re.M)


def with_fences(text: str) -> str:
    """The docstring with a fence around each example that has none."""

    def fenced(match: re.Match[str]) -> str:
        code = textwrap.dedent(match[2]).strip()
        if "```" in code or ">>>" in code:
            return match[0]
        inner = "\n".join(f"    {line}".rstrip() for line in ["```python", *code.splitlines(), "```"])
        return f"{match[1]}\n{inner}\n\n"

    return EXAMPLE.sub(fenced, f"{text}\n").rstrip()


def with_single_names(text: str) -> str:
    """The docstring with an entry for each argument, where one entry is about several."""

    def single(match: re.Match[str]) -> str:
        return "".join(f"    {name}: {match[2]}" for name in match[1].split(", "))

    return ARGUMENTS.sub(lambda found: SHARED.sub(single, found[0]), f"{text}\n").rstrip()


def defaults(text: str) -> dict[str, str]:
    """The default of each argument whose entry ends with one, as "Default: 128; DQN: 16." gives 128."""
    part = ARGUMENTS.search(f"{text}\n")
    found = {}
    for entry in re.split(r"^    (?=\w)", part[0] if part else "", flags=re.M)[1:]:
        name, _, words = " ".join(entry.split()).partition(": ")
        before, _, default = words.removesuffix(".").rpartition("Default: ")
        if before and default:
            found[name] = default.partition("; ")[0]
    return found


class ExamplesAsCode(griffe.Extension):
    """Changes the docstrings of all objects of a package, once it is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring:
            obj.docstring.value = with_single_names(with_fences(obj.docstring.value))
        if obj.docstring and isinstance(obj, griffe.Function):
            # An option that is not given keeps its value: the docstring knows the first one.
            known = defaults(obj.docstring.value)
            for parameter in obj.parameters:
                if str(parameter.default) == "NOT_GIVEN" and parameter.name in known:
                    parameter.default = known[parameter.name]
