"""Scores in columns: 24 bytes each instead of a record, for millions of them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from snellen.reasons import Reason
from snellen.records import Method, Score

Row = tuple[str, Method, str]
"""Protocol, method, metric."""
Section = tuple[int, ...]
"""Where scores stand among those of a benchmark: sections are in their order, scores of one as they were added."""


class _Columns:
    """The scores of one section."""

    def __init__(self) -> None:
        self.rows = array("H")
        self.samples = array("I")
        self.turns = array("H")
        self.values = array("d")
        self.reasons = array("I")
        self.presentations = array("H")
        self.steps = array("h")
        """Those of a broken row as -1 - steps."""
        self.known_rows: dict[int, None] = {}

    def __iter__(self) -> Iterator[tuple[int, int, int, float, int, int, int]]:
        return zip(
            self.rows, self.samples, self.turns, self.values, self.reasons, self.presentations, self.steps, strict=True
        )


class ScoreTable(Collection[Score]):
    """The scores of one benchmark, section by section; each record is made when it is asked for."""

    def __init__(self, benchmark: str) -> None:
        self._benchmark = benchmark
        self._sections: dict[Section, _Columns] = defaultdict(_Columns)
        self._rows: dict[Row, int] = {}
        self._samples: dict[str, int] = {}
        self._reasons: dict[tuple[bool, Reason | None, str], int] = {}
        """Whether there is a value, and what is said of it."""

    def add(self, section: Section, scores: Iterable[Score]) -> None:
        """Append scores to a section."""
        columns = self._sections[section]
        for score in scores:
            row = self._rows.setdefault((score.protocol, score.method, score.metric), len(self._rows))
            said = (score.value is not None, score.reason, score.detail)
            columns.known_rows[row] = None
            columns.rows.append(row)
            columns.samples.append(self._samples.setdefault(score.sample_id, len(self._samples)))
            columns.turns.append(score.turn)
            columns.values.append(0.0 if score.value is None else score.value)
            columns.reasons.append(self._reasons.setdefault(said, len(self._reasons)))
            columns.presentations.append(score.n_presentations)
            columns.steps.append(-1 - score.steps if score.broken else score.steps)

    def __len__(self) -> int:
        return sum(len(columns.rows) for columns in self._sections.values())

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
        rows, samples, reasons = list(self._rows), list(self._samples), list(self._reasons)
        for columns in self._ordered:
            if only is not None and only not in columns.known_rows:
                continue
            for row, sample, turn, number, said, presentations, steps in columns:
                if only is not None and row != only:
                    continue
                has_value, reason, detail = reasons[said]
                protocol, method, metric = rows[row]
                value = number if has_value else None
                yield Score(
                    protocol,
                    method,
                    self._benchmark,
                    samples[sample],
                    turn,
                    metric,
                    value,
                    reason,
                    detail,
                    presentations,
                    -1 - steps if steps < 0 else steps,
                    steps < 0,
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
