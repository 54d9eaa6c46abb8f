"""A sentence for wide intervals: how many questions give a narrow one."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.metrics.declaration import SHARE
from snellen.report.reported_runs import ReportedRun

WIDE = 0.2
"""Width of the interval of a share, in [0, 1], from which the sentence is shown."""
NARROW_MARGIN = 0.05
QUESTIONS_FOR_NARROW = 400
"""Questions, one for each image, that give a 95% interval of at most ±5 points for any share.

It is 1.96² p (1 - p) / 0.05² = 384 for p = 0.5, where the interval is widest (normal approximation), rounded up.
"""


def wide_interval_note(reported_runs: Sequence[ReportedRun]) -> str:
    """Return how many questions would narrow the interval of a headline; empty if no headline has a wide one.

    Args:
        reported_runs: The runs. Of several wide intervals, that with the fewest images is named.
    """
    fewest: int | None = None
    shows_images = False
    for reported_run in reported_runs:
        for model_row in reported_run.method_rows:
            headline = model_row.headline
            if headline is None or headline.unit != SHARE:
                continue
            low, high = headline.estimate.low, headline.estimate.high
            groups = headline.estimate.groups
            is_wide = low is not None and high is not None and high - low > WIDE
            if is_wide and groups < QUESTIONS_FOR_NARROW:
                fewest = groups if fewest is None else min(fewest, groups)
                shows_images = shows_images or _has_images(reported_run)
    if fewest is None:
        return ""
    noun = "image" if shows_images else "question"
    if fewest != 1:
        noun += "s"
    counted = (
        f"are questions on only {fewest} {noun}" if shows_images else f"are only {fewest} {noun}"
    )
    return (
        f"The interval is wide because there {counted}: about {QUESTIONS_FOR_NARROW} "
        f"give ±{NARROW_MARGIN * 100:.0f} points."
    )


def _has_images(reported_run: ReportedRun) -> bool:
    """Return whether a question of a run has an image."""
    for scored in reported_run.run.benchmarks:
        if any(sample.images for sample in scored.samples.values()):
            return True
    return False
