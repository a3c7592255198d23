"""Output in a notebook: one display, which is updated in place."""

from __future__ import annotations

import html
import sys
from typing import Any

__all__ = ["display_html", "display_text", "is_notebook"]


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and hasattr(shell, "kernel")


def display_html(text: str, shown: Any = None) -> Any:
    """Show HTML, in place of the former content.

    Returns:
        What the next call takes as `shown`.
    """
    try:
        from IPython.display import HTML, display
    except ImportError:
        print(text, flush=True)
        return None
    if shown is None:
        return display(HTML(text), display_id=True)
    shown.update(HTML(text))
    return shown


def display_text(text: str, shown: Any = None) -> Any:
    """Show text in a fixed font, in place of what was shown before."""
    if "IPython" not in sys.modules:
        print(text, flush=True)
        return None
    return display_html(f"<pre>{html.escape(text)}</pre>", shown)
