"""Scores in compressed columns: a few bytes each instead of a record, for millions of them."""

from __future__ import annotations

import zlib
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

import msgspec

from snellen.reasons import Reason
from snellen.records import Method, Score

Row = tuple[str, Method, str]
"""Protocol, method, metric."""
Section = tuple[int, ...]
"""Where scores stand among those of a benchmark: sections are in their order, scores of one as they were added."""
Entry = tuple[str, int, int, float, int, int, int]
"""Of a score: sample, row, turn, value, what is said of it, presentations, steps."""

CHUNK = 1 << 14
"""Scores that are compressed together."""
_TYPES = "HIHdIHH"


class _Columns:
    """The scores of one section."""

    def __init__(self) -> None:
        self._sealed: list[tuple[bytes, ...]] = []
        self._open = _open_columns()
        self._ids: list[str] = []
        """The samples of the open columns."""
        self.known_rows: dict[int, None] = {}
        self.count = 0

    def extend(self, entries: Iterable[Entry]) -> None:
        for sample_id, row, turn, value, said, presentations, steps in entries:
            if len(self._open[0]) == CHUNK:
                self._seal()
            rows, samples, turns, values, sayings, shown, taken = self._open
            if not self._ids or self._ids[-1] != sample_id:
                self._ids.append(sample_id)
            rows.append(row)
            samples.append(len(self._ids) - 1)
            turns.append(turn)
            values.append(value)
            sayings.append(said)
            shown.append(presentations)
            taken.append(steps)
            self.known_rows[row] = None
            self.count += 1

    def _seal(self) -> None:
        ids = zlib.compress(msgspec.json.encode(self._ids), 1)
        self._sealed.append((ids, *(zlib.compress(column.tobytes(), 1) for column in self._open)))
        self._open, self._ids = _open_columns(), []

    def entries(self, only: int | None) -> Iterator[tuple[int, str, int, float, int, int, int]]:
        """Row, sample, turn, value, what is said of it, presentations, steps; of one row, or of all."""
        for ids, *sealed in self._sealed:
            columns = _open_columns()
            for column, content in zip(columns, sealed, strict=True):
                column.frombytes(zlib.decompress(content))
            yield from _together(columns, msgspec.json.decode(zlib.decompress(ids), type=list[str]), only)
        yield from _together(self._open, self._ids, only)


def _open_columns() -> list[array[Any]]:
    return [array(kind) for kind in _TYPES]


def _together(columns: Sequence[array[Any]], ids: Sequence[str], only: int | None) -> Iterator[tuple[Any, ...]]:
    rows, samples, *others = columns
    every = zip(rows, map(ids.__getitem__, samples), *others, strict=True)
    return every if only is None else compress(every, map(only.__eq__, rows))


class ScoreTable(Collection[Score]):
    """The scores of one benchmark, section by section; each record is made when it is asked for."""

    def __init__(self, benchmark: str) -> None:
        self._benchmark = benchmark
        self._sections: dict[Section, _Columns] = defaultdict(_Columns)
        self._rows: dict[Row, int] = {}
        self._reasons: dict[tuple[bool, Reason | None, str, bool], int] = {}
        """Whether there is a value, what is said of it, and whether a row of answers broke off."""

    def add(self, section: Section, scores: Iterable[Score]) -> None:
        """Append scores to a section."""
        self._sections[section].extend(map(self._entry, scores))

    def _entry(self, score: Score) -> Entry:
        said = (score.value is not None, score.reason, score.detail, score.broken)
        return (
            score.sample_id,
            self._rows.setdefault((score.protocol, score.method, score.metric), len(self._rows)),
            score.turn,
            0.0 if score.value is None else score.value,
            self._reasons.setdefault(said, len(self._reasons)),
            score.n_presentations,
            score.steps,
        )

    def __len__(self) -> int:
        return sum(columns.count for columns in self._sections.values())

    def __contains__(self, score: object) -> bool:
        return any(score == one for one in self)

    def __iter__(self) -> Iterator[Score]:
        return self._scores(None)

    @property
    def rows(self) -> list[Row]:
        """The rows of which there are scores, in the order in which they first appear."""
        names = list(self._rows)
        return [names[row] for row in dict.fromkeys(row for one in self._ordered for row in one.known_rows)]

    def of_row(self, row: Row) -> Iterator[Score]:
        """The scores of one row, in order."""
        return self._scores(self._rows[row])

    @property
    def _ordered(self) -> list[_Columns]:
        return [self._sections[section] for section in sorted(self._sections)]

    def _scores(self, only: int | None) -> Iterator[Score]:
        rows, reasons = list(self._rows), list(self._reasons)
        for columns in self._ordered:
            if only is not None and only not in columns.known_rows:
                continue
            for row, sample_id, turn, number, said, presentations, steps in columns.entries(only):
                has_value, reason, detail, broken = reasons[said]
                protocol, method, metric = rows[row]
                value = number if has_value else None
                yield Score(
                    protocol,
                    method,
                    self._benchmark,
                    sample_id,
                    turn,
                    metric,
                    value,
                    reason,
                    detail,
                    presentations,
                    steps,
                    broken,
                )


def row_names(scores: Collection[Score]) -> Iterable[Row]:
    """The rows of which there are scores, in the order in which they first appear."""
    if isinstance(scores, ScoreTable):
        return scores.rows
    return dict.fromkeys((score.protocol, score.method, score.metric) for score in scores)


def scores_by_row(scores: Collection[Score]) -> Iterator[tuple[Row, Sequence[Score]]]:
    """The scores of each row, rows in the order in which they first appear; of a table one row at a time."""
    if isinstance(scores, ScoreTable):
        for row in scores.rows:
            yield row, list(scores.of_row(row))
        return
    found: dict[Row, list[Score]] = defaultdict(list)
    for score in scores:
        found[score.protocol, score.method, score.metric].append(score)
    yield from found.items()
