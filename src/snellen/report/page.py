"""The report as one HTML page that opens offline and requests nothing; reports and comparisons as files of any form."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_type_hints
from urllib.parse import urlencode

import msgspec
from msgspec.structs import asdict, replace

from snellen.analysis.paired.differences import Comparison, flat_difference
from snellen.formats.shown_text import csv_table
from snellen.formats.whole_files import write_in_form
from snellen.records import Estimate, Result
from snellen.report.content import (
    Block,
    ChartBlock,
    Fold,
    Head,
    Kind,
    SamplesBlock,
    Section,
    SentencesBlock,
    TableBlock,
    TitledBlock,
    ViewsBlock,
)
from snellen.report.figures import report_figures
from snellen.report.findings import findings
from snellen.report.markdown import markdown_report, markdown_tables
from snellen.report.paired_tables import compare_views, standard_comparison, tables_of
from snellen.report.paper_files import latex_report
from snellen.report.rendering import offline_document, report_asset
from snellen.report.report_section import ReportSection
from snellen.report.report_tables import report_sections
from snellen.report.run_view import (
    RunView,
    benchmarks_of,
    count_once,
    method_rows,
    run_views,
    was_asked,
)
from snellen.report.sample_cards import sample_card
from snellen.report.samples import OUTCOMES, Gallery, choose_gallery
from snellen.report.table import FOLDED
from snellen.scoring.scored_run import ScoredRun, flat_row

MOST_NAMES = 6
"""Runs up to which the heading names all."""


FIGURES = {
    "summary": (("", "headline"),),
    "stability": (("", "instability"), ("By template", "templates")),
    "methods": (("", "methods"),),
    "benchmarks": (
        ("All models and benchmarks", "benchmark-heat-map"),
        ("", "benchmarks"),
        ("", "metrics"),
    ),
    "parts": (("", "tags"),),
    "places": (
        ("Share of replies that choose each letter", "positions-chosen"),
        ("Accuracy by letter of the right answer", "positions-correct"),
    ),
    "controls": (("", "doses"),),
    "cost": (("", "cost"),),
}
"""The figures above the tables of a section, each with its heading, besides those of dimensions."""
FOLDED_TABLES = ("dimensions", "parts")
"""The sections whose tables are folded, each under its title."""
FOLDS: dict[str, Fold] = {"summary": "none", "dimensions": "open"}
"""How sections are at first, those aside that are folded."""


def html_report(views: Sequence[RunView], further: Sequence[ReportSection] = ()) -> str:
    """The whole page."""
    gallery, comparisons = choose_gallery(views), compare_views(views)
    sentences = findings(views, standard_comparison(comparisons))
    return offline_document(
        _title(views),
        _head(views, sentences),
        _sections(views, gallery, sentences[1:], report_sections(comparisons, further)),
        script=report_asset("report.js"),
        pictures=list(gallery.images.values()),
    )


def _title(views: Sequence[RunView]) -> str:
    labels = [view.label for view in views]
    return "Snellen report: " + (", ".join(labels) if len(labels) < 4 else f"{len(labels)} runs")


def _head(views: Sequence[RunView], sentences: Sequence[str]) -> Head:
    totals = [count_once(view.run) for view in views]
    every = benchmarks_of(views)
    asked = {
        scored.spec.name for view in views for scored in view.run.benchmarks if was_asked(scored)
    }
    replies = sum(each.with_options for each in totals)
    of_all = f"of {len(every)} " if len(asked) < len(every) else ""
    facts = (
        (len(views), "run" if len(views) == 1 else "runs"),
        (len(asked), f"{of_all}{'benchmark' if len(every) == 1 else 'benchmarks'} asked"),
        (sum(view.run.asked for view in views), "requests"),
        (
            sum(each.unparsed for each in totals),
            f"of {replies:,} replies to questions with options name none",
        ),
        (sum(view.run.failed for view in views), "requests failed"),
    )
    dates = sorted({view.run.manifest.started[:10] for view in views})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else ""
    names = tuple(view.label for view in views)
    names, more = (names, "") if len(names) <= MOST_NAMES else ((), f"{len(names)} runs")
    return Head(f"Snellen report · {when}", names, more, facts, tuple(sentences[:1]))


def _sections(
    views: Sequence[RunView],
    gallery: Gallery,
    sentences: Sequence[str],
    of_report: Sequence[ReportSection],
) -> list[Section]:
    figures = report_figures(views)
    samples = {name: urlencode({"benchmark": name}) for name in benchmarks_of(views)}
    samples |= {view.label: urlencode({"model": place}) for place, view in enumerate(views)}
    sections = []
    for section in of_report:
        anchor = section.anchor
        blocks: list[Block] = [_samples(views, gallery)] if anchor == "samples" else []
        if anchor == "dimensions":
            blocks += _dimension_figures(figures)
        for heading, name in FIGURES.get(anchor, ()):
            blocks += _figure(heading, figures[name])
        if anchor == "summary":
            blocks.append(SentencesBlock(tuple(sentences)))
        kind: Kind = "summary" if anchor == "summary" else "matrix"
        fold: Fold = "folded" if anchor in FOLDED_TABLES else "none"
        shown = (
            _best_first(views)
            if anchor == "summary" and len(method_rows(views)) > FOLDED
            else views
        )
        blocks += [
            TableBlock(replace(table, samples=samples), kind, fold)
            for table in section.tables(shown)
        ]
        sections.append(
            Section(anchor, section.title, tuple(blocks), section.lead, FOLDS.get(anchor, "folded"))
        )
    return sections


def _best_first(views: Sequence[RunView]) -> list[RunView]:
    """As the chart above has them: the first rows of a long table are those that are seen."""

    def merit(view: RunView) -> float:
        numbers = [line.headline for line in view.method_rows]
        return max((number.estimate.value or 0.0 for number in numbers if number), default=0.0)

    return sorted(views, key=merit, reverse=True)


def _figure(heading: str, figure: ChartBlock) -> list[Block]:
    if not figure.panels:
        return []
    return [TitledBlock(heading, (figure,)) if heading else figure]


def _dimension_figures(figures: Mapping[str, ChartBlock]) -> list[Block]:
    """The radar with a switch to bars, or bars alone if there are few dimensions; the heat map."""
    radar, bars = figures["radar"], figures["dimensions"]
    both: list[Block] = [ViewsBlock(radar, bars)] if radar.panels else _figure("", bars)
    return [*both, *_figure("All models and dimensions", figures["dimension-heat-map"])]


def _samples(views: Sequence[RunView], gallery: Gallery) -> SamplesBlock:
    numbers = {digest: i for i, digest in enumerate(gallery.images)}
    outcomes = [
        outcome
        for outcome in OUTCOMES
        if any(entry.outcome == outcome for entry in gallery.entries)
    ]
    choices = {
        "model": [(str(i), view.label) for i, view in enumerate(views)],
        "benchmark": _same(benchmarks_of(views)),
        "protocol": _same(
            dict.fromkeys(label for view in views for label in view.run.manifest.protocols)
        ),
        "outcome": _same(outcomes),
    }
    return SamplesBlock(
        tuple(
            sample_card(entry, gallery, views[entry.model].label, numbers)
            for entry in gallery.entries
        ),
        tuple((name, tuple(offered)) for name, offered in choices.items()),
        tuple(gallery.left_out.items()),
    )


def _same(values: Iterable[str]) -> list[tuple[str, str]]:
    """Choices whose words are their values."""
    return [(value, value) for value in values]


# --- files -----------------------------------------------------------------------------------------------------------


def write_report(
    runs: Sequence[ScoredRun],
    rows: Sequence[Result],
    path: Path,
    further: Sequence[ReportSection] = (),
) -> Path:
    """Write the report of `runs`, whose results are `rows`, and return its path.

    `.html` is one self-contained page, `.md` and `.tex` its tables, `.csv`, `.json` and `.parquet` all rows. `further`
    sections are added to the first three.

    Raises:
        DataError: The suffix is another one.
        StoreError: The file cannot be written.
    """
    forms: dict[str, Callable[[Sequence[RunView]], str | bytes]] = {
        ".html": partial(html_report, further=further),
        ".md": partial(markdown_report, further=further),
        ".tex": partial(latex_report, further=further),
        ".csv": csv_report,
        ".json": json_report,
        ".parquet": parquet_report,
    }
    return write_in_form(path, "a report", run_views(runs, rows), forms)


def csv_report(views: Sequence[RunView]) -> str:
    """All rows as CSV."""
    return csv_table([flat_row(row) for view in views for row in view.rows])


def json_report(views: Sequence[RunView]) -> str:
    """All rows as a JSON list, as in a run's `results.json`."""
    return (
        json.dumps(
            [flat_row(row) for view in views for row in view.rows], indent=1, ensure_ascii=False
        )
        + "\n"
    )


def parquet_report(views: Sequence[RunView]) -> bytes:
    """All rows as Parquet, with the columns of the CSV."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = {int: pa.int64(), float | None: pa.float64()}
    kinds = {name: arrow[kind] for name, kind in get_type_hints(Estimate).items()}
    names = [
        *(name for name in Result.__struct_fields__ if name != "estimate"),
        *Estimate.__struct_fields__,
    ]
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    rows = [flat_row(row) for view in views for row in view.rows]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), file)
    return file.getvalue()


# --- comparisons -----------------------------------------------------------------------------------------------------


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write a comparison and return its path.

    `.md` holds its tables, `.csv` one row per difference, `.json` everything, the questions that flipped included. All
    have the differences in circular accuracy where headlines were compared.
    Raises DataError for another suffix, StoreError when the file cannot be written.
    """
    advice = "`snellen report` shows it in an HTML page"
    return write_in_form(path, "a comparison", comparison, COMPARISON_FORMS, advice)


def _csv(comparison: Comparison) -> str:
    return csv_table([flat_difference(difference) for difference in comparison.rows])


def _markdown(comparison: Comparison) -> str:
    return "\n".join(["# Snellen comparison", "", *markdown_tables(tables_of(comparison), 2)])


def _json(comparison: Comparison) -> str:
    fields = {**asdict(comparison), "differences": comparison.rows}
    del fields["circular"]
    return msgspec.json.format(msgspec.json.encode(fields), indent=1).decode() + "\n"


COMPARISON_FORMS: dict[str, Callable[[Comparison], str]] = {
    ".md": _markdown,
    ".csv": _csv,
    ".json": _json,
}
