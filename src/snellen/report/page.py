"""The report as one HTML page that opens offline and requests nothing."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.report.common_questions import common_question_tables
from snellen.report.control_tables import control_tables
from snellen.report.conventions import convention_tables
from snellen.report.cost_tables import cost_tables
from snellen.report.document import html_charts, html_legend, offline_document, report_asset
from snellen.report.figures import ChartDrawer
from snellen.report.gallery import OUTCOMES, Gallery, choose_gallery
from snellen.report.markup import disclosure, esc, html_table
from snellen.report.offline_page import embedded_json
from snellen.report.paired_tables import paired_tables
from snellen.report.paper_tables import beside_papers
from snellen.report.request_counts import count_replies, count_tables
from snellen.report.run_view import RunView, benchmarks_of
from snellen.report.sample_card import sample_card
from snellen.report.sections import benchmark_tables, dimension_tables, provenance_tables, slice_tables
from snellen.report.suite_tables import suite_sections
from snellen.report.summary import summary
from snellen.report.table import Table
from snellen.report.talk_tables import talk_tables

RADAR_NOTE = "From the middle, 0%, to the rim, 100%; dotted: guessing."

TEMPLATE_NOTE = "All presentations of all benchmarks, grouped by template."
PLACE_NOTE = "A model without a preference chooses each position equally often (dashed)."
METRIC_NOTE = "All other metrics, each on an axis in its own unit; whiskers are 95% intervals."


def html_report(views: Sequence[RunView]) -> str:
    """The whole page."""
    gallery, figures = choose_gallery(views), ChartDrawer(views)
    sections = [
        ("summary", "Summary", html_table(summary(views), "matrix summary")),
        ("common", "Common", _tables(common_question_tables(views))),
        ("conventions", "Conventions", _tables(convention_tables(views))),
        ("comparison", "Comparison", _tables(paired_tables(views))),
        ("controls", "Controls", _tables(control_tables(views))),
        ("talks", "Steps", "".join(html_table(table, "matrix") for table in talk_tables(views))),
        *_chart_sections(views, figures),
        ("papers", "Published", _tables(beside_papers(views))),
        ("samples", "Samples", _samples(views, gallery)),
        ("cost", "Cost", "".join(html_table(table, "matrix") for table in cost_tables(views))),
        ("counts", "Counts", _counts(views, figures)),
        ("provenance", "Provenance", _tables(provenance_tables(views))),
    ]
    pictures = embedded_json("pictures", list(gallery.images.values())) + "\n"
    return offline_document(_title(views), _head(views), sections, script=report_asset("report.js"), content=pictures)


def _title(views: Sequence[RunView]) -> str:
    labels = [view.label for view in views]
    return "Snellen report: " + (", ".join(labels) if len(labels) < 4 else f"{len(labels)} runs")


def _head(views: Sequence[RunView]) -> str:
    replies = [counts for view in views for counts in count_replies(view)]
    facts = [
        (len(views), "run" if len(views) == 1 else "runs"),
        (len(benchmarks_of(views)), "benchmarks"),
        (sum(view.run.asked for view in views), "requests"),
        (sum(sum(counts.unparsed.values()) for counts in replies), "unparsed replies"),
        (sum(sum(counts.errors.values()) for counts in replies), "errors"),
    ]
    dates = sorted({view.run.manifest.started[:10] for view in views})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else ""
    items = "".join(f"<li><b>{count:,}</b> {name}</li>" for count, name in facts)
    return f'<p class="kicker">Snellen report · {esc(when)}</p><h1>{_names(views)}</h1><ul class="facts">{items}</ul>'


def _names(views: Sequence[RunView]) -> str:
    names = [f"<bdi>{esc(view.label)}</bdi>" for view in views]
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more"


def _chart_sections(views: Sequence[RunView], figures: ChartDrawer) -> list[tuple[str, str, str]]:
    legend = html_legend([view.label for view in views])
    places, golds = figures.position_bars()
    whisker = "Whiskers are 95% intervals; the dashed line is what guessing gives. Point at a mark for its numbers."
    return [
        (
            "dimensions",
            "Dimensions",
            _dimensions(figures, legend, whisker) + _opened(dimension_tables(views)),
        ),
        (
            "stability",
            "Stability",
            html_charts(
                figures.instability_scatter(),
                legend,
                "One point per model and benchmark. Instability is the entropy of the options chosen when the same "
                "question is put in other words and orders; 0 is a model that never wavers, right or wrong.",
                is_tall=True,
            )
            + _titled(
                "By template",
                html_charts(figures.template_bars(), legend, TEMPLATE_NOTE),
            ),
        ),
        (
            "methods",
            "Methods",
            html_charts(
                figures.method_scatter(),
                legend,
                "One point per model and benchmark. Above the line, the model is right more often by likelihood than "
                "by generation.",
                is_tall=True,
            ),
        ),
        (
            "benchmarks",
            "Benchmarks",
            html_charts(figures.benchmark_bars(), legend, whisker)
            + html_charts(figures.metric_bars(), legend, METRIC_NOTE)
            + _opened(benchmark_tables(views)),
        ),
        (
            "parts",
            "Levels",
            html_charts(figures.tag_bars(), legend, "Questions of all benchmarks that carry the tag, pooled.")
            + _tables([table for section in suite_sections(views) for table in section.tables])
            + _tables(slice_tables(views), is_folded=True),
        ),
        (
            "places",
            "Preference",
            _titled(
                "Share of replies that choose each position",
                html_charts(places, legend, PLACE_NOTE),
            )
            + _titled("Accuracy by position of the correct option", html_charts(golds, legend, whisker)),
        ),
    ]


def _dimensions(figures: ChartDrawer, legend: str, note: str) -> str:
    """The radar with a switch to bars; bars only when there are fewer than three dimensions."""
    radar, bars = figures.radar(), figures.dimension_bars()
    if not radar:
        return html_charts(bars, legend, note)
    return (
        '<div class="views"><input type="radio" name="view" id="view-radar" checked>'
        '<label for="view-radar">Radar</label><input type="radio" name="view" id="view-bars">'
        '<label for="view-bars">Bars with intervals</label>'
        f'<div class="view radar">{html_charts(radar, legend, _radar_note(figures))}'
        f'</div><div class="view bars">{html_charts(bars, legend, note)}</div></div>'
    )


def _radar_note(figures: ChartDrawer) -> str:
    missing = [name for name in figures.dimensions if name not in figures.radar_dimensions()]
    return RADAR_NOTE + (f" Not shown, because they are not shares: {', '.join(missing)}." if missing else "")


def _titled(title: str, inner: str) -> str:
    return f"<h3>{esc(title)}</h3>{inner}" if inner else ""


def _opened(tables: Sequence[Table]) -> str:
    """The first table open, the others folded."""
    return "".join(
        disclosure(table.title, html_table(table, "matrix"), is_open=i == 0) for i, table in enumerate(tables)
    )


def _tables(tables: Sequence[Table], *, is_folded: bool = False) -> str:
    return "".join(
        disclosure(table.title, html_table(table, "matrix")) if is_folded else html_table(table) for table in tables
    )


def _counts(views: Sequence[RunView], figures: ChartDrawer) -> str:
    return html_charts(figures.request_bars(), "", "Darker: asked, or presented. Lighter: not needed.") + _tables(
        count_tables(views)
    )


def _samples(views: Sequence[RunView], gallery: Gallery) -> str:
    numbers = {digest: i for i, digest in enumerate(gallery.images)}
    cards = "\n".join(sample_card(entry, gallery, views[entry.model].label, numbers) for entry in gallery.entries)
    excluded = ", ".join(f"{count:,} {outcome}" for outcome, count in gallery.left_out.items())
    note = f"Not shown: {excluded} (a question counts once per protocol)." if excluded else "All questions are shown."
    return (
        f"<p>{len(gallery.entries):,} questions, the wrong ones first; an entry shows the first presentation with the "
        f"outcome on its badge. {note}</p>"
        "<noscript><p>Filters and pictures need JavaScript; the rest of this page works without it.</p></noscript>"
        f'{_filters(views, gallery)}<div id="entries">{cards}</div>'
        '<p><button type="button" id="more" hidden>Show more</button></p>'
    )


def _filters(views: Sequence[RunView], gallery: Gallery) -> str:
    entries = gallery.entries
    models = [(str(i), view.label) for i, view in enumerate(views)]
    protocols = dict.fromkeys(label for view in views for label in view.run.manifest.protocols)
    outcomes = [outcome for outcome in OUTCOMES if any(entry.outcome == outcome for entry in entries)]
    return (
        '<form id="filters" class="filters" aria-label="Filter samples" hidden>'
        + _select("model", models)
        + _select("benchmark", [(name, name) for name in benchmarks_of(views)])
        + _select("protocol", [(name, name) for name in protocols])
        + _select("outcome", [(name, name) for name in outcomes])
        + '<output id="matching" aria-live="polite"></output></form>'
    )


def _select(name: str, choices: Sequence[tuple[str, str]]) -> str:
    options = "".join(f'<option value="{esc(value)}">{esc(text)}</option>' for value, text in choices)
    return f'<label>{name} <select name="{name}"><option value="">all</option>{options}</select></label>'
