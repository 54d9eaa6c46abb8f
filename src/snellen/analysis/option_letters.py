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

_protocol_declaration = cache(labelled_declaration)


class LetterPreference(Struct, frozen=True):
    """How often the model chose one label, such as A, and how often the correct option had this label.

    Only readable replies to questions that showed the label count. Shares are from 0 to 1, with 95% intervals over
    images.
    """

    protocol: str
    options: int
    """The number of options of the questions."""
    label: str
    choice_rate: Estimate = field(name="chosen")
    correct: Estimate
    """How often the correct option had the label, in replies with a known answer; no value if no answer is known."""
    difference: Estimate
    """How often it was chosen minus how often it was correct, in the same replies. Above zero, the model prefers the
    label itself."""


def order_shown(prediction: Prediction) -> tuple[int, ...] | None:
    """Return the order in which the options of a question were shown to the model.

    The result has the index of the option under A, then that of the option under B, and so on.

    Returns:
        None if no letters were shown, if earlier replies decided what was shown (which biases counts of letters), or if
        another model chose the option.
    """
    labels = prediction.variant.labels
    declared_by = _protocol_declaration(prediction.protocol)
    if not labels or declared_by.conclude:
        return None
    if declared_by.stops_early and not declared_by.is_unbiased(prediction.variant):
        return None
    unchanged_order = tuple(range(len(labels)))
    return prediction.variant.order or unchanged_order


def letter_preferences(benchmarks: Sequence[ScoredBenchmark]) -> list[LetterPreference]:
    """Return how often each option letter was chosen, and how often the correct option has it.

    The benchmarks are counted together. Each protocol, number of options and letter has an entry. If only some correct
    answers are available, an entry describes the replies to these questions.
    """
    replies_by_letter: defaultdict[tuple[str, int, str], _Replies] = defaultdict(_Replies)
    group_numbers: dict[tuple[str, str], int] = {}
    for scored in benchmarks:
        for prediction, order in _replies_naming_an_option(scored):
            group_key = (scored.spec.name, scored.samples[prediction.sample_id].group)
            group_number = group_numbers.setdefault(group_key, len(group_numbers))
            answer = scored.answers.get((prediction.sample_id, prediction.turn))
            correct_options = answer.options if answer else ()
            for option, label in zip(order, prediction.variant.labels, strict=False):
                is_chosen = prediction.choice == option
                is_correct = option in correct_options if correct_options else None
                replies = replies_by_letter[prediction.protocol, len(order), label]
                replies.add(is_chosen, is_correct, group_number)

    preferences: list[LetterPreference] = []
    for (protocol, n_options, label), replies in sorted(replies_by_letter.items()):
        preferences.append(replies.preference(protocol, n_options, label))
    return preferences


def _replies_naming_an_option(
    scored: ScoredBenchmark,
) -> Iterator[tuple[Prediction, tuple[int, ...]]]:
    """Yield the generated replies from which one of the shown options could be read.

    Yields:
        The prediction, and the order in which its options were shown (see `order_shown`).
    """
    for prediction in scored.predictions:
        if prediction.method == "generation" and prediction.choice is not None:
            order = order_shown(prediction)
            if order and prediction.choice in order:
                yield prediction, order


class _Replies:
    """For the replies to questions that showed one label, whether it was chosen, and whether it was correct.

    Arrays of numbers, 1 for yes and 0 for no, take little memory for many replies.
    """

    def __init__(self) -> None:
        self._chosen = array("d")
        self._correct = array("d")
        self._groups = array("l")
        # Likewise for replies to questions whose answer is unknown.
        self._unknown = array("d")
        self._unknown_groups = array("l")

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
        """Return how often a letter is chosen, how often it is correct, and the difference of the two shares.

        A difference above 0 means that the model prefers the letter. Without available answers, only the first is
        returned.
        """
        if not self._chosen:
            absent = Estimate(value=None, stderr=None, low=None, high=None, n=0)
            chosen = estimate_mean(self._unknown, self._unknown_groups)
            return LetterPreference(
                protocol=protocol,
                options=options,
                label=label,
                choice_rate=chosen,
                correct=absent,
                difference=absent,
            )
        gaps = array("d")
        for chosen_share, correct_share in zip(self._chosen, self._correct, strict=True):
            gaps.append(chosen_share - correct_share)
        return LetterPreference(
            protocol=protocol,
            options=options,
            label=label,
            choice_rate=estimate_mean(self._chosen, self._groups),
            correct=estimate_mean(self._correct, self._groups),
            difference=estimate_mean(gaps, self._groups, bounds=(-1.0, 1.0)),
        )
