"""Read an uploaded file of predictions, and match its rows with the questions of a board.

The file may be damaged or malicious, so it is read row by row under limits. Each question must have
its rows, and no row may belong to none. The hidden answers are not used here.

The columns are `id` (or `index`) of the sample, and `prediction`, the model's reply. Some files
also need:

- `benchmark`, if the board has several
- `turn`, the round of a dialogue, from 0
- `options`, the texts of the options in the order that was shown (in .xlsx the columns A, B, ...)
- `labels` of the options; capital letters by default
- `scores` in place of `prediction`: a log-likelihood in nats for each option shown

Other columns, such as right answers, are not read.
"""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from snellen import DataError, Sample, parse_protocol
from snellen.plugin_api import (
    Benchmark,
    PlacedRow,
    PredictedRow,
    open_file,
    places_of,
    read_sheet,
    regular_file,
)

LONGEST_REPLY = 100_000
LONGEST_ID = 300
MAX_OPTIONS = 200
BATCH = 2048


class UploadLimits(Struct, frozen=True):
    """The greatest number of rows, and of bytes after unpacking, that an upload may have."""

    rows: int
    unpacked_bytes: int


class UploadedRow(Struct, frozen=True):
    """A row of an uploaded file, before it is matched with a question."""

    id: str | int | None = None
    index: str | int | None = None
    benchmark: str = ""
    turn: int | None = None
    prediction: str | int | float | None = None
    options: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    scores: tuple[float, ...] | None = None

    @property
    def name(self) -> str:
        """Return the id, or else the index, of the sample that the row names; "" if it names none."""
        name = self.id if self.id is not None else self.index
        return "" if name is None else str(name).strip()

    @property
    def index_name(self) -> str:
        return "" if self.index is None else str(self.index).strip()

    @property
    def reply(self) -> str | None:
        return None if self.prediction is None else str(self.prediction)


def read_upload(path: Path, limits: UploadLimits, findings: UploadFindings) -> list[UploadedRow]:
    """Return the rows of an uploaded .jsonl, .parquet or .xlsx file.

    Args:
        path: The file.
        limits: The greatest number of rows, and of bytes after unpacking.
        findings: Receives what the submitter should know about the cells of the file.

    Raises:
        DataError: The file has too many rows; or a row is malformed, too long, or has a text that
            is not valid Unicode.
    """
    rows = []
    for number, row in enumerate(READERS_BY_SUFFIX[path.suffix](path, limits, findings), 1):
        if number > limits.rows:
            raise DataError(f"the file has more than {limits.rows:,} rows, which is the limit")
        if fault := _too_long(row) or (_HALF_PAIR if _has_half_pair(row) else ""):
            raise DataError(f"row {number}: {fault}")
        rows.append(row)
    return rows


def _too_long(row: UploadedRow) -> str:
    """Return a message that names the part of an uploaded row that is too long, or "" if none is."""
    if len(row.reply or "") > LONGEST_REPLY:
        return f"the prediction has more than {LONGEST_REPLY:,} characters"
    if len(row.name) > LONGEST_ID or len(row.benchmark) > LONGEST_ID:
        return f"the id has more than {LONGEST_ID} characters"
    for values in (row.options, row.labels, row.scores):
        if values and len(values) > MAX_OPTIONS:
            return f"there are more than {MAX_OPTIONS} options"
    return ""


_HALF_PAIR = "a text contains half of a surrogate pair, which is not a character; remove it"


def _has_half_pair(record: Any) -> bool:
    """Whether a text in it cannot be written, as `\\ud83d` alone cannot: the end of its pair is missing."""
    try:
        msgspec.json.encode(record)
    except UnicodeEncodeError:
        return True
    return False


def _read_jsonl(path: Path, limits: UploadLimits, notes: UploadFindings) -> Iterator[UploadedRow]:
    """Yield the rows of an upload of JSON lines; raises DataError that names the faulty line."""
    decoder = msgspec.json.Decoder(UploadedRow)
    with open_file(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield decoder.decode(line.removeprefix(BOM_UTF8) if number == 1 else line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    fault = (
                        _json_fault(line) or f"{error}; a line is an object with id and prediction"
                    )
                    raise DataError(f"line {number}: {fault}") from None


def _json_fault(line: bytes) -> str:
    """Return why a line that msgspec rejects is refused although it is JSON; "" if it is not JSON.

    The only such reason is half of a surrogate pair, which Python's own parser accepts.
    """
    try:
        return _HALF_PAIR if _has_half_pair(json.loads(line)) else ""
    except (ValueError, RecursionError):
        return ""


def _read_parquet(path: Path, limits: UploadLimits, notes: UploadFindings) -> Iterator[UploadedRow]:
    """Yield the rows of a Parquet upload, of known columns only; raises DataError if it is damaged or too large."""
    known_columns = UploadedRow.__struct_fields__
    try:
        file = pq.ParquetFile(
            regular_file(path),
            thrift_string_size_limit=1 << 24,
            thrift_container_size_limit=1 << 20,
        )
        facts = file.metadata
        if facts.num_rows > limits.rows:
            raise DataError(
                f"the file has {facts.num_rows:,} rows; at most {limits.rows:,} are allowed"
            )
        columns = [name for name in file.schema_arrow.names if name in known_columns]
        unpacked = 0
        for batch in file.iter_batches(BATCH, columns=columns):
            unpacked += batch.nbytes
            _check_unpacked(unpacked, limits)
            for row in batch.to_pylist():
                yield _converted({name: value for name, value in row.items() if value is not None})
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(f"cannot read the Parquet file ({reason})") from None


def _read_xlsx(path: Path, limits: UploadLimits, notes: UploadFindings) -> Iterator[UploadedRow]:
    """Yield the rows of an Excel upload, whose first line names the columns."""
    try:
        sheet = read_sheet(path, limits.unpacked_bytes)
    except DataError as error:
        raise DataError(str(error).removeprefix(f"{path}: ")) from None
    notes.add("cells with formulas, read as text", count=sheet.formulas)
    if not sheet.lines:
        return
    (_, header), *lines = sheet.lines
    names: dict[int, str] = {}
    for column, name in header.items():
        is_option = name in ascii_uppercase
        names[column] = name if is_option else name.strip().lower()
    for _, cells in lines:
        cells_by_name = {}
        for column, text in cells.items():
            if column in names:
                cells_by_name[names[column]] = text
        yield _table_row(cells_by_name)


def _table_row(cells: Mapping[str, str]) -> UploadedRow:
    """Convert the cells of a spreadsheet's row, by column name; the columns A, B, C, ... are its options."""
    row: dict[str, Any] = {}
    for name in ("benchmark", "turn"):
        if name in cells:
            row[name] = cells[name]
    for name in ("id", "index"):
        if name in cells:
            row[name] = cells[name].removesuffix(".0")  # spreadsheets write 7 as 7.0
    # A spreadsheet cannot distinguish an empty reply from a missing one, so an empty cell is an empty reply.
    row["prediction"] = cells.get("prediction", "")
    options = [cells[letter] for letter in ascii_uppercase if letter in cells]
    if options:
        row["options"] = options
    return _converted(row)


def _converted(row: Mapping[str, Any]) -> UploadedRow:
    """Check the types of a row's values, reading numbers from text; raises DataError for a value that does not fit."""
    try:
        return msgspec.convert(row, UploadedRow, strict=False)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{error}; a row has id, prediction, and where it applies turn, options, scores"
        ) from None


def _check_unpacked(count: int, limits: UploadLimits) -> None:
    """Raise DataError if a compressed file unpacks to more than the limit."""
    if count > limits.unpacked_bytes:
        raise DataError(
            f"the file unpacks to more than {limits.unpacked_bytes >> 20:,} MiB, the most that are read"
        )


READERS_BY_SUFFIX: dict[
    str, Callable[[Path, UploadLimits, UploadFindings], Iterator[UploadedRow]]
] = {
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
    ".xlsx": _read_xlsx,
}
MAGIC = {".parquet": b"PAR1", ".xlsx": b"PK\x03\x04"}
"""The first bytes of a file of each kind."""


def upload_suffix(file_name: str, content: bytes) -> str:
    """Return the suffix of an uploaded file, such as ".jsonl".

    Raises DataError for a suffix that cannot be read, and for content that does not fit the suffix.
    """
    suffix = Path(file_name.replace("\\", "/")).suffix.lower()
    if suffix not in READERS_BY_SUFFIX:
        raise DataError(
            f"predictions must be {', '.join(READERS_BY_SUFFIX)}; save the file in one of these formats"
        )
    if not content.startswith(MAGIC.get(suffix, b"")):
        raise DataError(f"the file is called {suffix} and is none")
    return suffix


MAX_NAMED = 10

Place = tuple[str, str, int]
"""Benchmark, sample and round."""


@dataclass(frozen=True)
class UploadFault:
    """One kind of fault, or of remark, about an upload.

    It has the number of rows, questions or cells concerned, and the names of the first of them.
    """

    kind: str
    count: int
    named: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The fault with its count and the first rows that have it, such as `unknown id: 3 (7, 9, ...)`."""
        sentence = f"{self.kind}: {self.count:,}"
        if self.named:
            more = ", ..." if self.count > len(self.named) else ""
            sentence += f" ({', '.join(self.named)}{more})"
        return sentence


class CheckedUpload(Struct, frozen=True):
    """The rows of an upload, matched with their questions and sorted by benchmark, and all faults.

    An upload with any fault is not scored.
    """

    rows: dict[str, tuple[PlacedRow, ...]]
    faults: tuple[UploadFault, ...]


class UploadFindings:
    """Counts faults or remarks by kind, and keeps the names of the first `MAX_NAMED` of each."""

    def __init__(self) -> None:
        self._named: dict[str, list[str]] = defaultdict(list)
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, name: str = "", count: int = 1) -> None:
        """Count a finding of this kind; the first few are kept by name, such as the row's id."""
        self._counts[kind] += count
        if name and len(self._named[kind]) < MAX_NAMED:
            self._named[kind].append(name)

    def all(self) -> tuple[UploadFault, ...]:
        """Return all kinds of findings that occurred, with their counts."""
        faults = []
        for kind, count in self._counts.items():
            if count:
                faults.append(UploadFault(kind, count, tuple(self._named[kind])))
        return tuple(faults)


def check_upload(
    rows: Sequence[UploadedRow],
    benchmarks: Sequence[Benchmark],
    presentations: int,
    notes: UploadFindings,
) -> CheckedUpload:
    """Match the rows of an upload with the questions of a board, and find what is wrong with the upload.

    Args:
        rows: The uploaded rows. Each names its question by an id or an index.
        benchmarks: The benchmarks of the board.
        presentations: Number of rows that each question has to have.
        notes: Receives what the submitter should know about values that are not read.

    Returns:
        The rows by benchmark, in the order of the questions, and the faults: rows that belong to no question or cannot
        be read, and questions with too few or too many rows.
    """
    faults = UploadFindings()
    samples: dict[str, dict[str, Sample]] = {}
    for member in benchmarks:
        samples[member.name] = {sample.id: sample for sample in member.samples()}
    indexes = {member.name: _indexes(member) for member in benchmarks}
    only = benchmarks[0].name if len(benchmarks) == 1 else ""
    placed: dict[Place, list[PlacedRow]] = defaultdict(list)
    for number, row in enumerate(rows, 1):
        benchmark = row.benchmark or only
        where = f"row {number}"
        if not row.name:
            faults.add("rows without an id", where)
            continue
        by_id = samples.get(benchmark)
        if by_id is None:
            faults.add("rows of no benchmark of this board (column benchmark)", where)
            continue
        name, order = _named(row.name, by_id, indexes[benchmark])
        sample = by_id.get(name)
        if sample is None:
            faults.add("unknown ids", row.name[:100])
            continue
        name_by_index, _ = _named(row.index_name, by_id, indexes[benchmark])
        if name_by_index not in ("", name):
            fault = "whose id and index name different questions"
        else:
            fault = _fault(row, sample)
        if fault:
            faults.add(f"rows {fault}", where)
            continue
        if row.scores is not None and row.reply:
            notes.add("rows with a prediction and scores, read by their scores", where)
        placed_row = _match_row(row, sample, where, order)
        placed[benchmark, sample.id, placed_row.turn].append(placed_row)

    rows_by_benchmark: dict[str, tuple[PlacedRow, ...]] = {}
    for name, by_id in samples.items():
        for sample in by_id.values():
            for turn in _rounds(sample):
                place = (name, sample.id, turn)
                fault = _row_count_fault(len(placed.get(place, ())), presentations)
                if fault:
                    faults.add(fault, _place_text(place, only))
        rows_by_benchmark[name] = tuple(_number_rows(placed, name, by_id))
    return CheckedUpload(rows_by_benchmark, faults.all())


def _row_count_fault(count: int, presentations: int) -> str:
    """Return the kind of fault of a question with too few or too many rows; "" if it has none.

    Args:
        count: Number of rows of the question.
        presentations: Number of rows that it must have.
    """
    if count == presentations:
        return ""
    if count == 0:
        return "missing questions"
    if count > presentations:
        return "duplicate questions"
    return "questions with too few rows"


def _indexes(benchmark: Benchmark) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the sample that each row of a benchmark's official files stands for.

    Returns:
        By the index of the row, the id of the sample and the order of its options in that row.
    """
    rows_by_index = {}
    for sample_id, origin in benchmark.origins().items():
        for row in origin.rows:
            rows_by_index[row.index] = (sample_id, row.order)
    return rows_by_index


def _named(
    name: str, samples: Mapping[str, Sample], indexes: Mapping[str, tuple[str, tuple[int, ...]]]
) -> tuple[str, tuple[int, ...]]:
    """Find the sample that an uploaded row names by its id or by the index of a row of the official files.

    Args:
        name: The id or index.
        samples: The samples by id.
        indexes: For each index, the id of the sample and the order of its options in that row.

    Returns:
        The id of the sample and the order of the options; ("", ()) if there is no such sample.
    """
    if name in samples:
        return name, ()
    return indexes.get(name, ("", ()))


def _rounds(sample: Sample) -> range:
    """Return the indices of a sample's rounds: of one question, or of several in a dialogue."""
    return range(len(sample.rounds))


def _fault(row: UploadedRow, sample: Sample) -> str:
    """Return why an uploaded row does not fit its sample, as a phrase that completes "rows ...", or "" if it does."""
    turn = row.turn or 0
    if not 0 <= turn < len(sample.rounds):
        return "with a round that their dialogue does not have"
    if row.turn is None and len(sample.rounds) > 1:
        return "of a dialogue without the round (column turn)"
    options = sample.rounds[turn].options
    if row.options:
        has_same_options = len(row.options) == len(options)
        if not has_same_options or places_of(row.options, options) is None:
            return "with options that differ from those of their question"
    if row.labels:
        if len(row.labels) != len(options) or len(set(row.labels)) < len(row.labels):
            return "whose labels are not one for each option"
        if not all(label.strip() for label in row.labels):
            return "with an empty label"
    if row.scores is None:
        if row.reply is None:
            return "without a prediction (an empty text where the model gave none)"
        return ""
    if not options:
        return "with scores, of an open question"
    if len(row.scores) != len(options):
        return "whose scores are not one for each option"
    if not all(math.isfinite(score) for score in row.scores):
        return "whose scores are not all numbers"
    return ""


def _match_row(
    row: UploadedRow, sample: Sample, where: str, file_order: tuple[int, ...]
) -> PlacedRow:
    """Match an uploaded row to the presentation of a sample: its question with the options in a certain order.

    Args:
        row: The uploaded row.
        sample: The sample that it names.
        where: The row in words, for messages.
        file_order: Order of the options in the row of the official file; () for the sample's own order. It applies if
            the uploaded row does not list its options.
    """
    turn = row.turn or 0
    options = sample.rounds[turn].options
    order = places_of(row.options, options) if row.options else file_order
    has_scores = row.scores is not None
    predicted = PredictedRow(
        where=where,
        id=sample.id,
        turn=turn if sample.turns else None,
        options=row.options or (),
        labels=row.labels or (),
        reply=None if has_scores else row.reply,
        scores=row.scores or (),
    )
    sample_order = tuple(range(len(options)))
    return PlacedRow(predicted, sample.id, turn, order or sample_order)


def _number_rows(
    placed: Mapping[Place, Sequence[PlacedRow]], name: str, samples: Mapping[str, Sample]
) -> Iterator[PlacedRow]:
    """Yield the rows of a benchmark in the order of its questions; the rows of a question are numbered 0, 1, 2, ...

    Args:
        placed: Rows by benchmark, sample and round.
        name: The benchmark.
        samples: Its samples by id, in the order of the benchmark.
    """
    for sample in samples.values():
        for turn in _rounds(sample):
            rows = placed.get((name, sample.id, turn), ())
            for test, row in enumerate(rows):
                yield PlacedRow(row.row, row.sample, row.turn, row.order, row.wording, test)


def _place_text(place: Place, only: str) -> str:
    """Return the name of a question for messages, such as "mmbench/dev 17 round 2".

    `only` is the board's benchmark if it has a single one, which is then not named.
    """
    benchmark, sample, turn = place
    parts = [sample[:100]]
    if not only:
        parts.insert(0, benchmark)
    if turn:
        parts.append(f"round {turn}")
    return " ".join(parts)


def protocol_of(rows: Sequence[PlacedRow], presentations: int) -> str:
    """Return the label of the protocol by which these predictions were made.

    Args:
        rows: The predictions of one benchmark.
        presentations: How often each question was asked.

    Raises:
        DataError: If some rows have replies and others scores.
    """
    methods = {row.row.method for row in rows}
    if len(methods) > 1:
        raise DataError("the file has replies and scores of one benchmark; submit one kind")
    if "likelihood" in methods:
        name = f"likelihood?m={presentations}"
    elif presentations > 1:
        name = f"instability?m={presentations}"
    else:
        name = "vanilla"
    return parse_protocol(name).label
