"""Metrics of choices: each takes the predictions of one question, in order of presentation.

A reply counts as what it most probably means; one that gives no answer is not right. Two bounds show how much depends
on that: `_lower` counts each reply whose reading is unsure (`Prediction.is_unsure`) as wrong, `_upper` counts it, and
each reply that gives no answer, as right; `_of_parsed` leaves out the replies that give no answer. A score also keeps what the probabilities of its readings say of it
(`ReadingDoubt`), from which intervals and comparisons take the error of reading. None is unscored, which is not wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from math import comb
from typing import Any

from msgspec.structs import replace

from snellen.errors import HookError, SnellenError
from snellen.metrics.declaration import (
    ChoiceMetric,
    MetricRow,
    metric_row,
    share,
)
from snellen.records import Answer, Prediction, ReadingDoubt, Score
from snellen.scoring.questions import (
    HIDDEN_ANSWER,
    NOT_ASKED,
    NOT_ROTATED,
    AnswersInARow,
    AskedQuestion,
    Unscored,
    has_baseline,
    why_unanswered,
    why_unparsed,
)

Passes = tuple[Prediction, ...]
"""Presentations of one question, in their order."""


def accuracy(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Share of the answered presentations whose choice is correct; an unparsed reply is not. 0 to 1."""
    return sum(p.choice in answer.options for p in predictions) / len(predictions)


def accuracy_of_parsed(predictions: Sequence[Prediction], answer: Answer) -> float | None:
    """Share of the parsed presentations whose choice is correct; None when none could be read."""
    verdicts = [p.choice in answer.options for p in predictions if p.choice is not None]
    return sum(verdicts) / len(verdicts) if verdicts else None


def without_unsure(predictions: Sequence[Prediction]) -> Passes:
    """Return the predictions, with each unsure reading as a reply that gives no answer."""
    return tuple(replace(p, choice=None) if p.is_unsure else p for p in predictions)


def accuracy_lower(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Return `accuracy` with every unsure reading counting as wrong."""
    return accuracy(without_unsure(predictions), answer)


def accuracy_upper(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Return `accuracy` with every unsure reading, and every reply without an answer, counting as right."""
    predictions = without_unsure(predictions)
    return sum(p.choice is None or p.choice in answer.options for p in predictions) / len(
        predictions
    )


def unsure_rate(predictions: Sequence[Prediction]) -> float:
    """Share of the answered presentations whose reading is less probable than `SURE`, 0 to 1."""
    return sum(p.is_unsure for p in predictions) / len(predictions)


def accuracy_doubt(predictions: Sequence[Prediction], answer: Answer) -> ReadingDoubt | None:
    """Return what the probabilities of the readings say of `accuracy`; None if all readings are certain."""
    if not any(p.probabilities for p in predictions):
        return None
    n = len(predictions)
    chances = [p.probability_of(answer.options) for p in predictions]
    variance = math.fsum(chance * (1 - chance) for chance in chances) / n**2
    right_or_unsure = sum(p.is_unsure or p.choice in answer.options for p in predictions)
    return ReadingDoubt(
        expected=math.fsum(chances) / n,
        variance=variance,
        least=accuracy_lower(predictions, answer),
        most=right_or_unsure / n,
    )


def circular_doubt(predictions: Sequence[Prediction], answer: Answer) -> ReadingDoubt | None:
    """Return what the probabilities of the readings say of the verdict over these rotations.

    The question is right if all of them mean the same correct option. None if all readings are certain.
    """
    if not any(p.probabilities for p in predictions):
        return None
    chance = 0.0
    may_be_right = False
    for option in answer.options:
        chance += math.prod(p.probability_of((option,)) for p in predictions)
        may_be_right |= all(p.is_unsure or p.choice == option for p in predictions)
    is_sure = not any(p.is_unsure for p in predictions)
    return ReadingDoubt(
        expected=chance,
        variance=chance * (1 - chance),
        least=float(is_sure and len({p.choice for p in predictions} & {*answer.options}) == 1),
        most=float(may_be_right),
    )


def unparsed_rate(predictions: Sequence[Prediction]) -> float:
    """Share of the answered presentations that name no option, 0 to 1."""
    return sum(p.choice is None for p in predictions) / len(predictions)


def circular(predictions: Sequence[Prediction], answer: Answer, rotations: int) -> float | None:
    """1 when all rotations are right, 0 as soon as one is wrong or unparsed or two disagree (MMBench 4.1).

    The order of the passes does not matter, so that stopping early and asking all give the same value. None when
    nothing has failed and some rotation was never answered.
    """
    if any(p.choice is None for p in predictions):
        return 0.0
    return circular_of_parsed(predictions, answer, rotations)


def circular_of_parsed(
    predictions: Sequence[Prediction], answer: Answer, rotations: int
) -> float | None:
    """The verdict where the parsed rotations settle it: 0 when one is wrong or two disagree, 1 when all are right.

    None when an unparsed rotation, or one that was never answered, could still decide.
    """
    choices = {p.choice for p in predictions if p.choice is not None}
    if len(choices) > 1 or not choices <= set(answer.options):
        return 0.0
    return 1.0 if _all_parsed(predictions, rotations) else None


def circular_upper(
    predictions: Sequence[Prediction], answer: Answer, rotations: int
) -> float | None:
    """The verdict if every unsure or unparsed rotation, and what was not asked because of it, were right.

    None while a rotation that could still decide was never answered for another reason: `predictions` are all
    presentations, those that failed too.
    """
    came = without_unsure([p for p in predictions if p.error is None])
    verdict = circular_of_parsed(came, answer, rotations)
    stopped_by_unparsed = len(came) == len(predictions) and any(p.choice is None for p in came)
    return 1.0 if verdict is None and stopped_by_unparsed else verdict


def consistency(predictions: Sequence[Prediction], rotations: int) -> float | None:
    """1 when all rotations name one option, right or wrong, 0 when two disagree or one names none; else None."""
    if settles(predictions):
        return 0.0
    return 1.0 if _all_parsed(predictions, rotations) else None


def settles(predictions: Sequence[Prediction]) -> bool:
    """Whether one names no option or two disagree, so that the question has failed whatever its answer is."""
    return len({p.choice for p in predictions}) > 1 or any(p.choice is None for p in predictions)


def _all_parsed(predictions: Sequence[Prediction], rotations: int) -> bool:
    return len(predictions) == rotations and all(p.choice is not None for p in predictions)


def hit_rate(predictions: Sequence[Prediction]) -> float:
    """Share of the replies that name one of the labels shown (ReForm-Eval 4.3.3), 0 to 1."""
    return sum(p.follows_format for p in predictions) / len(predictions)


def tie_rate(predictions: Sequence[Prediction]) -> float:
    """Share of the presentations in which several options are exactly the most likely, 0 to 1."""
    return sum(p.extraction_method == "tie" or p.reason == "all alike" for p in predictions) / len(
        predictions
    )


def instability(predictions: Sequence[Prediction]) -> float:
    """Entropy in nats of the options chosen over the presentations (ReForm-Eval 3.3.2).

    0 when all agree; at most log of the number of presentations or of options (and one for "unparsed",
    which counts as one more kind of answer), whichever is less.
    """
    return _entropy(p.choice for p in predictions)


def legacy_instability(predictions: Sequence[Prediction]) -> float:
    """`instability` as published: each unparsed text is a kind of its own, so a model that rambles is more unstable."""
    return _entropy(p.unparsed_text if p.choice is None else p.choice for p in predictions)


def _entropy(kinds: Iterable[object]) -> float:
    counts = Counter(kinds).values()
    total = sum(counts)
    return sum(-n / total * math.log(n / total) for n in counts)


def greatest_instability(presentations: int, kinds: int) -> float:
    """The most that `instability` can be: presentations spread as evenly over the kinds of answer as can be."""
    per_kind, over = divmod(presentations, kinds)
    counts = [per_kind + 1] * over + [per_kind] * (kinds - over)
    return sum(-n / presentations * math.log(n / presentations) for n in counts if n)


_CIRCULAR = {
    "likelihood": "likelihood does not show the options, so all rotations are one request",
    "": "no circular protocol in this run, or no questions that it applies to",
}
_PRESENTATIONS = {"": "needs several presentations of a question, e.g. instability?m=5"}


def _accuracy_rows(name: str, words: str, absent: dict[str, str]) -> tuple[MetricRow, ...]:
    """The headline, and what stands next to it where a reading is unsure or a reply gives no answer."""
    return (
        share(name, words, unparsed="wrong", absent_reasons=absent),
        share(
            f"{name}_of_parsed",
            f"{words} of parsed replies",
            unparsed="left out",
            undefined="no reply names an option",
            secondary_to=name,
            label="of parsed",
        ),
        share(
            f"{name}_lower",
            f"{words}, unsure as wrong",
            unparsed="wrong",
            secondary_to=name,
            label="at least",
        ),
        share(
            f"{name}_upper",
            f"{words}, unsure or unparsed as right",
            unparsed="right",
            secondary_to=name,
            label="at most",
        ),
    )


def _entropy_row(name: str, **declared: Any) -> MetricRow:
    return metric_row(
        name,
        unit="nats",
        low=0.0,
        better="lower",
        scale="nats",
        absent_reasons=_PRESENTATIONS,
        **declared,
    )


ACCURACY = ChoiceMetric(
    what="share of the answered questions that are right; an unparsed reply is not",
    rows=_accuracy_rows("accuracy", "accuracy", {}),
)
CIRCULAR_ACCURACY = ChoiceMetric(
    what="share of the questions right under every rotation; one with an unparsed rotation is not",
    rows=_accuracy_rows("circular_accuracy", "circular accuracy", _CIRCULAR),
)
CIRCULAR_DROP = ChoiceMetric(
    what="share of the questions right in the first pass and not under every rotation",
    rows=(share("circular_drop", better="lower", unparsed="wrong", absent_reasons=_CIRCULAR),),
)
CONSISTENCY = ChoiceMetric(
    what="share of the questions for which every rotation names one option, right or wrong",
    rows=(share("consistency", unparsed="wrong", absent_reasons=_CIRCULAR),),
)
INSTABILITY = ChoiceMetric(
    what="entropy of the choices over presentations, in nats; unparsed is one more kind of answer",
    rows=(
        _entropy_row(
            "instability",
            unparsed="own kind",
            question_maximum=lambda presentations, options: greatest_instability(
                presentations, options + 1
            ),
        ),
    ),
)
LEGACY_INSTABILITY = ChoiceMetric(
    what="the same as published: each unparsed text is a kind of its own",
    rows=(
        _entropy_row(
            "legacy_instability",
            unparsed="kinds by text",
            secondary_to="instability",
            question_maximum=lambda presentations, _: greatest_instability(
                presentations, presentations
            ),
        ),
    ),
)
HIT_RATE = ChoiceMetric(
    what="share of the replies that name a label that was shown",
    rows=(
        share(
            "hit_rate",
            "hit rate",
            unparsed="wrong",
            absent_reasons={
                "likelihood": "hit rate is of replies: the share that names a label; a likelihood has no reply"
            },
        ),
    ),
)
UNSURE_RATE = ChoiceMetric(
    what="share of the answered presentations whose reading has a probability below 90%",
    rows=(
        share(
            "unsure_rate",
            "unsure readings",
            better="lower",
            unparsed="counted",
            absent_reasons={
                "likelihood": "only replies are read; under likelihood there is no reply"
            },
        ),
    ),
)
UNPARSED_RATE = ChoiceMetric(
    what="share of the answered presentations that name no option",
    rows=(share("unparsed_rate", "unparsed rate", better="lower", unparsed="counted"),),
)
TIE_RATE = ChoiceMetric(
    what="share of the presentations whose most likely options are exactly even",
    rows=(share("tie_rate", "tie rate", better="neither", unparsed="counted"),),
)
CHOICE_METRICS = (
    ACCURACY,
    CIRCULAR_ACCURACY,
    CIRCULAR_DROP,
    CONSISTENCY,
    INSTABILITY,
    HIT_RATE,
    UNPARSED_RATE,
    UNSURE_RATE,
    TIE_RATE,
)
"""Those of every question with options, in the order of the tables."""


# --- questions asked several times -----------------------------------------------------------------------------------
# A reply that names no option is not right, votes for nothing that is right, and agrees with no other.


def pass_at(k: int, replies: int, right: int) -> float:
    """The chance that one of `k` replies is right, without bias from the `right` ones of so many `replies` >= k:
    1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1)."""
    return 1.0 - comb(replies - right, k) / comb(replies, k)


def majority(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Share of the most frequent choices that are right: 0 or 1 where one leads alone, and else what a coin would
    give. Replies that name no option are one more choice, which is not right."""
    votes = Counter(p.choice for p in predictions)
    most = max(votes.values())
    leading = [choice for choice, count in votes.items() if count == most]
    return sum(choice in answer.options for choice in leading) / len(leading)


def agreeing_pairs(predictions: Sequence[Prediction]) -> float:
    """Share of the pairs of replies that name the same option, 0 to 1."""
    votes = Counter(p.choice for p in predictions if p.choice is not None)
    return sum(comb(count, 2) for count in votes.values()) / comb(len(predictions), 2)


_REPEATED = {"": "needs the same question several times, e.g. repeat?k=5 at a temperature"}

REPEATS = ChoiceMetric(
    what="of questions asked several times: pass@k, right by majority vote, and pairs of replies that agree",
    rows=(
        share("pass_at_k", "pass@k", unparsed="wrong", absent_reasons=_REPEATED),
        share("majority_vote", "majority vote", unparsed="own kind", absent_reasons=_REPEATED),
        share(
            "repeat_agreement", "agreement of replies", unparsed="wrong", absent_reasons=_REPEATED
        ),
    ),
)


# --- the scores of a question -----------------------------------------------------------------------------------------

Verdict = Callable[[Passes], float | None]


def score_choice(question: AskedQuestion) -> Iterator[Score]:
    """All choice metrics of one question that its protocol gives."""
    declared = question.declaration
    with_baseline = tuple(filter(has_baseline, question.unbiased))
    n, unanswered, counted = (
        len(with_baseline) or 1,
        why_unanswered(question),
        question.counted_unbiased,
    )
    yield from _accuracies(
        counted,
        with_baseline if counted is question else tuple(filter(has_baseline, counted.unbiased)),
    )
    yield question.score(
        "unparsed_rate", unparsed_rate(with_baseline) if with_baseline else unanswered, n
    )
    if declared.circular:
        yield from _circular_scores(question)
    if question.protocol.method == "generation":
        unsure = unsure_rate(with_baseline) if with_baseline else unanswered
        yield question.score("unsure_rate", unsure, n)
        labelled = not with_baseline or any(p.variant.labels for p in with_baseline)
        hits = hit_rate(with_baseline) if with_baseline else unanswered
        yield question.score("hit_rate", hits if labelled else NO_LABELS, n)
    else:
        yield question.score(
            "tie_rate", tie_rate(with_baseline) if with_baseline else unanswered, n
        )
    if declared.repeated_for:
        yield from _repeat_scores(question)
    if declared.instability:
        tests = tuple(filter(has_baseline, question.came))
        whole = len(tests) >= declared.n_presentations(question.sample)
        for name, entropy in _ENTROPIES.items():
            yield question.score(name, entropy(tests) if whole else unanswered, len(tests) or 1)


def _accuracies(question: AskedQuestion, passes: Passes) -> Iterator[Score]:
    """The headline, of those parsed, and the bounds."""
    answer = question.answer
    headline, of_parsed, lower, upper = names = ACCURACY.names
    if answer is None or not passes:
        absence = (
            HIDDEN_ANSWER
            if answer is None and any(map(has_baseline, question.came))
            else why_unanswered(question)
        )
        yield from (question.score(name, absence) for name in names)
        return
    n = len(passes)
    doubt = accuracy_doubt(passes, answer)
    yield question.score(headline, accuracy(passes, answer), n, doubt=doubt)
    parsed = accuracy_of_parsed(passes, answer)
    yield question.score(of_parsed, why_unparsed(passes) if parsed is None else parsed, n)
    yield question.score(lower, accuracy_lower(passes, answer), n)
    yield question.score(upper, accuracy_upper(passes, answer), n)


NO_LABELS = Unscored("metric undefined", "options were listed without labels")


def _repeat_scores(question: AskedQuestion) -> Iterator[Score]:
    """Of a question that was asked several times; failed replies are left out where that changes no expectation: the
    majority of fewer replies is less often right."""
    came, answer, k = question.came, question.answer, question.declaration.repeated_for
    passes, voted, agrees = REPEATS.names
    few = why_unanswered(question) if len(came) < len(question.predictions) else NOT_ASKED
    absence = HIDDEN_ANSWER if answer is None and came else few
    if answer is None or len(came) < k:
        yield question.score(passes, absence, len(came) or 1)
    else:
        right = sum(p.choice in answer.options for p in came)
        yield question.score(passes, pass_at(k, len(came), right), len(came))
    whole = answer is not None and len(came) == question.declaration.n_presentations(
        question.sample
    )
    yield question.score(
        voted, majority(came, answer) if answer and whole else absence, len(came) or 1
    )
    yield question.score(agrees, agreeing_pairs(came) if len(came) > 1 else few, len(came) or 1)


_ENTROPIES = {"instability": instability, "legacy_instability": legacy_instability}


def score_choice_metric(question: AskedQuestion, metric: ChoiceMetric) -> Iterator[Score]:
    """A metric of choices from another package; those of Snellen come of `score_choice`."""
    if metric.measure is None:
        return
    [row] = metric.rows
    if question.answer is None or not question.unbiased:
        yield question.score(
            row.name, HIDDEN_ANSWER if question.unbiased else why_unanswered(question)
        )
        return
    try:
        value = metric.measure(question.unbiased, question.answer)
    except SnellenError:
        raise
    except Exception as error:  # a metric of others: anything may be raised
        raise HookError(f"the metric {row.name}, on {question.place}", error) from error
    absence = Unscored("metric undefined", "for this question")
    yield question.score(
        row.name,
        absence if value is None else row.check(value, question.place),
        len(question.unbiased),
    )


def _circular_scores(question: AskedQuestion) -> Iterator[Score]:
    declared, answer = question.declaration, question.answer
    rotations = declared.n_presentations(question.sample)
    names = (*CIRCULAR_ACCURACY.names, "circular_drop")
    if rotations < 2:
        yield from (question.score(name, NOT_ROTATED) for name in (*names, "consistency"))
        return
    yield _by_first_passes(question, "consistency", lambda passes: consistency(passes, rotations))
    if answer is None:
        absence = HIDDEN_ANSWER if question.came else _why_not_all(question)
        yield from (question.score(name, absence) for name in names)
        return
    headline, of_parsed, lower, upper, drop = names
    counted = question.counted
    came = _first_passes(counted)

    def whole(passes: Passes) -> float | None:
        return circular(passes, answer, rotations)

    def parsed(passes: Passes) -> float | None:
        return circular_of_parsed(passes, answer, rotations)

    def at_least(passes: Passes) -> float | None:
        return circular(without_unsure(passes), answer, rotations)

    def at_most(passes: Passes) -> float | None:
        is_all = _has_ended(counted, came) and len(passes) == len(came)
        if is_all:
            return circular_upper(passes, answer, rotations)
        return circular_of_parsed(without_unsure(passes), answer, rotations)

    def lost_by_turning(passes: Passes) -> float | None:
        verdict = whole(passes)
        return None if verdict is None else accuracy(passes[:1], answer) - verdict

    verdict = _by_first_passes(counted, headline, whole)
    if verdict.value is not None:
        verdict = replace(verdict, doubt=circular_doubt(came[: verdict.steps], answer))
    yield verdict
    yield _by_first_passes(counted, of_parsed, parsed)
    yield _by_first_passes(counted, lower, at_least)
    yield _by_first_passes(counted, upper, at_most)
    yield _by_first_passes(question, drop, lost_by_turning)


def _first_passes(question: AskedQuestion) -> Passes:
    """The passes up to the first that failed."""
    return tuple(takewhile(lambda p: p.error is None, question.predictions))


def _has_ended(question: AskedQuestion, came: Passes) -> bool:
    declared = question.declaration
    whole = len(came) == declared.n_presentations(question.sample)
    return whole or (declared.stops_early and settles(came))


def _why_not_all(question: AskedQuestion) -> Unscored:
    return why_unanswered(question) if len(question.came) < len(question.predictions) else NOT_ASKED


def _by_first_passes(question: AskedQuestion, name: str, verdict: Verdict) -> Score:
    """By the first passes alone that settle it, lest what failed after them decide which questions count."""
    came, rotations = _first_passes(question), question.declaration.n_presentations(question.sample)
    for steps in range(1, len(came) + 1):
        if (value := verdict(came[:steps])) is not None:
            return question.score(name, value, rotations, AnswersInARow(steps))
    ended = _has_ended(question, came)
    absence = why_unparsed(came) if ended else _why_not_all(question)
    return question.score(name, absence, rotations, AnswersInARow(len(came), broken=not ended))
