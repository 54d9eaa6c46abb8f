"""Read the records of a file, and make questions from them as the mapping in an entry describes.

Records may be joined with those of a second file, for example questions with the captions of their
images.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
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
    """The field of the second file that is compared with `to`."""
    to: str
    """The field of the first file that `key` matches."""
    take: Literal["one", "first", "all"] = "one"
    """How many records of the second file a record of the first one gets.

    `one`: exactly one, and no record of either file may be left over. `first`: the first that
    matches, or an empty one. `all`: a list of all that match.
    """
    keep: str = ""
    """Condition on records of the second file. Those that do not meet it are ignored."""
    same: tuple[str, ...] = ()
    """Fields that both files have and that must agree in matching records; otherwise it is an
    error.
    """
    others: bool = False
    """Whether the second file may have records without a match in the first."""


def join_records(
    records: LocatedRecords, join: Join, path: Path, folder: Path | None
) -> LocatedRecords:
    """Return records to each of which its matching records in a second file are added, in the field
    `join.name`.

    Two records match if the field `join.to` of the first equals the field `join.key` of the second.

    Args:
        records: The records of the first file.
        join: How records match.
        path: The second file.
        folder: The folder with the official files.

    Raises:
        DataError: A record has no match although the entry requires one.
    """
    seconds = _keep_matching(read_source_records(join, path, folder), join.keep)
    if join.take == "one":
        return _join_in_order(records, seconds, join, path)
    return _join_in_memory(records, seconds, join)


def _keep_matching(records: LocatedRecords, keep: str) -> LocatedRecords:
    """Return the records that meet a condition; all of them if the condition is empty."""
    if not keep:
        return records
    condition = Condition(keep, nested=True)
    return (located for located in records if condition.holds(located[1]))


def _join_in_order(
    records: LocatedRecords, seconds: LocatedRecords, join: Join, path: Path
) -> LocatedRecords:
    """Yield each record of the first file with the one record of the second file that matches it.

    Records match if the field `join.to` of the first is equal to the field `join.key` of the second. The record of the
    second file is added to that of the first, as the field `join.name`.

    Both files are read at the same time. Usually they are in the same order, so that few records are in memory. A record
    of the second file that is read before its match is kept until then.

    Raises:
        DataError: A record of either file has no match, a key appears twice, or fields that must
            agree differ.
    """
    unmatched_seconds: dict[Any, tuple[str, Record]] = {}
    """Records of the second file that were read and have no match yet, by key, with their location."""
    for where, record in records:
        wanted_key = record[join.to]
        while wanted_key not in unmatched_seconds:
            located_second = next(seconds, None)
            if located_second is None:
                raise DataError(f"{where}: the {join.to} {wanted_key} has no record in {path}")
            second_where, second = located_second
            second_key = second[join.key]
            if second_key in unmatched_seconds:
                raise DataError(f"{second_where}: the {join.key} {second_key} appears twice")
            unmatched_seconds[second_key] = located_second
        second_where, second = unmatched_seconds.pop(wanted_key)
        for field in join.same:
            if second[field] != record[field]:
                raise DataError(
                    f"{where}: the {field} is {record[field]}, but {second[field]} in {second_where}"
                )
        record[join.name] = second
        yield where, record
    unmatched = next(chain(unmatched_seconds.values(), seconds), None)
    if unmatched is not None:
        second_where, second = unmatched
        raise DataError(f"{second_where}: there is no record with the {join.to} {second[join.key]}")


def _join_in_memory(records: LocatedRecords, seconds: LocatedRecords, join: Join) -> LocatedRecords:
    """Yield each record of the first file with its matches in the second file, which is read as a whole before.

    Records match if the field `join.to` of the first is equal to the field `join.key` of the second. The record of the
    first file gets the field `join.name`: a list of all its matches or, with `take = "first"`, the first match, which is
    an empty record if there is no match.

    Raises:
        DataError: A record of the second file is not matched, although the entry requires this.
    """
    matches_by_key: dict[Any, list[Record]] = defaultdict(list)
    unmatched_keys: dict[Any, str] = {}  # with the location of their first record
    for where, second in seconds:
        key = second[join.key]
        unmatched_keys.setdefault(key, where)
        matches_by_key[key].append(second)
    for where, record in records:
        key = record[join.to]
        matches = matches_by_key.get(key, [])
        unmatched_keys.pop(key, None)
        if join.take == "all":
            record[join.name] = matches
        else:
            record[join.name] = matches[0] if matches else {}
        yield where, record
    if join.take == "all" and not join.others and unmatched_keys:
        key, where = next(iter(unmatched_keys.items()))
        raise DataError(f"{where}: there is no record with the {join.to} {key}")


def group_records(records: LocatedRecords, by: str) -> Iterator[tuple[str, Record]]:
    """Group records by a field, and yield one record for each group.

    It is the first record of the group, with a list of all of them in the field `@rows`. Groups are
    in the order of their first records.
    """
    groups: dict[Any, tuple[str, Record]] = {}
    for where, record in records:
        _, first = groups.setdefault(record[by], (where, {**record, "@rows": []}))
        first["@rows"].append(record)
    yield from groups.values()


class LeaveOut(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that excludes records.

    It has exactly one of the conditions `when`, `empty`, `same` and `matches`.
    """

    why: str
    when: str = ""
    """A condition on the record's fields."""
    empty: str = ""
    """A template of a single field.

    A record is left out if the field is empty after the template's transforms. If the field is
    required and was empty even before the transforms, the record is damaged, which is an error.
    """
    same: tuple[str, str] | None = None
    """Two templates. A record is left out if both give the same text, apart from case, articles and
    punctuation.
    """
    matches: tuple[str, str] | None = None
    """A template and a regular expression.

    A record is left out if the expression is found in the template's text, ignoring case.
    """
    none_met: str = ""
    """A note for the user in case the rule excludes no record although it should exclude some."""


Test = Callable[[Record], bool]


def make_leave_out_test(rule: LeaveOut, fields: Fields) -> Test:
    """Return a function that takes a record and tells whether a rule excludes it.

    Raises DataError if the rule has no condition, or more than one.
    """
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
    """Return a function that takes a record and tells whether a field of it is empty after its
    transforms.

    For example, `{answer:available}` is empty if the answer is `N/A`. The function raises
    FieldError if a required field is empty even before the transforms, because then the file
    probably has hidden answers.

    Args:
        emptied_text: The template, which must be a single field.
        fields: The fields of a record, with their types.
    """
    template = Template(emptied_text, fields)
    if not template.is_field:
        raise DataError(f"leave_out: empty = {emptied_text!r} is not a template of one field alone")
    (field,) = template.fields

    def emptied(record: Record) -> bool:
        """Return whether a field has no text after its transforms."""
        if any(text.strip() for text in field.texts(record)):
            return False
        if not field.may_be_empty and not field.is_filled(record):
            raise FieldError(
                f"{field.name} is empty; is this the file of a split with hidden answers?"
            )
        return True

    return emptied


class Mapping(Question, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of an entry for this reader: the file with the records, and how questions are made
    from their fields.

    Most texts are templates such as `{question} {hint}`, which are filled in for each record; see
    `mapped.templates`.
    """

    records: Records
    join: Join | None = None
    gather: str = ""
    """A field to group by. Records with the same value become one record, with a list of all of
    them in the field `@rows`.
    """
    keep: str = ""
    """Condition on records. Those that do not meet it do not belong to the benchmark and are
    ignored.
    """
    each: tuple[str, ...] = ()
    """Fields with lists of the same length, for records with several questions.

    Each position becomes a question, in which the fields have the item at this position, and
    `@index` is the position from 0.
    """
    repeat: tuple[dict[str, str], ...] = ()
    """For several questions from each record: for each of these questions, templates of the fields
    to add.
    """
    leave_out: tuple[LeaveOut, ...] = ()
    number: tuple[str, int] | None = None
    """A template and a first number.

    Questions with the same text of the template are numbered, from the first number on, in the
    field `@number`.
    """
    once: str = ""
    """A template. Of several questions with the same text of it only the first is asked; the
    answers of the others can still be wrong options.
    """
    unreadable: float = 0.0
    """Largest share of questions, from 0 to 1, that may be left out because their records cannot be
    read.

    They are counted, and the user is told. If there are more, and by default, an unreadable record
    is an error.
    """
    id: str
    image: ImageSource | None = None
    video: VideoSource | None = None
    context: str = ""
    group: str = ""
    """A template with the same value for all questions about an image; by default, its content identifies an image."""
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    """A template for each tag. If its text is empty, the question does not get the tag."""
    answer_tags: dict[str, str] = msgspec.field(default_factory=dict)
    """A template for each tag that would give the answer away, and is therefore stored with the
    answers.
    """
    judge_notes: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Templates for each note that only a judge is shown, such as the key steps of a solution; a template that is a
    single field takes all items of its list.
    """
    stratum: str = ""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Return the questions that an entry's mapping makes from the records of a file, in the order
    of the file.

    An entry may declare several `layouts`, which are files with the same questions in different
    formats. The first one is used that exists and can be read. Its settings override those that all
    layouts share. A note on the first question names files that exist but could not be read.

    Args:
        params: The mapping (see `Mapping`), in which `layouts` is a list of changes.
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
    """Return why the first record of a layout's file cannot be read; empty if it can be read."""
    try:
        next(read_source_records(mapping.records, mapping.records.locate(folder), folder), None)
    except DataError as error:
        return str(error)
    return ""


def _add_notes_to_first(drafts: Iterator[Draft], notes: tuple[str, ...]) -> Iterator[Draft]:
    """Yield the drafts. The first one gets these notes in addition to its own."""
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
"""Settings that describe the files in which the official data come.

They are not used for a dataset on the hub, which has other files.
"""


def read_hub_rows(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Return the questions that a mapping makes from the rows of a dataset on the Hugging Face hub.

    Args:
        params: A mapping, in which `files` and `images` are patterns of the dataset's files.
            `official` is the mapping of the official files; its settings are used too, except for
            those about files, unless `params` has others.
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
    """Reads the questions in one file, as a mapping describes them."""

    def __init__(self, mapping: Mapping, path: Path, folder: Path | None) -> None:
        """Prepare the templates and conditions of a mapping, so that they can be applied to each record.

        Args:
            mapping: Declares how the fields of a record become a question.
            path: The file with the records, for messages and for files next to it.
            folder: The folder with all files of the benchmark.
        """
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
        self._judge_notes: dict[str, list[Template]] = {}
        for name, texts in mapping.judge_notes.items():
            self._judge_notes[name] = [Template(text, fields) for text in texts]
        self._once = Template(mapping.once, fields) if mapping.once else None
        self._counted = Template(mapping.number[0], fields, needed=True) if mapping.number else None
        self._repeat: list[dict[str, Template]] = []
        for added_fields in mapping.repeat:
            templates = {name: Template(text, fields) for name, text in added_fields.items()}
            self._repeat.append(templates)
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
        """Yield the questions. The notes of the last one say how many were excluded, and why."""
        expected = {rule.why: rule.none_met for rule in self._mapping.leave_out if rule.none_met}
        name = self._path
        if self._mapping.records.kind == "parquet":
            # The path is that of the dataset's folder.
            name = Path(self._mapping.records.file[0])
        return without_exclusions(self._items(), name, expected)

    def _items(self) -> Iterator[Draft | Exclusion]:
        """Yield each question of the file, or an exclusion with the reason if it is left out.

        A question that repeats another one (`once`) is skipped without an exclusion. A record that cannot be read is left
        out if the mapping allows a share of such records (`unreadable`).

        Raises:
            DataError: A record cannot be read, and the mapping allows no such records.
            WrongRowsError: After the last question, if the share of such records is larger than allowed.
        """
        pools = self._answer_pools() if self._questions.pools_answers else {}
        count_of_number_key: Counter[str] = Counter()
        seen_once_keys: set[str] = set()
        faults: list[str] = []
        question_count = 0
        for where, item in self._select_records():
            if isinstance(item, Exclusion):
                yield item
                continue
            question_count += 1
            try:
                if self._once is not None:
                    once_key = self._once.fill(item)
                    if once_key in seen_once_keys:
                        continue
                    seen_once_keys.add(once_key)
                if self._counted is not None and self._mapping.number is not None:
                    # Records with the same key are numbered, from the first number that the mapping declares.
                    _, first_number = self._mapping.number
                    number_key = self._counted.fill(item)
                    item["@number"] = first_number + count_of_number_key[number_key]
                    count_of_number_key[number_key] += 1
                draft = self._draft(item, where, pools)
            except (FieldError, DataError) as error:
                if isinstance(error, DataError):
                    faults.append(str(error))  # it has its location already
                else:
                    faults.append(f"{where}: {error}")
                if not self._mapping.unreadable:
                    raise DataError(faults[0]) from None
                yield Exclusion(f"it cannot be read, the first as {faults[0]}")
                continue
            yield draft
        if len(faults) > question_count * self._mapping.unreadable:
            raise WrongRowsError(faults)

    def _answer_pools(self) -> Pools:
        """Return the answers to all questions of the file in groups by key, from which wrong
        options are drawn.
        """

        def keys_with_answers() -> Iterator[tuple[Any, str]]:
            for where, item in self._select_records():
                if not isinstance(item, Exclusion):
                    yield from self._keys_with_answer(item, where)

        return answer_pools(keys_with_answers())

    def _keys_with_answer(self, record: Record, where: str) -> list[tuple[str, str]]:
        """Return the ground truth of a record once for each group of answers that it belongs to, as
        pairs of key and answer.
        """
        try:
            gold = self._questions.gold(record)
            return [(key, gold) for key in self._questions.keys(record)]
        except FieldError as fault:
            raise DataError(f"{where}: {fault}") from None

    def _select_records(self) -> Iterator[tuple[str, Record | Exclusion]]:
        """Yield a record for each question, or an exclusion with the reason if a rule leaves it
        out, with its location.

        A record of the file may have several questions. Records that do not meet the condition
        `keep` are skipped.
        """
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
        """Return the records of the file, joined with those of a second file and grouped, if the
        mapping declares this.
        """
        mapping = self._mapping
        records = read_source_records(mapping.records, self._path, self._folder)
        if mapping.join is not None:
            path = mapping.join.locate(self._folder) if mapping.join.file else self._path
            records = join_records(records, mapping.join, path, self._folder)
        return group_records(records, mapping.gather) if mapping.gather else records

    def _split_record(self, record: Record) -> Iterator[Record]:
        """Yield a record for each question in a record, as the settings `each` and `repeat` say; by
        default, the record itself.
        """
        parts: Iterable[Record] = (record,)
        if self._mapping.each:
            parts = _records_by_position(record, self._mapping.each)
        for part in parts:
            if not self._repeat:
                yield part
            for added in self._repeat:
                yield {**part, **{name: text.fill(part) for name, text in added.items()}}

    def _draft(self, record: Record, where: str, pools: Pools) -> Draft:
        """Return the question of a record, with its images and the frames of its video clip."""
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
            judge_notes=_fill_notes(self._judge_notes, record),
            stratum=self._stratum.fill(record),
        )


def _tag_templates(tags: dict[str, str], fields: Fields) -> list[tuple[str, Template]]:
    return [(name, Template(text, fields)) for name, text in tags.items()]


def _fill_tags(tags: list[tuple[str, Template]], record: Record) -> dict[str, str]:
    """Return the tags of a record by name, without those whose text is empty."""
    return {name: text for name, tag in tags if (text := tag.fill(record))}


def _fill_notes(notes: dict[str, list[Template]], record: Record) -> dict[str, tuple[str, ...]]:
    """Return the notes of a record by name, without empty texts and without notes that have no other texts."""
    filled: dict[str, tuple[str, ...]] = {}
    for name, templates in notes.items():
        texts: list[str] = []
        for template in templates:
            texts.extend(text for text in template.fill_all(record) if text.strip())
        if texts:
            filled[name] = tuple(texts)
    return filled


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
    """Return a condition on records; None if `text` is empty.

    Raises DataError if the condition names a field that the entry does not declare.
    """
    if not text:
        return None
    condition = Condition(text, nested=True)
    unknown = sorted(condition.names - fields.keys())
    if unknown:
        raise DataError(f"{text!r}: {registry.unknown_name('field', unknown[0], fields)}")
    return condition
