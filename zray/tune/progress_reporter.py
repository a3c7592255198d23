"""Ray's name of the module of the reporters."""

from ..on_import import shadows
from .reporters import CLIReporter, JupyterNotebookReporter, ProgressReporter, TuneReporterBase

__all__ = ["CLIReporter", "JupyterNotebookReporter", "ProgressReporter", "TuneReporterBase"]

shadows.name_absent(__name__)
