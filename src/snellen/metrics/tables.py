"""How alike two tables are: tree-edit-distance-based similarity (TEDS) of HTML and Markdown tables.

Source: Zhong et al., Image-based table recognition: data, model, and evaluation (arXiv:1911.10683), section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from snellen.common.late import import_extra
from snellen.metrics.declaration import reply_metric
from snellen.metrics.ocr import edit_distance

_PURPOSE = "comparing tables (TEDS)"


class _Node(Struct):
    """An element of a table: its tag and children and, for a cell, its spans and content."""

    tag: str
    spans: tuple[int, int] = (1, 1)
    """Number of columns and of rows of a cell."""
    tokens: tuple[str, ...] = ()
    """Content of a cell: its characters and the tags inside it."""
    children: list[_Node] = []


@reply_metric(unit="share", title="TEDS", interval="mean")
def teds(reply: str, references: Sequence[str]) -> float:
    """TEDS of the table in a reply and a table, both in HTML or Markdown; at most 1, the best of several references.

    1 - (edits from one tree of elements to the other / elements of the larger tree). It costs 1 to insert or delete an
    element, and to rename one with another tag or span. Renaming a cell costs the edit distance of the contents, divided
    by the length of the longer one (Zhong et al. 2020, section 5). The value is 0 if the reply has no table. If the trees
    have little in common, it can be below 0, as in the authors' code.

    For example, a table of two rows with two cells each has six elements below it. If one cell says 12 in place of 13,
    TEDS is 1 - 0.5 / 6.

    Raises:
        MissingExtraError: The extra `documents` is not installed.
    """
    table = _table_in(reply)
    return max(table_similarity(table, _table_in(reference)) for reference in references)


def _table_in(text: str) -> str:
    """Return the table in a text as a page of HTML; empty if it has none in HTML or Markdown."""
    html = html_table(text)
    if html or "|" not in text:
        return html
    return markdown_table(text)


def html_table(text: str) -> str:
    """Return the HTML in a text from its first `<body` or else `<table` on, as a page; empty if it has neither.

    Line breaks are removed, and missing `<table>`, `<body>` and `<html>` are added (PubTabNet's code needs them).

    Examples:
        >>> html_table("Here: <table><tr><td>1</td></tr></table>")
        '<html><body><table><tr><td>1</td></tr></table></body></html>'
    """
    joined = text.replace("\n", "")
    start = joined.find("<body")
    if start < 0:
        start = joined.find("<table")
    if start < 0:
        return ""
    return as_page(joined[start:])


def as_page(html: str) -> str:
    """Return HTML with the `<table>`, `<body>` and `<html>` around it that it lacks."""
    html = html.replace("\n", "")
    is_opened = "<table" in html
    is_closed = "</table>" in html
    if not is_opened:
        html = "<table>" + html
    if not is_closed:
        html = html + "</table>"
    if "<body>" not in html:
        html = f"<body>{html}</body>"
    if "<html>" not in html:
        html = f"<html>{html}</html>"
    return html


def markdown_table(text: str) -> str:
    """Return a Markdown table as a page of HTML. The second line, which has only dashes, is left out.

    As in OCRBench v2's code, all lines count as rows, and what a cell has is not escaped.

    Examples:
        >>> markdown_table("| a | b |\\n|---|---|\\n| 1 | 2 |")
        '<html><body><table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table></body></html>'
    """
    # The letters of ```markdown are stripped one by one, whichever of them come first or last.
    lines = text.strip("`markdown").strip().split("\n")
    rows = ""
    for line in (lines[0], *lines[2:]):
        cells = ""
        for cell in line.strip().split("|")[1:-1]:
            is_blank = set(cell) == {" "}
            cells += f"<td>{' ' if is_blank else cell.strip()}</td>"
        rows += f"<tr>{cells}</tr>"
    return f"<html><body><table>{rows}</table></body></html>"


def table_similarity(first: str, second: str, *, structure_only: bool = False) -> float:
    """Return the TEDS of the first tables of two pages of HTML, at most 1 (see `teds`); 0 if one has no table.

    Args:
        first: A page of HTML.
        second: Another one.
        structure_only: Whether what the cells say does not count.

    Raises:
        MissingExtraError: The extra `documents` is not installed.
    """
    first_table = _first_table(first)
    second_table = _first_table(second)
    if first_table is None or second_table is None:
        return 0.0
    try:
        first_tree = _tree(first_table)
        second_tree = _tree(second_table)
        renaming_cost = _structure_renaming_cost if structure_only else _renaming_cost
        distance = tree_distance(first_tree, second_tree, renaming_cost)
    except (ValueError, RecursionError):  # a span that is no number, or elements too deep
        return 0.0
    n_elements = max(_count_below(first_table), _count_below(second_table))
    return 1.0 - distance / n_elements if n_elements else 0.0


def tree_distance(first: Any, second: Any, renaming_cost: Any) -> float:
    """Return the edit distance of two ordered trees (Zhang and Shasha 1989), by the package apted.

    Args:
        first: The root of a tree; each node has a list `children`.
        second: The root of another tree.
        renaming_cost: Function of a node of the first tree and one of the second, which returns what it costs to turn
            one into the other. Inserting and deleting a node cost 1 each.

    Raises:
        MissingExtraError: The extra `documents` is not installed.
    """
    apted = import_extra("apted", "documents", _PURPOSE)
    return float(apted.APTED(first, second, _Costs(renaming_cost)).compute_edit_distance())


class _Costs:
    """What edits cost, as apted asks for it."""

    valuecls = float

    def __init__(self, renaming_cost: Any) -> None:
        self.rename = renaming_cost

    def delete(self, node: Any) -> float:
        return 1.0

    def insert(self, node: Any) -> float:
        return 1.0

    def children(self, node: Any) -> Any:
        return node.children


def _first_table(html: str) -> Any | None:
    """Return the first table of a page of HTML as an element of lxml; None if it has none."""
    lxml_html = import_extra("lxml.html", "documents", _PURPOSE, "lxml")
    if not html:
        return None
    parser = lxml_html.HTMLParser(remove_comments=True, encoding="utf-8")
    try:
        page = lxml_html.fromstring(html, parser=parser)
    except (ValueError, lxml_html.etree.LxmlError):  # control characters, or nothing that is HTML
        return None
    tables = page.xpath("body/table")
    return tables[0] if tables else None


def _count_below(table: Any) -> int:
    """Return how many elements there are in a table, those in its cells included."""
    return len(table.xpath(".//*"))


def _tree(element: Any) -> _Node:
    """Return an element with those below it as a tree. A cell (`td`) has no children; its content is its tokens."""
    if element.tag == "td":
        spans = (int(element.get("colspan", "1")), int(element.get("rowspan", "1")))
        tokens = _tokens(element)[1:-1]
        return _Node("td", spans, tuple(tokens))
    return _Node(str(element.tag), children=[_tree(child) for child in element])


def _tokens(element: Any) -> list[str]:
    """Return an element as its tags and the characters in it and behind it, up to the next element."""
    tokens = [f"<{element.tag}>", *(element.text or "")]
    for child in element:
        tokens += _tokens(child)
    if element.tag != "unk":
        tokens.append(f"</{element.tag}>")
    if element.tag != "td":
        tokens += element.tail or ""
    return tokens


def _structure_renaming_cost(first: _Node, second: _Node) -> float:
    return float(first.tag != second.tag or first.spans != second.spans)


def _renaming_cost(first: _Node, second: _Node) -> float:
    """Return what it costs to turn an element of a table into another one, from 0 to 1."""
    if _structure_renaming_cost(first, second):
        return 1.0
    return _content_distance(first.tokens, second.tokens)


@lru_cache(maxsize=100_000)
def _content_distance(first: tuple[str, ...], second: tuple[str, ...]) -> float:
    """Return the edit distance of the contents of two cells, divided by the length of the longer one."""
    if first == second:
        return 0.0
    return edit_distance(first, second) / max(len(first), len(second))
