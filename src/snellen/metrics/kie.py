"""Key information extraction: the fields of a document, such as total, date and company of a receipt.

The words-of-the-set rule that LVLM-eHub printed as entity F1 is `legacy.kie_word_f1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.quantities import quantities_agree
from snellen.metrics.declaration import (
    CorpusCountMetric,
    Counts,
    pooled_row,
    reply_by_reply,
    reply_metric,
)
from snellen.metrics.normalise import standard_normalise
from snellen.metrics.ocr import normalised_references


class F1(Struct, frozen=True):
    """Precision, recall and F1, in [0, 1], with their counts (fractional where a question was asked several times)."""

    right: float
    predicted: float
    gold: float

    @property
    def precision(self) -> float:
        """right / predicted; 0 when nothing was predicted, as in SROIE's script."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """right / gold."""
        return self.right / self.gold

    @property
    def value(self) -> float:
        """F1 = 2 right / (predicted + gold)."""
        return 2 * self.right / (self.predicted + self.gold)


def entity_f1(predicted: Sequence[Mapping[str, str]], gold: Sequence[Mapping[str, str]]) -> F1:
    """Entity-level micro F1 over documents (SROIE, Huang et al. 2019, task 3).

    predicted[i] and gold[i] map field names to texts of document i. An entity is right if its field's
    text equals the gold's after `normalise.standard`; an empty prediction counts as none. Raises DataError for
    unequal lengths, no golds, or a gold without a letter or digit.
    """
    _check_paired(predicted, gold)
    right = n_predicted = n_gold = 0
    for predicted_texts, entities in zip(predicted, gold, strict=True):
        texts = {field: standard_normalise(text) for field, text in predicted_texts.items()}
        gold_texts = {field: normalised_references([text], standard_normalise)[0] for field, text in entities.items()}
        right += sum(
            texts.get(field) == text and quantities_agree(predicted_texts[field], entities[field])
            for field, text in gold_texts.items()
        )
        n_predicted += sum(text != "" for text in texts.values())
        n_gold += len(gold_texts)
    if not n_gold:
        raise DataError("KIE: no gold entity in any document; recall is undefined, so check the gold files")
    return F1(right, n_predicted, n_gold)


def entity_counts(reply: str, references: Sequence[str]) -> tuple[float, ...]:
    """The counts of `entity_f1` for a question about one entity: right, predicted, gold; any reference counts.

    Raises DataError when there is no reference or one without a letter or digit.
    """
    normalised_reply = standard_normalise(reply)
    golds = zip(normalised_references(references, standard_normalise), references, strict=True)
    return (
        any(gold == normalised_reply and quantities_agree(reply, reference) for gold, reference in golds),
        normalised_reply != "",
        1,
    )


def entity_exact_match(reply: str, references: Sequence[str]) -> float:
    """1 if the whole reply equals a reference after normalisation, for questions about one field.

    Registered as `field_exact_match`. Raises as `entity_counts` does.
    """
    return float(entity_counts(reply, references)[0])


def field_exact_match(predicted: Sequence[Mapping[str, str]], gold: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """For each field, the share of documents with that field whose text is right. Raises as `entity_f1` does."""
    _check_paired(predicted, gold)
    right: Counter[str] = Counter()
    gold_counts: Counter[str] = Counter()
    for predicted_texts, entities in zip(predicted, gold, strict=True):
        for field, text in entities.items():
            gold_counts[field] += 1
            reply = predicted_texts.get(field, "")
            is_equal = normalised_references([text], standard_normalise)[0] == standard_normalise(reply)
            right[field] += is_equal and quantities_agree(reply, text)
    return {field: right[field] / count for field, count in sorted(gold_counts.items())}


def word_f1(reply: str, references: Sequence[str]) -> float:
    """F1 of the words of one reply against its best gold, in [0, 1]; a repeated word counts as often as both have it.

    2 common / (words of the reply + words of the gold), after `normalise.standard`; the token F1 of
    SQuAD (Rajpurkar et al. 2016, section 6.1) without its dropping of articles. Raises DataError when
    there is no reference or one has no word.
    """
    reply_words = Counter(standard_normalise(reply).split())
    gold_words = [Counter(gold.split()) for gold in normalised_references(references, standard_normalise)]
    return max(2 * (reply_words & words).total() / (reply_words.total() + words.total()) for words in gold_words)


def _check_paired(predicted: Sequence[Mapping[str, str]], gold: Sequence[Mapping[str, str]]) -> None:
    if len(predicted) != len(gold):
        raise DataError(f"KIE: {len(predicted)} predictions and {len(gold)} documents; give one mapping per document")


WORD_F1 = reply_metric(word_f1, unit="share", title="word F1")
FIELD_EXACT_MATCH = reply_metric(entity_exact_match, name="field_exact_match", unit="share")


def _f1_rows(sums: Counts) -> tuple[float | None, ...]:
    score = F1(*sums)
    return score.value, score.precision, score.recall


ENTITY_F1 = CorpusCountMetric(
    what="F1 of entities, one per question: right if the whole reply is a gold after normalisation (SROIE), 0 to 1",
    rows=tuple(
        pooled_row(f"entity_{quantity.lower()}", f"entity {quantity}") for quantity in ("F1", "precision", "recall")
    ),
    count=reply_by_reply(entity_counts),
    compute=_f1_rows,
    per_question=("entity_f1",),
)
