"""Each presentation of a run with all that belongs to it: question, gold, request, response, reading, scores."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.common.paths import slug
from snellen.records import Answer, Exchange, Prediction, Result, Sample, Score, Turn, Variant
from snellen.runs.journal import read_exchanges, write_atomically
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels
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
    exchanges: dict[_Place, Exchange] = {}
    samples = {scored.spec.name: scored.samples for scored in run.benchmarks}
    for exchange in with_conclusions(read_exchanges(run.folder), run.manifest.protocols, samples):
        request = exchange.request
        place = exchange.protocol, request.benchmark, request.sample_id, request.variant
        if exchange.response.error is None or place not in exchanges:
            exchanges[place] = exchange
    return exchanges


# --- what logs of other tools hold one file for ----------------------------------------------------------------------


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class LogPart(Struct, frozen=True):
    """One benchmark of one run under one protocol."""

    run: ScoredRun
    label: str
    """The run's, as in tables."""
    benchmark: str
    protocol: str
    questions: tuple[tuple[Presentation, ...], ...]
    """The presentations of each question, in order."""
    rows: tuple[Result, ...]
    """The numbers of the whole benchmark."""

    @property
    def task(self) -> str:
        """A name for it: the benchmark's, with the protocol where that is not the plain one."""
        return slug(self.benchmark if self.protocol == "vanilla" else f"{self.benchmark}-{self.protocol}")


def log_parts(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> Iterator[LogPart]:
    """The parts of runs, whose results are `rows`, in order. Raises StoreError for a damaged journal."""
    for label, run in zip(run_labels(runs), runs, strict=True):
        parts: dict[tuple[str, str], dict[tuple[str, int], list[Presentation]]] = defaultdict(lambda: defaultdict(list))
        for presentation in presentations(run):
            prediction = presentation.prediction
            parts[presentation.scored.spec.name, prediction.protocol][prediction.sample_id, prediction.turn].append(
                presentation
            )
        for (benchmark, protocol), questions in parts.items():
            yield LogPart(
                run,
                label,
                benchmark,
                protocol,
                tuple(map(tuple, questions.values())),
                tuple(
                    row
                    for row in rows
                    if (row.model, row.benchmark, row.protocol, row.slice) == (label, benchmark, protocol, "")
                    and row.estimate.value is not None
                ),
            )


def question_id(presentation: Presentation) -> str:
    """The sample's id; of a round of a dialogue with its number."""
    return (
        f"{presentation.sample.id}#{presentation.prediction.turn + 1}"
        if presentation.sample.turns
        else presentation.sample.id
    )


def options_shown(presentation: Presentation) -> list[str]:
    """The options in the order in which this presentation showed them."""
    options, order = presentation.turn.options, presentation.prediction.variant.order
    return [options[i] for i in order] if order else list(options)


def letters_of_gold(presentation: Presentation) -> list[str]:
    """The places of the right options among those shown, as letters; reference texts of a question without options."""
    if presentation.answer is None:
        return []
    if not presentation.turn.options:
        return list(presentation.answer.texts)
    order = presentation.prediction.variant.order or tuple(range(len(presentation.turn.options)))
    return [
        LETTERS[place] if place < len(LETTERS) else str(place)
        for place, i in enumerate(order)
        if i in presentation.answer.options
    ]


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file. Raises StoreError."""
    write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False).encode("utf-8", "replace"))
    return path
