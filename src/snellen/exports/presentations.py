"""Each presentation of a run with all that belongs to it: question, gold, request, response, reading, scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from snellen.records import Answer, Exchange, Prediction, Sample, Score, Turn, Variant
from snellen.runs.journal import read_exchanges
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.talks import with_conclusions

_Place = tuple[str, str, str, Variant]


class Presentation(Struct, frozen=True):
    """One way in which a question was asked, and what became of it."""

    scored: ScoredBenchmark
    sample: Sample
    answer: Answer | None
    """None where it is hidden or not at hand."""
    prediction: Prediction
    exchange: Exchange | None
    """The request as sent and the last response; of an answer to which steps led, the conclusion."""
    scores: tuple[Score, ...]
    """Of its question, over all of the question's presentations under its protocol."""

    @property
    def turn(self) -> Turn:
        return self.sample.rounds[self.prediction.turn]

    @property
    def golds(self) -> tuple[str, ...]:
        """The texts of right options, or reference texts."""
        if self.answer is None:
            return ()
        return tuple(self.turn.options[i] for i in self.answer.options) or self.answer.texts

    @property
    def is_right(self) -> bool | None:
        """Whether the option that was read is right; None without options, without a gold, or where none came."""
        if self.answer is None or not self.turn.options or self.prediction.error is not None:
            return None
        return self.prediction.choice in self.answer.options

    @property
    def reply(self) -> str | None:
        """The reply as received; None where there was none, as under likelihood."""
        return self.exchange.response.text if self.exchange else None


def presentations(run: ScoredRun) -> Iterator[Presentation]:
    """All presentations of a run, in the order of its predictions. Raises StoreError for a damaged journal."""
    exchanges = _exchanges(run)
    for scored in run.benchmarks:
        scores: dict[tuple[str, str, int], list[Score]] = defaultdict(list)
        for score in scored.scores:
            scores[score.protocol, score.sample_id, score.turn].append(score)
        for prediction in scored.predictions:
            question = prediction.sample_id, prediction.turn
            yield Presentation(
                scored,
                scored.samples[prediction.sample_id],
                scored.answers.get(question),
                prediction,
                exchanges.get((prediction.protocol, scored.spec.name, prediction.sample_id, prediction.variant)),
                tuple(scores[prediction.protocol, *question]),
            )


def _exchanges(run: ScoredRun) -> dict[_Place, Exchange]:
    """Of several exchanges of one presentation the last one answered, as in scoring."""
    found: dict[_Place, Exchange] = {}
    samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
    for exchange in with_conclusions(read_exchanges(run.folder), run.manifest.protocols, samples):
        request = exchange.request
        place = exchange.protocol, request.benchmark, request.sample_id, request.variant
        if exchange.response.error is None or place not in found:
            found[place] = exchange
    return found
