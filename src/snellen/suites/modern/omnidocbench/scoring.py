"""The score of a page of OmniDocBench: edit distances of its texts, formulas, tables and order, and TEDS of tables."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.metrics.declaration import CorpusCountMetric, metric_row, reply_by_reply, share_row
from snellen.metrics.ocr import edit_distance
from snellen.metrics.question_counts import Counts
from snellen.metrics.tables import table_similarity
from snellen.suites.modern.omnidocbench.matching import (
    assign_least,
    distances,
    quick_match,
)
from snellen.suites.modern.omnidocbench.normalising import (
    normalised_formula,
    normalised_table,
    normalised_text,
)
from snellen.suites.modern.omnidocbench.pages import NOT_COUNTED, Page, PageBlock
from snellen.suites.modern.omnidocbench.replies import ReplyBlock, reply_blocks

_N_EDIT_PARTS = 4


class PageScores(Struct, frozen=True, kw_only=True):
    """The scores of a page; None for a part that the page does not have."""

    texts: float | None = None
    """Edit distance of the texts, from 0 to 1: edits / characters of the longer text of each pair, over all pairs."""
    formulas: float | None = None
    """Edit distance of the displayed formulas."""
    tables: float | None = None
    """Edit distance of the tables, written as HTML."""
    order: float | None = None
    """Edit distance of the order of the texts."""
    teds: float | None = None
    """Mean TEDS of the tables, at most 1."""
    structure_teds: float | None = None
    """Mean TEDS of the tables without what their cells say."""


class _Edits:
    """Edits between texts, and the characters of the longer one of each pair."""

    def __init__(self) -> None:
        self.edits = 0
        self.length = 0

    def add(self, reply: Sequence[str], gold: Sequence[str]) -> None:
        self.edits += edit_distance(reply, gold)
        self.length += max(len(reply), len(gold))

    @property
    def rate(self) -> float | None:
        return self.edits / self.length if self.length else None


def page_scores(reply: str, page: Page) -> PageScores:
    """Return the scores of a reply that gives a page in Markdown.

    Raises:
        MissingExtraError: The page or the reply needs the extra `documents`, which is not installed.
    """
    blocks = reply_blocks(reply)
    texts, order = _text_distances(page.texts, blocks.texts)
    tables, teds, structure_teds = _table_scores(page.tables, blocks.tables)
    return PageScores(
        texts=texts,
        formulas=_formula_distance(page.formulas, blocks.formulas),
        tables=tables,
        order=order,
        teds=teds,
        structure_teds=structure_teds,
    )


def _text_distances(
    golds: Sequence[PageBlock], replies: Sequence[ReplyBlock]
) -> tuple[float | None, float | None]:
    """Return the edit distances of texts and of their order."""
    if not golds:
        return None, None
    gold_forms = [normalised_text(gold.text) for gold in golds]
    reply_forms = [normalised_text(reply.text) for reply in replies]
    # As in the makers' code, places in the order are those of all blocks, though blank ones are left out before.
    categories = [gold.category for gold, form in zip(golds, gold_forms, strict=True) if form]
    gold_texts = [form for form in gold_forms if form]
    reply_texts = [form for form in reply_forms if form]

    edits = _Edits()
    correct_order: list[int] = []
    placed: list[tuple[int, list[int]]] = []
    for pair in quick_match(gold_texts, reply_texts):
        if pair.golds and all(categories[gold] in NOT_COUNTED for gold in pair.golds):
            continue
        edits.add(_joined(reply_texts, pair.replies), _joined(gold_texts, pair.golds))
        orders = [golds[gold].order for gold in pair.golds if golds[gold].order]
        correct_order += orders
        if pair.golds and pair.replies:
            placed.append((replies[pair.replies[0]].position, orders))
    placed.sort(key=lambda place: place[0])
    order = _Edits()
    order.add(
        _as_text([number for _, orders in placed for number in orders]),
        _as_text(sorted(correct_order)),
    )
    return edits.rate, order.rate


def _as_text(numbers: Sequence[int]) -> str:
    return "".join(chr(number) for number in numbers)


def _joined(texts: Sequence[str], indexes: Sequence[int]) -> str:
    return "".join(texts[index] for index in indexes)


def _formula_distance(golds: Sequence[PageBlock], replies: Sequence[ReplyBlock]) -> float | None:
    gold_forms = [form for gold in golds if (form := normalised_formula(gold.text))]
    reply_forms = [form for reply in replies if (form := normalised_formula(reply.text))]
    edits = _Edits()
    for pair in quick_match(gold_forms, reply_forms):
        if pair.golds:
            edits.add(_joined(reply_forms, pair.replies), _joined(gold_forms, pair.golds))
    return edits.rate


def _table_scores(
    golds: Sequence[PageBlock], replies: Sequence[ReplyBlock]
) -> tuple[float | None, float | None, float | None]:
    """Return the edit distance of tables, their mean TEDS, and that without what cells say."""
    gold_tables = [gold.text for gold in golds if gold.text]
    reply_tables = [reply.text for reply in replies]
    if not gold_tables:
        return None, None, None
    reply_by_gold: dict[int, int] = {}
    if reply_tables:
        reply_by_gold = dict(assign_least(distances(gold_tables, reply_tables)))

    edits = _Edits()
    teds = 0.0
    structure_teds = 0.0
    for index, table in enumerate(gold_tables):
        reply = reply_tables[reply_by_gold[index]] if index in reply_by_gold else ""
        reply_form = normalised_table(reply) or reply
        gold_form = normalised_table(table) or table
        edits.add(reply_form, gold_form)
        teds += table_similarity(reply_form, gold_form)
        structure_teds += table_similarity(reply_form, gold_form, structure_only=True)
    n_tables = len(gold_tables)
    return edits.rate, teds / n_tables, structure_teds / n_tables


# --- the metric ------------------------------------------------------------------------------------------------------


def page_counts(reply: str, references: Sequence[str]) -> Counts:
    """Return, for each part of a page, whether the page has it and its score.

    Args:
        reply: The page that the reply gives.
        references: The accepted texts of a question; the last one has the blocks of the page as JSON.

    Raises:
        DataError: The last text is not such a page.
    """
    try:
        page = msgspec.json.decode(references[-1], type=Page)
    except msgspec.DecodeError as error:
        raise DataError(f"a ground truth is not a page of OmniDocBench: {error}") from None
    scores = page_scores(reply, page)
    counts: list[float] = []
    for value in msgspec.structs.astuple(scores):
        counts += [0.0, 0.0] if value is None else [1.0, value]
    return tuple(counts)


def _means(sums: Counts) -> tuple[float | None, ...]:
    """Return the overall distance, and the mean over pages of each part."""
    means: list[float | None] = []
    for n_pages, total in zip(sums[0::2], sums[1::2], strict=True):
        means.append(total / n_pages if n_pages else None)
    known = [mean for mean in means[:_N_EDIT_PARTS] if mean is not None]
    overall = sum(known) / len(known) if known else None
    return (overall, *means)


OMNIDOCBENCH = CorpusCountMetric(
    description="OmniDocBench 1.0: mean edit distance of texts, formulas, tables and order of reading (arXiv 2412.07626)",
    rows=(
        *(
            metric_row(
                f"omnidocbench{part}",
                title=f"OmniDocBench{title}",
                low=0.0,
                high=1.0,
                better="lower",
                interval="linearised",
                undefined=undefined,
            )
            for part, title, undefined in (
                ("", "", "no page has a block that counts"),
                ("_text", " text", "no page has a text"),
                ("_formula", " formula", "no page has a displayed formula"),
                ("_table", " table", "no page has a table"),
                ("_order", " order", "no page has an order of reading"),
            )
        ),
        *(
            share_row(
                f"omnidocbench_{part}",
                f"OmniDocBench {title}",
                low=None,
                interval="linearised",
                scale="",
                undefined="no page has a table",
            )
            for part, title in (("teds", "TEDS"), ("structure_teds", "structure TEDS"))
        ),
    ),
    count=reply_by_reply(page_counts),
    compute=_means,
    per_question=("omnidocbench",),
)
