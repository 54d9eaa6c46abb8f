"""One HTML file that opens offline and requests nothing: its frame, its charts and its legend."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from snellen.report.figures import ChartPanel
from snellen.report.markup import esc
from snellen.report.offline_page import page_head
from snellen.report.svg import marker, series_class

DocumentSection = tuple[str, str, str]
"""Its anchor, its title, its HTML."""


def offline_document(
    title: str, header: str, sections: Sequence[DocumentSection], *, script: str = "", content: str = ""
) -> str:
    """A whole page; sections without HTML are left out.

    Its content security policy allows its own style and script and nothing else. `content` stands behind the sections.
    """
    style = report_asset("report.css")
    present = [(name, heading, inner) for name, heading, inner in sections if inner]
    links = "".join(f'<li><a href="#{name}">{esc(heading)}</a></li>' for name, heading, _ in present)
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{esc(heading)}</h2>\n{inner}\n</section>'
        for name, heading, inner in present
    )
    first = present[0] if present else ("", "", "")
    return (
        f'<!DOCTYPE html>\n<html lang="en">{page_head(esc(title), style, script)}\n<body>\n'
        f'<a class="skip" href="#{first[0]}">Skip to the {esc(first[1].lower())}</a>\n'
        f'<header class="top">{header}</header>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n{body}\n</main>\n'
        f"{content}{f'<script>{script}</script>' if script else ''}\n</body></html>\n"
    )


def report_asset(name: str) -> str:
    return files("snellen.report").joinpath(name).read_text("utf-8")


def stand_alone(svg: str) -> str:
    """A chart as a file of its own, with the page's style in it."""
    opening, _, rest = svg.partition(">")
    opening = opening.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{opening}><style><![CDATA[{report_asset('report.css')}]]></style>{rest}\n"


def html_charts(panels: Sequence[ChartPanel], legend: str, note: str, *, is_tall: bool = False) -> str:
    """Panels side by side with the note below; beside it for a single tall panel."""
    if not panels:
        return ""
    body = "".join(
        f'<div class="panel">{f"<h4>{esc(panel.title)}</h4>" if panel.title else ""}{panel.svg}</div>'
        for panel in panels
    )
    kind = ' class="single"' if is_tall and len(panels) == 1 else ""
    return f'<figure{kind}>{legend}<div class="panels">{body}</div><figcaption>{esc(note)}</figcaption></figure>'


def html_legend(labels: Sequence[str]) -> str:
    """The marks of series in their order."""
    items = "".join(
        f'<li class="{series_class(i)}"><svg class="key" viewBox="-6 -6 12 12" aria-hidden="true">'
        f"{marker(i, 0, 0)}</svg><bdi>{esc(label)}</bdi></li>"
        for i, label in enumerate(labels)
    )
    return f'<ul class="legend">{items}</ul>'
