"""Predictions in tables of any layout: the columns that `snellen build` knows, and the replies of a model.

What a column holds is recognised by its name and its cells, as for a table of questions (`recognition`), so whatever
`build` reads is read alike here. Rows that cannot be used are left out, counted and named.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import DataError
from snellen.formats.containers import unfolded
from snellen.formats.delimited import LETTERS
from snellen.formats.rows import (
    SHEET,
    SourceRow,
    flat_record,
    listed,
    read_rows,
    row_suffix,
    text_encoding,
)
from snellen.interchange.predictions.joining import ROTATION_STEP
from snellen.interchange.predictions.rows import (
    HALF_PAIRS,
    LONGEST_PATH,
    Findings,
    PredictedRow,
    PredictionFile,
    gold_places,
    is_empty_cell,
    listed_options,
)
from snellen.readers.table import (
    TableColumns,
    TableSource,
    has_option_columns,
    option_texts_of,
    read_answer,
)
from snellen.recognition.columns import (
    SEVERAL,
    Doubt,
    as_text,
    folded_name,
    is_name_of_reply,
    reply_score,
)
from snellen.recognition.tables import (
    MESSAGES,
    PROMPTS,
    TableRoles,
    accepted_texts,
    prediction_roles,
)

TABLE = "table"
"""The name of this form, for `--as`."""
TITLE = "a table of predictions"
MOSTLY = 0.9
MOST_NAMED = 12
"""Columns that an error names."""
EXECUTIONS = frozenset(("execution", "execution_result", "exec_result", "executed"))
"""Names of columns with what programs gave that a model wrote as replies."""
HIDDEN = frozenset(("hidden", "unknown", "?"))
"""What files write in place of a right answer that they do not have."""


_CODE = re.compile(r"^\s*(?:```|def |import |from \w+ import |print\(|\w+ = )", re.MULTILINE)
"""What a line of a program begins with."""


_DEFINES = re.compile(r"^def \w+\(.*\).*:\s*$", re.MULTILINE)


class TableReading(Struct, frozen=True):
    """How a table of predictions is read."""

    path: Path
    roles: TableRoles
    rows: tuple[SourceRow, ...]
    notes: tuple[str, ...] = ()
    is_joined: bool = False
    """Whether the rows are joined to a benchmark, which checks their options and has the right answers."""
    is_reply_given: bool = False
    """Whether the user named the column of replies."""


def recognise_predictions(
    path: Path,
    columns: Mapping[str, Sequence[str]] | None = None,
    answer_is: str = "",
    *,
    is_gold_known: bool = False,
) -> TableReading:
    """Read a file's rows and find what its columns are.

    Args:
        path: A file in any format that `build` reads, also packed with gzip.
        columns: The columns of roles that the user states, by role.
        answer_is: How answers name options, if the user states it.
        is_gold_known: Whether right answers are known from a benchmark, so that the file need not have them.

    Raises:
        DataError: The file cannot be read, or no column holds replies.
    """
    encoding = text_encoding(path)
    rows = [
        replaced for row in read_rows(path, encoding, as_stored=True) for replaced in _unfolded(row)
    ]
    roles = prediction_roles(path, rows, columns or {}, answer_is, is_gold_known=is_gold_known)
    if not roles.profiles:
        raise DataError(roles.faults[0] if roles.faults else f"{path}: it has no rows")
    if not roles.roles.keys() & {"reply", MESSAGES}:
        raise DataError(f"{path}: {_without_replies(path, roles)}")
    notes = [f"read in the encoding {encoding}"] if encoding else []
    if row_suffix(path) == SHEET:
        formulas = sum(_is_formula(cell) for row in rows for cell in row.cells.values())
        notes += [f"cells that are formulas, taken as their text: {formulas:,}"] if formulas else []
    notes += [_doubt_note(roles, doubt) for doubt in roles.doubts if doubt.role in roles.roles]
    is_reply_given = "reply" in (columns or {})
    return TableReading(path, roles, tuple(rows), tuple(notes), is_gold_known, is_reply_given)


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith("=") and len(cell) > 1


def _unfolded(row: SourceRow) -> Iterator[SourceRow]:
    """Yield a row, or a row for each question that it holds in a list."""
    records = unfolded(row.cells, _has_reply)
    if len(records) == 1 and records[0] is row.cells:
        yield row
        return
    for record in records:
        yield row._replace(cells=flat_record(dict(record)))


def _has_reply(fields: Iterable[str]) -> bool:
    return any(is_name_of_reply(name) for name in fields)


def _without_replies(path: Path, roles: TableRoles) -> str:
    names = list(roles.profiles)
    shown = ", ".join(map(repr, names[:MOST_NAMED])) + (", ..." if len(names) > MOST_NAMED else "")
    command = f"snellen score {path}"
    if any(folded_name(name) in ("answer", "answers") for name in names):
        return (
            f"its answers may be replies or right answers, and no other column holds the other; there are {shown}; if "
            f"they are replies: {command} --benchmark BENCHMARK"
        )
    unnamed = (
        f"no column is recognised as the replies of a model; there are {shown}; name it: {command} --column "
        "reply=NAME"
    )
    has_questions = {"question", "answer"} <= roles.roles.keys()
    return f"{unnamed}; or build the questions: snellen build {path}" if has_questions else unnamed


def _doubt_note(roles: TableRoles, doubt: Doubt) -> str:
    chosen = " + ".join(roles.roles[doubt.role])
    others = [choice for choice in doubt.choices if choice != chosen]
    return f"{doubt.why}; {chosen!r} is taken, and --column {doubt.role}={others[0] if others else 'NAME'} takes another"


# --- rows -----------------------------------------------------------------------------------------------------------------


def read_predictions(reading: TableReading) -> list[PredictionFile]:
    """Return the predictions of a table: one file for each model whose replies it holds."""
    path, roles = reading.path, reading.roles.roles
    reply_columns = roles.get("reply", ())
    by_column = reply_columns if len(reply_columns) > 1 else ("",)
    models = _models(reading)
    files: list[PredictionFile] = []
    for column in by_column:
        reader = _RowReader(reading, column or (reply_columns[0] if reply_columns else ""))
        rows_by_model: dict[str, list[PredictedRow]] = defaultdict(list)
        for row in reading.rows:
            model = _cell_text(row.cells.get(models)) if models else ""
            rows_by_model[column or model].extend(reader.predicted(row))
        for model, rows in rows_by_model.items():
            presentations = any(row.presentation for row in rows)
            recorded = _recorded_verdicts(rows, next(iter(roles.get("verdict", ())), ""))
            files.append(
                PredictionFile(
                    rows=tuple(_with_base_ids(_without_placeholders(rows))),
                    repeats=presentations,
                    title=path.name.removesuffix(".gz").rpartition(".")[0] or path.stem,
                    model=model,
                    notes=(*reading.notes, *reader.notes, *reader.findings.notes(), *recorded),
                )
            )
    if not any(file.rows for file in files):
        reasons = "; ".join(note for file in files for note in file.notes) or "it is empty"
        raise DataError(f"{path}: no row can be used ({reasons})")
    return files


def _recorded_verdicts(rows: Sequence[PredictedRow], column: str) -> list[str]:
    """A note of the share that a file itself calls right, if it says so of nearly all its rows."""
    verdicts = [row.verdict for row in rows if row.verdict is not None]
    if not verdicts or len(verdicts) < MOSTLY * len(rows):
        return []
    share = sum(verdicts) / len(verdicts)
    return [
        f"the file's own verdicts, in {column!r}: {share:.1%} of {len(verdicts):,} right; if that differs from the "
        "number here, `snellen reconcile FILE RUN` says why"
    ]


def _models(reading: TableReading) -> str:
    """The column with names of models, if it names some; empty otherwise."""
    columns = reading.roles.roles.get("model", ())
    return columns[0] if columns else ""


def _without_placeholders(rows: Sequence[PredictedRow]) -> Sequence[PredictedRow]:
    """The rows without prompts that are the same for all of them, and so say nothing of their questions."""
    prompts = {row.prompt for row in rows}
    if len(rows) < 2 or len(prompts) > 1 or not all(row.id and not row.question for row in rows):
        return rows
    return [replace(row, prompt="") for row in rows]


def _with_base_ids(rows: Sequence[PredictedRow]) -> list[PredictedRow]:
    """The rows, in which rotations of a question, as CircularEval's files number them, have the id of their base row."""
    questions = {row.id: row.question for row in rows if row.id}
    result: list[PredictedRow] = []
    for row in rows:
        base = _base_id(row.id) if row.options else row.id
        is_rotation = base != row.id and row.question and questions.get(base) == row.question
        result.append(replace(row, id=base) if is_rotation else row)
    return result


def _base_id(index: str) -> str:
    return str(int(index) % ROTATION_STEP) if index.isdecimal() else index


class _RowReader:
    """Makes predictions of rows; what is wrong with rows that are left out is counted in `findings`."""

    def __init__(self, reading: TableReading, reply: str) -> None:
        self.findings = Findings()
        self.notes: list[str] = []
        roles = reading.roles.roles
        by_role: dict[str, Any] = {
            role: names if role in SEVERAL else names[0]
            for role, names in roles.items()
            if role in TableColumns.__struct_fields__
        }
        columns = TableColumns(**{"question": "", **by_role})
        self._columns = columns
        self._roles = roles
        self._reply = reply
        self._is_joined = reading.is_joined
        self._source = TableSource(
            columns,
            frozenset(),
            roles.get("picture", ()),
            roles.get("options", ()),
            reading.roles.answer_is,
        )
        self._letters = _letters_of_golds(reading.rows, columns.answer, self._source)
        if of_programs := self._results_of_programs(reading):
            self._reply = of_programs
            self.notes.append(
                f"the replies in {reply!r} are programs, so what they gave is read, in {of_programs!r}"
            )
        self._repeats_prompts = self._are_prompts_repeated(reading)
        if self._repeats_prompts:
            self.notes.append("the replies repeat their prompts; what follows these is read")
        if self._letters and (extracted := self._extracted_letters(reading)):
            # Texts of options are not known, so a letter can hardly be told in a long reply.
            self._reply = extracted
            self.notes.append(
                f"the file has no options, so the letters in {extracted!r} are read, and not whole replies"
            )

    def _results_of_programs(self, reading: TableReading) -> str:
        """The column with the answers of replies that are programs and were run; empty if there are none."""
        if reading.is_reply_given:
            return ""
        results = [name for name in reading.roles.profiles if folded_name(name) in EXECUTIONS]
        if results and _share_of(reading, self._reply, _has_code) > 0.5:
            return self._named("reading") or results[0]
        if not _are_programs(reading, self._reply):
            return ""
        others = [
            name
            for name, profile in reading.roles.profiles.items()
            if name != self._reply
            and reply_score(name, profile)
            and not _are_programs(reading, name)
        ]
        if others:
            return max(others, key=lambda name: _share_of(reading, name, _is_letter))
        if self._columns.answer and not _are_programs(reading, self._columns.answer):
            raise DataError(
                f"{reading.path}: the replies in {self._reply!r} are programs, and no column has what they gave; if one "
                f"has: snellen score {reading.path} --column reply=NAME"
            )
        return ""

    def _are_prompts_repeated(self, reading: TableReading) -> bool:
        """Whether nearly all replies begin with their prompts, as those of Hugging Face's `generate` do."""
        if not self._reply:
            return False
        repeating = 0
        for row in reading.rows:
            asked = _Asked(row.cells, self._roles)
            [reply, *_] = replies_in_cell(row.cells.get(self._reply)) or ("",)
            repeating += len(_without_prompt(reply, asked)) < len(reply)
        return repeating > MOSTLY * len(reading.rows)

    def _extracted_letters(self, reading: TableReading) -> str:
        """The column with letters that a harness read in the replies; empty if there is none, or prompts list options."""
        column = self._named("reading")
        rows = [row for row in reading.rows if column and row.cells.get(column)]
        if not rows or "prompt" in self._roles or "question" in self._roles:
            return ""
        letters = sum(bool(_letter_of(_cell_text(row.cells[column]))) for row in rows)
        return column if letters > MOSTLY * len(reading.rows) else ""

    def predicted(self, row: SourceRow) -> Iterator[PredictedRow]:
        """Yield a prediction for each reply of a row; none for a row that cannot be used."""
        if row.holds_half_pair:
            self.findings.add(HALF_PAIRS, row.where)
        elif row.fault:
            self.findings.add("rows left out, that cannot be read", row.where)
            return
        cells = row.cells
        asked = _Asked(cells, self._roles)
        row_id = _whole(_cell_text(cells.get(self._columns.id))) if self._columns.id else ""
        name = row_id or _place(row)
        try:
            shown = self._options(cells, asked, row.where)
        except DataError:
            self.findings.add("rows left out, with options that cannot be used", name)
            return
        options, labels = shown.options, shown.labels
        gold, references, fault = self._answer(cells, shown, row.where)
        if fault and not self._is_joined:
            self.findings.add(f"rows left out, {fault}", name)
            return
        replies = replies_in_cell(cells.get(self._reply)) if self._reply else asked.replies
        if references and _is_letter("".join(replies)) and self._lists_options(asked):
            self.findings.add(LISTED_APART, name)
            return
        if self._repeats_prompts:
            replies = tuple(_without_prompt(reply, asked) for reply in replies)
        pictures = _picture_names(cells, self._source.pictures)
        tags = {
            folded_name(column): _cell_text(cells[column])
            for column in self._roles.get("tag", ())
            if column in cells
        }
        for number, reply in enumerate(replies or ("",)):
            yield PredictedRow(
                where=_place(row),
                id=row_id,
                presentation=number if len(replies) > 1 else None,
                question=asked.question,
                prompt=asked.prompt,
                context=_cell_text(cells.get(self._columns.context)),
                options=options,
                labels=labels,
                lists_options=shown.are_listed,
                gold=gold,
                references=references,
                reply=None if is_empty_cell(reply, (*options, *references)) else reply,
                picture=pictures,
                group=_cell_text(cells.get(self._columns.group)),
                tags=tags,
                verdict=_verdict(cells.get(self._named("verdict"))),
                reading=self._reading(cells),
                judge=_cell_text(cells.get(self._named("judge"))),
                decoding=_decoding(cells),
            )

    def _named(self, role: str) -> str:
        """The column of a role that one column has; empty if none has it."""
        return next(iter(self._roles.get(role, ())), "")

    def _reading(self, cells: Mapping[str, Any]) -> str | None:
        column = self._named("reading")
        if not column or column not in cells:
            return None
        return _cell_text(cells[column])

    def _options(self, cells: Mapping[str, Any], asked: _Asked, where: str) -> ShownOptions:
        """The options of a row: in columns, in a list, listed in its prompt, or letters alone."""
        if self._source.options:
            if has_option_columns(self._source):
                if self._is_joined:
                    return ShownOptions(_cells_to_last(cells, self._source.options))
                return _option_cells(cells, self._source.options)
            return ShownOptions(option_texts_of(cells, self._source, where))
        in_prompt = listed_options(asked.prompt) or listed_options(asked.question)
        if in_prompt and (not self._columns.answer or self._names_one_of(cells, in_prompt)):
            return ShownOptions(in_prompt)
        if wrong := _distractors(cells, self._columns):
            return ShownOptions((_cell_text(cells.get(self._columns.answer)), *wrong))
        answer = as_text(_one(cells.get(self._columns.answer, ""))).strip()
        is_hidden = not answer or answer.casefold() in HIDDEN
        if self._letters and (is_hidden or _letter_of(answer)):
            texts = tuple(f"option {letter}" for letter in self._letters)
            return ShownOptions(texts, self._letters)
        return ShownOptions(())

    def _lists_options(self, asked: _Asked) -> bool:
        """Whether a prompt lists three options or more, so that a letter as a reply is one of them."""
        listed = listed_options(asked.prompt) or listed_options(asked.question)
        return not self._is_joined and len(listed) > 2

    def _names_one_of(self, cells: Mapping[str, Any], listed: Sequence[str]) -> bool:
        """Whether a row's answer is a letter, or one of the options that its prompt lists."""
        answer = as_text(_one(cells.get(self._columns.answer)))
        return bool(gold_places(answer, listed))

    def _answer(
        self, cells: Mapping[str, Any], shown: ShownOptions, where: str
    ) -> tuple[tuple[int, ...], tuple[str, ...], str]:
        """The right options, the references, and why the row cannot be used; all may be empty."""
        written = cells.get(self._columns.answer) if self._columns.answer else None
        answer = _one(written)
        if answer is None or answer == "" or as_text(answer).strip().casefold() in HIDDEN:
            return (), (), ""
        options = shown.options
        if not options and self._letters and isinstance(answer, list):
            return (), (), "with several right options"
        if not options:
            try:
                _, references = read_answer(cells, (), self._source, where)
            except DataError:
                return (), (), "whose answer names an option that they do not have"
            return (), references, ""
        if isinstance(answer, list):
            places = gold_places(as_text(written), options, shown.labels)  # an option in brackets
            return places, (), "" if places else "with several right options"
        text = as_text(answer)
        if self._letters or shown.has_gap or not self._source.options:
            places = gold_places(text, options, shown.labels)
        else:
            try:
                places, _ = read_answer(cells, options, self._source, where)
            except DataError:
                places = gold_places(text, options, shown.labels)
        return places, (), "" if places else "whose right answer is none of their options"


def _are_programs(reading: TableReading, column: str) -> bool:
    """Whether most cells of a column are programs in Python."""
    return _share_of(reading, column, _is_program) > 0.5


def _share_of(reading: TableReading, column: str, fits: Callable[[str], bool]) -> float:
    """The share of the rows whose first reply in a column fits."""
    if not column:
        return 0.0
    fitting = 0
    for row in reading.rows:
        [reply, *_] = replies_in_cell(row.cells.get(column)) or ("",)
        fitting += fits(reply)
    return fitting / len(reading.rows)


def _has_code(reply: str) -> bool:
    return _CODE.search(reply) is not None


def _is_program(reply: str) -> bool:
    """Whether a reply is a program: it defines a function, or is several lines that Python can parse."""
    if _DEFINES.search(reply):
        return True
    if not _has_code(reply) or "\n" not in reply.strip():
        return False
    try:
        ast.parse(reply)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


class ShownOptions(Struct, frozen=True):
    """The options of a row in the order shown, with the labels before them; without labels letters in order."""

    options: tuple[str, ...]
    labels: tuple[str, ...] = ()
    are_listed: bool = True
    """Whether the model was shown them."""

    @property
    def has_gap(self) -> bool:
        """Whether a letter is missing, as an empty cell before a filled one leaves it."""
        return bool(self.labels) and self.labels != tuple(ascii_uppercase[: len(self.labels)])


def _option_cells(cells: Mapping[str, Any], columns: Sequence[str]) -> ShownOptions:
    """The options in columns of their own; empty cells are skipped, and the letters of the others stay."""
    filled = [
        (place, as_text(cells[name]))
        for place, name in enumerate(columns)
        if cells.get(name, "") != ""
    ]
    options = tuple(text for _, text in filled)
    has_gap = [place for place, _ in filled] != list(range(len(filled)))
    labels = tuple(LETTERS[place] for place, _ in filled) if has_gap else ()
    return ShownOptions(options, labels)


def _cells_to_last(cells: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    """The cells of options up to the last that is filled; a spreadsheet may have emptied one before it."""
    filled = (place for place, name in enumerate(columns, 1) if cells.get(name, "") != "")
    count = max(filled, default=0)
    return tuple(as_text(cells.get(name, "")) for name in columns[:count])


def _distractors(cells: Mapping[str, Any], columns: TableColumns) -> tuple[str, ...]:
    names = (columns.distractors,) if isinstance(columns.distractors, str) else columns.distractors
    return tuple(text for name in names if name in cells for text in accepted_texts(cells[name]))


def _letters_of_golds(
    rows: Sequence[SourceRow], column: str, source: TableSource
) -> tuple[str, ...]:
    """The letters up to the last that is a right answer, where answers are letters and no column holds options."""
    if not column or source.options:
        return ()
    golds: Counter[str] = Counter()
    for row in rows:
        cell = row.cells.get(column)
        if cell is not None and cell != "" and as_text(cell).casefold() not in HIDDEN:
            golds[_letter_of(as_text(_one(cell)))] += 1
    letters = {letter for letter in golds if letter and letter in LETTERS[:10]}
    in_letters = sum(golds[letter] for letter in letters)
    is_lettered = len(letters) > 1 and 2 * in_letters > golds.total()
    return tuple(LETTERS[: LETTERS.index(max(letters)) + 1]) if is_lettered else ()


_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\]]?[.:]?")
LISTED_APART = "rows left out, whose right answer is none of the options in their prompt"
_LETTER_AND_TEXT = re.compile(r"[(\[]?([A-Z])[)\].:]\s*\S.*", re.DOTALL)


def _is_letter(text: str) -> bool:
    return bool(_LETTER.fullmatch(text.strip()))


def _letter_of(text: str) -> str:
    """The letter that an answer is, or that is before its text (`A. a cat`); empty for another text."""
    match = _LETTER.fullmatch(text.strip()) or _LETTER_AND_TEXT.fullmatch(text.strip())
    return match[1].upper() if match else ""


def _one(cell: Any) -> Any:
    """The only value of a list of one, also of one that is written as a text; any other cell as it is."""
    values = listed(cell) if isinstance(cell, str) and cell.strip().startswith("[") else cell
    if not isinstance(values, list):
        return cell
    return values[0] if len(values) == 1 else values


class _Asked:
    """What a row asked: its question, and all that the model was shown, where the file has it."""

    def __init__(self, cells: Mapping[str, Any], roles: Mapping[str, Sequence[str]]) -> None:
        [question_column] = roles.get("question", ("",))[:1] or ("",)
        [prompt_column] = roles.get("prompt", ("",))[:1] or ("",)
        question, prompt = (
            _cell_text(cells.get(question_column)),
            _cell_text(cells.get(prompt_column)),
        )
        if question and folded_name(question_column) in PROMPTS and not prompt:
            question, prompt = "", question
        self.replies: tuple[str, ...] = ()
        messages = cells.get(roles[MESSAGES][0]) if MESSAGES in roles else None
        if isinstance(messages, list):
            user, assistant = _turns(messages)
            self.replies = assistant[-1:]
            if not (question or prompt) and user:
                prompt = user[-1]
        self.question, self.prompt = question, prompt


LONG_PROMPT = 40
"""Characters: shorter questions are repeated by replies in their own words."""


def _without_prompt(reply: str, asked: _Asked) -> str:
    """What follows the prompt in a reply that begins with it, a few marks of turns apart."""
    prompt = (asked.prompt or asked.question).strip()
    place = reply.find(prompt) if len(prompt) >= LONG_PROMPT else -1
    if not 0 <= place <= LONG_PROMPT:
        return reply
    return reply[place + len(prompt) :]


def _turns(messages: Sequence[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the user and what the assistant said in a conversation, in order."""
    user: list[str] = []
    assistant: list[str] = []
    for number, message in enumerate(messages):
        if isinstance(message, str):  # said in turn
            (assistant if number % 2 else user).append(message)
            continue
        role = str(message.get("role") or message.get("from") or "")
        content = message.get("content", message.get("value"))
        text = "\n".join(replies_in_cell(content))
        if role in ("assistant", "gpt", "model"):
            assistant.append(text)
        elif role in ("user", "human"):
            user.append(text)
    return tuple(user), tuple(assistant)


def replies_in_cell(cell: Any) -> tuple[str, ...]:
    """Return the replies in a cell: a text, several texts, a service's completions, or the end of a conversation."""
    if cell is None:
        return ()
    if isinstance(cell, dict):
        for name in ("content", "text", "message", "answer", "response", "value"):
            if name in cell:
                return replies_in_cell(cell[name])
        return ()
    if not isinstance(cell, list):
        return (as_text(cell),)
    if not cell:
        return ()
    if isinstance(cell[0], dict):
        if "role" in cell[0] or "from" in cell[0]:
            _, assistant = _turns(cell)
            return assistant[-1:]
        if "type" in cell[0]:
            parts = [
                part.get("text", "") for part in cell if part.get("type") in ("text", "output_text")
            ]
            return ("\n".join(map(str, parts)),)
    return tuple(reply for value in cell for reply in replies_in_cell(value))


def _cell_text(cell: Any) -> str:
    """A cell as text; empty for a missing one, an image, and a list of anything but one text."""
    value = _one(cell)
    if value is None or isinstance(value, (list, dict, bytes)) or hasattr(value, "read"):
        return ""
    return as_text(value).strip()


_RIGHT = {
    "true": 1.0,
    "yes": 1.0,
    "correct": 1.0,
    "right": 1.0,
    "false": 0.0,
    "no": 0.0,
    "wrong": 0.0,
    "incorrect": 0.0,
}
_DECODING = ("temperature", "top_p", "max_tokens", "max_new_tokens", "num_beams", "seed")


def _verdict(cell: Any) -> float | None:
    """What a file says of a reply as a number from 0 to 1; None for anything else."""
    text = _cell_text(cell).casefold()
    if text in _RIGHT:
        return _RIGHT[text]
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def _decoding(cells: Mapping[str, Any]) -> str:
    """The settings of decoding that a row has, in a fixed order."""
    by_name = {folded_name(name.rpartition(".")[2]): cell for name, cell in cells.items()}
    stated = [f"{name}={_cell_text(by_name[name])}" for name in _DECODING if name in by_name]
    return ", ".join(stated)


def _picture_names(cells: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The names of a row's images; empty where the cells hold the images themselves."""
    names: list[str] = []
    for column in columns:
        cell = cells.get(column)
        values = cell if isinstance(cell, list) else [cell]
        for value in values:
            if isinstance(value, dict):
                value = value.get("path") or value.get("url")
            text = _cell_text(value)
            if text and len(text) <= LONGEST_PATH:
                names.append(text)
    return " ".join(names)


def _whole(index: str) -> str:
    """`5.0`, as pandas writes a column of whole numbers with a hole, as `5`."""
    whole = index.removesuffix(".0")
    return whole if whole.isdecimal() else index


def _place(row: SourceRow) -> str:
    noun = "record" if ": record " in row.where else "line"
    return f"{noun} {row.number}"
