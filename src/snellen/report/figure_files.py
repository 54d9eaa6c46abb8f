"""Figures of a report as files for a paper, each with its legend inside."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from snellen.common.attribute_hints import answering_keywords, same_hint, unknown_attribute
from snellen.common.late import import_extra
from snellen.common.watching import is_notebook, print_line
from snellen.errors import DataError
from snellen.formats.whole_files import write_atomically
from snellen.records import Result
from snellen.report.content import ChartBlock
from snellen.report.drawing import (
    CHART_WIDTH,
    ChartDrawing,
    ChartGroup,
    ChartMark,
    ChartShape,
    ChartText,
)
from snellen.report.figures import POINT_AT_MARK_HINT, report_figures
from snellen.report.rendering import standalone_svg
from snellen.report.reported_runs import prepare_reported_runs
from snellen.report.training_curves import headline_panels, trainings
from snellen.scoring.scored_run import ScoredRun

PNG_SCALE = 3
"""Pixels of a PNG per unit of the drawing: 300 dots an inch at a column's width of 4.6 inches."""
LEGEND_LETTER_WIDTH = 6.2
"""Width of a letter of the legend, in pixels."""
LEGEND_MARK_WIDTH = 26.0
"""Width of a mark of the legend with the gaps around it."""
LEGEND_LINE_HEIGHT = 18.0
"""Height of a line of the legend."""


class _NamedFigure(NamedTuple):
    name: str
    """Name of its file."""
    drawing: ChartDrawing
    caption: str


def write_figures(
    runs: Sequence[ScoredRun], rows: Sequence[Result], folder: Path, form: str = "svg"
) -> list[Path]:
    """Write each figure as a file, and `captions.txt` with a caption for each.

    Args:
        runs: The runs.
        rows: Their results.
        folder: Where the files are written.
        form: `svg`, `png` or `pdf`.

    Returns:
        The files with figures.

    Raises:
        DataError: There is no such format.
        MissingExtraError: A PNG or PDF needs `snellen[figures]`.
        StoreError: A file cannot be written.
    """
    convert = SVG_CONVERTERS.get(form)
    if convert is None:
        raise DataError(
            f"the format of figures is one of {', '.join(SVG_CONVERTERS)}, not {form!r}"
        )
    paths: list[Path] = []
    captions = ""
    for figure in _named_figures(report_figures(prepare_reported_runs(runs, rows))):
        path = folder / f"{figure.name}.{form}"
        write_atomically(path, convert(standalone_svg(figure.drawing)))
        paths.append(path)
        captions += f"{figure.name}: {figure.drawing.title}. {figure.caption}\n"
    write_atomically(folder / "captions.txt", captions.encode("utf-8", "replace"))
    return paths


def _named_figures(blocks: dict[str, ChartBlock]) -> Iterator[_NamedFigure]:
    """Yield each chart of a report under a unique file name, with its legend drawn inside."""
    names: set[str] = set()
    for block_name, block in blocks.items():
        caption = block.caption.replace(f" {POINT_AT_MARK_HINT}", "")
        for panel in block.panels:
            title = re.sub(r"[^a-z0-9]+", "-", panel.title.lower()).strip("-")
            stem = "-".join(name_part for name_part in (block_name, title) if name_part)
            name = stem
            number = 1
            while name in names:
                number += 1
                name = f"{stem}-{number}"
            names.add(name)
            yield _NamedFigure(name, with_legend(panel.drawing, block.series), caption)


_DRAW_YOURSELF = (
    "a Plot is a finished chart (SVG); draw your own from results.to_pandas(), which has value, low and high: "
    "results.to_pandas().query(\"metric == 'accuracy'\").plot.bar(x='benchmark', y='value')"
)
PLOT_HINTS = {
    **same_hint(
        "savefig(path) writes a .svg, .png or .pdf file",
        "write",
        "write_image",
        "to_file",
        "to_png",
        "to_pdf",
        "to_image",
        "export",
        "dump",
    ),
    **same_hint(
        "to_html() is the chart as HTML, savefig('chart.svg') a file", "write_html", "html"
    ),
    **same_hint("svg is its text", "to_svg", "to_string", "data"),
    **same_hint(
        _DRAW_YOURSELF,
        "set_title",
        "set_xlabel",
        "set_ylabel",
        "set_xlim",
        "set_ylim",
        "set_size_inches",
        "title",
        "xlabel",
        "ylabel",
        "xlim",
        "ylim",
        "legend",
        "grid",
        "axes",
        "ax",
        "axis",
        "gca",
        "get_figure",
        "figure",
        "fig",
        "subplots",
        "subplots_adjust",
        "suptitle",
        "tight_layout",
        "add_subplot",
        "update_layout",
        "update_traces",
        "bar",
        "barh",
        "line",
        "properties",
        "encode",
    ),
}
"""What to write instead of names of matplotlib and other libraries."""


class Plot:
    """The chart of headline numbers with their intervals, which notebooks show.

    Examples:
        >>> plot = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4).plot()
        >>> plot.savefig("chart.svg").name
        'chart.svg'
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg
        """The chart as the text of an SVG file."""

    def __repr__(self) -> str:
        return "<Plot: notebooks show it, savefig('chart.svg') writes it, show() opens it>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return self.to_html()

    def __getattr__(self, name: str) -> Any:
        """Raise an error for an unknown attribute, which says what to write instead of names of matplotlib."""
        raise unknown_attribute(self, name, PLOT_HINTS)

    def to_html(self) -> str:
        """Return the chart as HTML, to be placed in a page."""
        return f"<div>{self.svg}</div>"

    def show(self) -> None:
        """Show the chart in the output of a notebook's cell, otherwise in the browser from a temporary file.

        Where there is no browser, the path of the file is printed.
        """
        if is_notebook():
            from IPython.display import SVG, display

            display(SVG(self.svg))
            return
        import webbrowser

        folder = Path(tempfile.mkdtemp(prefix="snellen-"))
        file = self.savefig(folder / "chart.svg")
        if not webbrowser.open(file.as_uri()):
            print_line(str(file))

    @answering_keywords(
        "the suffix of the path says the format (.svg, .png, .pdf); a .png has 300 dots an inch",
        without_effect={"bbox_inches": "tight"},
    )
    def savefig(self, path: str | Path) -> Path:
        """Write the chart to a `.svg`, `.png` or `.pdf` file and return its path.

        Raises:
            DataError: The file has another suffix.
            MissingExtraError: A PNG or PDF needs `snellen[figures]`.
            StoreError: The file cannot be written.
        """
        path = Path(path)
        convert = SVG_CONVERTERS.get(path.suffix.removeprefix("."))
        if convert is None:
            raise DataError(
                f"{path}: a chart is written as {', '.join(SVG_CONVERTERS)}; choose one as suffix"
            )
        write_atomically(path, convert(self.svg))
        return path

    def save(self, path: str | Path) -> Path:
        """Write the chart, as `savefig` does."""
        return self.savefig(path)


def headline_plot(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> Plot:
    """Draw the headline numbers of runs: curves over training steps if all runs are steps of trainings, otherwise bars.

    Raises:
        DataError: No run has a number to draw.
    """
    reported_runs = prepare_reported_runs(runs, rows)
    curves = headline_panels(reported_runs)
    if curves:
        return Plot(chart_svg(curves[0].drawing, tuple(trainings(reported_runs))))
    blocks = report_figures(reported_runs)
    for figure in _named_figures({"headline": blocks["headline"]}):
        return Plot(standalone_svg(figure.drawing))
    raise DataError("there is no headline number to draw")


def chart_svg(drawing: ChartDrawing, series: Sequence[str] = ()) -> str:
    """Return a chart as an SVG file with its style and, for two series or more, a legend.

    Args:
        drawing: The chart.
        series: Names of its series, in their order.

    Examples:
        >>> from snellen.plugin_api import DrawingBuilder
        >>> builder = DrawingBuilder()
        >>> builder.text(20, 20, "one")
        >>> chart_svg(builder.drawing("A word", height=40)).startswith("<svg")
        True
    """
    return standalone_svg(with_legend(drawing, series))


def with_legend(drawing: ChartDrawing, series: Sequence[str]) -> ChartDrawing:
    """Add a legend above a drawing: a mark and a name for each series, in as many lines as they need.

    A drawing with fewer than two series is returned unchanged.
    """
    if len(series) < 2:
        return drawing
    line_width = max(drawing.width, CHART_WIDTH)
    positions: list[tuple[float, int]] = []  # the left edge and the line of each name
    x = 0.0
    line = 0
    for name in series:
        width = LEGEND_MARK_WIDTH + LEGEND_LETTER_WIDTH * len(name)
        fits = x + width <= line_width
        if x and not fits:
            x = 0.0
            line += 1
        positions.append((x, line))
        x += width

    n_lines = line + 1
    height = LEGEND_LINE_HEIGHT * n_lines + 4
    keys: list[ChartShape] = []
    for number, (name, (left, line)) in enumerate(zip(series, positions, strict=True)):
        y = LEGEND_LINE_HEIGHT * (line + 0.5) - height
        mark = ChartMark(number, left + 8, y)
        label = ChartText(left + 18, y + 4, name, "start")
        keys.append(ChartGroup((mark, label), number))
    return replace(drawing, shapes=(*drawing.shapes, *keys), above=height)


# --- formats ---------------------------------------------------------------------------------------------------------


def _svg(drawing: str) -> bytes:
    return drawing.encode("utf-8", "replace")


def _png(drawing: str) -> bytes:
    """Return a chart, given as SVG, as the bytes of a PNG file."""
    image: bytes = _cairo().svg2png(
        bytestring=_svg(drawing), scale=PNG_SCALE, background_color="white"
    )
    return image


def _pdf(drawing: str) -> bytes:
    document: bytes = _cairo().svg2pdf(bytestring=_svg(drawing))
    return document


def _cairo() -> Any:
    """Return the library that converts SVG. Raises DataError if cairo, which it needs, is not installed."""
    try:
        return import_extra("cairosvg", "figures", "a figure in PNG or PDF")
    except OSError as error:
        raise DataError(
            f"figures in PNG or PDF need the system library cairo ({error}); SVG does not"
        ) from None


def check_figure_format(form: str) -> None:
    """Raise MissingExtraError or DataError if figures of a format cannot be made here, before anything is written."""
    if form != "svg":
        _cairo()


SVG_CONVERTERS: dict[str, Callable[[str], bytes]] = {"svg": _svg, "png": _png, "pdf": _pdf}
"""Functions that convert an SVG text, by the suffix of the file."""
