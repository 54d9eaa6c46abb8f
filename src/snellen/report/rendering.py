"""Templates: the one place where markup is made. Whatever is not markup of a template is escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from snellen.formats.shown_text import strip_controls
from snellen.report.content import PageHead, PageSection
from snellen.report.drawing import CHART_WIDTH, SERIES_MARKS, ChartDrawing, series_class
from snellen.report.number_text import DASH, decimal_text
from snellen.report.page_table import figure_of, page_table
from snellen.report.sample_cards import MAX_SHOWN_LETTERS, OUTCOME_SIGNS

if TYPE_CHECKING:
    from jinja2 import BaseLoader, BytecodeCache, Environment
    from markupsafe import Markup

TOKENS, CHART_STYLE, PAGE_STYLE = "tokens.css", "charts.css", "page.css"
"""Style sheets: colours in light and dark, charts, and the rest of a page."""
MAX_UNFOLDED_NOTES = 3
"""Notes of a table that are shown without folding. If there are more, they are folded."""
PAPER_FONT_STYLE = "text { font-family: Helvetica, Arial, 'Liberation Sans', sans-serif; }\n"


def templates(package: str = "snellen.report", **values: Any) -> Environment:
    """Return the environment of the templates in the folder `templates` of a package (see `template_environment`)."""
    from jinja2 import PackageLoader

    return template_environment(PackageLoader(package), **values)


def _bytecode_cache() -> BytecodeCache:
    """Return a cache of compiled templates in the user's cache folder, because compiling those of a page takes 0.06 s.

    If the folder cannot be written, nothing is cached.
    """
    from pickle import UnpicklingError

    import platformdirs
    from jinja2 import BytecodeCache
    from jinja2.bccache import Bucket

    folder = Path(platformdirs.user_cache_dir("snellen", appauthor=False), "templates")

    class Compiled(BytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            """Load a compiled template; if that is not possible, it is compiled again."""
            try:
                with folder.joinpath(bucket.key).open("rb") as file:
                    bucket.load_bytecode(file)
            except (OSError, EOFError, UnpicklingError):  # not there, or cut short
                bucket.reset()

        def dump_bytecode(self, bucket: Bucket) -> None:
            """Store a compiled template. An error is ignored, because the template can be compiled again."""
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                unfinished_file = folder / f"{bucket.key}.{os.getpid()}"
                unfinished_file.write_bytes(bucket.bytecode_to_string())
                unfinished_file.replace(folder / bucket.key)

    return Compiled()


def template_environment(loader: BaseLoader, **values: Any) -> Environment:
    """Return a template environment that escapes all values and raises for undefined ones.

    Its templates can import those of reports, and use `values` by name.

    Examples:
        >>> from jinja2 import DictLoader
        >>> environment = template_environment(DictLoader({"bird.html": "<b>{{ bird }}</b>"}), bird="<wren>")
        >>> environment.get_template("bird.html").render()
        '<b>&lt;wren&gt;</b>'
    """
    # Jinja takes its time to load, and most commands write no page.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([loader, PackageLoader("snellen.report")]),
        autoescape=True,
        finalize=escaped,
        undefined=StrictUndefined,
        bytecode_cache=_bytecode_cache(),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Jinja's type hints allow only its own values in these dicts.
    names = cast(dict[str, Any], environment.globals)
    filters = cast(dict[str, Any], environment.filters)
    names |= {"figure_of": figure_of, "page_table": page_table, "DASH": DASH}
    names |= {"marks": SERIES_MARKS, "series_class": series_class, "broad": CHART_WIDTH}
    names |= {
        "signs": OUTCOME_SIGNS,
        "longest": MAX_SHOWN_LETTERS,
        "few": MAX_UNFOLDED_NOTES,
        **values,
    }
    filters |= {
        "coded": _with_code_marks,
        "pixels": _pixels,
        "decimals": decimal_text,
        "thousands": "{:,}".format,
    }
    return environment


def escaped(content: object) -> Markup:
    """Escape text for elements and quoted attributes, and remove control characters. Markup is returned unchanged."""
    from markupsafe import Markup

    if isinstance(content, Markup):
        return content
    return Markup(html.escape(strip_controls(str(content))))  # noqa: S704


def render_page(template: str, /, **values: Any) -> str:
    """Render a template of reports."""
    return _report_templates().get_template(template).render(values)


def template_macro(template: str, name: str) -> Callable[..., str]:
    """Return a macro of a template of reports as a function that returns markup."""
    macro = getattr(_report_templates().get_template(template).module, name)
    return lambda *arguments: str(macro(*arguments))


def page_style() -> str:
    """Return the style sheet of a page with charts.

    Examples:
        >>> "table" in page_style()
        True
    """
    return "".join(map(report_asset, (TOKENS, CHART_STYLE, PAGE_STYLE)))


@cache
def style_for_paper() -> str:
    """Return the CSS for a chart in a file of its own, such as an SVG for a paper.

    It is the style of charts on a page with light colours. Each CSS variable is replaced by its value, because some
    programs that read SVG do not support variables.
    """
    light_tokens, _, _ = report_asset(TOKENS).partition("@media")
    declarations: list[tuple[str, str]] = re.findall(r"(--[\w-]+): ([^;]+);", light_tokens)
    value_by_variable = dict(declarations)

    def value_of_variable(use: re.Match[str]) -> str:
        return value_by_variable[use[1]]

    chart_style = report_asset(CHART_STYLE)
    return PAPER_FONT_STYLE + re.sub(r"var\((--[\w-]+)\)", value_of_variable, chart_style)


def report_asset(name: str) -> str:
    return files("snellen.report").joinpath("static", name).read_text("utf-8")


@cache
def _report_templates() -> Environment:
    return templates()


def _with_code_marks(sentence: str) -> Markup:
    """Escape a sentence, and mark text between two backticks, such as a command, as code."""
    from markupsafe import Markup

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escaped(sentence))))  # noqa: S704


def _pixels(length: float) -> Markup:
    """Format a length in pixels with at most one decimal."""
    from markupsafe import Markup

    return Markup(f"{length:.1f}".removesuffix(".0"))  # noqa: S704


class OfflinePage(Struct, frozen=True):
    """The frame of a page that works offline (`templates/offline.html`): its style, its script and the script's data.

    Examples:
        >>> OfflinePage("My page", "h1 { color: teal }").policy[:19]
        "default-src 'none';"
    """

    title: str
    style: str
    script: str = ""
    content_name: str = ""
    """Identifier of the JSON element that the script reads."""
    content: Any = None
    sends_requests: bool = False
    """Whether the script may send requests to the server of the page."""

    @property
    def policy(self) -> str:
        """The content security policy: this style and this script are allowed, and nothing is requested elsewhere."""
        scripts = f"script-src '{_digest(self.script)}'; " if self.script else ""
        connections = "connect-src 'self'; " if self.sends_requests else ""
        return (
            f"default-src 'none'; {scripts}{connections}style-src '{_digest(self.style)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def offline_document(
    title: str,
    head: PageHead,
    sections: Sequence[PageSection],
    *,
    script: str = "",
    pictures: Sequence[str] = (),
) -> str:
    """Return a complete page that works offline. Sections without content are left out.

    `script` is added to the script of charts, and `pictures` are data URIs that it can read.

    Examples:
        >>> from snellen.report.content import TableBlock
        >>> from snellen.plugin_api import Table
        >>> table = Table("Songs", ("bird",), (("wren",),))
        >>> head = PageHead("Report · birds", ("Birds",))
        >>> section = PageSection("songs", "Songs", (TableBlock(table),))
        >>> offline_document("Birds", head, [section])[:15]
        '<!DOCTYPE html>'
    """
    page = OfflinePage(
        title, page_style(), report_asset("charts.js") + script, "pictures", list(pictures)
    )
    return render_page(
        "document.html",
        page=page,
        head=head,
        sections=[section for section in sections if section.blocks],
    )


def standalone_svg(drawing: ChartDrawing) -> str:
    """Return a chart as SVG text that contains its style."""
    return template_macro("drawing.html", "drawing")(drawing, style_for_paper()) + "\n"
