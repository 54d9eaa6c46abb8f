"""The report as one page that opens offline and asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files

from snellen.report import svg
from snellen.report.comparison import common_question_tables
from snellen.report.figures import ChartPanel, Figures
from snellen.report.gallery import OUTCOMES, Gallery, choose_gallery
from snellen.report.markup import disclosure, esc, html_table
from snellen.report.request_counts import count_replies, count_tables
from snellen.report.run_view import RunView, benchmarks_of
from snellen.report.sample_card import sample_card
from snellen.report.sections import benchmark_tables, dimension_tables, provenance_tables, slice_tables
from snellen.report.suite_tables import suite_sections
from snellen.report.summary import summary
from snellen.report.table import Table

RADAR_NOTE = "From the middle, 0%, to the rim, 100%; dotted: guessing."

METRIC_NOTE = "What else was measured, each on the axis of its own unit; whiskers are 95% intervals."


def page(sheets: Sequence[RunView]) -> str:
    """The whole page. The policy in its head allows its own style and script and nothing else."""
    style, script = _asset("report.css"), _asset("report.js")
    gallery, draw = choose_gallery(sheets), Figures(sheets)
    sections = [
        ("summary", "Summary", html_table(summary(sheets), "matrix summary")),
        ("common", "Common", _tables(common_question_tables(sheets))),
        *_chart_sections(sheets, draw),
        ("samples", "Samples", _samples(sheets, gallery)),
        ("counts", "Counts", _counts(sheets, draw)),
        ("provenance", "Provenance", _tables(provenance_tables(sheets))),
    ]
    shown = [(name, title, inner) for name, title, inner in sections if inner]
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in shown)
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{title}</h2>\n{inner}\n</section>'
        for name, title, inner in shown
    )
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{esc(_title(sheets))}</title>\n<style>{style}</style></head>\n<body>\n"
        f'<a class="skip" href="#summary">Skip to the summary</a>\n<header class="top">{_head(sheets)}</header>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n{body}\n</main>\n'
        f'<script type="application/json" id="pictures">{_json(list(gallery.images.values()))}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


def _asset(name: str) -> str:
    return files("snellen.report").joinpath(name).read_text("utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _json(content: object) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(content).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _title(sheets: Sequence[RunView]) -> str:
    labels = [sheet.label for sheet in sheets]
    return "Snellen report: " + (", ".join(labels) if len(labels) < 4 else f"{len(labels)} runs")


def _head(sheets: Sequence[RunView]) -> str:
    replies = [one for sheet in sheets for one in count_replies(sheet)]
    facts = [
        (len(sheets), "run" if len(sheets) == 1 else "runs"),
        (len(benchmarks_of(sheets)), "benchmarks"),
        (sum(sheet.run.asked for sheet in sheets), "requests"),
        (sum(sum(one.unparsed.values()) for one in replies), "unparsed replies"),
        (sum(sum(one.errors.values()) for one in replies), "errors"),
    ]
    dates = sorted({sheet.run.manifest.started[:10] for sheet in sheets})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else ""
    shown = "".join(f"<li><b>{count:,}</b> {name}</li>" for count, name in facts)
    return f'<p class="kicker">Snellen report · {esc(when)}</p><h1>{_names(sheets)}</h1><ul class="facts">{shown}</ul>'


def _names(sheets: Sequence[RunView]) -> str:
    names = [f"<bdi>{esc(sheet.label)}</bdi>" for sheet in sheets]
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more"


def _chart_sections(sheets: Sequence[RunView], draw: Figures) -> list[tuple[str, str, str]]:
    legend = _legend(sheets)
    places, golds = draw.place_bars()
    whisker = "Whiskers are 95% intervals; the dashed line is what guessing gives. Point at a mark for its numbers."
    return [
        (
            "dimensions",
            "Dimensions",
            _dimensions(draw, legend, whisker) + _opened(dimension_tables(sheets)),
        ),
        (
            "stability",
            "Stability",
            _figure(
                draw.instability_scatter(),
                legend,
                "A point a model and benchmark. Instability is the entropy of the options chosen when the same "
                "question is put in other words and orders; 0 is a model that never wavers, right or wrong.",
                is_tall=True,
            )
            + _titled(
                "By template",
                _figure(draw.template_bars(), legend, "All presentations of all benchmarks, by the template used."),
            ),
        ),
        (
            "methods",
            "Methods",
            _figure(
                draw.method_scatter(),
                legend,
                "A point a model and benchmark. Above the line the model finds the right option more likely than it "
                "manages to name it.",
                is_tall=True,
            ),
        ),
        (
            "benchmarks",
            "Benchmarks",
            _figure(draw.benchmark_bars(), legend, whisker)
            + _figure(draw.metric_bars(), legend, METRIC_NOTE)
            + _opened(benchmark_tables(sheets)),
        ),
        (
            "parts",
            "Levels",
            _figure(draw.tag_bars(), legend, "Questions of all benchmarks that carry the tag, pooled.")
            + _tables([table for section in suite_sections(sheets) for table in section.tables])
            + _tables(slice_tables(sheets), is_folded=True),
        ),
        (
            "places",
            "Preference",
            _titled(
                "Share of replies that choose a place",
                _figure(places, legend, "A model without a preference chooses each place equally often (dashed)."),
            )
            + _titled("Accuracy by the place of the correct option", _figure(golds, legend, whisker)),
        ),
    ]


def _dimensions(draw: Figures, legend: str, note: str) -> str:
    """The radar with a switch to bars; bars alone when there are fewer than three dimensions."""
    radar, bars = draw.radar(), draw.dimension_bars()
    if not radar:
        return _figure(bars, legend, note)
    return (
        '<div class="views"><input type="radio" name="view" id="view-radar" checked>'
        '<label for="view-radar">Radar</label><input type="radio" name="view" id="view-bars">'
        '<label for="view-bars">Bars with intervals</label>'
        f'<div class="view radar">{_figure(radar, legend, _radar_note(draw))}'
        f'</div><div class="view bars">{_figure(bars, legend, note)}</div></div>'
    )


def _radar_note(draw: Figures) -> str:
    others = [name for name in draw.dimensions if name not in draw.radar_dimensions()]
    return RADAR_NOTE + (f" Not on it, being no shares: {', '.join(others)}." if others else "")


def _figure(panels: Sequence[ChartPanel], legend: str, note: str, *, is_tall: bool = False) -> str:
    """Panels side by side, the note below; beside a single tall one."""
    if not panels:
        return ""
    shown = "".join(
        f'<div class="panel">{f"<h4>{esc(panel.title)}</h4>" if panel.title else ""}{panel.svg}</div>'
        for panel in panels
    )
    kind = ' class="single"' if is_tall and len(panels) == 1 else ""
    return f'<figure{kind}>{legend}<div class="panels">{shown}</div><figcaption>{esc(note)}</figcaption></figure>'


def _titled(title: str, inner: str) -> str:
    return f"<h3>{esc(title)}</h3>{inner}" if inner else ""


def _legend(sheets: Sequence[RunView]) -> str:
    items = "".join(
        f'<li class="{svg.colour(i)}"><svg class="key" viewBox="-6 -6 12 12" aria-hidden="true">{svg.symbol(i, 0, 0)}'
        f"</svg><bdi>{esc(sheet.label)}</bdi></li>"
        for i, sheet in enumerate(sheets)
    )
    return f'<ul class="legend">{items}</ul>'


def _opened(tables: Sequence[Table]) -> str:
    """The first table open, the others folded."""
    return "".join(disclosure(one.title, html_table(one, "matrix"), is_open=i == 0) for i, one in enumerate(tables))


def _tables(tables: Sequence[Table], *, is_folded: bool = False) -> str:
    return "".join(disclosure(one.title, html_table(one, "matrix")) if is_folded else html_table(one) for one in tables)


def _counts(sheets: Sequence[RunView], draw: Figures) -> str:
    return _figure(draw.calls(), "", "Darker: asked, or presented. Lighter: not needed.") + _tables(
        count_tables(sheets)
    )


def _samples(sheets: Sequence[RunView], gallery: Gallery) -> str:
    numbers = {digest: i for i, digest in enumerate(gallery.images)}
    cards = "\n".join(
        sample_card(entry, gallery, sheets[entry.model].label, sheets[entry.model].run.scoring.likelihood_rule, numbers)
        for entry in gallery.entries
    )
    left = ", ".join(f"{count:,} {outcome}" for outcome, count in gallery.left_out.items())
    rest = f"Not shown: {left} (a question under a protocol counts once)." if left else "All questions are shown."
    return (
        f"<p>{len(gallery.entries):,} questions, the wrong ones first; an entry shows the first presentation that "
        f"went as its badge says. {rest}</p>"
        "<noscript><p>Filters and pictures need JavaScript; all else on this page does not.</p></noscript>"
        f'{_filters(sheets, gallery)}<div id="entries">{cards}</div>'
        '<p><button type="button" id="more" hidden>Show more</button></p>'
    )


def _filters(sheets: Sequence[RunView], gallery: Gallery) -> str:
    entries = gallery.entries
    models = [(str(i), sheet.label) for i, sheet in enumerate(sheets)]
    protocols = dict.fromkeys(label for sheet in sheets for label in sheet.run.manifest.protocols)
    outcomes = [outcome for outcome in OUTCOMES if any(entry.outcome == outcome for entry in entries)]
    return (
        '<form id="filters" class="filters" aria-label="Filter samples" hidden>'
        + _select("model", models)
        + _select("benchmark", [(name, name) for name in benchmarks_of(sheets)])
        + _select("protocol", [(name, name) for name in protocols])
        + _select("outcome", [(name, name) for name in outcomes])
        + '<output id="matching" aria-live="polite"></output></form>'
    )


def _select(name: str, choices: Sequence[tuple[str, str]]) -> str:
    options = "".join(f'<option value="{esc(value)}">{esc(shown)}</option>' for value, shown in choices)
    return f'<label>{name} <select name="{name}"><option value="">all</option>{options}</select></label>'
