"""Files of predictions of MMBench's form, taken in as runs.

A row has an `index`, a `prediction` and, if it is to be checked, the options as the model saw them. What does not fit
is left out by name and number, and refused where that is most of a file; so are rows that contradict each other. Rows
that are missing count as not right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, TABLES, DelimitedTable, open_text
from snellen.formats.text_table import read_text_table, write_text_table
from snellen.interchange.predictions.rows import Findings, count_named, folded, is_empty_cell, is_failure, places_of
from snellen.protocols.base import labelled_declaration
from snellen.protocols.choice import circular_orders
from snellen.records import Exchange, Failure, ImagePart, Message, Request, Response, RowRef, Sample, TextPart, Variant
from snellen.runs.finding import find_benchmarks, specs_of
from snellen.runs.imported_predictions import (
    ImportedPredictions,
    check_import,
    imported_run_folder,
    write_imported_run,
)
from snellen.suites.mmbench.survey import ROTATION_STEP, base_index, normal_index
from snellen.suites.mmbench.writer import ALL_PASSES, row_refs

EMPTY_CELLS = frozenset(
    "#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|None|n/a|nan|null".split("|")
)
"""Texts that pandas reads as empty cells, and so writes as such."""
Order = tuple[int, ...]


class PredictionRow(Struct, frozen=True):
    """One row that fits a question."""

    index: str
    sample: Sample
    order: Order
    prediction: str

    @property
    def failure(self) -> str:
        """Why no reply came; empty where one did."""
        if is_empty_cell(self.prediction, self.sample.options):
            return "there is no reply"
        return self.prediction.strip() if is_failure(self.prediction, self.sample.options) else ""


def import_predictions(path: Path, answers: str = "", to: Path | None = None, model: str = "") -> Path:
    """Make a run of a file of predictions, and return its folder (default: under `runs`, by what is in the files).

    `answers` is a file of MMBench's form with the questions and their answers, of which texts are read but no
    pictures, or the name or folder of a built benchmark; without it the file's own questions and answers count. What
    does not fit is told in the manifest's notes.

    Raises DataError for a file without the columns index and prediction or without any row that fits,
    StoreError for a folder that holds another run.
    """
    folder = to or imported_run_folder(path, answers)
    check_import(folder, path)
    benchmark = _questions(answers, folder) if answers else _own_questions(path, folder)
    check_import(folder, path, benchmark)
    rows, notes = _rows(path, benchmark)
    label = _label(path, rows)
    notes += _absent(rows, list(benchmark.samples()), label)
    predictions = ImportedPredictions(path, model, label, tuple(notes))
    write_imported_run(folder, benchmark, predictions, (_exchange(row, label) for row in rows))
    return folder


def _label(path: Path, rows: Sequence[PredictionRow]) -> str:
    """CircularEval where questions are shown several times. Raises DataError for orders that are not of it."""
    orders: dict[str, list[PredictionRow]] = defaultdict(list)
    for row in rows:
        orders[row.sample.id].append(row)
    repeated = [row for presentations in orders.values() if len(presentations) > 1 for row in presentations]
    if strange := [row.index for row in repeated if row.order not in circular_orders(row.sample)]:
        raise DataError(
            f"{path}: rows that show a question again with its options in an order that is not a rotation: "
            f"{count_named(strange)}; CircularEval is of rotations"
        )
    return ALL_PASSES if repeated else "vanilla"


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is not a table of predictions to choices; empty when it is one."""
    try:
        columns = {name if name in LETTERS else name.strip().lower() for name in read_text_table(path).columns}
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    for name in ("index", "prediction"):
        if name not in columns:
            return f"there is no column {name}"
    if benchmark and not _asks_choices(benchmark):
        return f"{benchmark} does not ask choices"
    return "" if benchmark or {"A", "B"} <= columns else "there are no options in columns A, B, ..."


def _asks_choices(benchmark: str) -> bool:
    return _is_table(benchmark) or all(spec.formulation == "choice" for spec in specs_of(benchmark))


def _is_table(answers: str) -> bool:
    return Path(answers).suffix.lower() in TABLES


def _questions(answers: str, folder: Path) -> Benchmark:
    """The benchmark that `answers` stands for, built of a table's texts inside the run's folder."""
    if not _is_table(answers):
        [use, *further] = find_benchmarks([answers])
        if further:
            raise DataError(f"{answers} stands for {1 + len(further)} benchmarks; name the one that was asked")
        return use.benchmark
    path = Path(answers)
    with open_text(path) as file:
        header = DelimitedTable(file, path).header
    if {"index", "answer"} <= set(header) and "question" not in header:
        raise DataError(
            f"{path} has answers without their questions; build the questions with `snellen build QUESTIONS --answers "
            f"{path.name}`, and give the benchmark's name"
        )
    spec = BenchmarkSpec(
        name=path.stem,
        title=path.name,
        formulation="choice",
        source=SourceSpec("mmbench", {"files": [path.name], "pictures": False, "as_published": True}),
    )
    return build_benchmark(spec, source=path, to=folder / "benchmark")


def _own_questions(path: Path, folder: Path) -> Benchmark:
    """The benchmark of a file's own questions and answers."""
    cells = read_text_table(path)
    columns = [name for name in cells.columns if name.strip().lower() not in ("prediction", "image")]
    if "answer" not in {name.strip().lower() for name in columns}:
        raise DataError(
            f"{path} has predictions without their right answers; name the benchmark that was asked with --benchmark"
        )
    table = folder / f"{path.stem}.tsv"
    table.parent.mkdir(parents=True, exist_ok=True)
    write_text_table(table, columns, [row for _, row in cells.rows])
    return _questions(str(table), folder)


# --- rows --------------------------------------------------------------------------------------------------------


def _rows(path: Path, benchmark: Benchmark) -> tuple[list[PredictionRow], list[str]]:
    """The rows that fit, one per question and order, and notes on the others."""
    texts = read_text_table(path)
    columns = {name: name if name in LETTERS else name.strip().lower() for name in texts.columns}
    for name in ("index", "prediction"):
        if name not in columns.values():
            raise DataError(f"{path}:1: the column {name!r} is missing; there are {', '.join(columns) or 'none'}")
    findings, finder = Findings(), _Finder(benchmark, "A" in columns.values())
    by_key: dict[tuple[str, Order], list[PredictionRow]] = defaultdict(list)
    for line, cells in texts.rows:
        by_column = {columns[name]: text for name, text in cells.items()}
        if row := finder.row(by_column, f"line {line}", findings):
            by_key[row.sample.id, row.order].append(row)
    rows = [_one_of(rows, findings) for rows in by_key.values()]
    if twice := [
        row.index for row, equal_rows in zip(rows, by_key.values(), strict=True) if _contradict(row, equal_rows)
    ]:
        raise DataError(
            f"{path}: rows of one question and order say different things: {count_named(twice)}; keep the one that "
            "counts of each, and give the replies of another model a file of their own"
        )
    fitting = sum(map(len, by_key.values()))
    if not rows or 2 * fitting < len(texts.rows):
        reasons = "; ".join(findings.notes()) or "it has no rows"
        count = f"only {fitting:,} of {len(texts.rows):,} rows fit" if rows else "no row fits"
        raise DataError(f"{path}: {count} {benchmark.name} ({reasons}); --benchmark must be of the same questions")
    return rows, [*texts.notes, *findings.notes()]


def _one_of(rows: Sequence[PredictionRow], findings: Findings) -> PredictionRow:
    """The first row of a question and order that was answered, else the first."""
    chosen = next((row for row in rows if not row.failure), rows[0])
    for row in rows:
        if row.prediction == chosen.prediction and row is not chosen:
            findings.add("rows that are there twice, counted once", row.index)
        elif row.failure and row is not chosen:
            findings.add("rows whose request failed and was asked again, counted as it was answered", row.index)
    return chosen


def _contradict(chosen: PredictionRow, rows: Sequence[PredictionRow]) -> bool:
    return any(row.prediction != chosen.prediction and not row.failure for row in rows)


class _Finder:
    """Finds the question and order of a row: by its index, and by its options where the file has them."""

    def __init__(self, benchmark: Benchmark, has_options: bool) -> None:
        self._samples = {s.id: s for s in benchmark.samples() if s.formulation == "choice"}
        rows = {name: origin.rows for name, origin in benchmark.origins().items()}
        self._known: dict[str, tuple[Sample, RowRef]] = {
            row.index: (sample, row)
            for sample, refs in row_refs(list(self._samples.values()), rows, rotated=True)
            for row in refs
        }
        self._has_options = has_options

    def row(self, cells: Mapping[str, str], where: str, findings: Findings) -> PredictionRow | None:
        index = normal_index(_integral(cells.get("index", "")))
        if not index:
            findings.add("rows left out, without an index", where)
            return None
        sample, order = self._place(index, cells)
        if sample is None:
            findings.add("rows left out, with an index that is not among the questions", index)
            return None
        if self._has_options:
            options = [cells.get(letter, "") for letter in LETTERS[: len(sample.options)]]
            more = any(cells.get(letter) for letter in LETTERS[len(sample.options) :])
            order = None if more else self._order(sample, options, order)
            if order is not None and "" in options:
                findings.add("rows with an option that a spreadsheet has emptied (NA, None, ...)", index)
        elif folded(cells.get("question", "")) not in ("", folded(sample.question)):
            findings.add("rows left out, with the index of a question but the text of another", index)
            return None
        if order is None:
            findings.add("rows left out, with other options than their question has", index)
            return None
        row = PredictionRow(index, sample, order, cells.get("prediction", ""))
        if row.failure:
            findings.add("replies that never came, which count as not right", index)
        return row

    def _place(self, index: str, cells: Mapping[str, str]) -> tuple[Sample | None, Order | None]:
        if index in self._known:
            sample, row = self._known[index]
            return sample, row.order
        # A rotation of a benchmark that was built from base rows alone: its options must tell its order.
        base = base_index(index, normal_index(_integral(cells.get("g_index", ""))), grouped="g_index" in cells)
        question = self._samples.get(base) if self._has_options else None
        if question and "g_index" not in cells and int(index) // ROTATION_STEP >= len(question.options):
            return None, None
        return question, None

    def _order(self, sample: Sample, options: Sequence[str], expected: Order | None) -> Order | None:
        """The order in which the options were shown: the known one or a rotation, if one fits, else by the texts."""
        if expected is not None and _fits(sample, options, expected):
            return expected
        fitting = [order for order in circular_orders(sample) if _fits(sample, options, order)]
        if not fitting and (places := places_of(options, sample.options)):
            fitting = [places]
        return fitting[0] if len(fitting) == 1 else None


def _fits(sample: Sample, options: Sequence[str], order: Order) -> bool:
    return all(_is_same_text(text, sample.options[option]) for text, option in zip(options, order, strict=True))


def _is_same_text(cell: str, option: str) -> bool:
    """Whether a cell is an option, but for what spreadsheets do to texts that look like numbers or like nothing."""
    if cell == option or cell.strip() == option.strip():
        return True
    if not cell:
        return option.strip() in EMPTY_CELLS
    try:
        return float(cell) == float(option)
    except ValueError:
        return False


def _integral(index: str) -> str:
    """`5.0`, as pandas writes a column of whole numbers with a hole, as `5`."""
    return index.strip().removesuffix(".0")


def _absent(rows: Sequence[PredictionRow], samples: Sequence[Sample], label: str) -> list[str]:
    """Which rotations are missing, of questions that are there and of those that are not."""
    orders: dict[str, set[Order]] = defaultdict(set)
    for row in rows:
        orders[row.sample.id].add(row.order)
    questions = [sample for sample in samples if sample.formulation == "choice"]
    notes = [f"{len(rows):,} rows of {len(orders):,} questions"]
    if absent := [sample.id for sample in questions if sample.id not in orders]:
        notes.append(f"questions of {len(questions):,} without any row: {count_named(absent)}")
    if not labelled_declaration(label).circular:
        return [*notes, "base rows only: this is VanillaEval; circular accuracy needs a row for each rotation"]
    if half := list(_incomplete(questions, orders)):
        notes.append(f"questions that lack rotations, and so are not right under CircularEval: {count_named(half)}")
    return notes


def _incomplete(samples: Sequence[Sample], orders: Mapping[str, set[Order]]) -> Iterator[str]:
    for sample in samples:
        if sample.id in orders and (missing := len(set(circular_orders(sample)) - orders[sample.id])):
            yield f"{sample.id}: {missing} of {len(circular_orders(sample))}"


def _exchange(row: PredictionRow, label: str) -> Exchange:
    sample, order = row.sample, row.order
    options = (f"{letter}. {sample.options[option]}" for letter, option in zip(LETTERS, order, strict=False))
    text = "\n".join((*([sample.context] if sample.context else []), sample.question, *options))
    message = Message("user", (*map(ImagePart, sample.images), TextPart(text)))
    # A rotation's number is how far its options are turned, so that the base row is presentation 0.
    test = order[0] if labelled_declaration(label).circular else 0
    variant = Variant(test=test, order=order, labels=tuple(LETTERS[: len(order)]))
    response = Response(error=Failure("server", row.failure)) if row.failure else Response(text=row.prediction)
    return Exchange(label, Request(sample.benchmark, sample.id, variant, (message,)), response)


PREDICTION_FORM = PredictionForm(
    title="a table of predictions of MMBench's form", fault=_fault, read=import_predictions
)
