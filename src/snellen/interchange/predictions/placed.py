"""Rows that have found their question, numbered as its presentations, and the exchanges that a run is made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import DataError
from snellen.interchange.predictions.rows import Findings, PredictedRow, name_of
from snellen.protocols.choice import rotations
from snellen.records import (
    ContinuationScore,
    Exchange,
    Failure,
    ImagePart,
    Message,
    Request,
    Response,
    Sample,
    TextPart,
    Variant,
)

Key = tuple[str, int]
"""Sample and round."""


class PlacedRow(Struct, frozen=True):
    """A row with its question and the order in which it showed the options."""

    row: PredictedRow
    sample: str
    turn: int
    order: tuple[int, ...] = ()
    """Index among the question's options of the option in each place; empty for an open question."""
    wording: int = 0
    test: int = 0

    @property
    def key(self) -> Key:
        return self.sample, self.turn

    @property
    def said(self) -> tuple[object, ...]:
        """All that distinguishes it from another presentation of its question."""
        row = self.row
        return self.order, self.wording, row.template, row.prompt, row.reply, row.chosen, row.scores, row.failure


def number_presentations(path: Path, placed: Sequence[PlacedRow], repeats: bool, findings: Findings) -> list[PlacedRow]:
    """Rows with the numbers of their presentations; a row that is there again is counted once.

    Where rows of an id are its presentations, they are numbered by the file or else as they come; else rows are
    presentations of one question where they show its options in different orders. A request that failed and was asked
    again counts as it was answered. Raises DataError naming rows that contradict each other.
    """
    groups: dict[Key, list[PlacedRow]] = defaultdict(list)
    for row in placed:
        groups[row.key].append(row)
    most = expected_presentations(map(len, groups.values())) if repeats else 0
    numbered: list[PlacedRow] = []
    contradicting: list[PlacedRow] = []
    for rows in groups.values():
        remaining = rows if repeats and len(rows) <= most else _without_retries(rows, most, findings)
        remaining = remaining if len(remaining) <= most else _without_copies(remaining, most, findings)
        if len(remaining) > (most or len({row.order for row in remaining})):
            contradicting += remaining
        else:
            numbered += _numbered(remaining)
    if contradicting:
        raise DataError(f"{path}: {_contradiction(contradicting, repeats)}")
    return numbered


def _contradiction(rows: Sequence[PlacedRow], repeats: bool) -> str:
    replies = ", ".join(f"{name_of(row.row)} ({row.row.where}: {_said(row.row)})" for row in rows[:6])
    more = ", ..." if len(rows) > 6 else ""
    fault = (
        "more rows of an id than others have, which differ" if repeats else "rows of one question say different things"
    )
    return (
        f"{fault}: {replies}{more}, {len(rows):,} rows in all; keep the one that counts of each question, and give the "
        "replies of another run or model a file of their own"
    )


def _said(row: PredictedRow) -> str:
    reply_text = row.failure or row.reply or ""
    return f"{reply_text[:40]!r}" if row.method == "generation" else "a likelihood"


def _without_retries(rows: Sequence[PlacedRow], most: int, findings: Findings) -> list[PlacedRow]:
    """The rows without those that failed where another shows the same and did not."""
    answered = {row.order for row in rows if not row.row.failure}
    remaining = [row for row in rows if not (row.row.failure and row.order in answered)]
    if most and len(remaining) < most:
        return list(rows)
    for row in rows:
        if row not in remaining:
            findings.add("rows whose request failed and was asked again, counted as it was answered", name_of(row.row))
    return remaining


def expected_presentations(counts: Iterable[int]) -> int:
    """How many rows a question has: the most that at least a tenth of the questions have; 1 without any.

    Fewer are what a run that ended early left; more are rows that were written twice, as of the last batch of several
    processes.
    """
    frequency = Counter(counts)
    return max((count for count, many in frequency.items() if many * 10 >= frequency.total()), default=1)


def _without_copies(rows: Sequence[PlacedRow], most: int, findings: Findings) -> list[PlacedRow]:
    """The rows less enough exact copies to be as many as expected; less all where no number is."""
    remaining: list[PlacedRow] = []
    spare = len(rows) - most if most else len(rows)
    for row in rows:
        if spare and any(row.said == earlier.said for earlier in remaining):
            findings.add("rows that are there twice, counted once", name_of(row.row))
            spare -= 1
        else:
            remaining.append(row)
    return remaining


def _numbered(rows: Sequence[PlacedRow]) -> list[PlacedRow]:
    """By the file's numbers; else by how far a rotation is turned, the base row first; else as they come."""
    stated_numbers = [row.row.presentation for row in rows]
    if None not in stated_numbers and len(set(stated_numbers)) == len(stated_numbers):
        return [replace(row, test=row.row.presentation or 0) for row in rows]
    if are_rotations(rows):
        return [replace(row, test=row.order[0]) for row in rows]
    return [replace(row, test=test) for test, row in enumerate(rows)]


def are_rotations(rows: Iterable[PlacedRow]) -> bool:
    """Whether rows of a question show its options in different orders, each of which is a rotation."""
    orders = [row.order for row in rows]
    return len(set(orders)) == len(orders) and all(order and order in set(rotations(len(order))) for order in orders)


def exchanges_of(placed: Iterable[PlacedRow], samples: dict[str, Sample], label: str) -> Iterator[Exchange]:
    """The journal of a run in which the model said what the rows say."""
    for row in placed:
        sample = samples[row.sample]
        yield Exchange(label, _request(row, sample), _response(row, sample))


def _request(placed: PlacedRow, sample: Sample) -> Request:
    row, question = placed.row, sample.rounds[placed.turn]
    labels = row.labels or shown_labels(len(placed.order))
    option_lines = [f"{label}. {question.options[option]}" for label, option in zip(labels, placed.order, strict=True)]
    context = [sample.context] if sample.context else []
    text = row.prompt or "\n".join((*context, row.question or question.question, *option_lines))
    message = Message("user", (*map(ImagePart, sample.images), TextPart(text)))
    variant = Variant(
        test=placed.test,
        turn=placed.turn,
        template=row.template,
        order=placed.order,
        labels=tuple(labels) if row.method == "generation" else (),
        wording=placed.wording,
    )
    if row.method == "generation":
        return Request(sample.benchmark, sample.id, variant, (message,))
    return Request(sample.benchmark, sample.id, variant, (message,), "loglikelihood", question.options)


def _response(placed: PlacedRow, sample: Sample) -> Response:
    row, count = placed.row, len(sample.rounds[placed.turn].options)
    if row.failure:
        return Response(error=Failure("server", row.failure))
    if row.method == "generation":
        return Response(text=row.reply or "")
    if len(row.scores) != count or not placed.order:
        return Response(chosen=row.chosen if row.chosen is not None else _best(row.scores))
    by_option = dict(zip(placed.order, row.scores, strict=True))
    texts = sample.rounds[placed.turn].options
    return Response(
        scores=tuple(ContinuationScore(by_option[i], 1, len(texts[i].encode())) for i in range(len(by_option)))
    )


def _best(scores: Sequence[float]) -> int:
    return scores.index(max(scores))


def shown_labels(count: int) -> tuple[str, ...]:
    """Labels where a file does not say which were shown: letters, or numbers beyond 26 options."""
    return tuple(ascii_uppercase[:count]) if count <= 26 else tuple(str(i + 1) for i in range(count))
