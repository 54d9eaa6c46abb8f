"""Reports and comparisons as files, among them one self-contained HTML page."""

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
from snellen.building.kept_sources import check_overwrites_no_source
from snellen.formats.shown_text import csv_table
from snellen.formats.whole_files import write_in_form
from snellen.records import Estimate, Result
from snellen.report.content import (
    ChartBlock,
    Fold,
    Kind,
    PageBlock,
    PageHead,
    PageSection,
    RadarOrBarsBlock,
    SamplesBlock,
    SentencesBlock,
    TableBlock,
    TitledBlock,
)
from snellen.report.figures import report_figures
from snellen.report.findings import findings
from snellen.report.latex import latex_report
from snellen.report.markdown import markdown_report, markdown_tables
from snellen.report.page_table import ROWS_BEFORE_FOLD
from snellen.report.paired_tables import compare_reported_runs, standard_comparison, tables_of
from snellen.report.rendering import offline_document, report_asset
from snellen.report.report_section import ReportSection
from snellen.report.report_tables import report_sections
from snellen.report.reported_runs import (
    ReportedRun,
    benchmarks_of,
    count_distinct_replies,
    has_predictions,
    method_rows,
    prepare_reported_runs,
)
from snellen.report.sample_cards import sample_card
from snellen.report.samples import OUTCOMES, Gallery, choose_gallery
from snellen.scoring.scored_run import ScoredRun, flat_row

MAX_HEADING_NAMES = 6
"""Greatest number of runs that the heading names."""


FIGURES_BY_SECTION = {
    "summary": (("", "headline"),),
    "training": (("", "training"),),
    "stability": (("", "instability"), ("By template", "templates")),
    "methods": (("", "methods"),),
    "benchmarks": (
        ("All models and benchmarks", "benchmark-heat-map"),
        ("", "benchmarks"),
        ("", "metrics"),
    ),
    "parts": (("", "tag-radar"), ("", "tags")),
    "places": (
        ("Share of replies that choose each letter", "positions-chosen"),
        ("Accuracy by letter of the correct answer", "positions-correct"),
    ),
    "controls": (("", "doses"),),
    "cost": (("", "cost"),),
}
"""Figures above the tables of each section, with their headings. `_dimension_figures` adds those of dimensions."""
SECTIONS_WITH_FOLDED_TABLES = ("dimensions", "parts")
"""Sections whose tables are folded, each under its title."""
FOLD_BY_SECTION: dict[str, Fold] = {"summary": "none", "dimensions": "open", "training": "open"}
"""Initial state of the sections that are not folded."""


def html_report(reported_runs: Sequence[ReportedRun], further: Sequence[ReportSection] = ()) -> str:
    """Return the page as HTML."""
    gallery = choose_gallery(reported_runs)
    comparisons = compare_reported_runs(reported_runs)
    sentences = findings(reported_runs, standard_comparison(comparisons))
    return offline_document(
        _title(reported_runs),
        _head(reported_runs, sentences),
        _sections(reported_runs, gallery, sentences[1:], report_sections(comparisons, further)),
        script=report_asset("report.js"),
        pictures=list(gallery.images.values()),
    )


def _title(reported_runs: Sequence[ReportedRun]) -> str:
    """Return the title of a report: the labels of its runs, or their number if there are four or more."""
    labels = [reported_run.label for reported_run in reported_runs]
    if len(labels) < 4:
        return "Snellen report: " + ", ".join(labels)
    return f"Snellen report: {len(labels)} runs"


def _head(reported_runs: Sequence[ReportedRun], sentences: Sequence[str]) -> PageHead:
    """Return the top of a report page: title with dates, names of the models, some counts, and the first finding.

    If there are many runs, their number replaces the names.
    """
    dates = sorted({reported_run.run.manifest.started[:10] for reported_run in reported_runs})
    period = ""
    if len(dates) == 1:
        period = dates[0]
    elif dates:
        period = f"{dates[0]} to {dates[-1]}"

    names = tuple(reported_run.label for reported_run in reported_runs)
    count_text = ""
    if len(names) > MAX_HEADING_NAMES:
        count_text = f"{len(names)} runs"
        names = ()
    facts = _head_facts(reported_runs)
    return PageHead(
        kicker=f"Snellen report · {period}",
        names=names,
        more=count_text,
        facts=facts,
        findings=tuple(sentences[:1]),
    )


def _head_facts(reported_runs: Sequence[ReportedRun]) -> tuple[tuple[int, str], ...]:
    """Return the counts at the top of a report page, as pairs of a number and the text after it: (120, "requests")."""
    benchmarks = benchmarks_of(reported_runs)
    evaluated: set[str] = set()
    for reported_run in reported_runs:
        evaluated.update(
            scored.spec.name for scored in reported_run.run.benchmarks if has_predictions(scored)
        )
    benchmarks_text = "benchmark" if len(benchmarks) == 1 else "benchmarks"
    if len(evaluated) < len(benchmarks):
        benchmarks_text = f"of {len(benchmarks)} {benchmarks_text}"

    totals = [count_distinct_replies(reported_run.run) for reported_run in reported_runs]
    replies = sum(total.with_options for total in totals)
    unparsed = sum(total.unparsed for total in totals)
    return (
        (len(reported_runs), "run" if len(reported_runs) == 1 else "runs"),
        (len(evaluated), f"{benchmarks_text} evaluated"),
        (sum(reported_run.run.distinct_requests for reported_run in reported_runs), "requests"),
        (unparsed, f"of {replies:,} replies to multiple-choice questions could not be parsed"),
        (sum(reported_run.run.failed for reported_run in reported_runs), "requests failed"),
    )


def _sections(
    reported_runs: Sequence[ReportedRun],
    gallery: Gallery,
    sentences: Sequence[str],
    shown_sections: Sequence[ReportSection],
) -> list[PageSection]:
    """Return the sections of a report page, each with its charts, tables and sample questions.

    Args:
        reported_runs: The runs.
        gallery: The sample questions.
        sentences: The findings, for the summary.
        shown_sections: Which sections the report has, in their order.
    """
    figures = report_figures(reported_runs)
    sample_queries = {name: urlencode({"benchmark": name}) for name in benchmarks_of(reported_runs)}
    for index, reported_run in enumerate(reported_runs):
        sample_queries[reported_run.label] = urlencode({"model": index})

    sections: list[PageSection] = []
    for section in shown_sections:
        anchor = section.anchor
        blocks: list[PageBlock] = []
        if anchor == "samples":
            blocks.append(_samples(reported_runs, gallery))
        if anchor == "dimensions":
            blocks += _dimension_figures(figures)
        for heading, name in FIGURES_BY_SECTION.get(anchor, ()):
            blocks += _figure(heading, figures[name])

        table_kind: Kind = "matrix"
        table_views = reported_runs
        if anchor == "summary":
            blocks.append(SentencesBlock(tuple(sentences)))
            table_kind = "summary"
            if len(method_rows(reported_runs)) > ROWS_BEFORE_FOLD:
                table_views = _best_first(reported_runs)
        table_fold: Fold = "folded" if anchor in SECTIONS_WITH_FOLDED_TABLES else "none"
        for table in section.tables(table_views):
            linked = replace(table, samples=sample_queries)
            blocks.append(TableBlock(linked, table_kind, table_fold))
        fold = FOLD_BY_SECTION.get(anchor, "folded")
        sections.append(
            PageSection(
                anchor=anchor,
                title=section.title,
                blocks=tuple(blocks),
                lead=section.lead,
                fold=fold,
            )
        )
    return sections


def _best_first(reported_runs: Sequence[ReportedRun]) -> list[ReportedRun]:
    """Sort runs by their best headline number, the highest first, because a long table shows only its first rows."""

    def best_headline(reported_run: ReportedRun) -> float:
        headlines = [model_row.headline for model_row in reported_run.method_rows]
        values = [headline.estimate.value or 0.0 for headline in headlines if headline]
        return max(values, default=0.0)

    return sorted(reported_runs, key=best_headline, reverse=True)


def _figure(heading: str, figure: ChartBlock) -> list[PageBlock]:
    if not figure.panels:
        return []
    return [TitledBlock(heading, (figure,)) if heading else figure]


def _dimension_figures(figures: Mapping[str, ChartBlock]) -> list[PageBlock]:
    """Return the radar with a switch to bars, or bars alone if there are few dimensions; then the heat map."""
    radar = figures["radar"]
    bars = figures["dimensions"]
    blocks: list[PageBlock] = []
    if radar.panels:
        blocks.append(RadarOrBarsBlock(radar, bars))
    else:
        blocks += _figure("", bars)
    blocks += _figure("All models and dimensions", figures["dimension-heat-map"])
    return blocks


def _samples(reported_runs: Sequence[ReportedRun], gallery: Gallery) -> SamplesBlock:
    """Return the part of a report page with sample questions, and the values of its filters (model, benchmark and others)."""
    image_numbers = {digest: number for number, digest in enumerate(gallery.images)}
    cards = [
        sample_card(entry, gallery, reported_runs[entry.model].label, image_numbers)
        for entry in gallery.entries
    ]

    models = tuple(
        (str(index), reported_run.label) for index, reported_run in enumerate(reported_runs)
    )
    protocols: dict[str, None] = {}
    for reported_run in reported_runs:
        protocols.update(dict.fromkeys(reported_run.run.manifest.protocols))
    entry_outcomes = {entry.outcome for entry in gallery.entries}
    outcomes = [outcome for outcome in OUTCOMES if outcome in entry_outcomes]
    choices = (
        ("model", models),
        ("benchmark", _as_choices(benchmarks_of(reported_runs))),
        ("protocol", _as_choices(protocols)),
        ("outcome", _as_choices(outcomes)),
    )
    return SamplesBlock(tuple(cards), choices, tuple(gallery.left_out.items()))


def _as_choices(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return choices of a menu, each with its value as text."""
    return tuple((value, value) for value in values)


# --- files -----------------------------------------------------------------------------------------------------------


def write_report(
    runs: Sequence[ScoredRun],
    rows: Sequence[Result],
    path: Path,
    further: Sequence[ReportSection] = (),
) -> Path:
    """Write the report of some runs.

    Args:
        runs: The runs.
        rows: Their results.
        path: File to write. `.html` is one self-contained page, `.md` and `.tex` have its tables, and `.csv`, `.json`
            and `.parquet` all rows.
        further: Sections to add to the first three forms.

    Returns:
        The path.

    Raises:
        DataError: The path has another suffix, or a benchmark was built from that file.
        StoreError: The file cannot be written.
    """
    check_overwrites_no_source(path)
    forms: dict[str, Callable[[Sequence[ReportedRun]], str | bytes]] = {
        ".html": partial(html_report, further=further),
        ".md": partial(markdown_report, further=further),
        ".tex": partial(latex_report, further=further),
        ".csv": csv_report,
        ".json": json_report,
        ".parquet": parquet_report,
    }
    return write_in_form(path, "a report", prepare_reported_runs(runs, rows), forms)


def csv_report(reported_runs: Sequence[ReportedRun]) -> str:
    """Return all rows as CSV."""
    rows = [flat_row(row) for reported_run in reported_runs for row in reported_run.rows]
    return csv_table(rows)


def json_report(reported_runs: Sequence[ReportedRun]) -> str:
    """Return all rows as a JSON list, as in `results.json` of a run."""
    rows = []
    for reported_run in reported_runs:
        rows.extend(flat_row(row) for row in reported_run.rows)
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def parquet_report(reported_runs: Sequence[ReportedRun]) -> bytes:
    """Return all results of some runs as a Parquet file, with the same columns as the CSV file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [name for name in Result.__struct_fields__ if name != "estimate"]
    names += Estimate.__struct_fields__
    arrow_types = {int: pa.int64(), float | None: pa.float64()}
    estimate_types = get_type_hints(Estimate)
    columns = []
    for name in names:
        arrow_type = pa.string()
        if name in estimate_types:
            arrow_type = arrow_types[estimate_types[name]]
        columns.append((name, arrow_type))

    rows = [flat_row(row) for reported_run in reported_runs for row in reported_run.rows]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), file)
    return file.getvalue()


# --- comparisons -----------------------------------------------------------------------------------------------------


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write a comparison.

    Args:
        comparison: The comparison.
        path: File to write. `.md` has its tables, `.csv` one row per difference, and `.json` everything, including the
            questions that flipped. If headlines were compared, all have the differences in circular accuracy.

    Returns:
        The path.

    Raises:
        DataError: The path has another suffix, or a benchmark was built from that file.
        StoreError: The file cannot be written.
    """
    check_overwrites_no_source(path)
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
