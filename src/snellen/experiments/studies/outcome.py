"""What a study found, and the files that it is written to."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.errors import DataError
from snellen.experiments.studies.declaration import StudySpec
from snellen.experiments.studies.series import StudyNumbers
from snellen.experiments.studies.statistic import StudyPart, StudyRow, flat_study_row
from snellen.formats.shown_text import short_name
from snellen.report.content import Block, ChartBlock, Head, Section, TableBlock
from snellen.report.document import offline_document
from snellen.report.markdown import escape, markdown_tables
from snellen.report.table import Table
from snellen.runs.journal import write_atomically

WHISKERS = (
    "A dot a cell; whiskers are 95% intervals, the dashed line is what guessing gives. Point at a mark for its numbers."
)
STUDY_FILES = ("study.html", "study.md", "results.csv", "results.json")
RUN_HEADER = ("model", "cell", "asked", "answered elsewhere", "errors", "folder or reason")


class StudyOutcome(Struct, frozen=True):
    """All that a study found."""

    study: StudySpec
    folder: Path
    numbers: StudyNumbers
    parts: Mapping[str, StudyPart]
    """By the title of each statistic."""
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[StudyRow]:
        return [row for part in self.parts.values() for row in part.rows]

    def runs_table(self) -> Table:
        """What was asked in each cell, and where it is kept."""
        rows = []
        for cell in self.numbers.cells:
            if cell.run is None:
                rows.append((cell.model, cell.spec.label or "all", 0, 0, 0, cell.why))
                continue
            errors = sum(p.error is not None for scored in cell.run.benchmarks for p in scored.predictions)
            label = cell.spec.label or "all"
            rows.append((cell.model, label, cell.run.asked, cell.run.reused, errors, cell.run.folder.name))
        return Table(f"{len(rows)} cells", RUN_HEADER, tuple(rows), label_columns=2)


def write_study(outcome: StudyOutcome, path: Path) -> Path:
    """Write a study as `.html` (one page that opens offline), `.md`, `.csv` or `.json`.

    Raises DataError for another suffix, StoreError when the file cannot be written.
    """
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise DataError(f"{path}: a study is written as one of {', '.join(_FORMS)}; choose one of these suffixes")
    write_atomically(path, form(outcome).encode("utf-8", "replace"))
    return path


def _page(outcome: StudyOutcome) -> str:
    sections = [Section(f"part-{number}", *part) for number, part in enumerate(_parts(outcome))]
    head = Head(f"Snellen study · {outcome.study.name}", (outcome.study.title,), lines=tuple(_facts(outcome)))
    runs = Section("runs", "Runs", (TableBlock(outcome.runs_table()),))
    return offline_document(f"Snellen study: {outcome.study.title}", head, [*sections, runs])


def _parts(outcome: StudyOutcome) -> Iterator[tuple[str, tuple[Block, ...]]]:
    """The title of each statistic and what is shown of it."""
    models = tuple(outcome.numbers.models)
    for title, part in outcome.parts.items():
        charts = [ChartBlock(tuple(part.charts), WHISKERS, models)] if part.charts else []
        yield title, (*charts, *map(TableBlock, part.tables))


def _facts(outcome: StudyOutcome) -> list[str]:
    return [*filter(None, (outcome.study.about,)), *outcome.study.notes, *outcome.notes]


def _markdown(outcome: StudyOutcome) -> str:
    lines = [f"# {escape(outcome.study.title)}", ""]
    for fact in _facts(outcome):
        lines += [escape(fact), ""]
    for title, part in outcome.parts.items():
        lines += [f"## {title}", "", *markdown_tables(part.tables, 3)]
    return "\n".join([*lines, "## Runs", "", *markdown_tables([outcome.runs_table()], 3)])


def _csv(outcome: StudyOutcome) -> str:
    rows: Sequence[dict[str, object]] = [flat_study_row(row) for row in outcome.rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: short_name(x) if isinstance(x, str) else x for name, x in row.items()} for row in rows)
    return text.getvalue()


def _json(outcome: StudyOutcome) -> str:
    return json.dumps([flat_study_row(row) for row in outcome.rows], indent=1, ensure_ascii=False) + "\n"


_FORMS: dict[str, Callable[[StudyOutcome], str]] = {".html": _page, ".md": _markdown, ".csv": _csv, ".json": _json}
