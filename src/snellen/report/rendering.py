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
from snellen.report.charts import CHART_WIDTH, MARKS, ChartDrawing, series_class
from snellen.report.content import Head, Section
from snellen.report.sample_cards import LONGEST, SIGNS
from snellen.report.table import DASH, decimal_text, figure_of, shown_table

if TYPE_CHECKING:
    from jinja2 import BaseLoader, BytecodeCache, Environment
    from markupsafe import Markup

TOKENS, CHART_STYLE, PAGE_STYLE = "tokens.css", "charts.css", "page.css"
"""Colours, light and dark; what charts look like by them; all else of a page."""
FEW_NOTES = 3
"""Notes up to which those of a table are not folded."""
PAPER = "text { font-family: Helvetica, Arial, 'Liberation Sans', sans-serif; }\n"


def templates(package: str = "snellen.report", **values: Any) -> Environment:
    """The templates of a package, in its folder `templates`, which may import those of reports and know `values`."""
    from jinja2 import PackageLoader

    return template_environment(PackageLoader(package), **values)


def _bytecode_cache() -> BytecodeCache:
    """Compiled templates in the user's own cache folder, by Jinja's key of their text: a page's take 0.06 s to compile.

    A folder that cannot be written is done without.
    """
    from pickle import UnpicklingError

    import platformdirs
    from jinja2 import BytecodeCache
    from jinja2.bccache import Bucket

    folder = Path(platformdirs.user_cache_dir("snellen", appauthor=False), "templates")

    class Compiled(BytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            try:
                with folder.joinpath(bucket.key).open("rb") as file:
                    bucket.load_bytecode(file)
            except (OSError, EOFError, UnpicklingError):  # not there, or cut short
                bucket.reset()

        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                part = folder / f"{bucket.key}.{os.getpid()}"
                part.write_bytes(bucket.bytecode_to_string())
                part.replace(folder / bucket.key)

    return Compiled()


def template_environment(loader: BaseLoader, **values: Any) -> Environment:
    """Templates that may import those of reports, escape what they are given, and raise for what they are not given.
    All of them know `values` by name."""
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
    # By Jinja's types these hold what it puts there itself, and nothing else.
    names, filters = (
        cast(dict[str, Any], environment.globals),
        cast(dict[str, Any], environment.filters),
    )
    names |= {"figure_of": figure_of, "shown_table": shown_table, "DASH": DASH}
    names |= {"marks": MARKS, "series_class": series_class, "broad": CHART_WIDTH}
    names |= {"signs": SIGNS, "longest": LONGEST, "few": FEW_NOTES, **values}
    filters |= {
        "coded": _coded,
        "pixels": _pixels,
        "decimals": decimal_text,
        "thousands": "{:,}".format,
    }
    return environment


def escaped(content: object) -> Markup:
    """Text escaped for element content and quoted attributes, without characters that control how it is shown."""
    from markupsafe import Markup

    if isinstance(content, Markup):
        return content
    return Markup(html.escape(strip_controls(str(content))))  # noqa: S704


def render_page(template: str, /, **values: Any) -> str:
    """A page of the templates of reports."""
    return _own().get_template(template).render(values)


def part(template: str, name: str) -> Callable[..., str]:
    """A macro of the templates of reports, which gives markup."""
    macro = getattr(_own().get_template(template).module, name)
    return lambda *arguments: str(macro(*arguments))


def page_style() -> str:
    """The style of a page with charts."""
    return "".join(map(report_asset, (TOKENS, CHART_STYLE, PAGE_STYLE)))


@cache
def paper_style() -> str:
    """The style of a chart that is a file of its own: light, with the colours written out, as not every program that
    draws SVG knows variables."""
    tokens = dict(re.findall(r"(--[\w-]+): ([^;]+);", report_asset(TOKENS).partition("@media")[0]))
    return PAPER + re.sub(
        r"var\((--[\w-]+)\)", lambda match: tokens[match[1]], report_asset(CHART_STYLE)
    )


def report_asset(name: str) -> str:
    return files("snellen.report").joinpath("static", name).read_text("utf-8")


@cache
def _own() -> Environment:
    return templates()


def _coded(sentence: str) -> Markup:
    """A sentence, escaped; what stands between two backticks in it, a command or the name of a column, as code."""
    from markupsafe import Markup

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escaped(sentence))))  # noqa: S704


def _pixels(length: float) -> Markup:
    """A length in a drawing, to a tenth, as short as can be."""
    from markupsafe import Markup

    return Markup(f"{length:.1f}".removesuffix(".0"))  # noqa: S704


class OfflinePage(Struct, frozen=True):
    """The frame of such a page (`templates/offline.html`): its only style, and its only script with what it reads."""

    title: str
    style: str
    script: str = ""
    content_name: str = ""
    """Identifier of the JSON element that the script reads."""
    content: Any = None
    talks: bool = False
    """Whether the script may send to the place that the page is from."""

    @property
    def policy(self) -> str:
        """The content security policy: this style and this script are allowed, and nothing is requested elsewhere."""
        scripts = f"script-src '{_digest(self.script)}'; " if self.script else ""
        connections = "connect-src 'self'; " if self.talks else ""
        return (
            f"default-src 'none'; {scripts}{connections}style-src '{_digest(self.style)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def offline_document(
    title: str,
    head: Head,
    sections: Sequence[Section],
    *,
    script: str = "",
    pictures: Sequence[str] = (),
) -> str:
    """A whole page; sections without content are left out. `pictures` are data URIs for the script, which stands beside
    that of charts."""
    page = OfflinePage(
        title, page_style(), report_asset("charts.js") + script, "pictures", list(pictures)
    )
    return render_page(
        "document.html",
        page=page,
        head=head,
        sections=[section for section in sections if section.blocks],
    )


def stand_alone(drawing: ChartDrawing) -> str:
    """A chart as a file of its own, with its style in it."""
    return part("drawing.html", "drawing")(drawing, paper_style()) + "\n"
