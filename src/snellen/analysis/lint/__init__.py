"""Lint: checks of a built benchmark's questions, options, answers and pictures (ReForm-Eval 3.1, E.2)."""

from snellen.analysis.lint.check import lint
from snellen.analysis.lint.findings import SEVERITIES, Finding, Severity
from snellen.analysis.lint.text_only import text_only

__all__ = ["SEVERITIES", "Finding", "Severity", "lint", "text_only"]
