"""Which letter of its options a model likes: how often it chooses one, and how often the right option stands there.
Questions with different numbers of options are apart, since letters are right more often among fewer.

Under a protocol that stops early only the first presentation of a question counts. The later ones were asked of
questions that had not failed yet, and so in other proportions, which follow from the replies. Where all orders are
asked, all presentations count: in these each option stands behind each label equally often.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct, field

from snellen.analysis.group_means import estimate_mean
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate, Prediction
from snellen.scoring.scored_run import ScoredBenchmark

_declared = cache(labelled_declaration)


class LetterPreference(Struct, frozen=True):
    """How often a label was chosen, of the readable replies to questions that showed it. Shares, 0 to 1, with 95%
    intervals by image."""

    protocol: str
    options: int
    """How many the questions have."""
    label: str
    choice_rate: Estimate = field(name="chosen")
    correct: Estimate
    """How often the right option stood there, in the replies whose answer is known; no value where none is."""
    difference: Estimate
    """Chosen minus correct, in the same replies: above zero where the label is liked for itself."""


def order_shown(prediction: Prediction) -> tuple[int, ...] | None:
    """Options in the order shown; None if none were shown, if earlier replies decided what was shown, or if another
    model chose."""
    labels = prediction.variant.labels
    declared_by = _declared(prediction.protocol)
    if not labels or declared_by.conclude:
        return None
    if declared_by.stops_early and not declared_by.is_unbiased(prediction.variant):
        return None
    return prediction.variant.order or tuple(range(len(labels)))


def letter_preferences(benchmarks: Sequence[ScoredBenchmark]) -> list[LetterPreference]:
    """Return how often each label was chosen, for each protocol and number of options, over all benchmarks.

    If only some answers are known, the figures that need them are about those replies.
    """
    pools: defaultdict[tuple[str, int, str], _Replies] = defaultdict(_Replies)
    groups: dict[tuple[str, str], int] = {}
    for scored in benchmarks:
        for prediction, order in _readable(scored):
            group = groups.setdefault(
                (scored.spec.name, scored.samples[prediction.sample_id].group), len(groups)
            )
            answer = scored.answers.get((prediction.sample_id, prediction.turn))
            gold = answer.options if answer else ()
            for option, label in zip(order, prediction.variant.labels, strict=False):
                is_correct = option in gold if gold else None
                pools[prediction.protocol, len(order), label].add(
                    prediction.choice == option, is_correct, group
                )
    return [pool.preference(*key) for key, pool in sorted(pools.items())]


def _readable(scored: ScoredBenchmark) -> Iterator[tuple[Prediction, tuple[int, ...]]]:
    """Yield the replies that name one of the displayed options, with the order of these options."""
    for prediction in scored.predictions:
        if prediction.method == "generation" and prediction.choice is not None:
            order = order_shown(prediction)
            if order and prediction.choice in order:
                yield prediction, order


class _Replies:
    """Of the replies to questions that showed one label: whether it was chosen, and whether it was right."""

    def __init__(self) -> None:
        self._chosen, self._correct, self._groups = array("d"), array("d"), array("l")
        self._unknown, self._unknown_groups = array("d"), array("l")

    def add(self, is_chosen: bool, is_correct: bool | None, group: int) -> None:
        """Add a reply: whether it chooses the letter, and whether the letter is correct (None if unknown)."""
        if is_correct is None:
            self._unknown.append(is_chosen)
            self._unknown_groups.append(group)
        else:
            self._chosen.append(is_chosen)
            self._correct.append(is_correct)
            self._groups.append(group)

    def preference(self, protocol: str, options: int, label: str) -> LetterPreference:
        """Return how often a letter is chosen, how often it is correct, and the difference.

        A difference above 0 means that the model prefers the letter.
        """
        if not self._chosen:
            absent = Estimate(None, None, None, None, 0)
            chosen = estimate_mean(self._unknown, self._unknown_groups)
            return LetterPreference(protocol, options, label, chosen, absent, absent)
        gaps = array("d")
        for chosen_share, correct_share in zip(self._chosen, self._correct, strict=True):
            gaps.append(chosen_share - correct_share)
        return LetterPreference(
            protocol,
            options,
            label,
            estimate_mean(self._chosen, self._groups),
            estimate_mean(self._correct, self._groups),
            estimate_mean(gaps, self._groups, bounds=(-1.0, 1.0)),
        )
