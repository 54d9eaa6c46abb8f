"""The report as one HTML page that opens offline and requests nothing: what its sections show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from msgspec.structs import replace

from snellen.report.audit_tables import audit_tables
from snellen.report.content import (
    Block,
    ChartBlock,
    Fold,
    Head,
    SamplesBlock,
    Section,
    TableBlock,
    TitledBlock,
    ViewsBlock,
)
from snellen.report.control_tables import control_tables
from snellen.report.cost_tables import cost_tables
from snellen.report.document import offline_document
from snellen.report.figures import report_figures
from snellen.report.findings import findings
from snellen.report.gallery import OUTCOMES, Gallery, choose_gallery
from snellen.report.paired_tables import paired_tables
from snellen.report.paper_tables import beside_papers
from snellen.report.rendering import report_asset
from snellen.report.request_counts import count_tables
from snellen.report.run_view import RunView, benchmarks_of
from snellen.report.sample_card import sample_card
from snellen.report.sections import (
    benchmark_tables,
    common_question_tables,
    convention_tables,
    dimension_tables,
    provenance_tables,
    slice_tables,
)
from snellen.report.sequential_tables import sequential_tables
from snellen.report.suite_tables import suite_sections
from snellen.report.summary import summary
from snellen.report.table import Table
from snellen.report.talk_tables import talk_tables

MOST_NAMES = 6
"""Runs up to which the heading names all."""


SECTIONS: dict[str, tuple[str, str]] = {
    "summary": ("Result", ""),
    "stopped": ("Stopped", "what runs that a rule stopped know of whole benchmarks"),
    "dimensions": ("Dimensions", "one number for each capability"),
    "comparison": ("Comparison", "differences on the same questions, with intervals and p-values; ranks"),
    "benchmarks": ("Benchmarks", "each benchmark under each metric"),
    "parts": ("Parts", "accuracy by level, round and other tags of the questions"),
    "samples": ("Samples", "questions with picture, prompt, reply and right answer"),
    "stability": ("Stability", "the same question in other words and orders"),
    "places": ("Option order", "which places the models choose, and where they are right"),
    "methods": ("Methods", "replies against likelihoods of the options"),
    "controls": ("Controls", "what the pictures are needed for"),
    "talks": ("Steps", "answers that came of several requests"),
    "papers": ("Published", "beside the models of the papers"),
    "conventions": ("Conventions", "by Snellen's rules and as published"),
    "common": ("Common", "the questions that all models answered"),
    "audit": ("Reading error", "how often replies were misread"),
    "cost": ("Cost", "tokens, seconds and prices beside the accuracy"),
    "counts": ("Counts", "requests, and how replies were read"),
    "provenance": ("Provenance", "models, settings and versions"),
}
"""The sections in their order: by anchor, the title and what it is about."""
OPEN = ("dimensions",)
"""The sections that are not folded, besides the first."""


def html_report(views: Sequence[RunView]) -> str:
    """The whole page."""
    gallery = choose_gallery(views)
    return offline_document(
        _title(views),
        _head(views),
        _sections(views, gallery),
        script=report_asset("report.js"),
        pictures=list(gallery.images.values()),
    )


def _title(views: Sequence[RunView]) -> str:
    labels = [view.label for view in views]
    return "Snellen report: " + (", ".join(labels) if len(labels) < 4 else f"{len(labels)} runs")


def _head(views: Sequence[RunView]) -> Head:
    replies = [counts for view in views for counts in view.reply_counts]
    facts = (
        (len(views), "run" if len(views) == 1 else "runs"),
        (len(benchmarks_of(views)), "benchmarks"),
        (sum(view.run.asked for view in views), "requests"),
        (sum(sum(counts.unparsed.values()) for counts in replies), "unparsed replies"),
        (sum(sum(counts.errors.values()) for counts in replies), "errors"),
    )
    dates = sorted({view.run.manifest.started[:10] for view in views})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else ""
    names = tuple(view.label for view in views)
    first_names = names if len(names) <= MOST_NAMES else names[: MOST_NAMES - 1]
    more = "" if first_names == names else f" and {len(names) - len(first_names)} more"
    return Head(f"Snellen report · {when}", first_names, more, facts, tuple(findings(views)))


def _sections(views: Sequence[RunView], gallery: Gallery) -> list[Section]:
    figures = report_figures(views)
    models = {view.label: urlencode({"model": i}) for i, view in enumerate(views)}
    benchmarks = {name: urlencode({"benchmark": name}) for name in benchmarks_of(views)}
    blocks: dict[str, list[Block]] = {
        "summary": [*_charts(figures["headline"]), TableBlock(replace(summary(views), samples=models), "summary")],
        "stopped": _tables(sequential_tables(views)),
        "common": _tables(common_question_tables(views)),
        "conventions": _tables(convention_tables(views)),
        "audit": _tables(audit_tables(views)),
        "comparison": _matrices(paired_tables(views)),
        "controls": _tables(control_tables(views)),
        "talks": _matrices(talk_tables(views)),
        "dimensions": [
            *_views(figures["radar"], figures["dimensions"]),
            *_titled("All models and dimensions", figures["dimension-heat-map"]),
            *_folded(dimension_tables(views)),
        ],
        "stability": [
            *_charts(figures["instability"]),
            *_titled("By template", figures["templates"]),
        ],
        "methods": _charts(figures["methods"]),
        "benchmarks": [
            *_titled("All models and benchmarks", figures["benchmark-heat-map"]),
            *_charts(figures["benchmarks"]),
            *_charts(figures["metrics"]),
            *_folded([replace(table, samples=benchmarks) for table in benchmark_tables(views)]),
        ],
        "parts": [
            *_charts(figures["tags"]),
            *_tables([table for section in suite_sections(views) for table in section.tables]),
            *_folded([replace(table, samples=benchmarks) for table in slice_tables(views)]),
        ],
        "places": [
            *_titled("Share of replies that choose each position", figures["positions-chosen"]),
            *_titled("Accuracy by position of the correct option", figures["positions-correct"]),
        ],
        "papers": _tables(beside_papers(views)),
        "samples": [_samples(views, gallery)],
        "cost": [*_charts(figures["cost"]), *_matrices(cost_tables(views))],
        "counts": [*_charts(figures["requests"]), *_tables(count_tables(views))],
        "provenance": _tables(provenance_tables(views)),
    }
    return [
        Section(anchor, title, tuple(blocks[anchor]), lead, _fold(anchor)) for anchor, (title, lead) in SECTIONS.items()
    ]


def _fold(anchor: str) -> Fold:
    return "none" if anchor == "summary" else "open" if anchor in OPEN else "folded"


def _charts(figure: ChartBlock) -> list[Block]:
    return [figure] if figure.panels else []


def _views(radar: ChartBlock, bars: ChartBlock) -> list[Block]:
    """The radar with a switch to bars; bars only when there are fewer than three dimensions."""
    return [ViewsBlock(radar, bars)] if radar.panels else _charts(bars)


def _titled(title: str, figure: ChartBlock) -> list[Block]:
    return [TitledBlock(title, (figure,))] if figure.panels else []


def _folded(tables: Sequence[Table]) -> list[Block]:
    return [TableBlock(table, "matrix", "folded") for table in tables]


def _tables(tables: Sequence[Table]) -> list[Block]:
    return [TableBlock(table) for table in tables]


def _matrices(tables: Sequence[Table]) -> list[Block]:
    return [TableBlock(table, "matrix") for table in tables]


def _samples(views: Sequence[RunView], gallery: Gallery) -> SamplesBlock:
    numbers = {digest: i for i, digest in enumerate(gallery.images)}
    outcomes = [outcome for outcome in OUTCOMES if any(entry.outcome == outcome for entry in gallery.entries)]
    choices = {
        "model": [(str(i), view.label) for i, view in enumerate(views)],
        "benchmark": _same(benchmarks_of(views)),
        "protocol": _same(dict.fromkeys(label for view in views for label in view.run.manifest.protocols)),
        "outcome": _same(outcomes),
    }
    return SamplesBlock(
        tuple(sample_card(entry, gallery, views[entry.model].label, numbers) for entry in gallery.entries),
        tuple((name, tuple(offered)) for name, offered in choices.items()),
        tuple(gallery.left_out.items()),
    )


def _same(values: Iterable[str]) -> list[tuple[str, str]]:
    """Choices whose words are their values."""
    return [(value, value) for value in values]
