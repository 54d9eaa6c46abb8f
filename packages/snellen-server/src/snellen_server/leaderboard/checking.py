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

MAX_REPLY_CHARACTERS = 100_000
MAX_ID_CHARACTERS = 300
MAX_OPTIONS = 200
ROWS_PER_BATCH = 2048


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
    read_rows = READERS_BY_SUFFIX[path.suffix]
    rows = []
    for number, row in enumerate(read_rows(path, limits, findings), 1):
        if number > limits.rows:
            raise DataError(f"the file has more than {limits.rows:,} rows, which is the limit")
        fault = _length_fault(row)
        if not fault and _has_lone_surrogate(row):
            fault = _LONE_SURROGATE_FAULT
        if fault:
            raise DataError(f"row {number}: {fault}")
        rows.append(row)
    return rows


def _length_fault(row: UploadedRow) -> str:
    """Return a message that names the part of an uploaded row that is too long, or "" if none is."""
    if len(row.reply or "") > MAX_REPLY_CHARACTERS:
        return f"the prediction has more than {MAX_REPLY_CHARACTERS:,} characters"
    if len(row.name) > MAX_ID_CHARACTERS or len(row.benchmark) > MAX_ID_CHARACTERS:
        return f"the id has more than {MAX_ID_CHARACTERS} characters"
    for values in (row.options, row.labels, row.scores):
        if values and len(values) > MAX_OPTIONS:
            return f"there are more than {MAX_OPTIONS} options"
    return ""


_LONE_SURROGATE_FAULT = (
    "a text contains half of a surrogate pair, which is not a character; remove it"
)


def _has_lone_surrogate(record: Any) -> bool:
    """Return whether a text in a record contains half of a surrogate pair, such as `\\ud83d` without its second half.

    Such a text cannot be encoded in UTF-8, so it cannot be stored or shown.
    """
    try:
        msgspec.json.encode(record)
    except UnicodeEncodeError:
        return True
    return False


def _read_jsonl(path: Path, limits: UploadLimits, notes: UploadFindings) -> Iterator[UploadedRow]:
    """Yield the rows of an upload of JSON lines, without empty lines; raises DataError that names a faulty line."""
    decoder = msgspec.json.Decoder(UploadedRow)
    with open_file(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if number == 1:
                line = line.removeprefix(BOM_UTF8)
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                fault = _lone_surrogate_fault(line)
                if not fault:
                    fault = f"{error}; a line is an object with id and prediction"
                raise DataError(f"line {number}: {fault}") from None


def _lone_surrogate_fault(line: bytes) -> str:
    """Return a message if a line contains half of a surrogate pair, which Python's parser accepts and msgspec rejects.

    The message is "" for any other line, also if it is not JSON.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return _LONE_SURROGATE_FAULT if _has_lone_surrogate(record) else ""


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
        for batch in file.iter_batches(ROWS_PER_BATCH, columns=columns):
            unpacked += batch.nbytes
            _check_unpacked_bytes(unpacked, limits)
            for row in batch.to_pylist():
                cells = {name: value for name, value in row.items() if value is not None}
                yield _uploaded_row(cells)
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
    return _uploaded_row(row)


def _uploaded_row(row: Mapping[str, Any]) -> UploadedRow:
    """Convert values by column name to an uploaded row; raises DataError for a value of the wrong type.

    A number may be given as text: the turn "2" becomes 2.
    """
    try:
        return msgspec.convert(row, UploadedRow, strict=False)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{error}; a row has id, prediction, and where it applies turn, options, scores"
        ) from None


def _check_unpacked_bytes(count: int, limits: UploadLimits) -> None:
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
FIRST_BYTES = {".parquet": b"PAR1", ".xlsx": b"PK\x03\x04"}
"""The first bytes of each file with one of these suffixes; a file of JSON lines may begin with any bytes."""


def upload_suffix(file_name: str, content: bytes) -> str:
    """Return the suffix of an uploaded file, such as ".jsonl".

    Raises DataError for a suffix that cannot be read, and for content that does not fit the suffix.
    """
    suffix = Path(file_name.replace("\\", "/")).suffix.lower()
    if suffix not in READERS_BY_SUFFIX:
        raise DataError(
            f"predictions must be {', '.join(READERS_BY_SUFFIX)}; save the file in one of these formats"
        )
    if not content.startswith(FIRST_BYTES.get(suffix, b"")):
        raise DataError(f"the file is called {suffix} and is none")
    return suffix


MAX_NAMES_PER_FAULT = 10

RoundOfSample = tuple[str, str, int]
"""One question: the name of its benchmark, the id of its sample, and its round in a dialogue, from 0."""


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
    """Counts faults or remarks by kind, and keeps the names of the first `MAX_NAMES_PER_FAULT` of each."""

    def __init__(self) -> None:
        self._named: dict[str, list[str]] = defaultdict(list)
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, name: str = "", count: int = 1) -> None:
        """Count a finding of this kind; the first few are kept by name, such as the row's id."""
        self._counts[kind] += count
        if name and len(self._named[kind]) < MAX_NAMES_PER_FAULT:
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
        The rows that fit, by benchmark and in the order of its questions; and the faults, which are rows that fit no
        question, and questions with too few or too many rows.
    """
    faults = UploadFindings()
    samples: dict[str, dict[str, Sample]] = {}
    for member in benchmarks:
        samples[member.name] = {sample.id: sample for sample in member.samples()}
    samples_by_index = {member.name: _samples_by_index(member) for member in benchmarks}
    only_benchmark = benchmarks[0].name if len(benchmarks) == 1 else ""
    placed: dict[RoundOfSample, list[PlacedRow]] = defaultdict(list)
    for number, row in enumerate(rows, 1):
        benchmark = row.benchmark or only_benchmark
        where = f"row {number}"
        if not row.name:
            faults.add("rows without an id", where)
            continue
        by_id = samples.get(benchmark)
        if by_id is None:
            faults.add("rows of no benchmark of this board (column benchmark)", where)
            continue
        name, order = _find_sample(row.name, by_id, samples_by_index[benchmark])
        sample = by_id.get(name)
        if sample is None:
            faults.add("unknown ids", row.name[:100])
            continue
        name_by_index, _ = _find_sample(row.index_name, by_id, samples_by_index[benchmark])
        if name_by_index not in ("", name):
            fault = "whose id and index name different questions"
        else:
            fault = _row_fault(row, sample)
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
            for turn in _round_indices(sample):
                place = (name, sample.id, turn)
                row_count = len(placed.get(place, ()))
                fault = _row_count_fault(row_count, presentations)
                if fault:
                    faults.add(fault, _question_name(place, only_benchmark))
        rows_by_benchmark[name] = tuple(_rows_in_order(placed, name, by_id))
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


def _samples_by_index(benchmark: Benchmark) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the sample that each row of a benchmark's official files is about.

    An official file may have several rows for a sample, each with its options in another order.

    Returns:
        For the index of each row, the id of the sample and the order of its options in that row.
    """
    samples_by_index = {}
    for sample_id, origin in benchmark.origins().items():
        for row in origin.rows:
            samples_by_index[row.index] = (sample_id, row.order)
    return samples_by_index


def _find_sample(
    name: str,
    samples: Mapping[str, Sample],
    samples_by_index: Mapping[str, tuple[str, tuple[int, ...]]],
) -> tuple[str, tuple[int, ...]]:
    """Find the sample that an uploaded row names by its id or by the index of a row of the official files.

    Args:
        name: The id or index.
        samples: The samples by id.
        samples_by_index: For each index, the id of the sample and the order of its options in that row.

    Returns:
        The id of the sample and the order of its options in the row of that index, which is () for an id. If there is no
        such sample, it is ("", ()).
    """
    if name in samples:
        return name, ()
    return samples_by_index.get(name, ("", ()))


def _round_indices(sample: Sample) -> range:
    """Return the indices of a sample's rounds: just 0 for a single question, 0, 1, 2, ... for a dialogue."""
    return range(len(sample.rounds))


def _row_fault(row: UploadedRow, sample: Sample) -> str:
    """Return why an uploaded row does not fit its sample, as a phrase that completes "rows ..."; "" if it fits.

    For example, the row of a dialogue that does not say to which round it belongs is "of a dialogue without the round
    (column turn)".
    """
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


def _rows_in_order(
    placed: Mapping[RoundOfSample, Sequence[PlacedRow]], name: str, samples: Mapping[str, Sample]
) -> Iterator[PlacedRow]:
    """Yield the rows of a benchmark in the order of its questions; the rows of a question are numbered 0, 1, 2, ...

    Args:
        placed: Rows by benchmark, sample and round.
        name: The benchmark.
        samples: Its samples by id, in the order of the benchmark.
    """
    for sample in samples.values():
        for turn in _round_indices(sample):
            rows = placed.get((name, sample.id, turn), ())
            for test, row in enumerate(rows):
                yield PlacedRow(row.row, row.sample, row.turn, row.order, row.wording, test)


def _question_name(place: RoundOfSample, only_benchmark: str) -> str:
    """Return the name of a question for messages, such as "mmbench/dev 17 round 2".

    Args:
        place: The question. Its round is only named if it is not the first one, 0.
        only_benchmark: The board's benchmark if it has a single one, which is then not named; otherwise "".
    """
    benchmark, sample, turn = place
    parts = [sample[:100]]
    if not only_benchmark:
        parts.insert(0, benchmark)
    if turn:
        parts.append(f"round {turn}")
    return " ".join(parts)


def protocol_of(rows: Sequence[PlacedRow], presentations: int) -> str:
    """Return the label of the protocol by which these predictions were made.

    Args:
        rows: The predictions of one benchmark.
        presentations: How often each question was asked.

    Returns:
        A protocol of log-likelihoods if the rows have scores; "vanilla" if they have one reply for each question; and a
        protocol of repeated questions, such as "instability?m=4", if they have several.

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
