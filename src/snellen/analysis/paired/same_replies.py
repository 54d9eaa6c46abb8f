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
        replies: dict[_Question, set[tuple[object, ...]]] = defaultdict(set)
        for exchange in read_exchanges(self._run.folder):
            if exchange.response.error is not None:
                continue
            request = exchange.request
            key = request.sample_id, request.variant.turn
            log_likelihoods = tuple(score.sum for score in exchange.response.scores)
            reply = request.variant, exchange.response.text, log_likelihoods
            replies[exchange.protocol, request.benchmark, key].add(reply)
        return {question: frozenset(given) for question, given in replies.items()}


def same_replies(
    first: RunReplies, second: RunReplies, measures: tuple[QuestionMeasures, ...]
) -> frozenset[QuestionKey]:
    """Return the common questions to which two runs gave the same replies.

    The journals are read only where they can matter: if the reading of a reply is uncertain, or no value differs.

    Args:
        first: The replies of the first run.
        second: The replies of the second run.
        measures: Values of a benchmark in the first and in the second run.
    """
    one, other = measures
    if one.protocol != other.protocol or one.counted_by:
        return frozenset()
    common = one.keys & other.keys
    differs = any(one.values.get(key) != other.values.get(key) for key in common)
    if differs and not one.doubts and not other.doubts:
        return frozenset()
    benchmark = one.scored.spec.name
    same: set[QuestionKey] = set()
    for key in common:
        question = one.protocol, benchmark, key
        given = first.by_question.get(question)
        if given is not None and given == second.by_question.get(question):
            same.add(key)
    return frozenset(same)


def without_doubts(measures: QuestionMeasures, keys: frozenset[QuestionKey]) -> QuestionMeasures:
    """Return the values of a run without the doubts about the readings of some questions."""
    doubts = {key: doubt for key, doubt in measures.doubts.items() if key not in keys}
    return measures if len(doubts) == len(measures.doubts) else replace(measures, doubts=doubts)
