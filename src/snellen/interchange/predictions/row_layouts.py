"""Rearrange rows that are not one prediction each: rows with several fields, and tables without a header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.json_replies import json_objects
from snellen.recognition.columns import PARTLY, box_corners, name_score
from snellen.recognition.folding import as_text, folded, folded_name, word_count
from snellen.recognition.named_pairs import pair_by_words

# --- fields side by side ---------------------------------------------------------------------------------------------

_GOLD = "gt|gold|true|expected|ref|reference|target|actual"
_SAID = "pred|predicted|prediction|output|model"
_VERDICT = "correct|match|is_correct"
_BEFORE = re.compile(
    rf"(?:(?P<gold>{_GOLD})|(?P<said>{_SAID})|(?P<verdict>{_VERDICT}))_(?P<field>.+)"
)
_AFTER = re.compile(
    rf"(?P<field>.+)_(?:(?P<gold>{_GOLD})|(?P<said>{_SAID})|(?P<verdict>{_VERDICT}))"
)
_IN_OBJECTS = re.compile(
    rf"(?:(?P<gold>{_GOLD}|ground_?truth|labels?|annotations?)|(?P<said>{_SAID}|predictions|response|model_output)"
    r"|(?P<verdict>verdicts?|matches))\.(?P<field>[^.]+)"
)
FEWEST_FIELDS = 3
"""A row is an extraction of fields if at least this many have a right answer and a reply each."""
FEWEST_IN_OBJECTS = 2
"""The same if one object has the right answers and another one the replies."""
_ABOUT_REPLY = frozenset(
    "explanation reason reasoning rationale evidence confidence uncertainty score scores probability time latency".split()
)
"""Words in names of fields that a reply adds to its answers."""
_OF_ANSWERS = frozenset("answer answers reply response output text".split())
"""Parts of names in rows that are a single question: `reference_answer` and `reference_reasoning`
are not two fields."""
_OF_ROWS = frozenset("question prompt image id index label class".split())
"""Names of columns in rows that are a single question, even if there is, for example, `pred_label` beside `label`."""
_ROLE_NAMES = {"gold": "answer", "said": "response", "verdict": "correct"}
FIELD = "field of the objects"
"""The column with the name of the field in rows that were made of parallel objects."""


def with_fields_as_rows(rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
    """Yield a row for each field of rows in which a model extracted several fields, such as a receipt's total and date.

    A row with `gt_total`, `pred_total`, `gt_date`, `pred_date` and so on becomes one row for the
    total and one for the date, each with the name of the field as its question. The same is done
    for rows with two objects, `ground_truth` and `prediction`, for those of their fields that are a
    few words or a number. A verdict (`correct_total`) goes with its field. Replies may be missing.

    The corners of a box (`gt_x1`, `pred_x1`, ...) become one right answer and one reply, because
    they belong together. Rows of any other kind are yielded as they are.
    """
    stream = _with_objects_spelled(rows)
    first = next(stream, None)
    if first is None:
        return
    if _fields_of_names(tuple(first.cells), _IN_OBJECTS) or _plain_fields(tuple(first.cells)):
        yield from _with_closed_fields([first, *stream])
        return
    if of_json := _fields_of_json(first.cells):
        column, golds = of_json
        for row in chain([first], stream):
            yield from _row_for_each_json_field(row, column, golds)
        return
    fields: dict[str, dict[str, str]] = {}
    for row in chain([first], stream):
        names = tuple(row.cells)
        fields_here = _fields_of_names(names, _BEFORE) or _fields_of_names(names, _AFTER)
        if len(fields_here) > len(fields):
            fields = fields_here
        yield from _row_for_each_field(row, fields)


def _with_objects_spelled(rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
    """Yield rows with the fields of right answers and replies that are objects written as texts: `{'age': 5}`.

    Both have to be objects in the first row, with fields in common. Other rows are yielded as they
    are.
    """
    stream = iter(rows)
    first = next(stream, None)
    if first is None:
        return
    pair = pair_by_words(first.cells)
    in_common: set[str] = set()
    if pair is not None:
        of_gold, of_reply = (_object_in(first.cells[name]) for name in pair)
        in_common = of_gold.keys() & of_reply.keys()
    if pair is None or len(in_common) < FEWEST_IN_OBJECTS:
        yield from chain([first], stream)
        return
    for row in chain([first], stream):
        cells = {name: cell for name, cell in row.cells.items() if name not in pair}
        for mark, name in zip(("gt", "prediction"), pair, strict=True):
            for field, value in _object_in(row.cells.get(name)).items():
                cells[f"{mark}.{field}"] = value
        yield row._replace(cells=cells)


def _object_in(cell: Any) -> dict[str, Any]:
    """Return the fields of an object that is written as a text, in the syntax of JSON or Python; empty if it is none."""
    is_object = isinstance(cell, str) and cell.lstrip().startswith("{")
    objects = json_objects(cell) if is_object else []
    return objects[0] if objects else {}


_GOLD_OF_FIELD = re.compile(rf"(?:(?:{_GOLD})_(?P<before>.+)|(?P<after>.+)_(?:{_GOLD}))(?:_value)?")


def _fields_of_json(cells: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    """Return the column with replies that are JSON objects, and the right answer's column for each field.

    For example, the reply `{"total": 5, "date": "May 1"}` stands beside the columns `gt_total` and
    `gt_date`.

    Returns:
        The column of replies, and the columns of right answers by field; None if no column has such
        replies, or if fewer than two fields have a right answer.
    """
    golds: dict[str, str] = {}
    for name in cells:
        match = _GOLD_OF_FIELD.fullmatch(folded_name(name))
        if match is not None:
            field = match["before"] or match["after"]
            golds.setdefault(field.removesuffix("_value"), name)
    if len(golds) < FEWEST_IN_OBJECTS:
        return None
    for name, cell in cells.items():
        objects = json_objects(cell) if isinstance(cell, str) else []
        if not objects:
            continue
        given = {folded_name(str(field)) for field in objects[-1]}
        of_fields = {field: gold for field, gold in golds.items() if field in given}
        if len(of_fields) >= FEWEST_IN_OBJECTS:
            return name, of_fields
    return None


def _row_for_each_json_field(
    row: SourceRow, column: str, golds: Mapping[str, str]
) -> Iterator[SourceRow]:
    cell = row.cells.get(column)
    objects = json_objects(cell) if isinstance(cell, str) else []
    given: dict[str, Any] = {}
    for name, value in (objects[-1] if objects else {}).items():
        given[folded_name(str(name))] = value.get("value") if isinstance(value, dict) else value
    used = {column, *golds.values()}
    shared = {
        name: value
        for name, value in row.cells.items()
        if name not in used
        and isinstance(value, (str, int, float))
        and not _GOLD_OF_FIELD.match(folded_name(name))
    }
    for field, gold in golds.items():
        right = _as_said(row.cells.get(gold))
        said = _as_said(given.get(field))
        if _is_same_number(right, said):
            said = right
        ids = {name: f"{shared[name]}/{field}" for name in shared if _is_name_of_id(name)}
        question = field.replace("_", " ")
        of_field = {
            "question": question,
            FIELD: question,
            "answer": right,
            "response": said,
        }
        yield row._replace(cells={**shared, **ids, **of_field})


NOTHING = "(none)"
"""The text for a field without a value. A reply without it is right if the right answer has no value either."""


def _as_said(cell: Any) -> str:
    return NOTHING if cell in (None, "") else as_text(cell)


def _is_same_number(first: str, second: str) -> bool:
    """Return whether two texts are the same number, such as `2999` and `2,999.00`."""
    try:
        return float(first.replace(",", "")) == float(second.replace(",", ""))
    except ValueError:
        return False


def _with_closed_fields(rows: Sequence[SourceRow]) -> Iterator[SourceRow]:
    """Yield a row for each field of two objects, or of columns such as `gender`, `pred_gender`, `age` and `pred_age`.

    Only fields whose right answers are a few words or a number count. If there are fewer than two,
    or they are the coordinates x and y, the rows are yielded as they are.
    """
    names = tuple(dict.fromkeys(name for row in rows for name in row.cells))
    fields = _fields_of_names(names, _IN_OBJECTS) or _plain_fields(names)
    corners = box_corners(fields)
    if corners:
        fields = {corner: fields[corner] for corner in corners}
    else:
        fields = {
            field: columns
            for field, columns in fields.items()
            if _is_closed(row.cells.get(columns["gold"]) for row in rows)
            or _is_mostly_repeated(rows, columns)
        }
    is_place = {"x", "y"} <= fields.keys()
    if len(fields) < FEWEST_IN_OBJECTS or is_place:
        yield from rows
        return
    for row in rows:
        for of_field in _row_for_each_field(row, fields):
            cells = dict(of_field.cells)
            if not corners:
                cells[FIELD] = cells.get("question")
            yield of_field._replace(cells=cells)


LONGEST_VALUE = 4
"""The most words of a right answer that a reply has to repeat exactly; see `word_count`."""


def _is_closed(cells: Iterable[Any]) -> bool:
    """Return whether all right answers of a field are short: a few words, a truth value or a whole number.

    A reply is then either equal to the right answer or wrong. Longer texts may agree in part.
    """
    filled = [cell for cell in cells if cell not in (None, "")]
    are_short = all(
        isinstance(cell, int) or (isinstance(cell, str) and word_count(cell) <= LONGEST_VALUE)
        for cell in filled
    )
    return bool(filled) and are_short


def _is_mostly_repeated(rows: Sequence[SourceRow], columns: Mapping[str, str]) -> bool:
    """Return whether most replies of a field repeat its right answer, so that longer texts can be compared, too."""
    n_equal = 0
    for row in rows:
        right, said = (as_text(row.cells.get(columns[role], "")) for role in ("gold", "said"))
        n_equal += bool(right) and folded(right) == folded(said)
    return 2 * n_equal > len(rows)


def _row_for_each_field(
    row: SourceRow, fields: Mapping[str, Mapping[str, str]]
) -> Iterator[SourceRow]:
    cells = row.cells
    if not any(columns["gold"] in cells for columns in fields.values()):
        yield row
        return
    used = {name for columns in fields.values() for name in columns.values()}
    shared = {
        name: cell
        for name, cell in cells.items()
        if name not in used and isinstance(cell, (str, int, float)) and not _is_whole_record(cell)
    }
    corners = box_corners(fields)
    if corners:
        said = [cells.get(fields[corner]["said"]) for corner in corners]
        of_box: dict[str, Any] = {
            "answer": [cells.get(fields[corner]["gold"]) for corner in corners]
        }
        if None not in said:
            of_box[_ROLE_NAMES["said"]] = said
        yield row._replace(cells={**shared, **of_box})
        return
    for field, columns in fields.items():
        of_field = {
            _ROLE_NAMES[role]: cells[name] for role, name in columns.items() if name in cells
        }
        ids = {name: f"{shared[name]}/{field}" for name in shared if _is_name_of_id(name)}
        question = field.replace("_", " ")
        yield row._replace(cells={**shared, **ids, "question": question, **of_field})


@lru_cache(maxsize=256)
def _is_name_of_id(name: str) -> bool:
    return name_score("id", name) > PARTLY


def _is_whole_record(cell: Any) -> bool:
    """Return whether a cell has the full reply with all fields, as a text in braces."""
    return isinstance(cell, str) and "{" in cell


@lru_cache(maxsize=256)
def _fields_of_names(names: tuple[str, ...], pattern: re.Pattern[str]) -> dict[str, dict[str, str]]:
    """Return the columns of each field, by what they hold: `{"total": {"gold": "gt_total", "said": "pred_total"}}`.

    Args:
        names: The names of all columns.
        pattern: How a column is named after what it holds and its field.

    Returns:
        Fields that have both a right answer and a reply. Empty if there are too few of them, or if
        they are named like the parts of a single question.
    """
    by_field: dict[str, dict[str, str]] = {}
    for name in names:
        match = pattern.fullmatch(folded_name(name))
        if match is not None and _ABOUT_REPLY.isdisjoint(match["field"].split("_")):
            role = next(role for role in _ROLE_NAMES if match[role])
            by_field.setdefault(match["field"], {}).setdefault(role, name)
    whole = {field: roles for field, roles in by_field.items() if {"gold", "said"} <= roles.keys()}
    fewest = FEWEST_IN_OBJECTS if pattern is _IN_OBJECTS else FEWEST_FIELDS
    is_answered_row = not _OF_ANSWERS.isdisjoint(whole) or all(map(str.isdecimal, whole))
    return whole if len(whole) >= fewest and not is_answered_row else {}


@lru_cache(maxsize=256)
def _plain_fields(names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return the columns of fields whose right answer has no word that says so: `gender` beside `pred_gender`.

    The result is like that of `_fields_of_names`.
    """
    by_folded = {folded_name(name): name for name in names}
    by_field: dict[str, dict[str, str]] = {}
    for called, name in by_folded.items():
        match = _BEFORE.fullmatch(called) or _AFTER.fullmatch(called)
        if match is None or match["field"] not in by_folded or match["gold"]:
            continue
        role = "said" if match["said"] else "verdict"
        of_field = by_field.setdefault(match["field"], {"gold": by_folded[match["field"]]})
        of_field.setdefault(role, name)
    whole = {field: roles for field, roles in by_field.items() if "said" in roles}
    are_of_questions = not (_OF_ANSWERS | _ABOUT_REPLY | _OF_ROWS).isdisjoint(whole)
    return whole if len(whole) >= FEWEST_IN_OBJECTS and not are_of_questions else {}


# --- tables without a header -----------------------------------------------------------------------------------------

_IMAGE = re.compile(r".+\.(?:jpe?g|png|webp|gif|bmp|tiff?|txt)", re.IGNORECASE)
_NUMBERED = re.compile(r" \(\d+\)$")
COLUMNS = ("image", "question", "answer", "prediction")


def with_header_as_row(rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
    """Yield the rows of a table. If it has no header, its first line is yielded as a row, too, and columns get names.

    There is no header if there are four columns and the name of one of the first two is that of an
    image file. The first two are image and question, in any order, and the last two the right
    answer and the reply, as in MME's results (Fu et al. 2023).
    """
    stream = iter(rows)
    first = next(stream, None)
    if first is None:
        return
    header = tuple(first.cells)
    if len(header) != len(COLUMNS) or not any(map(_IMAGE.fullmatch, header[:2])):
        yield from chain([first], stream)
        return
    is_image_first = _IMAGE.fullmatch(header[0]) is not None
    names = COLUMNS if is_image_first else ("question", "image", *COLUMNS[2:])
    place = first.where.rpartition(":")[0]
    texts = [_without_number(name, header) for name in header]
    yield SourceRow(f"{place}:1", 1, dict(zip(names, texts, strict=True)))
    for row in chain([first], stream):
        yield row._replace(cells=_renamed(row.cells, header, names))


def _without_number(name: str, header: Sequence[str]) -> str:
    """Return the name of a column without the number that was added to it because two were equal: `Yes` for `Yes (2)`."""
    bare = _NUMBERED.sub("", name)
    return bare if bare in header else name


def _renamed(
    cells: Mapping[str, Any], header: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    return {name: cells[old] for old, name in zip(header, names, strict=True) if old in cells}
