"""Files of MMBench's form as a source: circular copies are one question, images are read when they are needed.

The file is gone through once for everything but images; then each question's image is read from its
place. So references may point backwards or forwards, and a file of any size needs the memory of its texts.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import setting
from snellen.common.decoding import inspect_image
from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.common.foreign import IMAGE_BYTES, open_file, read_file
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, TABLES, DelimitedTable, decode_base64, open_text
from snellen.formats.listed_cells import listed
from snellen.formats.locate import locate_file
from snellen.formats.text_encoding import text_encoding
from snellen.protocols.choice import FIRST_ROTATED_PREFIX
from snellen.recognition.columns import PARTLY, name_score
from snellen.recognition.tables import ANSWER_TAG, TAG
from snellen.records import RowRef
from snellen.suites.mmbench import taxonomy
from snellen.suites.mmbench.survey import (
    FORM_COLUMNS,
    L2_COLUMNS,
    MAX_REFERENCE_LENGTH,
    ROTATION_STEP,
    Faults,
    RowError,
    SurveyedRow,
    base_index,
    check_header,
    has_form,
    names_file,
    normal_index,
    parse_answer,
    question_count_text,
    row_location,
    survey,
)
from snellen.suites.mmbench.taxonomy import PublishedSplit, Taxonomy

COLUMNS_OF_ORDINARY_TABLES = frozenset({"id", "context", "group", "options", "relevance"})
"""Columns of ordinary tables (Snellen's own format) that MMBench's format does not have."""
COLUMNS_WITH_USE_IN_ORDINARY_TABLES = frozenset(
    {
        "question",
        "index",
        "hint",
        "image",
        "image_path",
        "answer",
        *COLUMNS_OF_ORDINARY_TABLES,
        *LETTERS,
    }
)
"""Columns of ordinary tables (Snellen's own format)."""
MAX_FAULTS = 10
"""The greatest number of wrong rows that an error message lists, as in any build."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    files: tuple[str, ...]
    """Names that the file goes by."""
    images: str = ""
    """Folder that `image_path` is relative to, as seen from the file's own; that one when empty."""
    lenient: bool = False
    """Leave wrong questions out and count them; keep those whose rotations are not all there, and tag them."""
    published: PublishedSplit = ""
    """The split whose published counts the file should have."""
    answers: str = ""
    """File with the answers that this one hides."""
    reads_images: bool = True
    """Whether there are images and they are taken in; to score replies texts are enough."""
    as_published: bool = False
    """Whether questions stay that repeat an option or lack rotations, as in a file of replies that is to be scored: the
    rows that are not there count as not right."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft (a question before it is built) for each question of a file in MMBench's format.

    MMBench repeats a question in several rows, each with the options in another order, to ask it in all orders
    ("circular evaluation"). All rows of a question make one draft.

    Args:
        params: The fields of `Params`.
        folder: The folder that contains the file, or the path of the file itself.

    Raises:
        DataError: Rows are wrong. The message has up to ten of them, each with file and line.
    """
    chosen = read_params(params, Params)
    if folder and folder.is_file():
        path = folder
    else:
        path = locate_file(folder, *chosen.files)
    if path.suffix.lower() not in TABLES:
        raise DataError(f"{path}: a file of MMBench's form ends with {' or '.join(TABLES)}")
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        faults = Faults()
        ignored_columns = check_header(table, pictures=chosen.reads_images)
        entries = survey(table, faults, pictures=chosen.reads_images, repeated=chosen.as_published)
        is_grouped = "g_index" in table.header
        groups = assemble_groups(entries, is_grouped, path, faults)
        if chosen.answers:
            groups = add_answers(Path(chosen.answers), groups)
        if not chosen.lenient:
            if not chosen.as_published:
                for index, text in incomplete_groups(groups, path):
                    faults.add(index, "incomplete", text)
            faults.refuse(MAX_FAULTS)
        abilities = _abilities_for(path)
        notes = _file_notes(
            table, len(entries), groups, ignored_columns, abilities, chosen.published
        )
        yield from _drafts_with_images(table, groups, abilities, chosen, notes, faults)


def _abilities_for(path: Path) -> Taxonomy:
    """Return the abilities by which questions are sorted, such as `ocr` under "fine-grained perception".

    They are those that come with Snellen. If there is a file of abilities next to the table, its entries are added,
    and replace entries with the same name.
    """
    own_file = path.with_name(taxonomy.TAXONOMY_FILE)
    abilities = taxonomy.packaged_taxonomy()
    return abilities.with_own(own_file) if own_file.is_file() else abilities


def _drafts_with_images(
    table: DelimitedTable,
    groups: Sequence[CircularGroup],
    abilities: Taxonomy,
    chosen: Params,
    notes: list[str],
    faults: Faults,
) -> Iterator[Draft]:
    """Yield a draft for each question in the order of the file, and read its images only then, to save memory.

    The notes about the file are attached to the last draft, because they include the questions that were left out, and
    these are complete only at the end. So each draft is held back until the next one is ready. If an image cannot be read
    and the file is not read leniently, no further draft is yielded; the other images are still read, so that the error
    message at the end names all faults.

    Args:
        table: The file.
        groups: The questions, each with the rows that show it.
        abilities: The known abilities.
        chosen: The parameters, such as the folder of images and whether the file is read leniently.
        notes: Notes about the file so far.
        faults: Receives the questions whose images cannot be read.

    Raises:
        DataError: An image cannot be read, and the file is not read leniently; or no question is left.
    """
    folder = table.path.parent / chosen.images
    pending: Draft | None = None  # held back, because the last draft carries the notes
    image_faults: list[str] = []
    for question in groups:
        where = row_location(table.path, question.base)
        try:
            images: tuple[bytes | Path, ...] = ()
            if chosen.reads_images:
                images = row_images(table.at(question.picture.place), folder, where)
            if chosen.lenient:
                check_images(images, where)
        except DataError as error:
            faults.add(question.base.index, "an image that cannot be read", str(error))
            image_faults.append(str(error))
            continue
        if pending and (chosen.lenient or not image_faults):
            yield pending
        pending = replace(_question_draft(question, where, abilities), images=images)
        if not chosen.reads_images:
            pending = replace(pending, group=question.picture.picture)
    if image_faults and not chosen.lenient:
        raise DataError("\n".join(image_faults[:MAX_FAULTS]))
    if pending is None:
        faults.refuse(MAX_FAULTS)
        return
    yield replace(pending, notes=(*notes, *faults.notes()))


def _question_draft(question: CircularGroup, where: str, abilities: Taxonomy) -> Draft:
    """Return the draft of a question, still without its images.

    Its tags are the abilities (`l1`, `l2` and `l3`, from general to specific), split, source, and `rotations`,
    which says whether the file lacks some orders of the options. Tags without a value are left out.
    """
    base = question.base
    has_repeated_option = len(set(base.options)) < len(base.options)
    tags = {
        "l1": abilities.l1_of(base.l2),
        "l2": base.l2,
        "l3": base.category,
        "split": base.split,
        "source": base.source,
        "rotations": question.state,
    }
    return Draft(
        id=base.index,
        rounds=(
            QuestionDraft(
                question=base.question,
                options=base.options,
                gold=() if question.gold is None else (question.gold,),
                may_repeat=has_repeated_option,
            ),
        ),
        where=where,
        context=base.hint or None,
        tags={name: value for name, value in tags.items() if value},
        rows=question.rows,
        cells={"comment": base.comment} if base.comment else {},
    )


def _file_notes(
    table: DelimitedTable,
    rows: int,
    groups: Sequence[CircularGroup],
    ignored_columns: list[str],
    abilities: Taxonomy,
    published: PublishedSplit,
) -> list[str]:
    """Return notes about a file, one line each: its size, its abilities, and whatever is irregular in it.

    For example: `1,100 rows are 300 questions`, or `2 questions without all rotations`.

    Args:
        table: The file.
        rows: The number of its rows.
        groups: Its questions, each with the rows that show it.
        ignored_columns: Columns that are ignored, because MMBench's format has none with these names.
        abilities: The known abilities.
        published: The published split that the file should be, whose counts of questions by ability are compared;
            empty for none.
    """
    states: Counter[str] = Counter()
    categories: Counter[tuple[str, str]] = Counter()
    unknown_l2: Counter[str] = Counter()
    nan_count = 0
    for question in groups:
        base = question.base
        states[question.state] += 1
        categories[base.l2, base.category] += 1
        if base.l2 and not abilities.l1_of(base.l2):
            unknown_l2[base.l2] += 1
        if "nan" in (base.hint, *base.options):
            nan_count += 1

    path = table.path
    size = question_count_text(len(groups))
    notes = [f"{path.name} (sha256 {_short_sha256(path)}): {rows:,} rows are {size}"]
    ability_counts = []
    for (_, category), count in sorted(categories.items()):
        if category:
            ability_counts.append(f"{category} {count}")
    if ability_counts:
        notes.append(f"abilities: {', '.join(ability_counts)}")
    if path.with_name(taxonomy.TAXONOMY_FILE).is_file():
        notes.append(f"abilities from the {taxonomy.TAXONOMY_FILE} next to it")
    if ignored_columns:
        columns = ", ".join(repr(column) for column in ignored_columns)
        notes.append(f"{columns} left out: such columns mean nothing here")

    if states["incomplete"]:
        count_text = question_count_text(states["incomplete"])
        notes.append(f"{count_text} without all rotations, tagged rotations=incomplete")
    for state, count in sorted(states.items()):
        if state.startswith(FIRST_ROTATED_PREFIX):
            notes.append(
                f"{question_count_text(count)} of which the first {state.removeprefix(FIRST_ROTATED_PREFIX)} options alone are turned, "
                f"tagged rotations={state}"
            )
    if states["single-pass"]:
        count_text = question_count_text(states["single-pass"])
        notes.append(f"{count_text} without rotations by intent, tagged rotations=single-pass")
    if nan_count:
        notes.append(
            f"{question_count_text(nan_count)} with the text 'nan', which is shown; leave a cell empty where it is none"
        )
    repeated_count = count_repeated(groups)
    if repeated_count:
        notes.append(
            f"{question_count_text(repeated_count)} with the image and options of another; where these are circular copies, "
            "say so by the column g_index"
        )
    for l2, count in unknown_l2.items():
        notes.append(f"{question_count_text(count)} with the unknown l2-category {l2!r}: no l1")
    differences = abilities.differences(categories, published)
    if differences:
        notes.append(f"published counts differ: {', '.join(differences)}")
    return notes


def _short_sha256(path: Path) -> str:
    """Return the first 16 hex digits of a file's SHA-256."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def recognises(path: Path) -> bool:
    """Return whether a file is in MMBench's format, and not an ordinary table of questions (`snellen.readers.table`).

    Both are tables with a column for each option, so the decision follows these rules in order:

    - A file with another suffix, or in a text encoding that has to be converted, is not in MMBench's format.
    - Nor is a table with a column that only ordinary tables have.
    - A table with the column `g_index`, or with `index` and `l2-category`, is.
    - A table without the least columns (index, question, A, B, and image or image_path) is not. Nor is one whose
      answers seem to be under another name than `answer`, or whose first row has no index.
    - If all images are names of files, it is only with circular copies (rows that repeat a question with its
      options in another order) or with references between rows, because published files contain their images.
    - Any other table is if it has a column that ordinary tables have no use for, such as `category` or `split`, or
      circular copies, or image cells with the index of another row.
    """
    if path.suffix.lower() not in TABLES or not path.is_file() or text_encoding(path):
        return False
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        header = set(table.header)
        for name in header:
            is_tag = name.startswith((TAG, ANSWER_TAG))
            if is_tag or name in COLUMNS_OF_ORDINARY_TABLES:
                return False
        has_l2_column = any(name in header for name in L2_COLUMNS)
        if "g_index" in header or ("index" in header and has_l2_column):
            return True
        if not has_form(header):
            return False
        if "answer" not in header:
            for name in header - {*FORM_COLUMNS}:
                looks_like_answer = name_score("answer", name) > PARTLY
                if looks_like_answer:
                    return False
        first_row = next(iter(table), None)
        if first_row is not None and "index" not in first_row.cells:
            return False
        if "image_path" not in header and _names_only_files(table):
            return _refers_to_rows(table)
        columns_of_mmbench_alone = {*FORM_COLUMNS} - COLUMNS_WITH_USE_IN_ORDINARY_TABLES
        has_column_of_mmbench = not header.isdisjoint(columns_of_mmbench_alone)
        return has_column_of_mmbench or _refers_to_rows(table)


def _names_only_files(table: DelimitedTable) -> bool:
    """Return whether every filled image cell is the name of a file. False if all image cells are empty."""
    has_files = False
    for row in table:
        cell = row.cells.get("image", "").strip()
        if cell and not names_file(cell):
            return False
        has_files = has_files or bool(cell)
    return has_files


def _refers_to_rows(table: DelimitedTable) -> bool:
    """Return whether rows of the table refer to each other as they do in MMBench's files.

    They do if an image cell is the index of another row, which contains the image, or if a row is a circular copy:
    index 1000007 repeats the question of index 7.
    """
    lengths: dict[str, int] = {}
    references = set()
    for _, _, cells, _ in table:
        picture = cells.get("image", "")
        lengths[normal_index(cells.get("index", ""))] = len(picture)
        if 0 < len(picture) <= MAX_REFERENCE_LENGTH:
            references.add(normal_index(picture))
    for index in references:
        names_row_with_image = lengths.get(index, 0) > MAX_REFERENCE_LENGTH
        if names_row_with_image:
            return True
    for index in lengths:
        base = base_index(index, "", grouped=False)
        if base != index and base in lengths:
            return True
    return False


# --- answers that are kept apart from their questions: a table with the columns index and answer ----------------------


def add_answers(path: Path, questions: Sequence[CircularGroup]) -> list[CircularGroup]:
    """Return the questions with the answers from a separate file, which has the columns `index` and `answer`.

    The letters refer to the options in the order of a question's base row, the row that the others repeat. Rows for
    other orders of the options are ignored. A question that is not in the file keeps the answer that it has.

    Args:
        path: The file of answers.
        questions: The questions.

    Raises:
        DataError: A letter has no option, an answer differs from the one in the file of questions, or an index does
            not exist. The message names file and line.
    """
    questions_by_index: dict[str, CircularGroup] = {}
    indexes_of_rows: set[str] = set()
    for question in questions:
        questions_by_index[question.base.index] = question
        indexes_of_rows.update(row.index for row in question.rows)

    answered_by_index = dict(questions_by_index)
    for index, letter, where in _answer_letters(path):
        if index not in indexes_of_rows:
            raise DataError(f"{where}: index {index} is not among the questions")
        question = questions_by_index.get(index)
        if question is None:
            continue  # A file with a row for each rotation has the base rows too.
        try:
            answer = parse_answer(letter, len(question.base.options))
        except RowError as error:
            raise DataError(f"{where}: {error}") from None
        if question.gold not in (None, answer):
            raise DataError(f"{where}: another answer than in the questions' own file")
        answered_by_index[index] = replace(question, gold=answer)
    return list(answered_by_index.values())


def _answer_letters(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield index, letter and location of each row of a file of answers. Raises DataError for a missing column."""
    if path.suffix.lower() not in TABLES:
        raise DataError(f"{path}: a file of answers ends with {' or '.join(TABLES)}")
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        for name in ("index", "answer"):
            if name not in table.header:
                header = ", ".join(table.header) or "none"
                raise DataError(f"{path}:1: the column {name!r} is missing; there are {header}")
        for row in table:
            yield (
                normal_index(row.cells.get("index", "")),
                row.cells.get("answer", ""),
                f"{path}:{row.line}",
            )


# --- image cells: base64, a path, or a list of either in brackets ---------------------------------------------------


def row_images(cells: dict[str, str], folder: Path, where: str) -> tuple[bytes | Path, ...]:
    """Return the images of a row that contains images of its own: those in its cell `image`, or else in `image_path`.

    The cell `image` contains base64 text or names of files, and `image_path` contains names of files. A cell may
    hold a list of several.

    Args:
        cells: The cells of the row by column.
        folder: The folder in which files are searched.
        where: Location of the row, for messages.

    Raises:
        DataError: A text is neither base64 nor the name of a file.
    """
    cell = cells.get("image", "").strip()
    is_path = not cell
    images: list[bytes | Path] = []
    for entry in _image_entries(cell or cells["image_path"].strip(), where):
        if is_path or names_file(entry):
            images.append(_image_path(folder, entry, where))
        else:
            images.append(decode_base64(entry, where, "the index of a row"))
    return tuple(images)


def check_images(images: tuple[bytes | Path, ...], where: str) -> None:
    """Raise DataError if an image cannot be read."""
    for image in images:
        if isinstance(image, Path):
            try:
                inspect_image(read_file(image, IMAGE_BYTES), where)
            except OSError as error:
                raise DataError(
                    f"{where}: cannot read the image {image} ({error.strerror})"
                ) from None
        else:
            inspect_image(image, where)


def _image_entries(cell: str, where: str) -> list[str]:
    """Return the images in an image cell: several for a list in brackets, else the whole cell.

    Args:
        cell: The cell. A list may be written as JSON or as Python writes it.
        where: Location of the row, for the message.

    Raises:
        DataError: If the list does not contain texts.
    """
    if not cell.startswith("["):
        return [cell]
    entries = listed(cell)
    is_list_of_texts = bool(entries) and all(
        isinstance(entry, str) and entry.strip() for entry in entries
    )
    if not is_list_of_texts:
        excerpt = cell if len(cell) < 60 else cell[:60] + "..."
        raise DataError(f'{where}: image {excerpt!r} is not a list of images; write ["...", "..."]')
    return [entry.strip() for entry in entries]


def _image_path(folder: Path, name: str, where: str) -> Path:
    """Return the path of an image. Raises DataError for a name that no file can have."""
    if "\0" in name:
        raise DataError(f"{where}: the image path {name!r} holds a NUL")
    return folder / name


# --- circular copies: found, checked against their base row and merged ------------------------------------------------


GroupState = str
"""Which orders of the options a file has: empty (all), `incomplete`, `single-pass`, or `first-3` (only the first three
options are rotated). See `_rotation_state`."""
Order = tuple[int, ...]
SHARED_COLUMNS = ("question", "hint", "category", "l2", "split")
"""Columns in which a rotation must be equal to its base row."""


class CircularGroup(Struct, frozen=True):
    """One question: its base row, and every row that shows it, the base row first."""

    base: SurveyedRow
    rows: tuple[RowRef, ...]
    gold: int | None
    """Index of the correct option in the base row; None if the file does not contain answers."""
    picture: SurveyedRow
    """The row that holds the image."""
    state: GroupState = ""
    """Which rotations of the question are in the file, see `_rotation_state`."""


def cyclic_orders(count: int, first: int) -> set[Order]:
    """Return the orders of `count` options in which the first `first` of them are rotated; the others stay in place."""
    return {rotated_order(count, first, steps) for steps in range(first)}


def rotated_order(count: int, first: int, steps: int) -> Order:
    """Return the order of options after a rotation to the right.

    Args:
        count: Number of options.
        first: How many of the first options are rotated; the others stay in place.
        steps: By how many positions they move.

    Example:
        >>> rotated_order(4, 3, 1)
        (2, 0, 1, 3)
    """
    rotated = [(position - steps) % first for position in range(first)]
    fixed = range(first, count)
    return (*rotated, *fixed)


def find_order(row: SurveyedRow, base: SurveyedRow) -> Order | None:
    """Return the order in which a row shows the options of its question's base row.

    For example, if the base row has the options cat, dog, cow, and this row has cow, cat, dog, the order is (2, 0,
    1). Both rows must have the same number of options with the same texts.

    If two options have the same text, several orders are possible. Then it is a rotation that fits the texts and
    the answers of both rows; the one that the index of the row suggests is tried first (index 2000007 is rotated by
    two steps).

    Returns:
        For each position the index of the option in the base row; None if no rotation fits.
    """
    count = len(base.options)
    if len(set(base.options)) == count:
        return tuple(base.options.index(option) for option in row.options)
    # The index of a rotation tells by how many steps its options are turned.
    indexed_steps = int(row.index) // ROTATION_STEP if row.index.isdecimal() else 0
    for first in range(count, 1, -1):
        for steps in (indexed_steps, *range(first)):
            order = rotated_order(count, first, steps)
            if _shows_in_order(row, base, order):
                return order
    return None


def _shows_in_order(row: SurveyedRow, base: SurveyedRow, order: Order) -> bool:
    """Return whether a row shows the options of its base row in a given order.

    If the answers of both rows are known, they must also be the same option.

    Args:
        row: The row.
        base: The base row.
        order: For each position in the row, the index of the option in the base row.
    """
    if row.gold is not None and base.gold is not None:
        gold_in_base = order[row.gold]
        if gold_in_base != base.gold:
            return False
    options_in_order = tuple(base.options[index] for index in order)
    return row.options == options_in_order


def assemble_groups(
    entries: Mapping[str, SurveyedRow], grouped: bool, path: Path, faults: Faults
) -> list[CircularGroup]:
    """Return the questions of a file, each with all rows that show it, sorted by the line of the base row.

    The base row is the one that the other rows of a question repeat. A question that cannot be used is left out,
    and its fault is recorded.

    Args:
        entries: Rows by index.
        grouped: Whether the file has a column `g_index`, with the index of each row's base row. Otherwise the index
            tells it: 1000007 belongs to 7.
        path: The file, for messages.
        faults: Receives the faults.

    Raises:
        DataError: The index of every row is that of a repetition, so that there is no base row.
    """
    are_all_rotations = all(index.isdecimal() and int(index) >= ROTATION_STEP for index in entries)
    if not grouped and entries and are_all_rotations:
        raise DataError(
            f"{path}: every index is {ROTATION_STEP} or more, so that all rows are rotations and none is a base row; "
            "where they are questions of their own, add a column g_index that repeats the index"
        )
    rows_by_base: dict[str, list[SurveyedRow]] = defaultdict(list)
    for index, entry in entries.items():
        rows_by_base[base_index(index, entry.g_index, grouped)].append(entry)
    has_rotations = any(len(rows) > 1 for rows in rows_by_base.values())
    groups = []
    for base, rows in rows_by_base.items():
        if base in faults.by_key:
            continue
        try:
            question = _merge_copies(_base_row(base, rows, grouped, path), rows, entries, path)
            state = _rotation_state(question, grouped) if has_rotations else ""
        except RowError as error:
            faults.add(base, error.kind, str(error))
            continue
        groups.append(replace(question, state=state))
    return sorted(groups, key=lambda question: question.base.line)


def _base_row(key: str, rows: Sequence[SurveyedRow], grouped: bool, path: Path) -> SurveyedRow:
    """Return the base row of a question, the one with its index. Raises RowError if the file lacks it."""
    for row in rows:
        if row.index == key:
            return row
    first = rows[0]
    hint = ""
    if not grouped:
        hint = "; where it is a question of its own, add a column g_index that repeats the index"
    raise RowError(
        "without a base row",
        f"{row_location(path, first)}: index {first.index} is a rotation of {key}, which is not a base row "
        f"of this file{hint}",
    )


def _merge_copies(
    base: SurveyedRow, rows: Sequence[SurveyedRow], entries: Mapping[str, SurveyedRow], path: Path
) -> CircularGroup:
    """Return one question from its base row and the rows that repeat it with the options in another order.

    Args:
        base: The base row, whose order of the options is that of the question.
        rows: All rows of the question, including the base row.
        entries: All rows of the file by index, in which the row with the image is found.
        path: The file, for messages.

    Raises:
        RowError: The rows do not fit together: for example, their texts or images differ, two rows show the options in
            the same order, or their answers are different options.
    """
    picture = _image_row(base, entries, path)
    row_by_order: dict[Order, SurveyedRow] = {}
    row_by_gold: dict[int | None, SurveyedRow] = {}
    """The first row with each correct option, by the option's index in the base row."""
    base_first = sorted(rows, key=lambda row: row is not base)
    for row in base_first:
        for name in SHARED_COLUMNS:
            if getattr(row, name) != getattr(base, name):
                column = "l2-category" if name == "l2" else name
                raise _difference_error(row, base, column, path)
        if row is not base and _image_row(row, entries, path).picture != picture.picture:
            raise _difference_error(row, base, "image", path)
        if sorted(row.options) != sorted(base.options):
            raise _difference_error(row, base, "set of options", path)
        order = find_order(row, base)
        if order is None:
            raise RowError(
                "an option twice",
                f"{row_location(path, row)}: two options of index {row.index} say the same, and no rotation of its "
                f"base row {base.index} ({row_location(path, base)}) shows them so",
            )
        earlier = row_by_order.get(order)
        if earlier:
            raise RowError(
                "an order twice",
                f"{row_location(path, row)}: index {row.index} shows the options in the same order as index "
                f"{earlier.index} ({row_location(path, earlier)})",
            )
        row_by_order[order] = row
        gold_in_base = None if row.gold is None else order[row.gold]
        row_by_gold.setdefault(gold_in_base, row)
    if len(row_by_gold) > 1:
        first, second, *_ = row_by_gold.values()
        raise RowError(
            "answers that differ",
            f"{row_location(path, second)}: the answer of index {second.index} is another option than that of index "
            f"{first.index} ({row_location(path, first)})",
        )
    [gold] = row_by_gold
    return CircularGroup(
        base=base,
        rows=tuple(RowRef(row.index, order) for order, row in row_by_order.items()),
        gold=gold,
        picture=picture,
    )


def _difference_error(row: SurveyedRow, base: SurveyedRow, column: str, path: Path) -> RowError:
    """Return the error for a rotation that differs from its base row in a column."""
    return RowError(
        "rows that differ",
        f"{row_location(path, row)}: the {column} of index {row.index} differs from that of its base row {base.index} "
        f"({row_location(path, base)})",
    )


def _image_row(row: SurveyedRow, entries: Mapping[str, SurveyedRow], path: Path) -> SurveyedRow:
    """Return the row that contains the image of a row: the row itself, or the one whose index its image cell has.

    Raises RowError if there is no image, or if the other row refers to a third one.
    """
    where = f"{row_location(path, row)}: the image of index {row.index}"
    if not row.link:
        if not row.picture:
            raise RowError(
                "without an image", f"{row_location(path, row)}: index {row.index} has no image"
            )
        return row
    target = entries.get(row.link)
    if target is None:
        raise RowError(
            "a dangling reference", f"{where} refers to index {row.link}, which is not there"
        )
    if target.link:
        raise RowError(
            "a second hop",
            f"{where} refers to index {target.index} ({row_location(path, target)}), "
            f"which itself refers to {target.link}",
        )
    if not target.picture:
        raise RowError(
            "without an image",
            f"{where} refers to index {target.index} ({row_location(path, target)}), which has none",
        )
    return target


def _rotation_state(question: CircularGroup, grouped: bool) -> GroupState:
    """Return which of the orders of a question's options are in the file, as the value of its tag `rotations`.

    Args:
        question: The question with its rows.
        grouped: Whether the file has a column `g_index`. In such files, a question with a single row must not be
            rotated.

    Returns:
        Empty if all rotations of its options are there; `first-3` if only the first three options are rotated and
        the others stay in place; `single-pass` if the question has a single row on purpose; otherwise `incomplete`.
    """
    count = len(question.base.options)
    orders = {row.order for row in question.rows}
    all_rotations = cyclic_orders(count, first=count)
    if all_rotations <= orders:
        return ""
    for first in range(count - 1, 1, -1):
        if orders == cyclic_orders(count, first):
            return f"{FIRST_ROTATED_PREFIX}{first}"
    # In files with g_index, a question with a single row has options that must not be rotated.
    if grouped and len(question.rows) == 1:
        return "single-pass"
    return "incomplete"


def incomplete_groups(questions: Sequence[CircularGroup], path: Path) -> Iterator[tuple[str, str]]:
    """Yield index and fault of each question that lacks some of its rotations."""
    for question in questions:
        if question.state == "incomplete":
            base = question.base
            count = len(base.options)
            present = ", ".join(row.index for row in question.rows)
            yield (
                base.index,
                f"{row_location(path, base)}: index {base.index} has {count} options, but {len(question.rows)} of its "
                f"{count} rotations ({present}); add the missing rows, or build with {setting('lenient', True)}",
            )


def count_repeated(questions: Sequence[CircularGroup]) -> int:
    """Return how many questions are repetitions of another one with the same text, image, hint and options in any
    order.

    Of three equal questions, two count.
    """
    contents = set()
    for question in questions:
        base = question.base
        options = tuple(sorted(base.options))
        contents.add((base.question, base.hint, question.picture.picture, options))
    return len(questions) - len(contents)
