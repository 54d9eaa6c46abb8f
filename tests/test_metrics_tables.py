"""TEDS: tables in HTML and Markdown."""

from __future__ import annotations

import pytest

from snellen.metrics.tables import html_table, markdown_table, teds

TABLE = "<table><tr><td>a</td><td>12</td></tr><tr><td>a</td><td>3</td></tr></table>"


def test_teds_reads_html_and_markdown() -> None:
    for package in ("apted", "lxml"):
        pytest.importorskip(package, reason=f"waits for {package} (extra `documents`)")
    assert teds(f"So:\n{TABLE}", ["none", TABLE]) == 1
    assert teds("| a | 12 |\n|---|---|\n| a | 4 |", [TABLE]) == pytest.approx(1 - 1 / 6)
    assert teds("There is no table.", [TABLE]) == 0


def test_what_a_table_lacks_is_added() -> None:
    assert html_table("<tr><td>1</td></tr></table>") == ""
    assert html_table("So:\n<table>1") == "<html><body><table>1</table></body></html>"
    assert html_table("<body>1") == "<html><table><body>1</table></html>"  # as the makers do


def test_lines_of_markdown_become_rows() -> None:
    assert markdown_table("| a |\n|---|\n|  |") == (
        "<html><body><table><tr><td>a</td></tr><tr><td> </td></tr></table></body></html>"
    )
