"""The screen of `zray top`, with textual.  What it shows is made in plain functions of the modules beside it."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static

from . import views
from .asking import Asker, Sample
from .details import ACTS, details, end, findings
from .sampler import Done, Look, Lost, Sampler
from .screens import Confirm, Details, Help
from .stream import stream
from .summary import finding, first_line, header
from .tables import Row, Table, cut, text_of
from .views import SHORT_ID
from .widgets import Grid, Palette, Stream

VIEWS = ("overview", "tasks", "actors", "objects", "nodes", "logs")
WIDTH_MIN, HEIGHT_MIN = 80, 24
# A terminal of so many lines has room for the list of tasks on the first view.
HEIGHT_TASKS = 36
# Seconds that the stream shows at the least width, and the most.
STREAM_SECONDS, STREAM_SECONDS_MAX = 30.0, 60.0
# Cells for the name of a process, behind the beginning of its node's id.
LABEL_OF_SEVERAL = 15
SAID_SECONDS = 6.0


class Told(Message):
    """Something from the thread that asks the session."""

    def __init__(self, what: Look | Done | Lost) -> None:
        super().__init__()
        self.what = what


class Top(App[None]):
    """A session on the screen."""

    CSS_PATH = "top.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "zray top"
    BINDINGS: ClassVar[list[Any]] = [
        # Ahead of the tables: the next key may be there already, and is for the next view.
        *(Binding(str(number), f"view('{name}')", show=False, priority=True) for number, name in enumerate(VIEWS, 1)),
        Binding("slash", "filter", show=False),
        Binding("s", "sort", show=False),
        Binding("S", "turn", show=False),
        Binding("space", "pause", show=False),
        Binding("w", "why", show=False),
        Binding("x", "failures", show=False),
        Binding("p", "findings", show=False),
        Binding("k", "end(False)", show=False),
        Binding("K", "end(True)", show=False),
        Binding("y", "copy", show=False),
        Binding("r", "again", show=False),
        Binding("question_mark,f1", "keys", show=False),
        Binding("q", "back", show=False),
        Binding("escape", "clear", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, asker: Asker) -> None:
        super().__init__()
        is_sixteen = self.console.color_system in ("standard", None)
        if is_sixteen:
            self.ansi_color = True
        self.palette = Palette(is_sixteen)
        self.asker = asker
        self.sampler = Sampler(asker, lambda what: self.post_message(Told(what)))
        self.sample: Sample | None = None
        self.log_lines: list[str] = []
        self.lost = ""
        self.view = "overview"
        self.opened: Row | None = None  # whose details are shown
        self.said = ("", 0.0)

    def compose(self) -> ComposeResult:
        """The lines at the top, the views, and the lines at the bottom."""
        yield Static(id="header")
        yield Static(id="finding")
        with Vertical(id="overview", classes="view"):
            yield Grid(self.palette, "NODES", "grid-few-nodes")
            yield Grid(self.palette, "TASKS BY FUNCTION", "grid-overview")
            yield Stream(self.palette, STREAM_SECONDS, "stream")
            yield Grid(self.palette, "TASKS THAT RUN OR WAIT", "grid-few-tasks")
        for name in VIEWS[1:-1]:
            with Vertical(id=name, classes="view"):
                title = "OBJECTS BY THE PLACE THAT MADE THEM" if name == "objects" else name.upper()
                yield Grid(self.palette, title, f"grid-{name}")
        with Vertical(id="logs", classes="view"):
            yield Grid(self.palette, "PROCESSES", "grid-logs")
            yield Static(id="log")
        yield Input(placeholder="words that a row has", id="filter")
        yield Static(id="command")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Begin to ask."""
        self._open("overview")
        self.sampler.start()

    def on_unmount(self) -> None:
        """Ask no more."""
        self.sampler.stop()

    @property
    def grid(self) -> Grid:
        """The table that has the keys."""
        focused = self.screen_stack[0].focused
        return focused if isinstance(focused, Grid) else self._grid(self.view)

    def _grid(self, name: str) -> Grid:
        return self.screen_stack[0].query_one(f"#grid-{name}", Grid)

    def _static(self, id: str) -> Static:
        return self.screen_stack[0].query_one(f"#{id}", Static)

    # --- what the thread tells ---

    def on_told(self, message: Told) -> None:
        """Show what has come."""
        what = message.what
        if isinstance(what, Look):
            self.sample, self.log_lines, self.lost = what.sample, what.log, ""
            self._draw()
        elif isinstance(what, Lost):
            self.lost = what.reason
            self._draw_lines()
        elif what.name == "end":
            self._say(what.content)
            self.sampler.look_now()
        elif isinstance(self.screen, Details):
            self.screen.show(what.content)

    def _draw(self) -> None:
        """Draw the view."""
        sample, view = self.sample, self.view
        if sample is None:
            return
        history = self.asker.history
        if view == "overview":
            self._draw_overview(sample)
        else:
            self._grid(view).show(self._table(view, sample))
        if view == "logs":
            self._draw_log()
        self._grid("overview").numbers = history.names
        self._draw_lines()

    def _table(self, view: str, sample: Sample) -> Table:
        if view == "logs":
            return views.workers(sample)
        table: Table = getattr(views, view)(sample)
        return table

    def _draw_overview(self, sample: Sample) -> None:
        nodes = views.nodes(sample)
        few = self._grid("few-nodes")
        few.styles.height = min(len(nodes.rows), 4) + 2
        few.show(nodes)
        functions, tasks = self._grid("overview"), self._grid("few-tasks")
        functions.show(views.functions(sample, self.asker.history))
        tasks.display = self.size.height >= HEIGHT_TASKS
        functions.styles.height = min(len(functions.rows) + 2, self.size.height // 3) if tasks.display else "1fr"
        if tasks.display:
            tasks.show(views.tasks(sample, are_open=True))
        picture = self.screen_stack[0].query_one("#stream", Stream)
        picture.seconds = min(STREAM_SECONDS * max(self.size.width / WIDTH_MIN, 1.0), STREAM_SECONDS_MAX)
        picture.label = LABEL_OF_SEVERAL if len(nodes.rows) > 1 else Stream.label
        rows = stream(self.asker.history, sample, time.time(), picture.seconds, picture.cells, 1_000)
        room = max((self.size.height - 8) * 2 // (7 if self.size.height >= HEIGHT_TASKS else 5), 3)
        busy = sorted(rows, key=lambda row: -row.busy)[:room] if len(rows) > room else rows
        shown = [row for row in rows if row in busy]
        picture.styles.height = len(shown) + 2
        picture.show(shown, len(rows))

    def _draw_log(self) -> None:
        row = self._grid("logs").row
        pid = row.pid if row is not None else 0
        height = max(self._static("log").size.height - 1, 1)
        text = Text(f"LOG of process {pid}\n", "bold", no_wrap=True, overflow="ellipsis")
        empty = "It has printed nothing so far.  print() of tasks appears here."
        if row is not None and row.cells[0] == "program":
            empty = "A program prints to its own terminal."
        lines = self.log_lines[-height:] or [empty]
        text.append("\n".join(lines), "not bold")
        self._static("log").update(text)

    def _draw_lines(self) -> None:
        """Draw the lines at the top and at the bottom."""
        sample = self.sample
        state = "PAUSED" if self.sampler.is_paused else "LOST" if self.lost else "LIVE"
        line = Text(no_wrap=True, overflow="ellipsis")
        if sample is None:
            line.append(f"zray top  {state}", "bold")
        else:
            line.append(first_line(header(sample, self.asker.history, state), self.size.width), "bold")
        self._static("header").update(line)
        self._static("finding").update(self._finding())
        row = self.grid.row
        said, at = self.said
        if said and time.monotonic() - at < SAID_SECONDS:
            command = Text(said, "bold")
        else:
            command = Text(f"$ {row.command}" if row is not None else "")
        command.no_wrap, command.overflow = True, "ellipsis"
        self._static("command").update(command)
        self._static("keys").update(self._keys())

    def _finding(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        failed = self.palette.role("failed")
        if self.size.width < WIDTH_MIN or self.size.height < HEIGHT_MIN:
            text.append(f"The terminal is {self.size.width}x{self.size.height}; it needs {WIDTH_MIN}x{HEIGHT_MIN}.  ")
        if self.lost:
            since = time.strftime("%H:%M:%S", time.localtime(self.sample.at)) if self.sample else "never"
            text.append("! ", f"bold {failed}")
            text.append(f"The session is lost since {since}; it is looked for again. {self.lost}")
        elif self.sample is not None:
            words, key = finding(self.sample, self.asker.history, self.sampler.waits)
            text.append("! " if key else "  ", f"bold {failed}")
            text.append(cut(words, max(self.size.width - 6, 10)))
            text.append(f" [{key}]" if key else "", "bold")
        else:
            text.append("The session is asked ...", "dim")
        return text

    def _keys(self) -> Text:
        text = Text(no_wrap=True, overflow="crop")
        for number, name in enumerate(VIEWS, 1):
            is_here = name == self.view
            text.append(f" {number} {name} ", "reverse" if is_here else "")
        hints = "/ filter  s sort  space pause  k end  ? keys  q quit" if self.size.width > 115 else "/ filter  ? keys"
        text.append(hints.rjust(self.size.width - len(text)), "dim")
        return text

    def _say(self, words: str) -> None:
        """Say something in the place of the command."""
        self.said = words, time.monotonic()
        self._draw_lines()

    # --- keys ---

    def _open(self, view: str) -> None:
        self.view = view
        self.sampler.wants_objects = view == "objects"
        for name in VIEWS:
            self.query_one(f"#{name}").display = name == view
        self.screen.set_focus(self._grid(view))
        self._choose_log()
        self._draw()
        self.sampler.look_now()

    def _choose_log(self) -> None:
        row = self._grid("logs").row
        self.sampler.log = (row.node, row.pid) if self.view == "logs" and row is not None else None

    def on_grid_moved(self, message: Grid.Moved) -> None:
        """Show the command of the row, and its log."""
        if message.grid.id == "grid-logs":
            self._choose_log()
            self.log_lines = []
            self.sampler.look_now()
        self._draw_lines()

    def on_grid_opened(self, message: Grid.Opened) -> None:
        """Show all that is known of a row."""
        if message.grid.row is not None:
            self._details(message.grid.row)

    def _details(self, row: Row) -> None:
        sample = self.sample
        if sample is None:
            return
        self.opened, self.grid.is_chosen = row, True
        words = [cell for cell in (row.cells[1], row.cells[0]) if row.kind in ("task", "actor")] or [row.cells[0]]
        self.push_screen(Details(f"{row.kind} {'  '.join(words)}", row.command))
        self.sampler.do("details", lambda: [*details(row, sample, self.asker)])

    def action_again(self) -> None:
        """Ask again for the details that are shown."""
        row, sample = self.opened, self.sample
        if isinstance(self.screen, Details) and row is not None and sample is not None:
            self.sampler.do("details", lambda: [*details(row, sample, self.asker)])

    def action_view(self, name: str) -> None:
        """Another view."""
        self._open(name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key acts: a digit in the line of the filter is text."""
        if action == "view":
            return len(self.screen_stack) == 1 and not isinstance(self.focused, Input)
        return True

    def action_filter(self) -> None:
        """A line for the filter."""
        if len(self.screen_stack) == 1:
            line = self.query_one("#filter", Input)
            line.display = True
            line.value = self.grid.filter
            self._filtered = self.grid
            self.screen.set_focus(line)

    _filtered: Grid | None = None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while a person types."""
        if event.input.id == "filter" and self._filtered is not None and self._filtered.table is not None:
            self._filtered.set_filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The filter stays."""
        if event.input.id == "filter":
            self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.screen.set_focus(self._filtered or self.grid)
        self._filtered = None

    def action_clear(self) -> None:
        """Leave the line of the filter, and show all rows."""
        if self._filtered is not None:
            self._leave_filter()
        elif self.grid.table is not None:
            self.grid.set_filter("")

    def action_sort(self) -> None:
        """Order by the next column."""
        self.grid.sort_next()

    def action_turn(self) -> None:
        """Turn the order round."""
        self.grid.turn()

    def action_pause(self) -> None:
        """Stand still, or go on."""
        self.sampler.pause(not self.sampler.is_paused)
        self._draw_lines()

    def action_keys(self) -> None:
        """The keys."""
        self.push_screen(Help())

    def action_copy(self) -> None:
        """Copy the command of the row, by a sequence that terminals understand."""
        row = self.opened if isinstance(self.screen, Details) else self.grid.row
        if row is not None:
            self.copy_to_clipboard(row.command)
            self._say(f"Copied, if the terminal allows it: {row.command}")

    def action_why(self) -> None:
        """Why the task in the second line waits."""
        task_id = self.sampler.waits.task.hex()
        if task_id and self.sample is not None:
            row = next((row for row in views.tasks(self.sample).rows if row.id == task_id), None)
            if row is not None:
                self._details(row)

    def action_failures(self) -> None:
        """Tasks that failed."""
        if len(self.screen_stack) == 1:
            self._open("tasks")
            if self.grid.table is not None:
                self.grid.set_filter("failed")

    def action_findings(self) -> None:
        """Why the run takes its time."""
        if len(self.screen_stack) == 1:
            self.opened = None
            self.push_screen(Details("the run so far", "zray report"))
            self.sampler.do("details", lambda: [*findings()])

    def action_end(self, force: bool) -> None:
        """Ask whether to end the row's task or actor."""
        row = self.opened if isinstance(self.screen, Details) else self.grid.row
        if row is None or isinstance(self.screen, (Confirm, Help)):
            return
        if row.kind not in ACTS:
            self._say(f"A {row.kind} is not ended here: k ends tasks, the tasks of a function, and actors.")
            return
        name = text_of(row.cells[1] if row.kind != "function" else row.id, 60)
        self.grid.is_chosen = True  # the cursor stays on what the dialog names
        state = f"{row.cells[2]} {row.cells[3]}" if row.kind == "task" else row.cells[3]
        what = f"all unfinished tasks of {name}" if row.kind == "function" else f"{row.kind} {name} ({row.id}, {state})"
        verb = "End" if row.kind == "actor" else "Cancel"
        how = ", with the workers that run it" if force and row.kind != "actor" else ""
        program = f" of session {self.asker.session[:SHORT_ID]}"
        word = "y" if row.kind == "task" else "yes"

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self.sampler.do("end", lambda: end(row, force))
            else:
                self._say("Nothing was ended.")

        self.push_screen(Confirm(f"{verb} {what}{program}{how}?", word), answered)

    async def action_back(self) -> None:
        """Leave this screen for the one before; the first screen ends the program."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
            self._draw()
        else:
            self.exit()
