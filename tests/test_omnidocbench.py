"""OmniDocBench: blocks of a reply, their forms, which are compared with which, and the scores of a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import modern_metric_tables
import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.suites.modern.omnidocbench.matching import Pair, quick_match
from snellen.suites.modern.omnidocbench.normalising import (
    normalised_formula,
    normalised_table,
    normalised_text,
)
from snellen.suites.modern.omnidocbench.pages import Page, PageBlock, page_of
from snellen.suites.modern.omnidocbench.replies import reply_blocks
from snellen.suites.modern.omnidocbench.scoring import page_scores

ROW = "<tr><td>a</td><td>12</td></tr>"
AS_PAGE = '<html><body><table border="1" >{}</table></body></html>'


def wait_for_packages() -> None:
    for package in ("apted", "lxml"):
        pytest.importorskip(package, reason=f"waits for {package} (extra `documents`)")


@pytest.mark.parametrize(
    ("reply", "texts", "formulas", "tables"),
    [
        ("# Birds\n\nA wren.\nA robin.", ["# Birds", "A wren.\nA robin."], [], []),
        ("# Birds\nA wren.", ["# Birds", "A wren."], [], []),  # lines, as no line is empty
        ("```markdown\n![](a.png)A wren.\n```", ["A wren."], [], []),
        ("Wren" + "." * 20, ["Wren...."], [], []),
        ("A\n\n$$\na + b\n$$\n\nB", ["A", "B"], ["\\[a+b\\]"], []),
        ("A\n\n\\[ a + b \\]\n\nB", ["A", "B"], ["\\[a+b\\]"], []),
        ("If $a$ holds\n\nB", ["If $a$ holds", "B"], ["\\[a\\]"], []),  # both
        (f"A\n\n<table>{ROW}</table>\n\nB", ["A", "B"], [], [f"<table>{ROW}</table>"]),
        ("A\n\n\\begin{tabular}{l}1 & 2\\end{tabular}\n\nB", ["A", "B"], [], []),
        (f"A <table><tr><td>1</td></tr><table>{ROW}</table>", ["A <table><tr><td>1</td></tr>"], [], [f"<table>{ROW}</table>"]),
        ("```python\nprint(1)``` and\n\nB", ["print(1)", "and", "B"], [], []),
        (r"\section{Birds}", ["Birds"], [], []),
    ],
)  # fmt: skip
def test_a_reply_is_split_into_blocks(
    reply: str, texts: list[str], formulas: list[str], tables: list[str]
) -> None:
    blocks = reply_blocks(reply)
    assert [block.text for block in blocks.texts] == texts
    assert [block.text for block in blocks.formulas] == formulas
    assert [block.text for block in blocks.tables] == tables


def test_a_reply_may_begin_tables_without_end() -> None:
    assert reply_blocks("<table>" * 3000).tables == []


def test_a_table_in_markdown_becomes_one_of_html_and_its_rule_is_no_row() -> None:
    [table] = reply_blocks("Birds\n\n| a | b |\n| --- | --- |\n| 1 | 22 |\n\nEnd").tables
    rows = normalised_table(table.text)
    cell = '<td colspan="1" rowspan="1">'
    for content in ("a", "b", "1", "22"):
        assert rows.count(f"{cell}{content}</td>") == 1
    assert rows.count("<tr>") == 2 and "---" not in rows


@pytest.mark.parametrize(
    ("form", "written", "expected"),
    [
        (normalised_text, "# A wren, 12 -\n**of** the_north!", "Awren12ofthe_north"),
        (normalised_text, "If $a + b$ holds", "Ifabholds"),  # no command, index or exponent
        (normalised_text, r"一只鹪鹩\n, 12", "一只鹪鹩12"),
        (normalised_formula, r"\[ \mathbf{A} + b \tag{1} \]", "{a}+b"),
        (normalised_formula, r"\begin{align} a \quad = B. \end{align}", "a=b."),
        (normalised_formula, r"a = b.", "a=b"),
        (normalised_table, f"<table>{ROW}</table>", AS_PAGE.format(ROW)),
        (normalised_table, f"<table class='x'><thead>{ROW.replace('td', 'th')}</thead></table>", AS_PAGE.format(ROW)),
        (normalised_table, "<table><tr><td>a<td style=\"x\">1&amp;2<br></table>", AS_PAGE.format("<tr><td>a<td>1&2<br/></td></td></tr>")),
        (normalised_table, "<table><tr><td><math alttext='x'><mi>y</mi></math></td></tr></table>", AS_PAGE.format("<tr><td>$x$</td></tr>")),
        (normalised_table, "a table", ""),
    ],
)  # fmt: skip
def test_blocks_are_compared_in_a_form(form: Any, written: str, expected: str) -> None:
    assert form(written) == expected


def test_latex_in_a_text_is_compared_as_unicode() -> None:
    pytest.importorskip("pylatexenc", reason="waits for pylatexenc (extra `documents`)")
    assert normalised_text(r"an angle $\alpha_1$ of") == "anangleα_1of"


BIRDS = "Awrensangintheoldtree"
TREES = "Theoaklostitsleaves"
SHIPS = "fiveshipssailednorth"


@pytest.mark.parametrize(
    ("golds", "replies", "expected"),
    [
        ([BIRDS], [BIRDS], [Pair((0,), (0,))]),
        ([BIRDS, TREES], [TREES, BIRDS], [Pair((0,), (1,)), Pair((1,), (0,))]),
        # A block in two pieces is joined.
        ([BIRDS, TREES], [BIRDS[:10], BIRDS[10:], TREES], [Pair((0,), (0, 1)), Pair((1,), (2,))]),
        # Two blocks in one piece.
        ([BIRDS, TREES], [BIRDS + TREES], [Pair((0, 1), (0,))]),
        # One has no counterpart, and no block of the reply remains: it counts twice.
        ([BIRDS, SHIPS], [BIRDS], [Pair((0,), (0,)), Pair((1,), ()), Pair((1,), ())]),
        ([BIRDS], [BIRDS, SHIPS], [Pair((0,), (0,)), Pair((), (1,))]),
        ([BIRDS, "xyz"], [BIRDS, SHIPS], [Pair((0,), (0,)), Pair((1,), (1,))]),
        ([], ["a", "b"], [Pair((), (0,)), Pair((), (1,))]),
        (["a", "b"], [], [Pair((0,), ()), Pair((1,), ())]),
    ],
)  # fmt: skip
def test_blocks_are_matched(golds: list[str], replies: list[str], expected: list[Pair]) -> None:
    pytest.importorskip("scipy", reason="waits for SciPy (extra `data`)")
    assert quick_match(golds, replies) == expected


def test_a_page_has_a_score_for_each_part() -> None:
    wait_for_packages()
    page = Page(
        texts=[
            PageBlock("A wren.", 1, "title"),  # Awren
            PageBlock("Two robins sang.", 2, "text_block"),  # Tworobinssang
            PageBlock("12", 9, "page_number"),
        ],
        formulas=[PageBlock("a+b", 3)],
        tables=[PageBlock(f"<table>{ROW}</table>", 4)],
    )
    perfect = page_scores(page.markdown, page)
    assert (perfect.texts, perfect.formulas, perfect.tables, perfect.order) == (0, 0, 0, 0)
    assert (perfect.teds, perfect.structure_teds) == (1, 1)

    reply = f"Two robins sang.\n\nA wrex.\n\n$$a+c$$\n\n<table>{ROW.replace('12', '13')}</table>"
    scores = page_scores(reply, page)
    assert scores.texts == pytest.approx(
        1 / 18
    )  # of 5 and 13 letters; the page's number does not count
    assert scores.formulas == pytest.approx(1 / 3)
    assert scores.order == pytest.approx(2 / 2)  # 2, 1 for 1, 2
    assert scores.tables == pytest.approx(1 / len(AS_PAGE.format(ROW)))
    assert scores.teds == pytest.approx(1 - 0.5 / 3)  # one of two signs in one of tr, td, td
    assert scores.structure_teds == 1

    no_table = page_scores("A wren.", Page(texts=[PageBlock("A wren.", 1, "title")]))
    assert no_table.tables is None and no_table.formulas is None and no_table.teds is None


def test_parts_of_a_text_are_joined() -> None:
    page = page_of(json.loads(modern_metric_tables.omnidocbench(0)["answer"]))
    assert [(block.text, block.order) for block in page.texts] == [
        ("Of the wren 0", 1),
        ("The wren 0 sings in the old tree.", 2),
        ("Birds of the north", 6),
    ]
    assert [block.text for block in page.formulas] == ["a + 0"]


def built_of_makers_files(folder: Path, pages: list[Any], name: str = "omnidocbench") -> Benchmark:
    (folder / "images").mkdir(parents=True)
    (folder / "OmniDocBench.json").write_text(json.dumps(pages))
    for number in range(len(pages)):
        (folder / "images" / f"{number}.jpg").write_bytes(small.picture(number))
    return build_benchmark(entries()[f"modern/{name}"], source=folder, to=folder / "built")


def makers_pages() -> list[Any]:
    return [json.loads(modern_metric_tables.omnidocbench(number)["answer"]) for number in range(7)]


def test_the_makers_files_are_read_and_attributes_of_pages_are_tags(tmp_path: Path) -> None:
    benchmark = built_of_makers_files(tmp_path, makers_pages())
    tags = {sample.id: sample.tags for sample in benchmark.samples()}
    assert sorted(tags) == ["0", "1", "3", "6"]
    common = {"data_source": "book", "language": "english", "layout": "single_column"}
    assert tags["0"] == {**common, "watermark": "yes"}
    assert tags["1"] == common


def test_a_page_without_blocks_is_named(tmp_path: Path) -> None:
    pages = makers_pages()
    del pages[1]["layout_dets"]
    with pytest.raises(
        DataError, match=r"OmniDocBench\.json: page 2: .* page_info and layout_dets"
    ):
        built_of_makers_files(tmp_path, pages)


def test_without_pylatexenc_no_page_has_a_value_if_one_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_packages()
    monkeypatch.setitem(sys.modules, "pylatexenc.latex2text", None)
    pages = makers_pages()
    pages[0]["layout_dets"][1]["text"] = r"the angle $\beta$"
    benchmark = built_of_makers_files(tmp_path, pages)
    results = sn.evaluate(
        "snellen:oracle", str(benchmark.folder), "vanilla", runs=tmp_path / "runs", name="run"
    )
    found = {row.metric: row.estimate for row in results.rows if not row.slice}
    assert found["omnidocbench"].value is None
    assert found["omnidocbench"].unscored == 4
