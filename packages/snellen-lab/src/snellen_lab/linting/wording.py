"""Checks of what the words of a question give away: words that go with one answer, and a reader of the words alone.

They are for questions with few different answers (yes and no, small numbers), open or with options.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from snellen.plugin_api import (
    LintMaterial,
    LintQuestion,
    estimate_mean,
    fold_text,
)
from snellen_lab.linting.material import (
    SIGNIFICANCE_LEVEL,
    Finding,
    Severity,
    estimate_text,
    first_examples,
    severity_above_chance,
)
from snellen_lab.linting.surface import COMMON_SHARE, MIN_QUESTIONS

MAX_ANSWERS = 20
"""Number of different answers above which the words of a question are its subject."""
MAX_LISTED_WORDS = 5


class _WordedQuestion(NamedTuple):
    """A question with its answer and its words."""

    question: LintQuestion
    answer: str
    words: frozenset[str]


def telling_words(material: LintMaterial) -> Iterator[Finding]:
    """Find words that always go with one answer, more often than by chance.

    For example, each question with the word "any" may have the answer "no". If a word is in n questions that all have the
    same answer, and a share s of all questions has this answer, the probability of that by chance is s^n. A word is
    reported if this probability is so small that no word is expected to reach it by chance.
    """
    worded_questions = _worded_questions(material)
    total = len(worded_questions)
    if total < MIN_QUESTIONS:
        return
    answer_counts = Counter(worded.answer for worded in worded_questions)
    questions_with_word: dict[str, list[_WordedQuestion]] = defaultdict(list)
    for worded in worded_questions:
        # Sets have no fixed order. Words are sorted, because the first examples of the finding depend on their order.
        for word in sorted(worded.words):
            questions_with_word[word].append(worded)

    # Bonferroni: among many words, some go with one answer by chance.
    max_log_p = 0.0
    if questions_with_word:
        max_log_p = math.log(SIGNIFICANCE_LEVEL / len(questions_with_word))
    telling: dict[str, list[_WordedQuestion]] = {}
    for word, group in questions_with_word.items():
        answers = {worded.answer for worded in group}
        if len(answers) > 1:
            continue
        [answer] = answers
        log_p = len(group) * math.log(answer_counts[answer] / total)
        if log_p < max_log_p:
            telling[word] = group
    if not telling:
        return

    question_ids: dict[str, None] = {}  # in order, each once
    for group in telling.values():
        for worded in group:
            question_ids[worded.question.id] = None

    # The most frequent words first, equally frequent ones by the alphabet.
    words = sorted(telling, key=lambda word: (-len(telling[word]), word))
    listed = []
    for word in words[:MAX_LISTED_WORDS]:
        group = telling[word]
        listed.append(f"{word!r} {group[0].answer} {len(group):,}")
    if len(words) > MAX_LISTED_WORDS:
        listed.append("...")
    message = (
        f"have a word that goes with one answer wherever it stands ({len(telling):,} words): "
        f"{', '.join(listed)}"
    )
    severity: Severity = "serious" if len(question_ids) >= COMMON_SHARE * total else "warning"
    examples = first_examples(list(question_ids))
    yield Finding("telling-words", severity, message, len(question_ids), total, examples)


def question_reader(material: LintMaterial) -> Iterator[Finding]:
    """Measure a naive Bayes reader of the question's words on images on which it was not trained."""
    worded_questions = _worded_questions(material)
    folds = {worded.question.fold for worded in worded_questions}
    if len(worded_questions) < MIN_QUESTIONS or len(folds) < 2:
        return

    # A whole fold is left out. If only the question itself were, then of balanced answers the right one would always be
    # rarer among the other questions.
    readers = []
    for fold in range(LintQuestion.n_folds):
        training = [worded for worded in worded_questions if worded.question.fold != fold]
        readers.append(_WordReader(training))
    values = []
    for worded in worded_questions:
        reply = readers[worded.question.fold].likeliest_answer(worded.words)
        values.append(float(reply == worded.answer))
    estimate = estimate_mean(values, [worded.question.group for worded in worded_questions])

    answer_counts = Counter(worded.answer for worded in worded_questions)
    most_frequent = max(answer_counts, key=lambda answer: (answer_counts[answer], answer))
    majority = answer_counts[most_frequent] / len(worded_questions)
    yield Finding(
        "question-reader",
        severity_above_chance(estimate, majority),
        f"a naive reader of the question's words scores {estimate_text(estimate)} on images that it has not learned "
        f"from; always replying {most_frequent!r} {majority:.1%}",
        round(sum(values)),
        len(worded_questions),
        (),
        estimate,
        majority,
    )


def _worded_questions(material: LintMaterial) -> list[_WordedQuestion]:
    """Return the questions with a single answer, if they have few different answers.

    Questions with options are included only if all have the same options (yes and no). Otherwise positions and texts of
    options tell more.
    """
    option_sets = {frozenset(question.folded) for question in material.choices}
    worded_questions = []
    for question in material.questions:
        if question.options and len(question.gold) == 1 and len(option_sets) == 1:
            answer = question.folded[question.gold[0]]
        elif question.texts and not question.options:
            answer = fold_text(question.texts[0])
        else:
            continue
        words = frozenset(question.question.split())
        worded_questions.append(_WordedQuestion(question, answer, words))

    n_answers = len({worded.answer for worded in worded_questions})
    if 1 < n_answers <= MAX_ANSWERS:
        return worded_questions
    return []


class _WordReader:
    """Naive Bayes classifier that guesses the answer of a question from the question's words alone.

    It is smoothed with one question per word and answer.
    """

    def __init__(self, training: Sequence[_WordedQuestion]) -> None:
        """Count how often each answer occurs in the training questions, and how often with each word."""
        self._answer_counts: Counter[str] = Counter()
        self._word_counts: dict[str, Counter[str]] = defaultdict(Counter)
        for worded in training:
            self._answer_counts[worded.answer] += 1
            word_counts_of_answer = self._word_counts[worded.answer]
            word_counts_of_answer.update(worded.words)

    def likeliest_answer(self, words: frozenset[str]) -> str:
        """Return the most probable answer to a question with these words.

        Of equally probable answers it is the more frequent one, then the last one in alphabetical order.
        """

        def sort_key(answer: str) -> tuple[float, int, str]:
            return self._log_probability(answer, words), self._answer_counts[answer], answer

        return max(self._answer_counts, key=sort_key)

    def _log_probability(self, answer: str, words: frozenset[str]) -> float:
        """Return the log-probability of an answer given the words of a question, up to a constant."""
        n_questions = self._answer_counts[answer]
        word_counts = self._word_counts[answer]
        logs = []
        for word in words:
            probability = (word_counts[word] + 1) / (n_questions + 2)
            logs.append(math.log(probability))
        return math.log(n_questions) + math.fsum(logs)
