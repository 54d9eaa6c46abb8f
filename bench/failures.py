"""Bias and coverage of numbers of runs whose requests fail, whatever the model would have said.

    python bench/failures.py [--runs 500] [--questions 300]

Questions of two and of four options, two about an image. A model that knows an image is right in every presentation,
and else in 60 % of them; it knows as many images as make its circular accuracy 60 %. Requests fail one by one, or
(`together`) twice as often for half of the images and never for the others. The table has for each number its true
value, the mean over runs of what is estimated, and how often the 95 % interval holds the truth; the last are paired
differences between a run with failures and one of the same model on the same questions without any.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product

from msgspec.structs import replace

from snellen.analysis.paired.differences import pair, question_values
from snellen.analysis.question_means import mean_estimate
from snellen.catalogue import entries
from snellen.metrics.questions import AskedQuestion
from snellen.protocols.base import parse_protocol
from snellen.records import Answer, Estimate, Failure, Prediction, Sample, Score, Variant
from snellen.scoring.choice_scoring import score_choice
from snellen.scoring.scored_run import ScoredBenchmark, by_row

RIGHT, TRUTH, SIZES, TIMES = 0.6, 0.6, (2, 4), 5
PROTOCOLS = ("circular", "circular?all_passes=true", f"instability?m={TIMES}", f"repeat?k={TIMES}")
FAILED = -1
Choices = tuple[int, ...]
"""The option named in each presentation; option 0 is right."""


def _mean(value: Callable[[int], float]) -> float:
    return sum(map(value, SIZES)) / len(SIZES)


KNOWN = (TRUTH - _mean(lambda n: RIGHT**n)) / (1 - _mean(lambda n: RIGHT**n))


def _expected(measure: Callable[[Choices], float], presentations: Callable[[int], int]) -> float:
    """The mean over all questions of what is measured on the choices of a question, by enumeration."""

    def of_unknown(options: int) -> float:
        odds = [RIGHT, *[(1 - RIGHT) / (options - 1)] * (options - 1)]
        every = product(range(options), repeat=presentations(options))
        return math.fsum(math.prod(odds[choice] for choice in one) * measure(one) for one in every)

    return KNOWN * measure((0,) * TIMES) + (1 - KNOWN) * _mean(of_unknown)


def _majority(choices: Choices) -> float:
    votes = Counter(choices)
    leading = [choice for choice, count in votes.items() if count == max(votes.values())]
    return (0 in leading) / len(leading)


def _agreement(choices: Choices) -> float:
    return sum(math.comb(n, 2) for n in Counter(choices).values()) / math.comb(len(choices), 2)


def _entropy(choices: Choices) -> float:
    return -sum(n / len(choices) * math.log(n / len(choices)) for n in Counter(choices).values())


VANILLA = _expected(lambda choices: choices[0] == 0, lambda _: 1)
TRUTHS = {
    "accuracy": VANILLA,
    "circular_accuracy": TRUTH,
    "circular_drop": VANILLA - TRUTH,
    "consistency": _expected(lambda choices: len(set(choices)) == 1, lambda options: options),
    "instability": _expected(_entropy, lambda _: TIMES),
    "majority_vote": _expected(_majority, lambda _: TIMES),
    "pass_at_k": _expected(lambda choices: 0 in choices, lambda _: TIMES),
    "repeat_agreement": _expected(_agreement, lambda _: TIMES),
}


@cache
def _scores(protocol: str, options: int, choices: Choices) -> tuple[Score, ...]:
    sample = Sample("", "made up", "?", options=("a", "b", "c", "d")[:options])
    declared = parse_protocol(protocol)
    predictions = tuple(
        Prediction(
            protocol,
            "generation",
            "made up",
            "",
            Variant(test=test),
            "",
            choice=None if choice == FAILED else choice,
            error=Failure("server", "") if choice == FAILED else None,
        )
        for test, choice in enumerate(choices)
    )
    return tuple(
        score_choice(AskedQuestion(declared, sample, 0, Answer("", options=(0,)), predictions))
    )


def _asked(protocol: str, choices: Sequence[int]) -> Choices:
    """What is asked before the protocol ends: all, or up to a failure or two that disagree."""
    if protocol != "circular":
        return tuple(choices)
    end = next(
        (k for k, choice in enumerate(choices) if choice != choices[0] or choice == FAILED),
        len(choices),
    )
    return tuple(choices[: end + 1])


def simulated(
    questions: int, rate: float, together: bool, seed: str, failures: str = ""
) -> ScoredBenchmark:
    """A run; the seeds are of what the model says, and of what fails."""
    says, fails = random.Random(seed), random.Random(f"{seed} {failures}")
    samples, scores = {}, []
    for number in range(questions):
        if number % 2 == 0:
            known, worst = says.random() < KNOWN, fails.random() < 0.5
        name, options = str(number), SIZES[says.random() < 0.5]
        samples[name] = Sample(
            name, "made up", options=("a", "b", "c", "d")[:options], group=f"p{number // 2}"
        )
        own_rate = 2 * rate * worst if together else rate
        for protocol in PROTOCOLS:
            count = options if "circular" in protocol else TIMES
            said = [
                0 if known or says.random() < RIGHT else says.randrange(1, options)
                for _ in range(count)
            ]
            came = [FAILED if fails.random() < own_rate else choice for choice in said]
            scores += [
                replace(one, sample_id=name)
                for one in _scores(protocol, options, _asked(protocol, came))
            ]
    return ScoredBenchmark(
        replace(entries()["eyechart/count"], name="made up"), samples, (), by_row(scores), {}
    )


def estimates(scored: ScoredBenchmark) -> Iterator[tuple[str, str, float, Estimate]]:
    """Protocol, metric, its true value, and what a run says of it."""
    rows: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for score in scored.scores:
        if score.metric in TRUTHS:
            rows[score.protocol, score.metric].append(score)
    for (protocol, metric), members in rows.items():
        yield protocol, metric, TRUTHS[metric], mean_estimate(scored, members, metric)


def differences(
    first: ScoredBenchmark, second: ScoredBenchmark
) -> Iterator[tuple[str, str, float, Estimate]]:
    measures = [
        {(one.protocol, one.metric): one for one in question_values(scored)}
        for scored in (first, second)
    ]
    for key in measures[0]:
        if key[1] in ("circular_accuracy", "consistency"):
            difference = pair(("a", "b"), measures[0][key], measures[1][key]).result.difference
            yield key[0], f"difference of {key[1]}", 0.0, difference


def coverage(
    runs: int, questions: int, rate: float, together: bool = False
) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Truth, mean and share of intervals that hold the truth, by protocol and metric."""
    found: dict[tuple[str, str], list[tuple[float, Estimate]]] = defaultdict(list)
    for number in range(runs):
        one = simulated(questions, rate, together, f"run {number}")
        other = simulated(questions, 0.0, together, f"other {number}")
        for protocol, metric, truth, estimate in (*estimates(one), *differences(one, other)):
            found[protocol, metric].append((truth, estimate))
    return {
        key: (
            pairs[0][0],
            sum(estimate.value or 0.0 for _, estimate in pairs) / runs,
            sum(
                (e.low or 0.0) <= truth <= (1.0 if e.high is None else e.high) for truth, e in pairs
            )
            / runs,
        )
        for key, pairs in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--questions", type=int, default=300)
    options = parser.parse_args()
    print(f"{'protocol':26} {'number':32} {'failures':>16} {'truth':>7} {'mean':>7} {'held':>6}")
    for rate, together in ((0.0, False), (0.05, False), (0.2, False), (0.2, True)):
        said = f"{rate:.0%}{' together' if together else ''}"
        for (protocol, metric), (truth, mean, held) in coverage(
            options.runs, options.questions, rate, together
        ).items():
            print(
                f"{protocol:26} {metric:32} {said:>16} {truth:7.4f} {mean:7.4f} {held:6.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
