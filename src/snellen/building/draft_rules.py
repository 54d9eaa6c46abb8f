"""Rules that a draft must satisfy to be asked and scored.

A draft is a question of a source before it is split into question and answer (`snellen.common.drafts`). A dialogue has
several rounds, other drafts have one.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from snellen.common.drafts import Draft, QuestionDraft
from snellen.errors import DataError


def check_draft(draft: Draft) -> None:
    """Check the texts, options and answers of a sample before it enters a benchmark. Images are not checked.

    Raises:
        DataError: The sample cannot be asked or scored. The message names its location.
    """
    if not draft.id.strip():
        raise DataError(f"{draft.where}: the id is empty")
    if draft.replies and len(draft.replies) != len(draft.rounds):
        raise DataError(
            f"{draft.where}: {len(draft.replies)} published replies for {len(draft.rounds)} rounds"
        )
    tags_of_both = draft.tags.keys() & draft.answer_tags.keys()
    if tags_of_both:
        raise DataError(
            f"{draft.where}: {min(tags_of_both)!r} is both a tag and an answer tag; keep only one of them"
        )
    for number, question in enumerate(draft.rounds):
        where = f"{draft.where}, round {number}" if draft.dialogue else draft.where
        _check_question(question, where)


def _check_question(question: QuestionDraft, where: str) -> None:
    """Raise DataError, naming the location, if a text of a question is empty or its answer is not one of its options."""
    if not question.question.strip():
        raise DataError(f"{where}: the question is empty")
    _check_options(question, where)
    n_options = len(question.options)
    for option in question.gold:
        if not 0 <= option < n_options:
            raise DataError(f"{where}: answer {option} but options are 0-{n_options - 1}")
    if any(not text.strip() for text in question.texts):
        raise DataError(f"{where}: an answer text is empty")
    _check_relevance(question, where)


def _check_options(question: QuestionDraft, where: str) -> None:
    """Check that there are no options or at least two, none empty and, unless they may repeat, all different."""
    options = [option.strip() for option in question.options]
    if len(options) == 1:
        raise DataError(
            f"{where}: a multiple-choice question needs at least two options, but there is only {options[0]!r}"
        )
    if "" in options:
        raise DataError(f"{where}: option {options.index('')} is empty")
    if question.may_repeat:
        return
    repeated = _first_repeated(options)
    if repeated is not None:
        raise DataError(f"{where}: the option {repeated!r} appears twice; options must differ")
    # "é" can be one character or an "e" with a combining accent.
    composed = [unicodedata.normalize("NFC", option) for option in options]
    repeated = _first_repeated(composed)
    if repeated is not None:
        raise DataError(
            f"{where}: the option {repeated!r} appears twice, in two Unicode spellings that look the same; options "
            "must differ"
        )


def _first_repeated(texts: Sequence[str]) -> str | None:
    """Return the first text that occurs again later; None if all are different."""
    for index, text in enumerate(texts):
        if text in texts[index + 1 :]:
            return text
    return None


def _check_relevance(question: QuestionDraft, where: str) -> None:
    """Check the relevance values, one for each option, by which rankings of the options are scored (NDCG)."""
    if not question.relevance:
        return
    if len(question.relevance) != len(question.options):
        raise DataError(
            f"{where}: {len(question.relevance)} relevance values for {len(question.options)} options"
        )
    for value in question.relevance:
        if not 0 <= value < math.inf:
            raise DataError(
                f"{where}: the relevance of an option is {value}; use numbers of at least 0"
            )
    if not question.gold:
        raise DataError(
            f"{where}: the question has relevance values but no answer; add the correct option"
        )
