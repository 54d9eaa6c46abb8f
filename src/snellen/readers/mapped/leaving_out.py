"""Named rules that exclude records from the questions; exclusions are counted and reported to the user."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from snellen.conditions import Condition
from snellen.errors import DataError
from snellen.readers.mapped.fields import Fields, Record
from snellen.readers.mapped.templates import FieldError, Template
from snellen.reformulation.answer_equality import fold_answer


class LeaveOut(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule: exactly one of `when`, `empty`, `same` and `matches` says which records it excludes."""

    why: str
    when: str = ""
    """A condition on the record's fields."""
    empty: str = ""
    """A template of a single field whose transforms leave nothing. An optional field may have been empty before them;
    a required one that was empty is an error: its record is broken, not excluded."""
    same: tuple[str, str] | None = None
    """Two templates that are equal apart from case, articles and punctuation."""
    matches: tuple[str, str] | None = None
    """A template and a regular expression that it contains, ignoring case."""
    none_met: str = ""
    """A note for the user when the rule excluded no record although it should have."""


Test = Callable[[Record], bool]


def leave_out_test(rule: LeaveOut, fields: Fields) -> Test:
    """A test of whether the rule excludes a record. Raises DataError for a rule without exactly one condition."""
    tests: list[Test] = []
    if rule.when:
        tests.append(Condition(rule.when, nested=True).holds)
    if rule.empty:
        tests.append(_is_emptied(rule.empty, fields))
    if rule.same:
        first, second = (Template(text, fields) for text in rule.same)
        tests.append(lambda record: fold_answer(first.fill(record)) == fold_answer(second.fill(record)))
    if rule.matches:
        searched, pattern = Template(rule.matches[0], fields), re.compile(rule.matches[1], re.IGNORECASE)
        tests.append(lambda record: pattern.search(searched.fill(record)) is not None)
    if len(tests) != 1:
        raise DataError(f"leave_out {rule.why!r}: give one of when, empty, same and matches")
    return tests[0]


def _is_emptied(emptied_text: str, fields: Fields) -> Test:
    template = Template(emptied_text, fields)
    if not template.is_field:
        raise DataError(f"leave_out: empty = {emptied_text!r} is no template of one field alone")
    (field,) = template.fields

    def emptied(record: Record) -> bool:
        if any(text.strip() for text in field.texts(record)):
            return False
        if not field.may_be_empty and not field.is_filled(record):
            raise FieldError(f"{field.name} is empty; is this the file of a split with hidden answers?")
        return True

    return emptied
