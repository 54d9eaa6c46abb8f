"""Text-reading metrics: does the reply contain the words in the image?

All take a reply and its references (alternatives, of which the best counts) and return a number in [0, 1],
except the error rates of characters and words. The rule that scored the published tables is `legacy.ocr_match`.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence

from snellen.errors import DataError
from snellen.extraction.closed_answers import answer_text
from snellen.formats.quantities import holds_quantities, quantities_agree
from snellen.metrics.declaration import (
    CorpusCountMetric,
    class_mean,
    metric_row,
    reply_by_reply,
    reply_metric,
)
from snellen.metrics.normalise import Normaliser, standard_normalise
from snellen.metrics.question_counts import Counts

_ANLS_THRESHOLD = 0.5


def word_accuracy(reply: str, references: Sequence[str]) -> float:
    """Share of the gold's words that occur in the reply as whole words, in [0, 1].

    This is the definition in ReForm-Eval, section 3.3.2; the code of that paper compared the whole answer. A word that
    the reference has twice counts twice, but it is enough if the reply has it once. Raises DataError if there is no
    reference, or one without a word.
    """
    reply_words = set(standard_normalise(reply).split())
    shares = []
    for gold in normalised_references(references, standard_normalise):
        gold_words = gold.split()
        n_found = sum(word in reply_words for word in gold_words)
        shares.append(n_found / len(gold_words))
    return max(shares)


def contains_answer(reply: str, references: Sequence[str]) -> float:
    """1 if all words of a gold occur in the reply consecutively and in order, else 0.

    Numbers keep their sign and unit: -5 is not 5, $10 not EUR 10 (`snellen.formats.quantities`). Errors as in
    `word_accuracy`.
    """
    padded_reply = f" {standard_normalise(reply)} "
    golds = normalised_references(references, standard_normalise)
    for gold, reference in zip(golds, references, strict=True):
        if f" {gold} " in padded_reply and holds_quantities(reply, reference):
            return 1.0
    return 0.0


def exact_match(reply: str, references: Sequence[str]) -> float:
    """1 if the reply has the words of a gold and no others, else 0.

    Numbers keep their sign and unit, as in `contains_answer`. Errors as in `word_accuracy`.
    """
    reply = answer_text(reply)
    normalised_reply = standard_normalise(reply)
    golds = normalised_references(references, standard_normalise)
    for gold, reference in zip(golds, references, strict=True):
        if gold == normalised_reply and quantities_agree(reply, reference):
            return 1.0
    return 0.0


def anls(reply: str, references: Sequence[str]) -> float:
    """Average normalised Levenshtein similarity of one reply (Biten et al. 2019, Eq. 1), in [0, 1].

    max over golds of s = 1 - NL where NL = edits / max(length) in characters, and s = 0 where
    NL >= 0.5. Case and blanks at the ends or in a row do not count. Published scripts differ at
    NL of exactly 0.5: `legacy_anls`.
    """
    folded_reply = fold_words(reply)
    similarities: list[float] = []
    for gold in normalised_references(references, fold_words):
        distance = _normalised_distance(folded_reply, gold)
        similarities.append(1.0 - distance if distance < _ANLS_THRESHOLD else 0.0)
    return max(similarities)


def legacy_anls(reply: str, references: Sequence[str]) -> float:
    """ANLS as published scripts compute it, to the letter; in [0, 1].

    The scripts of Qwen-VL, lmms-eval and VLMEvalKit keep a similarity of exactly 0.5, which the
    paper's equation sets to 0. They compare texts without blanks at their ends or in a row, and
    divide by the length with these blanks. The reply is compared as received.
    """
    distances: list[float] = []
    for reference in references:
        edits = edit_distance(_single_blanks(reply), _single_blanks(reference))
        longest = max(len(reply.upper()), len(reference.upper()))
        distances.append(edits / longest if longest else 0.0)
    if not distances:
        raise DataError("legacy_anls needs at least one of the references")
    similarity = 1 - min(distances)
    return similarity if similarity >= _ANLS_THRESHOLD else 0.0


def _single_blanks(text: str) -> str:
    return " ".join(text.strip().lower().split())


def edit_similarity(reply: str, references: Sequence[str]) -> float:
    """1 - edits / max(length) in characters to the nearest gold, in [0, 1]: `anls` without its threshold."""
    folded_reply = fold_words(reply)
    return 1.0 - min(
        _normalised_distance(folded_reply, gold)
        for gold in normalised_references(references, fold_words)
    )


def character_error_rate(reply: str, references: Sequence[str]) -> float:
    """Edits / characters of the gold, for the gold with the lowest rate; 0 is best, and there is no upper bound."""
    folded_reply = fold_words(reply)
    return min(
        edit_distance(folded_reply, gold) / len(gold)
        for gold in normalised_references(references, fold_words)
    )


def word_error_counts(reply: str, references: Sequence[str]) -> Counts:
    """Return the number of word edits and the number of words, for the reference with the fewest edits per word.

    The word error rate of a corpus is the sum of the edits divided by the sum of the words. Words are compared without
    case and without punctuation at their ends.
    """
    counts: list[Counts] = []
    for reference in normalised_references(references, fold_words):
        reference_words = _words_without_punctuation(reference)
        reply_words = _words_without_punctuation(reply)
        if not reference_words:  # it has only signs, such as "...", which count as its words
            reference_words = reference.split()
            reply_words = fold_words(reply).split()
        # Each word becomes a character, so that edits of words are edits of characters.
        characters: dict[str, str] = {}
        for word in (*reference_words, *reply_words):
            characters.setdefault(word, chr(len(characters) + 1))
        reference_codes = "".join(characters[word] for word in reference_words)
        reply_codes = "".join(characters[word] for word in reply_words)
        counts.append((edit_distance(reference_codes, reply_codes), len(reference_words)))

    def edits_per_word(edits_and_words: Counts) -> float:
        edits, n_words = edits_and_words
        return edits / n_words

    return min(counts, key=edits_per_word)


def _words_without_punctuation(text: str) -> list[str]:
    """Return the words of a text in one case, without punctuation at their ends; signs alone are no words."""
    folded = fold_words(text)
    signs = {sign for sign in folded if unicodedata.category(sign).startswith("P")}
    marks = "".join(signs) + string.punctuation
    words = [word.strip(marks) for word in folded.split()]
    return [word for word in words if word]


def normalised_references(references: Sequence[str], normalise: Normaliser) -> list[str]:
    """Return the references after `normalise`. Raises DataError if there are none, or if one of them becomes empty."""
    if isinstance(references, str) or not references:
        raise DataError(
            f"references {references!r}: a question to score needs a list of at least one gold text"
        )
    normalised = [normalise(reference) for reference in references]
    if "" in normalised:
        raise DataError(
            f"gold {references[normalised.index('')]!r} has no letter or digit left after normalisation, so any reply "
            "would match; correct or drop this sample when the benchmark is built"
        )
    return normalised


def fold_words(text: str) -> str:
    """Case-folded text with single blanks, on which edit distances are computed."""
    return " ".join(text.casefold().split())


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the Levenshtein distance of two texts: the fewest characters to insert, delete or replace.

    Of lists of texts, such as words, it is the distance in these. It is computed column by column of the usual table,
    with a column in the bits of two integers (Myers 1999, as Hyyrö 2003 states it).
    """
    if not first:
        return len(second)
    bits_by_sign: dict[str, int] = {}
    for position, sign in enumerate(first):
        bits_by_sign[sign] = bits_by_sign.get(sign, 0) | 1 << position
    all_bits = (1 << len(first)) - 1
    last_bit = 1 << (len(first) - 1)
    # Where the distance rises and falls by 1 from one row of the column to the next, as bits.
    rises = all_bits
    falls = 0
    distance = len(first)
    for sign in second:
        match = bits_by_sign.get(sign, 0)
        diagonal = (((match & rises) + rises) ^ rises) | match | falls
        right_rises = falls | (all_bits & ~(diagonal | rises))
        right_falls = rises & diagonal
        distance += bool(right_rises & last_bit) - bool(right_falls & last_bit)
        right_rises = (right_rises << 1 | 1) & all_bits
        right_falls = right_falls << 1 & all_bits
        rises = right_falls | (all_bits & ~(diagonal | right_rises))
        falls = right_rises & diagonal
    return distance


def _normalised_distance(first: str, second: str) -> float:
    return edit_distance(first, second) / max(len(first), len(second))


WORD_ACCURACY = reply_metric(word_accuracy, unit="share")
CONTAINS_ANSWER = reply_metric(contains_answer, unit="share")
MEAN_CLASS_ACCURACY = class_mean(
    contains_answer, name="mean_class_accuracy", title="mean per-class accuracy"
)
EXACT_MATCH = reply_metric(exact_match, unit="share", whole_text=True)
ANLS = reply_metric(anls, unit="share", title="ANLS")
LEGACY_ANLS = reply_metric(legacy_anls, unit="share", title="legacy ANLS")
EDIT_SIMILARITY = reply_metric(edit_similarity, unit="share")
CHARACTER_ERROR_RATE = reply_metric(
    character_error_rate,
    unit="edits per character",
    low=0.0,
    better="lower",
    scale="edits per character",
)
WORD_ERROR_RATE = CorpusCountMetric(
    description="word error rate: inserted, deleted and replaced words over the words of the transcripts",
    rows=(
        metric_row(
            "word_error_rate",
            unit="edits per word",
            low=0.0,
            better="lower",
            scale="edits per word",
            interval="linearised",
        ),
    ),
    count=reply_by_reply(word_error_counts),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("word_error_rate",),
)
