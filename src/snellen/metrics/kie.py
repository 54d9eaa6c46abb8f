"""Key information extraction: the fields of a document, such as total, date and company of a receipt.

The words-of-the-set rule that LVLM-eHub printed as entity F1 is `legacy_kie_word_f1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from snellen.formats.quantities import quantities_agree
from snellen.metrics.declaration import (
    CorpusCountMetric,
    pooled_row,
    reply_by_reply,
    reply_metric,
)
from snellen.metrics.normalise import standard_normalise
from snellen.metrics.ocr import normalised_references
from snellen.metrics.question_counts import Counts


def entity_counts(reply: str, references: Sequence[str]) -> tuple[float, ...]:
    """What `entity_f1` counts on a question about one entity, to be summed: right, predicted, gold.

    Any reference counts: an entity is right if its text equals the gold's after `normalise.standard`; an empty reply
    predicts none. Raises DataError when there is no reference or one without a letter or digit.
    """
    normalised_reply = standard_normalise(reply)
    golds = zip(normalised_references(references, standard_normalise), references, strict=True)
    return (
        any(
            gold == normalised_reply and quantities_agree(reply, reference)
            for gold, reference in golds
        ),
        normalised_reply != "",
        1,
    )


def entity_exact_match(reply: str, references: Sequence[str]) -> float:
    """1 if the whole reply equals a reference after normalisation, for questions about one field.

    Registered as `field_exact_match`. Raises as `entity_counts` does.
    """
    return float(entity_counts(reply, references)[0])


def word_f1(reply: str, references: Sequence[str]) -> float:
    """F1 of the words of one reply against its best gold, in [0, 1]; a repeated word counts as often as both have it.

    2 common / (words of the reply + words of the gold), after `normalise.standard`; the token F1 of
    SQuAD (Rajpurkar et al. 2016, section 6.1) without its dropping of articles. Raises DataError when
    there is no reference or one has no word.
    """
    reply_words = Counter(standard_normalise(reply).split())
    values = []
    for gold in normalised_references(references, standard_normalise):
        gold_words = Counter(gold.split())
        n_common = (reply_words & gold_words).total()
        values.append(2 * n_common / (reply_words.total() + gold_words.total()))
    return max(values)


WORD_F1 = reply_metric(word_f1, unit="share", title="word F1")
FIELD_EXACT_MATCH = reply_metric(entity_exact_match, name="field_exact_match", unit="share")


def entity_rows(sums: Counts) -> tuple[float, ...]:
    """Micro F1 of entities, precision and recall from summed counts (SROIE, Huang et al. 2019, task 3), in [0, 1].

    Precision is 0 when nothing was predicted, as in SROIE's script.
    """
    right, predicted, gold = sums
    return 2 * right / (predicted + gold), right / predicted if predicted else 0.0, right / gold


ENTITY_F1 = CorpusCountMetric(
    description="F1 of entities, one per question: right if the whole reply is a gold after normalisation (SROIE), 0 to 1",
    rows=tuple(
        pooled_row(f"entity_{quantity.lower()}", f"entity {quantity}")
        for quantity in ("F1", "precision", "recall")
    ),
    count=reply_by_reply(entity_counts),
    compute=entity_rows,
    per_question=("entity_f1",),
)
