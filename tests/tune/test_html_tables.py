"""Results and the session as tables in notebooks."""

from types import SimpleNamespace

from zray.api.sessions import Context
from zray.tune import html_tables
from zray.tune.checkpoint import Checkpoint
from zray.tune.results import Result
from zray.tune.trial import TrialState


class Odd:
    def __str__(self):
        raise KeyError("no words")


class Grid:
    def __init__(self, trials, metric=None):
        self._trials, self._defaults = trials, (metric, None)
        self._experiment = SimpleNamespace(controller=SimpleNamespace(settings=SimpleNamespace(metric=None)))

    def __len__(self):
        return len(self._trials)

    def __repr__(self):
        return "Grid(<x>)"


class Trial(SimpleNamespace):
    def __str__(self):
        return self.name


def trial(name, state, result=None, error=""):
    return Trial(name=name, config={"net": {"lr": 0.1234567}}, state=state, latest_result=result or {}, error=error)


def rows(text):
    cells = (part.replace("</th>", "</td>").replace("<th>", "<td>") for part in text.split("<tr>")[1:])
    return [[cell.partition("</td>")[0] for cell in part.split("<td>")[1:]] for part in cells]


def test_table_of_a_grid_has_parameters_metrics_and_errors():
    done = trial("a", TrialState.TERMINATED, {"loss": 0.5, "acc": 1, "pid": 7, "training_iteration": 3, "config": {}})
    failed = trial("b", TrialState.ERROR, None, "Traceback (most recent call last):\nValueError: <b>\n")
    text = html_tables.grid_html(Grid([done, failed]))
    assert text.startswith("<p>Grid(&lt;x&gt;)</p>")
    assert rows(text) == [
        ["trial", "state", "net/lr", "loss", "acc", "training_iteration", "error"],
        ["a", "TERMINATED", "0.123457", "0.5", "1", "3", ""],
        ["b", "ERROR", "0.123457", "", "", "", "ValueError: &lt;b&gt;"],
    ]
    assert rows(html_tables.grid_html(Grid([done], "loss")))[0] == [
        "trial",
        "state",
        "net/lr",
        "loss",
        "training_iteration",
    ]
    many = html_tables.grid_html(Grid([done] * (html_tables.ROWS_MAX + 2)))
    assert len(rows(many)) == html_tables.ROWS_MAX + 1 and "and 2 more trials" in many


def test_table_of_a_result_and_of_the_session():
    result = Result({"loss": 0.5, "config": {}}, Checkpoint("/c"), ValueError("no"), "/p", trial_config={"lr": Odd()})
    assert rows(result._repr_html_()) == [
        ["config/lr", "&lt;Odd: KeyError&gt;"],
        ["loss", "0.5"],
        ["path", "/p"],
        ["checkpoint", "/c"],
        ["error", "ValueError: no"],
    ]
    assert rows(Context(address="<a>")._repr_html_()) == [["address", "&lt;a&gt;"]]
