"""Tables and charts in replies to questions of OCRBench v2, by the tree edit distance of tables (TEDS)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from snellen.metrics.tables import as_page, html_table, markdown_table, table_similarity
from snellen.suites.modern.ocrbench_v2.fields import FENCE, parse_gold, parse_python_literal

_ASSIGNMENT = re.compile(r"^\s*\w+\s*=\s*")
"""The beginning of `data = {...}`."""
_COMMENT = re.compile("#.*")


def table_score(reply: str, gold: str, *, in_markdown: bool = False) -> float:
    """Return the TEDS of the table in a reply, at most 1; 0 if a reply in HTML has no table.

    Args:
        reply: The reply.
        gold: The correct table.
        in_markdown: Whether the question asks for Markdown, as the correct table is written; otherwise both are HTML.

    Raises:
        MissingExtraError: The extra `documents` is not installed.
    """
    if in_markdown:
        return table_similarity(markdown_table(reply), markdown_table(gold))
    return table_similarity(html_table(reply), as_page(gold))


def chart_score(reply: str, gold: str) -> float:
    """Return how alike the data of a chart and a reply are: TEDS of tables with a row for each key; at most 1.

    The first cell of a row has a key, and the second one what Python writes for its value, with a space behind each
    character. So a chart of several series has a row for each of them, whose values are compared as one text.

    Args:
        reply: A dictionary in the notation of Python. It may be in a code block, have comments, and be assigned to a
            variable.
        gold: The correct dictionary as JSON.

    Raises:
        MissingExtraError: The extra `documents` is not installed.
    """
    data = _chart_data(reply)
    if not data:
        return 0.0
    return table_similarity(_as_table(data), _as_table(parse_gold(gold)))


def _chart_data(reply: str) -> dict[Any, Any]:
    """Return the dictionary in a reply; an empty one if there is none."""
    blocks = FENCE.findall(reply)
    content: str = max(blocks, key=len) if blocks else reply
    content = _ASSIGNMENT.sub("", content.strip(), count=1)
    content = _COMMENT.sub("", content)
    end = content.rfind("}")
    if end >= 0:
        content = content[: end + 1]
    data = parse_python_literal(content)
    return data if isinstance(data, dict) else {}


def _as_table(data: Mapping[Any, Any]) -> str:
    rows = ""
    for key, value in data.items():
        rows += f"  <tr><td>{key}</td><td>{' '.join(str(value))}</td></tr>\n"
    return f"<html><body><table>\n{rows}</table></body></html>"
