"""Answers to visual questions: agreement with annotators, exact match, and match by the answer's type.

The rule of LVLM-eHub, any gold as a word anywhere in the reply, is `legacy.vqa_match`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from snellen.errors import DataError
from snellen.extraction.asked_reply import AskedReply, question_of
from snellen.extraction.closed_answers import (
    LETTERS,
    answer_text,
    declines,
    letter_in,
    number_forms,
    offered_answers,
    stated_answer,
    worked_result,
)
from snellen.extraction.standard import read_choice
from snellen.extraction.tokens import compared_form
from snellen.extraction.yes_no import verdict_part
from snellen.formats.quantities import holds_quantities
from snellen.metrics.dates import date_in_full, dates_in, in_iso_form
from snellen.metrics.declaration import reply_metric
from snellen.metrics.hallucination import read_yes_no
from snellen.metrics.normalise import standard_normalise, vqa_normalise
from snellen.metrics.ocr import normalised_references

_MIN_ANNOTATORS = 4
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_NEGATIONS = {
    "no",
    "not",
    "never",
    "without",
    "neither",
    "nor",
    "isn",
    "aren",
    "wasn",
    "weren",
    "doesn",
    "don",
    "didn",
}
_ARTICLES = {"", "a", "an", "the"}
"""What golds are after normalisation that hold no word of their own."""
_LEADING_ARTICLE = re.compile(r"^\s*(?:[Tt]he|an?)\s+(?!(?i:the|an?)\b)(?=\w)")
"""An article at the beginning of a reference. `A` in capitals may be a name, as in `A team` and `the A train`."""
_INDEFINITE_ARTICLE = re.compile(r"^\s*an?\s")
_WORDS_AFTER_NEGATION = {"a", "an", "the", "any", "t", "is", "are", "really"}


def vqa_accuracy(reply: str, references: Sequence[str]) -> float:
    """Soft accuracy of VQA v2 (Antol et al. 2015, section 4.2, and its published script), in [0, 1].

    `references` are the answers of all annotators, ten in VQA v2. Mean over leaving out each of them of
    min(number of the others that gave the reply / 3, 1). Both sides go through `normalise.vqa` - the
    script does so only where annotators disagree; see `legacy_vqa_accuracy`. Raises DataError for fewer
    than four annotators, because 1 cannot be reached then.
    """
    check_annotators(references)
    return soft_accuracy(
        vqa_normalise(reply), [vqa_normalise(reference) for reference in references]
    )


def direct_answer_accuracy(reply: str, references: Sequence[str]) -> float:
    """Score of A-OKVQA's direct answers (Schwenk et al. 2022, section 4): min(annotators who gave the reply / 3, 1).

    Unlike `vqa_accuracy`, it leaves no annotator out, so three who agree give full marks. Many scripts for VQA v2 and
    TextVQA compute it too. Both sides go through `normalise.vqa`. Raises DataError for fewer than four annotators.

    Example:
        >>> direct_answer_accuracy("30th", ["thirty"] * 8 + ["30th"] * 2) == 2 / 3
        True
    """
    check_annotators(references)
    answers = [vqa_normalise(reference) for reference in references]
    return min(answers.count(vqa_normalise(reply)) / 3, 1.0)


def soft_accuracy(answer: str, annotator_answers: Sequence[str]) -> float:
    """Return the accuracy of VQA v2, in [0, 1]: the mean, over each annotator left out, of min(equal answers / 3, 1).

    Args:
        answer: The answer, normalised.
        annotator_answers: The annotators' answers, normalised.
    """
    n_annotators = len(annotator_answers)
    n_equal = annotator_answers.count(answer)
    # Leaving out an annotator with another answer, or one with this answer.
    accuracy_without_other = min(n_equal / 3, 1.0)
    accuracy_without_equal = min((n_equal - 1) / 3, 1.0)
    total = (n_annotators - n_equal) * accuracy_without_other + n_equal * accuracy_without_equal
    return total / n_annotators


def gqa_accuracy(reply: str, references: Sequence[str]) -> float:
    """1 if reply and a gold are equal in lower case, blanks and a final full stop aside, else 0.

    GQA (Hudson and Manning 2019) has one reference, which the reply must equal exactly. To ignore case and a final full
    stop follows LLaVA's converter. Raises DataError if there is no reference, or an empty one.
    """
    return float(_folded_answer(reply) in normalised_references(references, _folded_answer))


def typed_match(reply: str, references: Sequence[str]) -> float:
    """1 if the reply gives a reference answer, compared by the type of that answer, else 0: corrected word matching.

    This is the corrected form of word matching. By type of reference:

    - yes or no: the reply must say the same (`hallucination.read_yes_no`);
    - a capital letter: a sentence of the reply must name that option;
    - a number: it must be the only number in the reply, in the answer that it announces, or in the last line of a
      calculation, in digits (with its sign and unit) or words. It may also end a sentence whose other numbers are in the
      question (`the share in 1994 is 1.0%`);
    - a date such as `2026-03-22` or `March 22, 2026`: also the only date in the reply or in the answer that it announces, in
      digits in any order (`22/03/2026`) or with its month in words. Dates that the reply denies, or that are in the
      question, do not count;
    - any other text: its words, without an article before them, must occur consecutively, plural or singular, without a
      negation just before them (`not a dog` is not dog), and without another number if the article is `a` or `an` (`two
      weeks` is not `a week`); if the question offers it among others ("liver or spleen?") and the reply names several of
      these, it must be the one that the reply chooses;
    - a text whose only word is an article: only the same reply.

    Raises:
        DataError: There is no reference, or all are articles.
    """
    golds = [
        (standard_normalise(_LEADING_ARTICLE.sub("", reference)), reference)
        for reference in references
    ]
    are_articles = all(
        gold in _ARTICLES and reference.strip() not in LETTERS for gold, reference in golds
    )
    if are_articles:
        # Raises if there is none, or an empty one.
        normalised_references(references, standard_normalise)
        raise DataError(
            f"gold {references[0]!r} is an article and would match almost any reply; correct or drop the sample"
        )
    answer = AskedReply(answer_text(reply), question_of(reply))
    is_correct = any(_states_reference(answer, gold, reference) for gold, reference in golds)
    return float(is_correct)


def _states_reference(reply: str, gold: str, reference: str) -> bool:
    """Return whether a reply gives a reference answer, compared as a date, a letter, signs, a number or words."""
    expected_date = date_in_full(reference)
    if expected_date is not None and dates_in(in_iso_form(reply)):
        return _states_date(reply, expected_date)
    if reference.strip() in LETTERS and len(reply.split()) > 1:
        return letter_in(reply) == reference.strip()
    if gold in _ARTICLES:
        return reply.strip().casefold() == reference.strip().casefold()
    return _states_words(reply, gold, reference) and _same_numbers(reply, reference)


def _states_date(reply: str, expected: date) -> bool:
    """Return whether a reply, or the answer that it announces, states a date and no other one.

    A date may be stated several times in different forms. Dates that the reply denies are left out (`not March 24, 2026`),
    and so are other dates of the question.
    """
    text = in_iso_form(stated_answer(reply))
    if not dates_in(text):
        text = in_iso_form(reply)
    stated: list[frozenset[date]] = []
    for mention in dates_in(text):
        words_before = standard_normalise(text[: mention.start]).split()
        if not _ends_in_negation(words_before):
            stated.append(mention.possible_dates)

    asked_about: set[date] = set()
    for mention in dates_in(in_iso_form(question_of(reply))):
        asked_about |= mention.possible_dates
    if expected not in asked_about:
        stated = [dates for dates in stated if expected in dates or dates.isdisjoint(asked_about)]
    return bool(stated) and all(expected in dates for dates in stated)


def _same_numbers(reply: str, reference: str) -> bool:
    """Return whether a reply has the numbers of a reference, with their signs and units.

    It is true for a reply without digits, because its numbers may be words.
    """
    return not any(map(str.isdigit, reply)) or holds_quantities(reply, reference)


def _states_words(reply: str, gold: str, reference: str) -> bool:
    """Return whether a reply gives a reference answer, compared as yes or no, as a number or as words.

    Args:
        reply: The reply.
        gold: The reference, normalised.
        reference: The reference as it was written.
    """
    if gold in ("yes", "no"):
        return read_yes_no(reply) == gold

    number = number_in(gold)
    if number is not None:
        if declines(reply):
            return False
        # The reference as it was written has a sign or a unit, which its normalised form lacks.
        reference_numbers = [number_in(form) for form in number_forms(reference)]
        expected = set(reference_numbers) if len(reference_numbers) == 1 else {number}
        stated = stated_answer(reply)
        if stated == answer_text(reply):  # it announces no answer
            stated = worked_result(stated)
        stated_numbers = numbers_of(stated)
        return stated_numbers == expected or _concludes_with(stated, expected, question_of(reply))

    is_single = _INDEFINITE_ARTICLE.match(reference) is not None
    return _names_undenied(reply, gold, is_single=is_single) and _is_chosen(
        reply, gold, is_single=is_single
    )


def _names_undenied(text: str, gold: str, *, is_single: bool = False) -> bool:
    """Return whether a text has the words of a reference, without a negation just before them.

    Args:
        text: The text.
        gold: The reference, normalised.
        is_single: Whether the reference means a single thing, as `an hour` does. A number other than one just before the
            words is then another answer, as in "2 hours".
    """
    words = standard_normalise(text).split()
    gold_words = gold.split()
    for start in range(len(words) - len(gold_words) + 1):
        pairs = zip(words[start:], gold_words, strict=False)
        is_named = all(_is_same_word(word, gold_word) for word, gold_word in pairs)
        if not is_named or _ends_in_negation(words[:start]):
            continue
        number_before = numbers_of(words[start - 1]) if start else set[float]()
        if not is_single or number_before <= {1.0}:
            return True
    return False


def _is_same_word(word: str, gold_word: str) -> bool:
    """Return whether two words are equal, or differ in number or spelling: "buses" and "bus", "grey" and "gray"."""
    if word == gold_word:
        return True
    forms = {compared_form(word), compared_form(_singular(word))}
    gold_forms = {compared_form(gold_word), compared_form(_singular(gold_word))}
    return not forms.isdisjoint(gold_forms)


def _is_chosen(reply: str, gold: str, *, is_single: bool) -> bool:
    """Return whether a reply that names a reference chooses it among the answers that its question offers.

    "The spleen is larger than the liver" names both answers to "Which is larger, liver or spleen?". The first sentence
    that surely means one of them decides; without such a sentence, the reference counts as chosen.
    """
    question = question_of(reply)
    offered = offered_answers(question)
    are_gold = [_names_undenied(text, gold, is_single=is_single) for text in offered]
    if are_gold.count(True) != 1:
        return True  # the question offers no choice, or the reference is not one of its answers
    n_named = sum(_names_undenied(reply, standard_normalise(text)) for text in offered)
    if n_named < 2:
        return True
    for sentence in _SENTENCE_END.split(verdict_part(reply)):
        reading = read_choice(sentence, offered, (), question=question, error=_MAX_CHOICE_ERROR)
        if reading.choice is not None:
            return are_gold[reading.choice]
    return True


_SENTENCE_END = re.compile(r"(?<=[.!?\n])\s+")
_MAX_CHOICE_ERROR = 0.2
"""Error probability above which a sentence does not tell which of the offered answers a reply chooses."""
_COPULA = re.compile(r"\b(?:is|are|was|were)\b", re.IGNORECASE)


def numbers_of(text: str) -> set[float]:
    """Return the numbers in a text, in digits or as words."""
    values = (number_in(form) for form in number_forms(text))
    return {value for value in values if value is not None}


def _concludes_with(reply: str, expected: set[float | None], question: str) -> bool:
    """Return whether a reply ends in the correct numbers, and all its other numbers are in the question.

    The reply "The share in 1994 is 1.0%" does so, for the question "What was the share in 1994?" and the number 1.0.
    """
    *_, end = _COPULA.split(reply)  # what follows the last "is", "are", "was" or "were"
    if end == reply or numbers_of(end) != expected:
        return False
    other_numbers = numbers_of(reply) - expected
    return other_numbers <= numbers_of(question)


def _ends_in_negation(words: list[str]) -> bool:
    """Return whether the last of some words is a negation, such words as "a" or "really" aside: `not a`."""
    while words and words[-1] in _WORDS_AFTER_NEGATION:
        words = words[:-1]
    return bool(words) and words[-1] in _NEGATIONS


def number_in(word: str) -> float | None:
    """Return the number that a normalised word is, in digits or spelled out up to twelve; None if it is not a number."""
    if word in _NUMBER_WORDS:
        return float(_NUMBER_WORDS.index(word))
    return float(word) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", word) else None


def _singular(word: str) -> str:
    """Return the singular of an English noun by its ending."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if re.search(r"(?:s|x|z|ch|sh)es$", word):
        return word[:-2]
    has_plural_s = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    if len(word) > 3 and has_plural_s:
        return word[:-1]
    return word


def _folded_answer(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")


def check_annotators(references: Sequence[str]) -> None:
    """Raise DataError if there are fewer than four annotators."""
    if isinstance(references, str) or len(references) < _MIN_ANNOTATORS:
        raise DataError(
            f"VQA accuracy: {len(references)} annotator answers; the metric needs at least {_MIN_ANNOTATORS} "
            "(VQA has 10); use exact_match or typed_match for a single gold"
        )


VQA_ACCURACY = reply_metric(
    vqa_accuracy,
    unit="share",
    title="VQA accuracy",
    whole_text=True,
    limit="full marks need an answer that four annotators gave",
)
DIRECT_ANSWER_ACCURACY = reply_metric(
    direct_answer_accuracy, unit="share", title="direct-answer accuracy", whole_text=True
)
GQA_ACCURACY = reply_metric(gqa_accuracy, unit="share", title="GQA accuracy", whole_text=True)
TYPED_MATCH = reply_metric(typed_match, unit="share")


def legacy_vqa_accuracy(reply: str, references: Sequence[str]) -> float:
    """VQA accuracy as the published script of VQA v2 computes it, in [0, 1].

    Unlike `vqa.vqa_accuracy`, it compares texts as they are if all annotators agree: if ten annotators said `yes`, then
    `Yes` and `yes.` are wrong. It accepts any number of annotators.

    Args:
        reply: The reply.
        references: The answers of the annotators, one each.
    """
    if not references:
        raise DataError(
            "legacy VQA accuracy: no annotator answers; give the answers of all annotators"
        )
    answer = _on_one_line(reply)
    annotator_answers = [_on_one_line(reference) for reference in references]
    do_all_agree = len(set(annotator_answers)) == 1
    if not do_all_agree:
        answer = vqa_normalise(answer)
        annotator_answers = [vqa_normalise(text) for text in annotator_answers]

    # For each annotator in turn, the accuracy against all others: min(matching others / 3, 1).
    accuracies: list[float] = []
    n_matching = annotator_answers.count(answer)
    for annotator_answer in annotator_answers:
        n_matching_others = n_matching - (annotator_answer == answer)
        accuracies.append(min(1.0, n_matching_others / 3))
    return sum(accuracies) / len(annotator_answers)


def _on_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").strip()


LEGACY_VQA_ACCURACY = reply_metric(
    legacy_vqa_accuracy,
    unit="share",
    title="legacy VQA accuracy",
    whole_text=True,
    limit="full marks need an answer that four annotators gave",
)
