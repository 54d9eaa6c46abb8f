"""The report as one HTML page that opens offline and requests nothing: what its sections show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

from msgspec.structs import replace

from snellen.report.content import (
    Block,
    ChartBlock,
    Fold,
    Head,
    Kind,
    SamplesBlock,
    Section,
    TableBlock,
    TitledBlock,
    ViewsBlock,
)
from snellen.report.document import offline_document
from snellen.report.figures import report_figures
from snellen.report.findings import findings
from snellen.report.gallery import OUTCOMES, Gallery, choose_gallery
from snellen.report.rendering import report_asset
from snellen.report.report_tables import SECTIONS
from snellen.report.run_view import RunView, benchmarks_of
from snellen.report.sample_card import sample_card

MOST_NAMES = 6
"""Runs up to which the heading names all."""


FIGURES = {
    "summary": (("", "headline"),),
    "stability": (("", "instability"), ("By template", "templates")),
    "methods": (("", "methods"),),
    "benchmarks": (("All models and benchmarks", "benchmark-heat-map"), ("", "benchmarks"), ("", "metrics")),
    "parts": (("", "tags"),),
    "places": (
        ("Share of replies that choose each position", "positions-chosen"),
        ("Accuracy by position of the correct option", "positions-correct"),
    ),
    "cost": (("", "cost"),),
    "counts": (("", "requests"),),
}
"""The figures above the tables of a section, each with its heading, besides those of dimensions."""
FOLDED_TABLES = ("dimensions", "benchmarks", "parts")
"""The sections whose tables are folded, each under its title."""
FOLDS: dict[str, Fold] = {"summary": "none", "dimensions": "open"}
"""How sections are at first, those aside that are folded."""


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
    names, more = (names, "") if len(names) <= MOST_NAMES else ((), f"{len(names)} runs")
    return Head(f"Snellen report · {when}", names, more, facts, tuple(findings(views)))


def _sections(views: Sequence[RunView], gallery: Gallery) -> list[Section]:
    figures = report_figures(views)
    samples = {name: urlencode({"benchmark": name}) for name in benchmarks_of(views)}
    samples |= {view.label: urlencode({"model": place}) for place, view in enumerate(views)}
    sections = []
    for section in SECTIONS:
        anchor = section.anchor
        blocks: list[Block] = [_samples(views, gallery)] if anchor == "samples" else []
        if anchor == "dimensions":
            blocks += _dimension_figures(figures)
        for heading, name in FIGURES.get(anchor, ()):
            blocks += _figure(heading, figures[name])
        kind: Kind = "summary" if anchor == "summary" else "matrix"
        fold: Fold = "folded" if anchor in FOLDED_TABLES else "none"
        blocks += [TableBlock(replace(table, samples=samples), kind, fold) for table in section.tables(views)]
        sections.append(Section(anchor, section.title, tuple(blocks), section.lead, FOLDS.get(anchor, "folded")))
    return sections


def _figure(heading: str, figure: ChartBlock) -> list[Block]:
    if not figure.panels:
        return []
    return [TitledBlock(heading, (figure,)) if heading else figure]


def _dimension_figures(figures: Mapping[str, ChartBlock]) -> list[Block]:
    """The radar with a switch to bars; bars only when there are fewer than three dimensions; the heat map."""
    radar, bars = figures["radar"], figures["dimensions"]
    both: list[Block] = [ViewsBlock(radar, bars)] if radar.panels else _figure("", bars)
    return [*both, *_figure("All models and dimensions", figures["dimension-heat-map"])]


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
