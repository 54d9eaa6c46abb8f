"""Labels of tests in tables and charts of several models."""

from __future__ import annotations

from collections.abc import Sequence

from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.thresholds import Threshold


def short_name(benchmark: str) -> str:
    """Return the name of a benchmark without its suite."""
    return benchmark.rpartition("/")[2]


def label_of(threshold: Threshold, with_method: bool) -> str:
    """Return the short name of a test, such as `letter-size` or `letter-size (likelihood)`."""
    name = short_name(threshold.benchmark)
    if with_method:
        return f"{name} ({threshold.method})"
    return name


def row_key(threshold: Threshold, with_method: bool) -> tuple[str, str]:
    """Return the key that thresholds of the same row or chart share: the test, and the method if it matters."""
    return threshold.benchmark, threshold.method if with_method else ""


def needs_method_rows(runs: Sequence[AcuityRun]) -> bool:
    """Return whether a model was asked a test by generation and by likelihood, which then have rows of their own."""
    for run in runs:
        benchmarks = {answers.benchmark for answers in run.answers}
        if len(benchmarks) < len(run.answers):
            return True
    return False


def has_several_methods(runs: Sequence[AcuityRun]) -> bool:
    """Return whether thresholds were measured by different methods."""
    return len({threshold.method for run in runs for threshold in run.thresholds}) > 1
