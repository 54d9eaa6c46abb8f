"""What the columns of a table are: questions that it asks, or annotations of pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct, field

from snellen import registry
from snellen.common.answer_forms import FORMS, AnswerForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, unknown_columns
from snellen.formats.locate import PictureFinder
from snellen.formats.rows import SourceRow, listed, read_rows
from snellen.recognition.columns import (
    PARTLY,
    SEVERAL,
    AnswerColumn,
    Doubt,
    Roles,
    as_text,
    attribute_columns,
    box_columns,
    distractor_columns,
    folded_name,
    id_column,
    is_verdict,
    label_column,
    name_score,
    one_by_name,
    option_columns,
    picture_columns,
    question_column,
    reply_columns,
    reply_score,
    rivalry,
    says_of_reply,
    split_options,
    usual_names,
)
from snellen.recognition.profiles import ColumnProfile, profiles_of

Rows = Callable[[], Iterable[SourceRow]]
"""Reads a table from its beginning each time it is called."""
TAG, ANSWER_TAG = "tag_", "answer_tag_"
MESSAGES = "messages"
"""What a column of a table of conversations holds."""
ROLES = (
    "picture",
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
"""What a column of a table of questions may be."""
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
"""What a column of a table of annotations may be besides."""
OF_PREDICTIONS = ("reply", "prompt", "model", "verdict", "reading", "judge")
"""What a column of a table of predictions may be besides: what the model said, all that it was shown, and its name."""
PROMPTS = frozenset(
    ("prompt", "query", "input", "full_prompt", "prompt_text", "question_with_option")
)
"""Names of columns with all that the model was shown."""
FITTING = 0.5
"""The share of rows whose answer must name an option before a column counts as the answers."""


class TableRoles(Struct, frozen=True):
    """What is taken for what in a table."""

    kind: str
    """`questions`, `conversations` or `annotations`; empty where the table is none of these."""
    roles: Roles
    answer_is: AnswerForm = "any"
    doubts: tuple[Doubt, ...] = ()
    faults: tuple[str, ...] = ()
    """What else is wrong with the columns."""
    rows: int = 0
    profiles: dict[str, ColumnProfile] = field(default_factory=dict)

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that are taken for nothing."""
        used = {name for names in self.roles.values() for name in names}
        used |= {part for name in used for part in _parts_of(name, self.profiles)}
        return tuple(name for name in self.profiles if name not in used and not is_tag(name))


def _parts_of(name: str, columns: Iterable[str]) -> list[str]:
    """The columns that are fields of an object."""
    return [column for column in columns if column.startswith(f"{name}.")]


def is_tag(name: str) -> bool:
    return name.startswith((TAG, ANSWER_TAG))


def row_options(cells: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """The options of a row: of a column with lists, or of one column each up to the first empty one."""
    if len(columns) != 1 or columns[0] in LETTERS:
        return [as_text(cells[name]) for name in takewhile(lambda name: name in cells, columns)]
    cell = cells.get(columns[0])
    values = listed(cell)
    if values is None and isinstance(cell, str):
        values = split_options(cell)
    return [as_text(_text_of(value)) for value in values or ()]


def _text_of(value: Any) -> Any:
    """An option, or an accepted answer, that stands in an object."""
    if isinstance(value, dict):
        return next(
            (
                value[name]
                for name in ("text", "answer", "option", "value", "label")
                if name in value
            ),
            value,
        )
    return value


def accepted_texts(cell: Any) -> tuple[str, ...]:
    """The answers that a cell of an open question accepts: one, or those of a list."""
    values = listed(cell) if not isinstance(cell, str) or cell.strip().startswith("[") else None
    is_box = values is not None and len(values) == 4 and all(map(_is_number, values))
    if values is None or is_box:
        return (as_text(cell),)
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
    """What the columns of a table are; `given` ones are what they are said to be. With `as_annotations` questions with
    answers are annotations too. Raises DataError for a file that cannot be read, and for a given column that it lacks.
    """
    declared = declared or {}
    rows = partial(read_rows, path, encoding)
    profiles = profiles_of(rows())
    _check_declared(path, profiles, declared, answer_is)
    if not profiles:
        return TableRoles("", {}, faults=tuple(row.fault for row in rows() if row.fault)[:1])
    messages = declared.get(MESSAGES) or [
        name for name, profile in profiles.items() if profile.messages > 0.5
    ]
    if (
        messages
        and not as_annotations
        and "question" not in profiles
        and "question" not in declared
    ):
        return _conversations(rows, profiles, messages, declared)
    return _Assignment(path, rows, profiles, declared, cast(AnswerForm, answer_is)).roles(
        as_annotations=as_annotations
    )


def _check_declared(
    path: Path,
    profiles: Mapping[str, ColumnProfile],
    declared: Mapping[str, Sequence[str]],
    answer_is: str,
) -> None:
    """Raise for a role or form of answers that does not exist, and for a declared column that the table lacks."""
    roles = (*ROLES, *OF_ANNOTATIONS, *OF_PREDICTIONS)
    for role, names in declared.items():
        if role not in (MESSAGES, *roles):
            raise registry.unknown("role of a column", role, roles)
        for name in names:
            if name not in profiles and not _parts_of(name, profiles):
                raise DataError(f"{path}: {registry.unknown('column', name, profiles)}")
        if len(names) > 1 and role not in SEVERAL:
            raise DataError(
                f"{path}: --column {role} is given {len(names)} times; one column has it"
            )
    if answer_is not in ("", "any", *FORMS):
        raise registry.unknown("form of answers", answer_is, FORMS)


def prediction_roles(
    path: Path,
    rows: Sequence[SourceRow],
    declared: Mapping[str, Sequence[str]],
    answer_is: str = "",
    *,
    is_gold_known: bool = False,
) -> TableRoles:
    """What the columns of a table of predictions are: the roles of `build`, and those of replies.

    What cannot be told is decided by the surest name, and is among the `doubts`; nothing is asked, and a question, an id
    and an answer may be missing. `is_gold_known` says that right answers are known from elsewhere.
    """
    profiles = profiles_of(rows)
    _check_declared(path, profiles, declared, answer_is)
    if not profiles:
        return TableRoles("", {}, faults=tuple(row.fault for row in rows if row.fault)[:1])
    assignment = _Assignment(path, lambda: rows, profiles, declared, cast(AnswerForm, answer_is))
    return assignment.prediction_roles(is_gold_known=is_gold_known)


def _conversations(
    read: Rows,
    profiles: dict[str, ColumnProfile],
    messages: Sequence[str],
    declared: Mapping[str, Sequence[str]],
) -> TableRoles:
    pictures, doubt = picture_columns(
        {name: profile for name, profile in profiles.items() if name not in messages}
    )
    roles: Roles = {MESSAGES: (messages[0],), "picture": tuple(declared.get("picture", pictures))}
    roles["id"] = tuple(declared.get("id", ())) or id_column(profiles, ())
    doubts = (doubt,) if doubt and "picture" not in declared else ()
    rows = sum(1 for _ in read())
    return TableRoles("conversations", _filled(roles), doubts=doubts, rows=rows, profiles=profiles)


def _filled(roles: Roles) -> Roles:
    """The roles that have columns, in the order in which they are said."""
    order = (MESSAGES, *OF_PREDICTIONS, *ROLES, *OF_ANNOTATIONS)
    return {role: roles[role] for role in sorted(roles, key=order.index) if roles[role]}


class _Assignment:
    """Gives columns their roles, one role after the other."""

    def __init__(
        self,
        path: Path,
        rows: Rows,
        profiles: dict[str, ColumnProfile],
        declared: Mapping[str, Sequence[str]],
        answer_is: AnswerForm | Literal[""],
    ) -> None:
        self._path, self._rows, self._profiles, self._given = path, rows, profiles, declared
        self._answer_is = answer_is
        self._roles: Roles = {role: tuple(names) for role, names in declared.items()}
        self._doubts: list[Doubt] = []
        self._faults: list[str] = []

    @property
    def _taken(self) -> list[str]:
        return [name for names in self._roles.values() for name in names]

    def _still_free(self, profiles: Mapping[str, ColumnProfile]) -> dict[str, ColumnProfile]:
        return {name: profile for name, profile in profiles.items() if name not in self._taken}

    def _settle(self, role: str, outcome: tuple[tuple[str, ...], Doubt | None]) -> None:
        if role in self._given:
            return
        names, doubt = outcome
        self._roles[role] = names
        self._doubts += [doubt] if doubt else []

    def roles(self, *, as_annotations: bool = False) -> TableRoles:
        profiles, free = self._profiles, {n: p for n, p in self._profiles.items() if not is_tag(n)}
        self._settle("picture", self._pictures(self._still_free(free)))
        if "options" not in self._given:
            self._settle("distractors", (distractor_columns(free, self._taken), None))
        has_own_options = bool(self._roles.get("distractors"))
        self._settle(
            "options", ((), None) if has_own_options else option_columns(free, self._taken)
        )
        self._settle(
            "question", question_column(free, self._taken, has_options=bool(self._roles["options"]))
        )
        has_options = self._roles["options"] and not self._are_options_unnamed
        asks = (
            self._roles["question"]
            or has_options
            or any(d.role == "question" for d in self._doubts)
        )
        if as_annotations or not asks or self._given.keys() & set(OF_ANNOTATIONS):
            return self._annotations(free, with_questions=as_annotations)
        self._settle("id", (id_column(free, self._taken), None))
        # A context that stands in another object than the question is a fact about the row.
        objects = {"", *(name.rpartition(".")[0] for name in self._roles["question"])}
        beside = {
            name: profile for name, profile in free.items() if name.rpartition(".")[0] in objects
        }
        for role, columns in (("context", beside), ("group", free), ("relevance", free)):
            self._settle(role, (one_by_name(role, columns, self._taken), None))
        rows, form = self._answers(free)
        by_name = [name for name in profiles if name.startswith(TAG)]
        self._roles["tag"] = tuple(dict.fromkeys((*self._roles.get("tag", ()), *by_name)))
        roles = _filled(self._roles)
        self._check_names([name for name in free if name not in self._taken])
        repeated = [name for names in roles.values() for name in names if f"{name} (2)" in free]
        self._faults += [
            f"{self._path}: the column {name!r} appears twice; rename one of them"
            for name in repeated
        ]
        return TableRoles(
            "questions", roles, form, tuple(self._doubts), tuple(self._faults), rows, profiles
        )

    def prediction_roles(self, *, is_gold_known: bool) -> TableRoles:
        """The roles of a table of predictions."""
        free = {name: profile for name, profile in self._profiles.items() if not is_tag(name)}
        self._settle_reply(free, is_gold_known=is_gold_known)
        messages = [name for name in self._still_free(free) if free[name].messages > 0.5]
        self._settle(MESSAGES, (tuple(messages[:1]), None))
        self._settle("model", (one_by_name("model", free, self._taken), None))
        self._settle_surest("picture", self._pictures(self._still_free(free)))
        if not self._roles["picture"]:
            self._settle("picture", (one_by_name("picture", free, self._taken), None))
        if "options" not in self._given:
            self._settle("distractors", (distractor_columns(free, self._taken), None))
        if self._roles.get("distractors"):
            self._roles.setdefault("options", ())
        else:
            self._settle_surest("options", option_columns(free, self._taken))
        has_options = bool(self._roles["options"])
        self._settle_surest("question", question_column(free, self._taken, has_options=has_options))
        prompts = [name for name in self._still_free(free) if folded_name(name) in PROMPTS]
        self._settle("prompt", (tuple(prompts[:1]), None))
        # Rows of an id may be presentations of one question, so ids do not have to differ.
        ids = id_column(free, self._taken) or one_by_name("id", free, self._taken)
        self._settle("id", (ids, None))
        for role in ("context", "group", "relevance"):
            self._settle(role, (one_by_name(role, free, self._taken), None))
        golds = {
            name: profile
            for name, profile in self._still_free(free).items()
            if _may_be_answers(profile)
        }
        rows, form = sum(1 for _ in self._rows()), cast(AnswerForm, "any")
        if golds or "answer" in self._given:
            rows, form = self._answers(golds)
            self._faults.clear()  # the reader counts the rows that are wrong
        elif self._are_options_unnamed:
            self._roles["options"] = ()
        others = self._still_free(free)
        for name in self._alike(others, self._roles["reply"]):
            others.pop(name)  # another reply, and not what was read in this one
        for role in ("verdict", "reading", "judge"):
            self._settle(role, (one_by_name(role, others, self._taken), None))
        by_name = [name for name in self._profiles if name.startswith(TAG)]
        repeated = [
            name
            for name, profile in self._still_free(free).items()
            if profile.may_be_tag and not says_of_reply(name, profile)
        ]
        self._roles["tag"] = tuple(
            dict.fromkeys((*self._roles.get("tag", ()), *by_name, *repeated))
        )
        return TableRoles(
            "predictions",
            _filled(self._roles),
            form,
            tuple(self._doubts),
            rows=rows,
            profiles=self._profiles,
        )

    def _settle_reply(self, free: Mapping[str, ColumnProfile], *, is_gold_known: bool) -> None:
        """Give the role to the column of replies; of several fields of one name, to the first, and note the doubt."""
        names = reply_columns(free, is_gold_known=is_gold_known)
        alike = self._alike(free, names) if "reply" not in self._given else []
        doubt = rivalry("reply", (*names, *alike), "be the replies") if alike else None
        self._settle("reply", (names, doubt))

    def _alike(self, columns: Iterable[str], names: Sequence[str]) -> list[str]:
        """The other columns that are fields of the same name as the first of some: `0.0.pred`, `0.2.pred`."""
        if not names or "." not in names[0]:
            return []
        last = names[0].rpartition(".")[2]
        return [name for name in columns if name != names[0] and name.rpartition(".")[2] == last]

    def _settle_surest(self, role: str, outcome: tuple[tuple[str, ...], Doubt | None]) -> None:
        """Give a role to its column; of several that may have it, to the first, and note the doubt."""
        names, doubt = outcome
        if doubt is not None:
            names = tuple(doubt.choices[0].split(" + "))
        self._settle(role, (names, doubt))

    @property
    def _are_options_unnamed(self) -> bool:
        """Whether a column with lists is taken for options for nothing but these."""
        options = self._roles["options"]
        return (
            len(options) == 1
            and not name_score("options", options[0])
            and "options" not in self._given
        )

    def _pictures(self, free: Mapping[str, ColumnProfile]) -> tuple[tuple[str, ...], Doubt | None]:
        """The columns of pictures: by what cells look like, or else since they name files that are there."""
        names, doubt = picture_columns(free)
        likely = doubt.choices if doubt else names
        if any(name in free and not free[name].is_url for name in likely):
            return names, doubt
        files = PictureFinder(self._path.parent)
        by_name = {
            name: profile
            for name, profile in free.items()
            if name_score("picture", name) and profile.is_scalar
        }
        cells = {name: list(profile.texts)[:100] for name, profile in by_name.items()}
        there = {
            name: name_score("picture", name) + files.share(texts)
            for name, texts in cells.items()
            if len(texts) > 1 and files.share(texts) > FITTING
        }
        return ((max(there, key=lambda name: there[name]),), None) if there else (names, doubt)

    def _check_names(self, unused: Sequence[str]) -> None:
        """Note a column that is nearly called what nothing is."""
        usual = {
            "context": ("context", "hint"),
            "group": ("group",),
            "answer": ("answer",),
            "picture": ("image",),
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
        """How many rows there are, and how their answers name options; the role is given on the way."""
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
            # a list of something else
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
        """The column whose cells name options of their rows."""
        if "answer" in columns:
            return ("answer",), None
        name_scores = {name: name_score("answer", name) for name in columns}
        fitting = {
            name: column
            for name, column in columns.items()
            if (column.fit if name_scores[name] else column.fit_in_words * (column.rows > 1))
            > FITTING
        }
        best = {name: column for name, column in fitting.items() if name_scores[name]} or fitting
        numbers = tuple(
            name for name, column in columns.items() if column.rows > 1 and column.fit == 1
        )
        if not best and numbers and not any(score > PARTLY for score in name_scores.values()):
            return (), Doubt("answer", numbers, "no column is called like answers")
        if not best:
            by_name = sorted(
                (name for name in columns if name_scores[name] > PARTLY),
                key=lambda name: -name_scores[name],
            )
            return tuple(by_name[:1]), None
        ranked = sorted(best, key=lambda name: (-name_scores[name], name))
        first = best[ranked[0]]
        rivals = [name for name in ranked[1:] if not _agree(first, best[name])]
        return (
            ((), rivalry("answer", (ranked[0], *rivals), "be the answer"))
            if rivals
            else ((ranked[0],), None)
        )

    def _form(self, column: AnswerColumn) -> AnswerForm:
        if self._answer_is:
            return self._answer_is
        # Of one wrong cell, or where other rows fit, the reader names each row that is wrong.
        if column.rows > 1 and not column.fit and column.example:
            where, answer, options = column.example
            self._faults.append(
                f"{where}: the answers in {column.name!r} name no option: {as_text(answer)[:40]!r} beside "
                f"{', '.join(repr(option[:20]) for option in options[:4])}; say --column answer=NAME for another column"
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
        """The column of accepted texts, by its name."""
        if "answer" in candidates:
            return ("answer",), None
        scores = {name: score for name in candidates if (score := name_score("answer", name))}
        whole = {name: score for name, score in scores.items() if score > PARTLY}
        if len(whole or scores) > 1:
            names = sorted(whole or scores, key=lambda name: -scores[name])
            first, *others = names
            rivals = [name for name in others if free[name].texts != free[first].texts]
            return (
                ((), rivalry("answer", (first, *rivals), "be the answer"))
                if rivals
                else ((first,), None)
            )
        if scores:
            return tuple(whole or scores), None
        likely = [
            name for name in candidates if free[name].is_scalar and not free[name].is_repeated
        ]
        if likely:
            why = "no column is called like answers"
            return (), Doubt("answer", tuple(likely), why)
        return (), None

    def _check_open(self, columns: Sequence[ColumnProfile]) -> None:
        """Note answers that are letters, as if there were options."""
        for texts in (profile.texts for profile in columns):
            if len(texts) > 1 and all(
                len(text) == 1 and text.upper() in LETTERS[:8] for text in texts
            ):
                self._faults.append(
                    f"{self._path}: the answers in {columns[0].name!r} are letters, and no column holds options; say "
                    "--column options=NAME, once for each column"
                )

    # --- annotations ---

    def _annotations(
        self, free: Mapping[str, ColumnProfile], *, with_questions: bool
    ) -> TableRoles:
        question_columns = tuple(
            name for name in self._roles.get("question", ()) if _asks(free.get(name))
        )
        for role in ("options", "question", "distractors"):
            self._roles.pop(role, None)
        self._doubts = [doubt for doubt in self._doubts if doubt.role == "picture"]
        rows = max(profile.filled for profile in free.values())
        remaining = self._still_free(
            {name: p for name, p in free.items() if p.filled >= RARELY * rows}
        )
        if with_questions and question_columns and "questions" not in self._given:
            self._roles["questions"] = question_columns
            remaining.pop(question_columns[0])
            self._settle(
                "answer",
                self._open_answer(free, [name for name in remaining if remaining[name].is_scalar]),
            )
            remaining = self._still_free(remaining)
        self._settle("box", (box_columns(remaining), None))
        remaining = self._still_free(remaining)
        for role, fits in _FITTING_ANNOTATIONS.items():
            scores = {
                n: score
                for n, p in remaining.items()
                if fits(p) and (score := name_score(role, n)) > PARTLY
            }
            if scores and role not in self._roles:
                self._roles[role] = (max(scores, key=lambda name: scores[name]),)
                remaining.pop(self._roles[role][0])
        if not self._roles.get("questions"):
            is_described = any(self._roles.get(role) for role in OF_ANNOTATIONS if role != "box")
            self._settle("label", label_column(remaining, only_sure=is_described))
            remaining = self._still_free(remaining)
        further = [
            name for name in remaining if name_score("caption", name) and remaining[name].words > 2
        ]  # caption_2 ...
        self._roles["caption"] = (*self._roles.get("caption", ()), *further)
        self._settle("id", (id_column(remaining, ()), None))
        remaining = self._still_free(remaining)
        self._entries(remaining, or_else=with_questions)
        roles = _filled(self._roles)
        kind = "annotations" if roles.keys() & set(OF_ANNOTATIONS) else ""
        count = sum(1 for _ in self._rows())
        return TableRoles(
            kind, roles, doubts=tuple(self._doubts), rows=count, profiles=self._profiles
        )

    def _entries(self, remaining: Mapping[str, ColumnProfile], *, or_else: bool) -> None:
        """Give what is left: an object with keys, attributes, and where nothing else is said of the pictures and
        `or_else` says so, short texts as entries of a form."""
        objects = {name.partition(".")[0] for name in remaining if "." in name}
        keyed = [name for name in usual_names()["fields"] if name in objects or name in remaining]
        if keyed:
            self._roles.setdefault("fields", (keyed[0],))
            remaining = {
                name: profile
                for name, profile in remaining.items()
                if name.partition(".")[0] != keyed[0]
            }
        is_said = any(self._roles.get(role) for role in OF_ANNOTATIONS)
        attributes = (
            attribute_columns(remaining)
            if (is_said or or_else) and not self._roles.get("box")
            else ()
        )
        texts = tuple(
            n for n, profile in remaining.items() if n not in attributes and profile.has_short_texts
        )
        self._roles.setdefault("attributes", attributes)
        if or_else and not is_said:
            self._roles.setdefault("fields", texts)


_FITTING_ANNOTATIONS: dict[str, Callable[[ColumnProfile], bool]] = {
    "objects": lambda profile: profile.boxes > 0.5 or name_score("objects", profile.name) == 1,
    "relations": lambda profile: profile.lists > 0.5,
    "texts": lambda profile: profile.lists > 0.5 or profile.is_text,
    "questions": lambda profile: profile.lists > 0.5,
    "caption": lambda profile: profile.is_text or profile.lists > 0.5,
}
"""What cells look like that a column's name says to hold annotations, the plainest first."""


_VERDICTS = frozenset(("true", "false", "1", "0", "1.0", "0.0", "yes", "no"))


def _may_be_answers(profile: ColumnProfile) -> bool:
    """Whether a column of a table of predictions may hold right answers, by its name.

    `correct` may also say of each reply whether it is right, and `model_answer` what the model answered.
    """
    score = name_score("answer", profile.name)
    if not score or profile.messages > 0.5 or profile.completions > 0.5:
        return False
    holds_verdicts = profile.is_scalar and all(
        text.casefold() in _VERDICTS for text in profile.texts
    )
    if is_verdict(profile.name) and (holds_verdicts or score <= PARTLY):
        return False
    return score > PARTLY or not reply_score(profile.name, profile)


def _asks(profile: ColumnProfile | None) -> bool:
    """Whether a column holds questions rather than any text: by its marks, or by its name."""
    return profile is not None and (
        profile.questions > 0.2 or name_score("question", profile.name) > ITS_NAME
    )


RARELY = 0.05
"""A column that fewer of the rows have than this says nothing of the pictures."""
ITS_NAME = 0.97
"""The score of the surest names."""


def _agree(first: AnswerColumn, second: AnswerColumn) -> bool:
    """Whether two columns name the same options, each in its own form."""
    return any(
        first.meant[first_form] == second.meant[second_form]
        for first_form in _forms(first)
        for second_form in _forms(second)
    )


def _forms(column: AnswerColumn) -> list[str]:
    return [form for form in column.forms() if form in column.meant]
