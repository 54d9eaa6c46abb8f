"""One HTML file that opens offline and requests nothing."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.report.content import Head, Section
from snellen.report.drawing import ChartDrawing
from snellen.report.offline_page import OfflinePage
from snellen.report.rendering import page_style, paper_style, part, render_page, report_asset


def offline_document(
    title: str, head: Head, sections: Sequence[Section], *, script: str = "", pictures: Sequence[str] = ()
) -> str:
    """A whole page; sections without content are left out. `pictures` are data URIs for the script, which stands beside
    that of charts."""
    page = OfflinePage(title, page_style(), report_asset("charts.js") + script, "pictures", list(pictures))
    return render_page(
        "document.html", page=page, head=head, sections=[section for section in sections if section.blocks]
    )


def stand_alone(drawing: ChartDrawing) -> str:
    """A chart as a file of its own, with its style in it."""
    return part("drawing.html", "drawing")(drawing, paper_style()) + "\n"
