"""The figures of a report by name, each with its caption: on the page, and as files of their own."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.report.chart_drawer import ChartDrawer
from snellen.report.content import ChartBlock
from snellen.report.cost_scatter import COST_NOTE, cost_scatters
from snellen.report.degradation_tables import DOSE_CAPTION, dose_panels
from snellen.report.drawing import ChartPanel
from snellen.report.heat_map_figures import HEAT_NOTE, benchmark_heat_maps, dimension_heat_maps
from snellen.report.number_text import dimension_title
from snellen.report.reported_runs import ReportedRun
from snellen.report.training_curves import TRAINING_CAPTION, training_panels, trainings

HEADLINE_CAPTION = "One row per model: its mark, its 95% interval and its value over all benchmarks; the dashed line is chance."
WHISKERS_CAPTION = (
    "One mark per model and row. Whiskers are 95% intervals; the dashed line is chance."
)
POINT_AT_MARK_HINT = "Point at a mark for its numbers."
RADAR_CAPTION = (
    "One outline per model, from 0% in the centre to 100% at the rim; the dotted outline is chance."
)
TEMPLATES_CAPTION = "One mark per model and prompt template, over all presentations in all benchmarks that use the template."
POSITIONS_CAPTION = "One mark per model and letter. A model without position bias chooses all letters equally often (dashed)."
METRICS_CAPTION = "One mark per model and benchmark; each metric has its own axis and unit. Whiskers are 95% intervals."
TAG_RADAR_CAPTION = "One outline per model, from 0% in the centre to 100% at the rim: the accuracy on all questions with a value of the tag."
TAGS_CAPTION = "One mark per model and value of the tag, over all questions with that value."
INSTABILITY_CAPTION = (
    "One point per model and benchmark. Instability is the entropy of the chosen options when a question is "
    "repeated with other wordings and option orders; 0 means that the model always chooses the same option, "
    "correct or not."
)
METHODS_CAPTION = "One point per model and benchmark. Above the line, likelihood gives a higher accuracy than generation."


def report_figures(reported_runs: Sequence[ReportedRun]) -> dict[str, ChartBlock]:
    """Return all figures in the order of the page. A figure without data has no panels."""
    drawer = ChartDrawer(reported_runs)
    names = tuple(reported_run.label for reported_run in reported_runs)
    radar_caption = RADAR_CAPTION
    shares = drawer.radar_dimensions()
    others = [dimension_title(name) for name in drawer.dimensions if name not in shares]
    if others:
        radar_caption += f" Not shown, because they are not shares: {', '.join(others)}."
    chosen, correct = drawer.position_bars()
    whiskers = f"{WHISKERS_CAPTION} {POINT_AT_MARK_HINT}"

    def of_models(
        panels: Sequence[ChartPanel], caption: str, *, is_tall: bool = False
    ) -> ChartBlock:
        return ChartBlock(tuple(panels), caption, names, is_tall)

    return {
        "headline": ChartBlock(tuple(drawer.headline()), HEADLINE_CAPTION),
        "radar": of_models(drawer.radar(), radar_caption),
        "training": ChartBlock(
            tuple(training_panels(reported_runs)), TRAINING_CAPTION, tuple(trainings(reported_runs))
        ),
        "dimensions": of_models(drawer.dimension_bars(), whiskers),
        "dimension-heat-map": ChartBlock(tuple(dimension_heat_maps(reported_runs)), HEAT_NOTE),
        "instability": of_models(drawer.instability_scatter(), INSTABILITY_CAPTION, is_tall=True),
        "templates": of_models(drawer.template_bars(), TEMPLATES_CAPTION),
        "methods": of_models(drawer.method_scatter(), METHODS_CAPTION, is_tall=True),
        "doses": of_models(tuple(dose_panels(reported_runs)), DOSE_CAPTION),
        "benchmark-heat-map": ChartBlock(tuple(benchmark_heat_maps(reported_runs)), HEAT_NOTE),
        "benchmarks": of_models(drawer.benchmark_bars(), whiskers),
        "metrics": of_models(drawer.metric_bars(), METRICS_CAPTION),
        "tag-radar": of_models(drawer.tag_radar(), TAG_RADAR_CAPTION),
        "tags": of_models(drawer.tag_bars(), TAGS_CAPTION),
        "positions-chosen": of_models(chosen, POSITIONS_CAPTION),
        "positions-correct": of_models(correct, whiskers),
        "cost": of_models(cost_scatters(reported_runs), COST_NOTE),
    }
