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
    """Return the counts of a reply to a question about one field of a document, which `entity_rows` sums.

    A reply is correct if it equals one of the references after `normalise.standard`. An empty reply predicts nothing.

    Returns:
        Whether the reply is correct, whether it predicts anything, and 1.

    Raises:
        DataError: There is no reference, or one has no letter or digit.
    """
    prediction = standard_normalise(reply)
    golds = normalised_references(references, standard_normalise)
    is_correct = False
    for gold, reference in zip(golds, references, strict=True):
        if gold == prediction and quantities_agree(reply, reference):
            is_correct = True
    return is_correct, prediction != "", 1


def entity_exact_match(reply: str, references: Sequence[str]) -> float:
    """1 if the whole reply equals a reference after normalisation, for questions about one field.

    Registered as `field_exact_match`. Raises as `entity_counts` does.
    """
    return float(entity_counts(reply, references)[0])


def word_f1(reply: str, references: Sequence[str]) -> float:
    """F1 of the words of one reply against its best gold, in [0, 1]; a repeated word counts as often as both have it.

    It is 2 common / (words of the reply + words of the reference), after `normalise.standard`. This is the token F1 of
    SQuAD (Rajpurkar et al. 2016, section 6.1), except that articles are not dropped. Raises DataError if there is no
    reference, or one without a word.
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
    """Return the F1, precision and recall of named entities from summed counts, each in [0, 1].

    As in task 3 of SROIE (Huang et al. 2019), counts are summed over all documents first. Precision is 0 if nothing was
    predicted, as in SROIE's script.

    Args:
        sums: Three counts: correct predictions, predictions, and entities in the ground truth.
    """
    n_correct, n_predicted, n_gold = sums
    f1 = 2 * n_correct / (n_predicted + n_gold)
    precision = n_correct / n_predicted if n_predicted else 0.0
    recall = n_correct / n_gold
    return f1, precision, recall


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
