"""What logs of other tools hold one file for: a benchmark of a run under one protocol."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.exports.presentations import Presentation, presentations
from snellen.paths import slug
from snellen.records import Result
from snellen.runs.journal import write_atomically
from snellen.scoring.scored_run import ScoredRun, run_labels

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
        for one in presentations(run):
            read = one.prediction
            parts[one.scored.spec.name, read.protocol][read.sample_id, read.turn].append(one)
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


def question_id(one: Presentation) -> str:
    """The sample's id; of a round of a dialogue with its number."""
    return f"{one.sample.id}#{one.prediction.turn + 1}" if one.sample.turns else one.sample.id


def options_shown(one: Presentation) -> list[str]:
    """The options in the order in which this presentation showed them."""
    options, order = one.turn.options, one.prediction.variant.order
    return [options[i] for i in order] if order else list(options)


def letters_of_gold(one: Presentation) -> list[str]:
    """The places of the right options among those shown, as letters; reference texts of a question without options."""
    if one.answer is None:
        return []
    if not one.turn.options:
        return list(one.answer.texts)
    order = one.prediction.variant.order or tuple(range(len(one.turn.options)))
    return [
        LETTERS[place] if place < len(LETTERS) else str(place)
        for place, i in enumerate(order)
        if i in one.answer.options
    ]


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file. Raises StoreError."""
    write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False).encode("utf-8", "replace"))
    return path
