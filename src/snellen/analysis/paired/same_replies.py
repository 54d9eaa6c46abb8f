"""Questions to which two runs gave the same replies, whose readings cannot differ, however uncertain they are."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from msgspec.structs import replace

from snellen.analysis.paired.differences import QuestionKey, QuestionMeasures
from snellen.errors import StoreError
from snellen.runs.journal import read_exchanges
from snellen.scoring.scored_run import ScoredRun

_Question = tuple[str, str, QuestionKey]
"""Protocol, benchmark, and the question with its round."""


class RunReplies:
    """The replies of a run by question, read from its journals at the first use."""

    def __init__(self, run: ScoredRun) -> None:
        self._run = run

    @cached_property
    def by_question(self) -> dict[_Question, frozenset[tuple[object, ...]]]:
        """For each question the replies to all of its presentations; empty if the journals cannot be read."""
        try:
            return self._read()
        except StoreError:
            return {}

    def _read(self) -> dict[_Question, frozenset[tuple[object, ...]]]:
        """Return the replies to each question: for each presentation its text and log-likelihoods."""
        replies: dict[_Question, set[tuple[object, ...]]] = defaultdict(set)
        for exchange in read_exchanges(self._run.folder):
            if exchange.response.error is not None:
                continue
            request = exchange.request
            sample_and_round = (request.sample_id, request.variant.turn)
            question = (exchange.protocol, request.benchmark, sample_and_round)
            log_likelihoods = tuple(score.sum for score in exchange.response.scores)
            reply = (request.variant, exchange.response.text, log_likelihoods)
            replies[question].add(reply)
        return {
            question: frozenset(replies_to_question)
            for question, replies_to_question in replies.items()
        }


def same_replies(
    first: RunReplies, second: RunReplies, measures: tuple[QuestionMeasures, ...]
) -> frozenset[QuestionKey]:
    """Return the common questions to which two runs gave the same replies.

    The journals are read only if they can matter: if the reading of a reply is uncertain, or if no question has
    different values in the two runs. In all other cases, and if the protocols differ, the result is empty.

    Args:
        first: The replies of the first run.
        second: The replies of the second run.
        measures: Values of a benchmark in the first and in the second run.
    """
    first_measures, second_measures = measures
    protocol = first_measures.protocol
    if protocol != second_measures.protocol or first_measures.counted_by:
        return frozenset()
    common_keys = first_measures.keys & second_measures.keys
    has_doubts = bool(first_measures.doubts or second_measures.doubts)
    if not has_doubts:
        for key in common_keys:
            if first_measures.values.get(key) != second_measures.values.get(key):
                return frozenset()

    benchmark = first_measures.scored.spec.name
    keys_with_same_replies: set[QuestionKey] = set()
    for key in common_keys:
        question = (protocol, benchmark, key)
        first_replies = first.by_question.get(question)
        if first_replies is not None and first_replies == second.by_question.get(question):
            keys_with_same_replies.add(key)
    return frozenset(keys_with_same_replies)


def without_doubts(measures: QuestionMeasures, keys: frozenset[QuestionKey]) -> QuestionMeasures:
    """Return the values of a run, in which the readings of some questions count as certain."""
    if keys.isdisjoint(measures.doubts):
        return measures
    doubts = {key: doubt for key, doubt in measures.doubts.items() if key not in keys}
    return replace(measures, doubts=doubts)
