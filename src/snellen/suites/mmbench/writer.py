"""Write files of MMBench's form: the questions of a benchmark, or the replies of a run for an evaluation server.

In this form, a question has a base row and further rows that show its options in other orders. These rows are called
its rotations.
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
from snellen.building.kept_sources import check_overwrites_no_source
from snellen.callers import for_caller, setting
from snellen.catalogue.suites import SubmissionWriter, TableForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, TABLES
from snellen.formats.text_table import replacing_atomically, write_text_table
from snellen.protocols.base import Protocol, declaration_of, parse_protocol
from snellen.protocols.prediction import predict
from snellen.records import Exchange, ImageRef, RowRef, Sample, SourceRows
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
"""The questions in order, each with its rows, the base row first."""


def write_file(
    benchmark: Benchmark, path: Path, golds: Mapping[str, int], *, rotated: bool = True
) -> int:
    """Write all questions of a benchmark as a file in MMBench's format.

    A question has one row for each order of its options that it is asked in. If the benchmark was built from a file
    of this format, rows have the indices and orders of that file. Otherwise the orders are all rotations, and their
    indices are 7, 1000007, 2000007 and so on (`_index_rule`). Each image is written once, in the first row that
    shows it; later rows have the index of that row in its place.

    Args:
        benchmark: The benchmark.
        path: The file. It appears under this name only when it is complete.
        golds: Index of the correct option of each sample. If it is empty, the file has no column `answer`.
        rotated: Whether to write a row for each order; otherwise only the first.

    Returns:
        The number of rows.

    Raises:
        DataError: The format cannot express the benchmark: it has open questions, dialogues, more than 26 options,
            or a question without an image.
    """
    origins = benchmark.origins()
    samples = {sample.id: _checked(sample) for sample in benchmark.samples()}
    question_rows = _question_rows(samples, origins, rotated=rotated)
    images: dict[str, ImageRef] = {}
    for sample in samples.values():
        for image in sample.images:
            images[image.digest] = image

    def read_image(digest: str) -> bytes:
        return benchmark.images.read(images[digest])

    image_cells = ImageCells()
    columns = columns_of(question_rows, hidden=not golds)
    n_rows = 0
    with writing_table(path, columns) as write_row:
        for sample, row in rows_by_pass(question_rows):
            cells: dict[str, str] = {}
            if sample.id in origins:
                cells.update(origins[sample.id].cells)
            cells.update(cells_of(sample, row, golds.get(sample.id)))
            digests = tuple(image.digest for image in sample.images)
            cells["image"] = image_cells.cell(row.index, digests, read_image)
            write_row(cells)
            n_rows += 1
    return n_rows


def _question_rows(
    samples: Mapping[str, Sample], origins: Mapping[str, SourceRows], *, rotated: bool
) -> list[tuple[Sample, tuple[RowRef, ...]]]:
    """Return each question with its rows.

    The questions are in the order of the file that the benchmark was built from. If some of them do not come from a
    file, they are in the order of the benchmark.
    """
    all_come_from_file = origins.keys() == samples.keys()
    ordered_ids = origins if all_come_from_file else samples
    in_order = [samples[sample_id] for sample_id in ordered_ids]
    origin_rows = {sample_id: origin.rows for sample_id, origin in origins.items()}
    return list(row_refs(in_order, origin_rows, rotated))


def row_refs(
    samples: Sequence[Sample], origin_rows: Mapping[str, tuple[RowRef, ...]], rotated: bool
) -> Iterator[tuple[Sample, tuple[RowRef, ...]]]:
    """Yield each question with its rows. A row is an index, and the order in which it shows the options.

    Args:
        samples: The questions.
        origin_rows: For each question that was built from a file of MMBench's format, its rows in that file. A
            question that was not gets a row for each rotation of its options, for example (0, 1, 2), (2, 0, 1) and
            (1, 2, 0).
        rotated: Whether to yield all rows of a question; otherwise only the first, its base row.
    """
    ids_without_rows = [sample.id for sample in samples if sample.id not in origin_rows]
    index_of_rotation = _index_rule(ids_without_rows)
    for sample in samples:
        rows = origin_rows.get(sample.id)
        if not rows:
            count = len(sample.options)
            new_rows = []
            for turn in range(count):
                order = tuple((position - turn) % count for position in range(count))
                new_rows.append(RowRef(index_of_rotation(sample.id, turn), order))
            rows = tuple(new_rows)
        yield sample, rows if rotated else rows[:1]


def rows_by_pass(question_rows: QuestionRows) -> Iterator[tuple[Sample, RowRef]]:
    """Yield all rows with their questions: first the base row of each question, then the second row of each, ..."""
    most_rows = max((len(rows) for _, rows in question_rows), default=0)
    for number in range(most_rows):
        for sample, rows in question_rows:
            if number < len(rows):
                yield sample, rows[number]


def _index_rule(ids: Sequence[str]) -> Callable[[str, int], str]:
    """Return a function that gives the index of a rotation, from the id of its question and the number of the rotation.

    If all ids are numbers, a million is added for each rotation, or a larger power of ten if an id is larger: rotation 2
    of question 7 is 2000007. Otherwise the number is appended: `cat__2`. Rotation 0 has the id of the question.
    """

    def with_suffix(sample_id: str, turn: int) -> str:
        return f"{sample_id}__{turn}" if turn else sample_id

    if not all(sample_id.isdecimal() for sample_id in ids):
        return with_suffix

    largest = max((int(sample_id) for sample_id in ids), default=0)
    step = ROTATION_STEP
    while step <= largest:
        step *= 10

    def with_step(sample_id: str, turn: int) -> str:
        return str(int(sample_id) + turn * step)

    return with_step


def columns_of(question_rows: QuestionRows, hidden: bool) -> list[str]:
    """Return the columns of a file with these rows; without `answer` if the answers are `hidden`."""
    most_options = max((len(sample.options) for sample, _ in question_rows), default=2)
    columns = ["index"]
    if _needs_groups(question_rows):
        columns.append("g_index")
    columns += ["question", "hint", *LETTERS[:most_options]]
    if not hidden:
        columns.append("answer")
    columns += ["category", "image", "source", "l2-category", "comment", "split"]
    return columns


def _needs_groups(question_rows: QuestionRows) -> bool:
    """Return whether a file with these rows needs the column `g_index`, which names the base row of each row.

    It does if the index of a row does not tell its base row, as `cat__2` does not. It also does if a question has a
    single row on purpose; without the column, a reader would take its other rotations to be missing.
    """
    for sample, rows in question_rows:
        if rows and sample.tags.get("rotations") == "single-pass":
            return True
        for row in rows:
            if base_index(row.index, "", grouped=False) != sample.id:
                return True
    return False


def cells_of(sample: Sample, row: RowRef, gold: int | None) -> dict[str, str]:
    """Return the cells of a row by column, except for the image.

    Args:
        sample: The question.
        row: The index of the row, and the order in which it shows the options.
        gold: Index of the correct option of the sample; None to leave the cell `answer` empty. The cell has the
            letter under which this row shows the option.
    """
    cells = {
        "index": row.index,
        "g_index": sample.id,
        "question": sample.question,
        "hint": sample.context or "",
    }
    for letter, option in zip(LETTERS, row.order, strict=False):
        cells[letter] = sample.options[option]
    cells["answer"] = ""
    if gold is not None:
        cells["answer"] = LETTERS[row.order.index(gold)]
    cells["category"] = sample.tags.get("l3", "")
    cells["l2-category"] = sample.tags.get("l2", "")
    cells["source"] = sample.tags.get("source", "")
    cells["split"] = sample.tags.get("split", "")
    return cells


def _checked(sample: Sample) -> Sample:
    """Return a sample unchanged if MMBench's format can express it; otherwise raise DataError."""
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
    """The cells of the column `image`: base64 text where an image is shown first, then the index of that row."""

    def __init__(self) -> None:
        self._first_rows: dict[tuple[str, ...], str] = {}
        """Index of the row that contains these images, by their digests."""

    def cell(self, index: str, digests: tuple[str, ...], read_image: Callable[[str], bytes]) -> str:
        """Return the image cell of a row.

        Args:
            index: Index of the row.
            digests: Digests of its images.
            read_image: Function that returns the content of an image by its digest.

        Returns:
            The index of an earlier row with the same images; or the image as base64 text; or a JSON list of such texts if
            there are several images.
        """
        first_row = self._first_rows.get(digests)
        if first_row and len(first_row) <= MAX_REFERENCE_LENGTH:
            return first_row
        self._first_rows.setdefault(digests, index)
        texts = [base64.b64encode(read_image(digest)).decode() for digest in digests]
        # The text of a very small image would be read as the index of another row, so it is written as a list, too.
        if len(texts) == 1 and len(texts[0]) > MAX_REFERENCE_LENGTH:
            return texts[0]
        return json.dumps(texts)


@contextmanager
def writing_table(
    path: Path, columns: Sequence[str]
) -> Iterator[Callable[[Mapping[str, str]], object]]:
    """Write a table of MMBench's form: yields a function that writes one row, given its cells by column.

    The file appears under its name when the block ends without an error.

    Raises:
        DataError: If the suffix is neither .tsv nor .csv, or the file cannot be written.
    """
    if path.suffix.lower() not in TABLES:
        raise DataError(
            f"{path}: the name of a file of MMBench's form ends with {' or '.join(TABLES)}"
        )
    with replacing_atomically(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        # All cells are in quotes, because a lone carriage return would otherwise end a row.
        table = csv.writer(
            file, delimiter=TABLES[path.suffix.lower()], quoting=csv.QUOTE_ALL, lineterminator="\n"
        )
        table.writerow(columns)

        def write_row(cells: Mapping[str, str]) -> None:
            table.writerow([cells.get(column, "") for column in columns])

        yield write_row


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
    """Write a multiple-choice benchmark as a file of MMBench's form, which other tools read.

    Args:
        benchmark: The benchmark.
        path: The file: .tsv or .csv.
        answers: Whether the file has the correct answers.
        rotated: Whether each question is written with its options in all rotations; otherwise once.

    Returns:
        The number of rows.

    Raises:
        DataError: If the form cannot hold the benchmark.
    """
    golds: dict[str, int] = {}
    if answers:
        for (sample_id, _), answer in open_answers(benchmark.folder).items():
            if len(answer.options) != 1:
                raise DataError(
                    f"{benchmark.name}: some questions have several correct options; MMBench's form holds one"
                )
            golds[sample_id] = answer.options[0]
    return write_file(benchmark, Path(path), golds, rotated=rotated)


ALL_PASSES = "circular?all_passes=true"
Order = tuple[int, ...]
"""The order in which options are shown, as indices of the sample's options."""
RowReply = str | int
"""The text of a reply, or for the method likelihood the index of the most likely option."""


class SubmissionSummary(Struct, frozen=True):
    """Which rows a file of replies contains, and which are missing."""

    benchmark: str
    protocol: str
    rows: int
    """Number of written rows."""
    never: tuple[str, ...]
    """Indices of rows without a request."""
    failed: tuple[str, ...]
    """Indices of rows whose request failed."""
    empty: int
    """Number of written rows whose reply is empty."""
    stopped_early: bool = False
    """Whether the protocol skips further requests of a question, depending on its replies."""

    @property
    def missing(self) -> str:
        """A sentence with the rows that are missing and how to get them; "" if the file is complete."""
        total = self.rows + len(self.never) + len(self.failed)
        reasons = []
        if self.never:
            cause = ""
            if self.stopped_early:
                cause = ", as CircularEval ends a question that has failed"
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
    """Return the first three indices as text, with dots if there are more."""
    text = ", ".join(indexes[:3])
    if len(indexes) > 3:
        text += ", ..."
    return text


def write_submission(
    folder: Path, path: Path, *, benchmark: str = "", protocol: str = "", partial: bool = False
) -> SubmissionSummary:
    """Write the replies of a run as MMBench's evaluation server expects them.

    The file has all columns of the official file except the images, with empty answers, and a column `prediction`. It
    is read again and compared after it was written.

    Args:
        folder: Folder of the run.
        path: The file: .xlsx, .tsv, .csv, .json or .jsonl.
        benchmark: The benchmark; may be empty if the run has a single one.
        protocol: The protocol whose replies are written; by default the one with the most rotations.
        partial: Whether the file is also written if rows are missing.

    Raises:
        DataError: If rows are missing, a text does not fit the form, or the benchmark has no options.
        UnknownNameError: If the run has no such benchmark or protocol.
    """
    manifest = read_manifest(folder)
    use = _use(manifest, benchmark)
    opened = reopen_benchmark(use, folder)
    samples = {sample.id: _checked_submission(sample) for sample in opened.samples()}
    label = _written_protocol(use.protocols or manifest.protocols, protocol, samples.values())
    chosen_protocol = parse_protocol(label)
    exchanges = with_conclusions(read_exchanges(folder), [label], {use.name: samples})
    replies, failed = _replies(exchanges, chosen_protocol, use.name, samples)

    origins = opened.origins()
    question_rows = _question_rows(samples, origins, rotated=True)
    rows: list[dict[str, str]] = []
    unasked_rows: list[str] = []
    failed_rows: list[str] = []
    empty_count = 0
    for sample, row in rows_by_pass(question_rows):
        reply = _reply_of(replies, sample, row)
        if reply is None:
            if (sample.id, row.order) in failed:
                failed_rows.append(row.index)
            else:
                unasked_rows.append(row.index)
            continue
        if not reply:
            empty_count += 1
        cells: dict[str, str] = {}
        if sample.id in origins:
            cells.update(origins[sample.id].cells)
        cells.update(cells_of(sample, row, None))
        cells["prediction"] = reply
        rows.append(cells)

    summary = SubmissionSummary(
        benchmark=use.name,
        protocol=label,
        rows=len(rows),
        never=tuple(unasked_rows),
        failed=tuple(failed_rows),
        empty=empty_count,
        stopped_early=declaration_of(chosen_protocol).stops_early,
    )
    if summary.missing and not partial:
        raise DataError(
            f"{path} is not written: {summary.missing}; {setting('partial', True)} writes what there is"
        )
    columns = [name for name in columns_of(question_rows, hidden=False) if name != "image"]
    check_overwrites_no_source(path)
    write_text_table(path, [*columns, "prediction"], rows)
    return summary


def _use(manifest: RunManifest, name: str) -> BenchmarkUse:
    """Return the benchmark of a run that has this name; for an empty name, the only benchmark of the run.

    Raises:
        UnknownNameError: The run has no benchmark of this name.
        DataError: The name is empty, and the run has several benchmarks.
    """
    uses = {use.name: use for use in manifest.benchmarks}
    if name:
        if name not in uses:
            raise unknown_name("benchmark", name, uses)
        return uses[name]
    if len(uses) > 1:
        raise DataError(
            f"the run has {len(uses)} benchmarks; name one with {setting('benchmark')}: {', '.join(uses)}"
        )
    return manifest.benchmarks[0]


def _written_protocol(labels: Sequence[str], requested: str, samples: Collection[Sample]) -> str:
    """Return the label of the protocol whose replies are written to the file, such as `circular`.

    Only protocols with one reply for each row of the file are possible.

    Args:
        labels: Labels of the run's protocols.
        requested: The protocol that the user wants. If it is empty, the best one is chosen (`_preference`).
        samples: The questions, to all of which the protocol must apply.

    Raises:
        UnknownNameError: The requested protocol is not possible.
        DataError: No protocol of the run is possible.
    """
    suitable = {}
    for label in labels:
        protocol = parse_protocol(label)
        if _fits(protocol, samples):
            suitable[label] = protocol
    if requested:
        requested_label = parse_protocol(requested).label
        if requested_label not in suitable:
            raise unknown_name("protocol with one reply a row", requested_label, suitable)
        return requested_label
    if not suitable:
        raise DataError(
            f"no protocol of the run gives one reply a row: {', '.join(labels)}; run it with {ALL_PASSES}"
        )
    return max(suitable, key=lambda label: _preference(suitable[label]))


def _fits(protocol: Protocol, samples: Collection[Sample]) -> bool:
    """Return whether a protocol gives exactly one reply for each row of a file in MMBench's format.

    It does if it asks every question once, or once for each rotation of its options.
    """
    declared = declaration_of(protocol)
    asks_once = declared.presentations == 1 and not declared.baselines
    if not declared.circular and not asks_once:
        return False
    return all(protocol.applies(sample) for sample in samples)


def _preference(protocol: Protocol) -> tuple[bool, bool, int]:
    """Return a sort key by which the best protocol to write is the greatest.

    First, generated replies are better than likelihoods. Then, replies of the model alone are better than those for
    which other models helped. Then, a protocol that asks all rotations is better than one that stops after the
    first wrong reply, and that is better than one without rotations.
    """
    declared = declaration_of(protocol)
    rotations = 0
    if declared.circular:
        rotations = 1 if declared.stops_early else 2
    return protocol.method == "generation", not declared.roles, rotations


def _checked_submission(sample: Sample) -> Sample:
    """Return a sample unchanged. Raises DataError if it is not a question with options A to Z."""
    if sample.formulation != "choice" or len(sample.options) > len(LETTERS):
        raise DataError(
            f"{sample.benchmark}: sample {sample.id!r} has no options A to Z; MMBench's form cannot hold it"
        )
    return sample


def _replies(
    exchanges: Iterable[Exchange], protocol: Protocol, benchmark: str, samples: Mapping[str, Sample]
) -> tuple[dict[tuple[str, Order], RowReply], set[tuple[str, Order]]]:
    """Return the replies of a run to the questions of one benchmark under one protocol.

    Args:
        exchanges: All requests of the run with their responses.
        protocol: The protocol.
        benchmark: Name of the benchmark.
        samples: The questions by id.

    Returns:
        The replies by (id of the sample, order of the options): the text, or under likelihood the index of the
        chosen option. An empty order means that the reply is for any order. Second, the set of these keys for which
        a request failed.
    """
    replies: dict[tuple[str, Order], RowReply] = {}
    failed: set[tuple[str, Order]] = set()
    for exchange in exchanges:
        request = exchange.request
        response = exchange.response
        if exchange.protocol != protocol.label or request.benchmark != benchmark:
            continue
        if request.sample_id not in samples:
            continue
        key = (request.sample_id, request.variant.order)
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
    """Return the text to write in the column `prediction` of a row.

    A reply that is stored as the index of an option becomes the letter that the option has in this row.

    Args:
        replies: The replies by (id of the sample, order of the options), see `_replies`.
        sample: The question.
        row: The row with its order of the options.

    Returns:
        The text; None if there is no reply for this order.
    """
    reply = replies.get((sample.id, row.order))
    if reply is None:
        reply = replies.get((sample.id, ()))
    if isinstance(reply, int):
        position = row.order.index(reply)
        return LETTERS[position]
    return reply


SUBMISSION_FORM: SubmissionWriter = write_submission
