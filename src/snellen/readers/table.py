"""A table of questions: rows of any form, whose columns are what an entry says, or else what they are recognised as.

`columns` names the column of each role, or several: `question` (required), `picture`, `options`, `answer`, `id` (else
the row's number), `context`, `group`, `relevance` (how right each option is, a list of numbers from 0 up) and `tag`
(columns that become tags; those named `tag_...` and `answer_tag_...` always do).
- A picture is a path relative to the file (or to `images`), base64, a data URL, bytes, or with `fetch_pictures` an
  address; or a list of these. As many marks `<image>` in the question say where several stand.
- Options are a column each, or one column with a list, also a list written as a text. Without any a question is open.
- `answer_is` says how an answer names an option: by `letter`, `text`, or number from 0 (`index0`) or 1 (`index1`);
  `any` takes a letter, a text or, in JSON, a number from 0, row by row, and refuses one that means two options. The
  answer of an open question is a text or a list of those accepted. It may be missing from the whole file.
Every cell is text: "NA", "None" and "5.0" stay as they are. An empty cell or a JSON null counts as missing.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.answer_forms import AnswerForm
from snellen.common.drafts import DistractorSpec, Draft, LazyImage, QuestionDraft, read_params
from snellen.errors import DataError, WrongRowsError
from snellen.formats.delimited import LETTERS, decode_base64
from snellen.formats.locate import PICTURE_FILE, PictureFinder
from snellen.formats.rows import SHEET, TEXTS, SourceRow, listed, read_rows
from snellen.recognition.answer_types import class_of
from snellen.recognition.columns import as_text, option_meant
from snellen.recognition.profiles import ENCODED, LOOKED_AT, URL
from snellen.recognition.tables import ANSWER_TAG, TAG, accepted_texts, row_options, table_roles
from snellen.registry import nearest_names

if TYPE_CHECKING:
    from snellen.fetching.image_urls import ImageDownloads

MARK = "<image>"
SHOWN_ROWS = 5
"""Rows that a note names."""
OneOrMore = str | tuple[str, ...]


class TableColumns(Struct, frozen=True, forbid_unknown_fields=True):
    """The column of each role."""

    question: str
    picture: OneOrMore = ()
    options: OneOrMore = ()
    distractors: OneOrMore = ()
    """Columns with wrong options; the answer column holds the correct one."""
    answer: str = ""
    id: str = ""
    context: str = ""
    group: str = ""
    relevance: str = ""
    tag: OneOrMore = ()
    unused: OneOrMore = ()
    """Columns that are left out on purpose; others that have no role are named in a note."""

    def used(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role that has some."""
        roles = {
            role: _names(getattr(self, role)) for role in self.__struct_fields__ if role != "unused"
        }
        return {role: names for role, names in roles.items() if any(names)}


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    """The file; of Parquet a pattern may mean several."""
    images: str = ""
    """Folder that image paths are relative to, and that holds all of them; the file's folder when empty."""
    columns: TableColumns | None = None
    """Recognised when missing."""
    answer_is: AnswerForm = "any"
    no_pictures: bool = False
    """Whether the questions have no pictures on purpose."""
    hidden_answers: bool = False
    """Whether the questions have no answers on purpose."""
    find_pictures: bool = False
    """Whether pictures are found anywhere below the folder by their names, with or without an ending."""
    encoding: str = ""
    """That of a delimited table which is not in UTF-8."""
    fetch_pictures: bool = False
    """Whether pictures at addresses are fetched."""
    make_options: bool = False
    """Whether open questions become multiple choice; other answers of the table are candidates for distractors."""
    classes: tuple[str, ...] = ()
    """The few answers that all open questions have, such as yes and no: they are the options to choose from."""


class TableSource(NamedTuple):
    """What is needed to read a row."""

    columns: TableColumns
    named: frozenset[str]
    """All columns that are named."""
    pictures: tuple[str, ...]
    options: tuple[str, ...]
    answer_is: AnswerForm
    folder: Path = Path()
    fetched: ImageDownloads | None = None
    files: PictureFinder | None = None
    pool: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    repeated_ids: frozenset[str] = frozenset()
    """Ids that several rows have, which are those of their images, or of something else that they share."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """One draft for each row that can be used; after the last, WrongRowsError for those that cannot."""
    chosen = read_params(params, Params)
    path = (folder or Path()) / chosen.file
    images = (folder or Path()) / chosen.images if chosen.images else path.parent
    if not images.is_dir():
        raise DataError(
            f"{chosen.images or images}: there is no such folder of pictures (--images)"
        )
    source = _source(chosen, path, images)
    faults, odd = list[str](), _OddRows()
    missing = _Missing(pictures=not chosen.no_pictures, answers=not chosen.hidden_answers)
    strange: dict[str, None] = {}
    numbers: Counter[str] = Counter()
    last: Draft | None = None  # kept back, since notes on the whole file go with it
    for row in read_rows(path, chosen.encoding):
        if last is not None:
            yield last
            last = None
        try:
            if row.fault:
                raise DataError(row.fault)
            strange |= dict.fromkeys(_strange(row, source))
            last = _with_own_id(_draft(row, source), source, numbers)
            missing.look_at(last)
            odd.look_at(row, last, source)
        except DataError as error:
            faults.append(str(error))
    if last is not None:
        if not faults:
            missing.check(path)
        yield replace(
            last,
            notes=(
                *_notes(path, list(strange)),
                *_id_notes(path, source),
                *odd.notes(path),
                *picture_notes(path, source.files),
            ),
        )
    if faults:
        raise WrongRowsError(faults)


def _with_own_id(draft: Draft, source: TableSource, numbers: Counter[str]) -> Draft:
    """The draft with an id that no other row has: of the rows of an id the first keeps it, the second is `7 (2)`."""
    if draft.id not in source.repeated_ids:
        return draft
    numbers[draft.id] += 1
    own_id = draft.id if numbers[draft.id] == 1 else f"{draft.id} ({numbers[draft.id]})"
    return replace(draft, id=own_id, group=draft.group or draft.id)


def _id_notes(path: Path, source: TableSource) -> tuple[str, ...]:
    if not source.repeated_ids:
        return ()
    return (
        f"{path.name}: {len(source.repeated_ids):,} ids in {source.columns.id!r} are those of several rows, as of an "
        "image; rows are numbered under them",
    )


def _source(chosen: Params, path: Path, images: Path) -> TableSource:
    columns, form = chosen.columns, chosen.answer_is
    if columns is None:
        roles = table_roles(path, answer_is=form, encoding=chosen.encoding)
        if roles.faults or roles.doubts:
            raise DataError(
                f"{path}: {roles.doubts[0].line()}" if roles.doubts else roles.faults[0]
            )
        if not roles.profiles:
            return TableSource(
                TableColumns("question"), frozenset(), (), (), form, images, None, None, ()
            )
        if "question" not in roles.roles:
            names = ", ".join(roles.profiles)
            raise DataError(
                f"{path}: no column is the question; it has {names}; name it with --column question=..."
            )
        several = ("picture", "options", "distractors")
        by_role: dict[str, Any] = {
            name: names if name in several else names[0]
            for name, names in roles.roles.items()
            if name != "tag"
        }
        columns, form = TableColumns(**by_role), roles.answer_is
    else:
        _check_there(read_rows(path, chosen.encoding), path, columns)
    pictures, used = (
        _names(columns.picture),
        [name for names in columns.used().values() for name in names],
    )
    named = frozenset((*used, *_names(columns.unused)))
    fetched = None
    if chosen.fetch_pictures:
        from snellen.fetching.image_urls import ImageDownloads

        fetched = ImageDownloads(
            cell
            for row in read_rows(path, chosen.encoding)
            for cell in _picture_cells(row.cells, pictures)
        )
    files = PictureFinder(images) if chosen.find_pictures else None
    if files is not None:
        for name in pictures:
            cells = (row.cells for row in read_rows(path, chosen.encoding))
            files.learn(cell for row in cells for cell in _picture_cells(row, (name,)))
    pool: tuple[str, ...] = ()
    if chosen.make_options:
        answers = (row.cells.get(columns.answer) for row in read_rows(path, chosen.encoding))
        pool = tuple(
            dict.fromkeys(
                text for answer in answers if answer for text in accepted_texts(answer)[:1]
            )
        )
    repeated_ids: frozenset[str] = frozenset()
    if columns.id:
        cells = (row.cells.get(columns.id) for row in read_rows(path, chosen.encoding))
        counts = Counter(str(cell) for cell in cells if cell is not None)
        repeated_ids = frozenset(name for name, count in counts.items() if count > 1)
    return TableSource(
        columns,
        named,
        pictures,
        _names(columns.options),
        form,
        images,
        fetched,
        files,
        pool,
        chosen.classes,
        repeated_ids,
    )


def _check_there(rows: Iterator[SourceRow], path: Path, columns: TableColumns) -> None:
    """Raise DataError for a column that the entry names and no row has: the table has changed since."""
    there = {name for row in islice(rows, LOOKED_AT) for name in row.cells}
    for role, names in columns.used().items():
        lacking = [name for name in names[: 1 if role == "options" else None] if name not in there]
        if there and lacking:
            near = nearest_names(lacking[0], sorted(there))
            hint = (
                f"did you mean {' or '.join(near)}?"
                if near
                else f"they are {', '.join(sorted(there)[:12])}"
            )
            raise DataError(
                f"{path}: no row has the column {lacking[0]!r}, which the entry names as {role}; change the entry, or "
                f"leave its columns out to have them recognised; {hint}"
            )


def _names(columns: OneOrMore) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else columns


# --- notes on the whole file ------------------------------------------------------------------------------------------


class _Missing:
    """Whether a whole file lacks pictures or answers, which has to be said, or has some where that was said."""

    def __init__(self, *, pictures: bool, answers: bool) -> None:
        self._needed = {"pictures": pictures, "answers": answers}
        self._there = {"pictures": 0, "answers": 0}

    def look_at(self, draft: Draft) -> None:
        [question] = draft.rounds
        self._there["pictures"] += bool(draft.images)
        self._there["answers"] += bool(question.gold or question.texts)

    def check(self, path: Path) -> None:
        """Raise DataError where something is missing from all questions, or is there although it was said not to be."""
        for kind, (phrase, role, option) in _WORDS.items():
            count = self._there[kind]
            if not self._needed[kind] and count:
                raise DataError(
                    f"{path}: {count:,} questions have {phrase}; leave out {option.split()[0]}"
                )
            if self._needed[kind] and not count:
                raise DataError(
                    f"{path}: no question has {phrase}; name their column with --column {role}=..., or say that it is "
                    f"meant: {option}"
                )


_WORDS = {
    "pictures": ("a picture", "picture", "--no-pictures (no_pictures = true)"),
    "answers": ("an answer", "answer", "--hidden-answers (hidden_answers = true)"),
}
"""For what may be missing: a noun for it, its role, and the flag (in an entry the parameter) that says it is missing on
purpose."""


ODDITIES = {
    "picture": "{count:,} of {total:,} questions have no picture ({rows})",
    "letter": "where an answer is the letter of one option and the text of another ({count:,} questions: {rows}), it "
    "was read as the letter",
    "open": "{count:,} of {total:,} questions have no options and are open ({rows})",
    "mark": "{count:,} of {total:,} questions hold `<image>` as a text ({rows}); it marks places only where there are "
    "several pictures and a mark for each",
    "nan": "{count:,} of {total:,} questions show the text 'nan' ({rows}); leave a cell empty where it is none",
    "bar": "the answers of {count:,} open questions hold `|` ({rows}) and are one text each; write a list "
    '(`["red", "crimson"]`) where several are accepted',
    "truth": "the answers of {count:,} open questions are {answers} ({rows}), which a reply of yes or no is not; write "
    "the words that you ask for",
}
"""What may be odd about rows of a table that can be used, in words for a note."""


class _OddRows:
    """The numbers of rows by what is odd about them."""

    def __init__(self) -> None:
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        self._total = 0
        self._answers: set[str] = set()

    def look_at(self, row: SourceRow, draft: Draft, source: TableSource) -> None:
        [question] = draft.rounds
        self._total += 1
        is_open = not question.options and question.distractors is None
        written = str(row.cells.get(source.columns.answer))
        oddities = {
            "picture": not draft.images,
            "letter": _is_letter_and_text(row, source),
            "open": is_open and bool(source.options),
            "mark": (marks := question.question.count(MARK)) > 0
            and (marks < 2 or marks != len(draft.images)),
            "nan": "nan" in (draft.context, *question.options),
            "bar": is_open and "|" in written and question.texts == (written,),
            "truth": is_open and bool(question.texts),
        }
        if is_open and len(self._answers) < 3:
            self._answers |= {text.casefold() for text in question.texts}
        for oddity in (name for name, is_odd in oddities.items() if is_odd):
            self._rows[oddity].append(row.number)

    def notes(self, path: Path) -> tuple[str, ...]:
        """A sentence for each oddity, but for one that all rows share on purpose."""
        usual = {name for name in ("picture", "open") if len(self._rows[name]) == self._total}
        if self._answers not in ({"true", "false"}, {"0", "1"}):
            usual.add("truth")
        answers = " and ".join(sorted(self._answers, reverse="true" in self._answers))
        return tuple(
            f"{path.name}: "
            + words.format(
                count=len(rows), total=self._total, rows=row_names(path, rows), answers=answers
            )
            for name, words in ODDITIES.items()
            if name not in usual and (rows := self._rows[name])
        )


def picture_notes(path: Path, files: PictureFinder | None) -> tuple[str, ...]:
    """How pictures were found that no cell names by its file."""
    if files is None:
        return ()
    ways = (
        (files.moved, "name in another folder than the file says"),
        (files.numbered, "number alone"),
    )
    return tuple(_found_note(path, by_cell, way) for by_cell, way in ways if by_cell)


def _found_note(path: Path, by_cell: Mapping[str, Path], way: str) -> str:
    noun = "picture was" if len(by_cell) == 1 else "pictures were"
    cell, file = next(iter(by_cell.items()))
    return f"{path.name}: {len(by_cell):,} {noun} found by {way}: {cell} is {file}"


def row_names(path: Path, rows: list[int]) -> str:
    """The first of some rows by their numbers, for a note."""
    noun = "line" if path.suffix.lower() in (".jsonl", SHEET, *TEXTS) else "record"
    more = ", ..." if len(rows) > SHOWN_ROWS else ""
    return f"{noun} {', '.join(map(str, rows[:SHOWN_ROWS]))}{more}"


def _strange(row: SourceRow, source: TableSource) -> Iterator[str]:
    """Columns of a row that nothing is read from."""
    return (
        name
        for name in row.cells
        if name not in source.named and not name.startswith((TAG, ANSWER_TAG))
    )


def _notes(path: Path, strange: list[str]) -> tuple[str, ...]:
    return (f"{path.name}: {', '.join(map(repr, strange))} left out",) if strange else ()


# --- a row ------------------------------------------------------------------------------------------------------------


def _draft(row: SourceRow, source: TableSource) -> Draft:
    cells, where, columns = row.cells, row.where, source.columns
    question = cells.get(columns.question)
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"{where}: the question is empty")
    options = option_texts_of(cells, source, where)
    gold, texts = read_answer(cells, options, source, where)
    if source.classes and texts:
        options, gold, texts = _choice_among(source.classes, texts, where)
    distractors = _distractors(cells, source) if texts else None
    context = cells.get(columns.context)
    return Draft(
        id=str(cells.get(columns.id, row.number)),
        rounds=(
            QuestionDraft(
                question,
                options,
                gold,
                texts,
                distractors,
                relevance=_relevance(cells, columns, where),
            ),
        ),
        images=_images(cells, source, where),
        where=where,
        context=str(context) if context else None,
        group=str(cells.get(columns.group, "")),
        tags={
            **_tags(cells, TAG),
            **{
                name.removeprefix(TAG): str(cells[name])
                for name in _names(columns.tag)
                if name in cells
            },
        },
        answer_tags=_tags(cells, ANSWER_TAG),
    )


def _choice_among(
    classes: tuple[str, ...], texts: Sequence[str], where: str
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Options, right option and no texts for an answer that is one of few classes. Raises DataError for another."""
    place = class_of(texts[0], classes)
    if place is None:
        raise DataError(
            f"{where}: answer {texts[0]!r} is none of {', '.join(classes)}; correct it, or remove `classes` from the "
            "entry"
        )
    return classes, (place,), ()


def _distractors(cells: Mapping[str, Any], source: TableSource) -> DistractorSpec | None:
    """What makes options for an open question: the wrong ones of its row, or answers of others."""
    wrong = [
        text
        for name in _names(source.columns.distractors)
        if name in cells
        for text in accepted_texts(cells[name])
    ]
    if wrong:
        return DistractorSpec(tuple((text,) for text in wrong), allow_fewer=True)
    return DistractorSpec((source.pool,), prompt="options") if source.pool else None


def _tags(cells: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): str(value)
        for name, value in cells.items()
        if name.startswith(prefix)
    }


def _relevance(cells: Mapping[str, Any], columns: TableColumns, where: str) -> tuple[float, ...]:
    try:
        return msgspec.convert(cells.get(columns.relevance, ()), tuple[float, ...])
    except msgspec.ValidationError:
        raise DataError(
            f"{where}: relevance must be a list of numbers, one per option, in JSONL"
        ) from None


def has_option_columns(source: TableSource) -> bool:
    """Whether each option has a column."""
    return len(source.options) > 1 or source.options[:1] in [(letter,) for letter in LETTERS]


def option_texts_of(cells: Mapping[str, Any], source: TableSource, where: str) -> tuple[str, ...]:
    """The options of a row; none for an open question. Raises DataError for options that cannot be used."""
    if not source.options:
        return ()
    if has_option_columns(source):
        filled = [name for name in source.options if name in cells]
        if filled != list(source.options[: len(filled)]):
            raise DataError(
                f"{where}: option {filled[-1]} is given, but an option before it is empty"
            )
    options = tuple(row_options(cells, source.options))
    if not has_option_columns(source) and None in (
        values := listed(cells.get(source.options[0])) or ()
    ):
        raise DataError(
            f"{where}: option {values.index(None) + 1} is null; write its text, or leave it out"
        )
    if not options and listed(cells.get(source.options[0], [])) != []:
        raise DataError(
            f"{where}: options must be a list of texts; in a table use columns A, B, ..."
        )
    return options


def read_answer(
    cells: Mapping[str, Any], options: tuple[str, ...], source: TableSource, where: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The right options of a row by index, or the accepted texts of an open question; neither where it is hidden.

    Raises DataError for an answer that names no option, or two.
    """
    answer = cells.get(source.columns.answer)
    if answer is None or answer == "":
        return (), ()
    if not options:
        form: AnswerForm = "letter" if source.answer_is == "any" else source.answer_is
        if source.options and form != "text" and option_meant(form, answer, LETTERS) is not None:
            raise DataError(
                f"{where}: there are no options, but the answer {as_text(answer)!r} names one; write them, or the "
                "answer's text"
            )
        return (), accepted_texts(answer)
    if source.answer_is == "any":
        return (_any(answer, options, cells, source, where),), ()
    names = source.options if has_option_columns(source) else ()
    place = option_meant(source.answer_is, answer, options, names)
    if place is None:
        raise _no_option(source.answer_is, answer, options, where)
    return (place,), ()


def _any(
    answer: Any, options: tuple[str, ...], cells: Mapping[str, Any], source: TableSource, where: str
) -> int:
    """Return the option that an answer means as a letter, a text or, in JSON, a number from 0.

    Raises DataError for an answer that means none, or two.
    """
    if isinstance(answer, int) and not isinstance(answer, bool):
        return _index(answer, options, cells, source, where)

    text = as_text(answer)
    bare = text.strip()
    by_letter = None
    if len(bare) == 1 and bare in LETTERS[: len(options)]:
        by_letter = LETTERS.index(bare)
    by_text = None
    if text in options:
        by_text = options.index(text)
    elif bare in options:
        by_text = options.index(bare)

    # In a table with columns A, B, C, ... a single letter always names its column.
    if by_letter is not None and has_option_columns(source):
        return by_letter
    if by_letter is not None and by_text not in (None, by_letter):
        raise DataError(
            f"{where}: answer {bare!r} is the text of one option and the letter of another; write the index of the "
            "right one, counted from 0"
        )
    if by_text is not None:
        return by_text
    marked_letter = option_meant("letter", text, options)  # "(A)", "A.", "b"
    if marked_letter is None:
        raise _no_option("any", answer, options, where)
    return marked_letter


def _no_option(form: AnswerForm, answer: Any, options: Sequence[str], where: str) -> DataError:
    text = as_text(answer).strip()
    alike = [
        letter for letter, option in zip(LETTERS, options, strict=False) if option.strip() == text
    ]
    if len(alike) > 1:
        return DataError(
            f"{where}: the options {' and '.join(alike)} are both {text!r}, as is the answer; change one"
        )
    letters = (
        ""
        if form == "text"
        else f"neither one of the letters {LETTERS[0]}-{LETTERS[len(options) - 1]} nor "
    )
    return DataError(
        f"{where}: answer {as_text(answer)!r} is {letters or 'not '}the text of an option"
    )


def _index(
    answer: int, options: tuple[str, ...], cells: Mapping[str, Any], source: TableSource, where: str
) -> int:
    """The answer as an index from 0. Raises DataError where none of the options, or another one, is that number."""
    if not 0 <= answer < len(options):
        raise DataError(f"{where}: answer {answer} but options are 0-{len(options) - 1}")
    stated = (
        [cells[name] for name in source.options if name in cells]
        if has_option_columns(source)
        else listed(cells[source.options[0]]) or []
    )
    numbers = [option if type(option) is int else None for option in stated]
    if answer in numbers and numbers.index(answer) != answer:
        raise DataError(
            f"{where}: answer {answer} is the index of option {options[answer]} and is itself another option; write "
            f'"{answer}" for the option {answer}, or "{options[answer]}" for the other'
        )
    return answer


def _is_letter_and_text(row: SourceRow, source: TableSource) -> bool:
    """Whether the answer in a row with a column for each option is the letter of one and the text of another."""
    if (
        not source.options
        or not has_option_columns(source)
        or source.answer_is not in ("any", "letter")
    ):
        return False
    lettered = {
        letter: row.cells[name]
        for letter, name in zip(LETTERS, source.options, strict=False)
        if name in row.cells
    }
    answer = str(row.cells.get(source.columns.answer))
    return answer in lettered and answer in lettered.values() and lettered[answer] != answer


# --- pictures ---------------------------------------------------------------------------------------------------------


def _picture_cells(cells: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    """The pictures of a row, in the order of the columns."""
    pictures: list[Any] = []
    for name in columns:
        cell = cells.get(name)
        values = (
            listed(cell)
            if isinstance(cell, list) or (isinstance(cell, str) and cell.startswith("["))
            else None
        )
        pictures += values if values is not None else [] if cell is None or cell == "" else [cell]
    return pictures


def _images(
    cells: Mapping[str, Any], source: TableSource, where: str
) -> tuple[bytes | Path | LazyImage, ...]:
    filled = [name for name in source.pictures if cells.get(name)]
    if len(source.pictures) > 1 and filled != list(source.pictures[: len(filled)]):
        raise DataError(f"{where}: {filled[-1]} is given, but a picture before it is empty")
    is_path = source.pictures[:1] == ("image_path",)
    return tuple(
        _path(source.folder, str(cell), where)
        if is_path and place == 0
        else picture_of(cell, where, source.folder, source.fetched, source.files)
        for place, cell in enumerate(_picture_cells(cells, source.pictures))
    )


def picture_of(
    cell: Any,
    where: str,
    folder: Path,
    fetched: ImageDownloads | None = None,
    files: PictureFinder | None = None,
) -> bytes | Path | LazyImage:
    """The picture that a cell holds or names. Raises DataError, naming the place."""
    if isinstance(cell, (LazyImage, bytes)):
        return cell
    if isinstance(cell, dict):
        cell = cell.get("bytes") or cell.get("path") or cell.get("url")
    if files is not None and (picture := files.find(cell)):
        return picture
    if files is not None and len(same_number := files.of_number(cell)) > 1:
        first, second, *_ = same_number
        raise DataError(
            f"{where}: the picture {str(cell)!r} may be {first} or {second}; write the name of its file"
        )
    cell = cell.strip() if isinstance(cell, str) else cell
    if not isinstance(cell, str) or not cell:
        raise DataError(f"{where}: image must be a path or base64 text, or in JSONL a list of them")
    if cell.startswith(URL):
        if fetched is None:
            raise DataError(
                f"{where}: the image {cell[:60]!r} is an address; say --fetch-pictures to fetch it"
            )
        return fetched.path(cell, where)
    if cell.startswith("data:"):
        return decode_base64(cell.partition(",")[2], where, "a data URL")
    is_name = len(cell) <= 1024 and not (
        cell.startswith(ENCODED) and not PICTURE_FILE.fullmatch(cell)
    )
    if is_name and (file := _path(folder, cell, where)).suffix:
        return file
    return decode_base64(cell, where, "a file name")


def _path(folder: Path, name: str, where: str) -> Path:
    if "\0" in name:
        raise DataError(f"{where}: the image path {name!r} holds a NUL")
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) and not _is_kept_by_hub(path, folder):
        raise DataError(
            f"{where}: the image {name!r} lies outside {folder}; move it there, or name a folder that holds all "
            "pictures with --images"
        )
    return path


def _is_kept_by_hub(path: Path, folder: Path) -> bool:
    """Whether a path below a folder is a link of the hub's cache, whose files lie beside its `snapshots`."""
    snapshots = next(
        (parent for parent in (folder, *folder.parents) if parent.name == "snapshots"), None
    )
    if snapshots is None or not Path(os.path.normpath(path)).is_relative_to(
        os.path.normpath(folder)
    ):
        return False
    return path.resolve().is_relative_to((snapshots.parent / "blobs").resolve())
