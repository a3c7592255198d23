"""Reporters: the state of an experiment, on a terminal, in a pipe, in a notebook."""

from .progress_reporter import CLIReporter, JupyterNotebookReporter, ProgressReporter, TuneReporterBase
from .updates import reporter_of

__all__ = ["CLIReporter", "JupyterNotebookReporter", "ProgressReporter", "TuneReporterBase", "reporter_of"]
