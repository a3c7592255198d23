"""An extension of griffe: the text below "Example:" of a docstring is shown as code in the API pages.

mkdocs.yml names the file; mkdocstrings reads docstrings by griffe.
"""

import inspect
import re

import griffe

EXAMPLE = re.compile(r"^(Examples?:)\n((?:    .*\n|\n)+)", re.M)


def with_fences(text: str) -> str:
    """The docstring with a fence around each example that has none."""

    def fenced(match: re.Match[str]) -> str:
        code = inspect.cleandoc(match[2])
        if "```" in code or ">>>" in code:
            return match[0]
        inner = "\n".join(f"    {line}".rstrip() for line in ["```python", *code.splitlines(), "```"])
        return f"{match[1]}\n{inner}\n\n"

    return EXAMPLE.sub(fenced, f"{text}\n").rstrip()


class ExamplesAsCode(griffe.Extension):
    """Fences the examples of all objects of a package, once it is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring:
            obj.docstring.value = with_fences(obj.docstring.value)
