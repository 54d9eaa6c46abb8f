"""Key information extraction: the total, the date, the company of a receipt, field by field.

The words-of-the-set rule that LVLM-eHub printed as entity F1 is `legacy.kie_word_f1`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from snellen.errors import DataError
from snellen.metrics.declaration import reply_metric
from snellen.metrics.normalise import standard_normalise
from snellen.metrics.ocr import normalised_references
from snellen.quantities import quantities_agree


class F1(Struct, frozen=True):
    """Counts (fractions of one where a question was asked several times) and what follows from them, in [0, 1]."""

    right: float
    predicted: float
    gold: float

    @property
    def precision(self) -> float:
        """right / predicted; 0 when nothing was predicted."""
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
    text equals the gold's after `normalise.standard`; an empty prediction is none. Raises DataError for
    unequal lengths, no golds, or a gold without a letter or digit.
    """
    _check_paired(predicted, gold)
    right = said = wanted = 0
    for given, entities in zip(predicted, gold, strict=True):
        texts = {field: standard_normalise(text) for field, text in given.items()}
        wants = {field: normalised_references([text], standard_normalise)[0] for field, text in entities.items()}
        right += sum(
            texts.get(field) == text and quantities_agree(given[field], entities[field])
            for field, text in wants.items()
        )
        said += sum(text != "" for text in texts.values())
        wanted += len(wants)
    return _counted(right, said, wanted)


def entity_counts(reply: str, references: Sequence[str]) -> tuple[float, ...]:
    """What `entity_f1` counts where a question asks for one entity: right, predicted, gold; any reference counts.

    Raises DataError when there is no reference or one without a letter or digit.
    """
    given = standard_normalise(reply)
    golds = zip(normalised_references(references, standard_normalise), references, strict=True)
    return (any(gold == given and quantities_agree(reply, reference) for gold, reference in golds), given != "", 1)


def entity_exact_match(reply: str, references: Sequence[str]) -> float:
    """1 if the whole reply is a reference after normalisation; by field, and their mean, as `field_exact_match`.

    Where a question asks for one field. Errors as `entity_counts`.
    """
    return float(entity_counts(reply, references)[0])


def field_exact_match(predicted: Sequence[Mapping[str, str]], gold: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Share of the documents that have a field whose text is right, by field, in [0, 1]. Errors as above."""
    _check_paired(predicted, gold)
    right: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for given, entities in zip(predicted, gold, strict=True):
        for field, text in entities.items():
            wanted[field] += 1
            reply = given.get(field, "")
            same = normalised_references([text], standard_normalise)[0] == standard_normalise(reply)
            right[field] += same and quantities_agree(reply, text)
    return {field: right[field] / count for field, count in sorted(wanted.items())}


def word_f1(reply: str, references: Sequence[str]) -> float:
    """F1 of the words of one reply against its best gold, in [0, 1]; a word counts as often as both have it.

    2 common / (words of the reply + words of the gold), after `normalise.standard`; the token F1 of
    SQuAD (Rajpurkar et al. 2016, section 6.1) without its dropping of articles. Raises DataError when
    there is no reference or one has no word.
    """
    have = Counter(standard_normalise(reply).split())
    needs = [Counter(gold.split()) for gold in normalised_references(references, standard_normalise)]
    return max(2 * (have & need).total() / (have.total() + need.total()) for need in needs)


def _check_paired(predicted: Sequence[Mapping[str, str]], gold: Sequence[Mapping[str, str]]) -> None:
    if len(predicted) != len(gold):
        raise DataError(f"KIE: {len(predicted)} predictions and {len(gold)} documents; give one mapping a document")


def _counted(right: int, said: int, wanted: int) -> F1:
    if not wanted:
        raise DataError("KIE: no gold entity in any document; recall is undefined, so check the gold files")
    return F1(right, said, wanted)


WORD_F1 = reply_metric(word_f1, unit="share", title="word F1")
FIELD_EXACT_MATCH = reply_metric(entity_exact_match, name="field_exact_match", unit="share")
