"""Metrics whose number follows from sums over all questions and is no mean over them: BLEU, METEOR, POPE, KIE.

Each counts something on every question. What a benchmark, a part of it or a resample scores then follows from the
summed counts alone, so that an interval costs no second look at a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from snellen.errors import DataError
from snellen.metrics import captions, hallucination, kie, legacy, meteor
from snellen.metrics.declaration import SHARE, Metric, MetricRow, Over, find_metric, share
from snellen.records import Better

Counts = tuple[float, ...]
Golds = Sequence[Sequence[str]]


class CorpusCountMetric(Metric, frozen=True, kw_only=True):
    """One such metric, and the rows that come of it."""

    over: ClassVar[Over] = "counts"
    count: Callable[[Sequence[str], Golds], Sequence[Counts | str]]
    """(replies, golds of each) -> what was counted on each reply, or why nothing can be. Raises DataError or
    MissingExtraError where that is so of all."""
    of: Callable[[Counts], tuple[float | None, ...]]
    """Summed counts -> a value a row; None where it is not defined."""
    each: tuple[str, ...] = ()
    """The rows that say something of a single question too; the first row is one of them."""
    applies: Callable[[Sequence[str]], bool] = lambda options: False
    """Whether a question with these options counts too; its reply then is the text of the option chosen."""


def corpus_count_metric(name: str) -> CorpusCountMetric:
    """The metric of that name, which must be of this kind."""
    metric = find_metric(name)
    if not isinstance(metric, CorpusCountMetric):
        raise TypeError(f"{name} counts nothing that is summed over the corpus")
    return metric


def pooled_row(name: str, title: str, **declared: Any) -> MetricRow:
    """A share that follows from sums over all questions."""
    return share(name, title, interval="linearised", **declared)


def pooled_bleu(order: int, tokens: captions.Tokens = "standard") -> CorpusCountMetric:
    """BLEU of n-grams up to `order`, under the name `bleu_N`, on legacy tokens `legacy_bleu_N`."""
    before, words = ("legacy_", "legacy ") if tokens == "legacy" else ("", "")
    name = f"{before}bleu_{order}"
    told = "words between blanks, case and punctuation kept" if words else "0 to 1"
    return CorpusCountMetric(
        what=f"BLEU-{order} (Papineni et al. 2002): n-gram precisions pooled over all captions, {told}",
        rows=(pooled_row(name, f"{words}BLEU-{order}", scale=name),),
        count=partial(captions.bleu_counts, tokens=tokens),
        of=lambda sums: (captions.bleu_of(sums)[order - 1],),
        each=(name,),
    )


BLEU_1, BLEU_2, BLEU_3, BLEU_4 = (pooled_bleu(order) for order in (1, 2, 3, 4))


def pooled_meteor(tokens: captions.Tokens = "standard") -> CorpusCountMetric:
    """METEOR under the name `meteor`, on legacy tokens `legacy_meteor`."""
    before, told = ("legacy_", " on words between blanks") if tokens == "legacy" else ("", "")
    name = f"{before}meteor"
    return CorpusCountMetric(
        what=f"METEOR 1.5 (Denkowski and Lavie 2014) by its own Java program{told}, pooled over all captions",
        rows=(pooled_row(name, f"{before.replace('_', ' ')}METEOR", scale=name),),
        count=partial(meteor.meteor_counts, tokens=tokens),
        of=lambda sums: (meteor.meteor_of(sums),),
        each=(name,),
    )


METEOR = pooled_meteor()


def _yes_no(options: Sequence[str]) -> bool:
    return len(options) == 2 and {hallucination.read_yes_no(option) for option in options} == {"yes", "no"}


def _count_pope(
    read: Callable[[str], hallucination.YesNo | None], replies: Sequence[str], golds: Golds
) -> list[Counts | str]:
    def count(reply: str, texts: Sequence[str]) -> Counts | str:
        labels = {hallucination.read_yes_no(text) for text in texts}
        if len(labels) != 1 or None in labels:
            return f"gold {' / '.join(texts)!r} is neither yes nor no"
        return hallucination.pope_counts(read(reply), "yes" if "yes" in labels else "no")

    return [count(reply, texts) for reply, texts in zip(replies, golds, strict=True)]


def _pope_rows(sums: Counts) -> tuple[float | None, ...]:
    score = hallucination.pope_of(sums)
    return (score.accuracy, score.precision, score.recall, score.f1, score.yes_rate, score.unparsed_rate)


_POPE_PARTS = ("accuracy", "precision", "recall", "F1", "yes-rate", "unparsed rate")


def _pope_declared(before: str = "") -> tuple[MetricRow, ...]:
    directions: dict[str, Better] = {"yes-rate": "neither", "unparsed rate": "lower"}
    return tuple(
        pooled_row(
            f"{before}pope_{re.sub('[ -]', '_', part.lower())}",
            f"{before.replace('_', ' ')}POPE {part}",
            better=directions.get(part, "higher"),
            scale="" if part in directions else SHARE,
            unparsed="wrong",
        )
        for part in _POPE_PARTS
    )


POPE = CorpusCountMetric(
    what="POPE (Li et al. 2023): accuracy, precision, recall and F1 of yes, yes-rate; neither yes nor no is wrong",
    rows=_pope_declared(),
    count=partial(_count_pope, hallucination.read_yes_no),
    of=_pope_rows,
    each=("pope_accuracy",),
    applies=_yes_no,
)
LEGACY_POPE = CorpusCountMetric(
    what="POPE by its own parser, to which whatever is not no is yes; of open questions only",
    rows=_pope_declared("legacy_"),
    count=partial(_count_pope, legacy.pope_yes_no),
    of=_pope_rows,
    each=("legacy_pope_accuracy",),
)


def _count_entities(replies: Sequence[str], golds: Golds) -> list[Counts | str]:
    def count(reply: str, texts: Sequence[str]) -> Counts | str:
        try:
            return kie.entity_counts(reply, texts)
        except DataError as error:
            return str(error)

    return [count(reply, texts) for reply, texts in zip(replies, golds, strict=True)]


def _f1_rows(sums: Counts) -> tuple[float | None, ...]:
    score = kie.F1(*sums)
    return score.value, score.precision, score.recall


ENTITY_F1 = CorpusCountMetric(
    what="F1 of entities, one per question: right if the whole reply is a gold after normalisation (SROIE), 0 to 1",
    rows=tuple(pooled_row(f"entity_{part.lower()}", f"entity {part}") for part in ("F1", "precision", "recall")),
    count=_count_entities,
    of=_f1_rows,
    each=("entity_f1",),
)
