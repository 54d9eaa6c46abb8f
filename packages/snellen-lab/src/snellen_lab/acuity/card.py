"""The acuity card: one page with prescriptions, wall charts, tables, curves and the visual field of several models."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.plugin_api import Document
from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.curve_chart import curve_panels
from snellen_lab.acuity.prescription import prescription_line
from snellen_lab.acuity.report import acuity_tables
from snellen_lab.acuity.visual_field import field_panels
from snellen_lab.acuity.wall_chart import wall_charts

LEVELS_NOTE = (
    "Three levels are distinguished: at its threshold a model is halfway between chance and its best; what it needs is "
    "an easier level, at which it is nearly at its best; its mark in the chart stands at the next line above its "
    "threshold."
)
_CURVES_NOTE = (
    "Share of correct replies by level, harder to the left. Marks are answers (hollow where there are fewer than three), "
    "lines fitted curves; below stand thresholds with 95% credible intervals. Dashed is guessing."
)
_FIELD_NOTE = "A letter of one size at positions of the image: the stronger the colour, the more often it was read."
_WALL_NOTE = (
    "In pixels of the image. A model's mark is at the smallest line above its threshold, a hollow one at the "
    "smallest line that its input allows."
)


def acuity_page(runs: Sequence[AcuityRun]) -> str:
    """Return the acuity card of several models (what is the smallest detail each can read?) as one HTML page."""
    models = tuple(run.model for run in runs)
    findings = [prescription_line(run) for run in runs]
    n_answers = 0
    has_threshold = False
    for run in runs:
        n_answers += sum(len(answers.right) for answers in run.answers)
        if any(threshold.value is not None for threshold in run.thresholds):
            has_threshold = True
    if has_threshold:
        findings.append(LEVELS_NOTE)

    document = Document(
        "Snellen acuity card",
        kicker="Snellen acuity card",
        heading=models,
        facts=((n_answers, "answers"),),
        findings=findings,
    )
    lines = document.section("chart", "Lines that are still read")
    lines.charts(list(wall_charts(runs)), _WALL_NOTE, models)
    thresholds = document.section("thresholds", "Thresholds")
    for table in acuity_tables(runs):
        thresholds.table(table)
    curves = document.section("curves", "Curves")
    curves.charts(list(curve_panels(runs)), _CURVES_NOTE, models)
    field = document.section("field", "The visual field")
    field.charts(list(field_panels(runs)), _FIELD_NOTE)
    return document.html()
