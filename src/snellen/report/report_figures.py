"""The figures of a report by name, each with its caption: on the page, and as files of their own."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.report.content import ChartBlock
from snellen.report.cost_figures import COST_NOTE, cost_scatters
from snellen.report.drawing import ChartPanel
from snellen.report.figures import ChartDrawer
from snellen.report.heat_figures import HEAT_NOTE, benchmark_heat_maps, dimension_heat_maps
from snellen.report.run_view import RunView

WHISKERS = "One mark per model and row. Whiskers are 95% intervals; the dashed line is what guessing gives."
POINT_AT = "Point at a mark for its numbers."
RADAR = "One outline per model, from 0% in the middle to 100% at the rim; the dotted one is what guessing gives."
TEMPLATES = "One mark per model and template, over all presentations of all benchmarks that used it."
PLACES = "One mark per model and position. A model without a preference chooses each position equally often (dashed)."
METRICS = "One mark per model and benchmark, each metric on an axis in its own unit; whiskers are 95% intervals."
TAGS = "One mark per model and value of the tag, over the questions of all benchmarks that carry it."
REQUESTS = "One bar per run. Darker: requests that were asked, or rotations that were presented; lighter: not needed."
INSTABILITY = (
    "One point per model and benchmark. Instability is the entropy of the options chosen when the same question is put "
    "in other words and orders; 0 is a model that never wavers, right or wrong."
)
METHODS = (
    "One point per model and benchmark. Above the line, the model is right more often by likelihood than by generation."
)


def report_figures(views: Sequence[RunView]) -> dict[str, ChartBlock]:
    """All figures in the order of the page; one without data has no panels."""
    drawer = ChartDrawer(views)
    names = tuple(view.label for view in views)
    missing = [name for name in drawer.dimensions if name not in drawer.radar_dimensions()]
    radar = RADAR + (f" Not shown, because they are not shares: {', '.join(missing)}." if missing else "")
    chosen, right = drawer.position_bars()
    whiskers = f"{WHISKERS} {POINT_AT}"

    def series(panels: Sequence[ChartPanel], caption: str, *, is_tall: bool = False) -> ChartBlock:
        return ChartBlock(tuple(panels), caption, names, is_tall)

    return {
        "radar": series(drawer.radar(), radar),
        "dimensions": series(drawer.dimension_bars(), whiskers),
        "dimension-heat-map": ChartBlock(tuple(dimension_heat_maps(views)), HEAT_NOTE),
        "instability": series(drawer.instability_scatter(), INSTABILITY, is_tall=True),
        "templates": series(drawer.template_bars(), TEMPLATES),
        "methods": series(drawer.method_scatter(), METHODS, is_tall=True),
        "benchmark-heat-map": ChartBlock(tuple(benchmark_heat_maps(views)), HEAT_NOTE),
        "benchmarks": series(drawer.benchmark_bars(), whiskers),
        "metrics": series(drawer.metric_bars(), METRICS),
        "tags": series(drawer.tag_bars(), TAGS),
        "positions-chosen": series(chosen, PLACES),
        "positions-correct": series(right, whiskers),
        "cost": series(cost_scatters(views), COST_NOTE),
        "requests": ChartBlock(tuple(drawer.request_bars()), REQUESTS),
    }
