"""From rows to questions: circular copies are found, checked against their base row and merged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.errors import DataError
from snellen.protocols.choice import FIRST
from snellen.records import RowRef
from snellen.suites.mmbench.survey import ROTATION_STEP, Faults, RowError, SurveyedRow, base_index, row_location

GroupState = str
"""Empty, `incomplete`, `single-pass`, or `first-3` where the first three options alone are turned."""
Order = tuple[int, ...]
SHARED_COLUMNS = ("question", "hint", "category", "l2", "split")
"""What a rotation has in common with its base row."""


class CircularGroup(Struct, frozen=True):
    """One question: its base row, and every row that shows it, the base row first."""

    base: SurveyedRow
    rows: tuple[RowRef, ...]
    gold: int | None
    """Correct option of the base row; None when hidden."""
    picture: SurveyedRow
    """The row that holds the picture."""
    state: GroupState = ""
    """Whether rotations are missing (incomplete), or there are none where others have theirs (single-pass), or which
    options alone are turned."""


def cyclic_orders(count: int, first: int) -> set[Order]:
    """All orders in which the first of so many options are turned, whichever way, and the others stay."""
    return {turned(count, first, shift) for shift in range(first)}


def turned(count: int, first: int, steps: int) -> Order:
    """The order of so many options of which the first were turned to the right, and the others stay."""
    return (*((place - steps) % first for place in range(first)), *range(first, count))


def order_of(row: SurveyedRow, base: SurveyedRow) -> Order | None:
    """The order in which a row shows its base row's options, the same in number and text.

    Where two of them say the same it is the rotation, by the number of the row at best, that fits the texts and both
    answers; None if there is none.
    """
    count = len(base.options)
    if len(set(base.options)) == count:
        return tuple(base.options.index(option) for option in row.options)
    number = int(row.index) // ROTATION_STEP if row.index.isdecimal() else 0
    orders = (turned(count, first, steps) for first in range(count, 1, -1) for steps in (number, *range(first)))
    return next((order for order in orders if _shows(row, base, order)), None)


def _shows(row: SurveyedRow, base: SurveyedRow, order: Order) -> bool:
    answers = None in (row.gold, base.gold) or (row.gold is not None and order[row.gold] == base.gold)
    return answers and row.options == tuple(base.options[option] for option in order)


def assemble_groups(
    entries: Mapping[str, SurveyedRow], grouped: bool, path: Path, faults: Faults
) -> list[CircularGroup]:
    """The sound questions of a file, in the order of their base rows.

    `grouped`: the file has a column `g_index`. Raises DataError for a file without any base row.
    """
    if not grouped and entries and all(index.isdecimal() and int(index) >= ROTATION_STEP for index in entries):
        raise DataError(
            f"{path}: every index is {ROTATION_STEP} or more, so that all rows are rotations and none is a base row; "
            "where they are questions of their own, add a column g_index that repeats the index"
        )
    by_question: dict[str, list[SurveyedRow]] = defaultdict(list)
    for index, entry in entries.items():
        by_question[base_index(index, entry.g_index, grouped)].append(entry)
    rotated = any(len(rows) > 1 for rows in by_question.values())
    groups = []
    for key, rows in by_question.items():
        if key in faults.by_key:
            continue
        try:
            question = _question(_base(key, rows, grouped, path), rows, entries, path)
            state = _state(question, grouped) if rotated else ""
        except RowError as error:
            faults.add(key, error.kind, str(error))
            continue
        groups.append(CircularGroup(question.base, question.rows, question.gold, question.picture, state))
    return sorted(groups, key=lambda question: question.base.line)


def _base(key: str, rows: Sequence[SurveyedRow], grouped: bool, path: Path) -> SurveyedRow:
    for row in rows:
        if row.index == key:
            return row
    first = rows[0]
    hint = "" if grouped else "; where it is a question of its own, add a column g_index that repeats the index"
    raise RowError(
        "without a base row",
        f"{row_location(path, first)}: index {first.index} is a rotation of {key}, which is no base row "
        f"of this file{hint}",
    )


def _question(
    base: SurveyedRow, rows: Sequence[SurveyedRow], entries: Mapping[str, SurveyedRow], path: Path
) -> CircularGroup:
    """Raises RowError, its text naming file and line, for rows that do not fit together."""
    picture = _shown(base, entries, path)
    seen: dict[Order, SurveyedRow] = {}
    golds: dict[int | None, SurveyedRow] = {}
    for row in sorted(rows, key=lambda row: row is not base):
        for name in SHARED_COLUMNS:
            if getattr(row, name) != getattr(base, name):
                raise _differs(row, base, "l2-category" if name == "l2" else name, path)
        if row is not base and _shown(row, entries, path).picture != picture.picture:
            raise _differs(row, base, "picture", path)
        if sorted(row.options) != sorted(base.options):
            raise _differs(row, base, "set of options", path)
        order = order_of(row, base)
        if order is None:
            raise RowError(
                "an option twice",
                f"{row_location(path, row)}: two options of index {row.index} say the same, and no rotation of its "
                f"base row {base.index} ({row_location(path, base)}) shows them so",
            )
        if earlier := seen.get(order):
            raise RowError(
                "an order twice",
                f"{row_location(path, row)}: index {row.index} shows the options in the same order as index "
                f"{earlier.index} ({row_location(path, earlier)})",
            )
        seen[order] = row
        golds.setdefault(None if row.gold is None else order[row.gold], row)
    if len(golds) > 1:
        first, second = list(golds.values())[:2]
        raise RowError(
            "answers that differ",
            f"{row_location(path, second)}: the answer of index {second.index} is another option than that of index "
            f"{first.index} ({row_location(path, first)})",
        )
    placed = tuple(RowRef(row.index, order) for order, row in seen.items())
    return CircularGroup(base, placed, next(iter(golds)), picture)


def _differs(row: SurveyedRow, base: SurveyedRow, what: str, path: Path) -> RowError:
    return RowError(
        "rows that differ",
        f"{row_location(path, row)}: the {what} of index {row.index} differs from that of its base row {base.index} "
        f"({row_location(path, base)})",
    )


def _shown(row: SurveyedRow, entries: Mapping[str, SurveyedRow], path: Path) -> SurveyedRow:
    """The row that holds the picture of a row: itself, or the one it refers to, which holds one itself."""
    where = f"{row_location(path, row)}: the image of index {row.index}"
    if not row.link:
        if not row.picture:
            raise RowError("without a picture", f"{row_location(path, row)}: index {row.index} has no image")
        return row
    target = entries.get(row.link)
    if target is None:
        hint = "; name files in the column image_path" if "." in row.link else ""
        raise RowError("a dangling reference", f"{where} refers to index {row.link}, which is not there{hint}")
    if target.link:
        raise RowError(
            "a second hop",
            f"{where} refers to index {target.index} ({row_location(path, target)}), "
            f"which itself refers to {target.link}",
        )
    if not target.picture:
        raise RowError(
            "without a picture",
            f"{where} refers to index {target.index} ({row_location(path, target)}), which has none",
        )
    return target


def _state(question: CircularGroup, grouped: bool) -> GroupState:
    count, orders = len(question.base.options), {row.order for row in question.rows}
    if orders >= cyclic_orders(count, count):
        return ""
    if first := next((first for first in range(count - 1, 1, -1) if orders == cyclic_orders(count, first)), 0):
        return f"{FIRST}{first}"
    # A generated file leaves a question as it is whose options must not be turned, and says so by g_index.
    return "single-pass" if grouped and len(question.rows) == 1 else "incomplete"


def incomplete_groups(questions: Sequence[CircularGroup], path: Path) -> Iterator[tuple[str, str]]:
    """Index and fault of each question whose rotations are not all there."""
    for question in questions:
        if question.state == "incomplete":
            base, count = question.base, len(question.base.options)
            here = ", ".join(row.index for row in question.rows)
            yield (
                base.index,
                f"{row_location(path, base)}: index {base.index} has {count} options, but {len(question.rows)} of its "
                f"{count} rotations ({here}); add the missing rows, or build with --lenient",
            )


def count_repeated(questions: Sequence[CircularGroup]) -> int:
    """How many questions ask again, of the same picture and with the same options, what another one asks."""
    seen = Counter(
        (question.base.question, question.base.hint, question.picture.picture, tuple(sorted(question.base.options)))
        for question in questions
    )
    return sum(count - 1 for count in seen.values())
