"""Options and answers of the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snellen.common.answer_forms import AnswerForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.listed_cells import listed
from snellen.readers.table_columns import TableColumns, TableSource, column_names
from snellen.recognition.folding import as_text
from snellen.recognition.named_option import named_option
from snellen.recognition.tables import accepted_texts, row_options


def option_texts_of(cells: Mapping[str, Any], source: TableSource, where: str) -> tuple[str, ...]:
    """Return the options of a row; empty for an open question. Raises DataError if they cannot be used."""
    if not source.options:
        return ()
    if source.has_option_columns:
        filled = [column for column in source.options if column in cells]
        if filled != list(source.options[: len(filled)]):
            raise DataError(
                f"{where}: option {filled[-1]} is given, but an option before it is empty"
            )
        return tuple(row_options(cells, source.options))

    [column] = source.options[:1]
    values = listed(cells.get(column, []))
    if values is not None and None in values:
        raise DataError(
            f"{where}: option {values.index(None) + 1} is null; write its text, or remove it"
        )
    options = tuple(row_options(cells, source.options))
    if not options and values != []:
        raise DataError(
            f"{where}: options must be a list of texts; in a table, use the columns A, B, ..."
        )
    return options


def wrong_texts(cells: Mapping[str, Any], columns: TableColumns) -> tuple[str, ...]:
    """Return the wrong options of a row, from the columns that contain only distractors; the correct option is in
    the answer column."""
    texts: list[str] = []
    for column in column_names(columns.distractors):
        if column in cells:
            texts += accepted_texts(cells[column])
    return tuple(texts)


def read_answer(
    cells: Mapping[str, Any], options: tuple[str, ...], source: TableSource, where: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Read the answer of a row.

    Returns:
        The indices of the correct options, and the accepted texts of an open question. Both are empty if the answer is
        hidden.

    Raises:
        DataError: The answer names no option, or more than one.
    """
    answer = cells.get(source.columns.answer)
    if answer is None or answer == "":
        return (), ()
    if not options:
        _check_open_answer(answer, source, where)
        return (), accepted_texts(answer)
    if source.answer_is == "any":
        return (_read_any_form(answer, options, cells, source, where),), ()

    letters = source.options if source.has_option_columns else ()
    index = named_option(answer, options, source.answer_is, columns=letters)
    if index is None:
        raise _no_such_option_error(source.answer_is, answer, options, where)
    return (index,), ()


def _check_open_answer(answer: Any, source: TableSource, where: str) -> None:
    """Raise DataError if an answer names an option in a row without options, although the table has options."""
    form: AnswerForm = "letter" if source.answer_is == "any" else source.answer_is
    if not source.options or form == "text":
        return
    if named_option(answer, LETTERS, form) is not None:
        raise DataError(
            f"{where}: there are no options, but the answer {as_text(answer)!r} names one; add the options, or write "
            "the answer as text"
        )


def _read_any_form(
    answer: Any, options: tuple[str, ...], cells: Mapping[str, Any], source: TableSource, where: str
) -> int:
    """Return the index of the option that an answer names by its letter, its text or, in JSON, its index.

    Raises DataError if it names none, or two.
    """
    if isinstance(answer, int) and not isinstance(answer, bool):
        return _read_index(answer, options, cells, source, where)

    index = named_option(answer, options)
    if index is None:
        raise _no_such_option_error("any", answer, options, where)
    text = as_text(answer).strip()
    by_text = named_option(text, options, "text")
    # In a table with columns A, B, C, ... a single letter always names its column.
    if len(text) == 1 and not source.has_option_columns and by_text not in (None, index):
        raise DataError(
            f"{where}: answer {text!r} is the text of one option and the letter of another; write the index of "
            "the correct option, counted from 0"
        )
    return index


def _read_index(
    answer: int, options: tuple[str, ...], cells: Mapping[str, Any], source: TableSource, where: str
) -> int:
    """Return an answer that is an index from 0.

    Raises DataError if there is no such option, or if another option is the same number.
    """
    if not 0 <= answer < len(options):
        raise DataError(f"{where}: answer {answer} but options are 0-{len(options) - 1}")
    if source.has_option_columns:
        values = [cells[column] for column in source.options if column in cells]
    else:
        values = listed(cells[source.options[0]]) or []
    for index, value in enumerate(values):
        if type(value) is not int or value != answer:
            continue
        if index == answer:
            break
        raise DataError(
            f"{where}: answer {answer} is the index of option {options[answer]} and also the text of another option; "
            f'write "{answer}" for the option {answer}, or "{options[answer]}" for the option {options[answer]}'
        )
    return answer


def _no_such_option_error(
    form: AnswerForm, answer: Any, options: Sequence[str], where: str
) -> DataError:
    """Return the error for an answer that names no option. Two options with the text of the answer get a message of
    their own."""
    text = as_text(answer).strip()
    letters = [
        letter for letter, option in zip(LETTERS, options, strict=False) if option.strip() == text
    ]
    if len(letters) > 1:
        return DataError(
            f"{where}: the options {' and '.join(letters)} are both {text!r}, like the answer; change one of them"
        )
    if form == "text":
        return DataError(f"{where}: answer {as_text(answer)!r} is not the text of an option")
    last_letter = LETTERS[len(options) - 1]
    return DataError(
        f"{where}: answer {as_text(answer)!r} is neither one of the letters {LETTERS[0]}-{last_letter} nor the text of "
        "an option"
    )
