"""Scores of questions with options: accuracy, CircularEval, instability, and how the format was kept."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.metrics.declaration import ChoiceMetric
from snellen.records import Score
from snellen.scoring import choice_metrics, repeat_metrics
from snellen.scoring.questions import (
    HIDDEN_ANSWER,
    NOT_ASKED,
    NOT_ROTATED,
    AskedQuestion,
    Unscored,
    has_baseline,
    why_unanswered,
    why_unparsed,
)


def score_choice(question: AskedQuestion) -> Iterator[Score]:
    """All choice metrics of one question that its protocol gives."""
    answer, declared = question.answer, question.declaration
    tests = tuple(filter(has_baseline, question.came))
    read = tuple(filter(has_baseline, question.unbiased))
    count, unanswered = len(read) or 1, why_unanswered(question)
    names = choice_metrics.ACCURACY.names
    if answer is None or not read:
        lost = HIDDEN_ANSWER if answer is None and tests else unanswered
        yield from (question.score(name, lost) for name in names)
    else:
        headline, of_parsed, upper = names
        parsed = choice_metrics.accuracy_of_parsed(read, answer)
        yield question.score(headline, choice_metrics.accuracy(read, answer), count)
        yield question.score(of_parsed, why_unparsed(read) if parsed is None else parsed, count)
        yield question.score(upper, choice_metrics.accuracy_upper(read, answer), count)
    yield question.score("unparsed_rate", choice_metrics.unparsed_rate(read) if read else unanswered, count)
    if declared.circular:
        yield from _circular_scores(question)
    if question.protocol.method == "generation":
        yield question.score("hit_rate", choice_metrics.hit_rate(read) if read else unanswered, count)
    else:
        yield question.score("tie_rate", choice_metrics.tie_rate(read) if read else unanswered, count)
    if declared.repeated_for:
        yield from _repeat_scores(question)
    if declared.instability:
        whole = len(tests) >= declared.n_presentations(question.sample)
        for name, entropy in _ENTROPIES.items():
            yield question.score(name, entropy(tests) if whole else unanswered, len(tests) or 1)


def _repeat_scores(question: AskedQuestion) -> Iterator[Score]:
    """Of a question that was asked several times; failed replies are left out where enough came."""
    came, answer, k = question.came, question.answer, question.declaration.repeated_for
    passes, voted, agrees = repeat_metrics.REPEATS.names
    few = why_unanswered(question) if len(came) < len(question.predictions) else NOT_ASKED
    lost = HIDDEN_ANSWER if answer is None and came else few
    if answer is None or len(came) < k:
        yield question.score(passes, lost, len(came) or 1)
    else:
        right = sum(p.choice in answer.options for p in came)
        yield question.score(passes, repeat_metrics.pass_at(k, len(came), right), len(came))
    yield question.score(voted, repeat_metrics.majority(came, answer) if answer and came else lost, len(came) or 1)
    yield question.score(agrees, repeat_metrics.agreeing_pairs(came) if len(came) > 1 else few, len(came) or 1)


_ENTROPIES = {"instability": choice_metrics.instability, "legacy_instability": choice_metrics.legacy_instability}


def score_choice_metric(question: AskedQuestion, metric: ChoiceMetric) -> Iterator[Score]:
    """A metric of choices from another package; those of Snellen come of `score_choice`."""
    if metric.measure is None:
        return
    [row] = metric.rows
    if question.answer is None or not question.unbiased:
        yield question.score(row.name, HIDDEN_ANSWER if question.unbiased else why_unanswered(question))
        return
    value = metric.measure(question.unbiased, question.answer)
    lost = Unscored("metric undefined", "for this question")
    yield question.score(row.name, lost if value is None else row.check(value), len(question.unbiased))


def _circular_scores(question: AskedQuestion) -> Iterator[Score]:
    rotations, answer = question.declaration.n_presentations(question.sample), question.answer
    names = (*choice_metrics.CIRCULAR_ACCURACY.names, "circular_drop")
    if rotations < 2:
        yield from (question.score(name, NOT_ROTATED) for name in (*names, "consistency"))
        return
    failed = why_unanswered(question) if len(question.came) < len(question.predictions) else NOT_ASKED

    def score(name: str, value: float | None, otherwise: Unscored = failed) -> Score:
        return question.score(name, otherwise if value is None else value, rotations)

    yield score("consistency", choice_metrics.consistency(question.came, rotations) if question.came else None)
    if answer is None or not question.came:
        hidden = HIDDEN_ANSWER if question.came else why_unanswered(question)
        yield from (question.score(name, hidden) for name in names)
        return
    headline, of_parsed, upper, drop = names
    verdict = choice_metrics.circular(question.came, answer, rotations)
    unparsed = any(p.choice is None for p in question.came)
    yield score(headline, verdict)
    parsed = choice_metrics.circular_of_parsed(question.came, answer, rotations)
    yield score(of_parsed, parsed, why_unparsed(question.came) if unparsed else failed)
    yield score(upper, choice_metrics.circular_upper(question.predictions, answer, rotations))
    first = question.unbiased
    lost_by_turning = choice_metrics.accuracy(first, answer) - verdict if first and verdict is not None else None
    yield score(drop, lost_by_turning)
