"""Predictions in tables of any layout: the columns that `snellen build` knows, and the replies of a model.

What a column holds is recognised by its name and its cells, as for a table of questions (`recognition`), so whatever
`build` reads is read alike here. Rows that cannot be used are left out, counted and named.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from snellen.callers import setting
from snellen.errors import DataError
from snellen.formats.containers import (
    FURTHER,
    main_question,
    question_list,
    unfolded,
    with_listed_replies,
)
from snellen.formats.listed_cells import listed
from snellen.formats.rows import read_rows
from snellen.formats.source_row import SourceRow, flat_record
from snellen.formats.suffixes import SHEET, row_suffix
from snellen.formats.text_encoding import text_encoding
from snellen.interchange.predictions.answer_tables import ADDED, Answers, with_answers
from snellen.interchange.predictions.benchmark_signs import how_to_give_answers
from snellen.interchange.predictions.cells import (
    first_column,
    image_names,
    place_of,
    replies_in_cell,
    text_in_cell,
)
from snellen.interchange.predictions.joining import ROTATION_STEP
from snellen.interchange.predictions.known_names import known_benchmark
from snellen.interchange.predictions.missing_replies import (
    numbers_of_a_summary,
    what_stands_for_replies,
)
from snellen.interchange.predictions.object_lists import object_lists, rows_of_lists
from snellen.interchange.predictions.only_verdicts import (
    VerdictReader,
    columns_of_verdicts,
    without_shared_ids,
)
from snellen.interchange.predictions.question_types import (
    MOSTLY_JUDGED,
    ROUNDED,
    is_surely_right,
)
from snellen.interchange.predictions.reply_choice import MOSTLY, TableReading
from snellen.interchange.predictions.row_layouts import (
    FIELD,
    with_fields_as_rows,
    with_header_as_row,
)
from snellen.interchange.predictions.rows import (
    PredictedRow,
    PredictionFile,
    count_named,
    is_number,
)
from snellen.interchange.predictions.scored_samples import (
    SAMPLE_OF,
    rows_of_samples,
    scored_samples,
)
from snellen.interchange.predictions.table_rows import RowReader, is_exported
from snellen.interchange.predictions.tokens import with_tokens_joined
from snellen.metrics.ocr import character_error_rate
from snellen.recognition.answer_types import CAPTION_WORDS, LONG_TEXT_WORDS
from snellen.recognition.columns import (
    METRIC_WORDS,
    PARTLY,
    Doubt,
    name_score,
    series,
    split_name,
)
from snellen.recognition.folding import folded_name, folded_words, whole_number, word_count
from snellen.recognition.model_columns import is_name_of_model, model_of_field
from snellen.recognition.named_pairs import is_transcribed, replies_by_noun, rest_of_gold
from snellen.recognition.profiles import ColumnProfile
from snellen.recognition.reply_names import (
    are_binary,
    is_name_of_reply,
    is_verdict,
    says_of_reply,
)
from snellen.recognition.said_in_cells import Said, how_often_said, in_whole_words
from snellen.recognition.tables import MESSAGES, TableRoles, prediction_roles
from snellen.recognition.verdicts import (
    column_of_wrong_replies,
    is_field_of_verdicts,
    is_judged,
    verdict_column,
    verdict_of_cell,
)

TABLE = "table"
"""The name of this form, for `--as`."""
TITLE = "a table of predictions"
PART = "split"
"""The column with the part of a file that a row comes from: `left` for `{"left": [...], "right": [...]}`."""


def prediction_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file of predictions in the layout that the other functions expect.

    A row that holds several questions becomes one row for each of them. A table without a header
    gets names for its columns, and lists of tokens become texts.

    Raises:
        DataError: The file cannot be read.
    """
    lists: set[str] = set()
    rows = with_header_as_row(read_rows(path, text_encoding(path), as_stored=True))
    for row in with_fields_as_rows(rows):
        cells = _with_references_in_one_list(_with_passes_joined(row.cells))
        row = row._replace(cells=with_tokens_joined(cells))
        row = _with_main_question(row)
        name = question_list(row.cells, is_name_of_reply, _is_name_of_answer)
        if name:
            lists.add(name)
            for record in unfolded(row.cells, name, is_name_of_reply):
                yield row._replace(cells=flat_record(dict(record)))
        elif not any(row.cells.get(empty) == [] for empty in lists):
            for record in with_listed_replies(row.cells, is_name_of_reply):
                yield row._replace(cells=dict(record))


def _with_main_question(row: SourceRow) -> SourceRow:
    """Return the main question of a record that also has a list of its variants, without these; other rows unchanged."""
    main: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, cell in row.cells.items():
        outer, _, field = name.partition(".")
        if field:
            main[outer][field] = cell
    is_asked = any("question" in fields for fields in main.values())
    if not is_asked and not any(name.endswith("_question") for name in row.cells):
        return row
    plain = {name: cell for name, cell in row.cells.items() if "." not in name}
    record = main_question({**plain, **main}, is_name_of_reply, _is_name_of_answer)
    return row._replace(cells=flat_record(dict(record))) if FURTHER in record else row


def _with_passes_joined(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return cells with the replies of several passes in one list: `pred_0` and `pred_1` become `pred`.

    A pass is one of several times that the model was asked the same question.
    """
    passes = _columns_of_passes(tuple(cells))
    if not passes:
        return dict(cells)
    others = {name: cell for name, cell in cells.items() if name not in passes}
    stem = folded_name(passes[0]).rstrip("0123456789").rstrip("_")
    return {**others, stem: [cells[name] for name in passes]}


def _with_references_in_one_list(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return cells with numbered right answers in one list: `Best_Answer1` and `Best_Answer2` become `Best_Answer`.

    Only names that say that each is right count: `answer1` and `answer2` may be options.
    """
    numbered = _columns_of_references(tuple(cells))
    if not numbered:
        return dict(cells)
    others = {name: cell for name, cell in cells.items() if name not in numbered}
    filled = [cells[name] for name in numbered if cells[name] not in (None, "")]
    stem = numbered[0].strip().rstrip("0123456789").rstrip("_ -")
    return {**others, stem: filled}


_EACH_IS_RIGHT = frozenset(
    "best gold golden gt correct right reference ref references refs".split()
)


@lru_cache(maxsize=256)
def _columns_of_references(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the numbered columns with right answers to the same question; empty if there are none."""
    taken = {folded_name(name) for name in names}
    for stem, chain in series(names).items():
        is_numbered = chain[0].strip()[-1].isdecimal()
        is_right = not _EACH_IS_RIGHT.isdisjoint(stem.split("_"))
        is_answer = name_score("answer", stem) >= PARTLY
        if is_numbered and len(chain) > 1 and stem not in taken and is_right and is_answer:
            return tuple(chain)
    return ()


@lru_cache(maxsize=256)
def _columns_of_passes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the numbered columns with replies to the same question: `pred_0` and `pred_1`; empty if there are none."""
    taken = {folded_name(name) for name in names}
    for stem, chain in series(names).items():
        is_numbered = chain[0].strip()[-1].isdecimal()
        if is_numbered and len(chain) > 1 and stem not in taken and is_name_of_reply(stem):
            return tuple(chain)
    return ()


def recognise_predictions(
    path: Path,
    columns: Mapping[str, Sequence[str]] | None = None,
    answer_is: str = "",
    *,
    is_gold_known: bool = False,
    answers: Answers | None = None,
) -> TableReading:
    """Read the rows of a file and find out what its columns are for.

    Args:
        path: A file in any format that `build` reads, also packed with gzip.
        columns: Columns that the user names, by role, such as `{"reply": ["said"]}`.
        answer_is: How right answers name options, such as `letter`, if the user says it.
        is_gold_known: Whether right answers are known from a benchmark, so that the file need not
            have them.
        answers: Right answers by id, from a separate table. They are added to the rows with these
            ids.

    Raises:
        DataError: The file cannot be read, or no column holds replies.
    """
    rows = list(prediction_rows(path))
    if answers:
        # Replies may be in a column called `answer`, as the right ones are known.
        without = recognise_rows(path, rows, columns or {}, answer_is, is_gold_known=True)
        declared = {**(columns or {}), "reply": without.roles.roles.get("reply", ())}
        declared = {role: names for role, names in declared.items() if names}
        rows = with_answers(path, rows, answers)
        return recognise_rows(path, rows, {**declared, "answer": (ADDED,)}, answer_is)
    reading = recognise_rows(path, rows, columns or {}, answer_is, is_gold_known=is_gold_known)
    if is_gold_known or reading.column("answer") or reading.verdicts:
        return reading
    likely = _likely_answers(reading)
    if likely is None:
        return reading
    column, said = likely
    if not said.is_sure or reading.roles.profiles[column].lists > 0.5:
        return reading
    declared = {**(columns or {}), "answer": (column,)}
    reading = recognise_rows(path, rows, declared, answer_is)
    note = (
        f"no column is called like right answers; the cells of {column!r} stand in {said.share:.1%} of the replies of "
        f"their rows and in {said.share_elsewhere:.1%} of those of others, so they are taken for the right answers"
    )
    return replace(reading, notes=(*reading.notes, note))


def recognise_rows(
    path: Path,
    rows: Sequence[SourceRow],
    columns: Mapping[str, Sequence[str]],
    answer_is: str = "",
    *,
    is_gold_known: bool = False,
) -> TableReading:
    """Find what the columns of rows are. The arguments and errors are those of `recognise_predictions`."""
    roles = prediction_roles(path, rows, columns, answer_is, is_gold_known=is_gold_known)
    of_wrong = "" if is_gold_known else _column_of_wrong_replies(roles)
    if of_wrong:
        rows = [_with_opposite(row, of_wrong) for row in rows]
        declared = {**columns, "verdict": (f"not {of_wrong}",)}
        return recognise_rows(path, rows, declared, answer_is)
    if not roles.profiles:
        raise DataError(roles.faults[0] if roles.faults else f"{path}: it has no rows")
    if summary := numbers_of_a_summary(rows):
        raise DataError(f"{path}: {summary}")
    if not roles.roles.keys() & {"reply", "likelihood", "failure", MESSAGES}:
        return _reading_without_replies(path, rows, roles, columns, is_gold_known=is_gold_known)
    if not is_gold_known and "answer" not in columns and _is_read_in_reply(rows, roles):
        read = roles.roles["answer"][0]
        right = _other_answers(roles)
        if len(right) == 1:
            return recognise_rows(path, rows, {**columns, "answer": right}, answer_is)
        raise DataError(
            f"{path} has replies without right answers ({read!r} is what the replies say); "
            f"{how_to_give_answers(path, [row.cells for row in rows])}"
        )
    if "reply" not in columns and _is_text_of_something_else(rows, roles):
        return _reading_without_replies(path, rows, roles, columns, is_gold_known=is_gold_known)
    of_verdicts = (
        () if is_gold_known or "answer" in roles.roles else _answer_by_verdicts(rows, roles)
    )
    if of_verdicts:
        declared = {**columns, "answer": of_verdicts}
        roles = prediction_roles(path, rows, declared, answer_is, is_gold_known=is_gold_known)
    rows, aside = _predictions_among(rows, roles)
    encoding = text_encoding(path)
    notes = [f"read in the encoding {encoding}"] if encoding else []
    notes += [f"rows left out, that hold no question and no reply: {aside}"] if aside else []
    further = sum(row.cells.get(FURTHER, 0) for row in rows)
    if further:
        notes.append(
            f"variants of the questions, in lists beside these, which are left out: {further:,}"
        )
    if of_verdicts:
        notes.append(
            f"the cells of {of_verdicts[0]!r} stand in the replies that the file's own verdicts call right, and in no "
            "others, so they are the right answers"
        )
    if row_suffix(path) == SHEET:
        formulas = sum(_is_formula(cell) for row in rows for cell in row.cells.values())
        notes += [f"cells with formulas, read as text: {formulas:,}"] if formulas else []
    notes += [_doubt_note(roles, doubt) for doubt in roles.doubts if doubt.role in roles.roles]
    is_reply_given = "reply" in columns
    return TableReading(path, roles, tuple(rows), tuple(notes), is_gold_known, is_reply_given)


def _column_of_wrong_replies(roles: TableRoles) -> str:
    """Return the column that marks wrong replies, in a table of texts without a column that marks right ones."""
    reply = roles.profiles.get(first_column(roles.roles, "reply"))
    if reply is None or are_binary(reply) or "verdict" in roles.roles:
        return ""
    # The flag may be what a question asks for, as of a model that looks for hallucinations.
    n_yes_or_no = sum(folded_words(text)[:1] in (["yes"], ["no"]) for text in reply.texts)
    if 2 * n_yes_or_no > len(reply.texts):
        return ""
    taken = {name for role, names in roles.roles.items() if role != "tag" for name in names}
    return column_of_wrong_replies(roles.profiles, taken)


def _with_opposite(row: SourceRow, column: str) -> SourceRow:
    """Return a row with a further cell that says whether the reply is right, as `column` says that it is wrong."""
    verdict = verdict_of_cell(text_in_cell(row.cells.get(column)))
    if verdict is None:
        return row
    return row._replace(cells={**row.cells, f"not {column}": 1 - verdict})


def _reading_without_replies(
    path: Path,
    rows: Sequence[SourceRow],
    roles: TableRoles,
    columns: Mapping[str, Sequence[str]],
    *,
    is_gold_known: bool,
) -> TableReading:
    """Return a table without replies that has at least the verdict on each; raise DataError if it has none."""
    verdicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if not is_gold_known and not columns:
        samples = scored_samples(rows)
        if samples is not None and samples.are_shares:
            rows, note = rows_of_samples(rows, samples)
            roles = replace(roles, roles={"id": (SAMPLE_OF,)})
            verdicts = (samples.field,)
            notes = (note,)
    if not is_gold_known and not verdicts:
        verdicts = columns_of_verdicts(path, rows, roles, columns.get("verdict", ()))
    if not verdicts:
        raise DataError(f"{path}: {what_stands_for_replies(path, rows, roles)}")
    of_questions = {role: roles.roles.get(role, ()) for role in _OF_A_QUESTION}
    of_questions["tag"] = tuple(name for name in of_questions["tag"] if name not in verdicts)
    of_questions |= {"reply": verdicts, "verdict": verdicts[:1]}
    roles = replace(roles, roles=of_questions)
    return TableReading(path, roles, tuple(rows), notes, verdicts=verdicts)


_OF_A_QUESTION = ("id", "question", "prompt", MESSAGES, "image", "model", "tag")
"""Roles of columns that say which question, and which model, a verdict is on."""


_OF_A_PREDICTION = (
    "reply",
    MESSAGES,
    "likelihood",
    "failure",
    "question",
    "prompt",
    "answer",
    "id",
    "image",
)
"""Each prediction has a filled column of at least one of these roles."""


def _predictions_among(
    rows: Sequence[SourceRow], roles: TableRoles
) -> tuple[Sequence[SourceRow], str]:
    """Return the rows that are predictions, and a text that counts and names the others.

    Other rows are, for example, settings at the beginning of a log, or a summary at its end. The
    text is empty if there are none.
    """
    columns = {name for role in _OF_A_PREDICTION for name in roles.roles.get(role, ())}
    objects = tuple(f"{name}." for name in columns)
    predictions: list[SourceRow] = []
    others: list[str] = []
    for row in rows:
        filled = [name for name, cell in row.cells.items() if cell not in (None, "")]
        if row.fault or any(name in columns or name.startswith(objects) for name in filled):
            predictions.append(row)
        else:
            others.append(place_of(row))
    return predictions, count_named(others) if others else ""


def _is_read_in_reply(rows: Sequence[SourceRow], roles: TableRoles) -> bool:
    """Return whether the column `answer` is not the right answer, but what a harness read in the replies.

    It is if it repeats a field of the JSON objects that the replies are, or if two other columns
    do. It is also if its cells are all replies of a row one after the other, or if they are sentences
    and equal to the replies. Columns whose names say that they hold right answers, such as `ground_truth`, do not count.
    But if `answer` is a field of an object, and it and another field of that object repeat the
    replies, then the object was read in the replies.
    """
    answer = first_column(roles.roles, "answer")
    reply = first_column(roles.roles, "reply")
    if not answer or not reply:
        return False
    repeated: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    n_words = 0
    n_equal = 0
    n_joined = 0
    for row in rows:
        replies = replies_in_cell(row.cells.get(reply)) or ("",)
        text = _without_blanks(replies[0])
        right = text_in_cell(row.cells.get(answer))
        n_words += word_count(right)
        n_equal += bool(right) and _without_blanks(right) == text
        n_joined += len(replies) > 1 and _without_blanks(right) == _without_blanks("".join(replies))
        for name, cell in row.cells.items():
            if name == reply or cell in (None, "", []):
                continue
            field = name.rpartition(".")[2]
            filled[name] += 1
            repeated[name] += _without_blanks(f'"{field}":{_as_json(cell)}') in text
    n_filled = filled[answer]
    are_sentences = n_words >= LONG_TEXT_WORDS * n_filled
    may_be_reply = "answer" in split_name(answer) and not rest_of_gold(answer)
    if may_be_reply and are_sentences and n_equal > MOSTLY * n_filled > 0:
        return True
    if n_joined > MOSTLY * n_filled:
        return True
    parent, _, field = answer.rpartition(".")
    siblings = [name for name in filled if parent and name.rpartition(".")[0] == parent]
    read = [name for name in siblings if repeated[name] > MOSTLY * filled[name]]
    if answer in read and len(read) >= 2:
        return True
    if folded_name(field) not in ("answer", "answers"):
        return False
    fields = {name for name, count in repeated.items() if count > MOSTLY * len(rows)}
    return answer in fields or len(fields) >= 2


def _other_answers(roles: TableRoles) -> list[str]:
    """Return the columns that are named like right answers, besides the one that was taken for them."""
    taken = {name for role in ("answer", "reply", "id") for name in roles.roles.get(role, ())}
    outer = {name.rpartition(".")[0] for name in roles.roles["answer"]} - {""}
    others: list[str] = []
    for name, profile in roles.profiles.items():
        is_right = name_score("answer", name) > PARTLY or bool(rest_of_gold(name))
        is_beside = name not in taken and name.rpartition(".")[0] not in outer
        if is_right and is_beside and profile.is_scalar and not says_of_reply(name, profile):
            others.append(name)
    return others


def _is_text_of_something_else(rows: Sequence[SourceRow], roles: TableRoles) -> bool:
    """Return whether the column taken for replies has transcribed texts that are no replies to the questions.

    Its name says that its texts were read in images (`ocr_text`), and they differ strongly from the
    right answers.
    """
    reply = first_column(roles.roles, "reply")
    answer = first_column(roles.roles, "answer")
    if not answer or not is_transcribed(reply) or is_name_of_reply(reply):
        return False
    rates: list[float] = []
    for row in rows[:MOST_COMPARED]:
        text = text_in_cell(row.cells.get(answer))
        if text:
            rates.append(character_error_rate(text_in_cell(row.cells.get(reply)), [text]))
    return not rates or median(rates) > FARTHEST


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _as_json(cell: Any) -> str:
    return json.dumps(cell, ensure_ascii=False, default=str)


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith("=") and len(cell) > 1


def _is_name_of_answer(name: str) -> bool:
    return name_score("answer", name) > PARTLY


def binary_columns(roles: TableRoles) -> tuple[str, ...]:
    """Return the columns with both 0 and 1, or words for these, that hold neither replies nor verdicts."""
    used = (*roles.roles.get("reply", ()), *roles.roles.get("verdict", ()))
    return tuple(
        name
        for name, profile in roles.profiles.items()
        if name not in used and len(profile.texts) == 2 and are_binary(profile)
    )


def _doubt_note(roles: TableRoles, doubt: Doubt) -> str:
    chosen = " + ".join(roles.roles[doubt.role])
    others = [choice for choice in doubt.choices if choice != chosen]
    other = setting("columns", {doubt.role: others[0] if others else "NAME"})
    return f"{doubt.why}; {chosen!r} is taken, and {other} takes another"


def read_predictions(reading: TableReading) -> list[PredictionFile]:
    """Return the predictions of a table: one file for each model whose replies it holds.

    Args:
        reading: The table, with what its columns are for.

    Raises:
        DataError: No row can be used, or most rows with options have right answers that are none of
            these.
    """
    path, roles = reading.path, reading.roles.roles
    reply_columns = roles.get("reply", ())
    reading = _without_unjudged(reading)
    by_column = reply_columns if len(reply_columns) > 1 else ("",)
    conditions = _columns_of_conditions(reading)
    models = first_column(roles, "model")
    title = path.name.removesuffix(".gz").rpartition(".")[0] or path.stem
    title = text_in_cell(reading.rows[0].cells.get(first_column(roles, "title"))) or title
    lists = object_lists(reading.rows)
    if lists is not None and not reading.is_joined and not reading.is_reply_given:
        rows = rows_of_lists(reading.rows, lists, reading.column("id"), roles.get("image", ()))
        note = (
            f"{lists.mentioned!r} lists the objects that each caption mentions, and {lists.in_image!r} those in the image: "
            "CHAIR"
        )
        notes = (note, *reading.notes)
        return [
            PredictionFile(
                rows=tuple(rows), repeats=False, title=title, metrics=("chair",), notes=notes
            )
        ]
    only_model, of_only_model = _only_model(reading, models)
    of_conditions: tuple[str, ...] = ()
    for name in conditions:
        if name not in roles.get("model", ()):
            values = dict.fromkeys(_name_of_condition(name, row) for row in reading.rows)
            listed_values = ", ".join(map(repr, values))
            of_conditions = (
                f"{listed_values} have rows of the same questions, so each has a result of its own",
            )
    parts = () if conditions else _parts_with_same_ids(reading)
    of_parts: tuple[str, ...] = ()
    if parts:
        listed_parts = ", ".join(repr(part) for part in parts[:MOST_PARTS_NAMED])
        more = ", ..." if len(parts) > MOST_PARTS_NAMED else ""
        note = f"ids begin anew in each part of the file ({listed_parts}{more}), so each part has questions of its own"
        of_parts = (note,)
    metrics, of_metrics = ((), ()) if reading.verdicts else _metrics_of_columns(reading)
    if metrics and folded_name(reading.column("verdict")) in _EXACT:
        without = {role: names for role, names in roles.items() if role != "verdict"}
        reading = replace(reading, roles=replace(reading.roles, roles=without))
    likely = None
    if not reading.column("answer") and not reading.verdicts:
        likely = _likely_answers(reading)
    likely_answers = likely[0] if likely is not None else ""
    files: list[PredictionFile] = []
    called_after = "" if models or reading.is_reply_given else _model_in_name(reading)
    for column in by_column:
        of_model = _with_verdicts_of(reading, column) if column else reading
        reply = column or first_column(roles, "reply")
        reader: RowReader | VerdictReader
        if reading.verdicts:
            reader = VerdictReader(reading, reply)
        else:
            reader = RowReader(of_model, reply)
        rows_by_model: dict[str, list[PredictedRow]] = defaultdict(list)
        for row in reading.rows:
            of_row = [_name_of_condition(name, row) for name in conditions]
            if only_model:
                of_row[0] = only_model
            if called_after:
                of_row.insert(0, called_after)
            model = " ".join(filter(None, of_row))
            of_column = model_of_field(column)
            predicted = reader.predicted(row)
            if parts:
                predicted = _of_part(predicted, text_in_cell(row.cells.get(PART)))
            rows_by_model[of_column or model].extend(predicted)
        if isinstance(reader, RowReader):
            _check_options_read(path, reader, rows_by_model)
        for model, rows in rows_by_model.items():
            is_stated = any(row.protocol for row in rows)
            presentations = not is_stated and any(row.presentation for row in rows)
            rows, of_confidences = _without_confidences(rows, of_model)
            of_verdicts = of_model.column("verdict") or of_model.column("reading")
            judge = _column_of_judge(of_model)
            others = _other_verdicts(of_model)
            recorded = _recorded_verdicts(rows, of_verdicts, others, is_judged=bool(judge))
            of_readings: tuple[str, ...] = ()
            if reading.verdicts:
                rows = without_shared_ids(rows)
            whole = _with_base_ids(_without_placeholders(_with_references_joined(rows)))
            of_questions = () if reading.is_joined else _questions_missing(whole)
            if not _are_options_shown(whole):
                whole, of_readings = _as_read(whole)
            files.append(
                PredictionFile(
                    rows=tuple(whole),
                    repeats=presentations,
                    title=title,
                    model=model,
                    metrics=metrics,
                    judged=judge if recorded else "",
                    likely_answers=likely_answers,
                    notes=(
                        *of_metrics,
                        *reading.notes,
                        *of_parts,
                        *of_conditions,
                        *of_only_model,
                        *reader.notes,
                        *reader.findings.notes(),
                        *of_questions,
                        *_repeated_questions(whole),
                        *of_confidences,
                        *recorded,
                        *of_readings,
                        *_on_rates_of_errors(whole, metrics, of_model),
                    ),
                )
            )
    if not any(file.rows for file in files):
        reasons = "; ".join(note for file in files for note in file.notes) or "it is empty"
        raise DataError(f"{path}: no row can be used ({reasons})")
    return files


_OPTION_UNREAD = (
    "rows left out, whose right answer is none of their options",
    "rows left out, whose answer names an option that they do not have",
    "rows left out, whose right answer is none of the options in their prompt",
)
FEWEST_UNREAD = 20
"""A file is refused only if at least this many rows were left out because of their options."""


def _check_options_read(
    path: Path, reader: RowReader, rows_by_model: Mapping[str, Sequence[PredictedRow]]
) -> None:
    """Raise DataError if most rows with options were left out because their right answers are none of the options.

    An accuracy over the few other rows would mislead.

    Args:
        path: The file.
        reader: The reader, whose findings say which rows were left out.
        rows_by_model: The rows that could be used.
    """
    unread = [name for kind in _OPTION_UNREAD for name in reader.findings.names(kind)]
    n_read = sum(bool(row.options) for rows in rows_by_model.values() for row in rows)
    if len(unread) < FEWEST_UNREAD or len(unread) <= n_read:
        return
    raise DataError(
        f"{path}: the right answers of {len(unread):,} of {len(unread) + n_read:,} rows with options name none of these "
        f"({', '.join(unread[:3])}, ...), so a number would be of the few others; write each right answer as its option is "
        f"written, or {how_to_give_answers(path, [row.cells for row in reader.rows])}"
    )


OFTEN = 0.15
"""A column may hold right answers if its cells occur in at least this share of the replies."""
FEWEST_LIKELY = 3
"""The fewest different cells of such a column."""
LONGEST_LIKELY = 8
"""The most words of its cells, on average."""


def _likely_answers(reading: TableReading) -> tuple[str, Said] | None:
    """Return the column that may hold right answers although its name does not say so, judged by its cells.

    Its cells often occur in the replies of their own rows. They must do so at most half as often in
    the replies of other rows, or else they are words that all replies use. A cell that also occurs
    in the question does not count.

    Returns:
        The column, and how often its cells occur in replies; None if there is no such column.
    """
    roles = reading.roles
    reply_column = first_column(roles.roles, "reply")
    used = {name for role, names in roles.roles.items() if role != "tag" for name in names}
    questions: list[str] = []
    replies: list[str] = []
    for row in reading.rows:
        questions.append(in_whole_words(text_in_cell(row.cells.get(reading.column("question")))))
        [reply, *_] = replies_in_cell(row.cells.get(reply_column)) or ("",)
        replies.append(in_whole_words(reply))

    found: dict[str, Said] = {}
    for name, profile in roles.profiles.items():
        is_short = profile.is_scalar and profile.words <= LONGEST_LIKELY
        if name in used or not is_short or says_of_reply(name, profile):
            continue
        if len(profile.texts) < FEWEST_LIKELY or name_score("reading", name):
            continue
        words: list[list[str]] = []
        for row in reading.rows:
            values = listed(row.cells.get(name)) or [text_in_cell(row.cells.get(name))]
            words.append([in_whole_words(str(value)) for value in values])
        said = how_often_said(replies, words, questions)
        if said.share >= OFTEN and 2 * said.share_elsewhere <= said.share:
            found[name] = said
    if not found:
        return None
    likely = max(found, key=lambda name: found[name].share)
    return likely, found[likely]


CONFIRMED = 0.97
"""The share of rows in which the verdict has to agree with whether the cell occurs in the reply."""


def _answer_by_verdicts(rows: Sequence[SourceRow], roles: TableRoles) -> tuple[str, ...]:
    """Return the column that must hold the right answers according to the file's own verdicts.

    Its cells occur in almost all replies that are marked as right, and in almost no others. The
    result is the name of the column alone; empty if there is none, or if fewer than five replies
    are marked as right or as wrong.
    """
    verdict_of = first_column(roles.roles, "verdict")
    reply_of = first_column(roles.roles, "reply")
    judged: list[tuple[SourceRow, str, bool]] = []
    for row in rows:
        verdict = verdict_of_cell(text_in_cell(row.cells.get(verdict_of)))
        [reply, *_] = replies_in_cell(row.cells.get(reply_of)) or ("",)
        if verdict in (0, 1) and reply:
            judged.append((row, in_whole_words(reply), verdict == 1))
    n_right = sum(is_right for _, _, is_right in judged)
    if not FEWEST_CONFIRMED <= n_right <= len(judged) - FEWEST_CONFIRMED:
        return ()
    for name, profile in roles.profiles.items():
        if name in (verdict_of, reply_of) or not profile.is_scalar or is_name_of_reply(name):
            continue
        if len(profile.texts) < FEWEST_LIKELY or name_score("reading", name):
            continue
        n_alike = 0
        for row, reply, is_right in judged:
            words = in_whole_words(text_in_cell(row.cells.get(name)))
            n_alike += (bool(words.strip()) and words in reply) == is_right
        if n_alike >= CONFIRMED * len(judged):
            return (name,)
    return ()


FEWEST_CONFIRMED = 5
"""The fewest replies marked as right, and marked as wrong, from which the right answers can be found by verdicts."""


def _is_of_column(name: str, reply: str) -> bool:
    """Return whether a column is named after a column of replies and one more word: `gpt_4o_correct` for `gpt_4o`.

    Args:
        name: The name of the column, in small letters.
        reply: The name of the column of replies, in small letters.
    """
    return name.startswith(f"{reply}_") or name.endswith(f"_{reply}")


def _own_part(reply: str, replies: Sequence[str]) -> str:
    """Return the part of a column's name that tells it from the other columns of replies: `gpt4` for `answer_gpt4`.

    The text is empty if the names do not have the same first word.
    """
    words, _, own_part = folded_name(reply).partition("_")
    is_shared = all(folded_name(name).startswith(f"{words}_") for name in replies)
    return own_part if is_shared and len(replies) > 1 else ""


def _with_verdicts_of(reading: TableReading, reply: str) -> TableReading:
    """Return a reading with the verdicts on one of several models: `base_correct` for the replies `base_output`.

    If no column of verdicts is named after the model, the reading has none: those of another model
    do not apply.

    Args:
        reading: The table.
        reply: The column with the replies of the model.
    """
    if reading.verdicts:
        roles = {**reading.roles.roles, "verdict": (reply,)}
        return replace(reading, roles=replace(reading.roles, roles=roles))
    model, _, _ = reply.partition("_")
    replies = reading.roles.roles.get("reply", ())
    own_part = _own_part(reply, replies)
    of_model: dict[str, ColumnProfile] = {}
    for name, profile in reading.roles.profiles.items():
        is_of_model = name.partition("_")[0] == model
        is_of_reply = _is_of_column(folded_name(name), folded_name(reply))
        is_of_own_part = bool(own_part) and _is_of_column(folded_name(name), own_part)
        if name not in replies and (is_of_model or is_of_reply or is_of_own_part):
            of_model[name] = profile
    roles = {**reading.roles.roles, "verdict": verdict_column(of_model)}
    return replace(reading, roles=replace(reading.roles, roles=roles))


def _without_unjudged(reading: TableReading) -> TableReading:
    """Return a table of several models without the rows in which none of them has a verdict, if a judge judged them all.

    The authors left these questions out, for example as improper ones. Some models may not even have replies to them,
    which would otherwise count as wrong.
    """
    replies = reading.roles.roles.get("reply", ())
    if len(replies) < 2 or reading.verdicts:
        return reading
    verdicts = [_with_verdicts_of(reading, reply).column("verdict") for reply in replies]
    if not all(name and is_judged(name, ()) for name in verdicts):
        return reading
    judged: list[SourceRow] = []
    others: list[str] = []
    for row in reading.rows:
        if any(text_in_cell(row.cells.get(name)) for name in verdicts):
            judged.append(row)
        else:
            others.append(place_of(row))
    if not others or len(judged) < MOSTLY_JUDGED * len(reading.rows):
        return reading
    note = f"rows left out, on which the file has no verdict of any model: {count_named(others)}"
    return replace(reading, rows=tuple(judged), notes=(*reading.notes, note))


MOST_CONDITIONS = 20
"""The most different values of a column of conditions."""
_OF_RUNS = re.compile(
    r"(?:run|seed|trial|repeat|repetition|iteration|attempt)s?[-_ ]?\d*", re.IGNORECASE
)
"""Names of columns, and of parts, that number runs of one model."""


def _columns_of_conditions(reading: TableReading) -> tuple[str, ...]:
    """Return the columns that say which model, run or way of asking a row is of.

    A table may have several rows for a question, such as one for each value of `run`. Each value
    then gets a result of its own. Such a column is that of the models, the part of the file
    (`{"direct": [...], "cot": [...]}`), or any other one if the rows of each of its values ask the
    same questions, once each. If the table has no texts of questions, the column or its values also
    have to be named like runs.

    Returns:
        The columns; empty for most files. In files that `snellen export` wrote, several rows of a
        question are repetitions of one run, so only the column of models is returned.
    """
    roles = reading.roles.roles
    models = roles.get("model", ())[:1]
    keys = _keys_of_questions(reading)
    if len(set(keys)) < 2 or reading.is_of_form or is_exported(reading.rows):
        return models
    if models and _ask_the_same(reading, models, keys):
        return models

    further = [PART] if any(PART in row.cells for row in reading.rows) else []
    if not reading.is_joined:
        further += [name for name in roles.get("tag", ()) if name != PART]
    for name in further:
        values = {text_in_cell(row.cells.get(name)) for row in reading.rows}
        are_runs = _OF_RUNS.fullmatch(name) or all(map(_OF_RUNS.fullmatch, values))
        if not 2 <= len(values) <= MOST_CONDITIONS or "" in values or name in models:
            continue
        if not are_runs and not reading.column("question") and not reading.column("prompt"):
            continue
        may_lack_rows = name == PART or bool(are_runs)
        if _ask_the_same(reading, (*models, name), keys, may_lack_rows=may_lack_rows):
            return (*models, name)
    return models


def _keys_of_questions(reading: TableReading) -> list[str]:
    """Return a text for each row that is equal for rows of the same question: its id, text, images, options and answer."""
    roles = reading.roles.roles
    columns: list[str] = []
    for role in ("id", "question", "prompt", "answer"):
        columns += roles.get(role, ())[:1]
    keys: list[str] = []
    for row in reading.rows:
        texts = [text_in_cell(row.cells.get(name)) for name in columns]
        options = [row.cells.get(name) for name in roles.get("options", ())]
        keys.append(repr([texts, options, image_names(row.cells, roles.get("image", ()))]))
    return keys


def _ask_the_same(
    reading: TableReading,
    columns: Sequence[str],
    keys: Sequence[str],
    *,
    may_lack_rows: bool = True,
) -> bool:
    """Return whether rows with each value of some columns ask the same questions, once each.

    Args:
        reading: The table.
        columns: The columns. Rows belong together if they have the same values in all of them.
        keys: A text for each row that is equal for rows of the same question.
        may_lack_rows: Whether a value may lack up to half of the questions, as an unfinished run
            does. Other columns, such as the room that an image shows, may have a few questions in
            common by chance.
    """
    asked: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row, key in zip(reading.rows, keys, strict=True):
        asked[tuple(text_in_cell(row.cells.get(name)) for name in columns)].append(key)
    most = set(max(asked.values(), key=len))
    for of_value in asked.values():
        is_once = len(set(of_value)) == len(of_value)
        fewest = len(most) / 2 if may_lack_rows else len(most)
        if not is_once or not most.issuperset(of_value) or len(of_value) < fewest:
            return False
    return True


def _name_of_condition(column: str, row: SourceRow) -> str:
    """Return the value of a row in a column of models or conditions, as a name.

    A number or truth value is put after the name of the column: `run 2`, `zoomed true`.
    """
    value = text_in_cell(row.cells.get(column))
    is_bare = is_number(value) or value.casefold() in ("true", "false", "yes", "no")
    return f"{column.rpartition('.')[2]} {value}" if is_bare else value


def _only_model(reading: TableReading, column: str) -> tuple[str, tuple[str, ...]]:
    """Return the only model that a table names, if some rows leave it out, and a note about those rows.

    Args:
        reading: The table.
        column: The column of models; may be empty.

    Returns:
        The model and the note. Both are empty if all rows name a model, if there are several
        models, or if the rows without a name ask the same questions as the others: they are then
        probably the replies of another model.
    """
    if not column:
        return "", ()
    counts = Counter(text_in_cell(row.cells.get(column)) for row in reading.rows)
    named = [model for model in counts if model]
    if len(named) != 1 or not counts[""]:
        return "", ()
    [model] = named
    asked: dict[str, list[str]] = defaultdict(list)
    for row, key in zip(reading.rows, _keys_of_questions(reading), strict=True):
        asked[text_in_cell(row.cells.get(column))].append(key)
    are_asked_once = all(len(set(keys)) == len(keys) for keys in asked.values())
    if are_asked_once and not set(asked[model]).isdisjoint(asked[""]):
        return "", ()
    note = f"{column!r} is empty in {counts['']:,} rows, which are taken for rows of {model} as the others are"
    return model, (note,)


def _model_in_name(reading: TableReading) -> str:
    """Return the model after which the only column of replies is named: `trocr` for `trocr_transcription`; else empty."""
    reply = reading.column("reply")
    if reading.roles.roles.get("reply") != replies_by_noun(reading.roles.profiles):
        return ""
    return reply.strip().rpartition("_")[0]


MOST_PARTS_NAMED = 4
"""Parts of a file that a note names."""


def _parts_with_same_ids(reading: TableReading) -> tuple[str, ...]:
    """Return the parts of a file if ids begin anew in each of them, so that equal ids are different questions.

    In `{"left": [{"id": 1}], "right": [{"id": 1}]}`, these are `left` and `right`. The result is
    empty for most files, and if parts are named after models, which may have been asked the same
    questions.
    """
    column = reading.column("id")
    if not column or reading.is_joined:
        return ()
    ids_by_part: dict[str, list[str]] = defaultdict(list)
    for row in reading.rows:
        part = text_in_cell(row.cells.get(PART))
        name = text_in_cell(row.cells.get(column))
        if not part or not name:
            return ()
        ids_by_part[part].append(name)
    all_ids: set[str] = set()
    is_any_shared = False
    for part, ids in ids_by_part.items():
        if len(set(ids)) < len(ids) or is_name_of_model(part):
            return ()
        is_any_shared = is_any_shared or not all_ids.isdisjoint(ids)
        all_ids.update(ids)
    return tuple(ids_by_part) if is_any_shared else ()


def _of_part(rows: Iterable[PredictedRow], part: str) -> Iterator[PredictedRow]:
    """Yield rows with the part of the file in their ids: `1 (left)`. Rows with equal ids before stay one group."""
    for row in rows:
        yield replace(row, id=f"{row.id} ({part})", group=row.group or row.picture or row.id)


CAPTIONS = ("cider", "rouge_l")
_CER = ("character_error_rate", "word_accuracy")
_WER = ("word_error_rate", "character_error_rate")
_ANLS = ("anls", "contains_answer", "exact_match")
_EXACT = ("em", "exact_match")
"""Names of a score that is no verdict beside another one, which knows more than whether texts are equal."""
_OF_FIELDS = ("exact_match", "typed_match")
_RELAXED = ("relaxed_accuracy", "legacy_relaxed_accuracy")
_SCORES = {
    "cer": _CER,
    "character_error_rate": _CER,
    "wer": _WER,
    "word_error_rate": _WER,
    "anls": _ANLS,
    "relaxed_accuracy": _RELAXED,
    "relaxed_acc": _RELAXED,
    "relaxed_correctness": _RELAXED,
}
"""The metrics for a file that has a column with a score of each row, by the name of that column."""
_TRANSCRIPTS = frozenset(("transcript", "transcription", "gt_transcript", "gt_transcription"))
"""Names of columns with the right transcripts of speech or writing."""
_CHART_HALVES = ({"human", "augmented"}, {"test_human", "test_augmented"})
"""How files call the halves of ChartQA's test split (Masry et al. 2022), which is scored by relaxed accuracy."""


def _metrics_of_columns(reading: TableReading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the metrics that the columns of a file call for, and a note about them; both empty for most files.

    For example, a column `anls` shows that its authors scored replies by ANLS.
    """
    if reading.column("options") or reading.column("distractors"):
        return (), ()
    if FIELD in reading.roles.profiles:
        fields = ", ".join(reading.roles.profiles[FIELD].texts)
        note = f"objects of right answers and of replies, of which each field is a question ({fields}): {_OF_FIELDS[0]}"
        return _OF_FIELDS, (note,)
    answer = folded_name(reading.column("answer").rpartition(".")[2])
    if answer.endswith(("caption", "captions")) and not reading.column("question"):
        return CAPTIONS, (f"the right answers are captions: {CAPTIONS[0]}",)
    if answer in _TRANSCRIPTS:
        words = split_name(reading.path.name.partition(".")[0].replace("-", "_"))
        metrics = _CER if words.isdisjoint(_OF_SPEECH) else _WER
        return metrics, (f"the right answers are transcripts: {metrics[0]}",)
    scored: dict[tuple[str, ...], str] = {}
    for name in reading.roles.profiles:
        called = folded_name(name.rpartition(".")[2])
        metrics = _SCORES.get(called.removesuffix("_score"))
        if metrics is not None:
            scored.setdefault(metrics, name)
    if _CER in scored:
        scored.pop(_WER, None)  # files about writing often have both, and characters tell more
    for metrics, name in scored.items():
        return metrics, (_scores_note(reading, name, metrics[0]),)
    if transcribed := _metrics_of_transcripts(reading):
        return transcribed, (f"the replies are transcripts: {transcribed[0]}",)
    for name in reading.roles.profiles:
        first = text_in_cell(reading.rows[0].cells.get(name)).casefold()
        if not any(first in halves for halves in _CHART_HALVES):
            continue
        values = {text_in_cell(row.cells.get(name)).casefold() for row in reading.rows}
        if values in _CHART_HALVES:
            note = (
                f"{name!r} has the halves of ChartQA's test split: {_RELAXED[0]}, by which numbers may be 5 % off and years "
                f"may not; {_RELAXED[1]} has no rule for years"
            )
            return _RELAXED, (note,)
    if reading.column("answer") and (sign := _sign_of_documents(reading)):
        return _ANLS, (f"{sign} says that the questions are of DocVQA's kind: {_ANLS[0]}",)
    if reading.column("answer") and _lists_spellings(reading):
        note = f"the right answers of a row are spellings of one text in small and capital letters, as DocVQA's are: {_ANLS[0]}"
        return _ANLS, (note,)
    return (), ()


FEWEST_SPELLED = 10
"""A file may be about documents if at least this many rows have several spellings of one text as right answers."""


def _lists_spellings(reading: TableReading) -> bool:
    """Return whether right answers are often lists of spellings that differ only in capitals.

    `ITC Limited` and `itc limited` are an example. This is a sign of DocVQA, whose annotators
    copied texts as printed or in small letters (Mathew et al. 2021).
    """
    column = reading.column("answer")
    n_several = 0
    n_spelled = 0
    for row in reading.rows:
        texts = {str(text).strip() for text in listed(row.cells.get(column)) or ()}
        n_several += len(texts) > 1
        n_spelled += len({text.casefold() for text in texts}) < len(texts)
    return n_spelled >= FEWEST_SPELLED and 2 * n_spelled > n_several


_OF_DOCUMENTS = ("docvqa", "documentvqa", "infographicvqa", "infographicsvqa", "infovqa")
"""Names of data sets of scanned documents (Mathew et al. 2021), which are scored by ANLS, without the signs in them."""
_DOCUMENT_IDS = frozenset(("docid", "doc_id", "document_id"))
_QUESTION_IDS = frozenset(("questionid", "question_id"))
_ARCHIVE_ID = "ucsf_document_id"
"""The column of DocVQA's annotations with the id in the archive that its documents are from."""


def _sign_of_documents(reading: TableReading) -> str:
    """Return what shows that the questions of a file are about documents, as those of DocVQA: `the file's name`.

    The text is empty if nothing does, or if the file's name is that of a benchmark of the
    catalogue, which is then believed.
    """
    title = reading.path.name.partition(".")[0]
    if known_benchmark(title) is not None:
        return ""
    if _names_documents(title):
        return "the file's name"
    folded_names = {folded_name(name.rpartition(".")[2]): name for name in reading.roles.profiles}
    if _ARCHIVE_ID in folded_names:
        return f"the column {folded_names[_ARCHIVE_ID]!r}"
    document = next((folded_names[name] for name in _DOCUMENT_IDS & folded_names.keys()), "")
    if document and _QUESTION_IDS & folded_names.keys():
        return f"the column {document!r}"
    for name in reading.roles.profiles:
        if _names_documents(name):
            return f"the column {name!r}"
    for name in reading.roles.roles.get("image", ()):
        paths = [image_names(row.cells, (name,)) for row in reading.rows]
        if all(map(_names_documents, paths)):
            return f"the image's path in {name!r}"
    return ""


def _names_documents(text: str) -> bool:
    letters = "".join(character for character in text.casefold() if character.isalnum())
    return any(name in letters for name in _OF_DOCUMENTS)


_OF_SPEECH = frozenset("audio wav speech asr wer hypothesis utterance".split())
_OF_WRITING = frozenset(
    "ocr cer transcript transcription transcribed handwriting handwritten".split()
)
"""Words in names of columns beside transcripts of speech, and of writing."""
_ASKS_TO_TRANSCRIBE = re.compile(
    r"\btranscri\w+|\bocr\b|\b(?:read|extract|write (?:down|out)|recogni[sz]e) (?:out )?(?:all |the )+(?:\w+ )?text\b",
    re.IGNORECASE,
)
FEWEST_TRANSCRIBED = 4
"""Words of transcripts, in half of them at least; shorter ones are words to be recognised."""
FEWEST_COPIED = 10
NEAR = 0.2
"""Replies to long texts are transcripts, even without any other sign, if half of them need at most
this many edits per character."""
FARTHEST = 0.5
"""The most edits per character that half of the transcripts may need. Replies farther away say something else."""


def _metrics_of_transcripts(reading: TableReading) -> tuple[str, ...]:
    """Return the metrics for transcripts of speech or writing, if the replies are such; else empty.

    Prompts, names of columns, or texts that nearly equal the long right answers show that they are.
    """
    words = {word for name in reading.roles.profiles for word in split_name(name)}
    asks = _ASKS_TO_TRANSCRIBE
    n_asking = 0
    lengths: list[int] = []
    rates: list[float] = []
    for row in reading.rows:
        gold = text_in_cell(row.cells.get(reading.column("answer")))
        [reply, *_] = replies_in_cell(row.cells.get(reading.column("reply"))) or ("",)
        if not gold or not reply:
            continue
        asked = text_in_cell(row.cells.get(reading.column("prompt") or reading.column("question")))
        n_asking += asks.search(asked) is not None
        lengths.append(len(gold.split()))
        if len(rates) < MOST_COMPARED:
            rates.append(character_error_rate(reply, [gold]) if gold.strip() else 1.0)
    if not rates or median(lengths) < FEWEST_TRANSCRIBED or median(rates) > FARTHEST:
        return ()
    is_of_images = bool(reading.roles.roles.get("image"))
    if words & (_OF_SPEECH - {"hypothesis"} if is_of_images else _OF_SPEECH):
        return _WER
    is_long = len(rates) >= FEWEST_COPIED and median(lengths) >= LONG_TEXT_WORDS
    is_copied = is_long and median(rates) <= NEAR
    is_called_so = words & _OF_WRITING or is_transcribed(reading.column("reply"))
    return _CER if is_called_so or 2 * n_asking > len(lengths) or is_copied else ()


MOST_COMPARED = 100
"""Replies that are compared with their right answers to see whether they are transcripts."""


def _scores_note(reading: TableReading, column: str, metric: str) -> str:
    """Return a note about a column with a score of each row: its mean, and the metric that is computed because of it."""
    texts = [text_in_cell(row.cells.get(column)) for row in reading.rows]
    numbers = [float(text) for text in texts if is_number(text)]
    scores = [number for number in numbers if math.isfinite(number)]
    mean = ""
    if scores:
        average = sum(scores) / len(scores)
        above_zero = [score for score in scores if score > 0]
        are_shares = not above_zero or median(above_zero) <= 1  # others are percentages already
        mean = f", {average:.1%} on average" if are_shares else f", {average:.1f} on average"
    return f"the file has a score of each row in {column!r}{mean}: {metric}"


def _recorded_verdicts(
    rows: Sequence[PredictedRow], column: str, others: str, *, is_judged: bool
) -> list[str]:
    """Return a note with the share of replies that the file itself marks as right.

    Args:
        rows: The rows.
        column: The column with the verdicts, for the note.
        others: What other columns of verdicts say, for the note; may be empty.
        is_judged: Whether a judge gave the verdicts, who may have left out some rows.

    Returns:
        A list with the note; empty unless nearly all rows have a verdict.
    """
    fewest = MOSTLY_JUDGED if is_judged else MOSTLY
    verdicts = [row.verdict for row in rows if row.verdict is not None]
    if not verdicts or len(verdicts) < fewest * len(rows):
        return []
    share = sum(verdicts) / len(verdicts)
    note = f"the file's own verdicts, in {column!r}: {share:.1%} of {len(verdicts):,} right{others}"
    if any(row.gold or row.references for row in rows):
        note += "; if that differs from the number here, `snellen reconcile FILE RUN` says why"
    if len(verdicts) < MOSTLY * len(rows):
        note += f"; {len(rows) - len(verdicts):,} rows have none"
    return [note]


MOST_OTHER_VERDICTS = 4
"""Further columns of verdicts that a note names."""


def _other_verdicts(reading: TableReading) -> str:
    """Return the end of a note about further columns of verdicts, with their shares; often empty.

    Several columns may say whether a reply is right. The note also says how to use another one.
    """
    column = reading.column("verdict")
    if not column:
        return ""
    taken = reading.roles.profiles.get(column)
    used = {name for role, names in reading.roles.roles.items() if role != "tag" for name in names}
    shares: dict[str, float] = {}
    for name, profile in reading.roles.profiles.items():
        is_called_verdict = is_verdict(name) or is_field_of_verdicts(name, reading.roles.profiles)
        if name in used or not is_called_verdict or not are_binary(profile):
            continue
        if taken is not None and profile.texts == taken.texts:
            continue
        read = [verdict_of_cell(text_in_cell(row.cells.get(name))) for row in reading.rows]
        verdicts = [verdict for verdict in read if verdict is not None]
        if len(verdicts) >= MOSTLY * len(reading.rows):
            shares[name] = sum(verdicts) / len(verdicts)
    if not shares:
        return ""
    named = list(shares)[:MOST_OTHER_VERDICTS]
    listed_shares = ", ".join(f"{name!r}: {shares[name]:.1%}" for name in named)
    other = setting("columns", {"verdict": "NAME"})
    return f" ({listed_shares}; {other} takes another)"


FAR_TOO_LONG = 3
"""A transcript more than this many times as long as the right text shows that the model repeated itself."""
MOST_ADDED = 0.1
"""There is no note if such replies add less than this to the mean rate of errors."""
LEAST_DIFFERENCE = 0.01
"""There is no note on the rate over all characters if it differs from the mean rate by less than this."""


def _on_rates_of_errors(
    rows: Sequence[PredictedRow], metrics: Sequence[str], reading: TableReading
) -> tuple[str, ...]:
    """Return notes about a mean rate of errors that a few transcripts determine, or that pooling changes; often empty.

    A model that repeats itself endlessly writes transcripts far longer than the right text. Such a
    reply has at least as many errors as it has characters more than that text, so one reply can
    count as much as hundreds.
    """
    if metrics not in (_CER, _WER):
        return ()
    notes: list[str] = []
    added: dict[str, float] = {}
    n_edits = 0.0
    n_characters = 0
    rates: list[float] = []
    for row in rows:
        length = max(map(len, row.references), default=0)
        if not row.reply or not length:
            continue
        if len(row.reply) > FAR_TOO_LONG * length:
            added[row.where] = len(row.reply) / length - 1
        if metrics == _CER and len(row.references) == 1 and row.references[0].strip():
            rate = character_error_rate(row.reply, row.references)
            rates.append(rate)
            n_edits += rate * length
            n_characters += length
    if sum(added.values()) >= MOST_ADDED * len(rows):
        place, most = max(added.items(), key=lambda item: item[1])
        notes.append(
            f"transcripts that are more than {FAR_TOO_LONG} times as long as the right text, as of a model that repeats itself: "
            f"{len(added)} of {len(rows):,}; they add at least "
            f"{sum(added.values()) / len(rows):.2f} to the mean rate of errors ({place} alone {most / len(rows):.2f})"
        )
        notes += _own_measures(reading)
    if rates and abs(n_edits / n_characters - sum(rates) / len(rates)) >= LEAST_DIFFERENCE:
        notes.append(
            "the character error rate is the mean over the rows; over all characters of the file together it is "
            f"{n_edits / n_characters:.3f}"
        )
    return tuple(notes)


def _own_measures(reading: TableReading) -> tuple[str, ...]:
    """Return a note with the mean of each column that, by its name, has a score from 0 to 1 of each row; else empty."""
    means: list[str] = []
    for name in reading.roles.profiles:
        if METRIC_WORDS.isdisjoint(folded_name(name).split("_")):
            continue
        texts = [text_in_cell(row.cells.get(name)) for row in reading.rows]
        scores = [float(text) for text in texts if is_number(text)]
        if len(scores) >= MOSTLY * len(texts) and all(0 <= score <= 1 for score in scores):
            means.append(f"{name!r} {sum(scores) / len(scores):.1%}")
    return (
        (f"the file's own measures, on average over its rows: {', '.join(means)}",) if means else ()
    )


FEWEST_RIGHT = 5
"""The fewest replies equal to their right answers from which one can see whether scores are verdicts."""


def _without_confidences(
    rows: Sequence[PredictedRow], reading: TableReading
) -> tuple[Sequence[PredictedRow], tuple[str, ...]]:
    """Return the rows without their verdicts if these are something else, such as how sure the model is.

    They are if most lie between 0 and 1, and most replies that are surely right do not have the
    highest score.

    Returns:
        The rows, and a note if their verdicts were dropped; otherwise the second is empty.
    """
    column = reading.column("verdict")
    scores = [row.verdict for row in rows if row.verdict is not None]
    n_between = sum(0 < score < 1 for score in scores)
    if 2 * n_between <= len(scores) or is_judged(column, ()) or reading.column("judge"):
        return rows, ()
    right = [row.verdict for row in rows if row.verdict is not None and is_surely_right(row)]
    n_highest = sum(score > 1 - ROUNDED for score in right)
    if len(right) < FEWEST_RIGHT or 2 * n_highest > len(right):
        return rows, ()
    mean = sum(right) / len(right)
    note = (
        f"the numbers in {column!r} are no verdicts, such as how sure the model is: replies that repeat the right answer "
        f"have {mean:.2f} on average"
    )
    return [replace(row, verdict=None) for row in rows], (note,)


def _repeated_questions(rows: Sequence[PredictedRow]) -> tuple[str, ...]:
    """Return a note if a file without ids has each question equally often, such as once for each model; else empty."""
    if any(row.id or row.presentation is not None for row in rows):
        return ()
    asked = Counter(
        (row.picture, row.question or row.prompt, row.references, row.options, row.gold)
        for row in rows
    )
    [count, *others] = set(asked.values()) or {0}
    if others or count < 2 or len(asked) < 2 or not any(row.question or row.prompt for row in rows):
        return ()
    return (
        f"each of {len(asked):,} questions is in the file {count} times, as for several models or runs that no column tells "
        f"apart: the number is of all {len(rows):,} rows",
    )


def _column_of_judge(reading: TableReading) -> str:
    """Return the column of verdicts if a judge gave them; else empty.

    A judge is a model or person who compares replies with right answers. The name of the column, or
    another column, tells.
    """
    column = reading.column("verdict")
    judged = is_judged(column, ()) or bool(reading.column("judge"))
    return column if judged else ""


def _without_placeholders(rows: Sequence[PredictedRow]) -> Sequence[PredictedRow]:
    """Return the rows without their prompt if all have the same, because it then says nothing about their questions."""
    prompts = {row.prompt for row in rows}
    if len(rows) < 2 or len(prompts) > 1 or not all(row.id and not row.question for row in rows):
        return rows
    return [replace(row, prompt="") for row in rows]


def _with_references_joined(rows: Sequence[PredictedRow]) -> Sequence[PredictedRow]:
    """Return rows in which each caption of a model stands beside one right caption as one row with all right captions.

    This is done only if rows have no questions, each image has one reply, right answers are
    captions, and no other column distinguishes the rows. Otherwise rows of one image may be several
    questions about it, as in POPE; they are then returned as they are.
    """
    joined: dict[str, PredictedRow] = {}
    facts_by_picture: dict[str, dict[str, str]] = {}
    n_words = 0
    for row in rows:
        if row.question or row.prompt or row.options or not row.picture or not row.references:
            return rows
        known = joined.get(row.picture, row)
        facts = _facts_in_words(row)
        if row.reply != known.reply or facts != facts_by_picture.setdefault(row.picture, facts):
            return rows
        n_words += word_count(row.references[0])
        references = (
            (*known.references, *row.references) if row.picture in joined else row.references
        )
        joined[row.picture] = replace(known, references=references, verdict=None)
    are_captions = n_words >= CAPTION_WORDS * len(rows)
    is_repeated = 2 * len(joined) <= len(rows)
    return list(joined.values()) if is_repeated and are_captions else rows


def _facts_in_words(row: PredictedRow) -> dict[str, str]:
    """Return what other columns say about a row, without numbers, which may be scores or ids of right captions."""
    return {name: text for name, text in row.tags.items() if text and not is_number(text)}


def _questions_missing(rows: Sequence[PredictedRow]) -> tuple[str, ...]:
    """Return a note if a file has several rows about one image, but not their questions; else empty."""
    if any(row.question or row.prompt or row.options for row in rows):
        return ()
    pictures = Counter(row.picture for row in rows if row.picture and row.presentation is None)
    n_shared = sum(count for count in pictures.values() if count > 1)
    if not n_shared:
        return ()
    return (
        f"the file has no questions, and {n_shared:,} rows share their image with others: each row counts as a question of "
        "its own",
    )


def _with_base_ids(rows: Sequence[PredictedRow]) -> list[PredictedRow]:
    """Return the rows with the same id for all rotations of a question.

    Files for CircularEval add a multiple of a large number to the id of a question for each
    rotation of its options.
    """
    questions = {row.id: row.question for row in rows if row.id}
    result: list[PredictedRow] = []
    for row in rows:
        base = _base_id(row.id) if row.options else row.id
        is_rotation = base != row.id and row.question and questions.get(base) == row.question
        result.append(replace(row, id=base) if is_rotation else row)
    return result


def _base_id(index: str) -> str:
    number = whole_number(index)
    return index if number is None else str(number % ROTATION_STEP)


FEW_LABELS = 0.05
"""The share of replies that may state a label by chance, although no options were shown."""
_STATES_LABEL = re.compile(
    r"\A\W*[A-Za-z](?:[.):]|\W*\Z)"
    r"|\b(?i:answer|option|choice)(?i: is| would be)?\W{0,6}[A-H]\b(?!\s+[a-z])"
    r"|\([A-H]\)|\bboxed\{\W*[A-H]\W*\}|\s[A-H]\W*\Z"
)
"""A label at the beginning of a reply, at its end, in brackets, or after a word that announces it."""


_ANNOUNCES_LABEL = re.compile(
    r"\A\W*[A-H](?:[.):]|\W*\Z)"
    r"|\b(?i:answer|option|choice)(?i: is| would be)?\W{0,6}[A-H]\b(?!\s+[a-z])|\bboxed\{\W*[A-H]\W*\}"
)
"""Like `_STATES_LABEL`, without letters that may belong to a calculation, as in "the capacity matrix (C)"."""


def _are_options_shown(rows: Sequence[PredictedRow]) -> bool:
    """Return whether prompts showed the options that a file has, judged by the prompts and by labels in the replies.

    Without prompts, the value is True.
    """
    with_options = [row for row in rows if row.options and row.reply]
    labelled = 0
    for row in with_options:
        prompt = row.prompt.casefold()
        if not prompt or all(option.casefold() in prompt for option in row.options):
            return True
        are_numbers = all(is_number(option) for option in row.options)
        label = _ANNOUNCES_LABEL if are_numbers else _STATES_LABEL
        labelled += label.search(row.reply or "") is not None
    return labelled > FEW_LABELS * len(with_options) or not with_options


def _as_read(rows: Sequence[PredictedRow]) -> tuple[Sequence[PredictedRow], tuple[str, ...]]:
    """Return the rows of a file whose model was not shown the options.

    A harness then often mapped each reply to an option. If nearly all rows have such an option in
    the file, it counts in place of the reply.

    Returns:
        The rows, and a note if those options count; otherwise the second is empty.
    """
    unshown = [replace(row, lists_options=False) for row in rows]
    read = 0
    for row in unshown:
        options = {option.casefold() for option in row.options}
        read += (row.reading or "").casefold() in options
    if read <= MOSTLY * len(unshown):
        return unshown, ()
    note = (
        "the prompts do not show the options, so what the file says was read in each reply counts"
    )
    return [replace(row, reply=row.reading) for row in unshown], (note,)
