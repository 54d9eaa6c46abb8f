"""The forms in which OmniDocBench compares texts, formulas and tables."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from html.entities import html5
from html.parser import HTMLParser
from typing import Any

from snellen.common.late import import_extra

INLINE_FORMULA = re.compile(r"\$(.*?)\$|\\\((.*?)\\\)")
_ESCAPE = re.compile(r"\\([\\_&%^])")
_WRITTEN_BLANKS = ("\\t", "\\n", "\t", "\n", "/t", "/n")
_NO_WORD = re.compile(r"[^\w\u4e00-\u9fff]")

_DISPLAYED = re.compile(r"\\\[(.+?)(?<!\\)\\\]")
_LAYOUT = tuple(
    re.compile(rf"\\{command}.*?\}}")
    for command in (r"tag\{", r"hspace\{", r"begin\{", r"end\{", "arraycolsep")
)
_IGNORED_COMMANDS = (
    "mathbf mathrm mathnormal mathit mathbb mathcal mathscr mathfrak mathsf mathtt textbf text boldmath boldsymbol "
    "operatorname bm symbfit mathbfcal symbf scriptscriptstyle notag setlength coloneqq space thickspace thinspace "
    "medspace nobreakspace negmedspace quad qquad enspace substackw"
).split()
"""Commands of LaTeX that are removed wherever they occur, one after the other in this order."""

_IGNORED_ATTRIBUTES = re.compile(r' (?:style|height|width|align|class)=".*?"')
_TABLE = re.compile(r"<table\b[^>]*>(.*)</table>", re.DOTALL | re.IGNORECASE)
_IGNORED_TAGS = re.compile(r"</?(?:sup|sub|span|div|p)>")
_BODY_TAGS = re.compile("</?tbody>")
_COLUMN_GROUP = re.compile("<colgroup>.*?</colgroup>")
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements of HTML that have no content and no end tag."""


def normalised_text(text: str) -> str:
    """Return the letters, digits and underscores of a text, with LaTeX between dollars as Unicode.

    A formula in the text is converted only if it has a command, an index or an exponent.

    Raises:
        MissingExtraError: A formula is to be converted, and the extra `documents` is not installed.
    """
    text = INLINE_FORMULA.sub(_in_unicode, text)
    for blank in _WRITTEN_BLANKS:
        text = text.replace(blank, "")
    return _NO_WORD.sub("", text)


def _in_unicode(match: re.Match[str]) -> str:
    latex = match[1] if match[1] is not None else match[2]
    latex = _ESCAPE.sub("", latex)
    if not any(sign in latex for sign in "\\^_"):
        return match[0]
    if latex.endswith("\\"):
        latex += " "
    converted = _unicode_of(latex)
    return match[0] if converted is None else converted


@lru_cache(maxsize=10_000)
def _unicode_of(latex: str) -> str | None:
    """Return LaTeX as Unicode; None if it cannot be read."""
    pylatexenc = import_extra("pylatexenc.latex2text", "documents", "OmniDocBench", "pylatexenc")
    try:
        return str(pylatexenc.LatexNodes2Text().latex_to_text(latex)).strip()
    except Exception:  # pylatexenc raises anything on broken LaTeX
        return None


def normalised_formula(latex: str) -> str:
    """Return a formula in lower case, without blanks, environments and commands for fonts and distances."""
    displayed = _DISPLAYED.search(latex)
    if displayed:
        latex = displayed[1].strip()
    for layout in _LAYOUT:
        latex = layout.sub("", latex)
    latex = latex.strip(".")
    for command in _IGNORED_COMMANDS:
        latex = latex.replace("\\" + command, "")
    return latex.replace(" ", "").lower()


def normalised_table(table: str) -> str:
    """Return a table of HTML as a page, without what only concerns its looks; empty if it is no table.

    Cells of a head (`th`) become cells (`td`). Removed are the tags `thead`, `tbody`, `span`, `sup`, `sub`, `div` and
    `p` and attributes for sizes and styles. MathML becomes its `alttext` between dollars.
    """
    if "<table" not in table.replace(" ", ""):
        return ""
    rewriter = _TableRewriter()
    rewriter.feed(table)
    rewriter.close()
    written = html.unescape(rewriter.written()).replace("\n", "")
    written = unicodedata.normalize("NFKC", written).strip()
    content = "".join(_TABLE.findall(written))
    content = _IGNORED_ATTRIBUTES.sub("", content)
    content = _BODY_TAGS.sub("", content)
    content = re.sub(r"\s+", " ", content)
    page = f'<html><body><table border="1" >{content}</table></body></html>'
    page = _IGNORED_TAGS.sub("", page)
    return _COLUMN_GROUP.sub("", page)


class _TableRewriter(HTMLParser):
    """Writes HTML again with every element closed.

    An end tag closes all elements that were opened after its own; one without a start tag is left out. Beautiful Soup
    reads HTML in this way, which the makers use.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self._parts: list[str] = []
        self._text: list[str] = []
        self._open: list[str] = []

    def written(self) -> str:
        """Return all that was read, with the end tags that are missing."""
        while self._open:
            self._close_last()
        self._end_text()
        return "".join(self._parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end_text()
        if tag == "math":
            self._write(f"${html.escape(dict(attrs).get('alttext') or '', quote=False)}$")
        if tag in _VOID:
            self._write(f"<{tag}{_attributes(attrs)}/>")
            return
        name = _renamed(tag)
        if name:
            self._write(f"<{name}{_attributes(attrs)}>")
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        self._end_text()
        if tag not in self._open:
            return
        while self._close_last() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def handle_charref(self, name: str) -> None:
        self._text.append(html.unescape(f"&#{name};"))

    def handle_entityref(self, name: str) -> None:
        self._text.append(html5.get(f"{name};", f"&{name}"))

    def handle_comment(self, data: str) -> None:
        self._end_text()
        self._write(f"<!--{data}-->")

    def _close_last(self) -> str:
        self._end_text()
        tag = self._open.pop()
        name = _renamed(tag)
        if name:
            self._write(f"</{name}>")
        return tag

    def _end_text(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        if text and not text.strip(" \n\t\f\r"):
            text = "\n" if "\n" in text else " "
        self._write(html.escape(text, quote=False))

    def _write(self, part: str) -> None:
        if "math" not in self._open:
            self._parts.append(part)


def _renamed(tag: str) -> str:
    """Return the tag that a tag is written as; empty if only its content is kept."""
    if tag in ("thead", "span", "math"):
        return ""
    return "td" if tag == "th" else tag


def _attributes(attributes: list[tuple[str, Any]]) -> str:
    written = ""
    for name, value in dict(attributes).items():
        quoted = html.escape(value or "", quote=False)
        sign = '"' if '"' not in quoted else "'"
        written += f" {name}={sign}{quoted}{sign}"
    return written
