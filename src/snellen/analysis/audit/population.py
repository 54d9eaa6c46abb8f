"""The replies that accuracies are made of, as they were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.question_means import is_censored
from snellen.protocols.base import labelled_declaration
from snellen.protocols.prompts.role_prompts import shortened
from snellen.records import Prediction, Score
from snellen.scoring.agreement import ReplyKey
from snellen.scoring.answers import Key
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

HEADLINE = "accuracy"
WORDLESS = "no words"
"""The reading of a reply without words. It means no option, so nobody labels it."""


class AuditedReply(Struct, frozen=True, gc=False):
    """A reply that counts in an accuracy."""

    prediction: Prediction
    reading: str
    """How sure the rules are of what they read (`certain`, `likely`); else what read it (`judge`, ...), or `open`."""
    right: bool
    """As it was read."""
    share: float
    """How much of its question's value it is."""

    @property
    def key(self) -> ReplyKey:
        return self.prediction.benchmark, self.prediction.protocol, self.prediction.sample_id, self.prediction.variant

    @property
    def question(self) -> Key:
        return self.prediction.sample_id, self.prediction.turn

    @property
    def cell(self) -> tuple[str, bool]:
        return self.reading, self.right


class AuditedAccuracy(Struct, frozen=True):
    """The accuracy of a benchmark under a protocol: its questions with a value, and the replies behind these."""

    scored: ScoredBenchmark
    protocol: str
    scores: Sequence[Score]
    replies: Sequence[AuditedReply]

    @property
    def benchmark(self) -> str:
        return self.scored.spec.name

    def is_right(self, reply: AuditedReply, choice: int | None) -> bool:
        """Whether a reply is right if it means that option."""
        return choice in self.scored.answers[reply.question].options


def audited_accuracies(run: ScoredRun) -> Iterator[AuditedAccuracy]:
    """The accuracies of a run that labels of single replies can correct."""
    for scored in run.benchmarks:
        for (protocol, method, metric), records in scored.score_rows.items():
            if metric != HEADLINE or method != "generation" or scored.golds_absent:
                continue
            scores = list(records)
            if labelled_declaration(protocol).conclude or is_censored(scores):
                continue  # an answer of several steps is not a reply, and a weighted mean not a mean over replies
            valued = [score for score in scores if score.value is not None]
            if valued:
                yield AuditedAccuracy(scored, protocol, valued, list(_replies(scored, protocol, valued)))


def _replies(scored: ScoredBenchmark, protocol: str, scores: Sequence[Score]) -> Iterator[AuditedReply]:
    presentations = {(score.sample_id, score.turn): score.n_presentations for score in scores}
    is_unbiased = labelled_declaration(protocol).is_unbiased
    for prediction in scored.predictions:
        if prediction.protocol != protocol or prediction.error is not None or not is_unbiased(prediction.variant):
            continue
        question = prediction.sample_id, prediction.turn
        if count := presentations.get(question):
            right = prediction.choice in scored.answers[question].options
            yield AuditedReply(prediction, _reading(prediction), right, 1 / count)


def _reading(prediction: Prediction) -> str:
    if prediction.unparsed_text is not None and not shortened(prediction.unparsed_text):
        return WORDLESS
    return prediction.confidence or prediction.extraction_method or "open"
