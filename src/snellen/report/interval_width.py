"""A sentence for wide intervals: what makes them wide, and what gives a narrow one."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.analysis.intervals import wilson
from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.report.reported_runs import ModelMethodRow, ReportedRun
from snellen.report.sentence_parts import review_advice

WIDE_INTERVAL = 0.2
"""Width of the interval of a share, in [0, 1], from which the sentence is shown."""
NARROW_MARGIN = 0.05
QUESTIONS_FOR_NARROW = 400
"""Questions, one for each image, that give a 95% interval of at most ±5 points for any share.

It is 1.96² p (1 - p) / 0.05² = 384 for p = 0.5, where the interval is widest (normal approximation), rounded up.
"""


def wide_interval_note(reported_runs: Sequence[ReportedRun]) -> str:
    """Return a note on why the interval of a headline number is wide, and what would make it narrower.

    The note names the larger of two causes: few questions, or replies that are hard to read, so that it is
    uncertain which option they choose.

    Args:
        reported_runs: The runs. If several have few questions, the note is about the one with the fewest images.

    Returns:
        The note; empty if no interval is wide.
    """
    sentences: list[str] = []
    fewest_groups: int | None = None
    shows_images = False
    for reported_run in reported_runs:
        for model_row in reported_run.method_rows:
            headline = model_row.headline
            if headline is None or headline.unit != SHARE:
                continue
            low, high = headline.estimate.low, headline.estimate.high
            # The number of images, or of questions without an image.
            groups = headline.estimate.groups
            is_wide = low is not None and high is not None and high - low > WIDE_INTERVAL
            if is_wide and _is_wide_by_reading(headline.estimate):
                sentence = _about_unsure_replies(model_row)
                if sentence:
                    sentences.append(sentence)
                    continue
            if is_wide and groups < QUESTIONS_FOR_NARROW:
                fewest_groups = groups if fewest_groups is None else min(fewest_groups, groups)
                # Questions in fewer groups share images, also where a file of predictions has no images.
                is_grouped = groups < headline.estimate.n
                shows_images = shows_images or is_grouped or _has_images(reported_run)
    if fewest_groups is not None:
        sentences.append(_about_few_questions(fewest_groups, shows_images=shows_images))
    return " ".join(sentences)


def _is_wide_by_reading(estimate: Estimate) -> bool:
    """Return whether uncertain readings of replies make up most of the width of an interval.

    The variance of an estimate is the sum of two parts: by sampling (few questions) and by reading
    (`analysis.reading_error`). The result is True if sampling explains less than half of it. Its part is computed
    from Wilson's interval with one independent unit per image.
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return False
    low, high = wilson(estimate.value, estimate.groups or estimate.n)
    width_by_sampling = high - low
    width = estimate.high - estimate.low
    return width**2 > 2 * width_by_sampling**2


def _about_unsure_replies(model_row: ModelMethodRow) -> str:
    """Return the sentence about a model with replies that were read with low confidence; empty if it has none."""
    unsure = model_row.overall("unsure_rate")
    if unsure is None or not unsure.estimate.value:
        return ""
    n_unsure = round(unsure.estimate.value * unsure.estimate.n)
    return (
        f"The interval of {model_row.reported_run.label} is wide because {n_unsure:,} of {unsure.estimate.n:,} replies "
        f"are read with a confidence below 90%, which more questions do not change: {review_advice()}."
    )


def _about_few_questions(n_groups: int, *, shows_images: bool) -> str:
    """Return the sentence that names few questions as the reason of a wide interval, and how many give a narrow one.

    Args:
        n_groups: The number of images, or of questions if they have no images.
        shows_images: Whether the questions have images.
    """
    noun = "image" if shows_images else "question"
    if n_groups != 1:
        noun += "s"
    if shows_images:
        counted = f"are questions on only {n_groups} {noun}"
    else:
        counted = f"are only {n_groups} {noun}"
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
