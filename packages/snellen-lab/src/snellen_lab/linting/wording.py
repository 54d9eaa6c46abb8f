"""Checks of what the words of a question give away: a word that goes with one answer, a reader of the words alone.

For questions with few different answers (yes and no, small numbers), open or with options.

Checks of texts: repeated questions, duplicate options, texts that say nothing or too much.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from snellen.plugin_api import (
    DEFAULT_TEXT_METRICS,
    LONG_QUESTION,
    QUESTION_FOLDS,
    LintMaterial,
    LintQuestion,
    Result,
    ScoredBenchmark,
    ScoredRun,
    estimate_mean,
    find_metric,
    fold_text,
    labelled_declaration,
    results_of,
)
from snellen_lab.linting.golds import UNLIKELY
from snellen_lab.linting.material import (
    Finding,
    Severity,
    estimate_text,
    first_examples,
    samples_finding,
    severity_above_chance,
)
from snellen_lab.linting.surface import COMMON, LEAST

MOST_ANSWERS = 20
"""With more different answers, words of a question are its subject."""
LISTED = 5

Asked = tuple[LintQuestion, str, frozenset[str]]
"""A question, its answer, and its words."""


def telling_words(material: LintMaterial) -> Iterator[Finding]:
    """Words that always go with one answer, more often than chance allows: `exis` where the answer is no."""
    entries = _few_answers(material)
    if len(entries) < LEAST:
        return
    shares = {
        answer: n / len(entries)
        for answer, n in Counter(answer for _, answer, _ in entries).items()
    }
    by_word: dict[str, list[Asked]] = defaultdict(list)
    for entry in entries:
        for word in entry[2]:
            by_word[word].append(entry)
    telling: dict[str, list[Asked]] = {}
    for word, group in by_word.items():
        answers = {answer for _, answer, _ in group}
        # Among many words some go with one answer by chance, hence Bonferroni.
        if len(answers) == 1 and len(group) * math.log(shares[next(iter(answers))]) < math.log(
            UNLIKELY / len(by_word)
        ):
            telling[word] = group
    if not telling:
        return
    concerned = list(
        {question.id: question for group in telling.values() for question, _, _ in group}.values()
    )
    often = sorted(telling, key=lambda word: (-len(telling[word]), word))
    listing = ", ".join(
        f"{word!r} {telling[word][0][1]} {len(telling[word]):,}" for word in often[:LISTED]
    )
    severity: Severity = "serious" if len(concerned) >= COMMON * len(entries) else "warning"
    says = (
        f"have a word that goes with one answer wherever it stands ({len(telling):,} words): {listing}"
        f"{', ...' if len(often) > LISTED else ''}"
    )
    yield Finding(
        "telling-words",
        severity,
        says,
        len(concerned),
        len(entries),
        first_examples(q.id for q in concerned),
    )


def question_reader(material: LintMaterial) -> Iterator[Finding]:
    """The accuracy of a naive Bayes reader of the question's words, tested on pictures that it has not learned from."""
    entries = _few_answers(material)
    if len(entries) < LEAST or len({question.fold for question, _, _ in entries}) < 2:
        return
    # Of balanced answers the one that others have more often is never the own one, so each fold has its own majority.
    readers = [
        _Reader([entry for entry in entries if entry[0].fold != fold])
        for fold in range(QUESTION_FOLDS)
    ]
    groups = [question.group for question, _, _ in entries]
    values = [
        float(readers[question.fold].answer(words) == answer) for question, answer, words in entries
    ]
    common, most = max(
        Counter(answer for _, answer, _ in entries).items(), key=lambda pair: (pair[1], pair[0])
    )
    estimate, majority = estimate_mean(values, groups), most / len(entries)
    yield Finding(
        "question-reader",
        severity_above_chance(estimate, majority),
        f"a naive reader of the question's words scores {estimate_text(estimate)} on pictures that it has not learned "
        f"from; always replying {common!r} {majority:.1%}",
        round(sum(values)),
        len(entries),
        (),
        estimate,
        majority,
    )


def _few_answers(material: LintMaterial) -> list[Asked]:
    """The questions with one answer each, if there are few different ones; else none.

    Those with options only where all have the same ones (yes and no), as otherwise places and texts tell more.
    """
    labels = {frozenset(question.folded) for question in material.choices}
    entries: list[Asked] = []
    for question in material.questions:
        if question.options and len(question.gold) == 1 and len(labels) == 1:
            answer = question.folded[question.gold[0]]
        elif question.texts and not question.options:
            answer = fold_text(question.texts[0])
        else:
            continue
        entries.append((question, answer, frozenset(question.question.split())))
    return entries if 1 < len({answer for _, answer, _ in entries}) <= MOST_ANSWERS else []


class _Reader:
    """Log-odds of each answer by the words of the question, smoothed with one question a word and answer."""

    def __init__(self, entries: Sequence[Asked]) -> None:
        self._answers = Counter(answer for _, answer, _ in entries)
        self._words: dict[str, Counter[str]] = defaultdict(Counter)
        for _, answer, words in entries:
            self._words[answer].update(words)

    def answer(self, words: frozenset[str]) -> str:
        """The likeliest answer; of equals the more frequent one, then the last by name."""
        return max(
            self._answers,
            key=lambda answer: (self._score(answer, words), self._answers[answer], answer),
        )

    def _score(self, answer: str, words: frozenset[str]) -> float:
        n, word_counts = self._answers[answer], self._words[answer]
        return math.log(n) + math.fsum(
            math.log((word_counts[word] + 1) / (n + 2)) for word in words
        )


# --- what tags give away ---------------------------------------------------------------------------------------------


Tagged = tuple[LintQuestion, str, frozenset[str]]
"""A question, its value of a tag, and its answers, all folded."""


def telling_tags(material: LintMaterial, unlikely: float = UNLIKELY) -> Iterator[Finding]:
    """Tags that are the answer, or of which a value and an answer always go together, more often than chance allows."""
    by_name: dict[str, list[Tagged]] = defaultdict(list)
    for question in material.questions:
        if answers := _answers(question):
            for name, value in question.tags.items():
                by_name[name].append((question, fold_text(value), answers))
    for name, tagged in sorted(by_name.items()):
        if len({value for _, value, _ in tagged}) > 1:
            yield from _told_by(name, tagged, unlikely)


def _answers(question: LintQuestion) -> frozenset[str]:
    if question.options:
        return frozenset(question.folded[place] for place in question.gold)
    return frozenset(map(fold_text, question.texts))


def _told_by(name: str, tagged: Sequence[Tagged], unlikely: float) -> Iterator[Finding]:
    by_value: dict[str, list[Tagged]] = defaultdict(list)
    for entry in tagged:
        by_value[entry[1]].append(entry)
    equal = {
        value
        for value, group in by_value.items()
        if all(value in answers for _, _, answers in group)
    }
    if equal:
        yield _finding(
            name,
            "is the answer",
            [entry for value in sorted(equal) for entry in by_value[value]],
            len(tagged),
        )
        return
    frequency = Counter(answer for _, _, answers in tagged for answer in answers)
    # Among many values some go with an answer by chance, hence Bonferroni.
    bound = math.log(unlikely / len(by_value))
    worded = Counter(question.question for question, _, _ in tagged)
    telling = [
        tagged_entry
        for group in by_value.values()
        if _chance_of(len(tagged), len(group)) < bound
        and _own_answer([entry[2] for entry in group], frequency)
        and not _one_question(group, worded)
        for tagged_entry in group
    ]
    if telling:
        yield _finding(
            name, "goes with one answer, which stands nowhere else", telling, len(tagged)
        )


def _own_answer(answers: Sequence[frozenset[str]], frequency: Counter[str]) -> bool:
    """Whether these questions have an answer in common that no other question has."""
    return any(frequency[answer] == len(answers) for answer in frozenset.intersection(*answers))


def _one_question(group: Sequence[Tagged], worded: Counter[str]) -> bool:
    """Whether they ask the same, about several pictures, and no other question does: then their words tell as much."""
    return (
        worded[group[0][0].question]
        == len(group)
        == sum(q.question == group[0][0].question for q, _, _ in group)
    )


def _chance_of(total: int, marked: int) -> float:
    """The logarithm of the chance that an answer of `marked` of `total` questions falls on just those with a value."""
    return -math.log(math.comb(total, marked))


def _finding(name: str, behaviour: str, telling: Sequence[Tagged], total: int) -> Finding:
    listing = ", ".join(
        repr(value) for value in list(dict.fromkeys(value for _, value, _ in telling))[:5]
    )
    says = f"have the tag {name!r} with a value that {behaviour}: {listing}; make it an answer tag"
    return Finding(
        "telling-tags",
        "serious",
        says,
        len(telling),
        total,
        first_examples(q.id for q, _, _ in telling),
    )


LONG_OPTION = 400
"""Characters."""


def repeated_questions(material: LintMaterial) -> Iterator[Finding]:
    """The same question about the same picture: a duplicate if the answer is the same, else perhaps a conflict.

    The same words about another picture are not a repetition.
    """
    by_question: dict[tuple[int, str], list[LintQuestion]] = defaultdict(list)
    for question in material.questions:
        by_question[question.scene, question.question].append(question)
    conflicts: list[str] = []
    disputed: list[str] = []
    copies: list[str] = []
    near: list[str] = []
    for group in (group for group in by_question.values() if len(group) > 1):
        if _clash(group):
            conflicts += (question.id for question in group)
        elif _apart(group):
            disputed += (question.id for question in group)
        first, *repeats = group
        answers_seen = {_content(first)}
        for question in repeats:
            (copies if _content(question) in answers_seen else near).append(question.id)
            answers_seen.add(_content(question))
    total = len(material.questions)
    says = "same picture, same question: the answer of one is offered as wrong by another"
    yield from samples_finding("conflicting-golds", "serious", says, conflicts, total)
    says = "same picture, same question, no accepted answer in common"
    yield from samples_finding("conflicting-texts", "warning", says, disputed, total)
    says = "repeat another question: same picture, words, options and answer, but for case and punctuation"
    yield from samples_finding("duplicates", "warning", says, copies, total)
    says = (
        "repeat the words of another question about the same picture, with other options or answers"
    )
    yield from samples_finding("near-duplicates", "warning", says, near, total)


def indistinguishable(material: LintMaterial) -> Iterator[Finding]:
    """Questions of which a model is shown just what it is shown of others that have another answer."""
    alike = [question.sample_id for question in material.benchmark.indistinguishable()]
    says = "show a model just what others show it, letter by letter, and have another answer: one reply for all"
    yield from samples_finding("indistinguishable", "serious", says, alike, len(material.questions))


def _clash(group: list[LintQuestion]) -> bool:
    choices = [question for question in group if question.options and question.gold]
    everything = {text for question in choices for text in _right(question)}
    return any(everything & (set(question.folded) - _right(question)) for question in choices)


def _apart(group: list[LintQuestion]) -> bool:
    accepted = [_right(question) for question in group if not question.options and question.texts]
    return len(accepted) > 1 and not set.intersection(*accepted)


def _content(question: LintQuestion) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(question.folded), frozenset(_right(question))


def _right(question: LintQuestion) -> set[str]:
    if question.options:
        return {question.folded[place] for place in question.gold}
    return {fold_text(text) for text in question.texts}


def similar_options(material: LintMaterial) -> Iterator[Finding]:
    """Options that are equal after folding, or of which one contains another as whole words."""
    choices = [question for question in material.questions if question.options]
    wrong_twice: list[str] = []
    with_gold: list[str] = []
    nested: list[str] = []
    for question in choices:
        options = question.folded
        if len(set(options)) < len(options):
            is_gold_twice = any(options.count(options[place]) > 1 for place in question.gold)
            (with_gold if is_gold_twice else wrong_twice).append(question.id)
        elif _nested(options):
            nested.append(question.id)
    says = "a wrong option is the answer in other case, punctuation or article"
    yield from samples_finding("answer-twice", "serious", says, with_gold, len(choices))
    says = "two wrong options are one but for case, punctuation or article"
    yield from samples_finding("option-twice", "warning", says, wrong_twice, len(choices))
    says = "one option contains another as whole words; a reply that names the longer names both"
    yield from samples_finding("nested-options", "warning", says, nested, len(choices))


def _nested(options: tuple[str, ...]) -> bool:
    # Signs come last in a folded text, so -5 does not contain 5.
    padded = [f" {option} " for option in options]
    together = "\n".join(padded)
    return any(together.count(option) > 1 for option in padded)


def text_lengths(material: LintMaterial) -> Iterator[Finding]:
    """Texts without a letter or digit, and very long ones."""
    questions = material.questions
    empty = [
        question.id
        for question in questions
        if not question.question
        or any(_wordless(text) for text in (*question.options, *question.texts))
    ]
    says = "a question, option or reference has no letter and no digit; text metrics cannot see it"
    yield from samples_finding("wordless-texts", "warning", says, empty, len(questions))
    says = f"context and question have more than {LONG_QUESTION:,} characters"
    yield from samples_finding("long-questions", "note", says, material.long, len(questions))
    long = [
        question.id
        for question in questions
        if any(len(option) > LONG_OPTION for option in question.options)
    ]
    yield from samples_finding(
        "long-options",
        "note",
        f"an option has more than {LONG_OPTION} characters",
        long,
        len(questions),
    )


# --- questions without their pictures --------------------------------------------------------------------------------


def text_only(run: ScoredRun) -> dict[str, list[Finding]]:
    """Findings of a run's protocols that show no picture, by benchmark: how far the texts alone carry the model."""
    rows = [
        row
        for row in results_of(run)
        if not row.slice and not labelled_declaration(row.protocol).sees_images
    ]
    return {
        scored.spec.name: list(
            _findings(scored, [row for row in rows if row.benchmark == scored.spec.name])
        )
        for scored in run.benchmarks
    }


def _findings(scored: ScoredBenchmark, rows: list[Result]) -> Iterator[Finding]:
    headline_rows = (
        "accuracy",
        find_metric((scored.spec.metrics or DEFAULT_TEXT_METRICS)[0]).names[0],
    )
    for row in rows:
        estimate = row.estimate
        if row.metric not in headline_rows or not estimate.n:
            continue
        chance = _chance(scored) if row.metric == "accuracy" else None
        chance_note = f"; chance {chance:.1%}" if chance is not None else ""
        of_choices = (
            result.estimate.value or 0.0
            for result in rows
            if result.metric == "unparsed_rate" and chance is not None
        )
        unparsed = next(of_choices, 0.0)
        failures = (
            f"; {unparsed:.1%} unparsed, {estimate.errors:,} errors"
            if unparsed or estimate.errors
            else ""
        )
        yield Finding(
            "text-only",
            severity_above_chance(estimate, chance) if chance is not None else "note",
            f"{row.model} without the picture: {row.metric} {estimate_text(estimate)}{chance_note}{failures}",
            round((estimate.value or 0.0) * estimate.n),
            estimate.n,
            (),
            estimate,
            chance,
        )


def _chance(scored: ScoredBenchmark) -> float:
    chances = [
        len(answer.options) / len(scored.samples[name].rounds[turn].options)
        for (name, turn), answer in scored.answers.items()
        if answer.options and name in scored.samples
    ]
    return sum(chances) / len(chances)


def _wordless(text: str) -> bool:
    """Whether a text has no letter and no digit."""
    return not any(letter.isalnum() for letter in text)
