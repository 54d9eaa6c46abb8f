"""Checks of texts: repeated questions, duplicate options, texts that say nothing or too much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from snellen.analysis.aggregate import results_of
from snellen.analysis.lint.findings import Finding, estimate_text, first_examples, severity_above_chance
from snellen.analysis.lint.material import LONG, LintMaterial, LintQuestion, fold_text, wordless
from snellen.protocols.base import labelled_declaration
from snellen.records import Result
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.text_scoring import DEFAULT_TEXT_METRICS, metric_row_names

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
    of = len(material.questions)
    if conflicts:
        says = "same picture, same question: the answer of one is offered as wrong by another"
        yield Finding("conflicting-golds", "serious", says, len(conflicts), of, first_examples(conflicts))
    if disputed:
        says = "same picture, same question, no accepted answer in common"
        yield Finding("conflicting-texts", "warning", says, len(disputed), of, first_examples(disputed))
    if copies:
        says = "repeat another question: same picture, words, options and answer, but for case and punctuation"
        yield Finding("duplicates", "warning", says, len(copies), of, first_examples(copies))
    if near:
        says = "repeat the words of another question about the same picture, with other options or answers"
        yield Finding("near-duplicates", "warning", says, len(near), of, first_examples(near))


def indistinguishable(material: LintMaterial) -> Iterator[Finding]:
    """Questions of which a model is shown just what it is shown of others that have another answer."""
    alike = material.benchmark.indistinguishable()
    if alike:
        says = "show a model just what others show it, letter by letter, and have another answer: one reply for all"
        examples = first_examples(question.sample_id for question in alike)
        yield Finding("indistinguishable", "serious", says, len(alike), len(material.questions), examples)


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
    identical, with_gold, nested = [], [], []
    for question in choices:
        options = question.folded
        if len(set(options)) < len(options):
            identical.append(question.id)
            if any(options.count(options[place]) > 1 for place in question.gold):
                with_gold.append(question.id)
        elif _nested(options):
            nested.append(question.id)
    if with_gold:
        says = "a wrong option is the answer in other case, punctuation or article"
        yield Finding("answer-twice", "serious", says, len(with_gold), len(choices), first_examples(with_gold))
    if remaining := len(identical) - len(with_gold):
        says = "two wrong options are one but for case, punctuation or article"
        examples = first_examples(question_id for question_id in identical if question_id not in set(with_gold))
        yield Finding("option-twice", "warning", says, remaining, len(choices), examples)
    if nested:
        says = "one option contains another as whole words; a reply that names the longer names both"
        yield Finding("nested-options", "warning", says, len(nested), len(choices), first_examples(nested))


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
        if not question.question or any(wordless(text) for text in (*question.options, *question.texts))
    ]
    if empty:
        says = "a question, option or reference has no letter and no digit; text metrics cannot see it"
        yield Finding("wordless-texts", "warning", says, len(empty), len(questions), first_examples(empty))
    if material.long:
        says = f"context and question have more than {LONG:,} characters"
        yield Finding("long-questions", "note", says, len(material.long), len(questions), first_examples(material.long))
    long = [question.id for question in questions if any(len(option) > LONG_OPTION for option in question.options)]
    if long:
        says = f"an option has more than {LONG_OPTION} characters"
        yield Finding("long-options", "note", says, len(long), len(questions), first_examples(long))


# --- questions without their pictures --------------------------------------------------------------------------------


def text_only(run: ScoredRun) -> dict[str, list[Finding]]:
    """Findings of a run's protocols that show no picture, by benchmark: how far the texts alone carry the model."""
    rows = [row for row in results_of(run) if not row.slice and not labelled_declaration(row.protocol).sees_images]
    return {
        scored.spec.name: list(_findings(scored, [row for row in rows if row.benchmark == scored.spec.name]))
        for scored in run.benchmarks
    }


def _findings(scored: ScoredBenchmark, rows: list[Result]) -> Iterator[Finding]:
    headline_rows = ("accuracy", metric_row_names((scored.spec.metrics or DEFAULT_TEXT_METRICS)[0])[0])
    for row in rows:
        estimate = row.estimate
        if row.metric not in headline_rows or not estimate.n:
            continue
        chance = _chance(scored) if row.metric == "accuracy" else None
        chance_note = f"; chance {chance:.1%}" if chance is not None else ""
        of_choices = (
            result.estimate.value or 0.0 for result in rows if result.metric == "unparsed_rate" and chance is not None
        )
        unparsed = next(of_choices, 0.0)
        failures = f"; {unparsed:.1%} unparsed, {estimate.errors:,} errors" if unparsed or estimate.errors else ""
        yield Finding(
            "text-only", severity_above_chance(estimate, chance) if chance is not None else "note",
            f"{row.model} without the picture: {row.metric} {estimate_text(estimate)}{chance_note}{failures}",
            round((estimate.value or 0.0) * estimate.n), estimate.n, (), estimate, chance,
        )  # fmt: skip


def _chance(scored: ScoredBenchmark) -> float:
    chances = [
        len(answer.options) / len(scored.samples[name].rounds[turn].options)
        for (name, turn), answer in scored.answers.items()
        if answer.options and name in scored.samples
    ]
    return sum(chances) / len(chances)
