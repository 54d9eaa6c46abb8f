"""Checks of texts: repeated questions, duplicate options, and texts that are empty or very long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from snellen.plugin_api import LintMaterial, LintQuestion, fold_text
from snellen_lab.linting.material import Finding, samples_finding

LONG_OPTION = 400
"""Number of characters above which an option is long."""


def repeated_questions(material: LintMaterial) -> Iterator[Finding]:
    """Find the same question about the same image: a duplicate if the answer is the same, else perhaps a conflict.

    The same words about another image are not a repetition.
    """
    groups: dict[tuple[int, str], list[LintQuestion]] = defaultdict(list)
    for question in material.questions:
        groups[question.scene, question.question].append(question)

    conflicting_golds: list[str] = []
    conflicting_texts: list[str] = []
    duplicates: list[str] = []
    near_duplicates: list[str] = []
    for group in groups.values():
        if len(group) < 2:
            continue
        group_ids = [question.id for question in group]
        if _offers_answer_as_wrong(group):
            conflicting_golds += group_ids
        elif _accepts_nothing_in_common(group):
            conflicting_texts += group_ids
        first, *repeats = group
        earlier_contents = {_content(first)}
        for question in repeats:
            if _content(question) in earlier_contents:
                duplicates.append(question.id)
            else:
                near_duplicates.append(question.id)
            earlier_contents.add(_content(question))

    total = len(material.questions)
    yield from samples_finding(
        "conflicting-golds",
        "serious",
        "same image, same question: the answer to one is a wrong option of another",
        conflicting_golds,
        total,
    )
    yield from samples_finding(
        "conflicting-texts",
        "warning",
        "same image, same question, no accepted answer in common",
        conflicting_texts,
        total,
    )
    yield from samples_finding(
        "duplicates",
        "warning",
        "repeat another question: same image, words, options and answer, except for case and punctuation",
        duplicates,
        total,
    )
    yield from samples_finding(
        "near-duplicates",
        "warning",
        "repeat the words of another question about the same image, with other options or answers",
        near_duplicates,
        total,
    )


def _offers_answer_as_wrong(group: Sequence[LintQuestion]) -> bool:
    """Return whether a right option of one of these questions is a wrong option of another."""
    choices = [question for question in group if question.options and question.gold]
    right_texts: set[str] = set()
    for question in choices:
        right_texts |= _right_texts(question)
    for question in choices:
        wrong_texts = set(question.folded) - _right_texts(question)
        if right_texts & wrong_texts:
            return True
    return False


def _accepts_nothing_in_common(group: Sequence[LintQuestion]) -> bool:
    """Return whether there are several open questions and no text is accepted by all of them."""
    accepted = []
    for question in group:
        if not question.options and question.texts:
            accepted.append(_right_texts(question))
    return len(accepted) > 1 and not set.intersection(*accepted)


def _content(question: LintQuestion) -> tuple[frozenset[str], frozenset[str]]:
    """Return the folded options of a question and its correct answers, regardless of their order."""
    return frozenset(question.folded), frozenset(_right_texts(question))


def _right_texts(question: LintQuestion) -> set[str]:
    """Return the correct answers to a question as folded texts (without case, punctuation and articles)."""
    if question.options:
        return {question.folded[index] for index in question.gold}
    return {fold_text(text) for text in question.texts}


def indistinguishable(material: LintMaterial) -> Iterator[Finding]:
    """Find questions that look the same to a model but have different answers."""
    sample_ids = [question.sample_id for question in material.benchmark.indistinguishable()]
    message = "send the same request as other questions but have a different answer, so they share one reply"
    total = len(material.questions)
    yield from samples_finding("indistinguishable", "serious", message, sample_ids, total)


def similar_options(material: LintMaterial) -> Iterator[Finding]:
    """Find options that are equal after folding, or of which one contains another as whole words."""
    choices = [question for question in material.questions if question.options]
    answer_twice: list[str] = []
    option_twice: list[str] = []
    nested: list[str] = []
    for question in choices:
        options = question.folded
        if len(set(options)) == len(options):
            if _are_nested(options):
                nested.append(question.id)
        elif any(options.count(options[index]) > 1 for index in question.gold):
            answer_twice.append(question.id)
        else:
            option_twice.append(question.id)

    total = len(choices)
    yield from samples_finding(
        "answer-twice",
        "serious",
        "a wrong option differs from the answer only in case, punctuation or article",
        answer_twice,
        total,
    )
    yield from samples_finding(
        "option-twice",
        "warning",
        "two wrong options differ only in case, punctuation or article",
        option_twice,
        total,
    )
    yield from samples_finding(
        "nested-options",
        "warning",
        "one option contains another as whole words; a reply that names the longer names both",
        nested,
        total,
    )


def _are_nested(options: Sequence[str]) -> bool:
    """Return whether one option contains another as whole words: "red" and "red car", but not "red" and "redder"."""
    # With a space on both sides, a text is only found at the borders of words. Signs are at the end of a folded text,
    # so that -5 does not contain 5.
    padded_options = [f" {option} " for option in options]
    all_options = "\n".join(padded_options)
    return any(all_options.count(option) > 1 for option in padded_options)


def text_lengths(material: LintMaterial) -> Iterator[Finding]:
    """Find texts without a letter or digit, and very long ones."""
    wordless: list[str] = []
    long_options: list[str] = []
    for question in material.questions:
        texts = (*question.options, *question.texts)
        if not question.question or any(_is_wordless(text) for text in texts):
            wordless.append(question.id)
        if any(len(option) > LONG_OPTION for option in question.options):
            long_options.append(question.id)

    total = len(material.questions)
    yield from samples_finding(
        "wordless-texts",
        "warning",
        "a question, option or reference has no letter and no digit; text metrics cannot see it",
        wordless,
        total,
    )
    yield from samples_finding(
        "long-questions",
        "note",
        f"context and question have more than {LintMaterial.max_length:,} characters",
        material.long,
        total,
    )
    yield from samples_finding(
        "long-options",
        "note",
        f"an option has more than {LONG_OPTION} characters",
        long_options,
        total,
    )


def _is_wordless(text: str) -> bool:
    """Return whether a text has no letter and no digit."""
    return not any(character.isalnum() for character in text)
