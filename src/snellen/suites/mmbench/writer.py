"""Files of MMBench's form written from a built benchmark: what it was built from, or its rotations made.

A run as the file that an evaluation server scores has one row per rotation, as in the official file.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from snellen.building.benchmark import Benchmark
from snellen.callers import for_caller, setting
from snellen.catalogue.suites import SubmissionWriter, TableForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, TABLES
from snellen.formats.text_table import replacing_atomically, write_text_table
from snellen.protocols.base import Protocol, declaration_of, parse_protocol
from snellen.protocols.prediction import predict
from snellen.records import Exchange, RowRef, Sample
from snellen.registry import unknown_name
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import BenchmarkUse, RunManifest, read_manifest
from snellen.scoring.answers import open_answers
from snellen.scoring.journal_reading import with_conclusions
from snellen.suites.mmbench.reader import recognises
from snellen.suites.mmbench.survey import (
    MAX_REFERENCE_LENGTH,
    ROTATION_STEP,
    base_index,
    normal_index,
)

QuestionRows = Sequence[tuple[Sample, tuple[RowRef, ...]]]
"""The questions in order, each with the rows that show it, its base row first."""


def write_file(
    benchmark: Benchmark, path: Path, golds: Mapping[str, int], *, rotated: bool = True
) -> int:
    """Write all questions as rows of MMBench's form, and return how many rows that are.

    Rows have the indexes and orders of the file that the benchmark was built from, where it was of this form;
    else the published ones: rotations to the right, a million added to the index for each. `golds` are
    the correct options by sample; with none of them the file has no column `answer`. Without `rotated` only base
    rows are written. An image stands once, in the first row that shows it; others refer to that one.

    Raises DataError for a benchmark that the form cannot hold: open questions, dialogues, more than 26
    options, no image. The file appears whole or not at all.
    """
    origins = benchmark.origins()
    samples = {sample.id: _checked(sample) for sample in benchmark.samples()}
    order = origins if origins.keys() == samples.keys() else samples
    question_rows = list(
        row_refs(
            [samples[name] for name in order],
            {n: origin.rows for n, origin in origins.items()},
            rotated,
        )
    )
    pictures, images = (
        ImageCells(),
        {image.digest: image for sample in samples.values() for image in sample.images},
    )
    columns = columns_of(question_rows, hidden=not golds)
    with writing_table(path, columns) as table:
        for sample, row in rows_by_pass(question_rows):
            origin = origins.get(sample.id)
            cells = {
                **(origin.cells if origin else {}),
                **cells_of(sample, row, golds.get(sample.id)),
            }
            digests = tuple(image.digest for image in sample.images)
            cells["image"] = pictures.cell(
                row.index, digests, lambda digest: benchmark.images.read(images[digest])
            )
            table(cells)
    return sum(len(rows) for _, rows in question_rows)


def row_refs(
    samples: Sequence[Sample], origin_rows: Mapping[str, tuple[RowRef, ...]], rotated: bool
) -> Iterator[tuple[Sample, tuple[RowRef, ...]]]:
    """Yield the rows of each question: those it was built from, else all rotations to the right."""
    name = _naming([sample.id for sample in samples if sample.id not in origin_rows])
    for sample in samples:
        count = len(sample.options)
        rows = origin_rows.get(sample.id) or tuple(
            RowRef(name(sample.id, turn), tuple((place - turn) % count for place in range(count)))
            for turn in range(count)
        )
        yield sample, rows if rotated else rows[:1]


def rows_by_pass(question_rows: QuestionRows) -> Iterator[tuple[Sample, RowRef]]:
    """Yield all rows: first the base row of each question, then the second row of each, and so on."""
    for number in range(max((len(rows) for _, rows in question_rows), default=0)):
        yield from ((sample, rows[number]) for sample, rows in question_rows if number < len(rows))


def _naming(ids: Iterable[str]) -> Callable[[str, int], str]:
    """Return a function that names a rotation of a question, from the question's id and the number of the rotation."""
    ids = list(ids)
    if not all(name.isdecimal() for name in ids):
        return lambda name, turn: f"{name}__{turn}" if turn else name
    step, largest = ROTATION_STEP, max(map(int, ids), default=0)
    while step <= largest:
        step *= 10
    return lambda name, turn: str(int(name) + turn * step)


def columns_of(question_rows: QuestionRows, hidden: bool) -> list[str]:
    """Return the columns of a file with these rows."""
    options = LETTERS[: max((len(sample.options) for sample, _ in question_rows), default=2)]
    # Whoever reads the file must not take rotations for questions, nor an only row for a lost group.
    grouped = any(
        base_index(row.index, "", grouped=False) != sample.id
        or sample.tags.get("rotations") == "single-pass"
        for sample, rows in question_rows
        for row in rows
    )
    return [
        "index",
        *(["g_index"] if grouped else []),
        "question",
        "hint",
        *options,
        *([] if hidden else ["answer"]),
        "category",
        "image",
        "source",
        "l2-category",
        "comment",
        "split",
    ]


def cells_of(sample: Sample, row: RowRef, gold: int | None) -> dict[str, str]:
    """Return the cells of a row but its image."""
    return {
        "index": row.index,
        "g_index": sample.id,
        "question": sample.question,
        "hint": sample.context or "",
        **{
            letter: sample.options[option]
            for letter, option in zip(LETTERS, row.order, strict=False)
        },
        "answer": "" if gold is None else LETTERS[row.order.index(gold)],
        "category": sample.tags.get("l3", ""),
        "l2-category": sample.tags.get("l2", ""),
        "source": sample.tags.get("source", ""),
        "split": sample.tags.get("split", ""),
    }


def _checked(sample: Sample) -> Sample:
    fault = ""
    if sample.formulation != "choice":
        fault = "is not multiple choice"
    elif len(sample.options) > len(LETTERS):
        fault = f"has {len(sample.options)} options, over the {len(LETTERS)} that have letters"
    elif not sample.images:
        fault = "has no image"
    elif normal_index(sample.id) != sample.id:
        fault = f"would be read again as {normal_index(sample.id)!r}"
    if fault:
        raise DataError(
            f"{sample.benchmark}: sample {sample.id!r} {fault}; MMBench's form cannot hold it"
        )
    return sample


class ImageCells:
    """Image cells: base64 the first time that an image (or a row of them) is shown, then a reference."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, ...], str] = {}

    def cell(self, index: str, digests: tuple[str, ...], read_image: Callable[[str], bytes]) -> str:
        """Return the cell of the row `index`; `read_image` gives the bytes of an image by its digest."""
        if (holder := self._holders.get(digests)) and len(holder) <= MAX_REFERENCE_LENGTH:
            return holder
        self._holders.setdefault(digests, index)
        cells = [base64.b64encode(read_image(digest)).decode() for digest in digests]
        # A very small image would be taken for a reference.
        return (
            cells[0]
            if len(cells) == 1 and len(cells[0]) > MAX_REFERENCE_LENGTH
            else json.dumps(cells)
        )


@contextmanager
def writing_table(
    path: Path, columns: Sequence[str]
) -> Iterator[Callable[[Mapping[str, str]], object]]:
    """Yields a function that writes one row; the file appears under its name when the block ends without an error.

    Raises DataError where it cannot be written.
    """
    if path.suffix.lower() not in TABLES:
        raise DataError(
            f"{path}: the name of a file of MMBench's form ends with {' or '.join(TABLES)}"
        )
    with replacing_atomically(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        # All cells in quotes: a lone carriage return would else end a row.
        table = csv.writer(
            file, delimiter=TABLES[path.suffix.lower()], quoting=csv.QUOTE_ALL, lineterminator="\n"
        )
        table.writerow(columns)
        yield lambda cells: table.writerow([cells.get(column, "") for column in columns])


# --- a user's own tables of MMBench's form ----------------------------------------------------------------------------


TABLE_FORM = TableForm(
    title="MMBench's form",
    reader="mmbench",
    recognises=recognises,
    notice="circular copies as one question; with a column id for index, each row would be one",
    page="docs/mmbench.md",
)


def write_mmbench(
    benchmark: Benchmark, path: str | Path, *, answers: bool = True, rotated: bool = True
) -> int:
    """Write a benchmark of choices as a file of MMBench's form (.tsv or .csv), and return how many rows it has.

    All rotations stand in it, or with `rotated` off the base rows; `answers` off leaves the column out.
    Raises DataError for a benchmark that the form cannot hold.
    """
    by_round = open_answers(benchmark.folder) if answers else {}
    golds = {
        name: answer.options[0]
        for (name, _), answer in by_round.items()
        if len(answer.options) == 1
    }
    if len(golds) < len(by_round):
        raise DataError(
            f"{benchmark.name}: some questions have several correct options; MMBench's form holds one"
        )
    return write_file(benchmark, Path(path), golds, rotated=rotated)


ALL_PASSES = "circular?all_passes=true"
Order = tuple[int, ...]
RowReply = str | int
"""What was replied, or under likelihood which option is the most likely."""


class SubmissionSummary(Struct, frozen=True):
    """What a file holds, and what it does not."""

    benchmark: str
    protocol: str
    rows: int
    never: tuple[str, ...]
    """Indexes of rows that were never asked."""
    failed: tuple[str, ...]
    """Indexes of rows whose request failed."""
    empty: int
    """Rows whose reply is empty."""
    stopped_early: bool = False
    """Whether the protocol leaves out requests by what was replied."""

    @property
    def missing(self) -> str:
        """What is left out and how to ask for it; empty when nothing is."""
        total = self.rows + len(self.never) + len(self.failed)
        reasons = []
        if self.never:
            cause = (
                ", as CircularEval ends a question that has failed" if self.stopped_early else ""
            )
            settings = for_caller(
                f"-p '{ALL_PASSES}' and the --name", f"protocols={ALL_PASSES!r} and the name"
            )
            reasons.append(
                f"{len(self.never):,} of {total:,} rows were never asked{cause} ({_first_indexes(self.never)}): run the same "
                f"model again with {settings} of this run, which asks for these alone"
            )
        if self.failed:
            reasons.append(
                f"{len(self.failed):,} requests failed ({_first_indexes(self.failed)}): the same run asks them again"
            )
        return "; ".join(reasons)


def _first_indexes(indexes: Sequence[str]) -> str:
    return ", ".join(indexes[:3]) + (", ..." if len(indexes) > 3 else "")


def write_submission(
    folder: Path, path: Path, *, benchmark: str = "", protocol: str = "", partial: bool = False
) -> SubmissionSummary:
    """Write the replies of a run to one benchmark as MMBench's evaluation server expects them.

    There are all columns of the official file but the images, the answers left empty, and `prediction`. The form is
    that of the suffix: .xlsx, .tsv, .csv, .json or .jsonl; what is written is read again and compared.

    Raises DataError when rows are missing (unless `partial`), for a text that the form cannot hold and for a
    benchmark without options; UnknownNameError for a benchmark or protocol that the run does not have.
    """
    manifest = read_manifest(folder)
    use = _use(manifest, benchmark)
    opened = reopen_benchmark(use, folder)
    samples = {sample.id: _checked_submission(sample) for sample in opened.samples()}
    label = _label(use.protocols or manifest.protocols, protocol, samples.values())
    protocol_asked = parse_protocol(label)
    replies, failed = _replies(
        with_conclusions(read_exchanges(folder), [label], {use.name: samples}),
        protocol_asked,
        use.name,
        samples,
    )
    origins = opened.origins()
    ids = origins if origins.keys() == samples.keys() else samples
    rows_of = {name: origin.rows for name, origin in origins.items()}
    question_rows = list(row_refs([samples[name] for name in ids], rows_of, rotated=True))
    rows: list[dict[str, str]] = []
    never: list[str] = []
    failed_rows: list[str] = []
    for sample, row in rows_by_pass(question_rows):
        reply = _reply_of(replies, sample, row)
        if reply is None:
            (failed_rows if (sample.id, row.order) in failed else never).append(row.index)
            continue
        source_cells = origins[sample.id].cells if sample.id in origins else {}
        rows.append({**source_cells, **cells_of(sample, row, None), "prediction": reply})
    empty = sum(not row["prediction"] for row in rows)
    summary = SubmissionSummary(
        use.name,
        label,
        len(rows),
        tuple(never),
        tuple(failed_rows),
        empty,
        declaration_of(protocol_asked).stops_early,
    )
    if summary.missing and not partial:
        raise DataError(
            f"{path} is not written: {summary.missing}; {setting('partial', True)} writes what there is"
        )
    columns = [name for name in columns_of(question_rows, hidden=False) if name != "image"]
    write_text_table(path, [*columns, "prediction"], rows)
    return summary


def _use(manifest: RunManifest, name: str) -> BenchmarkUse:
    uses = {use.name: use for use in manifest.benchmarks}
    if name not in uses and (name or len(uses) > 1):
        if name:
            raise unknown_name("benchmark", name, uses)
        raise DataError(
            f"the run has {len(uses)} benchmarks; name one with {setting('benchmark')}: {', '.join(uses)}"
        )
    return uses[name] if name else manifest.benchmarks[0]


def _label(labels: Sequence[str], requested: str, samples: Collection[Sample]) -> str:
    """Return the protocol whose replies are written: the requested one, or the one with the most rotations."""
    fit = {
        label: parse_protocol(label) for label in labels if _fits(parse_protocol(label), samples)
    }
    if requested:
        requested = parse_protocol(requested).label
        if requested not in fit:
            raise unknown_name("protocol with one reply a row", requested, fit)
        return requested
    if not fit:
        raise DataError(
            f"no protocol of the run gives one reply a row: {', '.join(labels)}; run it with {ALL_PASSES}"
        )
    return max(fit, key=lambda label: _preference(fit[label]))


def _fits(protocol: Protocol, samples: Collection[Sample]) -> bool:
    """Return whether the protocol gives one reply for each row, which is a rotation or a question."""
    declared = declaration_of(protocol)
    once = declared.circular or (declared.presentations == 1 and not declared.baselines)
    return once and all(map(protocol.applies, samples))


def _preference(protocol: Protocol) -> tuple[bool, bool, int]:
    """Return the key by which protocols are preferred: replies of the model alone come before those that were helped."""
    declared = declaration_of(protocol)
    return (
        protocol.method == "generation",
        not declared.roles,
        declared.circular * (1 + (not declared.stops_early)),
    )


def _checked_submission(sample: Sample) -> Sample:
    if sample.formulation != "choice" or len(sample.options) > len(LETTERS):
        raise DataError(
            f"{sample.benchmark}: sample {sample.id!r} has no options A to Z; MMBench's form cannot hold it"
        )
    return sample


def _replies(
    exchanges: Iterable[Exchange], protocol: Protocol, benchmark: str, samples: Mapping[str, Sample]
) -> tuple[dict[tuple[str, Order], RowReply], set[tuple[str, Order]]]:
    """Return the replies by sample and order (an empty order fits any), and the requests that failed."""
    replies: dict[tuple[str, Order], RowReply] = {}
    failed: set[tuple[str, Order]] = set()
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        if (exchange.protocol, request.benchmark) != (
            protocol.label,
            benchmark,
        ) or request.sample_id not in samples:
            continue
        key = request.sample_id, request.variant.order
        if response.error is not None:
            failed.add(key)
        elif protocol.method == "generation":
            replies[key] = response.text or ""
        else:
            turn = samples[request.sample_id].rounds[0]
            choice = predict(protocol.label, turn, request, response).choice
            replies[key] = "" if choice is None else choice
    return replies, failed


def _reply_of(
    replies: Mapping[tuple[str, Order], RowReply], sample: Sample, row: RowRef
) -> str | None:
    """Return the text of a row; None for a reply that never came."""
    reply = replies.get((sample.id, row.order))
    if reply is None:
        reply = replies.get((sample.id, ()))
    return LETTERS[row.order.index(reply)] if isinstance(reply, int) else reply


SUBMISSION_FORM: SubmissionWriter = write_submission
