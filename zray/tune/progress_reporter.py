"""Ray's name of the module of the reporters."""

from .reporters import CLIReporter, JupyterNotebookReporter, ProgressReporter, TuneReporterBase

__all__ = ["CLIReporter", "JupyterNotebookReporter", "ProgressReporter", "TuneReporterBase"]
