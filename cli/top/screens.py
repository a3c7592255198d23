"""Screens of `zray top` above the first: details of a row, the question before something is ended, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

KEYS = (
    ("1 to 6", "overview, tasks, actors, objects, nodes, logs"),
    ("arrows", "another row; also page up, page down, home, end"),
    ("tab", "the next table of the view"),
    ("enter", "why the row waits or failed, its stack, its log"),
    ("/", "filter: rows that have each word; escape: all rows"),
    ("s  S", "order by the next column; turn the order round"),
    ("space", "pause: nothing is asked, until space again"),
    ("w", "why the task in the second line waits"),
    ("x", "tasks that failed"),
    ("p", "why the run takes its time: findings, critical path"),
    ("k", "cancel the task or the function's tasks; end the actor"),
    ("K", "the same, and end the workers of tasks that run"),
    ("y", "copy the command of the row"),
    ("q", "back; from the first screen: quit"),
)
BACK = (Binding("escape,q,backspace", "app.back", "back", show=False),)


class Details(Screen[None]):
    """All that is known of a row, as titles with lines."""

    BINDINGS = [*BACK]

    def __init__(self, title: str, command: str) -> None:
        super().__init__()
        self.heading, self.command = title, command

    def compose(self) -> ComposeResult:
        """A title, the text, and the command."""
        yield Static(Text(self.heading, "bold", no_wrap=True, overflow="ellipsis"), id="heading")
        with VerticalScroll(id="text"):
            yield Static(Text("The session is asked ...", "dim"), id="body")
        yield Static(Text(f"$ {self.command}", no_wrap=True, overflow="ellipsis"), id="command")
        yield Static(Text("up down: more   r: again   y: copy the command   q: back", "dim"), id="keys")

    def on_mount(self) -> None:
        self.query_one("#text").focus()

    def show(self, parts: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Show titles with their lines."""
        text = Text()
        for title, lines in parts:
            text.append(f"{title}\n", "bold underline")
            for line in lines:
                text.append(f"{line}\n")
            text.append("\n")
        self.query_one("#body", Static).update(text)


class Help(ModalScreen[None]):
    """The keys."""

    BINDINGS = [*BACK, Binding("question_mark", "app.back", "back", show=False)]

    def compose(self) -> ComposeResult:
        """A line a key."""
        text = Text("\n").join(Text.assemble((f"{keys:<8}", "bold"), meaning) for keys, meaning in KEYS)
        with Vertical(id="dialog"):
            yield Static(text)


class Confirm(ModalScreen[bool]):
    """The question before something is ended.  The dialog is bound to an id, wherever the cursor goes meanwhile.

    Args:
        question: names the thing with its id.
        word: what has to be typed; "y" is one key.
    """

    BINDINGS = [Binding("escape", "refuse", "no", show=False)]

    def __init__(self, question: str, word: str) -> None:
        super().__init__()
        self.question, self.word = question, word

    def compose(self) -> ComposeResult:
        """The question, and where it takes a word, a line for that."""
        if self.word == "y":
            hint = "y: yes   any other key: no"
        else:
            hint = f"Type {self.word} and press enter; escape: no"
        with Vertical(id="dialog"):
            yield Static(Text(self.question))
            yield Static(Text(f"\n{hint}", "dim"))
            if self.word != "y":
                yield Input(id="word")

    def on_key(self, event: Any) -> None:
        """Answer a short question by one key."""
        if self.word == "y":
            event.stop()
            self.dismiss(event.key == "y")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() == self.word)

    def action_refuse(self) -> None:
        """Nothing is ended."""
        self.dismiss(False)
