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
    """Return the texts of a row's options, in order; an empty tuple for an open question.

    A table has its options in one of two ways. Either each option has a column (`A`, `B`, `C`,
    ...); then a row may leave the last ones empty, but none in between. Or one column contains the
    list of all options, such as `["cat", "dog"]`.

    Args:
        cells: The cells of the row by column; empty cells are not in it.
        source: What is known about the table, such as its option columns.
        where: File and line of the row, for error messages.

    Raises:
        DataError: An option before a filled one is empty, a listed option is null, or the cell is
            not a list of texts.
    """
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
    """Return the wrong options of a row in a table that stores them apart from the correct one.

    Such a table has the correct option in its answer column, and columns that contain only wrong
    options (distractors). Returns an empty tuple if the table has no such columns, or the row's are
    empty.
    """
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
        Two tuples, of which at most one has content. The first has the index of the correct option,
        from 0, if the row has options. The second has the accepted answers if it has none. Both are
        empty if the cell is empty, as in a table with hidden answers.

    Raises:
        DataError: The answer is not one of the options, or could mean two of them.
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
    """Raise DataError if a row without options has an answer such as `B` that names an option.

    This means that the row's options are missing. It is checked only in a table with option columns
    whose answers need not be texts.
    """
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
    """Return the index, from 0, of the option that an answer names by letter, by text or, in JSON,
    by index.

    Raises:
        DataError: The answer names no option, or could mean two: in `["B", "A"]`, the answer `A` is
            the letter of the first option and the text of the second.
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
    """Return an answer that is the index of an option, counted from 0, after checking it.

    Raises:
        DataError: There is no such option, or another option is the same number: with the options
            `[2, 1, 3]`, the answer 2 could mean the last option, whose index is 2, or the first
            one, whose text is 2. The answer 1 is fine, as option 1 also has the text 1.
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
    """Return the error for an answer that is not one of the options.

    If the answer is the text of several options, so that it is unclear which one is correct, the
    message says that instead.
    """
    text = as_text(answer).strip()
    letters = []
    for letter, option in zip(LETTERS, options, strict=False):
        if option.strip() == text:
            letters.append(letter)
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
