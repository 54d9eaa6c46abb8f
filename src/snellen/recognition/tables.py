"""Recognise what the columns of a table hold: questions with answers, annotations of images, or predictions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct, field

from snellen import registry
from snellen.callers import for_caller, setting
from snellen.common.answer_forms import FORMS, AnswerForm
from snellen.errors import DataError, UnknownNameError
from snellen.formats.delimited import LETTERS, unknown_columns
from snellen.formats.listed_cells import listed
from snellen.formats.listed_questions import split_listed
from snellen.formats.locate import ImageFinder
from snellen.formats.rows import read_rows
from snellen.formats.source_row import SourceRow
from snellen.recognition.answer_types import final_answer
from snellen.recognition.columns import (
    PARTLY,
    SEVERAL,
    AnswerColumn,
    Doubt,
    Roles,
    attribute_columns,
    box_corners,
    distractor_columns,
    id_column,
    label_column,
    name_score,
    one_by_name,
    option_columns,
    picture_columns,
    question_column,
    rivalry,
    split_name,
    split_options,
    usual_names,
)
from snellen.recognition.folding import as_text, folded, folded_name, folded_words
from snellen.recognition.model_columns import is_name_of_model
from snellen.recognition.named_pairs import gold_beside, rest_of_gold
from snellen.recognition.profiles import LOOKED_AT, ColumnProfile, profiles_of
from snellen.recognition.reply_columns import (
    FOIL_MARKS,
    captions_of_models,
    reference_caption,
    reply_columns,
    right_beside_foils,
)
from snellen.recognition.reply_names import (
    MEASURED_WORDS,
    flags_beside_replies,
    is_field_of_reply,
    is_made_of,
    is_name_of_reply,
    is_verdict,
    reply_score,
    says_of_reply,
)
from snellen.recognition.verdicts import (
    are_verdicts_on_sentences,
    is_field_of_verdicts,
    verdict_column,
    verdict_of_cell,
)

Rows = Callable[[], Iterable[SourceRow]]
"""Reads a table from its beginning each time it is called."""
TAG, ANSWER_TAG = "tag_", "answer_tag_"
MESSAGES = "messages"
"""Role of the column with the messages in a table of conversations."""
ROLES = (
    "image",
    "question",
    "options",
    "distractors",
    "answer",
    "id",
    "context",
    "group",
    "relevance",
    "tag",
)
"""Roles of columns in a table of questions."""
OF_ANNOTATIONS = (
    "label",
    "caption",
    "objects",
    "box",
    "relations",
    "texts",
    "questions",
    "fields",
    "attributes",
)
"""Further roles of columns in a table of annotations."""
BY_DECLARATION = (
    "likelihood",
    "turn",
    "presentation",
    "template",
    "subject",
    "failure",
    "title",
)
"""Roles in a table of predictions that only a form or the user assigns; see `PredictedRow`."""
OF_PREDICTIONS = ("reply", "prompt", "model", "verdict", "reading", "judge", *BY_DECLARATION)
"""Further roles of columns in a table of predictions."""
PROMPTS = frozenset(
    "prompt query input full_prompt input_prompt prompt_text question_with_option".split()
)
"""Names of columns with the full prompt."""
FITTING = 0.5
"""A column counts as the answers if more than this share of its cells name an option of their rows."""


class TableRoles(Struct, frozen=True):
    """What a table was recognised as, and the columns of each role.

    A role is what a column is for, such as `question`, `answer` or `reply`.
    """

    kind: str
    """`questions`, `conversations`, `annotations` or `predictions`; empty if the table is not recognised."""
    roles: Roles
    answer_is: AnswerForm = "any"
    doubts: tuple[Doubt, ...] = ()
    faults: tuple[str, ...] = ()
    """Further problems with the columns, one message each."""
    rows: int = 0
    profiles: dict[str, ColumnProfile] = field(default_factory=dict)

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns without a role."""
        used = {name for names in self.roles.values() for name in names}
        used |= {part for name in used for part in _parts_of(name, self.profiles)}
        return tuple(name for name in self.profiles if name not in used and not is_tag(name))


def _parts_of(name: str, columns: Iterable[str]) -> list[str]:
    """Return the columns that are fields of the object `name`: `answer.text` for `answer`."""
    return [column for column in columns if column.startswith(f"{name}.")]


def usual_tags(columns: Mapping[str, ColumnProfile]) -> list[str]:
    """Return the columns that group rows, such as `category` or `split`: they have a usual name and few short values."""
    return [
        name
        for name, profile in columns.items()
        if folded_name(name) in usual_names()["tag"] and (profile.may_be_tag or profile.is_repeated)
    ]


def is_tag(name: str) -> bool:
    return name.startswith((TAG, ANSWER_TAG))


def row_options(cells: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Return the options of a row, from one column with lists or from one column per option.

    With one column per option, they end before the first empty cell.
    """
    if len(columns) != 1 or columns[0] in LETTERS:
        return [as_text(cells[name]) for name in takewhile(lambda name: name in cells, columns)]
    cell = cells.get(columns[0])
    values = listed(cell)
    if values is None and isinstance(cell, str):
        values = split_options(cell)
    return [as_text(_text_of(value)) for value in values or ()]


def _text_of(value: Any) -> Any:
    """Return the text of an option or answer: the value itself, or the field of an object that has the text."""
    if not isinstance(value, dict):
        return value
    for name in ("text", "answer", "option", "value", "label"):
        if name in value:
            return value[name]
    return value


def accepted_texts(cell: Any) -> tuple[str, ...]:
    """Return the answers that a cell accepts for an open question.

    Of a list, each value is accepted. A text is accepted itself; if it is a worked solution, only
    its final line is. A list of four numbers is a box, and so a single answer.
    """
    is_plain_text = isinstance(cell, str) and not cell.strip().startswith(("[", "('", '("'))
    values = None if is_plain_text else listed(cell)
    is_box = values is not None and len(values) == 4 and all(map(_is_number, values))
    if values is None or is_box:
        return (final_answer(as_text(cell)),)
    return tuple(as_text(_text_of(value)) for value in values if value is not None)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def table_roles(
    path: Path,
    declared: Mapping[str, Sequence[str]] | None = None,
    answer_is: str = "",
    encoding: str = "",
    *,
    as_annotations: bool = False,
) -> TableRoles:
    """Recognise the columns of a table of questions, conversations or annotations.

    Args:
        path: The table.
        declared: Columns by role, as the user gives them. They are not recognised but taken as given.
        answer_is: How answers name options, if the user says it.
        encoding: The encoding of a text file; empty to detect it.
        as_annotations: Read a table of questions as annotations, whose questions and answers are facts about images.

    Raises:
        DataError: If the file cannot be read or lacks a declared column.
        UnknownNameError: If a declared role or `answer_is` does not exist.
    """
    declared = declared or {}
    rows = partial(read_rows, path, encoding)
    profiles = profiles_of(rows())
    _check_declared(path, profiles, declared, answer_is)
    if not profiles:
        return TableRoles("", {}, faults=tuple(row.fault for row in rows() if row.fault)[:1])
    talks = [name for name, profile in profiles.items() if profile.messages > 0.5]
    messages = declared.get(MESSAGES) or talks
    has_questions = "question" in profiles or "question" in declared
    if messages and not as_annotations and not has_questions:
        return _conversations(rows, profiles, messages, declared)
    assignment = _Assignment(path, rows, profiles, declared, cast(AnswerForm, answer_is))
    return assignment.roles(as_annotations=as_annotations)


def _check_declared(
    path: Path,
    profiles: Mapping[str, ColumnProfile],
    declared: Mapping[str, Sequence[str]],
    answer_is: str,
) -> None:
    """Raise an error if the user named a role, a form of answers or a column that does not exist."""
    roles = (*ROLES, *OF_ANNOTATIONS, *OF_PREDICTIONS)
    for role, names in declared.items():
        if role not in (MESSAGES, *roles):
            raise _unknown_role(role, names, roles)
        for name in names:
            if name not in profiles and not _parts_of(name, profiles):
                raise DataError(f"{path}: {registry.unknown_name('column', name, profiles)}")
        if len(names) > 1 and role not in SEVERAL:
            column = for_caller(f"--column {role}", f"columns[{role!r}]")
            raise DataError(f"{path}: {column} is given {len(names)} times; one column has it")
    if answer_is not in ("", "any", *FORMS):
        raise registry.unknown_name("form of answers", answer_is, FORMS)


def _unknown_role(role: str, names: Sequence[str], roles: Sequence[str]) -> UnknownNameError:
    """Return the error for an unknown role.

    If it is the usual name of a column, such as `image_path`, the message suggests the role,
    `image`.
    """
    for known in roles:
        if role in usual_names().get(known, ()):
            remedy = setting("columns", {known: names[0] if len(names) == 1 else list(names)})
            return UnknownNameError(f"unknown role of a column {role!r}; write {remedy}")
    return registry.unknown_name("role of a column", role, roles)


def prediction_roles(
    path: Path,
    rows: Sequence[SourceRow],
    declared: Mapping[str, Sequence[str]],
    answer_is: str = "",
    *,
    is_gold_known: bool = False,
) -> TableRoles:
    """Recognise what the columns of a table of predictions are for: the questions and the replies.

    If several columns may have a role, the one with the most certain name gets it, and the others
    are noted in `doubts`. A table need not have questions, ids and right answers.

    Args:
        path: The table, for messages.
        rows: All rows of the table.
        declared: Columns by role that the user, or the known format of a toolkit, has set.
        answer_is: How answers name options, if that has been set, too.
        is_gold_known: Whether the right answers come from another source, so that a column `answer`
            may hold the replies.
    """
    profiles = profiles_of(rows)
    _check_declared(path, profiles, declared, answer_is)
    if not profiles:
        return TableRoles("", {}, faults=tuple(row.fault for row in rows if row.fault)[:1])
    profiles = _without_maps(profiles, min(len(rows), LOOKED_AT))
    assignment = _Assignment(path, lambda: rows, profiles, declared, cast(AnswerForm, answer_is))
    return assignment.prediction_roles(is_gold_known=is_gold_known)


MANY_FIELDS = 20
"""An object with more fields than this may be a map, whose keys are data."""


def _without_maps(profiles: dict[str, ColumnProfile], rows: int) -> dict[str, ColumnProfile]:
    """Return the columns without the fields of maps, such as the votes for each answer or the counts of words.

    An object is a map if it has many fields and each is in few rows: its keys are data and not names of columns.
    """
    filled_by_object: dict[str, list[int]] = defaultdict(list)
    for name, profile in profiles.items():
        filled_by_object[name.rpartition(".")[0]].append(profile.filled)
    maps: set[str] = set()
    for outer, counts in filled_by_object.items():
        has_many_fields = len(counts) > MANY_FIELDS
        mean_filled = sum(counts) / len(counts)
        if outer and has_many_fields and mean_filled < RARE_SHARE * rows:
            maps.add(outer)
    return {
        name: profile
        for name, profile in profiles.items()
        if maps.isdisjoint(_objects_around(name))
    }


def _objects_around(name: str) -> list[str]:
    """Return the objects that contain a field, the outermost first: `a` and `a.b` for `a.b.c`."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _conversations(
    read: Rows,
    profiles: dict[str, ColumnProfile],
    messages: Sequence[str],
    declared: Mapping[str, Sequence[str]],
) -> TableRoles:
    """Return the roles of a table of conversations: its messages, images and ids."""
    other_columns = {name: profile for name, profile in profiles.items() if name not in messages}
    pictures, doubt = picture_columns(other_columns)
    if profiles[messages[0]].message_images:
        pictures, doubt = (), None
    roles: Roles = {MESSAGES: (messages[0],), "image": tuple(declared.get("image", pictures))}
    roles["id"] = tuple(declared.get("id", ())) or id_column(profiles, ())
    doubts = (doubt,) if doubt and "image" not in declared else ()
    rows = sum(1 for _ in read())
    return TableRoles("conversations", _filled(roles), doubts=doubts, rows=rows, profiles=profiles)


def _filled(roles: Roles) -> Roles:
    """Return the roles that have columns, in the order in which they are shown to the user."""
    order = (MESSAGES, *OF_PREDICTIONS, *ROLES, *OF_ANNOTATIONS)
    return {role: roles[role] for role in sorted(roles, key=order.index) if roles[role]}


class _Assignment:
    """Assigns roles to the columns of a table, one role after the other.

    A role is what a column is for, such as `question` or `answer`. A column gets at most one, so
    that a column once assigned is not considered for later roles.
    """

    def __init__(
        self,
        path: Path,
        rows: Rows,
        profiles: dict[str, ColumnProfile],
        declared: Mapping[str, Sequence[str]],
        answer_is: AnswerForm | Literal[""],
    ) -> None:
        self._path = path
        self._rows = rows
        self._profiles = profiles
        self._given = declared
        self._answer_is = answer_is
        self._roles: Roles = {role: tuple(names) for role, names in declared.items()}
        self._doubts: list[Doubt] = []
        self._faults: list[str] = []
        self._verdicts_on_sentences: list[str] = []
        """Columns named like right answers that say which replies are true."""

    @property
    def _taken(self) -> list[str]:
        return [name for names in self._roles.values() for name in names]

    def _still_free(self, profiles: Mapping[str, ColumnProfile]) -> dict[str, ColumnProfile]:
        return {name: profile for name, profile in profiles.items() if name not in self._taken}

    def _settle(self, role: str, outcome: tuple[tuple[str, ...], Doubt | None]) -> None:
        """Assign a role to columns and note their doubt; nothing is done if the user assigned that role.

        Args:
            role: The role.
            outcome: The columns, and a doubt if the user should confirm the choice.
        """
        if role in self._given:
            return
        names, doubt = outcome
        self._roles[role] = names
        self._doubts += [doubt] if doubt else []

    def roles(self, *, as_annotations: bool = False) -> TableRoles:
        """Return the roles of a table of questions.

        If the table has no questions, or if the user asks for it, its columns are read as
        annotations instead: facts about images, from which questions can be made.
        """
        free = {name: profile for name, profile in self._profiles.items() if not is_tag(name)}
        self._settle("image", self._pictures(self._still_free(free)))
        self._settle_question(free)
        has_named_options = bool(self._roles["options"]) and not self._are_options_unnamed
        is_question_doubted = any(doubt.role == "question" for doubt in self._doubts)
        asks = bool(self._roles["question"]) or has_named_options or is_question_doubted
        if as_annotations or not asks or self._given.keys() & set(OF_ANNOTATIONS):
            return self._annotations(free, with_questions=as_annotations)

        self._settle("id", (id_column(free, self._taken), None))
        # A context in another object than the question is a fact about the row.
        question_objects = {"", *(name.rpartition(".")[0] for name in self._roles["question"])}
        near_question = {
            name: profile
            for name, profile in free.items()
            if name.rpartition(".")[0] in question_objects
        }
        self._settle("context", (one_by_name("context", near_question, self._taken), None))
        for role in ("group", "relevance"):
            self._settle(role, (one_by_name(role, free, self._taken), None))
        rows, form = self._answers(free)

        tags = [*self._roles.get("tag", ())]
        tags += [name for name in self._profiles if name.startswith(TAG)]
        if "tag" not in self._given:
            tags += usual_tags(self._still_free(free))
        self._roles["tag"] = tuple(dict.fromkeys(tags))
        roles = _filled(self._roles)
        self._check_names([name for name in free if name not in self._taken])
        self._check_repeated(roles, free)
        return TableRoles(
            "questions",
            roles,
            form,
            tuple(self._doubts),
            tuple(self._faults),
            rows,
            self._profiles,
        )

    def _settle_question(self, free: Mapping[str, ColumnProfile]) -> None:
        """Assign the columns of wrong options, or else of all options, and of questions."""
        if "options" not in self._given:
            self._settle("distractors", (distractor_columns(free, self._taken), None))
        if self._roles.get("distractors"):
            self._settle("options", ((), None))
        else:
            self._settle("options", option_columns(free, self._taken))
        has_options = bool(self._roles["options"])
        self._settle("question", question_column(free, self._taken, has_options=has_options))

    def _check_repeated(self, roles: Roles, free: Mapping[str, ColumnProfile]) -> None:
        """Note a fault for each column with a role whose name appears twice in the header."""
        for names in roles.values():
            for name in names:
                if f"{name} (2)" in free:
                    self._faults.append(
                        f"{self._path}: the column {name!r} appears twice; rename one of them"
                    )

    def prediction_roles(self, *, is_gold_known: bool) -> TableRoles:
        """Return the roles of a table of predictions; see the function `prediction_roles`.

        A column gets at most one role, so the most certain ones are assigned first: replies, then
        what the model was shown, then the right answers, then what the table says about replies,
        and at last tags.

        Args:
            is_gold_known: Whether the right answers come from another source than this table.
        """
        free = {name: profile for name, profile in self._profiles.items() if not is_tag(name)}
        self._settle_reply(free, is_gold_known=is_gold_known)
        self._settle_input(free)
        self._settle_options_of_predictions(free)
        has_options = bool(self._roles["options"])
        gold = "" if has_options else self._gold_called_like_reply(free)
        asking = {name: profile for name, profile in free.items() if name != gold}
        self._settle_surest(
            "question", question_column(asking, self._taken, has_options=has_options)
        )
        prompts = [name for name in self._still_free(free) if folded_name(name) in PROMPTS]
        self._settle("prompt", (tuple(prompts[:1]), None))
        # Rows with the same id may be presentations of one question, so ids may repeat.
        ids = id_column(free, self._taken) or one_by_name("id", free, self._taken)
        self._settle("id", (ids, None))
        for role in ("context", "group", "relevance"):
            self._settle(role, (one_by_name(role, free, self._taken), None))
        rows, form = self._settle_answer_of_predictions(free, gold, is_gold_known=is_gold_known)
        self._settle_boxes(self._still_free(free))
        self._settle_twin(self._still_free(free))
        self._note_reply_as_reference()
        self._settle_facts_on_replies(free)
        self._settle_tags_of_predictions(free)
        return TableRoles(
            "predictions",
            _filled(self._roles),
            form,
            tuple(self._doubts),
            rows=rows,
            profiles=self._profiles,
        )

    def _settle_input(self, free: Mapping[str, ColumnProfile]) -> None:
        """Assign the columns with conversations, with names of models, and with images."""
        messages = [name for name in self._still_free(free) if free[name].messages > 0.5]
        self._settle(MESSAGES, (tuple(messages[:1]), None))
        self._settle("model", (one_by_name("model", free, self._taken), None))
        self._settle_surest("image", self._pictures(self._still_free(free)))
        if not self._roles["image"]:
            self._settle("image", (one_by_name("image", free, self._taken), None))

    def _settle_options_of_predictions(self, free: Mapping[str, ColumnProfile]) -> None:
        """Assign the column or columns of options: either of all options, or of the wrong ones.

        The role `options` is empty if there are none, or if only the wrong ones are listed.
        """
        if "options" not in self._given:
            self._settle("distractors", (self._distractors(free), None))
        if self._are_distractors_of_free_text(free):
            self._roles["distractors"] = ()
            self._roles.setdefault("options", ())
            return
        if self._roles.get("distractors"):
            self._roles.setdefault("options", ())
            return
        self._settle_surest("options", option_columns(free, self._taken))
        if "options" not in self._given and not self._are_options_several():
            self._roles["options"] = ()

    def _settle_answer_of_predictions(
        self, free: Mapping[str, ColumnProfile], gold: str, *, is_gold_known: bool
    ) -> tuple[int, AnswerForm]:
        """Assign the column of right answers.

        Args:
            free: Columns that are not tags.
            gold: The column that is named like the replies, but with a word for right answers:
                `gt_color` for replies in `pred_color`. Empty if there is none.
            is_gold_known: Whether the right answers come from another source. Columns of captions,
                and the last turns of conversations, are then not taken for right answers.

        Returns:
            The number of rows, and how answers name options.
        """
        beside = self._gold_beside_replies(free)
        candidates = self._possible_answers(free)
        rows = sum(1 for _ in self._rows())
        form: AnswerForm = "any"
        if gold in self._still_free(free):
            self._settle("answer", ((gold,), None))
            self._settle_met_answer(self._still_free(free))
        elif beside:
            self._settle("answer", ((beside,), None))
        elif candidates:
            rows, form = self._answers(candidates)
            self._faults.clear()  # the reader counts rows with unusable answers
            self._settle_met_answer(self._still_free(free))
        elif self._are_options_unnamed:
            self._roles["options"] = ()
        if self._roles.get("answer") or is_gold_known:
            return rows, form

        self._settle("answer", (self._reference_captions(free), None))
        if self._roles.get("answer") or "answer" in self._given:
            return rows, form
        # In a conversation for training, the last turn is the right answer.
        talks = [name for name in self._roles.get(MESSAGES, ()) if name in self._profiles]
        if self._roles["reply"] and talks and folded_name(talks[0]) == "conversations":
            self._roles["answer"] = (talks[0],)
        return rows, form

    def _possible_answers(self, free: Mapping[str, ColumnProfile]) -> dict[str, ColumnProfile]:
        """Return the columns without a role that may hold the right answers, and those that the user named as answers."""
        golds: dict[str, ColumnProfile] = {}
        for name, profile in self._still_free(free).items():
            if is_field_of_verdicts(name, self._profiles) or self._is_source_of_reply(name):
                continue
            if _may_be_answers(profile):
                golds[name] = profile
        replies = self._roles["reply"]
        of_models = (
            {name.rpartition(".")[0] for name in replies} - {""} if len(replies) > 1 else set()
        )
        outside_replies: dict[str, ColumnProfile] = {}
        for name, profile in golds.items():
            if not is_field_of_reply(name) and name.rpartition(".")[0] not in of_models:
                outside_replies[name] = profile
        if any(name_score("answer", name) > PARTLY for name in outside_replies):
            golds = outside_replies  # `true_label`, and not `parsed_response.label`
        for name in self._given.get("answer", ()):
            if name in self._profiles:
                golds[name] = self._profiles[name]
        golds = self._without_constant(golds)

        for reply in self._roles["reply"]:
            reply_profile = self._profiles.get(reply)
            if reply_profile is None:
                continue
            for name in list(golds):
                if are_verdicts_on_sentences(golds[name], reply_profile):
                    golds.pop(name)
                    self._verdicts_on_sentences.append(name)
        return golds

    def _settle_facts_on_replies(self, free: Mapping[str, ColumnProfile]) -> None:
        """Assign columns that describe replies: verdicts on them, what was read in them, and who judged them."""
        others = self._still_free(free)
        for name in self._alike(others, self._roles["reply"]):
            others.pop(name)  # another reply, and not the option extracted from this one
        answers: list[str] = []
        for name in self._roles.get("answer", ()):
            if name in self._profiles:
                answers += self._profiles[name].texts
        verdicts = verdict_column(self._still_free(others), answers)
        flags = [name for name in flags_beside_replies(free) if name not in self._taken]
        of_truth: list[str] = []
        if answers:  # without right answers, such labels may be what a question asks for
            of_truth = [name for name in self._verdicts_on_sentences if name not in self._taken]
        self._settle("verdict", (verdicts or tuple([*of_truth, *flags][:1]), None))
        self._settle_several_replies(self._still_free(free))
        for role in ("reading", "judge"):
            self._settle(role, (one_by_name(role, others, self._taken), None))
        if len(self._roles["reply"]) > 1:
            # A column of extracted options belongs to one model; with several, it is unclear to which.
            self._settle("reading", ((), None))

    def _settle_tags_of_predictions(self, free: Mapping[str, ColumnProfile]) -> None:
        """Assign the role `tag` to the columns named as tags, and to free columns that have few short values."""
        tags = [*self._roles.get("tag", ())]
        tags += [name for name in self._profiles if name.startswith(TAG)]
        for name, profile in self._still_free(free).items():
            if profile.may_be_tag and not says_of_reply(name, profile):
                tags.append(name)
        self._roles["tag"] = tuple(dict.fromkeys(tags))

    def _distractors(self, free: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
        """Return the columns of wrong options; empty if other columns have all options in order, such as `option_a`."""
        wrong = distractor_columns(free, self._taken)
        others = {name: profile for name, profile in free.items() if name not in wrong}
        options, _ = option_columns(others, self._taken) if wrong else ((), None)
        are_named = all(len(name) == 1 or name_score("options", name) for name in options)
        return () if len(options) > 1 and are_named else wrong

    def _settle_reply(self, free: Mapping[str, ColumnProfile], *, is_gold_known: bool) -> None:
        """Assign the role `reply` to the columns of replies.

        If other columns have the same last part (`0.0.pred` and `0.2.pred`), the first is used, and
        a doubt is noted.
        """
        names = reply_columns(
            free, list(islice(self._rows(), LOOKED_AT)), is_gold_known=is_gold_known
        )
        is_only = len(names) == 1 and "reply" not in self._given
        alike = self._alike(free, names) if is_only else []
        doubt = rivalry("reply", (*names, *alike), "be the replies") if alike else None
        self._settle("reply", (names, doubt))

    def _gold_called_like_reply(self, free: Mapping[str, ColumnProfile]) -> str:
        """Return the column of right answers that is named like the replies: `gt_color` for `pred_color`; else empty."""
        if "answer" in self._given or len(self._roles["reply"]) != 1:
            return ""
        names = [name for name, cells in free.items() if cells.is_scalar or cells.lists > 0.5]
        return gold_beside(self._roles["reply"][0], names)

    def _without_constant(self, golds: Mapping[str, ColumnProfile]) -> dict[str, ColumnProfile]:
        """Return the possible columns of right answers without flags and lists that have the same value in all rows.

        Right answers that never differ are improbable. Such a flag (`is_...`) describes the row, and such a list has
        the permitted replies. A list is kept if no other column may have the right answers.
        """
        varied: dict[str, ColumnProfile] = {}
        permitted: dict[str, ColumnProfile] = {}
        for name, profile in golds.items():
            is_constant = len(profile.texts) == 1 and profile.filled >= FEWEST_CONSTANT
            if _lists_permitted_replies(profile):
                permitted[name] = profile
            elif not (is_constant and folded_name(name).startswith("is_")):
                varied[name] = profile
        return varied or permitted

    def _gold_beside_replies(self, free: Mapping[str, ColumnProfile]) -> str:
        """Return the column of right texts that belongs to a column of wrong ones, or to captions that models wrote.

        These are `caption` beside `negative_caption`, and `given_caption` beside `base_caption`.
        The text is empty if there is neither, or if the user named the columns.
        """
        if "answer" in self._given or "reply" in self._given:
            return ""
        foils = right_beside_foils(free)
        replies = self._roles["reply"]
        if foils and replies and foils[0] not in replies and not self._roles.get("options"):
            return foils[0]
        return reference_caption(free) if replies and replies == captions_of_models(free) else ""

    def _are_distractors_of_free_text(self, free: Mapping[str, ColumnProfile]) -> bool:
        """Return whether lists of right and wrong answers are examples of what free replies may say, as in TruthfulQA.

        They are no options then. In multiple choice, a question has one right option, and replies
        name it; here each question has several right answers, and replies are sentences.
        """
        distractors = self._roles.get("distractors", ())
        replies = self._roles.get("reply", ())
        if len(distractors) != 1 or not replies or "distractors" in self._given:
            return False
        [wrong] = distractors
        right = [
            name for name in free if name not in self._taken and name_score("answer", name) > PARTLY
        ]
        have_several = any(_has_several(free[name]) for name in right) and _has_several(free[wrong])
        return have_several and self._profiles[replies[0]].words >= SENTENCE

    def _is_source_of_reply(self, name: str) -> bool:
        """Return whether the column of replies was derived from another column: `cleaned_output` from `output`."""
        return any(is_made_of(reply, name) for reply in self._roles["reply"])

    def _settle_boxes(self, free: Mapping[str, ColumnProfile]) -> None:
        """Use boxes as the right answers if replies are points or boxes and no other column has right answers.

        If several columns may hold the replies, the one with lists of numbers is then read.
        """
        if self._roles.get("answer") or "answer" in self._given or not self._roles["reply"]:
            return
        boxes = [
            name
            for name, profile in free.items()
            if folded_name(name.rpartition(".")[2]) in _NAMES_OF_BOXES and profile.lists > 0.5
        ]
        pointing = [
            name
            for name, profile in self._profiles.items()
            if (name in free or name in self._roles["reply"])
            and is_name_of_reply(name)
            and profile.lists > 0.5
            and name not in boxes
        ]
        reply = self._profiles.get(self._roles["reply"][0])
        says_where = reply is not None and 2 * sum(
            count for text, count in reply.texts.items() if _PLACE.search(text)
        ) > sum(reply.texts.values())
        if len(boxes) != 1 or not (pointing or says_where or "reply" in self._given):
            return
        self._settle("answer", ((boxes[0],), None))
        if "reply" not in self._given and pointing:
            self._roles["reply"] = (pointing[0],)

    def _settle_twin(self, free: Mapping[str, ColumnProfile]) -> None:
        """Read a column with short answers in place of full replies, if only it can be compared with the right answers.

        This is done if right answers are a few words or numbers that hardly any full reply
        contains, and nearly all cells of the other column are among them. Its name must be like
        that of the right answers (`llava_defect_present` beside `gt_defect_present`) or of the
        replies (`outcome_numeric` beside `outcome`). The choice is noted as a doubt, so the user
        can decide otherwise.
        """
        [answer, *_] = self._roles.get("answer") or ("",)
        replies = self._roles["reply"]
        if answer not in self._profiles or len(replies) != 1 or "reply" in self._given:
            return
        if self._roles.get("options"):
            return
        right = {folded(text) for text in self._profiles[answer].texts} - {""}
        if not 1 < len(right) <= MOST_TWIN_VALUES:
            return
        [reply] = replies
        if _share_mentioning(self._profiles[reply], right) > HARDLY:
            return
        thing = rest_of_gold(answer)
        twins: list[str] = []
        for name, profile in free.items():
            called = folded_name(name)
            is_of_thing = bool(thing) and called.endswith(f"_{thing}")
            is_of_reply = called.startswith(f"{folded_name(reply)}_")
            is_called_reply = is_name_of_reply(name)
            is_alike = is_of_thing or is_of_reply or is_called_reply
            if name in (answer, reply) or not is_alike or is_verdict(name):
                continue
            if profile.is_scalar and profile.share_in(right) > 1 - HARDLY:
                twins.append(name)
        if len(twins) == 1:
            self._roles["reply"] = (twins[0],)
            for role in ("tag", "reading"):
                without = tuple(name for name in self._roles.get(role, ()) if name != twins[0])
                self._roles[role] = without
            why = f"{twins[0]!r} says what {answer!r} says, and {reply!r} hardly does"
            self._doubts.append(Doubt("reply", (twins[0], reply), why))

    def _settle_several_replies(self, free: Mapping[str, ColumnProfile]) -> None:
        """Drop columns that were taken for replies only by their cells but just repeat the right answers.

        If the file has a verdict on each row, the replies are the column that equals the right
        answer in nearly all rows marked as right, and in hardly any other row.
        """
        replies = self._roles["reply"]
        [answer, *_] = self._roles.get("answer") or ("",)
        by_cells = [
            name
            for name in replies
            if not (is_name_of_reply(name) or is_name_of_model(name) or name.endswith("caption"))
        ]
        if len(replies) < 2 or "reply" in self._given or not by_cells or not answer:
            return
        [verdict, *_] = self._roles.get("verdict") or ("",)
        candidates = [*replies, *(name for name, profile in free.items() if profile.is_scalar)]
        equal: Counter[str] = Counter()
        as_judged: Counter[str] = Counter()
        judged: Counter[bool] = Counter()
        n_rows = 0
        for row in self._rows():
            right = folded(as_text(row.cells.get(answer, "")))
            is_right = verdict_of_cell(as_text(row.cells.get(verdict, "")))
            n_rows += 1
            judged[bool(is_right)] += is_right in (0, 1)
            for name in candidates:
                is_equal = folded(as_text(row.cells.get(name, ""))) == right
                equal[name] += is_equal
                as_judged[name] += is_equal == is_right
        if min(judged[True], judged[False]) >= FEWEST_JUDGED:
            confirmed = [name for name in candidates if as_judged[name] >= ALL * n_rows]
            best = [name for name in confirmed if name in replies] or confirmed
            if len(best) == 1:
                self._roles["reply"] = (best[0],)
                return
        kept = [name for name in replies if name not in by_cells or equal[name] < ALL * n_rows]
        if kept and n_rows >= FEWEST_EQUAL:
            self._roles["reply"] = tuple(kept)

    def _settle_met_answer(self, free: Mapping[str, ColumnProfile]) -> None:
        """Use another column of right answers, if replies contain its cells and hardly ever those of the first.

        A table may have several such columns, for example the number of a class and its name, or a
        short and a long name. A column with the same labels as the first choice is not used: it is
        about something else, such as a misleading word that is written on the image.
        """
        chosen = self._roles.get("answer", ())
        replies = self._roles["reply"]
        if not chosen or not replies or "answer" in self._given or self._roles["options"]:
            return
        if says_of_reply(chosen[0], self._profiles[chosen[0]]):
            return
        candidates: list[str] = []
        labels = set(map(folded, self._profiles[chosen[0]].texts))
        for name, profile in free.items():
            is_of_same_labels = profile.share_in(labels) > 0.5
            if _lists_permitted_replies(profile):
                continue
            if is_of_same_labels or not FOIL_MARKS.isdisjoint(split_name(name)):
                continue
            is_gold = bool(rest_of_gold(name))  # `expected_verdict` is no verdict on the reply
            is_label = name_score("answer", name) >= PARTLY
            if "." not in name:  # `tool.function.name` is the name of another thing
                is_label = is_label or name_score("label", name) >= PARTLY
            if profile.is_scalar and (is_gold or (is_label and not says_of_reply(name, profile))):
                candidates.append(name)
        shares = self._shares_in_replies((*chosen, *candidates), replies[0])
        best = max(candidates, key=lambda name: shares[name], default="")
        is_hardly_met = shares[chosen[0]] <= HARDLY
        if best and rest_of_gold(best):
            is_hardly_met = is_hardly_met or MORE_OFTEN * shares[chosen[0]] <= shares[best]
        if not best or not is_hardly_met or shares[best] < OFTEN_MET:
            return
        self._roles["answer"] = (best,)
        self._doubts = [doubt for doubt in self._doubts if doubt.role != "answer"]
        why = f"replies have the cells of {best!r}, and hardly those of {chosen[0]!r}"
        self._doubts.append(Doubt("answer", (best, *chosen), why))

    def _shares_in_replies(self, names: Sequence[str], reply: str) -> dict[str, float]:
        """Return for each column the share of rows in which the reply contains its cell as whole words, from 0 to 1.

        If a cell is a list, such as the answers of several annotators, one item is enough. A cell
        that also occurs in the question does not count, because a reply may repeat the question.

        Args:
            names: The columns.
            reply: The column of replies.
        """
        n_rows = 0
        [question, *_] = self._roles.get("question") or ("",)
        counts: Counter[str] = Counter()
        for row in self._rows():
            said = f" {' '.join(folded_words(as_text(row.cells.get(reply, ''))))} "
            asked = f" {' '.join(folded_words(as_text(row.cells.get(question, ''))))} "
            n_rows += 1
            for name in names:
                cell = row.cells.get(name, "")
                is_list = isinstance(cell, list) or as_text(cell).startswith("[")
                items = (listed(cell) if is_list else None) or [cell]
                texts = [" ".join(folded_words(as_text(item))) for item in items]
                counts[name] += any(
                    text and f" {text} " in said and f" {text} " not in asked for text in texts
                )
        return {name: counts[name] / max(1, n_rows) for name in names}

    def _reference_captions(self, free: Mapping[str, ColumnProfile]) -> tuple[str, ...]:
        """Return the column of right captions, in a table of images and replies that asks no question; else empty."""
        if not self._roles["reply"] or self._roles["question"] or not self._roles["image"]:
            return ()
        captions = {
            name: free[name]
            for name in one_by_name("caption", free, self._taken)
            if free[name].is_text or free[name].lists > 0.5
        }
        return tuple(captions)

    def _note_reply_as_reference(self) -> None:
        """Note a doubt if the user named the column of replies, and right answers are in one named like replies."""
        for name in self._roles.get("answer", ()):
            if "reply" in self._given and "answer" not in self._given and is_name_of_reply(name):
                self._doubts.append(
                    Doubt(
                        "answer",
                        (name,),
                        f"{name!r} is called like replies, and no other column is recognised as the right answers",
                    )
                )

    def _alike(self, columns: Iterable[str], names: Sequence[str]) -> list[str]:
        """Return the other columns whose last part is the same as in `names[0]`: `0.2.pred` for `0.0.pred`."""
        if not names or "." not in names[0]:
            return []
        last = names[0].rpartition(".")[2]
        return [name for name in columns if name != names[0] and name.rpartition(".")[2] == last]

    def _settle_surest(self, role: str, outcome: tuple[tuple[str, ...], Doubt | None]) -> None:
        """Assign a role to its column. If several columns may have it, the first gets it, and a doubt is noted."""
        names, doubt = outcome
        if doubt is not None:
            names = tuple(doubt.choices[0].split(" + "))
        self._settle(role, (names, doubt))

    def _are_options_several(self) -> bool:
        """Return whether at least half of the rows with options have two or more of them.

        If not, a list with one item is no list of options, but the right answer in brackets.
        """
        counts = [len(row_options(row.cells, self._roles["options"])) for row in self._rows()]
        with_options = [count for count in counts if count]
        return 2 * sum(count > 1 for count in with_options) >= len(with_options)

    @property
    def _are_options_unnamed(self) -> bool:
        """Whether columns count as options because they hold lists or are numbered, and not because of names."""
        options = self._roles["options"]
        return (
            bool(options)
            and not any(len(name) == 1 or name_score("options", name) for name in options)
            and "options" not in self._given
        )

    def _pictures(self, free: Mapping[str, ColumnProfile]) -> tuple[tuple[str, ...], Doubt | None]:
        """Return the columns of images: by the look of their cells, or else because their cells name existing files."""
        names, doubt = picture_columns(free)
        likely = doubt.choices if doubt else names
        if any(name in free and not free[name].is_url for name in likely):
            return names, doubt
        files = ImageFinder(self._path.parent)
        by_name = {
            name: profile
            for name, profile in free.items()
            if name_score("image", name) and profile.is_scalar
        }
        scores: dict[str, float] = {}
        for name, profile in by_name.items():
            texts = list(profile.texts)[:100]
            share_of_files = files.share(texts)
            if len(texts) > 1 and share_of_files > FITTING:
                scores[name] = name_score("image", name) + share_of_files
        if not scores:
            return names, doubt
        return (max(scores, key=lambda name: scores[name]),), None

    def _check_names(self, unused: Sequence[str]) -> None:
        """Note an unused column whose name looks like a misspelling, such as `anwser`, if no column has that role."""
        usual = {
            "context": ("context", "hint"),
            "group": ("group",),
            "answer": ("answer",),
            "image": ("image",),
        }
        doubted = {doubt.role for doubt in self._doubts}
        lacking = [
            name
            for role, names in usual.items()
            if not self._roles.get(role)
            for name in names
            if role not in doubted
        ]
        try:
            unknown_columns(
                [name for name in unused if name not in usual], lacking, str(self._path)
            )
        except DataError as error:
            self._faults.append(str(error))

    # --- answers ---

    def _answers(self, free: Mapping[str, ColumnProfile]) -> tuple[int, AnswerForm]:
        """Assign the role `answer`. Return the number of rows, and how their answers name options (such as by letters)."""
        options = self._roles["options"]
        candidates = self._given.get("answer") or [
            name
            for name, profile in free.items()
            if name not in self._taken and profile.pictures < 0.5 and not profile.boxes
        ]
        columns = {name: AnswerColumn(name) for name in candidates}
        rows = 0
        for row in self._rows():
            rows += 1
            if options:
                texts = row_options(row.cells, options)
                for name, column in columns.items():
                    column.add(
                        row.where, row.cells.get(name), texts, options if len(options) > 1 else ()
                    )
        named = [column for name, column in columns.items() if name_score("answer", name) > PARTLY]
        if self._are_options_unnamed and all(
            column.fit < FITTING for column in named or columns.values()
        ):
            # No column answers with these options: the column holds lists of something else.
            self._roles["options"] = ()
            return self._answers(free)
        if not options:
            self._settle_answer(self._open_answer(free, candidates))
            self._check_open([free[name] for name in self._roles["answer"]])
            return rows, "any"
        self._settle_answer(self._fitting_answer(columns))
        chosen = self._roles["answer"]
        return rows, self._form(columns[chosen[0]]) if chosen else "any"

    def _settle_answer(self, outcome: tuple[tuple[str, ...], Doubt | None]) -> None:
        if "reply" in self._roles:
            self._settle_surest("answer", outcome)
        else:
            self._settle("answer", outcome)

    def _fitting_answer(
        self, columns: Mapping[str, AnswerColumn]
    ) -> tuple[tuple[str, ...], Doubt | None]:
        """Return the column whose cells name options of their rows, preferring one that is named like answers."""
        if "answer" in columns:
            return ("answer",), None
        name_scores = {name: name_score("answer", name) for name in columns}
        fitting: dict[str, AnswerColumn] = {}
        for name, column in columns.items():
            if name_scores[name]:
                fit = column.fit
            elif column.rows > 1:
                fit = column.fit_in_words
            else:
                fit = 0.0
            if fit > FITTING:
                fitting[name] = column
        best = {name: column for name, column in fitting.items() if name_scores[name]} or fitting
        always_fitting = tuple(
            name for name, column in columns.items() if column.rows > 1 and column.fit == 1
        )
        is_any_named = any(score > PARTLY for score in name_scores.values())
        if not best and always_fitting and not is_any_named:
            return (), Doubt("answer", always_fitting, "no column is called like answers")
        if not best:
            by_name = sorted(
                (name for name in columns if name_scores[name] > PARTLY),
                key=lambda name: -name_scores[name],
            )
            return tuple(by_name[:1]), None
        ranked = sorted(best, key=lambda name: (-name_scores[name], name))
        first = best[ranked[0]]
        rivals = [name for name in ranked[1:] if not _agree(first, best[name])]
        if rivals:
            return (), rivalry("answer", (ranked[0], *rivals), "be the answer")
        return (ranked[0],), None

    def _form(self, column: AnswerColumn) -> AnswerForm:
        """Return how the answers in a column name options, such as by letter or by index.

        A fault is noted if they name no options, and a doubt if several forms fit, as 1 may be the
        first or the second option.
        """
        if self._answer_is:
            return self._answer_is
        # If there is one row, or other rows fit, the reader reports each wrong row itself.
        if column.rows > 1 and not column.fit and column.example:
            where, answer, options = column.example
            self._faults.append(
                f"{where}: the answers in {column.name!r} name no option: {as_text(answer)[:40]!r} beside "
                f"{', '.join(repr(option[:20]) for option in options[:4])}; say {setting('columns', {'answer': 'NAME'})} for another column"
            )
            return "any"
        first, *rivals = column.forms()
        if rivals:
            why = f"the answers in {column.name!r} name an option both as {' and as '.join((first, *rivals))}"
            self._doubts.append(Doubt("answer_is", (first, *rivals), why))
        return first

    def _open_answer(
        self, free: Mapping[str, ColumnProfile], candidates: Sequence[str]
    ) -> tuple[tuple[str, ...], Doubt | None]:
        """Return the column of accepted texts, chosen by its name, or a doubt if several columns may be meant."""
        if "answer" in candidates:
            return ("answer",), None
        scores = {name: score for name in candidates if (score := name_score("answer", name))}
        full_matches = {name: score for name, score in scores.items() if score > PARTLY}
        named = full_matches or scores
        if len(named) > 1:
            first, *others = sorted(named, key=lambda name: -scores[name])
            rivals = [name for name in others if free[name].texts != free[first].texts]
            if rivals:
                return (), rivalry("answer", (first, *rivals), "be the answer")
            return (first,), None
        if named:
            return tuple(named), None
        likely = [
            name for name in candidates if free[name].is_scalar and not free[name].is_repeated
        ]
        if likely:
            why = "no column is called like answers"
            return (), Doubt("answer", tuple(likely), why)
        return (), None

    def _check_open(self, columns: Sequence[ColumnProfile]) -> None:
        """Note a fault if all answers are letters although there are no options that these could name."""
        asking = [self._profiles[name] for name in self._roles.get("question", ())]
        questions = [text for profile in asking for text in profile.texts]
        if questions and all(split_listed(text) is not None for text in questions):
            return
        for texts in (profile.texts for profile in columns):
            if len(texts) > 1 and all(
                len(text) == 1 and text.upper() in LETTERS[:8] for text in texts
            ):
                self._faults.append(
                    f"{self._path}: the answers in {columns[0].name!r} are letters, and no column holds options; say "
                    f"{setting('columns', {'options': 'NAME'})}, once for each column, or list them in the text of each "
                    "question, `A. ...`, `B. ...`, on a line each"
                )

    # --- annotations ---

    def _annotations(
        self, free: Mapping[str, ColumnProfile], *, with_questions: bool
    ) -> TableRoles:
        """Return the roles of a table of annotations.

        Args:
            free: Columns that are not tags.
            with_questions: Whether questions, and entries of forms, may be annotations.
        """
        questions = [name for name in self._roles.get("question", ()) if _asks(free.get(name))]
        for role in ("options", "question", "distractors"):
            self._roles.pop(role, None)
        self._doubts = [doubt for doubt in self._doubts if doubt.role == "image"]

        rows = max(profile.filled for profile in free.values())
        often_filled = {
            name: profile for name, profile in free.items() if profile.filled >= RARE_SHARE * rows
        }
        if with_questions and questions and "questions" not in self._given:
            self._roles["questions"] = tuple(questions)
            remaining = self._still_free(often_filled)
            scalars = [name for name, profile in remaining.items() if profile.is_scalar]
            self._settle("answer", self._open_answer(free, scalars))
        self._settle("box", (box_corners(self._still_free(often_filled)), None))
        self._settle_fitting_annotations(self._still_free(often_filled))
        if not self._roles.get("questions"):
            is_described = any(self._roles.get(role) for role in OF_ANNOTATIONS if role != "box")
            remaining = self._still_free(often_filled)
            self._settle("label", label_column(remaining, only_sure=is_described))
        self._settle_further_captions(self._still_free(often_filled))
        self._settle("id", (id_column(self._still_free(often_filled), ()), None))
        self._settle_entries(self._still_free(often_filled), with_questions=with_questions)

        roles = _filled(self._roles)
        kind = "annotations" if roles.keys() & set(OF_ANNOTATIONS) else ""
        count = sum(1 for _ in self._rows())
        return TableRoles(
            kind, roles, doubts=tuple(self._doubts), rows=count, profiles=self._profiles
        )

    def _settle_fitting_annotations(self, remaining: Mapping[str, ColumnProfile]) -> None:
        """Assign each role of annotations to the free column with the surest name whose cells may hold it."""
        for role, fits in _FITTING_ANNOTATIONS.items():
            if role in self._roles:
                continue
            scores: dict[str, float] = {}
            for name, profile in self._still_free(remaining).items():
                score = name_score(role, name)
                if score > PARTLY and fits(profile):
                    scores[name] = score
            if scores:
                self._roles[role] = (max(scores, key=lambda name: scores[name]),)

    def _settle_further_captions(self, remaining: Mapping[str, ColumnProfile]) -> None:
        """Add further columns of captions, such as `caption_2`."""
        captions = [*self._roles.get("caption", ())]
        for name, profile in remaining.items():
            if name_score("caption", name) and profile.words > 2:
                captions.append(name)
        self._roles["caption"] = tuple(captions)

    def _settle_entries(
        self, remaining: Mapping[str, ColumnProfile], *, with_questions: bool
    ) -> None:
        """Assign the roles `fields` (values under keys, as in a form) and `attributes` (words for what an image shows).

        A column that is an object with a usual name for this has the fields. Other columns of short
        texts are attributes if the images also have other annotations, such as a caption, but no
        boxes, because the texts might then describe different objects in an image.

        Args:
            remaining: Columns without a role.
            with_questions: Whether the user asked to read questions and forms as annotations.
                Columns of short texts are then used even if the images have no other annotations:
                as attributes if several images share their words, and as fields otherwise.
        """
        objects = {name.partition(".")[0] for name in remaining if "." in name}
        keyed = [name for name in usual_names()["fields"] if name in objects or name in remaining]
        if keyed:
            self._roles.setdefault("fields", (keyed[0],))
            remaining = {
                name: profile
                for name, profile in remaining.items()
                if name.partition(".")[0] != keyed[0]
            }
        has_annotations = any(self._roles.get(role) for role in OF_ANNOTATIONS)
        has_boxes = bool(self._roles.get("box"))
        attributes: tuple[str, ...] = ()
        if (has_annotations or with_questions) and not has_boxes:
            attributes = attribute_columns(remaining)
        self._roles.setdefault("attributes", attributes)
        if has_annotations or not with_questions:
            return
        fields: list[str] = []
        for name, profile in remaining.items():
            if name not in attributes and profile.has_short_texts:
                fields.append(name)
        self._roles.setdefault("fields", tuple(fields))


_FITTING_ANNOTATIONS: dict[str, Callable[[ColumnProfile], bool]] = {
    "objects": lambda profile: profile.boxes > 0.5 or name_score("objects", profile.name) == 1,
    "relations": lambda profile: profile.lists > 0.5,
    "texts": lambda profile: profile.lists > 0.5 or profile.is_text,
    "questions": lambda profile: profile.lists > 0.5,
    "caption": lambda profile: profile.is_text or profile.lists > 0.5,
}
"""By role of annotations, whether the cells of a column may hold it; a column gets the first role that fits its name."""


HARDLY = 0.05
OFTEN_MET = 0.2
"""A column of right answers is replaced by another one if the share of replies that contain its
cells is at most `HARDLY`, and at least `OFTEN_MET` for the other."""
MORE_OFTEN = 4
"""If the name of the other column says that it is right, replies need only contain its cells this
many times as often as those of the first."""
ALL = 0.99
"""Two columns say the same if their cells agree in at least this share of the rows."""
FEWEST_JUDGED = 3
"""Verdicts show which column has the replies only if they mark at least this many as right, and as many as wrong."""
FEWEST_EQUAL = 10
"""A column that always equals the right answer is no reply, in a table of at least this many rows."""
FEWEST_CONSTANT = 5
"""A flag, or a list of several texts, that is the same in all rows is no right answer, in a table of at least this many
rows."""
MOST_TWIN_VALUES = 20
"""The most different right answers for which a column of short answers may be read in place of full replies."""
_PLACE = re.compile(r"[\[(]\s*-?[\d.]+\s*,\s*-?[\d.]+\s*(?:,\s*-?[\d.]+\s*,\s*-?[\d.]+\s*)?[\])]")
"""A point or a box in a reply."""
_NAMES_OF_BOXES = frozenset(("bbox", "gt_bbox", "box", "gt_box", "target_bbox", "bounding_box"))


def _share_mentioning(profile: ColumnProfile, words: Collection[str]) -> float:
    """Return the share of a column's cells, from 0 to 1, that contain at least one of some words."""
    wanted = [f" {' '.join(folded_words(word))} " for word in words]
    cells = 0
    mentioning = 0
    for text, count in profile.texts.items():
        said = f" {' '.join(folded_words(text))} "
        cells += count
        mentioning += count * any(word in said for word in wanted)
    return mentioning / max(1, cells)


SENTENCE = 4
"""Replies are sentences, and do not only name an option, if they have at least this many words on average."""


def _lists_permitted_replies(profile: ColumnProfile) -> bool:
    """Return whether all rows have the same list of several texts: what may be said, and not what is right."""
    if len(profile.texts) != 1 or profile.filled < FEWEST_CONSTANT:
        return False
    [text] = profile.texts
    return len(set(listed(text) or ())) > 1


def _has_several(profile: ColumnProfile) -> bool:
    """Return whether more than half of the cells have several texts: a list, or several lines."""
    lines = [text for text in profile.texts if "\n" in text.strip()]
    return profile.lists > 0.5 or 2 * len(lines) > len(profile.texts)


def _may_be_answers(profile: ColumnProfile) -> bool:
    """Return whether a column of a table of predictions may hold the right answers.

    A column named `correct` may hold verdicts on the replies instead, and `model_answer` the
    replies themselves.
    """
    score = name_score("answer", profile.name)
    if not score or profile.messages > 0.5 or profile.completions > 0.5:
        return False
    if score <= PARTLY and not MEASURED_WORDS.isdisjoint(split_name(profile.name)):
        return False
    holds_verdicts = profile.is_scalar and all(
        verdict_of_cell(text) is not None for text in profile.texts
    )
    if is_verdict(profile.name) and (holds_verdicts or score <= PARTLY):
        return False
    return score > PARTLY or not reply_score(profile.name, profile)


def _asks(profile: ColumnProfile | None) -> bool:
    """Return whether a column holds questions, by the question marks in its cells or by its name."""
    if profile is None:
        return False
    return profile.questions > 0.2 or name_score("question", profile.name) > CERTAIN_NAME


RARE_SHARE = 0.05
"""A column that is filled in fewer than this share of the rows is rare: no annotation, or a field of a map."""
CERTAIN_NAME = 0.97
"""The most certain names have a higher score than this."""


def _agree(first: AnswerColumn, second: AnswerColumn) -> bool:
    """Return whether two columns name the same option in every row, each in one of its forms."""
    return any(
        first.meant[first_form] == second.meant[second_form]
        for first_form in _forms(first)
        for second_form in _forms(second)
    )


def _forms(column: AnswerColumn) -> list[str]:
    """Return the forms of a column other than `any`."""
    return [form for form in column.forms() if form in column.meant]
