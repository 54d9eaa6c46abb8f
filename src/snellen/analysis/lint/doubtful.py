"""Questions for people to look at, as models solve them without the picture or all miss them (as MMBench did)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from snellen.analysis.capability import headlines_of, protocol_preference
from snellen.analysis.lint.findings import Finding, Severity, first_examples
from snellen.analysis.lint.golds import UNLIKELY, hits_p_value
from snellen.analysis.paired.questions import QuestionKey, question_values
from snellen.protocols.base import labelled_declaration
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels

SOLVED_BLIND, MISSED_BY_ALL = "solved-blind", "missed-by-all"
RIGHT = 0.5
"""A question counts as answered right where more than this share of its presentations, or of its score, is."""
Verdicts = dict[str, dict[QuestionKey, bool]]
"""By model: whether it was right, question by question."""


class DoubtfulQuestion(Struct, frozen=True):
    """A question to be looked at by people, as it stands in a line of the list."""

    id: str
    turn: int
    reason: str
    detail: str


def doubtful_questions(name: str, runs: Sequence[ScoredRun]) -> tuple[list[Finding], list[DoubtfulQuestion]]:
    """What runs on the benchmark of that name say of its questions: findings, and the questions with their reasons.

    Runs under protocols that show no picture tell what is solved blind, by more than half of them; the others what is
    missed by all.
    """
    scored = {
        label: benchmark
        for label, run in zip(run_labels(runs), runs, strict=True)
        for benchmark in run.benchmarks
        if benchmark.spec.name == name
    }
    blind, seeing = _verdicts(scored, sees_images=False), _verdicts(scored, sees_images=True)
    chances = {key: chance for benchmark in scored.values() for key, chance in _chances(benchmark)}
    findings, questions = [], []
    for check, verdicts in ((_solved_blind, blind), (_missed_by_all, seeing)):
        if verdicts:
            finding, concerned = check(verdicts, chances)
            findings.append(finding)
            questions += concerned
    return findings, questions


def _verdicts(scored: Mapping[str, ScoredBenchmark], *, sees_images: bool) -> Verdicts:
    """One headline number for each model that was asked so: under the protocol that stands for it."""
    verdicts: Verdicts = {}
    for label, benchmark in scored.items():
        names = headlines_of(benchmark)
        measured = [
            measures
            for measures in question_values(benchmark, names)
            if labelled_declaration(measures.protocol).sees_images == sees_images and measures.values
        ]
        if measured:
            best = min(measured, key=lambda one: (names.index(one.metric), protocol_preference(one.protocol)))
            verdicts[label] = {key: value > RIGHT for key, value in best.values.items()}
    return verdicts


def _chances(benchmark: ScoredBenchmark) -> Iterator[tuple[QuestionKey, float]]:
    for (sample_id, turn), answer in benchmark.answers.items():
        if answer.options and sample_id in benchmark.samples:
            yield (sample_id, turn), len(answer.options) / len(benchmark.samples[sample_id].rounds[turn].options)


def _solved_blind(verdicts: Verdicts, chances: Mapping[QuestionKey, float]) -> tuple[Finding, list[DoubtfulQuestion]]:
    luck: list[float] = []
    concerned: list[DoubtfulQuestion] = []
    for key, right in _by_question(verdicts).items():
        by_luck = majority_by_luck(len(right), chances.get(key, 0.0))
        luck.append(by_luck)
        if 2 * sum(right) > len(right):
            detail = f"{sum(right)} of {len(right)} models that saw no picture were right; {by_luck:.1%} by luck"
            concerned.append(DoubtfulQuestion(*key, SOLVED_BLIND, detail))
    expected = math.fsum(luck)
    p = hits_p_value(len(concerned), luck)
    severity: Severity = "warning" if len(concerned) > expected and p < UNLIKELY else "note"
    says = (
        f"answered right without the picture by more than half of {len(verdicts)} models ({', '.join(verdicts)}); "
        f"{expected:,.1f} if all guessed independently"
    )
    return _finding(SOLVED_BLIND, severity, says, concerned, len(luck), p), concerned


def _missed_by_all(verdicts: Verdicts, chances: Mapping[QuestionKey, float]) -> tuple[Finding, list[DoubtfulQuestion]]:
    questions = {key: right for key, right in _by_question(verdicts).items() if len(right) == len(verdicts)}
    missing = [sum(right[place] for right in questions.values()) for place in range(len(verdicts))]
    rate = math.prod(1 - hits / len(questions) for hits in missing) if questions else 0.0
    concerned = [
        DoubtfulQuestion(*key, MISSED_BY_ALL, f"none of {len(right)} models was right with the picture")
        for key, right in questions.items()
        if not any(right)
    ]
    says = (
        f"missed with the picture by all of {len(verdicts)} models ({', '.join(verdicts)}); "
        f"{rate * len(questions):,.1f} if each erred as often as it does, independently"
    )
    p = hits_p_value(len(concerned), [rate] * len(questions))
    severity: Severity = "warning" if len(concerned) > rate * len(questions) and p < UNLIKELY else "note"
    return _finding(MISSED_BY_ALL, severity, says, concerned, len(questions), p), concerned


def _by_question(verdicts: Verdicts) -> dict[QuestionKey, list[bool]]:
    """The verdicts of the models that have one, in the order of the models, by question."""
    keys = sorted({key for by_key in verdicts.values() for key in by_key})
    return {key: [by_key[key] for by_key in verdicts.values() if key in by_key] for key in keys}


def _finding(
    check: str, severity: Severity, says: str, concerned: Sequence[DoubtfulQuestion], total: int, p: float
) -> Finding:
    examples = first_examples(f"{one.id}#{one.turn + 1}" if one.turn else one.id for one in concerned)
    return Finding(check, severity, says, len(concerned), total, examples, p=p)


def majority_by_luck(models: int, chance: float) -> float:
    """The probability that more than half of models that guess independently are right."""
    return math.fsum(
        math.comb(models, right) * chance**right * (1 - chance) ** (models - right)
        for right in range(models // 2 + 1, models + 1)
    )
