"""What a file of predictions says, row by row, whatever its format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import DataError
from snellen.interchange.predictions.failed_requests import is_failure
from snellen.records import Method


class PredictedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prediction, with what the file says of its question. Nothing is taken from another row."""

    where: str
    """Its place in the file, for notes and errors: `record 3`."""
    id: str = ""
    """The question's name in the file; of a round, the dialogue's. Empty when the file has none."""
    turn: int | None = None
    """The round of a dialogue, from 0; None for a question that is not part of one."""
    presentation: int | None = None
    """Which presentation of its question it is, from 0; None where the file does not number them."""
    question: str = ""
    prompt: str = ""
    """All that the model was shown, where the file has it."""
    subject: str = ""
    """What of the question is the same however it is put (a caption to judge), where the file has it apart."""
    context: str = ""
    options: tuple[str, ...] = ()
    """In the order in which this row showed them."""
    labels: tuple[str, ...] = ()
    """Those shown; capital letters when empty."""
    gold: tuple[int, ...] = ()
    """Places of the right options; empty when hidden."""
    references: tuple[str, ...] = ()
    """Right texts of an open question; empty when hidden."""
    reply: str | None = None
    chosen: int | None = None
    """The place of the most likely option, where the file keeps nothing else of a likelihood."""
    scores: tuple[float, ...] = ()
    """A log-likelihood (nats) for each option in the order shown."""
    failure: str = ""
    """Why no prediction came."""
    template: str = ""
    """The instruction that the question was put with."""
    picture: str = ""
    """The picture's name; rows of different pictures are never the same question."""

    @property
    def method(self) -> Method:
        return "likelihood" if self.chosen is not None or self.scores else "generation"


def with_failure(row: PredictedRow) -> PredictedRow:
    """The row as one that failed where it has no reply, or what harnesses write in place of one."""
    expected_texts = (*row.options, *row.references)
    reply = (row.reply or "").strip()
    if row.failure or row.method == "likelihood" or (reply and not is_failure(reply, expected_texts)):
        return row
    return replace(row, reply=None, failure=reply or "there is no reply")


class PredictionFile(Struct, frozen=True, kw_only=True):
    """A file of predictions, read."""

    rows: tuple[PredictedRow, ...]
    repeats: bool
    """Whether several rows of one id are presentations of one question; otherwise they are the same row again."""
    title: str = ""
    """What was asked, as the file calls it."""
    model: str = ""
    suite: str = ""
    """The suite whose published rules (`--as-published`) fit a benchmark that is made of the file."""
    task: str = ""
    metrics: tuple[str, ...] = ()
    """Those of open questions; the usual ones when empty."""
    notes: tuple[str, ...] = ()


LONGEST_PATH = 1024
"""Characters: a longer text is not the name of a picture but the picture itself."""


def only_model(path: Path, models: Iterable[str]) -> str:
    """The model that all rows are of; empty where none is named. Raises DataError for several."""
    names = list(dict.fromkeys(filter(None, models)))
    if len(names) > 1:
        raise DataError(f"{path} has replies of {len(names)} models ({', '.join(names)}); give each a file of its own")
    return names[0] if names else ""


class Findings:
    """What is wrong with rows, or said of them, by kind: how many, and the first of them."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, name: str) -> None:
        self._by_kind[kind].append(name)

    def notes(self) -> list[str]:
        """One line per kind: `rows left out, without an id: 12 (record 5, record 7, record 9, ...)`."""
        return [f"{kind}: {count_named(names)}" for kind, names in self._by_kind.items()]


def count_named(names: Sequence[str]) -> str:
    """`12 (5, 1000005, 7, ...)`."""
    return f"{len(names):,} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


def name_of(row: PredictedRow) -> str:
    """How a note names a row: by its id where it has one."""
    if not row.id:
        return row.where
    return row.id if row.turn is None else f"{row.id} round {row.turn}"
