"""A check for tags of questions that give the answer away."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from snellen.plugin_api import LintMaterial, LintQuestion, fold_text
from snellen_lab.linting.material import SIGNIFICANCE_LEVEL, Finding, first_examples

MAX_LISTED_VALUES = 5


class _TaggedQuestion(NamedTuple):
    """A question with its value of a tag and its answers, all as folded (normalised) texts."""

    question: LintQuestion
    value: str
    answers: frozenset[str]


def telling_tags(material: LintMaterial, unlikely: float = SIGNIFICANCE_LEVEL) -> Iterator[Finding]:
    """Find tags whose value is the answer, or goes with one answer too often for chance."""
    tagged_by_name: dict[str, list[_TaggedQuestion]] = defaultdict(list)
    for question in material.questions:
        answers = _answers(question)
        if answers:
            for name, value in question.tags.items():
                tagged = _TaggedQuestion(question, fold_text(value), answers)
                tagged_by_name[name].append(tagged)

    for name, tagged_questions in sorted(tagged_by_name.items()):
        if len({tagged.value for tagged in tagged_questions}) > 1:
            yield from _tag_findings(name, tagged_questions, unlikely)


def _answers(question: LintQuestion) -> frozenset[str]:
    if question.options:
        return frozenset(question.folded[index] for index in question.gold)
    return frozenset(map(fold_text, question.texts))


def _tag_findings(
    name: str, tagged_questions: Sequence[_TaggedQuestion], unlikely: float
) -> Iterator[Finding]:
    """Yield at most one finding about a tag that gives answers away.

    Either its values are the answers; or some of its values go with a single answer, which no other
    question has, too often for chance.
    """
    total = len(tagged_questions)
    by_value: dict[str, list[_TaggedQuestion]] = defaultdict(list)
    for tagged in tagged_questions:
        by_value[tagged.value].append(tagged)

    answer_questions: list[_TaggedQuestion] = []
    for value, group in sorted(by_value.items()):
        if all(value in tagged.answers for tagged in group):
            answer_questions.extend(group)
    if answer_questions:
        yield _tag_finding(name, "is the answer", answer_questions, total)
        return

    answer_frequency: Counter[str] = Counter()
    wording_frequency: Counter[str] = Counter()
    for tagged in tagged_questions:
        answer_frequency.update(tagged.answers)
        wording_frequency[tagged.question.question] += 1
    # Bonferroni: among many values, some go with one answer by chance.
    bound = math.log(unlikely / len(by_value))
    telling: list[_TaggedQuestion] = []
    for group in by_value.values():
        # Log-probability that, by chance, the questions with one answer are exactly those with this value of the tag.
        log_p = -math.log(math.comb(total, len(group)))
        if log_p >= bound:
            continue
        if not _has_exclusive_answer(group, answer_frequency):
            continue
        if _has_exclusive_wording(group, wording_frequency):
            continue
        telling.extend(group)
    if telling:
        yield _tag_finding(
            name, "occurs with a single answer, which occurs nowhere else", telling, total
        )


def _has_exclusive_answer(group: Sequence[_TaggedQuestion], answer_frequency: Counter[str]) -> bool:
    """Return whether all these questions have an answer that no other question has."""
    common_answers = frozenset.intersection(*(tagged.answers for tagged in group))
    return any(answer_frequency[answer] == len(group) for answer in common_answers)


def _has_exclusive_wording(
    group: Sequence[_TaggedQuestion], wording_frequency: Counter[str]
) -> bool:
    """Return whether all these questions, and no others, have the same words.

    Then the words give away as much as the tag does, and the tag is not reported.
    """
    wording = group[0].question.question
    if any(tagged.question.question != wording for tagged in group):
        return False
    return wording_frequency[wording] == len(group)


def _tag_finding(
    name: str, behaviour: str, telling: Sequence[_TaggedQuestion], total: int
) -> Finding:
    """Return the finding that a tag gives away the answers to some questions."""
    values = list(dict.fromkeys(tagged.value for tagged in telling))
    listing = ", ".join(repr(value) for value in values[:MAX_LISTED_VALUES])
    return Finding(
        "telling-tags",
        "serious",
        f"have the tag {name!r} with a value that {behaviour}: {listing}; make it an answer tag",
        len(telling),
        total,
        first_examples(tagged.question.id for tagged in telling),
    )
