"""Read drafts of questions from the records of a file, by the mapping in an entry.

Records may be joined with those of a second file, such as annotations of questions or captions of images.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.common.conditions import Condition
from snellen.common.drafts import (
    Draft,
    Exclusion,
    ImageFile,
    ImageSpec,
    LazyFrames,
    answer_pools,
    read_params,
    without_exclusions,
)
from snellen.errors import DataError, WrongRowsError
from snellen.formats.locate import locate_file, locate_or_none
from snellen.readers.mapped.pictures import (
    ImageLookup,
    ImageSource,
    VideoSource,
    make_clip_finder,
    make_image_finder,
)
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


def join_records(
    records: LocatedRecords, join: Join, path: Path, folder: Path | None
) -> LocatedRecords:
    """Return records with the matching records of a second file, at `path`, in a field of their own.

    Raises DataError for a record without a match where each must have one.
    """
    seconds = _keep_matching(read_source_records(join, path, folder), join.keep)
    if join.take == "one":
        return _join_in_order(records, seconds, join, path)
    return _join_in_memory(records, seconds, join)


def _keep_matching(records: LocatedRecords, keep: str) -> LocatedRecords:
    """Return the records that meet a condition; all if it is empty."""
    if not keep:
        return records
    condition = Condition(keep, nested=True)
    return (located for located in records if condition.holds(located[1]))


def _join_in_order(
    records: LocatedRecords, seconds: LocatedRecords, join: Join, path: Path
) -> LocatedRecords:
    """Read both files in parallel; a record of the second that comes early waits for its match."""
    waiting: dict[Any, tuple[str, Record]] = {}
    for where, record in records:
        wanted_key = record[join.to]
        while wanted_key not in waiting:
            following = next(seconds, None)
            if following is None:
                raise DataError(f"{where}: the {join.to} {wanted_key} has no record in {path}")
            second_where, second = following
            second_key = second[join.key]
            if second_key in waiting:
                raise DataError(f"{second_where}: the {join.key} {second_key} appears twice")
            waiting[second_key] = following
        second_where, second = waiting.pop(wanted_key)
        for field in join.same:
            if second[field] != record[field]:
                raise DataError(
                    f"{where}: the {field} is {record[field]}, but {second[field]} in {second_where}"
                )
        record[join.name] = second
        yield where, record
    unmatched = next(chain(waiting.values(), seconds), None)
    if unmatched is not None:
        second_where, second = unmatched
        raise DataError(f"{second_where}: there is no record with the {join.to} {second[join.key]}")


def _join_in_memory(records: LocatedRecords, seconds: LocatedRecords, join: Join) -> LocatedRecords:
    """Yield each record with all its matches, or with the first or none; the second file is held in memory."""
    matches_by_key: dict[Any, list[Record]] = {}
    unmatched: dict[Any, str] = {}
    for where, second in seconds:
        unmatched.setdefault(second[join.key], where)
        matches_by_key.setdefault(second[join.key], []).append(second)
    for where, record in records:
        matches = matches_by_key.get(record[join.to], [])
        unmatched.pop(record[join.to], None)
        if join.take == "all":
            record[join.name] = matches
        else:
            record[join.name] = matches[0] if matches else {}
        yield where, record
    if join.take == "all" and not join.others and unmatched:
        key, where = next(iter(unmatched.items()))
        raise DataError(f"{where}: there is no record with the {join.to} {key}")


def group_records(records: LocatedRecords, by: str) -> Iterator[tuple[str, Record]]:
    """Group records by the field `by`, and yield the first of each group with the whole group as its `@rows`.

    Groups are in the order of their first records.
    """
    groups: dict[Any, tuple[str, Record]] = {}
    for where, record in records:
        _, first = groups.setdefault(record[by], (where, {**record, "@rows": []}))
        first["@rows"].append(record)
    yield from groups.values()


class LeaveOut(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that excludes records, by exactly one of `when`, `empty`, `same` and `matches`."""

    why: str
    when: str = ""
    """A condition on the record's fields."""
    empty: str = ""
    """A template of a single field; records are left out whose field is empty after the template's transforms.

    If the field is required and was empty before the transforms, its record is damaged, which is an error.
    """
    same: tuple[str, str] | None = None
    """Two templates; records are left out for which they are equal apart from case, articles and punctuation."""
    matches: tuple[str, str] | None = None
    """A template and a regular expression; records are left out whose text matches it somewhere, ignoring case."""
    none_met: str = ""
    """A note for the user if the rule excludes no record although it should."""


Test = Callable[[Record], bool]


def make_leave_out_test(rule: LeaveOut, fields: Fields) -> Test:
    """Return a function that tells whether a rule excludes a record. Raises DataError unless it has one condition."""
    tests: list[Test] = []
    if rule.when:
        tests.append(Condition(rule.when, nested=True).holds)
    if rule.empty:
        tests.append(_make_empty_test(rule.empty, fields))
    if rule.same:
        first = Template(rule.same[0], fields)
        second = Template(rule.same[1], fields)
        tests.append(
            lambda record: fold_answer(first.fill(record)) == fold_answer(second.fill(record))
        )
    if rule.matches:
        searched = Template(rule.matches[0], fields)
        pattern = re.compile(rule.matches[1], re.IGNORECASE)
        tests.append(lambda record: pattern.search(searched.fill(record)) is not None)
    if len(tests) != 1:
        raise DataError(f"leave_out {rule.why!r}: give one of when, empty, same and matches")
    return tests[0]


def _make_empty_test(emptied_text: str, fields: Fields) -> Test:
    """Return a function that tells whether the single field of a template is empty in a record after its
    transforms. It raises FieldError if a required field was already empty before them."""
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
    """Parameters of an entry: the file with the records, and how questions are made from their fields.

    Texts are templates; see `mapped.templates`.
    """

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
    """A template and a first number: questions with the same value are numbered from it in `@number`."""
    once: str = ""
    """A template: only the first question with each value is kept, but all contribute to the answer pools."""
    unreadable: float = 0.0
    """Largest share of questions, from 0 to 1, that may be excluded because their record cannot be read.

    They are counted and reported. By default, or if there are more, an unreadable record is an error.
    """
    id: str
    image: ImageSource | None = None
    video: VideoSource | None = None
    context: str = ""
    group: str = ""
    """A template with the same value for all questions about an image; by default, its content identifies an image."""
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    """Templates by tag name; empty tags are left out."""
    answer_tags: dict[str, str] = msgspec.field(default_factory=dict)
    """Templates by name for tags that reveal the answer."""
    stratum: str = ""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Return one draft per record of a file, in the order of the file, as an entry's mapping describes it.

    An entry may declare several `layouts` of the same questions. Then the first one is used whose file exists and can be
    read; its settings override the shared ones. A note on the first draft names files that were skipped.

    Args:
        params: The mapping.
        folder: The folder with the official files.

    Raises:
        DataError: The file is missing, or a record does not fit the mapping.
    """
    layouts = params.get("layouts", [{}])
    shared = {name: value for name, value in params.items() if name != "layouts"}
    mappings = [read_params({**shared, **layout}, Mapping) for layout in layouts]
    present = [mapping for mapping in mappings if locate_or_none(folder, *mapping.records.file)]
    if not present:
        files = list(chain.from_iterable(mapping.records.file for mapping in mappings))
        path = locate_file(folder, *files)  # raises an error that names all files
        return _Reading(mappings[0], path, folder).drafts()

    # Why each layout cannot be read; empty if it can. A single layout is read without this check.
    faults = [""]
    if len(present) > 1:
        faults = [_layout_fault(mapping, folder) for mapping in present]
    chosen = faults.index("") if "" in faults else 0
    path = present[chosen].records.locate(folder)
    notes = tuple(
        f"{path.name} is read, as another file of the same questions cannot be: {fault}"
        for fault in faults[:chosen]
    )
    return _add_notes_to_first(_Reading(present[chosen], path, folder).drafts(), notes)


def _layout_fault(mapping: Mapping, folder: Path | None) -> str:
    """Return why the first record of a layout's file cannot be read; empty if it can."""
    try:
        next(read_source_records(mapping.records, mapping.records.locate(folder), folder), None)
    except DataError as error:
        return str(error)
    return ""


def _add_notes_to_first(drafts: Iterator[Draft], notes: tuple[str, ...]) -> Iterator[Draft]:
    """Yield the drafts, with notes added to the first."""
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
    "image",
    "video",
    "layouts",
)
"""Fields of a mapping that describe the layout of the official files; a hub dataset has another layout."""


def read_hub_rows(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Return drafts like `read`, but of the rows of a dataset on the hub.

    Args:
        params: A mapping, in which `files` and `images` are patterns of the dataset's files. `official` is the mapping
            of the official files, which have the same questions; what it says holds unless the mapping says otherwise.
        folder: Folder of the dataset.
    """
    merged: dict[str, Any] = {}
    for name, value in params.get("official", {}).items():
        if name not in OF_FILES:
            merged[name] = value
    changes = dict(params)
    changes.pop("official", None)
    files = changes.pop("files")
    separate_files = changes.pop("images", ())
    changes["records"] = {**changes.get("records", {}), "file": files}
    image = changes.get("image", {})
    has_other_pictures = "video" in changes or "file" in image
    if separate_files or not has_other_pictures:
        changes["image"] = {"column": "image", **image, "apart": separate_files}
    merged |= changes
    mapping = read_params(merged, Mapping)
    return _Reading(mapping, mapping.records.locate(folder), folder).drafts()


class _Reading:
    """Reads one file by one mapping."""

    def __init__(self, mapping: Mapping, path: Path, folder: Path | None) -> None:
        self._mapping = mapping
        self._path = path
        self._folder = folder
        fields = _known_fields(mapping)
        self._id = Template(mapping.id, fields, needed=True)
        self._context = Template(mapping.context, fields)
        self._group = Template(mapping.group, fields)
        self._stratum = Template(mapping.stratum, fields)
        self._tags = _tag_templates(mapping.tags, fields)
        self._answer_tags = _tag_templates(mapping.answer_tags, fields)
        self._once = Template(mapping.once, fields) if mapping.once else None
        self._counted = Template(mapping.number[0], fields, needed=True) if mapping.number else None
        self._repeat: list[dict[str, Template]] = []
        for added in mapping.repeat:
            self._repeat.append({name: Template(text, fields) for name, text in added.items()})
        self._leave_out = []
        for rule in mapping.leave_out:
            self._leave_out.append((rule.why, make_leave_out_test(rule, fields)))
        self._keep = _checked_condition(mapping.keep, fields)
        self._questions = QuestionMaker(mapping, fields)
        self._picture: ImageLookup | None = None
        if mapping.image:
            self._picture = make_image_finder(mapping.image, fields, path, folder)
        self._clip: Callable[[Record, str], LazyFrames] | None = None
        if mapping.video:
            self._clip = make_clip_finder(mapping.video, fields, path, folder)

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts; the last one's notes count the exclusions."""
        expected = {rule.why: rule.none_met for rule in self._mapping.leave_out if rule.none_met}
        name = self._path
        if self._mapping.records.kind == "parquet":
            # The path is that of the dataset's folder.
            name = Path(self._mapping.records.file[0])
        return without_exclusions(self._items(), name, expected)

    def _items(self) -> Iterator[Draft | Exclusion]:
        """Yield a draft or an exclusion for each question of the file."""
        pools = self._answer_pools() if self._questions.pools_answers else {}
        numbers: Counter[str] = Counter()
        keys: set[str] = set()
        unreadable: list[str] = []
        questions = 0
        for where, item in self._select_records():
            if isinstance(item, Exclusion):
                yield item
                continue
            questions += 1
            try:
                if self._once is not None:
                    key = self._once.fill(item)
                    if key in keys:
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

    def _answer_pools(self) -> Pools:
        """Return the answers to all questions of the source in pools by key, from which distractors are drawn."""

        def keys_with_answers() -> Iterator[tuple[Any, str]]:
            for where, item in self._select_records():
                if not isinstance(item, Exclusion):
                    yield from self._keys_with_answer(item, where)

        return answer_pools(keys_with_answers())

    def _keys_with_answer(self, record: Record, where: str) -> list[tuple[str, str]]:
        """Return a pair for each pool that the answer to a record's question belongs to: the key of the pool, and
        the answer."""
        try:
            gold = self._questions.gold(record)
            return [(key, gold) for key in self._questions.keys(record)]
        except FieldError as fault:
            raise DataError(f"{where}: {fault}") from None

    def _select_records(self) -> Iterator[tuple[str, Record | Exclusion]]:
        """Yield the record of each question, or its exclusion; a record of the file may have several questions."""
        any_met = False
        for where, record in self._records():
            if self._keep is not None and not self._keep.holds(record):
                continue
            any_met = True
            try:
                for single in self._split_record(record):
                    reasons = (why for why, is_excluded in self._leave_out if is_excluded(single))
                    why = next(reasons, None)
                    yield where, single if why is None else Exclusion(why)
            except FieldError as fault:
                raise DataError(f"{where}: {fault}") from None
        if self._keep is not None and not any_met:
            raise DataError(
                f"{self._path}: no record meets {self._mapping.keep!r}; is this the right file?"
            )

    def _records(self) -> LocatedRecords:
        """Return the records of the file, joined and grouped."""
        mapping = self._mapping
        records = read_source_records(mapping.records, self._path, self._folder)
        if mapping.join is not None:
            path = mapping.join.locate(self._folder) if mapping.join.file else self._path
            records = join_records(records, mapping.join, path, self._folder)
        return group_records(records, mapping.gather) if mapping.gather else records

    def _split_record(self, record: Record) -> Iterator[Record]:
        """Yield a record for each question, by `each` and `repeat`."""
        parts: Iterable[Record] = (record,)
        if self._mapping.each:
            parts = _records_by_position(record, self._mapping.each)
        for part in parts:
            if not self._repeat:
                yield part
            for added in self._repeat:
                yield {**part, **{name: text.fill(part) for name, text in added.items()}}

    def _draft(self, record: Record, where: str, pools: Pools) -> Draft:
        """Return the draft of a record's question, with its images and the frames of its clip."""
        draft_id = self._id.fill(record)
        question = self._questions.question(record, pools)
        images: list[ImageFile | ImageSpec | LazyFrames] = []
        if self._picture:
            images += self._picture(record, where)
        if self._clip:
            images.append(self._clip(record, where))
        return Draft(
            id=draft_id,
            rounds=(question,),
            images=tuple(images),
            where=where,
            context=self._context.fill(record).strip() or None,
            group=self._group.fill(record),
            tags=_fill_tags(self._tags, record),
            answer_tags=_fill_tags(self._answer_tags, record),
            stratum=self._stratum.fill(record),
        )


def _tag_templates(tags: dict[str, str], fields: Fields) -> list[tuple[str, Template]]:
    return [(name, Template(text, fields)) for name, text in tags.items()]


def _fill_tags(tags: list[tuple[str, Template]], record: Record) -> dict[str, str]:
    """Return the texts of the tags of a record, without empty ones."""
    return {name: text for name, tag in tags if (text := tag.fill(record))}


def _records_by_position(record: Record, names: tuple[str, ...]) -> Iterator[Record]:
    """Yield a record for each position of some lists of a record.

    The lists `question: ["Q1", "Q2"]` and `answer: ["A", "B"]` give a record with `question: "Q1"`, `answer: "A"` and the
    position in `@index`, and another one with the second items. Other fields are repeated.

    Args:
        record: The record.
        names: Fields with lists.

    Raises:
        FieldError: The lists differ in length.
    """
    lists = [record.get(name) or [] for name in names]
    lengths = {len(items) for items in lists}
    if len(lengths) > 1:
        counts = [f"{len(items)} {name}" for name, items in zip(names, lists, strict=True)]
        raise FieldError(" and ".join(counts))
    for index, items in enumerate(zip(*lists, strict=True)):
        item_by_name = dict(zip(names, items, strict=True))
        yield {**record, **item_by_name, "@index": index}


def _known_fields(mapping: Mapping) -> Fields:
    """Return the fields that the templates of a mapping may use, with their types.

    They are the fields of the records, those of joined records, and those that `repeat` adds. A field of `each` has the
    type of the items of its list.

    Raises:
        DataError: A field that `gather`, `each` or `join` names does not exist or has the wrong type.
    """
    fields = dict(mapping.records.fields)
    check_required_fields([mapping.gather] if mapping.gather else (), fields, "gather")
    for name in mapping.each:
        if not isinstance(fields.get(name), list):
            raise DataError(f"each: {name!r} is not a field with a list")
        item_type = fields[name][0]
        fields[name] = item_type
    join = mapping.join
    if join is not None:
        check_required_fields((join.to, *join.same), fields, "join")
        check_required_fields((join.key, *join.same), join.fields, "join")
        fields[join.name] = [join.fields] if join.take == "all" else join.fields
    for added in mapping.repeat:
        for name in added:
            fields[name] = "text"
    return fields


def _checked_condition(text: str, fields: Fields) -> Condition | None:
    """Return a condition on records, or None if it is empty. Raises DataError if it names a field that is not
    declared."""
    if not text:
        return None
    condition = Condition(text, nested=True)
    unknown = sorted(condition.names - fields.keys())
    if unknown:
        raise DataError(f"{text!r}: {registry.unknown_name('field', unknown[0], fields)}")
    return condition
