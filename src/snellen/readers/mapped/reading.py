"""Drafts from records, by the mapping in an entry.

Joins with a second file, such as annotations of questions or captions of pictures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.common.conditions import Condition
from snellen.common.drafts import Draft, Exclusion, answer_pools, read_params, without_exclusions
from snellen.errors import DataError, WrongRowsError
from snellen.formats.locate import locate, locate_or_none
from snellen.readers.mapped.pictures import PictureSource, VideoSource, clip_finder, picture_finder
from snellen.readers.mapped.questions import Pools, Question, QuestionMaker
from snellen.readers.mapped.records import (
    Fields,
    LocatedRecords,
    Record,
    Records,
    check_required_fields,
    read_source_records,
)
from snellen.readers.mapped.templates import FieldError, Template
from snellen.reformulation.answer_equality import fold_answer


class Join(Records, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The second file; its matching records are added to a record under `name`."""

    name: str
    key: str
    """The field of the second file that identifies the matching record."""
    to: str
    """The field of the first file that `key` matches."""
    take: Literal["one", "first", "all"] = "one"
    """`one`: exactly one per record, and none unmatched; `first`: the first match or none; `all`: a list of matches."""
    keep: str = ""
    """Condition that a record of the second file must meet."""
    same: tuple[str, ...] = ()
    """Fields that must be equal in both."""
    others: bool = False
    """Whether the second file may have records without a match in the first."""


def joined(records: LocatedRecords, join: Join, path: Path, folder: Path | None) -> LocatedRecords:
    """The records, joined with those of the second file at `path`. Raises DataError naming an unmatched record."""
    seconds = _filtered(read_source_records(join, path, folder), join.keep)
    if join.take == "one":
        return _side_by_side(records, seconds, join, path)
    return _collected(records, seconds, join)


def _filtered(records: LocatedRecords, keep: str) -> LocatedRecords:
    condition = Condition(keep, nested=True) if keep else None
    return (pair for pair in records if condition is None or condition.holds(pair[1]))


def _side_by_side(
    records: LocatedRecords, seconds: LocatedRecords, join: Join, path: Path
) -> LocatedRecords:
    """Read both files in parallel; a record of the second that comes early waits for its match."""
    waiting: dict[Any, tuple[str, Record]] = {}
    key, to, name, equal_fields = join.key, join.to, join.name, join.same
    for where, record in records:
        wanted_key = record[to]
        while wanted_key not in waiting:
            following = next(seconds, None)
            if following is None:
                raise DataError(f"{where}: the {to} {wanted_key} has no record in {path}")
            if following[1][key] in waiting:
                raise DataError(f"{following[0]}: the {key} {following[1][key]} appears twice")
            waiting[following[1][key]] = following
        place, second = waiting.pop(wanted_key)
        for field in equal_fields:
            if second[field] != record[field]:
                raise DataError(
                    f"{where}: the {field} is {record[field]}, but {second[field]} in {place}"
                )
        record[name] = second
        yield where, record
    for place, second in chain(waiting.values(), seconds):
        raise DataError(f"{place}: there is no record with the {to} {second[key]}")


def _collected(records: LocatedRecords, seconds: LocatedRecords, join: Join) -> LocatedRecords:
    """Each record with all its matches, or the first; the second file is held in memory."""
    matches: dict[Any, list[Record]] = {}
    places: dict[Any, str] = {}
    for where, second in seconds:
        places.setdefault(second[join.key], where)
        matches.setdefault(second[join.key], []).append(second)
    for where, record in records:
        mine = matches.get(record[join.to], [])
        places.pop(record[join.to], None)
        record[join.name] = mine if join.take == "all" else mine[0] if mine else {}
        yield where, record
    if join.take == "all" and not join.others:
        for key, where in places.items():
            raise DataError(f"{where}: there is no record with the {join.to} {key}")


def gathered(records: LocatedRecords, by: str) -> Iterator[tuple[str, Record]]:
    """Group records by a field, in order of first appearance: the first of each group, with all as its `@rows`."""
    together: dict[Any, tuple[str, Record]] = {}
    for where, record in records:
        _, first = together.setdefault(record[by], (where, {**record, "@rows": []}))
        first["@rows"].append(record)
    yield from together.values()


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
        tests.append(
            lambda record: fold_answer(first.fill(record)) == fold_answer(second.fill(record))
        )
    if rule.matches:
        searched, pattern = (
            Template(rule.matches[0], fields),
            re.compile(rule.matches[1], re.IGNORECASE),
        )
        tests.append(lambda record: pattern.search(searched.fill(record)) is not None)
    if len(tests) != 1:
        raise DataError(f"leave_out {rule.why!r}: give one of when, empty, same and matches")
    return tests[0]


def _is_emptied(emptied_text: str, fields: Fields) -> Test:
    template = Template(emptied_text, fields)
    if not template.is_field:
        raise DataError(f"leave_out: empty = {emptied_text!r} is not a template of one field alone")
    (field,) = template.fields

    def emptied(record: Record) -> bool:
        if any(text.strip() for text in field.texts(record)):
            return False
        if not field.may_be_empty and not field.is_filled(record):
            raise FieldError(
                f"{field.name} is empty; is this the file of a split with hidden answers?"
            )
        return True

    return emptied


class Mapping(Question, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file holds the records, and what their fields mean. Texts are templates, see `mapped.templates`."""

    records: Records
    join: Join | None = None
    gather: str = ""
    """A field to group by: records with the same value become one, with all of them as its `@rows`."""
    keep: str = ""
    """Condition that a record of the benchmark must meet."""
    each: tuple[str, ...] = ()
    """Lists of equal length: one question per position, each list replaced by its item; the position is `@index`."""
    repeat: tuple[dict[str, str], ...] = ()
    """Several questions per record: for each, the fields that it adds, as templates."""
    leave_out: tuple[LeaveOut, ...] = ()
    number: tuple[str, int] | None = None
    """A template and a first number: `@number` counts the questions with the same value."""
    once: str = ""
    """A template: of questions with the same value only the first is asked, but all contribute answers."""
    unreadable: float = 0.0
    """The share of questions, 0 to 1, that may be left out since their record cannot be read: they are counted and
    told. Where there are more, or by default, each is an error."""
    id: str
    picture: PictureSource | None = None
    video: VideoSource | None = None
    context: str = ""
    group: str = ""
    """What questions about one picture share; the picture's content when empty."""
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    """Templates by tag name; empty tags are left out."""
    answer_tags: dict[str, str] = msgspec.field(default_factory=dict)
    """The same for tags that equal the answer or follow from it."""
    stratum: str = ""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """One draft per record, in file order. Raises DataError naming file and record.

    Of several `layouts` the first whose file exists is read, or of several files that exist the first that is in its
    layout, which is noted; its settings override the shared ones.
    """
    layouts = params.get("layouts", [{}])
    shared = {name: value for name, value in params.items() if name != "layouts"}
    mappings = [read_params({**shared, **layout}, Mapping) for layout in layouts]
    files = [name for mapping in mappings for name in mapping.records.file]
    present = [mapping for mapping in mappings if locate_or_none(folder, *mapping.records.file)]
    if not present:
        return _Reading(mappings[0], locate(folder, *files), folder).drafts()
    faults = [_fault(mapping, folder) for mapping in present] if len(present) > 1 else [""]
    chosen = faults.index("") if "" in faults else 0
    path = present[chosen].records.locate(folder)
    notes = tuple(
        f"{path.name} is read, as another file of the same questions cannot be: {f}"
        for f in faults[:chosen]
    )
    return _with_notes(_Reading(present[chosen], path, folder).drafts(), notes)


def _fault(mapping: Mapping, folder: Path | None) -> str:
    """Why the file of a layout is not in it, by its first record; empty when that can be read."""
    try:
        next(read_source_records(mapping.records, mapping.records.locate(folder), folder), None)
    except DataError as error:
        return str(error)
    return ""


def _with_notes(drafts: Iterator[Draft], notes: tuple[str, ...]) -> Iterator[Draft]:
    """The drafts, with notes on the first."""
    for draft in drafts:
        yield replace(draft, notes=(*notes, *draft.notes)) if notes else draft
        notes = ()


OF_FILES = (
    "records",
    "join",
    "gather",
    "keep",
    "each",
    "repeat",
    "number",
    "once",
    "picture",
    "video",
    "layouts",
)
"""The fields of a mapping that describe the layout of the files, which differs in a hub dataset."""


def read_hub_rows(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Like `read`, but from a hub dataset: `official` is the mapping of the official files, with the same questions.

    `files` and `pictures` are patterns of the dataset's files.
    """
    shared = {
        name: value for name, value in params.get("official", {}).items() if name not in OF_FILES
    }
    changes = {
        name: value
        for name, value in params.items()
        if name not in ("official", "files", "pictures")
    }
    changes["records"] = {**changes.get("records", {}), "file": params["files"]}
    picture, apart = changes.get("picture", {}), params.get("pictures", ())
    if apart or not ("video" in changes or "file" in picture):
        changes["picture"] = {"column": "image", **picture, "apart": apart}
    mapping = read_params({**shared, **changes}, Mapping)
    return _Reading(mapping, mapping.records.locate(folder), folder).drafts()


class _Reading:
    """Reads one file by one mapping."""

    def __init__(self, mapping: Mapping, path: Path, folder: Path | None) -> None:
        self._mapping, self._path, self._folder = mapping, path, folder
        fields = _known_fields(mapping)
        self._id = Template(mapping.id, fields, needed=True)
        self._context = Template(mapping.context, fields)
        self._group = Template(mapping.group, fields)
        self._stratum = Template(mapping.stratum, fields)
        self._tags = _tag_templates(mapping.tags, fields)
        self._answer_tags = _tag_templates(mapping.answer_tags, fields)
        self._once = Template(mapping.once, fields) if mapping.once else None
        self._counted = Template(mapping.number[0], fields, needed=True) if mapping.number else None
        self._repeat = [
            {name: Template(text, fields) for name, text in added.items()}
            for added in mapping.repeat
        ]
        self._leave_out = [(rule.why, leave_out_test(rule, fields)) for rule in mapping.leave_out]
        self._keep = _condition(mapping.keep, fields)
        self._questions = QuestionMaker(mapping, fields)
        self._picture = (
            picture_finder(mapping.picture, fields, path, folder) if mapping.picture else None
        )
        self._clip = clip_finder(mapping.video, fields, path, folder) if mapping.video else None

    def drafts(self) -> Iterator[Draft]:
        expected = {rule.why: rule.none_met for rule in self._mapping.leave_out if rule.none_met}
        name = (
            Path(self._mapping.records.file[0])
            if self._mapping.records.kind == "parquet"
            else self._path
        )
        return without_exclusions(self._items(), name, expected)

    def _items(self) -> Iterator[Draft | Exclusion]:
        pools = self._pools() if self._questions.pools_answers else {}
        numbers: Counter[str] = Counter()
        keys: set[str] = set()
        unreadable: list[str] = []
        questions = 0
        for where, item in self._selected():
            if isinstance(item, Exclusion):
                yield item
                continue
            questions += 1
            try:
                if self._once is not None:
                    if (key := self._once.fill(item)) in keys:
                        continue
                    keys.add(key)
                if self._counted is not None and self._mapping.number is not None:
                    key = self._counted.fill(item)
                    item["@number"] = numbers[key] + self._mapping.number[1]
                    numbers[key] += 1
                draft = self._draft(item, where, pools)
            except (FieldError, DataError) as fault:
                unreadable.append(
                    str(fault) if isinstance(fault, DataError) else f"{where}: {fault}"
                )
                if not self._mapping.unreadable:
                    raise DataError(unreadable[0]) from None
                yield Exclusion(f"it cannot be read, the first as {unreadable[0]}")
                continue
            yield draft
        if len(unreadable) > questions * self._mapping.unreadable:
            raise WrongRowsError(unreadable)

    def _pools(self) -> Pools:
        """The golds of the whole source, pooled by key."""
        return answer_pools(
            (key, gold)
            for where, item in self._selected()
            if not isinstance(item, Exclusion)
            for key, gold in self._pooled(item, where)
        )

    def _pooled(self, record: Record, where: str) -> list[tuple[str, str]]:
        """The record's gold under each of its keys."""
        try:
            gold = self._questions.gold(record)
            return [(key, gold) for key in self._questions.keys(record)]
        except FieldError as fault:
            raise DataError(f"{where}: {fault}") from None

    def _selected(self) -> Iterator[tuple[str, Record | Exclusion]]:
        """The record of each question (a record may give several), and the exclusions."""
        any_met = False
        for where, record in self._records():
            if self._keep is not None and not self._keep.holds(record):
                continue
            any_met = True
            try:
                for single in self._parts(record):
                    why = next((why for why, holds in self._leave_out if holds(single)), None)
                    yield where, single if why is None else Exclusion(why)
            except FieldError as fault:
                raise DataError(f"{where}: {fault}") from None
        if self._keep is not None and not any_met:
            raise DataError(
                f"{self._path}: no record meets {self._mapping.keep!r}; is this the right file?"
            )

    def _records(self) -> LocatedRecords:
        mapping = self._mapping
        records = read_source_records(mapping.records, self._path, self._folder)
        if mapping.join is not None:
            path = mapping.join.locate(self._folder) if mapping.join.file else self._path
            records = joined(records, mapping.join, path, self._folder)
        return gathered(records, mapping.gather) if mapping.gather else records

    def _parts(self, record: Record) -> Iterator[Record]:
        for part in _places(record, self._mapping.each) if self._mapping.each else (record,):
            if not self._repeat:
                yield part
            for added in self._repeat:
                yield {**part, **{name: text.fill(part) for name, text in added.items()}}

    def _draft(self, record: Record, where: str, pools: Pools) -> Draft:
        return Draft(
            id=self._id.fill(record),
            rounds=(self._questions.question(record, pools),),
            images=(
                *(self._picture(record, where) if self._picture else ()),
                *([self._clip(record, where)] if self._clip else ()),
            ),
            where=where,
            context=self._context.fill(record).strip() or None,
            group=self._group.fill(record),
            tags=_filled(self._tags, record),
            answer_tags=_filled(self._answer_tags, record),
            stratum=self._stratum.fill(record),
        )


def _tag_templates(tags: dict[str, str], fields: Fields) -> list[tuple[str, Template]]:
    return [(name, Template(text, fields)) for name, text in tags.items()]


def _filled(tags: list[tuple[str, Template]], record: Record) -> dict[str, str]:
    return {name: text for name, tag in tags if (text := tag.fill(record))}


def _places(record: Record, names: tuple[str, ...]) -> Iterator[Record]:
    """The record once for each position of its lists. Raises FieldError when their lengths differ."""
    lists = [record.get(name) or [] for name in names]
    if len({len(items) for items in lists}) > 1:
        raise FieldError(
            " and ".join(f"{len(items)} {name}" for name, items in zip(names, lists, strict=True))
        )
    for place, items in enumerate(zip(*lists, strict=True)):
        yield {**record, **dict(zip(names, items, strict=True)), "@index": place}


def _known_fields(mapping: Mapping) -> Fields:
    """The fields that templates may use: the records' own, joined ones, and those added by `repeat`."""
    fields = dict(mapping.records.fields)
    check_required_fields([mapping.gather] if mapping.gather else (), fields, "gather")
    for name in mapping.each:
        if not isinstance(fields.get(name), list):
            raise DataError(f"each: {name!r} is not a field with a list")
        fields[name] = fields[name][0]
    if (join := mapping.join) is not None:
        check_required_fields((join.to, *join.same), fields, "join")
        check_required_fields((join.key, *join.same), join.fields, "join")
        fields[join.name] = [join.fields] if join.take == "all" else join.fields
    return fields | {name: "text" for added in mapping.repeat for name in added}


def _condition(text: str, fields: Fields) -> Condition | None:
    if not text:
        return None
    condition = Condition(text, nested=True)
    if unknown := sorted(condition.names - fields.keys()):
        raise DataError(f"{text!r}: {registry.unknown('field', unknown[0], fields)}")
    return condition
