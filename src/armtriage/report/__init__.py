"""Pages: text, results and drawings in one HTML file that needs no network."""

from armtriage.report.experiment import experiment_page
from armtriage.report.html import Figure, Section, page

__all__ = ["Figure", "Section", "experiment_page", "page"]
