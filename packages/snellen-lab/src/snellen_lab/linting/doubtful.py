"""Questions that people should look at, by the results of models: solved without the image, or missed by all models.

MMBench's quality control does this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from snellen.plugin_api import (
    ScoredBenchmark,
    ScoredRun,
    headline_metrics,
    hits_p_value,
    labelled_declaration,
    protocol_preference,
    question_values,
    run_labels,
)
from snellen_lab.linting.material import SIGNIFICANCE_LEVEL, Finding, Severity, first_examples

SOLVED_BLIND = "solved-blind"
MISSED_BY_ALL = "missed-by-all"
RIGHT = 0.5
"""A question counts as right if its score, or the share of its presentations that are right, is above this."""
QuestionKey = tuple[str, int]
"""Sample and round."""
Verdicts = Mapping[str, Mapping[QuestionKey, bool]]
"""By model, whether it answered each question correctly."""


class DoubtfulQuestion(Struct, frozen=True):
    """A question that people should look at: a line of the list."""

    id: str
    turn: int
    reason: str
    detail: str


def doubtful_questions(
    name: str, runs: Sequence[ScoredRun]
) -> tuple[list[Finding], list[DoubtfulQuestion]]:
    """Find the doubtful questions of a benchmark.

    A question is solved blind if more than half of the models answer it correctly under a protocol that shows no image.
    A question is missed by all if no model answers it correctly with the image.

    Args:
        name: Name of the benchmark.
        runs: Runs of the benchmark.

    Returns:
        A finding for each kind, and the questions with their reasons.
    """
    scored_by_model: dict[str, ScoredBenchmark] = {}
    chances: dict[QuestionKey, float] = {}
    for label, run in zip(run_labels(runs), runs, strict=True):
        for scored in run.benchmarks:
            if scored.spec.name == name:
                scored_by_model[label] = scored
                chances.update(_chances(scored))

    findings: list[Finding] = []
    questions: list[DoubtfulQuestion] = []
    blind_verdicts = _verdicts(scored_by_model, sees_images=False)
    if blind_verdicts:
        finding, solved = _solved_blind(blind_verdicts, chances)
        findings.append(finding)
        questions += solved
    verdicts = _verdicts(scored_by_model, sees_images=True)
    if verdicts:
        finding, missed = _missed_by_all(verdicts)
        findings.append(finding)
        questions += missed
    return findings, questions


def _verdicts(scored_by_model: Mapping[str, ScoredBenchmark], *, sees_images: bool) -> Verdicts:
    """Return whether each model answered each question correctly.

    Only the most important protocol of a run counts, of those that show images or of those that
    show none.
    """
    verdicts: dict[str, dict[QuestionKey, bool]] = {}
    for model, scored in scored_by_model.items():
        headlines = headline_metrics(scored)
        best_rank = None
        for measure in question_values(scored, headlines):
            is_wanted = labelled_declaration(measure.protocol).sees_images == sees_images
            if not is_wanted or not measure.values:
                continue
            rank = (headlines.index(measure.metric), protocol_preference(measure.protocol))
            if best_rank is None or rank < best_rank:
                best_rank = rank
                verdicts[model] = {key: value > RIGHT for key, value in measure.values.items()}
    return verdicts


def _chances(scored: ScoredBenchmark) -> dict[QuestionKey, float]:
    """Return the probability that a random option is correct, for each question with options."""
    chances = {}
    for (sample_id, turn), answer in scored.answers.items():
        if answer.options and sample_id in scored.samples:
            sample = scored.samples[sample_id]
            n_options = len(sample.rounds[turn].options)
            chances[sample_id, turn] = len(answer.options) / n_options
    return chances


def _solved_blind(
    verdicts: Verdicts, chances: Mapping[QuestionKey, float]
) -> tuple[Finding, list[DoubtfulQuestion]]:
    """Find the questions that most models answer correctly without the image, and compare their number with that of
    guesses."""
    probabilities: list[float] = []
    questions: list[DoubtfulQuestion] = []
    for key, right in _by_question(verdicts).items():
        by_luck = majority_by_luck(len(right), chances.get(key, 0.0))
        probabilities.append(by_luck)
        n_right = sum(right)
        if 2 * n_right > len(right):
            detail = f"{n_right} of {len(right)} models without the image were correct; {by_luck:.1%} by luck"
            questions.append(DoubtfulQuestion(*key, SOLVED_BLIND, detail))

    expected = math.fsum(probabilities)
    p = hits_p_value(len(questions), probabilities)
    message = (
        f"answered correctly without the image by more than half of {len(verdicts)} models ({', '.join(verdicts)}); "
        f"{expected:,.1f} expected if all guessed independently"
    )
    finding = _finding(SOLVED_BLIND, message, questions, len(probabilities), expected, p)
    return finding, questions


def _missed_by_all(verdicts: Verdicts) -> tuple[Finding, list[DoubtfulQuestion]]:
    """Find the questions that every model answered incorrectly, and compare their number with that expected by chance."""
    # Only questions that all models answered.
    right_by_question = {}
    for key, right in _by_question(verdicts).items():
        if len(right) == len(verdicts):
            right_by_question[key] = right
    total = len(right_by_question)

    miss_probability = 0.0
    if right_by_question:
        miss_rates = []
        for model_verdicts in zip(*right_by_question.values(), strict=True):
            miss_rates.append(1 - sum(model_verdicts) / total)
        miss_probability = math.prod(miss_rates)

    questions = []
    for key, right in right_by_question.items():
        if not any(right):
            detail = f"none of {len(right)} models was correct with the image"
            questions.append(DoubtfulQuestion(*key, MISSED_BY_ALL, detail))
    expected = miss_probability * total
    p = hits_p_value(len(questions), [miss_probability] * total)
    message = (
        f"missed with the image by all of {len(verdicts)} models ({', '.join(verdicts)}); "
        f"{expected:,.1f} expected if their errors were independent"
    )
    return _finding(MISSED_BY_ALL, message, questions, total, expected, p), questions


def _by_question(verdicts: Verdicts) -> dict[QuestionKey, list[bool]]:
    """Return for each question whether each model answered it correctly; models without a verdict are left out.

    Args:
        verdicts: For each model, whether it answered each question correctly.
    """
    questions: set[QuestionKey] = set()
    for model_verdicts in verdicts.values():
        questions.update(model_verdicts)
    by_question = {}
    for question in sorted(questions):
        by_question[question] = [
            model_verdicts[question]
            for model_verdicts in verdicts.values()
            if question in model_verdicts
        ]
    return by_question


def _finding(
    check: str,
    message: str,
    questions: Sequence[DoubtfulQuestion],
    total: int,
    expected: float,
    p: float,
) -> Finding:
    """Return a finding about doubtful questions. It is a warning if there are more of them than chance explains.

    Args:
        check: Name of the check.
        message: What was found.
        questions: The questions.
        total: Number of questions that were checked.
        expected: Number of such questions that is expected by chance.
        p: Probability of so many or more by chance.
    """
    is_more_than_chance = len(questions) > expected and p < SIGNIFICANCE_LEVEL
    severity: Severity = "warning" if is_more_than_chance else "note"
    examples = []
    for question in questions:
        example = question.id
        if question.turn:
            # `id#2` is round 2 of a dialogue, as in other findings.
            example += f"#{question.turn + 1}"
        examples.append(example)
    return Finding(check, severity, message, len(questions), total, first_examples(examples), p=p)


def majority_by_luck(models: int, chance: float) -> float:
    """Return the probability that more than half of some models are correct if all guess independently.

    Args:
        models: Number of models.
        chance: Probability that a guess is correct.
    """
    probabilities = []
    for n_correct in range(models // 2 + 1, models + 1):
        n_wrong = models - n_correct
        combinations = math.comb(models, n_correct)
        probabilities.append(combinations * chance**n_correct * (1 - chance) ** n_wrong)
    return math.fsum(probabilities)
