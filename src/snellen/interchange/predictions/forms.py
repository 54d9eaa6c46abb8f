"""Forms of prediction files that are tables: each declares what the columns of another harness hold.

The rows are read as those of any table, after their columns have the names of roles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.formats.inspect_log import log_fault, log_rows
from snellen.formats.json_files import read_json_value
from snellen.formats.listed_cells import listed
from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.rows import PredictionFile
from snellen.interchange.predictions.tables import (
    prediction_rows,
    read_predictions,
    recognise_rows,
)
from snellen.recognition.columns import split_name
from snellen.recognition.verdicts import RATES_OF_ERRORS

LOOKED_AT = 20
"""Rows at the beginning of a file that tell its form."""
Finish = Callable[[Path, PredictionFile, Collection[str]], PredictionFile]
"""Takes a file of predictions as read, and the names of its columns."""


def table_form(
    title: str,
    needs: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    *,
    answer_is: str = "",
    options_in_prompts: bool = False,
    rows: Callable[[Path], Iterable[SourceRow]] = prediction_rows,
    rows_fault: Callable[[Path], str] | None = None,
    unreadable: Callable[[SourceRow], str] = lambda row: "",
    verdict_column: Callable[[Sequence[SourceRow]], str] = lambda rows: "",
    finish: Finish = lambda path, file, columns: file,
) -> PredictionForm:
    """Declare a form: the format of a toolkit that writes tables with column names of its own.

    Args:
        title: What such a file is, as in "a samples file of lmms-eval".
        needs: Columns by which such a file is recognised. A field of an inner object is written
            `doc.question`.
        columns: The columns of each role. If there are several, the first one that is filled in a
            row is used.
        answer_is: How answers name options, such as `letter`; recognised by the answers when empty.
        options_in_prompts: Whether the options of a question may be those that its prompt lists.
        rows: Reads the rows of a file; by default as those of any table.
        unreadable: Returns why a file of this form cannot be read, by its first row; empty if it
            can.
        rows_fault: Returns why `rows` cannot read a file; empty if it can.
        verdict_column: Returns the column that says how right each reply is, if its name differs
            from file to file; empty if there is none with such a name.
        finish: Adds what the rows do not say, such as the model that the name of the file has.
    """

    def fault(path: Path, benchmark: str) -> str:
        del benchmark
        if rows_fault is not None:
            return rows_fault(path)
        try:
            names = {name for row in islice(rows(path), LOOKED_AT) for name in row.cells}
        except DataError as error:
            return str(error).removeprefix(f"{path}: ")
        missing = [name for name in needs if name not in names]
        return f"its first records have no {' and no '.join(missing)}" if missing else ""

    def read(path: Path) -> list[PredictionFile]:
        written = list(rows(path))
        reason = unreadable(written[0]) if written else ""
        if reason:
            raise DataError(f"{path}: {reason}")
        names = {name for row in written for name in row.cells}
        renamed = [_renamed(row, columns) for row in written]
        filled = {name for row in renamed for name in row.cells}
        declared = {role: (role,) for role in columns if role in filled}
        verdict = verdict_column(written)
        if verdict:
            declared["verdict"] = (verdict,)
        reading = recognise_rows(path, renamed, declared, answer_is)
        reading = replace(reading, options_in_prompts=options_in_prompts, is_of_form=True)
        return [finish(path, file, names) for file in read_predictions(reading)]

    return PredictionForm(title=title, fault=fault, rows=read)


def _renamed(row: SourceRow, columns: Mapping[str, Sequence[str]]) -> SourceRow:
    """Return a row with its columns renamed to their roles (`doc_id` to `id`). Other columns keep their names.

    If a role may be in several columns, the first one that is filled is used.
    """
    cells: dict[str, Any] = {}
    renamed_columns = {name for names in columns.values() for name in names}
    for role, names in columns.items():
        filled = [name for name in names if row.cells.get(name, "") != ""]
        if filled:
            cells[role] = row.cells[filled[0]]
    others = row.cells.keys() - renamed_columns - columns.keys()
    cells |= {name: cell for name, cell in row.cells.items() if name in others}
    return row._replace(cells=cells)


INSPECT = table_form(
    "a log of Inspect",
    needs=(),
    columns={
        role: (role,)
        for role in "id presentation question options answer reply failure model title".split()
    },
    rows=log_rows,
    rows_fault=log_fault,
)


# --- lmms-eval and lm-eval -------------------------------------------------------------------------------------------


LOSSES = (
    "lmms-eval keeps the loss of each option, in most of its models the mean over its tokens; its negative is taken "
    "for the log-likelihood, so that the rules sum and mean agree"
)


def _with_task(path: Path, file: PredictionFile, columns: Collection[str]) -> PredictionFile:
    """Return a file with the task in its name, and with the model from the file of results beside it.

    lmms-eval and lm-eval write `DATE_samples_TASK.jsonl` and `DATE_results.json`.
    """
    date, _, task = path.name.partition("_samples_")
    results = path.with_name(f"{date}_results.json")
    model = file.model
    if task and results.is_file():
        content = read_json_value(results)
        model = str(content.get("model_name") or "") if isinstance(content, dict) else ""
    notes = (LOSSES,) if any(row.scores for row in file.rows) else ()
    title = task.partition(".json")[0] or file.title
    metrics = file.metrics
    if OF_METRIC in columns and not metrics:
        tasks_metrics = [name for name in _OF_SHORT_ANSWERS if f"{name}.pred" in columns]
        if tasks_metrics:
            metrics = tuple(tasks_metrics)
            notes = (*notes, f"the task's metrics of its short answers: {', '.join(tasks_metrics)}")
    return replace(file, title=title, model=model, metrics=metrics, notes=(*file.notes, *notes))


_OF_SHORT_ANSWERS = ("anls", "exact_match", "relaxed_accuracy")
"""Metrics of Snellen that tasks of lmms-eval call the same; the first one of a task is the headline."""


ANNOTATORS = "answers of annotators"
"""The column of the answers that several people gave to each question."""


def _with_annotators(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a samples file, with the answers of all annotators in a column of their own.

    In VQAv2, TextVQA and VizWiz, several people answered each question, and the record of the
    question lists their answers as `answers`, while `target` has only one text. Annotators often
    give equal answers. Therefore a list with repeated texts is one of their answers, and not of
    options.
    """
    rows = list(prediction_rows(path))
    lists = [row.cells.get("doc.answers") for row in rows]
    are_of_annotators = any(_repeats_texts(cell) for cell in lists)
    for row, cell in zip(rows, lists, strict=True):
        if are_of_annotators and isinstance(cell, list):
            row = row._replace(cells={**row.cells, ANNOTATORS: cell})
        yield row


def _repeats_texts(cell: Any) -> bool:
    if not isinstance(cell, list) or not all(isinstance(text, str) for text in cell):
        return False
    return len(set(cell)) < len(cell)


def _lmms_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a samples file, with the id of the question in place of `doc_id` if questions are repeated.

    `snellen export` asks a question with its options in several orders and writes a document for
    each, with the id of the question as `doc.id`.
    """
    rows = list(_with_annotators(path))
    has_own_ids = _are_presentations(rows)
    references = _references_of_metric(rows)
    for row in rows:
        cells = dict(row.cells)
        if has_own_ids:
            cells["doc_id"] = cells["doc.id"]
        if references:
            cells[OF_METRIC] = cells.get(references)
        yield row._replace(cells=cells)


_OF_SAMPLES = frozenset(
    "doc_id doc target arguments resps filtered_resps filter filter_key metrics input doc_hash prompt_hash target_hash "
    "submission".split()
)
"""Fields of a line of samples that are not metrics of the task."""


def _own_score(rows: Sequence[SourceRow]) -> str:
    """Return the column with the task's score of each reply, from 0 to 1; empty unless there is exactly one.

    The score may be in an object: `gpt_eval.score`. Metrics that only some rows have, such as
    `relaxed_human_split`, do not count, and neither do rates of errors such as `wer`, for which 0
    is best.
    """
    first = rows[0].cells if rows else {}
    scores: list[str] = []
    for name in first:
        outer, _, field = name.partition(".")
        is_rate_of_errors = not RATES_OF_ERRORS.isdisjoint(split_name(name))
        if outer in _OF_SAMPLES or field not in ("", "score") or is_rate_of_errors:
            continue
        cells = [row.cells.get(name) for row in rows]
        if all(isinstance(cell, (int, float)) and 0 <= cell <= 1 for cell in cells):
            scores.append(name)
    return scores[0] if len(scores) == 1 else ""


OF_METRIC = "references of the task's metric"
"""The column of the right answers that a task hands to its metric, where `target` does not have them."""
_REPLIES_OF_METRIC = frozenset(
    "pred prediction pred_answer parsed_pred predict predict_answer pred_number".split()
)
_REFERENCES_OF_METRIC = "answers answer references reference ground_truth gt gt-answer target targets gt_number A".split()
"""Fields of what a task of lmms-eval hands to its metric: `{"answer": ["a river", "a stream"], "pred": "river"}`."""


def _references_of_metric(rows: Sequence[SourceRow]) -> str:
    """Return the column with the right answers that a task gives to its metric, if `target` is less complete.

    For example, `anls.answer` may list several accepted answers, of which `target` has one. Or
    `target` may have the same text in all rows, such as the name of a field. The text is empty if
    `target` is good enough.
    """
    if not rows or any(f"doc.{name}" in rows[0].cells for name in ("options", "choices")):
        return ""
    targets = [row.cells.get("target") for row in rows]
    is_target_alike = len(rows) > 1 and all(target == targets[0] for target in targets)
    for name in _fields_of_metrics(rows[0].cells):
        answers = [row.cells.get(name) for row in rows]
        if any(answer in (None, "", []) for answer in answers):
            continue
        do_differ = any(answer != answers[0] for answer in answers)
        if is_target_alike and do_differ:
            return name
        n_among = 0
        for answer, target in zip(answers, targets, strict=True):
            n_among += isinstance(answer, list) and target in answer
        has_several = any(isinstance(answer, list) and len(answer) > 1 for answer in answers)
        if has_several and n_among == len(rows):
            return name
    return ""


def _fields_of_metrics(cells: Mapping[str, Any]) -> list[str]:
    """Return the fields of right answers that have a reply beside them in the same object.

    An example is `anls.answer` beside `anls.pred`, which lmms-eval keeps for the metric ANLS.
    """
    found: list[str] = []
    for name in cells:
        metric, _, field = name.rpartition(".")
        if metric in _OF_SAMPLES or field not in _REPLIES_OF_METRIC:
            continue
        beside = (f"{metric}.{reference}" for reference in _REFERENCES_OF_METRIC)
        found += [reference for reference in beside if reference in cells][:1]
    return found


def _are_presentations(rows: Sequence[SourceRow]) -> bool:
    """Return whether each document is one showing of a question, which others repeat with its options reordered.

    The documents may say so themselves (`doc.presentation`). Otherwise, all documents with the same
    id must show the same question and options, each in a different order.
    """
    if not all("doc.id" in row.cells for row in rows):
        return False
    if all("doc.presentation" in row.cells for row in rows):
        return True
    groups: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for row in rows:
        options = listed(row.cells.get("doc.options")) or []
        asked = str(row.cells.get("doc.question")), tuple(map(str, options))
        groups.setdefault(str(row.cells["doc.id"]), []).append(asked)
    return len(groups) < len(rows) and all(map(_are_orders_of_one_question, groups.values()))


def _are_orders_of_one_question(shown: Sequence[tuple[str, tuple[str, ...]]]) -> bool:
    """Return whether all items are one question with the same options, each time in a different order.

    Args:
        shown: The question and the options of each item.
    """
    contents = {(question, frozenset(options)) for question, options in shown}
    return len(contents) == 1 and len(set(shown)) == len(shown)


LMMS_EVAL = table_form(
    "a samples file of lmms-eval",
    needs=("doc_id", "filtered_resps"),
    columns={
        "id": ("doc_id",),
        "presentation": ("doc.presentation",),
        "question": ("doc.question",),
        "prompt": ("input",),
        "options": ("doc.options", "doc.choices.text", "doc.choices"),
        "answer": (ANNOTATORS, OF_METRIC, "target"),
        "reply": ("resps", "filtered_resps"),
        "likelihood": ("filtered_resps",),
    },
    options_in_prompts=True,
    rows=_lmms_rows,
    verdict_column=_own_score,
    finish=_with_task,
)
"""A line has `target` (a text), `filtered_resps`, and where they differ `resps`, `input` (the prompt) and the task's own
metrics. The writer drops the record of the question; older files, and those of lm-eval, have it as `doc`."""


# --- HELM -------------------------------------------------------------------------------------------------------------


PERTURBATION = "instance.perturbation.name"
"""The field of HELM's copies of a question with typing errors, other names or the like."""


def _helm_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of HELM's file `scenario_state.json`, with the options as shown and the right answers.

    Right answers are the references that HELM tagged as correct. Copies of questions that HELM
    changed on purpose, for example with typing errors, are left out, because its accuracy is about
    the original questions.
    """
    for row in prediction_rows(path):
        if PERTURBATION in row.cells:
            continue
        references = row.cells.get("instance.references")
        if not isinstance(references, list):
            yield row
            continue
        correct: list[str] = []
        for reference in references:
            if not isinstance(reference, dict) or "correct" not in (reference.get("tags") or ()):
                continue
            output = reference.get("output")
            text = output.get("text") if isinstance(output, dict) else None
            if isinstance(text, str):
                correct.append(text)
        shown = [cell for name, cell in row.cells.items() if name.startswith("output_mapping.")]
        cells = {**row.cells, "answer": correct}
        cells.pop("result.success", None)  # of the request
        yield row._replace(cells={**cells, "options": shown} if shown else cells)


def _of_separate_requests(row: SourceRow) -> str:
    """Return why a file of HELM cannot be read if each option was asked in a request of its own; else empty."""
    if "reference_index" not in row.cells:
        return ""
    return (
        "HELM asked for each option in a request of its own (a method multiple_choice_separate_...), so no entry has a "
        "reply; write a table with the columns id, options, answer and prediction, the most likely option of each "
        "question, and score that"
    )


def _with_perturbed_counted(
    path: Path, file: PredictionFile, columns: Collection[str]
) -> PredictionFile:
    """Return the file with a note on how many changed copies of questions were left out; without any, as it is."""
    del columns
    perturbed = sum(PERTURBATION in row.cells for row in prediction_rows(path))
    if not perturbed:
        return file
    note = f"perturbed copies of questions, left out as in HELM's own accuracy: {perturbed:,}"
    return replace(file, notes=(*file.notes, note))


HELM = table_form(
    "a scenario state of HELM",
    needs=("instance.references", "result.completions"),
    columns={
        "id": ("instance.id",),
        "presentation": ("train_trial_index",),
        "question": ("instance.input.text",),
        "options": ("options",),
        "answer": ("answer",),
        "reply": ("result.completions",),
        "model": ("request.model",),
    },
    answer_is="text",
    rows=_helm_rows,
    unreadable=_of_separate_requests,
    finish=_with_perturbed_counted,
)
"""An entry of `request_states` has the question as an `instance`, whose `references` are tagged, and `output_mapping`: the
text of each letter that was shown."""
