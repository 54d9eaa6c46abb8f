"""The acuity card: what each model still sees, as a sentence, a wall chart, curves and a map of the visual field."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.analysis.statistics import wilson
from snellen.psychometrics.acuity_run import AcuityRun
from snellen.psychometrics.thresholds import PlaceShare, Threshold
from snellen.report.acuity_charts import curve_panels, field_panels, wall_charts
from snellen.report.acuity_tables import acuity_tables
from snellen.report.content import Block, ChartBlock, Head, Section, TableBlock
from snellen.report.rendering import offline_document
from snellen.report.table import percent

CHANCE = 0.25
"""Of tests of places."""
_CURVES = (
    "Share of right answers by level, harder to the left. Marks are answers (hollow where there are fewer than three), "
    "lines fitted curves; below stand thresholds with 95 % credible intervals. Dashed is guessing."
)
_FIELD = "A letter of one size at places of the picture: the stronger the colour, the more often it was read."
_WALL = (
    "In pixels of the picture. A model's mark stands at the smallest line whose signs are above its threshold, a "
    "hollow one at the smallest that its input allows."
)


def prescription(run: AcuityRun) -> str:
    """One line: what the model needs, and what it lacks."""
    needs = {each.test.name: each.test.needs for each in run.answers if each.test.needs}
    parts = [_need(needs[each.test], each) for each in run.thresholds if each.test in needs]
    parts += [_field_words(shares) for shares in run.fields.values()]
    parts += [f"{each.test}: does not only rise" for each in run.thresholds if each.notes]
    return "; ".join(filter(None, parts)) + "." if any(parts) else "the tests asked are in the table."


def _need(things: str, threshold: Threshold) -> str:
    if threshold.verdict == "sees all":
        return "sees " + things.format(f"even {threshold.hardest:g}")
    if threshold.verdict == "sees none":
        return "cannot tell " + things.format(f"even {threshold.easiest:g}")
    if threshold.value is None:
        return ""
    # Half a width beyond the threshold the curve has nearly reached the model's best.
    scale = threshold.scale
    beyond = scale.level(scale.x(threshold.value) + threshold.slope.value / 2)
    needed = (max if scale.smaller_is_easier else min)(float(f"{beyond:.2g}"), threshold.easiest)
    return f"needs {things.format(f'{needed:g}')} or {'less' if scale.smaller_is_easier else 'more'}"


def _field_words(shares: Sequence[PlaceShare]) -> str:
    """Which quarter of the picture is seen surely less than the best one, by intervals that do not meet."""
    seen, asked = sum(share.right for share in shares), sum(share.asked for share in shares)
    if not asked or wilson(seen / asked, asked)[0] <= CHANCE:
        return "the letter of the visual field is too small for it" if asked else ""
    side = max(share.place for share in shares) ** 0.5 // 1 + 1
    quarters: dict[str, list[PlaceShare]] = {}
    for share in shares:
        row, column = divmod(share.place, side)
        name = f"{('top', 'bottom')[int(2 * row // side)]} {('left', 'right')[int(2 * column // side)]}"
        quarters.setdefault(name, []).append(share)
    counts = {name: (sum(s.right for s in some), sum(s.asked for s in some)) for name, some in quarters.items()}
    least, *_, most = sorted(counts, key=lambda name: counts[name][0] / counts[name][1])
    (right, among), (best, of) = counts[least], counts[most]
    if wilson(right / among, among)[1] >= wilson(best / of, of)[0]:
        return "sees alike in all quarters of the picture"
    return f"sees least at the {least} ({percent(right / among)})"


def acuity_page(runs: Sequence[AcuityRun]) -> str:
    """The card of several models as one page."""
    names = tuple(run.model for run in runs)
    asked = sum(len(answers.right) for run in runs for answers in run.answers)
    lines = tuple(f"{run.model} {prescription(run)}" for run in runs)
    head = Head("Snellen acuity card", names, facts=((asked, "answers"),), findings=lines)
    curves, fields = tuple(curve_panels(runs)), tuple(field_panels(runs))
    sections = [
        Section("chart", "The line that is still read", _wall_blocks(runs)),
        Section("thresholds", "Thresholds", tuple(TableBlock(table) for table in acuity_tables(runs))),
        Section("curves", "Curves", (ChartBlock(curves, _CURVES, names),) if curves else ()),
        Section("field", "The visual field", (ChartBlock(fields, _FIELD),) if fields else ()),
    ]
    return offline_document("Snellen acuity card", head, sections)


def _wall_blocks(runs: Sequence[AcuityRun]) -> tuple[Block, ...]:
    panels = tuple(wall_charts(runs))
    return (ChartBlock(panels, _WALL, tuple(run.model for run in runs)),) if panels else ()
